"""One control plane, drawn from a seed: it comes up, users and faults have their way with it, it is left in peace, and in the end it goes."""

from __future__ import annotations

import asyncio
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from quorate.simulation.engine.apiserver import Change
from quorate.simulation.engine.clock import VirtualTimeLoop
from quorate.simulation.engine.logs import unplanned_errors
from quorate.simulation.engine.objects import CONTROL_PLANES, MACHINES
from quorate.simulation.engine.world import World
from quorate.simulation.machines import liveness
from quorate.simulation.machines.cluster_objects import create_control_plane
from quorate.simulation.machines.environment import Environment
from quorate.simulation.machines.faults import EXTENSION_FAULTS, FAULTS, Fault, Recovery
from quorate.simulation.machines.invariant_checker import InvariantChecker, Violation
from quorate.simulation.machines.operator import obey
from quorate.simulation.machines.setting import draw
from quorate.simulation.machines.users import ACTIONS, unpause

COMING_UP = 1200.0
"""Seconds that a control plane may take to come up while nothing goes wrong."""
IN_PEACE = 5400.0
"""Seconds in which it must be as desired once every fault is over: the health check, its retries, and one machine after the other."""
_ORDERS = 6
"""How often somebody comes who does what a stalled control plane asks for. Each may bring it on to where it needs the next."""
_AFTER_AN_ORDER = 1800.0
IDLE = 600.0
"""Seconds for which nothing may be written once it is as desired."""
GOING = 1200.0

_LOOK = 1.0
_LEARNS_LATE = 240.0
"""Seconds in which what is shown only after a while may still change: of objects that were set back a process learns after two silent watches of 70 s each,
and after the one before them, if that was cut."""


@dataclass(slots=True)
class Outcome:
    """What came of one seed."""

    seed: int
    violations: list[Violation] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)
    actions: Counter[str] = field(default_factory=Counter)
    traits: Counter[str] = field(default_factory=Counter)  # of its setting
    seconds: float = 0.0  # of virtual time
    machines: int = 0  # made
    checks: int = 0  # of invariants
    digest: str = ""
    lines: list[str] = field(default_factory=list)  # the end of the trace
    lost: bool = False  # the budget of faults was not enough to keep a majority's data


