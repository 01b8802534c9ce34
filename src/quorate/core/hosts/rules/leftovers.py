"""Leftovers of hosts and members: Nodes of hosts that are gone, and traces of a cluster on hosts that will join again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta

from quorate.core.checks import Check, failed, passed, unknown
from quorate.core.health import Absent, Health, Unknown
from quorate.core.hosts.gates import reset
from quorate.core.hosts.rules.departures import as_many_as_said
from quorate.core.hosts.rules.facts import holds_the_data, names, takes_evictions
from quorate.core.hosts.state import Cluster, Host, Kind, Node
from quorate.core.hosts.steps import EVERYTHING, DeleteNode, Reset, Step
from quorate.core.proposal import NOTHING, Proposal, blocking
from quorate.core.ring import Ring

OUT_OF_THE_RING = "the host has no member in the ring"
RUNS_NO_ETCD = "the host's own etcd does not run apart from the ring"
NO_OTHER_DATA = "the host holds no data of another ring"
NO_MORE_COPIES = "no more hosts hold etcd's data outside the ring than serve in it"
RUNS_NOTHING = "no Pods run on the host"
NODE_GOES = "nothing is behind the Node"
PODS_FIRST = "Pods leave a Node that is ready before it goes"

LOOK_AGAIN = timedelta(seconds=5)
"""Until a Node is looked at again whose host is gone: it is called not ready after 50 s (kube-controller-manager, node-monitor-grace-period)."""


def keep_the_copies(cluster: Cluster, _now: datetime) -> Proposal[Step]:
    """If as many hosts hold etcd's data outside the ring as vote in it, the ring may have been started anew. quorate changes nothing then and joins no host,
    since with every join it would look more like the one that was lost.
    """
    if not cluster.stands:
        return NOTHING
    checks = (_no_more_copies(cluster, host) for host in cluster.control_planes if is_to_be_reset(host))
    refused = next((check for check in checks if not check.passed), None)
    return blocking(EVERYTHING, refused) if refused is not None else NOTHING


def delete_nodes(cluster: Cluster, now: datetime) -> Proposal[Step]:
    """Deletes Nodes of no host of the manifest, and those of hosts that will join again, once their members have left the ring."""
    if not cluster.stands:
        return NOTHING
    members = _names_in_the_ring(cluster)
    refused: tuple[Check, ...] = ()
    for name in cluster.lost_nodes:
        if name not in members:
            asked = (_of_no_host(cluster, name), *_joined_by_us(cluster, name), as_many_as_said(cluster))
            if all(check.passed for check in asked):
                left = next((node for node in cluster.other_nodes if node.name == name), None)
                return _deleting(name, left, *asked)
            refused += asked
    for host in cluster.hosts:
        goes = isinstance(host.node, Node) and host.node.name not in members and is_to_be_reset(host)
        if isinstance(host.node, Node) and goes and all(check.passed for check in may_be_reset(cluster, host)):
            return _deleting(host.node.name, host.node, passed(NODE_GOES, f"{host.name} is to join anew"))
    proposal = _first(_of_wiped_hosts(cluster), now)
    return replace(proposal, checks=(*refused, *proposal.checks))


def reset_hosts(cluster: Cluster, _now: datetime) -> Proposal[Step]:
    """Resets hosts on which a join was interrupted, or whose member has left the ring, so that they can join again."""
    if not cluster.stands:
        return NOTHING
    refused: tuple[Check, ...] = ()
    for host in cluster.hosts:
        if is_to_be_reset(host):
            asked = may_be_reset(cluster, host)
            if all(check.passed for check in asked):
                return Proposal(Reset(host.name), (*refused, *asked))
            refused += asked
    return Proposal(checks=refused)


def is_to_be_reset(host: Host) -> bool:
    """Whether what it has of the cluster that stands is only fit to be taken away: nobody can go on from it."""
    if host.kind is Kind.HALF_JOINED:
        return True
    out = isinstance(host.member, Absent) and host.control_plane
    return out and not host.is_wiped and host.kind in (Kind.HALF_INITIALIZED, Kind.BROKEN)


def may_be_reset(cluster: Cluster, host: Host) -> tuple[Check, ...]:
    """Is it certain that the host holds nothing that the cluster needs (S4)?"""
    if host.works:
        return (_is_no_worker(host),)
    if not host.control_plane:
        return (_runs_nothing(host),)
    held = () if host.member_id is None else (host.member_id,)
    quorum = reset(cluster.ring, held)
    return (
        _out_of_the_ring(host),
        _runs_no_etcd(host),
        _no_more_copies(cluster, host),
        _no_other_data(host),
        holds_the_data(cluster, apart_from=host.member_id),
        quorum,
    )


def _out_of_the_ring(host: Host) -> Check:
    match host.member:
        case Absent():
            return passed(OUT_OF_THE_RING, f"the ring was read completely, and no member is {host.name}'s")
        case Unknown(reason, remedy):
            return unknown(OUT_OF_THE_RING, f"cannot tell which member is {host.name}'s: {reason}", remedy)
        case int(member):
            return failed(OUT_OF_THE_RING, f"member {member:x} of {host.name} has not left the ring")


def _runs_no_etcd(host: Host) -> Check:
    finding = host.member_health
    remedy = f"Find out which ring the etcd on {host.name} belongs to, and save its data: `quorate etcd members -m MANIFEST`."
    if finding is None or finding.health is Health.BAD:
        return passed(RUNS_NO_ETCD, f"nothing well answers on {host.name}")
    if finding.health is Health.UNKNOWN and isinstance(host.member, Absent):
        return unknown(RUNS_NO_ETCD, f"{host.name}: {finding.message}", remedy)
    return failed(RUNS_NO_ETCD, f"{host.name} runs an etcd that is well, and that the ring does not know", remedy)


def _no_more_copies(cluster: Cluster, host: Host) -> Check:
    """A founder that lost its data and begins anew has the ids that it had, of cluster and member: etcd makes them of names and addresses. What serves
    is empty then, and those that it does not know have the data.
    """
    voters = [member for member in cluster.ring.members if member.votes] if isinstance(cluster.ring, Ring) else []
    copies = [other for other in cluster.control_planes if other.holds_a_copy and isinstance(other.member, Absent)]
    joining = host.kind is Kind.HALF_JOINED  # what a learner had received
    if host not in copies or len(copies) < len(voters) + joining:
        return passed(NO_MORE_COPIES, f"{len(copies)}, beside {len(voters)} that vote")
    evidence = f"{names(copies)} hold data of this ring and are not in it, in which {len(voters)} vote: it may have been started anew, without what it stored"
    remedy = (
        f"If the API lacks what it had, stop the etcd that serves, and restore it from those data (docs/restore.md). "
        f"If nothing is missing, reset those hosts by name: `quorate reset -m MANIFEST {' '.join(copy.name for copy in copies)}`."
    )
    return failed(NO_MORE_COPIES, evidence, remedy)


def _no_other_data(host: Host) -> Check:
    """A cluster that somebody has founded anew by mistake, with the CAs that it had, knows the hosts of the one that has the data as its own."""
    if not host.holds_other_data:
        return passed(NO_OTHER_DATA, host.name)
    remedy = (
        f"If etcd was restored since, or you do not need these data, move them away on the host (docs/restore.md), or reset it by name: "
        f"`quorate reset -m MANIFEST {host.name}`. If not, stop the etcd that serves: it may lack what they have."
    )
    return failed(
        NO_OTHER_DATA,
        f"the etcd data on {host.name} do not belong to the ring that serves, which was started or restored without them",
        remedy,
    )


def _runs_nothing(host: Host) -> Check:
    if isinstance(host.node, Node) and host.node.ready.health is Health.GOOD:
        remedy = f"Reset it, which drains its Node first: `quorate reset -m MANIFEST {host.name}`; then apply again."
        return failed(RUNS_NOTHING, f"files are missing on {host.name}, but its Node is ready and may run Pods", remedy)
    return passed(RUNS_NOTHING, f"{host.name} has no Node that is ready")


def _is_no_worker(host: Host) -> Check:
    """Whether its Node is ready or not for a moment: nobody has said that what runs on it may go."""
    remedy = (
        f"Put it under staticWorkers; or reset it, which drains its Node first: `quorate reset -m MANIFEST {host.name}`; then apply again."
    )
    return failed(
        RUNS_NOTHING, f"{host.name} has joined as a worker and may run Pods, and the manifest has it as a control plane host", remedy
    )


def _of_no_host(cluster: Cluster, name: str) -> Check:
    """As long as it is not known which Node is a host's, this one may be."""
    unmatched = [host for host in cluster.hosts if isinstance(host.node, Unknown)]
    if unmatched:
        evidence = f"Node {name} may be that of {names(unmatched)}: it is not known which Node is theirs"
        return unknown(NODE_GOES, evidence, f"Bring {names(unmatched)} back, or remove it from the manifest.")
    return passed(NODE_GOES, f"no host of the manifest is Node {name}")


