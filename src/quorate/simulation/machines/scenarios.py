"""A stage for scenes written by hand: one environment with the provider in it, and what a scene needs to make things happen and to wait for what comes of them.

Where the simulation of a seed (`quorate.simulation.machines.simulation`) draws what goes wrong, a scene does one thing on purpose. The same invariants judge
both.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from quorate.clusterapi.report import merge_conditions
from quorate.simulation.engine.apiserver import timestamp
from quorate.simulation.engine.clock import VirtualTimeLoop
from quorate.simulation.engine.logs import unplanned_errors
from quorate.simulation.engine.objects import CLUSTERS, MACHINES, Json, Stored
from quorate.simulation.engine.ring import EtcdRing
from quorate.simulation.engine.world import NAMESPACE, World
from quorate.simulation.machines import liveness
from quorate.simulation.machines.cluster_objects import NAME, USER, Wanted
from quorate.simulation.machines.environment import Environment
from quorate.simulation.machines.hosts import Host
from quorate.simulation.machines.invariant_checker import InvariantChecker, Violation
from quorate.simulation.machines.process import Process

IN_TIME = 1800.0
"""Seconds within which a control plane must be as desired again: health checks, retries, and one machine after the other."""

_LOOK = 1.0


@dataclass(frozen=True, slots=True)
class Played:
    """What came of a scene: what was violated, and the end of the trace for whoever has to read why."""

    violations: tuple[Violation, ...]
    lines: tuple[str, ...]

    @property
    def broken(self) -> set[str]:
        """The names of what was violated."""
        return {violation.invariant for violation in self.violations}


class _Over(Exception):
    """Something was violated: what would come after says nothing any more."""


class Stage:
    """One environment, before its first machine. What a scene expects and does not find is a violation by the name of "scene", what never comes "liveness"."""

    def __init__(self, world: World, wanted: Wanted, tasks: asyncio.TaskGroup) -> None:
        self.world = world
        self.environment = Environment(world, wanted, tasks)
        self.invariant_checker = InvariantChecker(self.environment)
        self.kubeadm_failed: set[str] = set()  # hosts on which the scene has ended it

    # What is there.

    @property
    def ring(self) -> EtcdRing:
        """The etcd ring as it really is."""
        return self.environment.cluster.ring

    @property
    def process(self) -> Process:
        """The process of the provider that was started last."""
        return self.environment.processes[-1]

    @property
    def names(self) -> list[str]:
        """The Machines, oldest first."""
        return [machine.name for machine in sorted(self.environment.machines, key=lambda m: (m.metadata["creationTimestamp"], m.name))]

    @property
    def leader(self) -> str:
        """The Machine whose member leads."""
        host = self.environment.cluster.host_of(self.ring.leader)
        if host is None:
            raise AssertionError("nobody leads")
        return host.name

    def followers(self, count: int) -> list[str]:
        """So many Machines whose members do not lead, the oldest first."""
        return [name for name in self.names if name != self.leader][:count]

    def machine(self, name: str) -> Stored | None:
        """A Machine, or None."""
        return self.world.management.find(MACHINES, NAMESPACE, name)

    def host(self, name: str) -> Host:
        """What a Machine runs on."""
        return self.environment.cluster.hosts[name]

    def member(self, name: str) -> int:
        """The id of the member whose data is on a host."""
        member = self.host(name).member
        if member is None:
            raise AssertionError(f"{name} has no member")
        return member

    def condition(self, kind: str, machine: str = "") -> Json:
        """A condition of the control plane, or of a Machine; empty where there is none."""
        stored = self.machine(machine) if machine else self.environment.control_plane
        return stored.condition(kind) if stored is not None else {}

    # What happens.

    async def up(self) -> None:
        """The provider starts, and the control plane comes up; nobody but the scene judges health from then on."""
        self.environment.start()
        await self.settled()
        self.environment.health_check.worker.stopped = True

    def restart(self) -> None:
        """The provider dies at this instant, and is started again."""
        self.process.crash()
        self.environment.start()

    def let_health_check_judge(self) -> None:
        """The health check marks what is ill from now on."""
        self.environment.health_check.worker.stopped = False

    def mark(self, name: str) -> None:
        """A health check fails a Machine, and leaves it to its owner to replace it."""
        machine = self.world.management.get(MACHINES, NAMESPACE, name)
        failed = [
            {"type": kind, "status": "False", "reason": reason, "message": "", "lastTransitionTime": timestamp(self.world.now())}
            for kind, reason in (("HealthCheckSucceeded", "UnhealthyNode"), ("OwnerRemediated", "WaitingForRemediation"))
        ]
        conditions = merge_conditions(machine.status.get("conditions") or (), failed)
        status = {"status": {"conditions": conditions}}
        self.world.management.merge_patch(MACHINES, *machine.key, status, who="health-check", subresource="status")

    def destroy(self, name: str) -> None:
        """A host is gone for good, with everything on its disk; its objects stay."""
        self.environment.infrastructure.destroy(name)

    def power(self, name: str, *, on: bool) -> None:
        """A host is switched off, or on again with what is on its disk."""
        self.host(name).alive = on
        self.environment.kubelets.poke(self.host(name))

    def annotate_cluster(self, annotations: Json) -> None:
        """The user, or another controller, annotates the Cluster; None takes an annotation away."""
        self.world.management.merge_patch(CLUSTERS, NAMESPACE, NAME, {"metadata": {"annotations": annotations}}, who=USER)

    def at_next_boot(self, do: Callable[[Host], None], *, of: Callable[[Host], bool] = lambda _: True) -> None:
        """Once, when a host begins to boot."""

        def booted(host: Host) -> None:
            if of(host):
                self.environment.infrastructure.boots.remove(booted)
                do(host)

        self.environment.infrastructure.boots.append(booted)

    def break_kubeadm(self, when: Callable[[Host], bool]) -> Callable[[Host], None]:
        """For `at_next_boot`: kubeadm on that host ends as soon as `when` is true of it, and nobody runs it again."""

        def watch(host: Host) -> None:
            if when(host):
                self.environment.infrastructure.spoil(host.name)
                self.kubeadm_failed.add(host.name)
            elif host.alive and not host.joined:
                self.world.after(0.05, watch, host)

        return watch

    # What comes of it.

    def expect(self, truth: object, otherwise: str) -> None:
        """Something is so now; `otherwise` says what is wrong where it is not."""
        if not truth:
            self.invariant_checker.report("scene", otherwise)
        self._end_if_violated()

    async def until(self, truth: Callable[[], object], what: str, *, within: float = IN_TIME) -> None:
        """Wait until something is so."""
        end = self.world.time() + within
        while not truth():
            self._end_if_violated()
            if self.world.time() >= end:
                self.invariant_checker.report("liveness", f"{within:.0f} s were not enough: {what}")
            await asyncio.sleep(_LOOK)
        self._end_if_violated()

    async def settled(self, *, within: float = IN_TIME) -> None:
        """Wait until everything is as desired."""
        end = self.world.time() + within
        while problems := liveness.unfinished(self.environment):
            self._end_if_violated()
            if self.world.time() >= end:
                self.invariant_checker.report("liveness", f"it is not as desired after {within:.0f} s: {'; '.join(problems)}")
            await asyncio.sleep(_LOOK)
        self._end_if_violated()

    async def passes(self, seconds: float) -> None:
        """Time goes by."""
        await asyncio.sleep(seconds)
        self._end_if_violated()

    async def stays(self, truth: Callable[[], object], otherwise: str, *, seconds: float) -> None:
        """For so long something is so at every moment."""
        end = self.world.time() + seconds
        while self.world.time() < end:
            self.expect(truth(), otherwise)
            await asyncio.sleep(_LOOK)

    def quorum_since(self, moment: float) -> None:
        """At every instant since `moment` the ring had its quorum."""
        for state in self.ring.states_since(moment):
            if 2 * len(state.well) <= len(state.voters):
                self.expect(False, f"at {state.at:.1f} s {len(state.well)} of {len(state.voters)} voters were well: no quorum")

    def most_members_since(self, moment: float) -> int:
        """How many voters the ring had at most since `moment`."""
        return max(len(state.voters) for state in self.ring.states_since(moment))

    def _end_if_violated(self) -> None:
        if self.invariant_checker.violations:
            raise _Over


Scene = Callable[[Stage], Awaitable[None]]
"""What happens on a stage, from before the first machine on."""


def play(scene: Scene, wanted: Wanted, *, seed: int = 0, echo: Callable[[str], None] | None = None) -> Played:
    """Play a scene to its end, or to the first violation."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(_play(scene, wanted, seed, echo))


async def _play(scene: Scene, wanted: Wanted, seed: int, echo: Callable[[str], None] | None) -> Played:
    world = World(seed, echo=echo)
    async with asyncio.TaskGroup() as tasks:
        stage = Stage(world, wanted, tasks)
        try:
            with unplanned_errors(lambda error: stage.invariant_checker.report("unplanned", f"{type(error).__name__}: {error}")):
                await scene(stage)
                stage.expect(True, "")
        except _Over:
            pass
        finally:
            stage.environment.close()
    return Played(tuple(stage.invariant_checker.violations), tuple(world.trace.lines))