def simulate(seed: int, *, faults: Sequence[Fault] = FAULTS, echo: Callable[[str], None] | None = None) -> Outcome:
    """Simulate what a seed says, with faults of these kinds. Two calls with the same arguments have the same outcome, digest and all."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(_simulate(seed, faults=faults, echo=echo))


async def _simulate(seed: int, *, faults: Sequence[Fault], echo: Callable[[str], None] | None) -> Outcome:
    world = World(seed, echo=echo)
    outcome = Outcome(seed)
    unplanned: list[BaseException] = []
    with unplanned_errors(unplanned.append):
        async with asyncio.TaskGroup() as tasks:
            simulation = _Simulation(world, tasks, outcome, unplanned)
            try:
                await simulation.run(faults=faults)
            finally:
                simulation.environment.close()
    outcome.violations = simulation.invariant_checker.violations
    outcome.seconds, outcome.digest, outcome.lines = world.time(), world.trace.digest, list(world.trace.lines)
    outcome.checks = simulation.invariant_checker.checks
    return outcome


class _Simulation:
    """The simulation in the making."""

    def __init__(self, world: World, tasks: asyncio.TaskGroup, outcome: Outcome, unplanned: list[BaseException]) -> None:
        self.world, self.outcome, self.unplanned = world, outcome, unplanned
        self.random = world.random("life")
        self.setting = draw(self.random, world.random("settings of extensions"))
        outcome.traits.update(self.setting.traits)
        self.environment = Environment(world, self.setting.wanted, tasks, elected=self.setting.elected)
        self.invariant_checker = InvariantChecker(self.environment)
        self.recoveries: list[Recovery] = []
        world.management.subscribe(self._count)

    async def run(self, *, faults: Sequence[Fault]) -> None:
        """From the first object to the last."""
        if self.setting.wanted.by_hand and not await self._come_up_by_hand():
            return
        self._start()
        if faults and self.random.random() < 0.5:  # half of all meet trouble before they are up
            self._keep_running()
        elif not await self._until_as_desired(COMING_UP, "it did not come up"):
            return
        else:
            self._keep_running()
        await self._trouble(faults=faults)
        self._recover_everything()
        if liveness.quorum_is_lost(self.environment):  # by faults: by our doing it would be a violation
            self.outcome.lost = True
            return
        if not await self._as_desired_within(IN_PEACE) and not await self._once_somebody_acts():
            return
        if await self._stays_idle():
            await self._end()

    async def _come_up_by_hand(self) -> bool:
        """The Machines that the user made by hand have joined; then there is a control plane. In half of all cases the provider is there before it."""
        end = self.world.time() + COMING_UP
        while len(self.environment.cluster.ring.well) < self.setting.wanted.by_hand or not all(
            h.joined for h in self.environment.cluster.hosts.values()
        ):
            if self.world.time() >= end:
                self.invariant_checker.report("liveness", "the Machines that were made by hand did not come up")
                return False
            await asyncio.sleep(_LOOK)
        if self.random.random() < 0.5:
            self._start()
            await asyncio.sleep(self.random.uniform(0.0, 30.0))
        create_control_plane(self.world.management, self.setting.wanted)
        return True

    async def _trouble(self, *, faults: Sequence[Fault]) -> None:
        """Users and faults, until they have had enough."""
        end = self.world.time() + self.random.uniform(200.0, 1500.0)
        intensity = self.random.uniform(20.0, 150.0)  # seconds between two of them, on average
        while self.world.time() < end and not self._is_violated():
            await asyncio.sleep(self.random.expovariate(1 / intensity))
            if self.environment.control_plane is None:
                return
            if faults and self.random.random() < 0.7:
                self._break_something(faults)
            else:
                self._do_something()

    def _break_something(self, faults: Sequence[Fault]) -> None:
        fault = self.random.choice((*faults, *EXTENSION_FAULTS) if self.environment.extension else faults)
        recovery = fault(self.environment, self.random)
        if recovery is not None:
            self.outcome.faults[fault.__name__] += 1
            self.world.trace.add("fault", fault.__name__)
            self.recoveries.append(recovery)
            self.world.after(self.random.uniform(5.0, 240.0), self._recover, recovery)

    def _do_something(self) -> None:
        action = self.random.choice(ACTIONS)
        done = action(self.environment, self.random)
        if done is not None:
            self.outcome.actions[action.__name__] += 1
            self.world.trace.add("user", done)

    def _recover(self, recovery: Recovery) -> None:
        if recovery in self.recoveries:
            self.recoveries.remove(recovery)
            recovery()

    def _recover_everything(self) -> None:
        self.world.trace.add("world", "every fault is over")
        for recovery in list(self.recoveries):
            self._recover(recovery)
        unpause(self.environment)

    def _keep_running(self) -> None:
        """Somebody starts the provider again when it has died."""
        if not self.environment.closed:
            self._start()
        self.world.after(self.random.uniform(2.0, 20.0), self._keep_running)

    def _start(self) -> None:
        """Where there is an election two processes run, one of them warm and waiting."""
        alive = sum(process.alive for process in self.environment.processes)
        for _ in range(alive, 2 if self.setting.elected else 1):
            self.environment.start()

    async def _until_as_desired(self, limit: float, complaint: str) -> bool:
        return await self._as_desired_within(limit) or self._complain(complaint)

    async def _once_somebody_acts(self) -> bool:
        """Where it waits for somebody it says so, and what it says is enough: whoever does that, and nothing else, is rid of it."""
        for _ in range(_ORDERS):
            if self._is_violated() or not (done := obey(self.environment)):
                break
            self.outcome.actions["obey"] += 1
            self.world.trace.add("user", "; ".join(done))
            if await self._as_desired_within(_AFTER_AN_ORDER):
                return True
        return self._complain("it is not as desired though nothing is wrong any more")

    async def _as_desired_within(self, limit: float) -> bool:
        end = self.world.time() + limit
        while self.world.time() < end and not self._is_violated():
            if not liveness.unfinished(self.environment):
                return True
            await asyncio.sleep(_LOOK)
        return False

    def _complain(self, complaint: str) -> bool:
        if not self._is_violated():
            self.invariant_checker.report(
                "liveness", f"{complaint}: {'; '.join(liveness.unfinished(self.environment))}{self._conditions()}"
            )
        return False

    def _conditions(self) -> str:
        control_plane = self.environment.control_plane
        found = control_plane.status.get("conditions") or () if control_plane is not None else ()
        return "".join(f"\n    {c['type']} {c['status']} {c['reason']}: {c.get('message', '')}" for c in found)

    async def _stays_idle(self) -> bool:
        """Nothing is written, and it stays as desired."""
        await asyncio.sleep(_LEARNS_LATE)
        before = self._versions()
        await asyncio.sleep(IDLE)
        if problems := liveness.unfinished(self.environment):
            self.invariant_checker.report("liveness", f"it was as desired and did not stay so: {'; '.join(problems)}")
        elif self._versions() != before:
            changed = sorted(set(self._versions().items()) ^ set(before.items()))
            self.invariant_checker.report("idle", f"something was written though nothing had changed: {changed}")
        return not self._is_violated()

    def _versions(self) -> dict[str, int]:
        objects = [*self.world.management.objects(CONTROL_PLANES), *self.world.management.objects(MACHINES)]
        return {stored.name: stored.version for stored in objects}

    async def _end(self) -> None:
        """The user deletes the Cluster, and nothing is left."""
        self.environment.delete_cluster()
        end = self.world.time() + GOING
        while self.world.time() < end:
            left = [f"Machine {machine.name}" for machine in self.environment.machines] + list(liveness.leftovers(self.environment))
            if self.environment.cluster_object is None and not left:
                return
            await asyncio.sleep(_LOOK)
        self.invariant_checker.report("liveness", f"it was deleted and is not gone: {'; '.join(left)}{self._conditions()}")

    def _is_violated(self) -> bool:
        """Whether something was violated; a failure that nobody planned for is a violation too."""
        while self.unplanned:
            error = self.unplanned.pop()
            place = traceback.extract_tb(error.__traceback__)
            where = f"{place[-1].name} ({place[-1].filename.rpartition('/')[2]}:{place[-1].lineno})" if place else "nowhere"
            self.invariant_checker.report("unplanned", f"{type(error).__name__}: {error} in {where}")
        return bool(self.invariant_checker.violations)

    def _count(self, change: Change) -> None:
        if change.kind is MACHINES and change.before is None:
            self.outcome.machines += 1
