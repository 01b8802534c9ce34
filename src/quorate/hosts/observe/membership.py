"""Which member of the ring is which host's, and where what the hosts say contradicts what the manifest says. Pure.

A host is the member that its own etcd says it is, or else the one whose log is on its disk. The manifest's addresses are a claim: they tell which member is a
host's that says nothing, because it cannot be asked or has lost its data. Only a member without an address is claimed by name, so that a member which has a
host's name and another address is an orphan: the host was replaced by another of the same name. That is so only once the other has said that it is not this
member: while a host that nobody can ask may be it, the member is no orphan.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from quorate.core.health import Absent, Finding, Health, Unknown
from quorate.core.hosts.state import OrphanMember
from quorate.core.ring import Member
from quorate.etcd.log_file import LogIdentity
from quorate.hosts.connect.ssh.hosts import Unreachable
from quorate.hosts.manifest import Host, Manifest
from quorate.hosts.observe.memory import Memory
from quorate.hosts.observe.ring import address_of
from quorate.hosts.probe.condition import EtcdRole
from quorate.hosts.probe.facts import Fact, HostFacts
from quorate.hosts.render.kubeadm_configuration import Machine, node_address
from quorate.workload.membership import RingReading


@dataclass(frozen=True, slots=True)
class Claims:
    """The addresses that the manifest gives each of its hosts. Only a control plane's member is looked for there."""

    control_planes: Mapping[str, Sequence[str]]
    workers: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def host_at(self, address: str) -> str | None:
        """The first host that has this address by the manifest."""
        return next((name for name, addresses in (*self.control_planes.items(), *self.workers.items()) if address in addresses), None)


@dataclass(frozen=True, slots=True)
class Membership:
    """The members by the host that they are of, and the orphans. `apart`: the ids with which hosts' own etcd answers, and which the ring does not have.
    `unasked`: hosts on which an etcd runs that gave no answer, and that was never of this ring by what is known.

    `contradictions` say in words where the manifest claims something else than a host's own etcd, or its data, says. While there is one nothing can be told
    of any orphan: it may be that of the host whose address is wrong.
    """

    by_host: Mapping[str, Member | Absent | Unknown]
    orphans: tuple[Member, ...] = ()
    apart: Mapping[str, int] = field(default_factory=dict)
    unasked: frozenset[str] = frozenset()
    contradictions: tuple[str, ...] = ()

    def member(self, host: str) -> Member | Absent | Unknown:
        """The host's member; a host that is not asked for, such as a worker, has none."""
        return self.by_host.get(host, Absent())

    def health(self, host: str) -> Finding | None:
        """How its own etcd does; None where there is none to ask. One that answers is well even where the ring does not have it."""
        if host in self.apart:
            return Finding(Health.GOOD, "EtcdApart", f"its own etcd answers as member {self.apart[host]:x}, which is not in the ring")
        if host in self.unasked and isinstance(self.member(host), Absent):
            return Finding(
                Health.UNKNOWN, "EtcdNotAsked", "an etcd runs on it that could not be asked, and whose log is not this cluster's"
            )
        return health(self.member(host))


def membership(reading: RingReading | Unknown | Absent, claims: Claims, facts: Mapping[str, HostFacts | Unreachable]) -> Membership:
    """The members by host. `facts` are of every host, workers among them."""
    if not isinstance(reading, RingReading):
        return Membership(dict.fromkeys(claims.control_planes, reading))
    return _Matching(reading, claims, facts).result()


def claims_of(manifest: Manifest, machines: Mapping[str, Machine]) -> Claims:
    """Where the manifest says that each host's member is: at the address that kubeadm is told, or at another of its own, as somebody else may have set it up.
    `machines` are in the manifest's order.
    """
    addresses = [(name, _addresses(manifest, machine.host)) for name, machine in machines.items()]
    control_planes = len(manifest.control_plane.hosts)
    return Claims(dict(addresses[:control_planes]), dict(addresses[control_planes:]))


def _addresses(manifest: Manifest, host: Host) -> tuple[str, ...]:
    return tuple(dict.fromkeys((node_address(manifest, host), host.private_address, *host.ipv6_addresses)))


