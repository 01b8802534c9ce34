"""Which etcd member is a Machine's, and what is left over: matched by id, name or peer URL; proven absent; or unknown with the reason. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from quorate.clusterapi.types.names import EtcdMemberReason
from quorate.core.health import Absent, Finding, Health, Unknown
from quorate.core.machines.rules.orphans import CONSENT
from quorate.core.ring import Member, Ring
from quorate.etcd.client import host_of
from quorate.kubernetes.objects import Node
from quorate.workload.membership import RingReading
from quorate.workload.nodes import readiness

_ONE_NODE = "If one Machine is a copy of the other, remove the finalizers of the copy before you delete it: it then leaves without the host of both."
_ONE_ADDRESS = (
    "quorate knows whose it is as soon as it answers. If the host of one of those with this address is gone for good, delete its Machine, "
    "or its Node if it has no Machine."
)


@dataclass(frozen=True, slots=True)
class Membership:
    """The members by the name of their Machine, and the orphans, among them the contested: several that fit one Machine, of which one may be its own, and
    those that fit several Machines.
    """

    of: Mapping[str, int | Absent | Unknown]
    orphans: tuple[Member, ...]
    contested: Mapping[int, tuple[str, ...]] = field(default_factory=dict)  # by id: the Machines
    homes: Mapping[int, Node | Unknown] = field(default_factory=dict)  # by id: of orphans, the Node of no Machine that it runs on


@dataclass(frozen=True, slots=True)
class _Host:
    """Where a member may run: a Node, or what a Machine has that is no Node yet."""

    name: str  # the Node's, or the Machine's
    node: Node | Unknown | None
    machines: tuple[str, ...]  # whose it is: of none, of one, or of several, one of which is a copy
    answering: bool  # as some member: no other one runs there


class _Hosts:
    """All of them, looked at once for all members."""

    def __init__(self, reading: RingReading, machines: Mapping[str, Node | None], others: Mapping[str, Node | Unknown]) -> None:
        theirs: dict[str, list[str]] = {}
        for machine, node in machines.items():
            if node is not None:
                theirs.setdefault(node.metadata.name, []).append(machine)
        answers = reading.member_ids
        unread = {name: Unknown(f"Node {name}, where it answers, was not read") for name in answers}
        nodes = {**unread, **others, **{node.metadata.name: node for node in machines.values() if node is not None}}
        self._by_node = {name: _Host(name, node, tuple(theirs.get(name, ())), name in answers) for name, node in nodes.items()}
        self._to_come = {name: _Host(name, None, (name,), answering=False) for name, node in machines.items() if node is None}
        self._by_address: dict[str, list[_Host]] = {}
        for host in self._by_node.values():
            if isinstance(host.node, Node) and not host.answering:
                for address in {each.address for each in host.node.status.addresses}:
                    self._by_address.setdefault(address, []).append(host)
        self._answered: dict[int, list[_Host]] = {}
        for name, member in answers.items():
            self._answered.setdefault(member, []).append(self._by_node[name])

    def of(self, member: Member) -> Sequence[_Host]:
        """Where it runs: where it answered; else on the Node that has its name, and where none has on a Machine's of its name that is no Node yet; else
        wherever its address is. None of those that answer as another: an address or a name was used again, and this member had it before.
        """
        if member.id in self._answered:
            return self._answered[member.id]
        named = self._by_node.get(member.name) or self._to_come.get(member.name)
        if named is not None and not named.answering:
            return (named,)
        return self.at_its_address(member)

    def at_its_address(self, member: Member) -> Sequence[_Host]:
        """Where it may run by its address alone, whatever its name is."""
        if member.id in self._answered:
            return ()
        addresses = {address for url in member.peer_urls if (address := host_of(url))}
        return list({host.name: host for address in addresses for host in self._by_address.get(address, ())}.values())


def match(
    reading: RingReading | Unknown, machines: Mapping[str, Node | None], others: Mapping[str, Node | Unknown] = MappingProxyType({})
) -> Membership:
    """Match members with Machines; each Machine comes with its Node, or None where it has none (yet). `others` are the Nodes of no Machine, by name.

    A member goes to the Machine on whose Node it answered, or whose Node has its name, or whose address its peer URL has. A Machine without a Node may still
    have started a member: it is proven absent only when every member is somebody else's, and one with a Node only when no silent member fits it. Where several
    fit one Machine, and none of them answers on its Node, all but one are left over from hosts that it had before; where one fits several Machines, all but
    one of these have an address that is another's by now. Nobody can say which: they are orphans too, for whoever judges whether each of them can be done
    without. Of Machines that have one Node between them nobody can say whose member runs there, and it is not removed.
    """
    if isinstance(reading, Unknown):
        return Membership(dict.fromkeys(machines, reading), ())
    hosts, members = _Hosts(reading, machines, others), reading.ring.members
    places = {member.id: hosts.of(member) for member in members}
    fitting, near = _by_machine(machines, members, hosts.of), _by_machine(machines, members, hosts.at_its_address)
    shared = _shared(machines)
    crowded = {name for name, found in fitting.items() if len(found) > 1 and name not in shared}
    contested: dict[int, tuple[str, ...]] = {}
    for member in members:
        owners = _machines(places[member.id])
        if names := owners if len(places[member.id]) > 1 else tuple(crowded.intersection(owners)):
            contested[member.id] = names
    orphans = tuple(member for member in members if member.id in contested or not _machines(places[member.id]))
    of = {
        name: shared.get(name) or _its_own(name, node, fitting[name], places) or _missing(node, orphans, near[name])
        for name, node in machines.items()
    }
    homes = {member.id: home for member in orphans if (home := _home(places[member.id])) is not None}
    return Membership(of, orphans, contested, homes)


def _machines(hosts: Sequence[_Host]) -> tuple[str, ...]:
    return tuple(name for host in hosts for name in host.machines)


def _by_machine(machines: Iterable[str], members: Iterable[Member], where: Callable[[Member], Sequence[_Host]]) -> dict[str, list[Member]]:
    """The members that may run on each Machine's host."""
    found: dict[str, list[Member]] = {name: [] for name in machines}
    for member in members:
        for name in _machines(where(member)):
            found[name].append(member)
    return found


