"""Operators: people with a manifest who run `apply`, one run after the other or two at once, and whose runs may be killed at any instant."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

from quorate.core.hosts.approval import Approval
from quorate.core.hosts.decide import decide
from quorate.core.hosts.forecast import forecast
from quorate.core.hosts.state import RunOptions
from quorate.core.hosts.steps import Step
from quorate.hosts.run.events import Ended, Event, StepBegun, StepBroke
from quorate.hosts.run.session import Done, Parts, Session
from quorate.hosts.run.wait_policy import WaitPolicy, before_a_plan
from quorate.simulation.engine.world import World
from quorate.simulation.hosts.acts import Act, Actor, Witness
from quorate.simulation.hosts.executor import Executor
from quorate.simulation.hosts.fence import RENEW_EVERY, Fence
from quorate.simulation.hosts.machines import Machine
from quorate.simulation.hosts.observer import Observer, Seen, Sight
from quorate.simulation.hosts.scripts import Scripts
from quorate.simulation.hosts.site import Entry, Manifest, Site


class Run:
    """One run of `apply`: the production's session with the simulation's observer and executor."""

    def __init__(self, operations: Operations, name: str, options: RunOptions) -> None:
        self.operations, self.name = operations, name
        self.actor = Actor(name, operations.manifest, options)
        self.ended: Ended | None = None
        self.steps: list[Step] = []
        self._task: asyncio.Task[None] | None = None
        self._killed = False
        self._clock_offset = operations.clock_offset
        self._random = operations.site.world.random(name)
        self._observer = Observer(operations.site, self.actor.manifest, operations.sight, self._random, self.now, name)
        self._fence = Fence(self.actor, self._observer, operations.scripts)
        self._observer.options, self._observer.cut_off, self._observer.sleep = options, self.actor.cut_off, self._fence.sleep

    @property
    def alive(self) -> bool:
        """Whether it goes on."""
        return self._task is not None and not self._task.done()

    def start(self, tasks: asyncio.TaskGroup) -> None:
        """Begin."""
        self._task = tasks.create_task(self._work())

    async def end(self) -> Ended | None:
        """Wait for its end; None where it was killed."""
        if self._task is not None:
            await asyncio.wait([self._task])
        return self.ended

    def kill(self, *, politely: bool) -> None:
        """End it at this instant; only politely asked it gives its lock back."""
        self._killed = not politely
        if self._killed:
            self._fence.die()
        if self._task is not None:
            self._task.cancel()

    def stop(self) -> None:
        """Nothing of it happens from this instant on."""
        self._fence.stop()

    def go_on(self) -> None:
        """As if nothing had been."""
        self._fence.go_on()

    def now(self) -> datetime:
        """The operator's clock as it was when the run began, and on from there: one that is set meanwhile moves only runs that come after."""
        return self.operations.site.world.now() + self._clock_offset

    async def _work(self) -> None:
        operations = self.operations
        site, observer = operations.site, self._observer
        ways = operations.scripts, observer, self.actor, operations.witness, self._random, self._fence
        executor = Executor(site, *ways, Path(operations.snapshots.name))

        async def carry_out(step: Step, seen: Seen) -> None:
            self.steps.append(step)
            await executor.carry_out(step, seen)

        approval = Approval.of(await self._shown(observer), only=False)
        parts = Parts(
            observe=observer.observe, carry_out=carry_out, emit=self._emit, now=self.now, sleep=self._fence.sleep, approval=approval
        )
        try:
            if await self._fence.acquire():
                site.world.after(RENEW_EVERY, self._renew)
            self.ended = await Session(parts, command="apply", by=self.name).run()
        finally:
            if not self._killed:
                self._fence.release()

    async def _shown(self, observer: Observer) -> tuple[Step, ...]:
        """The steps that the operator is shown, and agrees to, as soon as there are any; none where nothing can be done."""
        policy = WaitPolicy(self.now())
        while True:
            cluster, now = (await observer.observe(Done())).cluster, self.now()
            until = before_a_plan(policy, cluster, decide(cluster, now), now)
            if until is None:
                return tuple(foreseen.step for foreseen in forecast(cluster, now).steps)
            await self._fence.sleep(max((until - now).total_seconds(), 0.0))

    def _renew(self) -> None:
        """While the run lasts. A run whose lock is somebody else's by now is ended."""
        if not self.alive:
            return
        if self._fence.renew():
            self.operations.site.world.after(RENEW_EVERY, self._renew)
        else:
            self.operations.site.world.trace.add(self.name, "the lock was lost")
            self.kill(politely=True)

    def _emit(self, event: Event) -> None:
        trace = self.operations.site.world.trace
        match event:
            case StepBegun(step=step, rule=rule):
                trace.add(self.name, f"{step} ({rule})")
            case StepBroke(step=step, where=where, cause=cause):
                trace.add(self.name, f"failed: {step}: {where}: {cause}")
            case Ended(outcome=outcome, message=message, because=because):
                told = "".join(f"\n    {check.name}: {check.evidence} [{check.remedy}]" for check in because)
                trace.add(self.name, f"{outcome}: {message}{told}")