def cluster_id(reading: RingReading | Unknown | Absent, ca: Fact[str]) -> Fact[int]:
    """Etcd's own id of the ring. Where no host has a CA there is no cluster, whatever etcd could not be asked."""
    if isinstance(reading, RingReading):
        return reading.cluster_id
    return Absent() if isinstance(ca, Absent) else reading


def role(member: Member | Absent | Unknown) -> Fact[EtcdRole]:
    """What the member is in the ring."""
    if isinstance(member, Member):
        return EtcdRole.LEARNER if member.learner else EtcdRole.VOTER
    return member


def health(member: Member | Absent | Unknown) -> Finding | None:
    """How the member does by its own word; None where there is none to ask."""
    if not isinstance(member, Member):
        return None
    return Finding(member.health, "EtcdMember", member.evidence)


def orphan_members(orphans: Sequence[Member], memory: Memory) -> tuple[OrphanMember, ...]:
    """The orphans, each with what is remembered of it."""
    return tuple(OrphanMember(member, memory.members.of(member.id), memory.without_vote_for(member.id)) for member in orphans)


def _etcd_runs(facts: HostFacts) -> bool:
    return isinstance(facts.processes, frozenset) and "etcd" in facts.processes


class _Matching:
    """One ring, matched with the hosts."""

    def __init__(self, reading: RingReading, claims: Claims, facts: Mapping[str, HostFacts | Unreachable]) -> None:
        self.ring, self.all_claims, self.claims, self.facts = reading.ring, claims, claims.control_planes, facts
        self.cluster_id = reading.cluster_id
        statuses = {host: status for host, status in reading.statuses.items() if host in facts and host not in reading.elsewhere}
        self.answering = {host: status.member_id for host, status in statuses.items()}
        self.answered = {status.member_id for status in reading.statuses.values()}

    def result(self) -> Membership:
        own = {host: self._own(host) for host in self.facts}
        claimed = self._claimed()
        theirs = {member.id for member in own.values() if member is not None}
        left = {host: member for host, member in claimed.items() if member.id not in theirs}
        owners = {host: own[host] or left.get(host) for host in self.claims}
        held = theirs | {member.id for member in owners.values() if member is not None}
        orphans = tuple(member for member in self.ring.members if member.id not in held)
        apart = {host: member for host, member in self.answering.items() if self.ring.member(member) is None}
        return Membership(
            {host: owners[host] or self._none(host, orphans) for host in self.claims},
            orphans,
            apart,
            frozenset(host for host in self.claims if self._runs_unasked(host)),
            (*self._misplaced(own), *self._twice(own), *self._elsewhere(own, left), *self._disputed(theirs, left)),
        )

    # Who is who.

    def _own(self, host: str) -> Member | None:
        """The member that the host's own etcd says it is, or whose log is on its disk."""
        if host in self.answering:
            return self.ring.member(self.answering[host])
        log = self._log(host)
        ours = isinstance(log, LogIdentity) and log.cluster_id == self.cluster_id
        return self.ring.member(log.member_id) if isinstance(log, LogIdentity) and ours else None

    def _claimed(self) -> dict[str, Member]:
        """By the manifest: of two members at one address the first."""
        found: dict[str, Member] = {}
        for member in self.ring.members:
            host = self._claimant(member)
            if host is not None:
                found.setdefault(host, member)
        return found

    def _claimant(self, member: Member) -> str | None:
        address = address_of(member)
        if address:
            return next((host for host, addresses in self.claims.items() if address in addresses), None)
        return member.name if member.name in self.claims else None

    def _none(self, host: str, orphans: Sequence[Member]) -> Absent | Unknown:
        """That a host has no member is proven by the host; one that cannot tell may have any orphan."""
        log = self._log(host)
        if host in self.answering or not isinstance(log, Unknown):
            return Absent()
        if isinstance(self.facts[host], HostFacts):
            return Unknown(f"whose etcd data are on it is not known: {log.reason}", log.remedy)
        nobodys = [member.label for member in orphans]
        if not nobodys:
            return Absent()
        why = f"it cannot be asked whether it is {' or '.join(nobodys)}, of which no other host is: {log.reason}"
        return Unknown(why, f"Bring {host} back, correct its address, or remove it from the manifest")

    def _runs_unasked(self, host: str) -> bool:
        """Whether an etcd runs there that may be of another ring: one that has left this one ends by itself."""
        facts, log = self.facts[host], self._log(host)
        ours = isinstance(log, LogIdentity) and log.cluster_id == self.cluster_id
        return host not in self.answering and not ours and isinstance(facts, HostFacts) and _etcd_runs(facts)

    def _log(self, host: str) -> Fact[LogIdentity]:
        facts = self.facts[host]
        return Unknown(facts.reason, facts.remedy) if isinstance(facts, Unreachable) else facts.etcd_identity

    # What contradicts the manifest.

    def _misplaced(self, own: Mapping[str, Member | None]) -> Iterator[str]:
        """A member that lives elsewhere than the manifest says of its host."""
        for host, member in own.items():
            if member is None:
                continue
            address, claims = address_of(member), self.claims.get(host)
            said = f"{host} is etcd member {member.label} ({member.id:x})"
            if claims is None:
                yield f"{said}, but the manifest has {host} as a static worker"
            elif address and address not in claims:
                other = self.all_claims.host_at(address)
                whose = f", which the manifest gives to {other}" if other else ""
                yield f"{said}, which the ring has at {address}{whose}, but the manifest says that {host} is at {' and '.join(claims)}"

    def _twice(self, own: Mapping[str, Member | None]) -> Iterator[str]:
        """Two hosts that are one member."""
        for member in self.ring.members:
            hosts = [host for host, each in own.items() if each == member]
            if len(hosts) > 1:
                yield f"{' and '.join(hosts)} are the same etcd member {member.label} ({member.id:x}): one machine twice, or one a copy of the other"

    def _elsewhere(self, own: Mapping[str, Member | None], claimed: Mapping[str, Member]) -> Iterator[str]:
        """A member at a host's address that is not this host's: the host holds the data of another, or has none, and the member answers all the same."""
        for host, member in claimed.items():
            log, facts = self._log(host), self.facts[host]
            if own[host] is not None or not isinstance(facts, HostFacts) or isinstance(log, Unknown):
                continue
            where = f"the ring has member {member.label} ({member.id:x}) at {address_of(member) or 'no address'}, which the manifest gives to {host}"
            if host in self.answering:
                yield f"{where}, but the etcd of {host} answers as member {self.answering[host]:x}, which is not in the ring"
            elif member.id in self.answered and not _etcd_runs(facts):
                yield f"{where}, where it answers, but no etcd runs on {host}: another machine has that address"
            elif isinstance(log, LogIdentity) and log.cluster_id == self.cluster_id and member.name:
                yield f"{where}, but the etcd data of {host} are those of member {log.member_id:x}, which is not in the ring"

    def _disputed(self, theirs: Collection[int], claimed: Mapping[str, Member]) -> Iterator[str]:
        """A member that no host says it is, and that may be another's than the one which has its address, since somebody cannot be asked."""
        for member in self.ring.members:
            here = self.all_claims.host_at(address_of(member)) if member.id not in theirs else None
            if here is None or not member.name:
                continue
            where = f"the ring has member {member.label} ({member.id:x}) at {address_of(member)}, which the manifest gives to {here}"
            may_be = [host for host in self.claims if self._is_silent(host) and host not in claimed]
            if here != member.name and self._is_silent(member.name):
                yield f"{where}, but by its name it is that of {member.name}, which cannot be asked"
            elif here not in self.claims and self._is_silent(here):
                yield f"{where}, a static worker that cannot be asked whether it is that member"
            elif here in self.claims and here != member.name and not self._is_silent(here) and may_be:
                yield f"{where}, but {' and '.join(may_be)} cannot be asked whether it is that member"

    def _is_silent(self, host: str) -> bool:
        return isinstance(self.facts.get(host), Unreachable)
