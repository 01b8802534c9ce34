"""Write a report: the status of the control plane and the conditions of its Machines, each only where it differs from what is there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TypeVar

import msgspec

from quorate.clusterapi.connect.caches import Caches
from quorate.clusterapi.report import MachineConditions, Report, merge_conditions
from quorate.clusterapi.report.conditions import as_dict, legacy_as_dict
from quorate.clusterapi.report.lifecycle import STALLED
from quorate.clusterapi.types.kubeadm_control_plane import KubeadmControlPlane
from quorate.clusterapi.types.machine import Machine
from quorate.clusterapi.types.names import ControlPlaneCondition, FieldManager
from quorate.clusterapi.types.resources import KUBEADM_CONTROL_PLANES, MACHINES
from quorate.kubernetes.client import Client
from quorate.kubernetes.errors import Conflict, NotFound
from quorate.kubernetes.objects import ObjectMeta
from quorate.kubernetes.resource import Resource
from quorate.kubernetes.store import Store

T = TypeVar("T")

_TRIES = 5  # writers of the same status are few: the Machine controller, the health check, and us
_WORDING = frozenset({"message", "observedGeneration"})
_OWN = frozenset({*ControlPlaneCondition, STALLED})  # conditions of the control plane that nobody else writes


class Publisher:
    """Writes reports through merge patches that fail when the object has changed since it was read, and are then made anew from its newest state."""

    def __init__(self, client: Client, caches: Caches) -> None:
        self._client, self._caches = client, caches
        self.newest = caches.newest

    def is_news(self, kcp: KubeadmControlPlane, report: Report) -> bool:
        """Whether the report changes more than the wording of conditions: a status, a reason, a count."""
        cached = self._caches.kcps.get(kcp.metadata.namespace, kcp.metadata.name)
        if cached is None:
            return False
        machines = self._machines(kcp, report)
        return _is_news(self.newest.of(cached), report) or any(_is_news_of(machine, conditions) for machine, conditions in machines)

    async def publish(self, kcp: KubeadmControlPlane, report: Report, *, wording: bool = True) -> bool:
        """Make what is stored equal to the report; what equals it already is not written. Without `wording` an object of which no more than the wording of
        conditions would change stays as it is, and the answer is whether there was any.
        """
        left = False
        async with asyncio.TaskGroup() as tasks:
            for machine, conditions in self._machines(kcp, report):
                machine_patch = partial(_machine_patch, conditions=conditions)
                if wording or _is_news_of(machine, conditions):
                    tasks.create_task(self._write(MACHINES, machine, machine_patch))
                else:
                    left |= bool(machine_patch(machine))
            cached = self._caches.kcps.get(kcp.metadata.namespace, kcp.metadata.name)
            if cached is not None and cached.metadata.uid == kcp.metadata.uid:
                current, patch = self.newest.of(cached), partial(_control_plane_patch, report=report)
                if wording or _is_news(current, report):
                    tasks.create_task(self._write(KUBEADM_CONTROL_PLANES, current, patch))
                else:
                    left |= bool(patch(current))
        return left

    def _machines(self, kcp: KubeadmControlPlane, report: Report) -> Iterator[tuple[Machine, MachineConditions]]:
        """Those that the report is about, as they are known to be, each with what is to be said of it."""
        for name, conditions in report.machine_conditions.items():
            cached = self._caches.machines.get(kcp.metadata.namespace, name)
            if cached is not None and cached.metadata.uid == conditions.uid:
                yield self.newest.of(cached), conditions

    async def _write(self, resource: Resource[T], current: T, patch: Callable[[T], dict[str, Any]]) -> None:
        for attempt in range(_TRIES):
            metadata = current.metadata  # type: ignore[attr-defined]
            changes = patch(current)
            if not changes:
                return
            body = {"metadata": {"resourceVersion": metadata.resource_version, "uid": metadata.uid}, "status": changes}
            try:
                written = await self._client.merge_patch(
                    resource, metadata.name, body, metadata.namespace, subresource="status", field_manager=FieldManager.DEFAULT
                )
            except NotFound:
                return  # it went while we looked at it: nobody will read its status
            except Conflict:
                if attempt == _TRIES - 1:
                    raise
            else:
                if self._is_held(resource, metadata):  # or nobody would forget it
                    self.newest.remember(written)
                return
            renewed = await self._read_again(resource, current)
            if renewed is None:
                return
            current = renewed

    def _is_held(self, resource: Resource[T], metadata: ObjectMeta) -> bool:
        store: Store[Any] = self._caches.machines if resource is MACHINES else self._caches.kcps
        cached = store.get(metadata.namespace, metadata.name)
        return cached is not None and cached.metadata.uid == metadata.uid

    async def _read_again(self, resource: Resource[T], item: T) -> T | None:
        """The object as it is now; None where it is gone, and so where another has taken its name."""
        metadata = item.metadata  # type: ignore[attr-defined]
        try:
            found = await self._client.get(resource, metadata.name, metadata.namespace)
        except NotFound:
            return None
        return found if found.metadata.uid == metadata.uid else None  # type: ignore[attr-defined]


def _control_plane_patch(kcp: KubeadmControlPlane, *, report: Report) -> dict[str, Any]:
    status = _status_of(kcp)
    return _difference(status, _merged(status, report.status))


def _machine_patch(machine: Machine, *, conditions: MachineConditions) -> dict[str, Any]:
    current = [as_dict(condition) for condition in machine.status.conditions]
    legacy = [legacy_as_dict(condition) for condition in machine.status.deprecated.v1beta1.conditions]
    wanted, wanted_legacy = conditions.over(current), conditions.legacy_over(legacy)
    changes: dict[str, Any] = {}
    if wanted != current:
        changes["conditions"] = wanted
    if wanted_legacy != legacy:
        changes["deprecated"] = {"v1beta1": {"conditions": wanted_legacy}}
    return changes


def _status_of(kcp: KubeadmControlPlane) -> dict[str, Any]:
    """The stored status in the shape of a report."""
    status: dict[str, Any] = msgspec.to_builtins(kcp.status)
    status["conditions"] = [as_dict(condition) for condition in kcp.status.conditions]
    legacy = [legacy_as_dict(condition) for condition in kcp.status.deprecated.v1beta1.conditions]
    status["deprecated"] = {"v1beta1": {**status.get("deprecated", {}).get("v1beta1", {}), "conditions": legacy}}
    return status


def _merged(current: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
    """The report on top of a status that is newer than what it was made from: conditions of others stay, and so does the initialized latch (S3)."""
    others = [condition for condition in current["conditions"] if condition["type"] not in _OWN]
    ours = [condition for condition in wanted.get("conditions", []) if condition["type"] in _OWN]
    latch = {"initialization": current["initialization"]} if current.get("initialization") else {}
    return {**wanted, **latch, "conditions": merge_conditions(others, ours)}


def _difference(current: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
    """The merge patch from one to the other at the first level: fields are replaced whole, and what is not reported any more is cleared."""
    changed = {name: value for name, value in wanted.items() if current.get(name) != value}
    return changed | {name: None for name in current if name not in wanted}


def _without_wording(status: dict[str, Any]) -> dict[str, Any]:
    """A status without what its conditions say in words, the deprecated generation that repeats them, and of which generation of the object each is: a
    control plane's status has that once for all, and a Machine's generation changes three times while it comes up.
    """
    conditions = [{key: value for key, value in condition.items() if key not in _WORDING} for condition in status.get("conditions", [])]
    return {**{key: value for key, value in status.items() if key != "deprecated"}, "conditions": conditions}


def _is_news(kcp: KubeadmControlPlane, report: Report) -> bool:
    return _without_wording(_status_of(kcp)) != _without_wording(report.status)


def _is_news_of(machine: Machine, conditions: MachineConditions) -> bool:
    before = [as_dict(condition) for condition in machine.status.conditions]
    after = conditions.over(before)
    return _without_wording({"conditions": before}) != _without_wording({"conditions": after})