def _joined_by_us(cluster: Cluster, name: str) -> tuple[Check, ...]:
    """A worker's Node of the name of a host that has joined nothing, and at another address, need not be that host's predecessor: the name may be mistyped."""
    node = next((node for node in cluster.other_nodes if node.name == name), None)
    if node is None or node.static_worker:
        return ()
    if node.control_plane:
        return (_is_no_machines(node),) if node.machine else ()
    if node.ready.health is not Health.GOOD and not node.kept_by:
        return ()
    state = f"is that of {node.kept_by}" if node.kept_by else "is ready"
    evidence = (
        f"host {name} has joined nothing, and Node {name} at another address {state} and was not joined by quorate: it is another machine's"
    )
    return (failed(NODE_GOES, evidence, f"Give host {name} another hostname in the manifest, or delete Node {name} yourself."),)


def _is_no_machines(node: Node) -> Check:
    """Machines may have the label of a control plane too, so that Pods of one run on them."""
    remedy = f"Take the label off Node {node.name}; or delete its machine, or the Node yourself."
    return failed(NODE_GOES, f"Node {node.name} has the label of a control plane, and is that of {node.machine}", remedy)


def _names_in_the_ring(cluster: Cluster) -> frozenset[str]:
    """Of members of no host. They leave first: until then there may be a control plane behind the Node of such a name, whatever host has it too."""
    return frozenset(orphan.member.name for orphan in cluster.orphans)


