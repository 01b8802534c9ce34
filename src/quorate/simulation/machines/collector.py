"""The garbage collector: what is left of an object's dependents goes once all their owners are gone."""

from __future__ import annotations

from quorate.simulation.engine.apiserver import Change
from quorate.simulation.engine.objects import Stored
from quorate.simulation.engine.world import World

WHO = "garbage-collector"


class Collector:
    """Background deletion by owner references. Objects whose owners never existed go too, a moment after they came."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._random = world.random("collector")
        world.management.subscribe(self._told)

    def _told(self, change: Change) -> None:
        if change.after is None:
            self._world.after(self._random.uniform(0.05, 1.0), self._collect, change.object.uid)
        elif change.before is None and change.object.metadata.get("ownerReferences"):
            self._world.after(self._random.uniform(1.0, 5.0), self._check, change.object.uid)

    def _collect(self, owner: str) -> None:
        for dependent in self._world.management.dependents(owner):
            self._check(dependent.uid)

    def _check(self, uid: str) -> None:
        found = self._world.management.by_uid(uid)
        if found is not None and not found.deleting and self._orphaned(found):
            self._world.management.delete(found.kind, *found.key, who=WHO, uid=uid)

    def _orphaned(self, stored: Stored) -> bool:
        owners = stored.metadata.get("ownerReferences") or ()
        return bool(owners) and all(self._world.management.by_uid(owner["uid"]) is None for owner in owners)
