"""Carrying out one step: one write each, guarded by what was read, so that it may be repeated after a crash at any point."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from quorate.clusterapi.takeover import journal as journals
from quorate.clusterapi.takeover.cluster import LEASES, SECRETS, ManagementCluster
from quorate.clusterapi.takeover.journal import Record
from quorate.clusterapi.takeover.kinds import DEPLOYMENT, KINDS
from quorate.clusterapi.takeover.observe import Observation, form_of
from quorate.core.takeover.state import Journal, Key, Side
from quorate.core.takeover.steps import Begin, Delete, Finish, FreeLease, Put, Step, Stop, Turn
from quorate.kubernetes.client import Client
from quorate.kubernetes.errors import AlreadyExists, Conflict, NotFound

FIELD_MANAGER = "quorate-takeover"


@dataclass(frozen=True, slots=True)
class Actor:
    """Carries steps out in one management cluster, whose providers live in `namespace`. `now` is aware."""

    cluster: ManagementCluster
    namespace: str
    now: Callable[[], datetime]

    @property
    def _client(self) -> Client:
        return self.cluster.client

    async def perform(self, step: Step, seen: Observation) -> None:
        """One step. Raises Conflict where somebody has changed what it is about since it was read: look again, then."""
        match step:
            case Begin():
                await self._begin(seen)
            case Turn(toward, reason):
                await self._turn(seen, toward, reason)
            case Put(key, both):
                await self._put(seen, key, both=both)
            case Delete(key):
                await self._delete(seen, key)
            case Stop(key):
                version = seen.found[key]["metadata"]["resourceVersion"]
                await self._patch(DEPLOYMENT.resource, key, {"metadata": {"resourceVersion": version}, "spec": {"replicas": 0}})
            case FreeLease():
                await self._free_lease(seen)
            case Finish():
                await self._finish(seen)

    async def _begin(self, seen: Observation) -> None:
        goal = seen.view.goal
        sides = {seen.coming.side: seen.coming, seen.leaving.side: seen.leaving}
        record = Record(Journal(goal, self.now()), sides[Side.UPSTREAM], sides[Side.QUORATE])
        body = {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": journals.TYPE,
            "metadata": {"name": journals.NAME, "namespace": self.namespace},
            "data": journals.data(record),
        }
        try:
            await self._client.create(SECRETS, body, self.namespace, field_manager=FIELD_MANAGER)
        except AlreadyExists as error:
            raise Conflict(str(error)) from error

    async def _turn(self, seen: Observation, toward: Side, reason: str) -> None:
        if seen.record is None:
            return
        journal = Journal(toward, self.now(), reason)
        changed = journals.state(journal)
        if toward is seen.coming.side and seen.coming is not seen.record.of(
            toward
        ):  # given on the command line, in place of what was saved
            given = {Side.UPSTREAM: "upstream", Side.QUORATE: "quorate"}[toward]
            changed = journals.data(replace(seen.record, journal=journal, **{given: seen.coming}))
        await self._write_down(seen, changed)

    async def _finish(self, seen: Observation) -> None:
        """Where upstream's provider is back, nothing is kept: what was saved is what is there, and would be stale some day."""
        if seen.record is None or seen.secret is None:
            return
        if seen.record.journal.toward is Side.UPSTREAM:
            metadata = seen.secret["metadata"]
            await self._client.delete(
                SECRETS, journals.NAME, self.namespace, uid=metadata["uid"], resource_version=metadata["resourceVersion"]
            )
            return
        await self._write_down(seen, journals.state(replace(seen.record.journal, done=True)))

    async def _write_down(self, seen: Observation, data: dict[str, str]) -> None:
        if seen.secret is not None:
            patch = {"metadata": {"resourceVersion": seen.secret["metadata"]["resourceVersion"]}, "data": data}
            await self._client.merge_patch(SECRETS, journals.NAME, patch, self.namespace, field_manager=FIELD_MANAGER)

    async def _put(self, seen: Observation, key: Key, *, both: bool) -> None:
        resource, current = KINDS[key.kind].resource, seen.found.get(key)
        body = form_of(key, current, seen.coming, seen.leaving, both=both)
        if current is not None:
            await self._client.replace(resource, body, key.namespace, field_manager=FIELD_MANAGER)
            return
        try:
            await self._client.create(resource, body, key.namespace, field_manager=FIELD_MANAGER)
        except AlreadyExists as error:
            raise Conflict(str(error)) from error

    async def _delete(self, seen: Observation, key: Key) -> None:
        metadata = seen.found[key]["metadata"]
        try:
            await self._client.delete(
                KINDS[key.kind].resource, key.name, key.namespace, uid=metadata["uid"], resource_version=metadata["resourceVersion"]
            )
        except NotFound:
            return

    async def _free_lease(self, seen: Observation) -> None:
        """As its holder would have done at its end, if it is still as it was seen for all that time."""
        if seen.lease is not None:
            metadata = seen.lease["metadata"]
            patch = {
                "metadata": {"resourceVersion": metadata["resourceVersion"]},
                "spec": {"holderIdentity": "", "leaseDurationSeconds": 1},
            }
            await self._client.merge_patch(LEASES, metadata["name"], patch, metadata["namespace"], field_manager=FIELD_MANAGER)

    async def _patch(self, resource: Any, key: Key, patch: dict[str, Any]) -> None:
        await self._client.merge_patch(resource, key.name, patch, key.namespace, field_manager=FIELD_MANAGER)
