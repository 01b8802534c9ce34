"""What an operator sees of the site: hosts, ring and API, one after the other while the world goes on, made into the value that is judged.

Who is which member, which cluster is the one meant, what kind of host each is and how often somebody was silent is judged by the production's own code; only
the connections are the simulation's.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from random import Random
from typing import Any

from quorate.core.health import Absent, Finding, Health, Unknown
from quorate.core.hosts.encryption import PLAIN, Desired, Encryption
from quorate.core.hosts.state import READYZ, Cluster, Host, Kind, RunOptions
from quorate.core.hosts.state import Node as SeenNode
from quorate.core.ring import Member, Ring
from quorate.etcd.client import Status
from quorate.hosts.connect.ssh.hosts import Unreachable
from quorate.hosts.observe.cluster_ca import cluster_ca, trusted
from quorate.hosts.observe.duplicates import doubts, set_apart
from quorate.hosts.observe.encryption import common_file, flag_of
from quorate.hosts.observe.host import data_lost, holds_a_copy, starts_without_data
from quorate.hosts.observe.membership import Membership, cluster_id, membership, orphan_members, role
from quorate.hosts.observe.memory import Memory
from quorate.hosts.observe.problems import problems
from quorate.hosts.observe.ring import silent_members
from quorate.hosts.probe.condition import Listing, condition
from quorate.hosts.probe.facts import EtcdData, Fact, HostFacts
from quorate.hosts.probe.healthy import api_server, api_server_restarts
from quorate.hosts.render.kubeadm_configuration import Machine as HostMachine
from quorate.hosts.run.lock_file import LASTS
from quorate.hosts.run.session import Done
from quorate.simulation.engine.ring import Member as RingMember
from quorate.simulation.hosts.facts import facts_of
from quorate.simulation.hosts.machines import KubeletConf, Lock, Machine
from quorate.simulation.hosts.site import Entry, Manifest, Node, Objects, Site
from quorate.simulation.hosts.written import machines_of
from quorate.workload.membership import RingReading

Facts = Mapping[str, HostFacts | Unreachable]


@dataclass(slots=True)
class Sight:
    """How well somebody sees: `slow` draws out every observation, and without the ring or the API these are unknown."""

    slow: float = 1.0
    ring: bool = True
    api: bool = True


@dataclass(frozen=True, slots=True)
class Seen:
    """One observation, what each host told in it, the hosts with their names, and when it was begun."""

    cluster: Cluster
    facts: Facts
    machines: Mapping[str, HostMachine]
    since: float


def read_ring(site: Site, asked: Mapping[str, Machine], now: datetime) -> RingReading | Unknown:
    """The ring through the first of these hosts whose member can list it. Members that run elsewhere are asked through it, at their addresses."""
    answering = {host: machine.member for host, machine in asked.items() if machine.answers and machine.member is not None}
    through = next((host for host in answering if site.member_is_well(asked[host])), None)
    if through is None:
        states = "; ".join(f"{host} {'knows no leader' if host in answering else 'does not answer'}" for host in asked)
        return Unknown(states or "no node to ask")
    elsewhere = {f"{member:x}": member for member in site.ring.members if _talks_to(site, asked[through], member)}
    elsewhere = {label: member for label, member in elsewhere.items() if member not in answering.values()}
    statuses = {label: _status(site, member) for label, member in {**answering, **elsewhere}.items()}
    heard = {status.member_id: status for status in statuses.values()}
    ring = Ring(tuple(_judged(member, heard.get(member.id)) for member in site.ring.members.values()), site.ring.leader)
    return RingReading(ring, site.ring_id, (), answering, through, now, statuses=statuses, elsewhere=frozenset(elsewhere))


def _talks_to(site: Site, through: Machine, member: int) -> bool:
    machine = site.holder_of(member)
    return machine is not None and machine.member == member and machine.talks and through.talks


def _status(site: Site, member: int) -> Status:
    return Status(member, (site.ring.leader or 0) if site.ring.follows_leader(member) else 0)


def _judged(member: RingMember, status: Status | None) -> Member:
    if status is None:
        found, evidence = Health.BAD, "does not answer"
    else:
        found, evidence = (Health.GOOD, "follows the leader") if status.leader else (Health.BAD, "knows no leader")
    return Member(member.id, member.name, found, member.learner, (member.peer_url,), evidence)


class Observer:
    """What one operator sees who has one manifest."""

    def __init__(self, site: Site, manifest: Manifest, sight: Sight, random: Random, now: Callable[[], datetime], holder: str) -> None:
        self.site, self.manifest, self.sight = site, manifest, sight
        self._random, self._now, self._holder = random, now, holder
        self._memory = Memory()
        self.options = RunOptions()
        self.sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
        self.cut_off: set[Machine] = set()

    async def observe(self, done: Done) -> Seen:
        """Look at everything once. Takes a second where all is well."""
        since, at = self.site.world.time(), self._now()
        await self._takes(0.1, 0.5)
        self.site.settle()
        probed = {entry.name: copied for entry in self.manifest.entries if (copied := self._probe(entry)) is not None}
        facts = {entry.name: self._facts(entry, probed.get(entry.name)) for entry in self.manifest.entries}
        self._memory.hosts.note(facts, (name for name, each in facts.items() if isinstance(each, Unreachable)), at)
        control_planes = [entry.name for entry in self.manifest.control_planes]
        ca = cluster_ca(facts, control_planes)
        await self._takes(0.05, 0.3)
        reading = self._ring(facts, control_planes, ca)
        if isinstance(reading, RingReading):
            self._memory.note_members(reading.ring, silent_members(reading), at)
        await self._takes(0.05, 0.3)
        cluster = self._cluster(facts, probed, ca, reading, self._api(facts, ca))
        return Seen(done.told(cluster), facts, machines_of(self.manifest), since)

    async def _takes(self, least: float, most: float) -> None:
        await self.sleep(self._random.uniform(least, most) * self.sight.slow)

    def _probe(self, entry: Entry) -> Machine | None:
        """The machine as it is at this instant; None where it does not answer."""
        machine = self.site.machine_of(entry)
        if machine is None or not self.reaches(machine):
            return None
        copied = copy.copy(machine)
        copied.disk = copy.copy(machine.disk)
        return copied

    def _facts(self, entry: Entry, probed: Machine | None) -> HostFacts | Unreachable:
        return Unreachable(entry.name, "NoAnswer", "no answer", "") if probed is None else facts_of(self.site, probed)

    # The ring and the API.

    def _ring(self, facts: Facts, control_planes: list[str], ca: str | Absent | Unknown) -> RingReading | Unknown | Absent:
        known = {name: each for name in control_planes if isinstance(each := facts[name], HostFacts)}
        ours = [name for name, each in known.items() if isinstance(ca, str) and ca in trusted(each)]
        asked = [name for name in ours if not isinstance(known[name].manifest("etcd"), Absent)]
        if asked:
            machines = {name: machine for name in asked if (machine := self._machine(name)) is not None and self.reaches(machine)}
            return read_ring(self.site, machines, self._now()) if self.sight.ring else Unknown("the members do not answer in time")
        if isinstance(ca, Unknown):
            return ca
        with_data = [name for name, each in known.items() if each.etcd_data is EtcdData.MEMBER]
        if with_data:
            return Unknown(f"{', '.join(with_data)} may have etcd's data, but no etcd that could be asked")
        missing = [name for name in control_planes if isinstance(facts[name], Unreachable)]
        if missing and isinstance(ca, str):
            return Unknown(
                f"no host that could be asked has an etcd member, and {', '.join(missing)} could not be asked", "Bring them back"
            )
        return Absent()

    def _api(self, facts: Facts, ca: str | Absent | Unknown) -> Objects | Unknown | Absent:
        if isinstance(ca, Absent):
            missing = any(isinstance(facts[entry.name], Unreachable) for entry in self.manifest.control_planes)
            return Unknown("no host that could be asked belongs to a cluster") if missing else Absent()
        if isinstance(ca, Unknown):
            return ca
        return self.site.objects if self.asks_api() else Unknown("no API server answers")

    def facts(self, host: str) -> HostFacts | Unreachable:
        """What a host tells at this instant."""
        entry = self.manifest.entry(host)
        return Unreachable(host, "NoAnswer", "no answer", "") if entry is None else self._facts(entry, self._probe(entry))

    def reaches(self, machine: Machine) -> bool:
        """Whether this operator can work on it."""
        return machine.answers and machine not in self.cut_off

    def asks_api(self) -> bool:
        """Whether the API can be asked through any host of the manifest."""
        machines = [self._machine(entry.name) for entry in self.manifest.control_planes]
        return self.sight.api and any(
            machine is not None and self.reaches(machine) and self.site.lets_in(machine) and self.site.serves(machine)
            for machine in machines
        )

    def _machine(self, name: str) -> Machine | None:
        entry = self.manifest.entry(name)
        return self.site.machine_of(entry) if entry is not None else None

    # One value of it.

    def _cluster(
        self,
        facts: Facts,
        probed: Mapping[str, Machine],
        ca: str | Absent | Unknown,
        reading: RingReading | Unknown | Absent,
        api: Objects | Unknown | Absent,
    ) -> Cluster:
        manifest = self.manifest
        ring = reading.ring if isinstance(reading, RingReading) else reading
        members = membership(reading, manifest.claims, facts)
        hosts = tuple(self._host(entry, facts[entry.name], probed.get(entry.name), ca, reading, members, api) for entry in manifest.entries)
        hosts, not_told_apart = set_apart(hosts, doubts(facts, {entry.name: entry.private_address for entry in manifest.entries}))
        known = api if isinstance(api, Objects) else Objects()
        missed = self._memory.members
        return Cluster(
            name="site",
            version=manifest.version,
            hosts=hosts,
            leader=manifest.control_planes[0].name,
            ring=ring,
            api=_api_finding(api),
            running=known.running,
            orphans=orphan_members(members.orphans, self._memory),
            lost_nodes=tuple(node.name for node in known.nodes.values() if self._is_lost(node, facts)),
            other_nodes=tuple(self._seen(node) for node in known.nodes.values() if self._is_of_no_host(node, facts)),
            members_missed_probes=tuple(
                (member.id, missed_probes)
                for member in (ring.members if isinstance(ring, Ring) else ())
                if member not in members.orphans and (missed_probes := missed.of(member.id)) is not None
            ),
            configuration_drift=self._configuration_drift(known, facts),
            addon_drift=self._addon_drift(known),
            encryption=Desired(None if manifest.encrypts else PLAIN, known.written),
            locked_by=self._locked_by(),
            problems=(*members.contradictions, *not_told_apart, *problems(facts, ca)),
            options=self.options,
        )

    def _host(
        self,
        entry: Entry,
        facts: HostFacts | Unreachable,
        machine: Machine | None,
        ca: str | Absent | Unknown,
        reading: RingReading | Unknown | Absent,
        members: Membership,
        api: Objects | Unknown | Absent,
    ) -> Host:
        member = members.member(entry.name)
        node = self._node(entry, facts, api)
        host = Host(
            name=entry.name,
            control_plane=entry.control_plane,
            kind=Kind.UNREACHABLE,
            missed_probes=self._memory.hosts.of(entry.name),
            member=member.id if isinstance(member, Member) else member,
            member_health=members.health(entry.name),
            node=self._seen(node) if isinstance(node, Node) else node,
            node_drift=self._node_drift(entry, node) if isinstance(node, Node) else (),
            new_node_drift=self._node_drift(entry, Node(entry.name, entry.address, entry.control_plane, None)),
        )
        if isinstance(facts, Unreachable) or machine is None:
            return replace(host, findings=(Finding(Health.UNKNOWN, "NoAnswer", "no answer"),))
        listing = Listing(
            ca=ca,
            cluster_id=cluster_id(reading, ca),
            etcd=role(member),
            node=node.name if isinstance(node, Node) else node,
        )
        clock = facts.clock if isinstance(facts.clock, datetime) else self._now()
        found = condition(facts, listing, control_plane=entry.control_plane, now=clock)
        return replace(
            host,
            kind=found.kind,
            findings=found.findings,
            clock_ahead=clock - self._now(),
            **self._of_disk(machine, facts, host, member, listing.cluster_id),
        )

    def _of_disk(
        self, machine: Machine, facts: HostFacts, host: Host, member: Member | Absent | Unknown, ring_id: Fact[int]
    ) -> dict[str, Any]:
        disk, manifest = machine.disk, self.manifest
        joined = disk.kubelet_conf is not KubeletConf.NONE
        units = {"containerd": machine.containerd_runs, "kubelet": machine.kubelet_runs}
        made = disk.components is not None if host.control_plane else joined
        ready = joined or (disk.prepared and disk.kubelet == disk.kubeadm == manifest.version)
        return {
            "components": disk.components,
            "kubelet": disk.kubelet,
            "kubeadm": disk.kubeadm,
            "api_server": None if disk.components is None else api_server(READYZ, facts.api_server_readyz, facts),
            "lacks": () if ready else ("packages",),
            "stopped": tuple(f"{name}.service" for name, runs in units.items() if joined and not runs and not starts_without_data(facts)),
            "api_server_restarts": api_server_restarts(facts),
            "etcd_runs": machine.member is not None,
            "etcd_data_lost": data_lost(facts, member),
            "holds_a_copy": holds_a_copy(facts, ring_id),
            "drift": ("settings",) if made and disk.revisions != {manifest.settings} else (),
            "certificates_expire": disk.certificates_expire if host.control_plane else None,
            "encryption": _encryption(machine, facts) if host.control_plane else None,
        }

    def _node(self, entry: Entry, facts: HostFacts | Unreachable, api: Objects | Unknown | Absent) -> Node | Absent | Unknown:
        if not isinstance(api, Objects):
            return api
        node = api.nodes.get(entry.name)
        return Absent() if node is None or self._is_replaced(node, facts) else node

    def _is_replaced(self, node: Node, facts: HostFacts | Unreachable) -> bool:
        """Whether another machine was the Node: this one has joined nothing, and has another address."""
        entry = self.manifest.entry(node.name)
        if entry is None or isinstance(facts, Unreachable):
            return False
        return node.address != entry.address and isinstance(facts.kubeconfigs["kubelet"], Absent)

    def _is_of_no_host(self, node: Node, facts: Facts) -> bool:
        return self.manifest.entry(node.name) is None or self._is_replaced(node, facts[node.name])

    def _is_lost(self, node: Node, facts: Facts) -> bool:
        """As `hosts/observe/nodes.py` judges it: a worker whose name the manifest has not may be somebody else's, unless it has quorate's annotation."""
        ours = node.control_plane or node.static_worker or self.manifest.entry(node.name) is not None
        return ours and self._is_of_no_host(node, facts)

    def _configuration_drift(self, known: Objects, facts: Facts) -> tuple[str, ...]:
        differs = {
            "settings": known.settings != {self.manifest.settings},
            "encryption": known.configured.encrypts != encrypts(self.manifest, facts),
        }
        return tuple(what for what, is_so in differs.items() if is_so and known.running is not None)

    def _addon_drift(self, known: Objects) -> tuple[str, ...]:
        return ("budget",) if known.running is not None and len(self.manifest.entries) > 1 and not known.budget else ()

    def _node_drift(self, entry: Entry, node: Node) -> tuple[str, ...]:
        labels = ("labels",) if node.labels != self.manifest.labels else ()
        return labels if entry.control_plane or node.static_worker else (*labels, "annotation")

    def _seen(self, node: Node) -> SeenNode:
        ready = self.site.is_ready(node)
        finding = Finding(Health.GOOD, "NodeReady") if ready else Finding(Health.UNKNOWN, "NodeReady", "Ready is Unknown")
        return SeenNode(
            node.name,
            finding,
            node.kubelet,
            node.unschedulable,
            node.cordoned_by_us,
            control_plane=node.control_plane,
            static_worker=node.static_worker,
        )

    def _locked_by(self) -> str:
        machines = [
            machine for entry in self.manifest.entries if (machine := self._machine(entry.name)) is not None and self.reaches(machine)
        ]
        locks = [*(machine.lock for machine in machines), self.site.lease if self.asks_api() else None]
        theirs = [lock.holder for lock in locks if lock is not None and lock.holder not in ("", self._holder) and self._counts(lock)]
        return f"locked by {theirs[0]}" if theirs else ""

    def _counts(self, lock: Lock) -> bool:
        return self.site.world.time() - lock.renewed < LASTS


def _encryption(machine: Machine, facts: HostFacts) -> Encryption | Unknown | None:
    """How its API server stores Secrets."""
    flag, disk = flag_of(facts), machine.disk
    if isinstance(facts.manifest("kube-apiserver"), Absent):
        return None
    if isinstance(flag, Unknown):
        return flag
    if not isinstance(flag, str):
        return Encryption(in_use=not (machine.api_version and machine.api_flagged), spare=disk.providers)
    if disk.providers is None:
        return Unknown("its API server reads a file that is not there")
    in_use = not machine.api_version or (machine.api_flagged and machine.api_providers == disk.providers)
    return Encryption(disk.providers, flagged=True, in_use=in_use)


def encrypts(manifest: Manifest, facts: Facts) -> bool:
    """Whether those who join are to have what all API servers have, or, where there is none, what the manifest wants."""
    names = (entry.name for entry in manifest.control_planes)
    path = common_file(each for name in names if isinstance(each := facts[name], HostFacts))
    return manifest.encrypts if path is None else isinstance(path, str)


def _api_finding(api: Objects | Unknown | Absent) -> Finding:
    match api:
        case Objects():
            return Finding(Health.GOOD, "APIAnswers", "the API answers")
        case Unknown(reason):
            return Finding(Health.BAD, "APINotAnswering", reason)
        case Absent():
            return Finding(Health.UNKNOWN, "NoCluster", "there is no cluster yet")
