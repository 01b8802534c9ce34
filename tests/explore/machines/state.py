"""One state of a whole installation: the objects of the management cluster, and the plant.

The objects are what the API server stores, so that whatever quorate keeps there is part of the state without anybody listing it. Time is patient: between two
moves so much of it passes that no grace period is left; what matters of moments is only their order.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import msgspec

from quorate.core.machines.rules.orphans import CONSENT
from quorate.simulation.engine.patches import merge_patch
from tests.explore.machines.plant import Plant

Json = dict[str, Any]
Key = tuple[str, str, str]  # plural, namespace, name
Objects = Mapping[Key, Json]

NAMESPACE, NAME = "default", "demo"
NOW, LONG_AGO = "2026-01-01T12:00:00Z", "2025-12-31T12:00:00Z"
CONTROL_PLANES, MACHINES, CONFIGS, INFRASTRUCTURE, CLUSTERS = (
    "kubeadmcontrolplanes",
    "machines",
    "kubeadmconfigs",
    "devmachines",
    "clusters",
)
CONTROL_PLANE = (CONTROL_PLANES, NAMESPACE, NAME)
CLUSTER = (CLUSTERS, NAMESPACE, NAME)
CHANGING = (CONTROL_PLANES, MACHINES, CONFIGS, INFRASTRUCTURE, CLUSTERS)
"""Kinds of which no two states need have the same objects."""


@dataclass(frozen=True, slots=True)
class State:
    """One state. `backup` is what a restore of the management cluster brings back."""

    objects: Objects
    plant: Plant
    backup: Objects = field(default_factory=dict, compare=False)
    version: int = 1000  # of the newest object
    stopped: State | None = None  # what a process saw that decided on it, was stopped, and may go on: another one is in charge since

    @property
    def control_plane(self) -> Json:
        """The KubeadmControlPlane."""
        return self.objects[CONTROL_PLANE]

    @property
    def machines(self) -> list[Json]:
        """The Machines, oldest first."""
        found = [obj for (plural, *_), obj in self.objects.items() if plural == MACHINES]
        return sorted(found, key=lambda obj: (obj["metadata"]["creationTimestamp"], obj["metadata"]["name"]))

    def find(self, plural: str, name: str) -> Json | None:
        """One object."""
        return self.objects.get((plural, NAMESPACE, name))

    def changed(self, plural: str, name: str, patch: Json) -> State:
        """With one object merged with a patch by somebody else."""
        key = (plural, NAMESPACE, name)
        new = merge_patch(self.objects[key], patch)
        new["metadata"] = {**new["metadata"], "resourceVersion": str(self.version + 1)}
        return replace(self, objects={**self.objects, key: new}, version=self.version + 1)

    def without(self, *keys: Key) -> State:
        """Without these objects."""
        return replace(self, objects={key: obj for key, obj in self.objects.items() if key not in keys}, version=self.version + 1)

    def at(self, plant: Plant) -> State:
        """With another plant."""
        return replace(self, plant=plant)

    def unused_id(self) -> int:
        """An id for a new member: etcd never gives one twice, and some are written down that are in no ring any more."""
        consented = {int(member, 16) for member in _consent(self.control_plane).split(",") if member}
        seen = {member.id for member in self.stopped.plant.members} if self.stopped else set()
        return self.plant.unused_id(consented | seen)

    @property
    def identity(self) -> bytes:
        """Equal for states that nobody could tell apart."""
        digest = hashlib.blake2b(digest_size=16)
        for key in sorted(key for key in self.objects if key[0] in CHANGING):
            digest.update("/".join(key).encode())
            digest.update(_essence(self.objects[key]))
        digest.update(repr(self.plant).encode())
        digest.update(self.stopped.identity if self.stopped else b"")
        return digest.digest()

    @property
    def names(self) -> frozenset[str]:
        """Every name that a machine has, had or is about to have, as far as anything shows it."""
        of_objects = {key[2] for objects in (self.objects, self.backup) for key in objects}
        of_plant = {host.name for host in self.plant.hosts} | {member.host for member in self.plant.members} | set(self.plant.nodes)
        return frozenset(of_objects | of_plant | {_intended(self.control_plane)})


def settled(state: State) -> State:
    """The state once time has passed: moments keep their order and lie long ago."""
    objects = dict(state.objects)
    for moment, base in (("creationTimestamp", "2025-12-30T08"), ("deletionTimestamp", "2025-12-30T09")):
        stamped = [key for key in objects if key[0] == MACHINES and moment in objects[key]["metadata"]]
        stamped.sort(key=lambda key: (objects[key]["metadata"][moment], key))
        for rank, key in enumerate(stamped):
            _restamp(objects, key, moment, f"{base}:{rank:02}:00Z")
    for key in [key for key in objects if key[0] in CHANGING]:
        annotations = objects[key]["metadata"].get("annotations") or {}
        if any(NOW in str(value) for value in annotations.values()):
            aged = {name: value.replace(NOW, LONG_AGO) for name, value in annotations.items()}
            objects[key] = {**objects[key], "metadata": {**objects[key]["metadata"], "annotations": aged}}
    return replace(state, objects=objects)


def _restamp(objects: dict[Key, Json], key: Key, moment: str, stamp: str) -> None:
    obj = objects[key]
    if obj["metadata"][moment] != stamp:
        objects[key] = {**obj, "metadata": {**obj["metadata"], moment: stamp}}


_ESSENCES: dict[int, tuple[Json, bytes]] = {}


def _essence(obj: Json) -> bytes:
    """An object but for its version and its managed fields. Objects are never changed in place and are shared between states, so most are known."""
    known = _ESSENCES.get(id(obj))
    if known is not None and known[0] is obj:
        return known[1]
    metadata = {name: value for name, value in obj["metadata"].items() if name not in ("resourceVersion", "managedFields", "generation")}
    text = msgspec.json.encode({**obj, "metadata": metadata}, order="deterministic")
    if len(_ESSENCES) > 200_000:
        _ESSENCES.clear()
    _ESSENCES[id(obj)] = obj, text
    return text


@lru_cache(maxsize=4096)
def _name_in(intent: str) -> str:
    return str(msgspec.json.decode(intent).get("name", "")) if intent else ""


def _consent(control_plane: Json) -> str:
    return str((control_plane["metadata"].get("annotations") or {}).get(CONSENT, ""))


def _intended(control_plane: Json) -> str:
    return _name_in((control_plane["metadata"].get("annotations") or {}).get("quorate.dev/creating", ""))
