"""What no decision about hosts may ever do, counted anew: it shares no decision with the rules, only the values that they look at."""

from __future__ import annotations

from collections.abc import Iterator

from quorate.core.health import Absent, Health, Unknown
from quorate.core.hosts import steps
from quorate.core.hosts.state import Cluster, Host, Kind, MissedProbes, Node
from quorate.core.hosts.steps import Step
from quorate.core.ring import Member, Ring

TOUCHES_RING = (steps.Join, steps.RemoveMember, steps.Reset)
RESTARTS = (steps.UpgradeControlPlane, steps.UpgradeKubelet, steps.Reconfigure, steps.RenewCertificates)
HARMLESS = (steps.Prepare, steps.StartServices, steps.Initialize)


def objections(cluster: Cluster, step: Step) -> Iterator[str]:
    """Everything that is wrong with this step for this cluster."""
    match step:
        case steps.Initialize(host, resume):
            yield from _initialize(cluster, host, resume=resume)
        case steps.RemoveMember(member):
            yield from _remove(cluster, member)
        case steps.Join():
            yield from _join(cluster)
        case steps.Reset(host):
            yield from _reset(cluster, host)
        case steps.UpgradeControlPlane(host) | steps.UpgradeKubelet(host) | steps.Reconfigure(host) | steps.RenewCertificates(host):
            yield from _restart(cluster, host)
        case steps.DeleteNode(node, drain):
            yield from _delete_node(cluster, node)
            if not drain and any(other.name == node and _runs_pods(other) for other in cluster.other_nodes):
                yield "its Pods would run on and nobody would know of them"
        case steps.StartServices(host):
            yield from _start(cluster, host)
    if isinstance(step, steps.UpgradeControlPlane):
        others = [node.kubelet.minor for node in cluster.other_nodes if node.kubelet is not None]
        if any(not 0 <= step.version.minor - minor <= 3 for minor in others):
            yield "a kubelet of somebody else's Node would not fit"
    yield from _departure(cluster, step)
    yield from _always(cluster, step)


def _departure(cluster: Cluster, step: Step) -> Iterator[str]:
    voters = {orphan.member.id: orphan.member.name for orphan in cluster.orphans if orphan.member.name and not orphan.member.learner}
    leaves = (isinstance(step, steps.RemoveMember) and step.member in voters) or (
        isinstance(step, steps.DeleteNode) and step.node in cluster.lost_nodes
    )
    if leaves and len({*cluster.lost_nodes, *voters.values()}) > cluster.options.remove_hosts:
        yield "so many hosts were not said to leave"


def _always(cluster: Cluster, step: Step) -> Iterator[str]:
    if cluster.locked_by or cluster.problems:
        yield "somebody else works here, or the manifest is not of these hosts"
    if isinstance(step, HARMLESS):
        return
    if cluster.api.health is not Health.GOOD:
        yield "unseen by the API"
    if not isinstance(cluster.ring, Ring) or 2 * len(_may_commit(cluster.ring)) <= len(_voters(cluster.ring)):
        yield "without a quorum"
    if cluster.membership_problem:
        yield "membership is in dispute"
    if cluster.alarms:
        yield "etcd refuses every write"
    needs_snapshot = isinstance(step, steps.Join | steps.RemoveMember | steps.UpgradeControlPlane)
    if needs_snapshot and not cluster.snapshot_taken:
        yield "without a snapshot"
    if isinstance(step, steps.Join | steps.JoinWorkers) and cluster.running != cluster.version:
        yield "repair and upgrade are mixed"


def _initialize(cluster: Cluster, name: str, *, resume: bool) -> Iterator[str]:
    others = [host for host in cluster.control_planes if host.name != name and host.name not in cluster.options.without]
    if any(host.kind in (Kind.UNREACHABLE, Kind.UNKNOWN) for host in others):
        yield "the cluster may be on a host that cannot be asked"
    if any(host.kind in (Kind.MEMBER, Kind.BROKEN, Kind.HALF_INITIALIZED, Kind.FOREIGN) for host in others):
        yield "there is a cluster already"
    if cluster.host(name).kind is not (Kind.HALF_INITIALIZED if resume else Kind.PACKAGES_ONLY):
        yield "on a host that is not fit for it"
    if isinstance(cluster.ring, Ring) and any(member.id != cluster.host(name).member for member in cluster.ring.members):
        yield "beside a ring"


