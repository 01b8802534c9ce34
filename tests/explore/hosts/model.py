"""Existing hosts, explored: from clusters that are well, and from bare hosts, every interleaving of steps of runs, deaths on the way, and faults."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from types import SimpleNamespace
from typing import Any, cast

from quorate.simulation.engine.world import World
from quorate.simulation.hosts.liveness import unfinished
from quorate.simulation.hosts.machines import Machine
from quorate.simulation.hosts.site import Entry, Manifest, Site
from tests.explore.hosts.image import Image, freeze, thaw
from tests.explore.hosts.moves import FAULTS, MEANWHILE, RECOVERIES, VERSIONS
from tests.explore.hosts.run import LOOP, Step, one_step
from tests.explore.hosts.waits import WAITS
from tests.explore.search import Judged, Next, Way


@dataclass(frozen=True, slots=True)
class Hosts:
    """A control plane of so many hosts that are well, or `bare` ones."""

    name: str
    size: int
    bare: bool = False

    def starts(self) -> Iterator[tuple[str, Image]]:
        """The one."""
        yield self.name, bare(self.size) if self.bare else well(self.size)

    def judge(self, state: Image, *, may_fail: bool) -> Judged[Image]:
        """One step, cut off at every moment on the way, and every other move."""
        judged = Judged[Image](converged=is_as_wanted(state))
        done = one_step(state)
        judged.broken = done.broken
        judged.idle = done.decision.step is None
        judged.said = tuple(dict.fromkeys(check.name for check in done.decision.refusals))
        judged.nexts += _of(done, "")
        for check in done.decision.refusals if judged.idle else ():
            for words, moves in WAITS.get(check.name, {}).items():
                if words in check.remedy:
                    judged.nexts += [Next(label, new, Way.ASKED) for label, new in moves(state)]
        for moves in RECOVERIES:
            judged.nexts += [Next(label, new) for label, new in moves(state)]
        if may_fail:
            for moves in FAULTS:
                judged.nexts += [Next(label, new, Way.FAULT) for label, new in moves(state)]
        if may_fail and done.decision.step is not None:
            self._meanwhile(state, judged)
        return judged

    @staticmethod
    def _meanwhile(state: Image, judged: Judged[Image]) -> None:
        for moves in MEANWHILE:
            for label, new in moves(state):
                late = one_step(state, meanwhile=new)
                judged.broken += [f"{broken} (after it was decided, {label})" for broken in late.broken]
                judged.nexts += [replace(each, way=Way.FAULT) for each in _of(late, f"{label}, and then ")]


def _of(done: Step, before: str) -> Iterator[Next[Image]]:
    step = done.decision.step
    for moment, image in enumerate(done.after[:-1], 1):
        yield Next(f"{before}everything that works on the hosts dies at moment {moment} of: {step}", image, Way.DEATH)
    for image in done.after[-1:]:
        yield Next(f"{before}apply: {step}" + (f" (failed: {done.failed})" if done.failed else ""), image)


def is_as_wanted(image: Image) -> bool:
    """Whether all is as the manifest says."""

    async def ask() -> bool:
        return not unfinished(cast("Any", SimpleNamespace(site=thaw(image, World(0)), manifest=image.manifest, runs=())))

    return LOOP.run_until_complete(ask())


def bare(size: int) -> Image:
    """Hosts with nothing on them."""

    async def make() -> Image:
        site = Site(World(0))
        manifest = Manifest(VERSIONS[0], tuple(Entry(f"cp-{number}", f"10.0.0.{number}") for number in range(1, size + 1)))
        for entry in manifest.entries:
            site.machines[entry.address] = Machine(entry.name, entry.address)
        return freeze(site, manifest)

    return LOOP.run_until_complete(make())


@lru_cache
def well(size: int) -> Image:
    """The cluster that the steps of `apply` make of bare hosts."""
    image = bare(size)
    while (done := one_step(image)).decision.step is not None:
        image = done.after[-1]
    if not is_as_wanted(image):
        raise AssertionError(f"a cluster of {size} did not come up: {done.decision.refusals}")
    return image
