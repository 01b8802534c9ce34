"""The loop that keeps the webhooks' certificates: whatever of the Secret or of what the API server is told changes, it decides anew."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from datetime import datetime
from random import Random
from typing import Any

import structlog

from quorate.clusterapi.api.webhooks import SERVICE
from quorate.clusterapi.webhook_certificates import secret as stored
from quorate.clusterapi.webhook_certificates import trust
from quorate.clusterapi.webhook_certificates.pairs import StoredPairs
from quorate.clusterapi.webhook_certificates.state import Policy, Step, decide
from quorate.kubernetes.client import Client
from quorate.kubernetes.controller import Controller, Request, Result
from quorate.kubernetes.handlers import Enqueue
from quorate.kubernetes.metrics import Metrics
from quorate.kubernetes.objects import Secret
from quorate.kubernetes.queue import WorkQueue
from quorate.kubernetes.reflector import Reflector
from quorate.kubernetes.resource import SECRETS
from quorate.kubernetes.store import Store

CONTROLLER = "webhook-certificates"
_FIRST_RETRY, _LONGEST_RETRY = 0.2, 30.0  # seconds
POLICY = Policy()
_LOOK_AGAIN = 60.0  # seconds, for a replica that does not lead, so that it begins when it does

_log = structlog.get_logger(__name__)


class Keeper:
    """Makes and renews the certificates in the Secret of `namespace`, and has the API server trust them, as long as `acts` says that it is its turn.

    `pairs` hear what this replica is to present. Needs a running event loop. Two that act at once harm nothing: each write of the Secret is guarded by what
    was read.
    """

    def __init__(
        self,
        client: Client,
        namespace: str,
        pairs: StoredPairs,
        *,
        random: Random,
        now: Callable[[], datetime],
        acts: Callable[[], bool],
        metrics: Metrics,
        policy: Policy = POLICY,
    ) -> None:
        self._pairs = pairs
        self._client, self._namespace, self._now, self._acts, self._policy = client, namespace, now, acts, policy
        host = f"{SERVICE}.{namespace}.svc"
        self._names = frozenset((host, f"{host}.cluster.local"))
        self._request = Request(namespace, stored.NAME)
        self._queue: WorkQueue[Request] = WorkQueue(CONTROLLER, random, base_delay=_FIRST_RETRY, max_delay=_LONGEST_RETRY, metrics=metrics)
        self._secrets: Store[Secret] = Store()
        self._tellers = [(place, Store[Any]()) for place in trust.PLACES]
        self.reflectors: tuple[Reflector[Any], ...] = tuple(self._reflectors(random))
        self._controller = Controller(
            CONTROLLER, self.reconcile, self._queue, random, concurrency=1, caches=self.reflectors, metrics=metrics
        )

    async def run(self) -> None:
        """Keep them until cancelled, while the reflectors run."""
        self._queue.add(self._request)
        await self._controller.run(asyncio.Event())

    async def reconcile(self, _: Request) -> Result:
        """One look: tell the API server what to trust, and take the next step, if any."""
        if not self._acts():
            return Result(_LOOK_AGAIN)
        found = self._secrets.get(self._namespace, stored.NAME)
        data = found.data if found else {}
        now = self._now()
        decision = decide(stored.read(data, self._told()), self._names, now, self._policy)
        if decision.trusted:
            await self._tell(decision.trusted)
        if decision.step:
            await self._take(decision.step, found, data, now)
            return Result()  # the watch brings what was written
        return Result((decision.wake_at - now).total_seconds() if decision.wake_at else None)

    def _told(self) -> Iterator[frozenset[bytes]]:
        for place, store in self._tellers:
            if (item := store.get("", place.name)) is not None:
                yield from trust.told(item)

    async def _tell(self, trusted: tuple[bytes, ...]) -> None:
        for place, store in self._tellers:
            item = store.get("", place.name)
            if item is not None and await trust.tell(self._client, place, item, trusted):
                _log.info("the API server is told which CAs to trust", kind=place.resource.kind, name=place.name, authorities=len(trusted))

    async def _take(self, step: Step, found: Secret | None, data: stored.Data, now: datetime) -> None:
        written = stored.after(step, data, self._names, now, self._policy)
        metadata = {"name": stored.NAME, "namespace": self._namespace}
        if found is None:
            body = {"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "metadata": metadata, "data": written}
            await self._client.create(SECRETS, body, self._namespace)
        else:
            patch = {"metadata": {"resourceVersion": found.metadata.resource_version}, "data": written}
            await self._client.merge_patch(SECRETS, stored.NAME, patch, self._namespace)
        _log.info("webhook certificates", step=step.value, secret=f"{self._namespace}/{stored.NAME}")

    def _reflectors(self, random: Random) -> Iterator[Reflector[Any]]:
        wake: Enqueue[Any] = Enqueue(self._queue, lambda _: (self._request,))

        def named(name: str) -> str:
            return f"metadata.name={name}"

        yield Reflector(
            self._client,
            SECRETS,
            self._secrets,
            random=random,
            namespace=self._namespace,
            field_selector=named(stored.NAME),
            handlers=(self._pairs, wake),
        )
        for place, store in self._tellers:
            yield Reflector(self._client, place.resource, store, random=random, field_selector=named(place.name), handlers=(wake,))
