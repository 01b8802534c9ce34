"""Carries steps out on the site as the production does: in the same order, with the same gates on a fresh reading, through connections that may be cut."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from random import Random
from typing import Any, TypeAlias, assert_never

from quorate.core.checks import Check
from quorate.core.health import Absent, Unknown
from quorate.core.hosts import gates
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
from quorate.core.ring import Member, Ring
from quorate.core.versions import Version
from quorate.hosts.act.failures import StepFailed, failure_of
from quorate.hosts.connect.ssh.errors import NoAnswer, SshError
from quorate.hosts.observe.encryption import common_file
from quorate.hosts.observe.membership import Membership, membership
from quorate.hosts.probe.facts import HostFacts
from quorate.simulation.engine.ring import NoQuorum
from quorate.simulation.hosts.acts import Act, Actor, Deed, Witness
from quorate.simulation.hosts.fence import Fence
from quorate.simulation.hosts.kubeadm import Kubeadm
from quorate.simulation.hosts.machines import Machine
from quorate.simulation.hosts.observer import Facts, Observer, Seen, encrypts, read_ring
from quorate.simulation.hosts.scripts import Refused, Scripts
from quorate.simulation.hosts.site import Site
from quorate.workload.membership import RingReading

_Change: TypeAlias = (
    UpdateConfiguration
    | UpgradeControlPlane
    | UpgradeKubelet
    | Reconfigure
    | RenewCertificates
    | Uncordon
    | UpdateNodes
    | EnsureMachineDeployments
    | ChangeEncryption
    | RewriteSecrets
)
_PATIENCE = 120.0
"""Seconds that a health gate, or a write, is waited for."""


class Executor:
    """Carries out the steps of one run. What `carry_out` raises is what the production's raises."""

    def __init__(
        self, site: Site, scripts: Scripts, observer: Observer, actor: Actor, witness: Witness, random: Random, fence: Fence
    ) -> None:
        self.site, self.actor, self._fence = site, actor, fence
        self._scripts, self._observer, self._witness, self._random = scripts, observer, witness, random
        self._step: Step = TakeSnapshot()
        self._facts: Facts = {}  # as they were when it was decided

    async def carry_out(self, step: Step, seen: Seen) -> None:
        """Do the step that was decided on from this observation."""
        self._step, self._facts = step, seen.facts
        self.actor.observed = self.actor.since = seen.since
        self._tell(Deed.BEGIN)
        await self._takes(0.05, 0.5)
        try:
            await self._do(step)
        except (SshError, Refused, NoQuorum) as error:
            where = getattr(step, "host", "") or str(step)
            raise failure_of(where, error) from error

    async def _do(self, step: Step) -> None:
        match step:
            case Prepare(hosts):
                await self._on_all(hosts, self._prepare)
            case Initialize(host, resume):
                await self._initialize(host, resume=resume)
            case Join(host):
                await self._join(host)
            case JoinWorkers(hosts):
                await self._on_all(hosts, self._join_worker)
            case Reset(host):
                await self._reset(host)
            case StartServices(host):
                machine = self._machine(host)
                await self._script(machine, self._start(machine))
            case TakeSnapshot():
                self._fresh_ring()
                await self._takes(0.5, 3.0)
                self.actor.snapshot_taken = True
            case RemoveMember(member):
                await self._remove(member)
            case DeleteNode(node, drain):
                await self._delete_node(node, drain=drain)
            case _:
                await self._change(step)

    async def _change(self, step: _Change) -> None:
        manifest = self.actor.manifest
        match step:
            case UpdateConfiguration():
                await self._written(lambda: setattr(self.site.objects, "settings", manifest.settings))
                await self._written(lambda: setattr(self.site.objects, "encrypts", encrypts(manifest, self._facts)))
                await self._written(lambda: setattr(self.site.objects, "budget", len(manifest.entries) > 1))
            case UpgradeControlPlane(host, version, first):
                await self._upgrade(host, version, first=first)
            case UpgradeKubelet(host, version):
                await self._upgrade_kubelet(host, version)
            case Reconfigure(host):
                await self._reconfigure(host)
            case RenewCertificates(host):
                await self._make_ready(host)
                await self._run(host, self._kubeadm(host).renew())
                await self._until_back(host)
            case Uncordon(host):
                await self._uncordon(host)
            case UpdateNodes(hosts):
                for host in hosts:
                    await self._written(partial(self._label, host))
            case ChangeEncryption(host, configuration):
                await self._change_encryption(host, configuration)
            case RewriteSecrets(provider):
                await self._rewrite_secrets(provider)
            case EnsureMachineDeployments():
                raise AssertionError("no manifest here has dynamicWorkers")
            case _:
                assert_never(step)

    # Before there is a cluster, and hosts that join it.

    async def _prepare(self, host: str) -> None:
        machine = self._machine(host)
        await self._script(machine, self._install(machine))

    async def _install(self, machine: Machine) -> None:
        await self._works(1.0, 10.0)
        if machine.traces:
            raise Refused("the host belongs to a cluster by now")
        machine.disk.prepared = machine.containerd_runs = True
        await self._works(1.0, 10.0)
        machine.disk.kubelet = machine.disk.kubeadm = self.actor.manifest.version

    async def _initialize(self, host: str, *, resume: bool) -> None:
        await self._run(host, self._kubeadm(host).init(resume=resume))
        await self._until_back(host)
        if (stored := self._machine(host).disk.stores_with) != PLAIN and not resume:
            await self._written(lambda: setattr(self.site.objects, "written", stored.secrets[0]))

    async def _join(self, host: str) -> None:
        authority = await self._authority(host)
        self._require(host, gates.addition(self._fresh_ring().ring))
        await self._run(host, self._kubeadm(host).join(authority, self._providers(host)))
        await self._until_back(host)

    async def _join_worker(self, host: str) -> None:
        authority = await self._authority(host)
        await self._run(host, self._kubeadm(host).join_worker(authority))

    async def _authority(self, joining: str) -> int:
        """The keys, read from a host of the cluster; and a token, written through the API."""
        await self._written(lambda: None)
        donors = [entry.name for entry in self.actor.manifest.control_planes if entry.name != joining]
        machines = [machine for name in donors if (machine := self._find(name)) is not None and self._observer.reaches(machine)]
        donor = next((machine for machine in machines if self.site.serves(machine)), None)
        if donor is None:
            raise StepFailed(joining, "no control plane host can be reached to read the cluster's authorities from")
        return donor.disk.authority

    async def _reset(self, host: str) -> None:
        machine = self._machine(host)
        await self._script(machine, self._works(0.0, 0.1), kubeadm=True)  # none may be about to join
        reading = self._fresh_ring()
        if not isinstance(self._matched(reading, {host: self._observer.facts(host)}).member(host), Absent):
            raise StepFailed(host, "not reset, since etcd has its member")
        if host in self.actor.manifest.claims.control_planes:
            self._require(host, gates.reset(reading.ring))
        await self._run(host, self._kubeadm(host).reset())

    async def _start(self, machine: Machine) -> None:
        await self._works(0.2, 2.0)
        self._tell(Deed.START, machine)
        self.site.start_kubelet(machine)
        self.site.settle()

    # The ring, and what its members leave behind.

    async def _remove(self, member: int) -> None:
        owner = getattr(self._step, "owner", "") or "etcd"
        ring = self._fresh_ring().ring
        found = ring.member(member)
        if found is None:
            return
        if ring.leader == member:
            await self._hand_over(ring, member)
            ring = self._fresh_ring().ring
        self._require(owner, gates.removal(ring, member))
        if not any(
            self._observer.reaches(machine) and self.site.member_is_well(machine) and machine.member != member
            for machine in self._control_planes()
        ):
            raise StepFailed(owner, "no member that stays can be asked")
        await self._fence.while_stopped()
        self._fence.confirm()
        self._tell(Deed.REMOVE, self.site.holder_of(member), member=member)
        if member in self.site.ring.members:
            self.site.ring.remove(member)
            self.site.settle()
        await self._takes(0.05, 0.5)

    async def _hand_over(self, ring: Ring, leader: int) -> None:
        """Best effort, through the machine of the member that leads."""
        holder = self.site.holder_of(leader)
        to = ring.successor
        if holder is None or not self._observer.reaches(holder) or to is None:
            return
        self._fence.confirm()
        try:
            self.site.ring.move_leader(to.id)
        except NoQuorum:
            return
        await self._takes(0.05, 0.2)

    async def _delete_node(self, node: str, *, drain: bool) -> None:
        reading = self._fresh_ring()
        named = any(each.name == node for each in reading.ring.members)
        if named or not isinstance(self._matched(reading).member(node), Absent):
            raise StepFailed(node, "its Node is not deleted, since etcd has its member")
        if drain:
            await self._written(lambda: self._cordon(node))
            await self._takes(1.0, 20.0)
        await self._written(lambda: self._forget(node))

    def _forget(self, node: str) -> None:
        self._tell(Deed.DELETE_NODE, node=node)
        self.site.objects.nodes.pop(node, None)

    # Hosts that are in the cluster.

    async def _upgrade(self, host: str, version: Version, *, first: bool) -> None:
        machine = self._machine(host)
        await self._script(machine, self._new_kubeadm(machine, version))
        providers = self._providers(host)
        await self._make_ready(host)
        await self._run(host, self._kubeadm(host).upgrade(version, providers, first=first))
        await self._until_back(host)

    async def _new_kubeadm(self, machine: Machine, version: Version) -> None:
        await self._works(0.5, 5.0)
        machine.disk.kubeadm = version

    async def _upgrade_kubelet(self, host: str, version: Version) -> None:
        await self._written(lambda: self._cordon(host))
        await self._takes(1.0, 20.0)
        machine = self._machine(host)
        if machine.disk.components is not None:
            await self._make_ready(host)
        await self._run(host, self._kubeadm(host).exchange_kubelet(version))
        await self._until(host, "its Node", lambda: self._is_ready(host, version))
        if machine.disk.components is not None:
            await self._until_back(host)
        await self._uncordon(host)

    async def _reconfigure(self, host: str) -> None:
        machine = self._machine(host)
        if machine.disk.components is None:
            await self._script(machine, self._configure(machine))
            return
        await self._make_ready(host)
        await self._run(host, self._kubeadm(host).reconfigure())
        await self._until_back(host)

    async def _configure(self, machine: Machine) -> None:
        await self._works(0.5, 3.0)
        machine.disk.settings = self.site.objects.settings

    def _cordon(self, host: str) -> None:
        node = self.site.objects.nodes.get(host)
        if node is not None and not node.unschedulable:
            node.unschedulable = node.cordoned_by_us = True

    async def _uncordon(self, host: str) -> None:
        def let_in() -> None:
            node = self.site.objects.nodes.get(host)
            if node is not None and node.cordoned_by_us:
                node.unschedulable = node.cordoned_by_us = False

        await self._written(let_in)

    def _label(self, host: str) -> None:
        node, entry = self.site.objects.nodes.get(host), self.actor.manifest.entry(host)
        if node is not None and entry is not None:
            node.labels, node.control_plane = self.actor.manifest.labels, entry.control_plane
            node.static_worker = not entry.control_plane

    async def _make_ready(self, host: str) -> None:
        reading = self._fresh_ring()
        ring, member = reading.ring, self._matched(reading).member(host)
        if not isinstance(member, Member):
            raise StepFailed(host, "etcd has no member of this host")
        self._require(host, gates.restart(ring, member.id))
        if ring.leader == member.id:
            await self._hand_over(ring, member.id)
            self._require(host, gates.restart(self._fresh_ring().ring, member.id))

    # Keys, as in `hosts/act/encryption.py`.

    def _providers(self, host: str) -> Configuration | None:
        """Those that all API servers have, from the host itself or another; None where one has none."""
        names = dict.fromkeys((host, *(entry.name for entry in self.actor.manifest.control_planes)))
        path = common_file(each for name in names if isinstance(each := self._facts.get(name), HostFacts))
        if not isinstance(path, str):
            return None
        machines = [machine for name in names if (machine := self._find(name)) is not None and machine.answers]
        found = next((machine.disk.providers for machine in machines if machine.disk.providers is not None), None)
        if found is None:
            raise StepFailed(host, "Secrets are encrypted, and no host has the file of their keys")
        return found

    async def _change_encryption(self, host: str, wanted: Configuration) -> None:
        """Every control plane is asked for its keys, and etcd whether something is stored with one that would go."""
        await self._takes(0.05, 0.5)
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
        if needed := self._needed(machines[host].disk.keys - wanted.keys):
            raise StepFailed(host, f"something is stored with {', '.join(needed)}")
        await self._make_ready(host)
        await self._run(host, self._kubeadm(host).encrypt(wanted))
        await self._until_back(host)
        if wanted == PLAIN:
            await self._run(host, self._kubeadm(host).drop_providers())

    def _needed(self, keys: frozenset[str]) -> frozenset[str]:
        """Those of these keys that something is stored with, by etcd's own word."""
        self._fresh_ring()
        return keys.intersection(self.site.objects.stored)

    async def _rewrite_secrets(self, provider: str) -> None:
        """Through one API server, one Secret after the other."""
        await self._written(lambda: self._written_anew(()))
        await self._takes(1.0, 10.0)
        await self._written(lambda: self._written_anew(self.site.objects.stored))
        if others := set(self.site.objects.stored) - {provider}:
            raise StepFailed("etcd", f"Secrets are still stored with {', '.join(others)}")
        await self._written(lambda: setattr(self.site.objects, "written", provider))

    def _written_anew(self, gone: tuple[str, ...]) -> None:
        """Some Secrets are, or all of those that were stored with what is gone then."""
        through = next(machine for machine in self._control_planes() if machine.answers and self.site.serves(machine))
        self.site.objects.stored = tuple(provider for provider in self.site.objects.stored if provider not in gone)
        self.site.store({through.api_providers.secrets[0]})

    # What they share.

    def _fresh_ring(self) -> RingReading:
        machines = {
            name: machine
            for name in self.actor.manifest.claims.control_planes
            if (machine := self._find(name)) is not None and self._observer.reaches(machine)
        }
        self.actor.since = self.site.world.time()
        blind = Unknown("the members do not answer in time")
        reading = read_ring(self.site, machines, self.site.world.now()) if self._observer.sight.ring else blind
        if isinstance(reading, Unknown):
            raise StepFailed("etcd", f"the ring cannot be read: {reading.reason}")
        self._matched(reading)
        return reading

    def _matched(self, reading: RingReading, looked_at: Facts | None = None) -> Membership:
        """As the production matches, with the facts of when it was decided but for those of hosts that were looked at since."""
        found = membership(reading, self.actor.manifest.claims, {**self._facts, **(looked_at or {})})
        if found.contradictions:
            raise StepFailed("etcd", "; ".join(found.contradictions), "Correct the manifest or the hosts")
        return found

    @staticmethod
    def _require(where: str, check: Check) -> None:
        if not check.passed:
            raise StepFailed(where, f"not done, since {check.name}: {check.evidence}", check.remedy)

    def _control_planes(self) -> list[Machine]:
        return [machine for entry in self.actor.manifest.control_planes if (machine := self._find(entry.name)) is not None]

    def _find(self, host: str) -> Machine | None:
        entry = self.actor.manifest.entry(host)
        return self.site.machine_of(entry) if entry is not None else None

    def _machine(self, host: str) -> Machine:
        machine = self._find(host)
        if machine is None:
            raise NoAnswer(host, "no answer")
        return machine

    def _kubeadm(self, host: str) -> Kubeadm:
        return Kubeadm(self.site, self._machine(host), self.actor, self._step, self._witness, self._random)

    async def _run(self, host: str, script: Coroutine[Any, Any, None]) -> None:
        await self._script(self._machine(host), script, kubeadm=True)

    async def _script(self, machine: Machine, script: Coroutine[Any, Any, None], *, kubeadm: bool = False) -> None:
        """The run may be stopped right before its script is sent, and before it hears of its end."""
        try:
            if not self._observer.reaches(machine):
                raise NoAnswer(machine.name, "no answer")
            until = self._fence.confirm(machine)
            await self._fence.while_stopped()
        except (asyncio.CancelledError, NoAnswer, StepFailed):
            script.close()
            raise

        def admit(machine: Machine) -> None:
            self._fence.admit(machine, until)
            self._tell(Deed.SCRIPT, machine)

        await self._scripts.run(machine, script, owner=self.actor.name, admit=admit, kubeadm=kubeadm)
        await self._fence.while_stopped()

    async def _on_all(self, hosts: tuple[str, ...], one: Callable[[str], Coroutine[Any, Any, None]]) -> None:
        """All at once; a failure is told when all have ended."""
        failures: list[SshError | Refused | StepFailed] = []

        async def told(host: str) -> None:
            try:
                await one(host)
            except (SshError, Refused, StepFailed) as failure:
                failures.append(failure)

        async with asyncio.TaskGroup() as group:
            for host in hosts:
                group.create_task(told(host))
        if failures:
            raise failures[0]

    async def _until_back(self, host: str) -> None:
        await self._until(host, "its control plane", lambda: self.site.serves(self._machine(host)))
        await self._until(host, "its Node", lambda: host in self.site.objects.nodes)

    def _is_ready(self, host: str, version: Version) -> bool:
        node = self.site.objects.nodes.get(host)
        return node is not None and node.silent_since is None and node.kubelet == version

    async def _written(self, write: Callable[[], None]) -> None:
        await self._takes(0.05, 0.3)
        await self._until("the API", "an API server that answers", self._observer.asks_api)
        self._fence.permit()
        write()
        self.site.settle()

    async def _until(self, host: str, what: str, truth: Callable[[], bool]) -> None:
        end = self.site.world.time() + _PATIENCE
        while not truth():
            if self.site.world.time() > end:
                raise StepFailed(host, f"{what} did not come about")
            await self._fence.sleep(1.0)

    async def _takes(self, least: float, most: float) -> None:
        """The run does something, and may be stopped over it."""
        await self._fence.sleep(self._random.uniform(least, most))

    async def _works(self, least: float, most: float) -> None:
        """A script does something on a machine, where nobody stops it."""
        await asyncio.sleep(self._random.uniform(least, most))

    def _tell(self, deed: Deed, machine: Machine | None = None, *, member: int | None = None, node: str = "") -> None:
        if machine is None and (host := getattr(self._step, "host", "")):
            machine = self._find(host)
        self._witness(Act(deed, self.actor, self.actor.since, self._step, machine, member, node))
