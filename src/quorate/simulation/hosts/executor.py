"""Carries steps out on the site, by the production's own code over simulated ways."""

from __future__ import annotations

from pathlib import Path
from random import Random

from quorate.core.hosts.steps import (
    Step,
    TakeSnapshot,
)
from quorate.hosts.act import executor as act
from quorate.hosts.act.tools import Tools
from quorate.hosts.act.waiting import Waits
from quorate.hosts.render.feature_files import Contents
from quorate.simulation.hosts.access import Access
from quorate.simulation.hosts.acts import Action, Actor, Witness
from quorate.simulation.hosts.fence import Fence
from quorate.simulation.hosts.observer import Observer, Seen
from quorate.simulation.hosts.reach import Reach
from quorate.simulation.hosts.scripts import Scripts
from quorate.simulation.hosts.site import Site
from quorate.simulation.hosts.written import manifest_of


class Executor:
    """Carries out the steps of one run. What `carry_out` raises is what the production's raises. `snapshots` is a folder for those of etcd, on this machine."""

    def __init__(
        self,
        site: Site,
        scripts: Scripts,
        observer: Observer,
        actor: Actor,
        witness: Witness,
        random: Random,
        fence: Fence,
        snapshots: Path,
    ) -> None:
        self.actor, self._random = actor, random
        self._reach = Reach(site, scripts, observer, actor, witness, random, fence)
        self._access = Access(self._reach)
        self._tools = Tools(
            access=self._access,
            manifest=manifest_of(actor.manifest),
            contents=Contents(),
            report=_nothing,
            waits=Waits(_nothing, site.world.time, fence.sleep),
            now=site.world.now,
            random_bytes=random.randbytes,
            snapshot_folder=snapshots,
        )
        self._act = act.Executor(self._tools)

    async def carry_out(self, step: Step, seen: Seen) -> None:
        """Do the step that was decided on from this observation."""
        self._access.states = seen.facts
        self.actor.step = step
        self.actor.observed = self.actor.since = seen.since
        self._reach.tells(Action.BEGIN)
        await self._reach.takes(0.05, 0.5)
        await self._act.carry_out(step, seen)
        self.actor.snapshot_taken = self.actor.snapshot_taken or isinstance(step, TakeSnapshot)


def _nothing(_host: str, _what: str) -> None:
    """Nobody reads along."""
