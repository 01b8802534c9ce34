"""Write a report: the status of the control plane and the conditions of its Machines, each only where it differs from what is there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

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


@dataclass(frozen=True, slots=True)
class Change(Generic[T]):
    """What is to be written into the status of an object as it is known to be. `is_news`: it is more than the wording of conditions, and of which generation
    each is.
    """

    resource: Resource[T]
    of: T
    status: dict[str, Any]  # a merge patch
    is_news: bool
    patch: Callable[[T], dict[str, Any]]  # makes the same for another state of the object; empty where nothing is to be written


class Publisher:
    """Writes reports through merge patches that fail when the object has changed since it was read, and are then made anew from its newest state."""

    def __init__(self, client: Client, caches: Caches) -> None:
        self._client, self._caches = client, caches
        self.newest = caches.newest

    def changes(self, kcp: KubeadmControlPlane, report: Report) -> list[Change[Any]]:
        """What is stored otherwise than it is reported, of the control plane and its Machines as they are known to be; of what the caches have lost nothing."""
        found: list[Change[Any] | None] = []
        for name, conditions in report.machine_conditions.items():
            machine = self._caches.machines.get(kcp.metadata.namespace, name)
            if machine is not None and machine.metadata.uid == conditions.uid:
                patch = partial(_machine_patch, conditions=conditions)
                found.append(_change(MACHINES, self.newest.of(machine), _machine_status, patch))
        cached = self._caches.kcps.get(kcp.metadata.namespace, kcp.metadata.name)
        if cached is not None and cached.metadata.uid == kcp.metadata.uid:
            patch_kcp = partial(_control_plane_patch, report=report)
            found.append(_change(KUBEADM_CONTROL_PLANES, self.newest.of(cached), _status_of, patch_kcp))
        return [change for change in found if change is not None]

    async def publish(self, changes: Iterable[Change[Any]]) -> None:
        """Write them, all at once."""
        async with asyncio.TaskGroup() as tasks:
            for change in changes:
                tasks.create_task(self._write(change))

    async def _write(self, change: Change[T]) -> None:
        resource, metadata, status = change.resource, change.of.metadata, change.status  # type: ignore[attr-defined]
        for attempt in range(_TRIES):
            body = {"metadata": {"resourceVersion": metadata.resource_version, "uid": metadata.uid}, "status": status}
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
            renewed = await self._read_again(resource, metadata)
            if renewed is None or not (status := change.patch(renewed)):
                return
            metadata = renewed.metadata  # type: ignore[attr-defined]

    def _is_held(self, resource: Resource[T], metadata: ObjectMeta) -> bool:
        store: Store[Any] = self._caches.machines if resource is MACHINES else self._caches.kcps
        cached = store.get(metadata.namespace, metadata.name)
        return cached is not None and cached.metadata.uid == metadata.uid

    async def _read_again(self, resource: Resource[T], metadata: ObjectMeta) -> T | None:
        """The object as it is now; None where it is gone, and so where another has taken its name."""
        try:
            found = await self._client.get(resource, metadata.name, metadata.namespace)
        except NotFound:
            return None
        return found if found.metadata.uid == metadata.uid else None  # type: ignore[attr-defined]


def _change(
    resource: Resource[T], stored: T, status_of: Callable[[T], dict[str, Any]], patch: Callable[[T], dict[str, Any]]
) -> Change[T] | None:
    """None where nothing is to be written."""
    if not (changes := patch(stored)):
        return None
    before = status_of(stored)
    return Change(resource, stored, changes, _without_wording(before) != _without_wording({**before, **changes}), patch)


def _control_plane_patch(kcp: KubeadmControlPlane, *, report: Report) -> dict[str, Any]:
    status = _status_of(kcp)
    return _difference(status, _merged(status, report.status))


def _machine_status(machine: Machine) -> dict[str, Any]:
    return {"conditions": [as_dict(condition) for condition in machine.status.conditions]}


def _machine_patch(machine: Machine, *, conditions: MachineConditions) -> dict[str, Any]:
    current = _machine_status(machine)["conditions"]
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