class Operations:
    """A site and everybody who works on it. `manifest` is what the next run reads."""

    def __init__(self, world: World, manifest: Manifest, tasks: asyncio.TaskGroup) -> None:
        self.site = Site(world)
        self.scripts = Scripts(world, tasks)
        self.sight = Sight()
        self.clock_offset = timedelta()
        self.runs: list[Run] = []
        self.witnesses: list[Witness] = []
        self.may_leave = 1  # hosts that are not in the manifest, by the next run
        self.rotates = False  # the key, by the next run
        self.snapshots = TemporaryDirectory(prefix="quorate-simulated-")
        self._tasks = tasks
        self._addresses = self._names = 0
        self.manifest = manifest

    @property
    def world(self) -> World:
        """Where all of it is."""
        return self.site.world

    @property
    def working(self) -> list[Run]:
        """The runs that go on."""
        return [run for run in self.runs if run.alive]

    @property
    def machines(self) -> list[Machine]:
        """Every machine that is not gone for good."""
        return [machine for machine in self.site.machines.values() if not machine.gone]

    def start(self, options: RunOptions = RunOptions()) -> Run:  # noqa: B008 (frozen)
        """Somebody runs `apply`."""
        options = replace(
            options, remove_hosts=max(options.remove_hosts, self.may_leave), rotate_encryption_key=self.rotates and self.manifest.encrypts
        )
        self.may_leave, self.rotates = 1, False
        run = Run(self, f"run {len(self.runs) + 1}", options)
        self.runs.append(run)
        run.start(self._tasks)
        return run

    def new_machine(self, name: str) -> Machine:
        """Another machine, bare, at an address that none had before."""
        self._addresses += 1
        machine = Machine(name, f"10.0.0.{self._addresses}")
        self.site.machines[machine.address] = machine
        return machine

    # The manifest.

    def is_wanted(self, machine: Machine) -> bool:
        """Whether it is a host of the manifest."""
        return any(entry.address == machine.address for entry in self.manifest.entries)

    def has_votes_beside(self, entry: Entry) -> bool:
        """Whether another control plane host of the manifest has a member that votes and is well."""
        others = [self.site.machine_of(other) for other in self.manifest.control_planes if other.name != entry.name]
        return any(machine is not None and self.site.member_is_well(machine) for machine in others)

    def add_host(self, *, control_plane: bool) -> str:
        """One more host, on a bare machine."""
        self._names += 1
        name = f"{'cp' if control_plane else 'worker'}-{self._names}"
        entry = Entry(name, self.new_machine(name).address, control_plane)
        self.manifest = replace(self.manifest, entries=_ordered((*self.manifest.entries, entry)))
        return f"{name} is added"

    def remove_host(self, entry: Entry) -> None:
        """One host fewer; its machine stays as it is."""
        self.manifest = replace(self.manifest, entries=tuple(other for other in self.manifest.entries if other.name != entry.name))

    def replace_host(self, entry: Entry) -> None:
        """The host is another machine, which is bare."""
        machine = self.new_machine(entry.name)
        self.manifest = self.manifest.with_entry(replace(entry, address=machine.address))

    def reset_host(self, name: str) -> str | None:
        """The user resets a host as `quorate reset` does: a member leaves the ring first, where the ring has quorum with and without it."""
        entry = self.manifest.entry(name)
        machine = self.site.machine_of(entry) if entry is not None else None
        if machine is None:
            return None
        member = self.site.member_at(machine.address)
        if entry is not None and entry.control_plane and member is not None:
            if not self.has_votes_beside(entry):
                return self.take_back()
            if not self.site.ring.has_quorum or not self.site.ring.history[-1].survives_without(member):
                return None
            self.site.ring.remove(member)
        self.site.objects.nodes.pop(name, None)
        machine.lose_disk()
        self.site.settle()
        return f"{name} is reset"

    def finish_join(self, name: str) -> str | None:
        """The user gives the kubelet of a control plane host the credentials that a join which was cut short left it without, and restarts it."""
        entry = self.manifest.entry(name)
        machine = self.site.machine_of(entry) if entry is not None else None
        if machine is None or machine.disk.components is None or not self.site.give_credentials(machine):
            return None
        self.site.start_kubelet(machine)
        self.site.settle()
        return f"the kubelet of {name} has credentials"

    def take_back(self) -> str | None:
        """Where no other host of the manifest has the data, a machine that has it and was taken out comes back into the manifest."""
        well = [machine for machine in self.machines if self.site.member_is_well(machine) and not self.is_wanted(machine)]
        if not well:
            return None
        entry = Entry(well[0].name, well[0].address)
        others = (other for other in self.manifest.entries if other.name != entry.name)
        self.manifest = replace(self.manifest, entries=_ordered((*others, entry)))
        return f"{entry.name} is taken back"

    def witness(self, act: Act) -> None:
        """Somebody acts at this instant."""
        self.world.trace.add(act.actor.name, _told(act))
        for witness in self.witnesses:
            witness(act)

    def close(self) -> None:
        """Everybody stops."""
        for run in self.working:
            run.kill(politely=False)
        self.scripts.close()
        self.snapshots.cleanup()


def _ordered(entries: tuple[Entry, ...]) -> tuple[Entry, ...]:
    return tuple(sorted(entries, key=lambda entry: not entry.control_plane))


def _told(act: Act) -> str:
    details: Sequence[object] = (
        act.machine.name if act.machine else "",
        f"{act.member:x}" if act.member else "",
        act.node,
        act.version or "",
    )
    return " ".join(filter(None, (f"... {act.action}", *map(str, details))))
