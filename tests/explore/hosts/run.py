"""One step of an operator's run over one state: looked at, decided and carried out as `quorate apply` does, with the state at every moment on the way.

Whatever is found in the middle of a step is what is left when operator and host die at that moment.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from quorate.core.hosts.decide import Decision, decide
from quorate.core.hosts.state import RunOptions
from quorate.hosts.act.failures import StepFailed
from quorate.hosts.run.session import Done
from quorate.simulation.engine.clock import VirtualTimeLoop
from quorate.simulation.engine.world import World
from quorate.simulation.hosts.acts import Act, Actor
from quorate.simulation.hosts.executor import Executor
from quorate.simulation.hosts.fence import Fence
from quorate.simulation.hosts.invariants import INVARIANTS
from quorate.simulation.hosts.observer import Observer, Sight
from quorate.simulation.hosts.scripts import Scripts
from quorate.simulation.hosts.site import Site
from tests.explore.hosts.image import Image, freeze, thaw

_NOWHERE = Path("/nowhere")  # no snapshot is taken here
_LOOKS = 4  # three probes that are silent, and one that they change the mind of


@dataclass(slots=True)
class Step:
    """What came of one step."""

    decision: Decision
    after: list[Image] = field(default_factory=list)  # every state on the way, the last one where it ended
    broken: list[str] = field(default_factory=list)
    failed: str = ""


def one_step(image: Image, meanwhile: Image | None = None) -> Step:
    """One step from a state. `meanwhile` is what has become of it after it was decided and before it is carried out."""
    return LOOP.run_until_complete(_step(image, meanwhile))


async def _step(image: Image, meanwhile: Image | None) -> Step:
    world = World(0)
    async with asyncio.TaskGroup() as tasks:
        run = _Run(world, thaw(image, world), image, tasks)
        try:
            return await run.step(meanwhile)
        finally:
            run.scripts.close()


class _Run:
    def __init__(self, world: World, site: Site, image: Image, tasks: asyncio.TaskGroup) -> None:
        self.world, self.site, self.image = world, site, image
        self.scripts = Scripts(world, tasks)
        self.broken: list[str] = []
        self.after: list[Image] = []

    async def step(self, meanwhile: Image | None) -> Step:
        random, manifest = self.world.random("run"), self.image.manifest
        observer = Observer(self.site, manifest, Sight(), random, self.world.now, "run")
        observer.options = RunOptions(remove_hosts=self.image.said)
        done = Done(snapshot_taken=True)
        for _ in range(_LOOKS):
            seen = await observer.observe(done)
            decision = decide(seen.cluster, self.world.now())
            if decision.step is not None or decision.wake_at is None:
                break
            await asyncio.sleep(max(0.0, (decision.wake_at - self.world.now()).total_seconds()))
        if decision.step is None:
            return Step(decision)
        if meanwhile is not None:
            self.image = meanwhile
            self.site = observer.site = _just_now(self.site, thaw(self.image, self.world), self.world.time())
        actor = Actor("run", manifest, snapshot_taken=True)
        fence = Fence(actor, observer, self.scripts)
        assert await fence.acquire()
        executor = Executor(self.site, self.scripts, observer, actor, self._witness, random, fence, _NOWHERE)
        failed = ""
        LOOP.passed = self._record
        try:
            await executor.carry_out(decision.step, seen)
        except StepFailed as failure:
            failed = str(failure)
        finally:
            LOOP.passed = lambda: None
        self._record()
        return Step(decision, self.after, self.broken, failed)

    def _record(self) -> None:
        image = replace(freeze(self.site, self.image.manifest), said=self.image.said)
        if image != (self.after[-1] if self.after else self.image):
            self.after.append(image)

    def _witness(self, act: Act) -> None:
        for invariant in INVARIANTS:
            if problem := invariant(self.site, act):
                self.broken.append(f"{invariant.__name__}: {problem}")


def _just_now(before: Site, site: Site, now: float) -> Site:
    """The site as it has become: after the run had looked, which is what the invariants forgive it that it did not see."""
    site.ring.history = [*before.ring.history, *site.ring.history]
    for address, machine in site.machines.items():
        known = before.machines.get(address)
        if machine.emptied_at is not None and known is not None and known.emptied_at is None:
            machine.emptied_at = now
    return site


class _Loop(VirtualTimeLoop):
    """Tells whenever time passes: all that happened before happened at one moment."""

    def __init__(self) -> None:
        super().__init__()
        self.passed: Callable[[], Any] = lambda: None
        select = self._null.select

        def told(timeout: float | None = None) -> Any:
            if timeout is not None and timeout > 0:
                self.passed()
            return select(timeout)

        self._null.select = told  # type: ignore[method-assign]


LOOP = _Loop()
"""Of every run: its time goes on from one to the next, and is part of no state."""
