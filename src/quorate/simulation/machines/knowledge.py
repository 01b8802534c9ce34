"""What one process could know at an instant, from its caches, beside what is true: invariants blame it for no more than that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from quorate.clusterapi.types.names import Annotation, Hook
from quorate.simulation.engine.objects import Json, Stored
from quorate.simulation.engine.outdated import differences
from quorate.simulation.engine.world import NAMESPACE
from quorate.simulation.machines.cluster_objects import NAME
from quorate.simulation.machines.environment import Environment
from quorate.simulation.machines.process import Process


@dataclass(slots=True)
class Notes:
    """What a process has learned, and when."""

    paused_since: float | None = None
    leaving_since: dict[str, float] = field(default_factory=dict)  # by Machine
    deleted: set[str] = field(default_factory=set)  # Machines that it deleted itself


class Knowledge:
    """The knowledge of `process` now. `notes` were taken while it learned; `lately` are the specifications that a step under way may have been decided by."""

    def __init__(self, environment: Environment, process: Process, notes: Notes, lately: Sequence[Json]) -> None:
        self._environment, self._process, self._notes, self._lately = environment, process, notes, lately

    @property
    def paused_for(self) -> float | None:
        """For how many seconds of its own it has known that everything is paused."""
        since = self._notes.paused_since
        return self._process.ran_since(since) if since is not None else None

    @property
    def initialized(self) -> bool:
        """Whether the control plane was ever called initialized, whatever its status has come to say, and is to live."""
        control_plane = self._environment.control_plane
        return self._environment.initialized and control_plane is not None and not control_plane.deleting

    @property
    def reading(self) -> float | None:
        """When its last reading of the ring was begun; None where it changed the ring since, or never read it."""
        return self._process.journal.reading

    @property
    def ours(self) -> list[Stored]:
        """The control plane's Machines, in truth."""
        control_plane = self._environment.control_plane
        return [m for m in self._environment.machines if control_plane is not None and m.owned_by(control_plane.uid)]

    @property
    def known_leaving(self) -> list[Stored]:
        """Machines that wait to be let go, of which the process knew when it began its last reading of the ring; those that it deleted itself above all."""
        reading = self.reading if self.reading is not None else 0.0
        known = {name for name, at in self._notes.leaving_since.items() if at <= reading} | self._notes.deleted
        return [
            machine for machine in self.ours if machine.deleting and Hook.PRE_TERMINATE in machine.annotations and machine.name in known
        ]

    @property
    def desired(self) -> tuple[int, int]:
        """Replicas and surge: the greater of what is asked for and what the process has read of it."""
        asked = [_size(spec) for spec in self._specs()]
        return max(replicas for replicas, _ in asked), max(surge for _, surge in asked)

    def reasons_to_go(self, environment: Environment, machine: Stored) -> list[str]:
        """Why a Machine may be sent away, by the specification as it is or as the process has read it."""
        control_plane = environment.control_plane
        if control_plane is None or control_plane.deleting:
            return ["the control plane goes"]
        reasons = ["it is to be remediated"] if failed_health_check(machine) else []
        reasons += ["its owner asked for it"] if Annotation.DELETE_MACHINE in machine.annotations else []
        staying = [m for m in self.ours if not m.deleting or m.uid == machine.uid]
        for spec in self._specs():
            if len(staying) > _size(spec)[0]:
                reasons.append("there are more than desired")
            reasons += differences(environment.world.management, spec, machine, max(self._process.now(), environment.world.now()))
        return reasons

    def reasons_to_come(self, machine: Stored) -> list[str]:
        """Why a Machine may be made, by the others as they are and by a specification that was in force when that was decided."""
        others = [other for other in self.ours if other.uid != machine.uid]
        staying = [other for other in others if not other.deleting]
        reasons = [f"{other.name} leaves" for other in others if other.deleting]
        reasons += [f"{other.name} is to be remediated" for other in staying if failed_health_check(other)]
        now = max(self._process.now(), self._environment.world.now())
        for spec in (*self._specs(), *self._lately):
            if len(staying) < _size(spec)[0]:
                reasons.append("there are fewer than desired")
            reasons += [text for other in staying for text in differences(self._environment.world.management, spec, other, now)]
        return reasons

    def _specs(self) -> list[Json]:
        """The specification as it is, and as the process has read it."""
        control_plane = self._environment.control_plane
        specs = [control_plane.spec] if control_plane is not None else []
        read = self._process.parts.caches.kcps.get(NAMESPACE, NAME)
        return specs + ([msgspec.to_builtins(read.spec)] if read is not None else [])


def is_paused(control_plane: Any, cluster: Any) -> bool:
    """Whether a control plane and its Cluster, as a cache has them, are paused."""
    paused = control_plane is not None and Annotation.PAUSED in control_plane.metadata.annotations
    return paused or (cluster is not None and bool(cluster.spec.paused))


def failed_health_check(machine: Stored) -> bool:
    """Whether a health check failed the Machine and left it to its owner."""
    return all(machine.condition(kind).get("status") == "False" for kind in ("HealthCheckSucceeded", "OwnerRemediated"))


def _size(spec: Json) -> tuple[int, int]:
    rolling = ((spec.get("rollout") or {}).get("strategy") or {}).get("rollingUpdate") or {}
    return spec.get("replicas") or 1, rolling.get("maxSurge", 1)
