"""The steps to reset hosts: some, in an order that keeps the quorum of the rest, or all, which destroys the cluster. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime

from quorate.core.checks import Check, failed, passed, unknown
from quorate.core.health import Absent, Unknown
from quorate.core.hosts.decide import Decision
from quorate.core.hosts.gates import removal
from quorate.core.hosts.rules.facts import takes_evictions, told
from quorate.core.hosts.rules.guard import HOSTS_FIT
from quorate.core.hosts.rules.members import AGREEMENT
from quorate.core.hosts.state import CLUSTERS_DIFFER, NOT_UNIQUE, UNTOUCHED, Cluster, Host, Kind, Node
from quorate.core.hosts.steps import DeleteNode, RemoveMember, Reset, Step, TakeSnapshot
from quorate.core.plan import without
from quorate.core.ring import Ring, Verdict, verdict

RULE = "reset hosts as asked for"
OURS = "the host is of this cluster"
REACHABLE = "the host can be reached"
RING_KNOWN = "it is known which member is the host's"
LEFT = "no member has the Node's name when it goes"
CLUSTER_ENDS = "the whole cluster ends"
SAVED = "etcd's data is saved before the first member goes"
ANOTHERS = "exempt: the host was named, and belongs to another cluster"
_ALL = "Bring etcd back first, or destroy the whole cluster: `quorate reset -m MANIFEST --all`."
_MORE_THAN_ONE = (
    "Save each yourself, with `quorate etcd snapshot` and a manifest of the hosts of that ring alone, and add --no-snapshot; "
    "or remove the hosts of the ring that is to stay from the manifest."
)
_UNSAVED = "Bring etcd back; or add --no-snapshot, if an earlier run of this command has taken one, or if you do not need the data."


@dataclass(frozen=True, slots=True)
class Request:
    """The hosts that are to be reset. `everything`: all hosts of the manifest, which destroys the cluster. `save`: take a snapshot first.

    `apart`: hosts that the operator was shown as another cluster's, or of a cluster without a ring, and approved to be reset without a quorum check.
    """

    names: tuple[str, ...]
    everything: bool = False
    save: bool = True
    apart: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ResetStep:
    """One step of a reset with the checks behind it; without a step, what keeps a host from being reset. `before`: etcd before the step."""

    host: str
    step: Step | None
    checks: tuple[Check, ...]
    before: Verdict | None


def apart(cluster: Cluster) -> frozenset[str]:
    """The hosts that are reset without asking a ring, as it is now: of another cluster, or all where there is no ring."""
    return frozenset(host.name for host in cluster.hosts if host.kind is Kind.FOREIGN or isinstance(cluster.ring, Absent))


def asks_no_ring(cluster: Cluster, request: Request, name: str) -> bool:
    """Whether the host is reset without asking a ring: the whole cluster ends, or it is so now as it was when it was shown."""
    return request.everything or name in request.apart & apart(cluster)


def ends_the_cluster(cluster: Cluster, names: tuple[str, ...]) -> bool:
    """Whether no control-plane host is left out: nothing of the cluster is kept then, which only a request for everything may ask for."""
    return all(host.name in names for host in cluster.control_planes)


def not_unique(host: Host) -> tuple[str, ...]:
    """Why the host may be another machine than the one that is meant, in words: a reset would hit that one."""
    return (*host.not_unique, *(finding.message for finding in host.findings if finding.reason == NOT_UNIQUE))


def reset_steps(cluster: Cluster, request: Request) -> tuple[ResetStep, ...]:
    """Every step of the reset of these hosts, workers first, the host with etcd's leader last; steps after a refusal are of other hosts.

    A snapshot comes before the first removal of a member. If etcd cannot be read, a reset of the whole cluster waits unless the request allows it to go without
    a snapshot. A host of another cluster is reset only by name. No host is reset while the hosts contradict the manifest or each other: the manifest may then
    mean another host, or another cluster.
    """
    if cluster.problems:
        checks = tuple(failed(HOSTS_FIT, problem, "Correct the manifest or the hosts.") for problem in cluster.problems)
        return (ResetStep("", None, checks, None),)
    found = _steps_of_hosts(cluster, request)
    saving = _saving(cluster) if request.save else None
    first = 0 if request.everything else next((at for at, each in enumerate(found) if isinstance(each.step, RemoveMember)), None)
    if saving is None or first is None or not any(each.step for each in found):
        return tuple(found)
    return (*found[:first], saving, *found[first:]) if saving.step is not None else (saving,)


def _saving(cluster: Cluster) -> ResetStep | None:
    """The snapshot, or why it cannot be taken; None: it was, or there is nothing to save."""
    match cluster.ring:
        case _ if cluster.snapshot_taken:
            return None
        case Absent():
            return None
        case Unknown(reason):
            return ResetStep("", None, (unknown(SAVED, f"the ring could not be read: {reason}", _UNSAVED),), None)
        case _ if cluster.membership_problem:
            return ResetStep(
                "", None, (failed(SAVED, f"one snapshot is not all of it: {cluster.membership_problem}", _MORE_THAN_ONE),), None
            )
        case Ring():
            return ResetStep("", TakeSnapshot(), (passed(SAVED, "as a verified snapshot"),), verdict(cluster.ring))


def _steps_of_hosts(cluster: Cluster, request: Request) -> list[ResetStep]:
    names = request.names
    leader = cluster.ring.leader if isinstance(cluster.ring, Ring) else None
    hosts = sorted(
        (host for host in cluster.hosts if host.name in names),
        key=lambda host: (host.control_plane, leader is not None and host.member_id == leader),
    )
    found: list[ResetStep] = []
    for host in hosts:
        if host.kind is Kind.FOREIGN and (request.everything or host.name not in request.apart):
            remedy = f"Name it, if it is meant: `quorate reset -m MANIFEST {host.name}`."
            evidence = f"{host.name} belongs to another cluster" + ("" if request.everything else ", and did not when it was shown")
            steps = [_refusal(cluster, host, failed(OURS, evidence, remedy))]
        else:
            steps = list(_ending(cluster, host) if request.everything else _leaving(cluster, host))
        found += steps
        if any(isinstance(each.step, RemoveMember) for each in steps):
            cluster = _after_removal(cluster, host)
    return found


def deciding(request: Request) -> Callable[[Cluster, datetime], Decision]:
    """The decision of a run that resets these hosts. A host that cannot be reset keeps no other from it."""

    def decide(cluster: Cluster, _now: datetime) -> Decision:
        refused: tuple[Check, ...] = ()
        for each in reset_steps(cluster, request):
            if each.step is not None:
                return Decision(RULE, each.step, (*refused, *each.checks), None)
            refused += each.checks
        return Decision(RULE, None, refused, None)

    return decide


def _ending(cluster: Cluster, host: Host) -> Iterator[ResetStep]:
    """Of a cluster that ends nothing is to be kept, so nobody is asked."""
    if host.kind is Kind.UNREACHABLE:
        yield _refusal(cluster, host, _unreachable(host))
    elif differ := [told(finding) for finding in host.findings if finding.reason == CLUSTERS_DIFFER]:
        remedy = "Remove the hosts of the other cluster from the manifest."
        yield _refusal(cluster, host, unknown(OURS, f"{host.name}: {'; '.join(differ)}", remedy))
    elif not _is_free(host):
        yield ResetStep(host.name, Reset(host.name), (passed(CLUSTER_ENDS, "every control-plane host is reset, as asked for"),), None)


def _leaving(cluster: Cluster, host: Host) -> Iterator[ResetStep]:
    """Removes its member after a quorum check, then its Node, then everything on the host. Of a host that is gone the first two are done.

    A worker's Node is drained before it goes.
    """
    if host.control_plane and host.kind is not Kind.FOREIGN and (check := _member_unknown(cluster, host)) is not None:
        yield _refusal(cluster, host, check)
        return
    if host.member_id is not None:
        check = _agreement(cluster) or removal(cluster.ring, host.member_id)
        if not check.passed:
            yield _refusal(cluster, host, check)
            return
        yield ResetStep(host.name, RemoveMember(host.member_id, host.name), (check,), verdict(cluster.ring))
        cluster = _after_removal(cluster, host)
    if isinstance(host.node, Node):
        check = _has_left(cluster, host.node)
        if not check.passed:
            yield _refusal(cluster, host, check)
            return
        drain = (host.works or not host.control_plane) and takes_evictions(host.node)
        yield ResetStep(host.name, DeleteNode(host.node.name, drain), (check,), verdict(cluster.ring))
    if host.kind is Kind.UNREACHABLE:
        yield _refusal(cluster, host, _unreachable(host))
    elif not _is_free(host) or isinstance(host.node, Node) or host.member_id is not None:
        foreign = (passed(ANOTHERS, f"the etcd of {host.name}'s cluster is not asked"),) if host.kind is Kind.FOREIGN else ()
        yield ResetStep(host.name, Reset(host.name), foreign, verdict(cluster.ring))


def _has_left(cluster: Cluster, node: Node) -> Check:
    """A Node goes after every member of its name: there may be a control plane behind it until then."""
    match cluster.ring:
        case Unknown(reason):
            return unknown(LEFT, f"the ring could not be read: {reason}", _ALL)
        case Absent():
            return passed(LEFT, "there is no ring")
        case Ring() as ring:
            named = next((member for member in ring.members if member.name == node.name), None)
    if named is not None:
        return failed(LEFT, f"etcd has another member called {node.name} ({named.id:x})", "That member has to leave the ring first.")
    return passed(LEFT, f"etcd has no member called {node.name} then")


def _agreement(cluster: Cluster) -> Check | None:
    """Where members contradict each other no list of them can be trusted."""
    return failed(AGREEMENT, cluster.membership_problem, "Resolve it first.") if cluster.membership_problem else None


def _after_removal(cluster: Cluster, host: Host) -> Cluster:
    """As the next step finds it."""
    if not isinstance(cluster.ring, Ring) or host.member_id is None:
        return cluster
    return replace(cluster, ring=without(cluster.ring, host.member_id))


def _member_unknown(cluster: Cluster, host: Host) -> Check | None:
    match cluster.ring, host.member:
        case Unknown(reason), _:
            return None if _is_free(host) else unknown(RING_KNOWN, f"{host.name}: the ring could not be read: {reason}", _ALL)
        case Ring(), Unknown(reason, remedy):
            return unknown(RING_KNOWN, f"{host.name}: {reason}", remedy)
    return None


def _is_free(host: Host) -> bool:
    return host.kind in UNTOUCHED or host.is_wiped


def _unreachable(host: Host) -> Check:
    reasons = "; ".join(finding.message or finding.reason for finding in host.findings)
    return failed(
        REACHABLE,
        f"{host.name}: {reasons or 'no answer'}",
        "Bring it back, or make sure yourself that it never starts again with what is on its disk.",
    )


def _refusal(cluster: Cluster, host: Host, check: Check) -> ResetStep:
    return ResetStep(host.name, None, (check,), verdict(cluster.ring))
