"""Watches an environment and calls the invariants for every event that they speak of."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from quorate.simulation.engine.apiserver import Change
from quorate.simulation.engine.journal import Removal
from quorate.simulation.engine.objects import CONTROL_PLANES, LEASES, MACHINES, Json, Stored
from quorate.simulation.machines.environment import Environment
from quorate.simulation.machines.invariants import ON_ACT, ON_REMOVAL, READING_LASTS, Act, one_leader
from quorate.simulation.machines.knowledge import Knowledge, Notes, is_paused
from quorate.simulation.machines.process import Process


@dataclass(frozen=True, slots=True)
class Violation:
    """One invariant that did not hold, and when."""

    invariant: str
    at: float  # seconds since the world began
    text: str

    def __str__(self) -> str:
        return f"{self.invariant} at {self.at:.3f} s: {self.text}"


class InvariantChecker:
    """Collects what was violated. `checks` counts how often an invariant was asked."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._notes: dict[str, Notes] = defaultdict(Notes)  # by process
        self._replaced: list[tuple[float, Json]] = []  # specifications that are in force no more, and until when they were
        self.violations: list[Violation] = []
        self.checks = 0
        environment.on_removal.append(self._removal)
        environment.on_start.append(self._follow)
        environment.world.management.subscribe(self._changed)

    def report(self, invariant: str, text: str) -> None:
        """Something was violated now."""
        violation = Violation(invariant, self._environment.world.time(), text)
        self._environment.world.trace.add("invariant_checker", str(violation))
        self.violations.append(violation)

    def _follow(self, process: Process) -> None:
        caches = process.parts.caches

        notes = self._notes[process.name]

        def look() -> None:
            now = self._environment.world.time()
            control_planes, clusters = caches.kcps.items(), caches.clusters.items()
            paused = bool(control_planes) and is_paused(control_planes[0], clusters[0] if clusters else None)
            notes.paused_since = (notes.paused_since if notes.paused_since is not None else now) if paused else None

        def look_at_machines() -> None:
            for machine in caches.machines.items():
                if machine.metadata.deletion_timestamp is not None:
                    notes.leaving_since.setdefault(machine.metadata.name, self._environment.world.time())

        caches.kcps.subscribe(look)
        caches.clusters.subscribe(look)
        caches.machines.subscribe(look_at_machines)

    def _removal(self, removal: Removal) -> None:
        control_plane = self._environment.control_plane
        if control_plane is None or control_plane.deleting:
            return
        for invariant in ON_REMOVAL:
            self.checks += 1
            if problem := invariant(self._environment, removal):
                self.report(invariant.__name__, problem)

    def _judge_leaders(self) -> None:
        self.checks += 1
        if problem := one_leader(self._environment):
            self.report(one_leader.__name__, problem)

    def _changed(self, change: Change) -> None:
        if change.kind is CONTROL_PLANES and change.before is not None and change.before.spec != change.object.spec:
            self._replaced.append((self._environment.world.time(), change.before.spec))
        if change.kind is LEASES:
            self._judge_leaders()
        if change.kind is not MACHINES or change.after is None:
            return
        process = next((process for process in self._environment.processes if process.name == change.who), None)
        if process is None or _only_status(change.before, change.after):
            return
        notes = self._notes[process.name]
        lately = [spec for until, spec in self._replaced if process.ran_since(until) < READING_LASTS]
        knowledge = Knowledge(self._environment, process, notes, lately)
        act = Act(process.name, change.after, change.before, knowledge, late=process.management.late)
        for invariant in ON_ACT:
            self.checks += 1
            if problem := invariant(self._environment, act):
                self.report(invariant.__name__, problem)
        if change.after.deleting and (change.before is None or not change.before.deleting):
            notes.deleted.add(change.after.name)


def _only_status(before: Stored | None, after: Stored) -> bool:
    return before is not None and _without_status(before) == _without_status(after)


def _without_status(stored: Stored) -> dict[str, object]:
    metadata = {name: value for name, value in stored.metadata.items() if name != "resourceVersion"}
    return {**{name: value for name, value in stored.obj.items() if name != "status"}, "metadata": metadata}