def _home(hosts: Sequence[_Host]) -> Node | Unknown | None:
    """The Node of no Machine among these; one that was not read, or is ready, before others: whoever may run there stays."""
    nodes = [host.node for host in hosts if host.node is not None and not host.machines]
    return max(nodes, key=lambda node: isinstance(node, Unknown) or readiness(node) == "True", default=None)


def _shared(machines: Mapping[str, Node | None]) -> dict[str, Unknown]:
    """Why nobody can tell which member is that of a Machine whose Node is another's as well."""
    names: dict[str, list[str]] = {}
    for name, node in machines.items():
        if node is not None:
            names.setdefault(node.metadata.name, []).append(name)
    return {
        name: Unknown(f"Node {node} is that of {' and '.join(both)}", _ONE_NODE)
        for node, both in names.items()
        if len(both) > 1
        for name in both
    }


def _its_own(machine: str, node: Node | None, fitting: Sequence[Member], places: Mapping[int, Sequence[_Host]]) -> int | Unknown | None:
    if len(fitting) > 1:
        ids = " and ".join(f"{member.id:x}" for member in fitting)
        both = "both" if len(fitting) == 2 else "all"
        if node is None:
            return Unknown(
                f"members {ids} {both} have its name", f"If no Node comes up for {machine}, delete the Machine: its members leave with it."
            )
        remedy = (
            "All but one are left over from machines that had the same address or name. "
            f"Run `etcdctl endpoint status -w table` on the host of {machine}: the ID that it prints is the live one. "
            "Remove each other one with `etcdctl member remove ID`. "
            "If the host is gone for good, delete the Machine: its members leave with it."
        )
        return Unknown(f"members {ids} {both} have its address or name", remedy)
    if not fitting:
        return None
    (member,) = fitting
    if len(places[member.id]) > 1:
        nodes = " and ".join(sorted(host.name for host in places[member.id]))
        return Unknown(f"member {member.label} has the address of the Nodes {nodes}", _ONE_ADDRESS)
    return member.id


def _missing(node: Node | None, orphans: Sequence[Member], near: Sequence[Member]) -> Absent | Unknown:
    if near:
        return Unknown(f"member {near[0].label} has its address and may be its own", _ONE_ADDRESS)
    unstarted = [member for member in orphans if not member.name]
    candidates = unstarted if node is not None else list(orphans)
    if candidates:
        return Unknown(f"member {candidates[0].label} is an orphan so far and may be its own", _way_out(candidates[0]))
    return Absent()


def _way_out(member: Member) -> str:
    """Of one that has started, and that may be on another host than the Machine had: where that has no Machine, nobody but a person can tell."""
    if not member.name:
        return ""
    return (
        f"If it is that of another host, bring back the Machine of that host or, if it is to leave the cluster, annotate the KubeadmControlPlane "
        f"with {CONSENT}={member.id:x}: the member is removed when the others can do without it."
    )


def finding(member: int | Absent | Unknown, reading: RingReading | Unknown) -> Finding:
    """A member's health as its Machine's condition tells it."""
    if isinstance(member, Unknown):
        return Finding(Health.UNKNOWN, EtcdMemberReason.INSPECTION_FAILED, ". ".join(filter(None, [member.reason, member.remedy])))
    if isinstance(member, Absent) or isinstance(reading, Unknown):
        return Finding(Health.BAD, EtcdMemberReason.NOT_HEALTHY, "its Node has no member in the etcd ring")
    found = reading.ring.member(member)
    if found is None:
        raise ValueError(f"member {member:x} was matched and is not in the ring")
    return _judged(found)


def _judged(member: Member) -> Finding:
    if member.learner:
        return Finding(Health.BAD, EtcdMemberReason.NOT_HEALTHY, "the member is a learner and has yet to become a voter")
    match member.health:
        case Health.GOOD:
            return Finding(Health.GOOD, EtcdMemberReason.HEALTHY)
        case Health.BAD:
            return Finding(Health.BAD, EtcdMemberReason.NOT_HEALTHY, f"the member {member.evidence}")
    return Finding(Health.UNKNOWN, EtcdMemberReason.INSPECTION_FAILED, f"the member cannot be asked: {member.evidence}")


def ring_of(reading: RingReading | Unknown) -> Ring | Unknown:
    """The ring alone."""
    return reading if isinstance(reading, Unknown) else reading.ring