def _remove(cluster: Cluster, member_id: int) -> Iterator[str]:
    assert isinstance(cluster.ring, Ring)
    member = next(member for member in cluster.ring.members if member.id == member_id)
    rest = [other for other in cluster.ring.members if other.id != member_id]
    good = [other for other in rest if _is_good_voter(other)]
    if 2 * len(good) <= sum(not other.learner for other in rest):
        yield "quorum does not outlive it"
    owner = next((host for host in cluster.control_planes if host.member == member_id), None)
    if owner is not None and owner.kind is Kind.MEMBER:
        yield "it is the member of a host that is well"
    joined = not member.learner and bool(member.name)
    if owner is not None and owner.kind is Kind.UNREACHABLE and joined:
        yield "its host is in the manifest and may come back"
    held = {host.member for host in cluster.control_planes if not host.etcd_data_lost}
    if not any(other.id in held for other in good):
        yield "no host of the manifest holds the data then"
    half_joined = owner is not None and owner.kind is Kind.HALF_JOINED
    if not half_joined and not _answers(cluster, member) and _probes(cluster, member_id) < 3:
        yield "it was not silent for three probes"
    orphan = next((each for each in cluster.orphans if each.member.id == member_id), None)
    if (
        orphan is not None
        and not joined
        and orphan.without_vote_for.total_seconds() < 120
        and (orphan.missed_probes is None or not member.name)
    ):
        yield "somebody may be about to make it a voter"
    if any(isinstance(host.member, Unknown) for host in cluster.control_planes) and owner is None:
        yield "it may be the member of a host"


def _answers(cluster: Cluster, member: Member) -> bool:
    orphan = next((orphan for orphan in cluster.orphans if orphan.member.id == member.id), None)
    if orphan is not None:
        return orphan.missed_probes is None and bool(member.name)
    return member.health is Health.GOOD


def _probes(cluster: Cluster, member_id: int) -> int:
    missed: dict[int, MissedProbes | None] = {orphan.member.id: orphan.missed_probes for orphan in cluster.orphans}
    missed |= dict(cluster.members_missed_probes)
    missed_probes = missed.get(member_id)
    return missed_probes.count if missed_probes else 0


def _join(cluster: Cluster) -> Iterator[str]:
    assert isinstance(cluster.ring, Ring)
    members = cluster.ring.members
    if any(member.learner or not member.name for member in members):
        yield "beside one that has not become a voter"
    good = sum(map(_is_good_voter, members))
    if len(members) > 1 and 2 * good <= len(members) + 1:
        yield "quorum does not outlive a newcomer that fails"
    if len(members) == 1 and not good:
        yield "the only member is not well"


def _reset(cluster: Cluster, name: str) -> Iterator[str]:
    assert isinstance(cluster.ring, Ring)
    host = cluster.host(name)
    if host.kind is Kind.MEMBER:
        yield "the host is well"
    if not host.control_plane:
        return
    if not isinstance(host.member, Absent):
        yield "it may have a member"
    rest = [member for member in cluster.ring.members if member.id != host.member and _is_good_voter(member)]
    if 2 * len(rest) <= len(_voters(cluster.ring)):
        yield "quorum does not outlive it"
    held = {other.member for other in cluster.control_planes if other is not host}
    if not any(_is_good_voter(member) and member.id in held for member in cluster.ring.members):
        yield "no other host holds the data"


def _start(cluster: Cluster, name: str) -> Iterator[str]:
    if cluster.host(name).etcd_data_lost:
        yield "a member would start that has forgotten its votes"
    if _ends_a_voter(cluster.host(name)) and not _bears_restart(cluster, name):
        yield "the others have no quorum meanwhile"


def _restart(cluster: Cluster, name: str) -> Iterator[str]:
    assert isinstance(cluster.ring, Ring)
    host = cluster.host(name)
    others = [other for other in cluster.control_planes if other is not host]
    if any(other.kind is not Kind.MEMBER for other in others) or cluster.orphans:
        yield "something needs repair"
    if host.control_plane and not _bears_restart(cluster, name):
        yield "the others have no quorum meanwhile"


def _bears_restart(cluster: Cluster, name: str) -> bool:
    if not isinstance(cluster.ring, Ring):
        return False
    members = cluster.ring.members
    rest = [member for member in members if member.id != cluster.host(name).member and _is_good_voter(member)]
    bears = 2 * len(rest) > len(_voters(cluster.ring))
    return bears or (len(members) <= 2 and all(map(_is_good_voter, members)))


def _ends_a_voter(host: Host) -> bool:
    """Its etcd runs, and its kubelet is not known to be of the minor version that ran last."""
    before = host.node.kubelet if isinstance(host.node, Node) else None
    runs = host.control_plane and host.etcd_runs and not isinstance(host.member, Absent)
    return runs and (host.kubelet is None or before is None or host.kubelet.minor != before.minor)


def _delete_node(cluster: Cluster, node: str) -> Iterator[str]:
    owner: Host | None = next((host for host in cluster.hosts if host.name == node), None)
    if any(orphan.member.name == node for orphan in cluster.orphans):
        yield "its member is in the ring"
    if owner is not None and (owner.kind is Kind.MEMBER or isinstance(owner.member, int)):
        yield "it is the Node of a host of the cluster"


def _runs_pods(node: Node) -> bool:
    return node.ready.health is Health.GOOD and not node.control_plane


def _voters(ring: Ring) -> list[Member]:
    return [member for member in ring.members if not member.learner]


def _may_commit(ring: Ring) -> list[Member]:
    return [member for member in _voters(ring) if member.name and (member.health is not Health.BAD or member.only_alarmed)]


def _is_good_voter(member: Member) -> bool:
    return not member.learner and bool(member.name) and member.health is Health.GOOD
