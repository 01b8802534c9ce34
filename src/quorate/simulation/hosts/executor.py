"""Carries steps out on the site: most by the production's own code over simulated ways, and the rest in its order, with its gates on a fresh reading."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import TypeAlias, assert_never

from quorate.core.hosts.encryption import NEW, PLAIN, SECRETS, Configuration
from quorate.core.hosts.steps import (
    ChangeEncryption,
    DeleteNode,
    EnsureMachineDeployments,
    Initialize,
    Join,
    JoinWorkers,
    Prepare,
    Reconfigure,
    RemoveMember,
    RenewCertificates,
    Reset,
    RewriteSecrets,
    StartServices,
    Step,
    TakeSnapshot,
    Uncordon,
    UpdateConfiguration,
    UpdateNodes,
    UpgradeControlPlane,
    UpgradeKubelet,
)
from quorate.hosts.act import executor as act
from quorate.hosts.act.concurrently import on_all
from quorate.hosts.act.failures import EXPECTED, StepFailed, failure_of
from quorate.hosts.act.restarts import make_ready
from quorate.hosts.act.rings import fresh_ring
from quorate.hosts.act.tools import Tools
from quorate.hosts.act.waiting import Waits
from quorate.hosts.connect.ssh.errors import NoAnswer
from quorate.hosts.render.feature_files import Contents
from quorate.simulation.hosts.access import Access
from quorate.simulation.hosts.acts import Action, Actor, Witness
from quorate.simulation.hosts.fence import Fence
from quorate.simulation.hosts.kubeadm import Kubeadm
from quorate.simulation.hosts.machines import Machine
from quorate.simulation.hosts.observer import Observer, Seen
from quorate.simulation.hosts.reach import Reach
from quorate.simulation.hosts.scripts import Refused, Script, Scripts
from quorate.simulation.hosts.shell import Host
from quorate.simulation.hosts.site import Site
from quorate.simulation.hosts.written import manifest_of

_Real: TypeAlias = (
    Initialize
    | Join
    | JoinWorkers
    | Reset
    | StartServices
    | RemoveMember
    | DeleteNode
    | Uncordon
    | UpdateNodes
    | RewriteSecrets
    | RenewCertificates
    | UpdateConfiguration
    | Reconfigure
    | UpgradeControlPlane
    | UpgradeKubelet
)
"""The steps that `quorate.hosts.act` carries out here. The others are written down below; of them the gate of restarts, cordons and drains are its own."""
_Change: TypeAlias = EnsureMachineDeployments | ChangeEncryption
_TIMEOUT = 120.0
"""Seconds that a health gate, or a write, is waited for."""


class Executor:
    """Carries out the steps of one run. What `carry_out` raises is what the production's raises."""

    def __init__(
        self, site: Site, scripts: Scripts, observer: Observer, actor: Actor, witness: Witness, random: Random, fence: Fence
    ) -> None:
        self.site, self.actor, self._fence = site, actor, fence
        self._scripts, self._observer, self._witness, self._random = scripts, observer, witness, random
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
        self._seen, self._facts, self._access.states = seen, seen.facts, seen.facts
        self.actor.step = step
        self.actor.observed = self.actor.since = seen.since
        self._reach.tells(Action.BEGIN)
        await self._reach.takes(0.05, 0.5)
        if isinstance(step, _Real):
            await self._act.carry_out(step, seen)
            return
        try:
            await self._do(step)
        except EXPECTED as error:
            where = getattr(step, "host", "") or str(step)
            raise failure_of(where, error) from error

    async def _do(self, step: Prepare | TakeSnapshot | _Change) -> None:
        match step:
            case Prepare(hosts):
                await on_all(hosts, self._prepare, _nothing)
            case TakeSnapshot():
                await self._access.etcd()
                await self._reach.takes(0.5, 3.0)
                self.actor.snapshot_taken = True
            case _:
                await self._change(step)

    async def _change(self, step: _Change) -> None:
        match step:
            case ChangeEncryption(host, configuration):
                await self._change_encryption(host, configuration)
            case EnsureMachineDeployments():
                raise AssertionError("no manifest here has dynamicWorkers")
            case _:
                assert_never(step)

    # Before there is a cluster, and hosts that join it.

    async def _prepare(self, host: str) -> None:
        machine = self._machine(host)
        await self._script(machine, partial(self._install, machine))

    async def _install(self, machine: Machine) -> None:
        await self._works(1.0, 10.0)
        if machine.traces:
            raise Refused("the host belongs to a cluster by now")
        machine.disk.prepared = machine.containerd_runs = True
        await self._works(1.0, 10.0)
        machine.disk.kubelet = machine.disk.kubeadm = self.actor.manifest.version

    # Hosts that are in the cluster.

    async def _make_ready(self, host: str) -> None:
        await make_ready(self._tools, host, self._seen)

    # Keys, as in `hosts/act/encryption.py`.

    async def _change_encryption(self, host: str, wanted: Configuration) -> None:
        """Every control plane is asked for its keys, and etcd whether something is stored with one that would go."""
        await self._reach.takes(0.05, 0.5)
        machines = {entry.name: self._machine(entry.name) for entry in self.actor.manifest.control_planes}
        if silent := next((name for name, machine in machines.items() if not machine.answers), ""):
            raise NoAnswer(silent, "no answer")
        there = {key for machine in machines.values() for key in machine.disk.keys}
        if NEW in wanted.secrets:
            if there - wanted.keys:
                raise StepFailed(host, "no key is made, since a host has one")
            there.add(key := self.site.new_key())
            wanted = Configuration.made({SECRETS: tuple(key if provider == NEW else provider for provider in wanted.secrets)})
        if wanted.keys - there:
            raise StepFailed(host, "no host has the key any more")
        if self.site.objects.written != wanted.secrets[0]:
            await self._written(lambda: setattr(self.site.objects, "written", ""))
        if needed := await self._needed(machines[host].disk.keys - wanted.keys):
            raise StepFailed(host, f"something is stored with {', '.join(needed)}")
        await self._make_ready(host)
        await self._run(host, partial(self._kubeadm(host).encrypt, wanted))
        await self._until_back(host)
        if wanted == PLAIN:
            await self._run(host, self._kubeadm(host).drop_providers)

    async def _needed(self, keys: frozenset[str]) -> frozenset[str]:
        """Those of these keys that something is stored with, by etcd's own word."""
        await fresh_ring(self._tools, self._seen)
        return keys.intersection(self.site.objects.stored)

    # What they share.

    def _machine(self, host: str) -> Machine:
        machine = self._reach.machine(host)
        if machine is None:
            raise NoAnswer(host, "no answer")
        return machine

    def _kubeadm(self, host: str) -> Kubeadm:
        return Kubeadm(self.site, self._machine(host), self.actor, self._witness, self._random)

    async def _run(self, host: str, script: Script) -> None:
        await self._script(self._machine(host), script, kubeadm=True)

    async def _script(self, machine: Machine, script: Script, *, kubeadm: bool = False) -> None:
        try:
            await Host(self._reach, machine.name).run(script, kubeadm=kubeadm)
        except Refused as refused:
            raise StepFailed(machine.name, str(refused)) from refused

    async def _until_back(self, host: str) -> None:
        await self._until(host, "its control plane", lambda: self.site.serves(self._machine(host)))
        await self._until(host, "its Node", lambda: host in self.site.objects.nodes)

    async def _written(self, write: Callable[[], None]) -> None:
        await self._reach.takes(0.05, 0.3)
        await self._until("the API", "an API server that answers", self._observer.asks_api)
        self._fence.permit()
        write()
        self.site.settle()

    async def _until(self, host: str, what: str, truth: Callable[[], bool]) -> None:
        end = self.site.world.time() + _TIMEOUT
        while not truth():
            if self.site.world.time() > end:
                raise StepFailed(host, f"{what} did not come about")
            await self._fence.sleep(1.0)

    async def _works(self, least: float, most: float) -> None:
        """A script does something on a machine, where nobody stops it."""
        await asyncio.sleep(self._random.uniform(least, most))


def _nothing(_host: str, _what: str) -> None:
    """Nobody reads along."""
