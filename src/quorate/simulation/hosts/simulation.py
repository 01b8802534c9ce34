"""One cluster of hosts from beginning to end, drawn from a seed: operators bring it up, edits and faults have their way with it, it is left in peace, and
must be as its manifest says in the end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from quorate.core.hosts.rules.guard import QUORUM
from quorate.core.hosts.state import RunOptions
from quorate.core.hosts.steps import StartServices
from quorate.core.versions import Version
from quorate.hosts.run import events
from quorate.hosts.run.lock_file import LASTS
from quorate.simulation.engine.clock import VirtualTimeLoop
from quorate.simulation.engine.logs import unplanned_errors
from quorate.simulation.engine.world import World
from quorate.simulation.hosts.acts import Act
from quorate.simulation.hosts.edits import EDITS, obey
from quorate.simulation.hosts.faults import FAULTS, Fault, Recovery
from quorate.simulation.hosts.invariants import INVARIANTS
from quorate.simulation.hosts.liveness import unfinished
from quorate.simulation.hosts.operators import Operations, Run
from quorate.simulation.hosts.site import Manifest
from quorate.simulation.machines.invariant_checker import Violation
from quorate.simulation.machines.simulation import Outcome

ATTEMPTS = 25
"""Runs within which everything must be as the manifest says once nothing goes wrong any more; most need two."""
_MANY = 9
"""Hosts may leave at once while there is trouble: whoever is asked for their number first, as in peace, does less that could go wrong."""
_BETWEEN = (5.0, 90.0)
_AT_WORK = 0.6  # how many faults come while a script runs


def simulate(seed: int, *, faults: Sequence[Fault] = FAULTS, echo: Callable[[str], None] | None = None) -> Outcome:
    """Simulate what a seed says, with faults of these kinds. Two calls with the same arguments have the same outcome, digest and all."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(_simulate(seed, faults, echo))


async def _simulate(seed: int, faults: Sequence[Fault], echo: Callable[[str], None] | None) -> Outcome:
    world = World(seed, echo=echo)
    outcome = Outcome(seed)
    unplanned: list[BaseException] = []
    with unplanned_errors(unplanned.append):
        async with asyncio.TaskGroup() as tasks:
            simulation = _Simulation(world, tasks, outcome)
            try:
                await simulation.run(faults)
            finally:
                simulation.operations.close()
    outcome.violations += [Violation("unplanned", world.time(), f"{type(error).__name__}: {error}") for error in unplanned]
    outcome.seconds, outcome.digest, outcome.lines = world.time(), world.trace.digest, list(world.trace.lines)
    outcome.machines = len(simulation.operations.site.machines)
    return outcome


