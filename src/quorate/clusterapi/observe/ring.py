"""Which etcd member is a Machine's, and what is left over: matched by id, peer URL or name; proven absent; or unknown with the reason. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from quorate.clusterapi.types.names import EtcdMemberReason
from quorate.core.health import Absent, Finding, Health, Unknown
from quorate.core.machines.rules.strays import CONSENT
from quorate.core.ring import Member, Ring
from quorate.etcd.client import host_of
from quorate.kubernetes.objects import Node
from quorate.workload.membership import RingReading

_ONE_NODE = (
    "If one Machine is a copy of the other, take the finalizers off the copy before it is deleted: it then leaves without the host of both."
)


@dataclass(frozen=True, slots=True)
class Membership:
    """The members by the name of their Machine, and those of nobody, among them the contested: several that fit one Machine, of which one may be its own."""

    of: Mapping[str, int | Absent | Unknown]
    strays: tuple[Member, ...]
    contested: Mapping[int, str] = field(default_factory=dict)  # by id: the Machine


def home(member: Member, reading: RingReading, nodes: Mapping[str, Node]) -> Node | None:
    """The one of these Nodes, by name, that a member runs on: it answers there, or its address or name is the Node's."""
    return nodes.get(_owner(member, reading, nodes) or "")


def match(reading: RingReading | Unknown, machines: Mapping[str, Node | None]) -> Membership:
    """Match members with Machines; each Machine comes with its Node, or None where it has none (yet).

    A member goes to the Machine on whose Node it answered, or whose address its peer URL has, or whose Node has its name. A Machine without a Node may
    still have started a member: it is proven absent only when every member is somebody else's. Where several fit one Machine, and none of them answers on its
    Node, all but one are left over from hosts that it had before, and nobody can say which: they are strays too, for whoever judges whether each of them can be
    done without. Of Machines that have one Node between them nobody can say whose member runs there, and it is nobody's to remove.
    """
    if isinstance(reading, Unknown):
        return Membership(dict.fromkeys(machines, reading), ())
    claims: dict[str, list[Member]] = {name: [] for name in machines}
    strays: list[Member] = []
    for member in reading.ring.members:
        claims.get(_owner(member, reading, machines) or "", strays).append(member)
    shared = _shared(machines)
    of = {name: shared.get(name) or _its_own(name, node, claims[name]) or _missing(node, strays) for name, node in machines.items()}
    undecided = [(member, name) for name, claimed in claims.items() if len(claimed) > 1 and name not in shared for member in claimed]
    return Membership(of, (*strays, *(member for member, _ in undecided)), {member.id: name for member, name in undecided})


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


def _owner(member: Member, reading: RingReading, machines: Mapping[str, Node | None]) -> str | None:
    hosts = {host for url in member.peer_urls if (host := host_of(url))}
    nodes = {name: node for name, node in machines.items() if node is not None}
    for name, node in nodes.items():
        if reading.member_ids.get(node.metadata.name) == member.id:
            return name
    for name, node in nodes.items():
        answers_as_another = node.metadata.name in reading.member_ids  # an address used again: this member is the one that had it before
        addresses = {address.address for address in node.status.addresses}
        if not answers_as_another and (hosts & addresses or member.name == node.metadata.name):
            return name
    return member.name if member.name in machines and machines[member.name] is None else None


def _its_own(machine: str, node: Node | None, claims: Sequence[Member]) -> int | Unknown | None:
    if len(claims) > 1:
        ids = " and ".join(f"{member.id:x}" for member in claims)
        both = "both" if len(claims) == 2 else "all"
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
    return claims[0].id if claims else None


def _missing(node: Node | None, strays: Sequence[Member]) -> Absent | Unknown:
    unstarted = [member for member in strays if not member.name]
    candidates = unstarted if node is not None else list(strays)
    if candidates:
        return Unknown(f"member {candidates[0].label} is nobody's yet and may be its own", _way_out(candidates[0]))
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
    return Finding(Health.UNKNOWN, EtcdMemberReason.INSPECTION_FAILED, f"the member could not be asked: {member.evidence}")


def ring_of(reading: RingReading | Unknown) -> Ring | Unknown:
    """The ring alone."""
    return reading if isinstance(reading, Unknown) else reading.ring
