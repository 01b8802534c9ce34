"""The manager's observation and decision for `quorate explain`, `get` and `plan`. Writes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from random import SystemRandom
from typing import Any

from quorate.clusterapi.act import addons
from quorate.clusterapi.connect.caches import Caches
from quorate.clusterapi.connect.clients import Clients
from quorate.clusterapi.connect.workloads import EtcdDialer, Workloads, network_setup
from quorate.clusterapi.extensions.registry import Found, NotConfigured, find
from quorate.clusterapi.observe.observation import Observation
from quorate.clusterapi.observe.observer import Edit, Observer
from quorate.clusterapi.observe.rings import Rings
from quorate.clusterapi.observe.specification import Specifications
from quorate.clusterapi.observe.updates import AsReported
from quorate.clusterapi.types.names import FeatureGate
from quorate.clusterapi.types.resources import EXTENSION_CONFIGS
from quorate.core.machines.decide import Decision, decide
from quorate.kubernetes.client import Client, connect
from quorate.kubernetes.config import RestConfig
from quorate.kubernetes.controller import Request
from quorate.kubernetes.expectations import Expectations
from quorate.kubernetes.reflector import TROUBLE
from quorate.kubernetes.resource import NAMESPACES
from quorate.kubernetes.tasks import sole

SYNC_TIMEOUT = 20.0
"""Seconds until the management cluster must have answered; a person is waiting."""


class NotAnswering(Exception):
    """The management cluster could not be read in time; the message says what it answered last."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One control plane as it is, and what would be done next; no decision while it has no Cluster."""

    observation: Observation
    decision: Decision | None


class Inspector:
    """Looks at control planes. `changed` gets the key of every control plane that something has changed of; each look may be repeated at will.

    `now` is aware.
    """

    def __init__(self, observer: Observer, caches: Caches, changed: asyncio.Queue[Request], now: Callable[[], datetime]) -> None:
        self._observer, self._caches, self._now = observer, caches, now
        self.changed = changed

    def control_planes(self, namespace: str = "") -> list[Request]:
        """All control planes of a namespace ("" for all), by name."""
        found = [Request(kcp.metadata.namespace, kcp.metadata.name) for kcp in self._caches.kcps.items()]
        return sorted(request for request in found if not namespace or request.namespace == namespace)

    async def look(self, request: Request, edit: Edit | None = None) -> Finding | None:
        """One look, as it is or as it would be after an edit; None where there is no such control plane.

        The first look at a cluster may come before it is connected: look again on `changed`.
        """
        observation = await self._observer.observe(request, edit)
        if observation is None:
            return None
        if observation.view is None:
            return Finding(observation, None)
        preparation, following = await addons.foreseen(
            self._observer.clients, observation, self._now()
        )  # the manager's memory cannot be asked
        view = replace(observation.view, preparation=preparation, addons=following)
        return Finding(replace(observation, view=view), decide(view, self._now()))


class _Changes:
    """A work queue's face for a reader: every key is passed on."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[Request] = asyncio.Queue()

    def add(self, key: Request, *, priority: int = 0) -> None:  # noqa: ARG002 (the queue's signature)
        self.queue.put_nowait(key)


@asynccontextmanager
async def inspecting(config: RestConfig, *, namespace: str = "", etcd_dialer: EtcdDialer) -> AsyncIterator[Inspector]:
    """Connect, fill the caches, and lend an Inspector. Raises NotAnswering, and ValueError where the kubeconfig's certificates are malformed."""
    client = connect(config)
    try:
        async with asyncio.TaskGroup() as tasks:
            inspector, background = _wire(client, namespace, etcd_dialer, await _extension(client, namespace))
            running = [tasks.create_task(part) for part in background.coroutines()]
            try:
                await background.synced()
                yield inspector
            finally:
                for task in running:
                    task.cancel()
    except BaseExceptionGroup as errors:
        raise sole(errors) from None
    finally:
        await client.close()


@dataclass(frozen=True, slots=True)
class _Background:
    caches: Caches
    workloads: Workloads

    def coroutines(self) -> list[Coroutine[Any, Any, None]]:
        parts = [reflector.run() for reflector in self.caches.reflectors]
        return [*parts, self.caches.foreign.run(), self.workloads.run()]

    async def synced(self) -> None:
        try:
            async with asyncio.timeout(SYNC_TIMEOUT):
                for reflector in self.caches.reflectors:
                    await reflector.synced.wait()
        except TimeoutError:
            errors = {str(reflector.last_error) for reflector in self.caches.reflectors if reflector.last_error}
            raise NotAnswering(
                f"the management cluster did not answer within {SYNC_TIMEOUT:g} s: {'; '.join(sorted(errors)) or 'no answer'}"
            ) from None


async def _extension(client: Client, namespace: str) -> Found:
    """Who is asked about updates in place in a namespace, as far as whoever looks may know."""
    nobody = NotConfigured("nobody says so")
    if not namespace:
        return nobody
    try:
        configs = await client.list(EXTENSION_CONFIGS)
        labels = (await client.get(NAMESPACES, namespace)).metadata.labels if configs.items else {}
    except TROUBLE:
        return nobody
    return find(configs.items, namespace, labels)


def _wire(client: Client, namespace: str, etcd_dialer: EtcdDialer, extension: Found) -> tuple[Inspector, _Background]:
    random, changes = SystemRandom(), _Changes()
    caches = Caches(client, changes, random, namespace=namespace)
    clock = asyncio.get_running_loop().time
    workloads = Workloads(caches, client, network_setup(etcd_dialer, now=_now, random=random, clock=clock))
    clients = Clients(client, caches, workloads, Expectations(changes.add))
    every = Specifications(frozenset(FeatureGate))  # which are on is the manager's to say, and it does, in a condition
    return Inspector(
        Observer(clients, _now, changes.add, Rings(clock), every, AsReported(caches.kcps.get, extension)), caches, changes.queue, _now
    ), _Background(caches, workloads)


def _now() -> datetime:
    return datetime.now(UTC)