def _deleting(name: str, node: Node | None, *asked: Check) -> Proposal[Step]:
    """With a drain where the machine goes on to run Pods: nobody would know of them any more.

    A control plane host whose join was cut short has them too: until kubeadm has marked its Node, that is one as a worker's.
    """
    if node is not None and takes_evictions(node):
        return Proposal(DeleteNode(name, drain=True), (*asked, passed(PODS_FIRST, f"Node {name} is as a worker's, and is ready")))
    return Proposal(DeleteNode(name), asked)


def _of_wiped_hosts(cluster: Cluster) -> Iterator[tuple[str, Check]]:
    for host in cluster.hosts:
        if not host.is_wiped or not isinstance(host.node, Node) or (host.control_plane and not isinstance(host.member, Absent)):
            continue
        if host.node.ready.health is Health.GOOD:
            remedy = f"If its host is gone, the Node turns not ready within a minute. If it stays ready, another machine is Node {host.node.name}: find it."
            yield host.node.name, failed(NODE_GOES, f"nothing of the cluster is on {host.name}, but its Node is ready", remedy)
        else:
            yield host.node.name, passed(NODE_GOES, f"nothing of the cluster is on {host.name}")


def _first(nodes: Iterable[tuple[str, Check]], now: datetime) -> Proposal[Step]:
    refused: tuple[Check, ...] = ()
    for name, check in nodes:
        if check.passed:
            return Proposal(DeleteNode(name), (*refused, check))
        refused += (check,)
    return Proposal(checks=refused, wake_at=now + LOOK_AGAIN if refused else None)
