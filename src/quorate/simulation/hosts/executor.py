"""Carries steps out on the site: most by the production's own code over simulated ways, and the rest in its order, with its gates on a fresh reading."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from random import Random
from typing import TypeAlias

from quorate.core.hosts.steps import (
    Prepare,
    Step,
    TakeSnapshot,
)
from quorate.hosts.act import executor as act
from quorate.hosts.act.concurrently import on_all
from quorate.hosts.act.failures import EXPECTED, StepFailed, failure_of
from quorate.hosts.act.tools import Tools
from quorate.hosts.act.waiting import Waits
from quorate.hosts.connect.ssh.errors import NoAnswer
from quorate.hosts.render.feature_files import Contents
from quorate.simulation.hosts.access import Access
from quorate.simulation.hosts.acts import Action, Actor, Witness
from quorate.simulation.hosts.fence import Fence
from quorate.simulation.hosts.machines import Machine
from quorate.simulation.hosts.observer import Observer, Seen
from quorate.simulation.hosts.reach import Reach
from quorate.simulation.hosts.scripts import Refused, Scripts
from quorate.simulation.hosts.shell import Host
from quorate.simulation.hosts.site import Site
from quorate.simulation.hosts.written import manifest_of

_Written: TypeAlias = Prepare | TakeSnapshot
"""The steps that are written down below; the others `quorate.hosts.act` carries out."""


class Executor:
    """Carries out the steps of one run. What `carry_out` raises is what the production's raises."""

    def __init__(
        self, site: Site, scripts: Scripts, observer: Observer, actor: Actor, witness: Witness, random: Random, fence: Fence
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
            snapshot_folder=Path(),
        )
        self._act = act.Executor(self._tools)

    async def carry_out(self, step: Step, seen: Seen) -> None:
        """Do the step that was decided on from this observation."""
        self._access.states = seen.facts
        self.actor.step = step
        self.actor.observed = self.actor.since = seen.since
        self._reach.tells(Action.BEGIN)
        await self._reach.takes(0.05, 0.5)
        if not isinstance(step, _Written):
            await self._act.carry_out(step, seen)
            return
        try:
            await self._do(step)
        except EXPECTED as error:
            raise failure_of(str(step), error) from error

    async def _do(self, step: _Written) -> None:
        match step:
            case Prepare(hosts):
                await on_all(hosts, self._prepare, _nothing)
            case TakeSnapshot():
                await self._access.etcd()
                await self._reach.takes(0.5, 3.0)
                self.actor.snapshot_taken = True

    async def _prepare(self, host: str) -> None:
        machine = self._reach.machine(host)
        if machine is None:
            raise NoAnswer(host, "no answer")
        try:
            await Host(self._reach, host).run(partial(self._install, machine))
        except Refused as refused:
            raise StepFailed(host, str(refused)) from refused

    async def _install(self, machine: Machine) -> None:
        await self._works(1.0, 10.0)
        if machine.traces:
            raise Refused("the host belongs to a cluster by now")
        machine.disk.prepared = machine.containerd_runs = True
        await self._works(1.0, 10.0)
        machine.disk.kubelet = machine.disk.kubeadm = self.actor.manifest.version

    async def _works(self, least: float, most: float) -> None:
        """A script does something on a machine, where nobody stops it."""
        await asyncio.sleep(self._random.uniform(least, most))


def _nothing(_host: str, _what: str) -> None:
    """Nobody reads along."""