class _Simulation:
    """The simulation in the making."""

    def __init__(self, world: World, tasks: asyncio.TaskGroup, outcome: Outcome) -> None:
        self.world, self.outcome = world, outcome
        self.random = world.random("life")
        self.operations = Operations(world, Manifest(Version.parse(self.random.choice(("v1.33.1", "v1.34.2"))), ()), tasks)
        self.operations.witnesses.append(self._judge)
        self.recoveries: list[Recovery] = []
        self.over = False  # the trouble
        for _ in range(self.random.choice((1, 3, 3, 3, 5))):
            self.operations.add_host(control_plane=True)
        for _ in range(self.random.choice((0, 0, 1, 2))):
            self.operations.add_host(control_plane=False)

    async def run(self, faults: Sequence[Fault]) -> None:
        """From bare hosts to the last run, which has nothing to do."""
        if not faults or self.random.random() < 0.6:  # the others meet trouble before they are up
            ended = await self._apply(self.operations.start())
            if ended.outcome is not events.Outcome.CONVERGED:
                self._report("liveness", f"it did not come up: {_told(ended)}")
                return
        await self._trouble(faults)
        if not self._is_violated():
            await self._peace()

    async def _trouble(self, faults: Sequence[Fault]) -> None:
        """Operators, edits and faults, until they have had enough."""
        end = self.world.time() + self.random.uniform(200.0, 1500.0)
        intensity = self.random.uniform(10.0, 100.0)  # seconds between two of them, on average
        while self.world.time() < end and not self._is_violated():
            await asyncio.sleep(self.random.expovariate(1 / intensity))
            if faults and self.random.random() < 0.75:
                self._break_something(faults)
            else:
                self._edit_something()
            if not self.operations.working and self.random.random() < 0.7:
                self.operations.start(self._options())

    def _options(self) -> RunOptions:
        wished = self.random.random()
        return RunOptions(force_upgrade=wished < 0.05, renew_certificates=wished > 0.93, remove_hosts=_MANY)

    def _break_something(self, faults: Sequence[Fault]) -> None:
        """Now, or at some instant of the next script that begins anywhere."""
        fault = self.random.choice(faults)
        if self.random.random() < _AT_WORK:
            seconds = self.random.uniform(0.0, 15.0)
            self.operations.scripts.at_next_start.append(partial(self.world.after, seconds, self._break, fault))
        else:
            self._break(fault)

    def _break(self, fault: Fault) -> None:
        if self.over:
            return
        recovery = fault(self.operations, self.random)
        if recovery is not None:
            self.outcome.faults[fault.__name__] += 1
            self.world.trace.add("fault", fault.__name__)
            self.recoveries.append(recovery)
            self.world.after(self.random.uniform(2.0, 240.0), self._recover, recovery)

    def _edit_something(self) -> None:
        edit = self.random.choice(EDITS)
        self._done(edit.__name__, edit(self.operations, self.random))

    def _done(self, name: str, what: str | None) -> None:
        if what is not None:
            self.outcome.actions[name] += 1
            self.world.trace.add("user", what)

    def _recover(self, recovery: Recovery) -> None:
        if recovery in self.recoveries:
            self.recoveries.remove(recovery)
            recovery()

    # In peace.

    async def _peace(self) -> None:
        self.over = True
        self.world.trace.add("world", "every fault is over")
        for recovery in list(self.recoveries):
            self._recover(recovery)
        operations = self.operations
        if operations.manifest.settings in operations.site.broken_settings:
            operations.manifest = replace(operations.manifest, settings=operations.manifest.settings + 1)
        for machine in operations.machines:
            if not operations.is_wanted(machine) and machine.disk.data in operations.site.ring.members and not machine.kubelet_runs:
                operations.site.start_kubelet(machine)  # nobody but its owner starts what is on a host that was taken out
        for run in operations.working:
            await run.end()
        await asyncio.sleep(LASTS + self.random.uniform(*_BETWEEN))
        operations.site.settle()
        if operations.site.quorum_is_gone:
            await self._say_it_is_lost()
        else:
            await self._reach_the_goal()

    async def _say_it_is_lost(self) -> None:
        """By faults: by our doing it would be a violation. It is said, and nothing is done, as long as anybody has data that it could be brought back from."""
        self.outcome.lost = True
        wanted = (self.operations.site.machine_of(entry) for entry in self.operations.manifest.control_planes)
        if not self.operations.site.stands or not any(machine is not None and machine.traces for machine in wanted):
            return
        run = self.operations.start()
        ended = await self._apply(run)
        if ended.outcome is not events.Outcome.STALLED or QUORUM not in {check.name for check in ended.because}:
            self._report("liveness", f"quorum is lost, and that is not what is said: {_told(ended)}")
        if others := [step for step in run.steps if not isinstance(step, StartServices)]:
            self._report("liveness", f"quorum is lost, and yet: {'; '.join(map(str, others))}")

    async def _reach_the_goal(self) -> None:
        goal = self.operations.manifest.version
        ended = None
        for _ in range(ATTEMPTS):
            run = self.operations.start()
            ended = await self._apply(run)
            if self._is_violated():
                return
            if ended.outcome is not events.Outcome.CONVERGED:
                self._done("obeys", obey(self.operations, ended))
            elif self.operations.manifest.version != goal:
                self.operations.manifest = replace(self.operations.manifest, version=self._towards(goal))
            else:
                await self._stays_as_it_is()
                return
            await asyncio.sleep(self.random.uniform(*_BETWEEN))
        self._report("liveness", f"it is not as the manifest says though nothing is wrong any more: {_told(ended) if ended else ''}")

    async def _apply(self, run: Run) -> events.Ended:
        """A run that nobody kills. One that meets the Lease of a run before, which could not give it back, has lost its lock; the next one outlasts it."""
        for _ in range(ATTEMPTS):
            if (ended := await run.end()) is not None:
                return ended
            run = self.operations.start()
        raise AssertionError(f"{run.name} and those before it ended without a word")

    def _towards(self, goal: Version) -> Version:
        """One minor at a time."""
        now = self.operations.manifest.version
        return goal if goal.minor <= now.minor + 1 else Version.parse(f"v{now.major}.{now.minor + 1}.0")

    async def _stays_as_it_is(self) -> None:
        await asyncio.sleep(_BETWEEN[1])
        self.operations.site.settle()
        if problems := unfinished(self.operations):
            self._report("liveness", f"it is said to be as the manifest says, and is not: {'; '.join(problems)}")
        run = self.operations.start()
        ended = await self._apply(run)
        if run.steps or ended.outcome is not events.Outcome.CONVERGED:
            self._report("idle", f"nothing was to be done, and yet: {'; '.join(map(str, run.steps)) or _told(ended)}")
        machines = map(self.operations.site.machine_of, self.operations.manifest.entries)
        locks = [*(machine.lock for machine in machines if machine is not None), self.operations.site.lease]
        if left := {lock.holder for lock in locks if lock is not None and lock.holder}:
            self._report("lock", f"a lock of {', '.join(sorted(left))} is left over")

    # The decision.

    def _judge(self, act: Act) -> None:
        for invariant in INVARIANTS:
            self.outcome.checks += 1
            if problem := invariant(self.operations.site, act):
                self._report(invariant.__name__, problem)

    def _report(self, invariant: str, text: str) -> None:
        violation = Violation(invariant, self.world.time(), text)
        self.world.trace.add("invariant_checker", str(violation))
        self.outcome.violations.append(violation)

    def _is_violated(self) -> bool:
        return bool(self.outcome.violations)


def _told(ended: events.Ended) -> str:
    return f"{ended.message}{''.join(f'; {check.name}: {check.evidence} [{check.remedy}]' for check in ended.because)}"
