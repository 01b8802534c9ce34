"""Members leave the ring when their Machine waits at our pre-terminate hook, and only in an order that keeps quorum."""

from __future__ import annotations

from datetime import datetime

from quorate.core.checks import Check, Outcome, failed, passed, unknown
from quorate.core.health import Absent, Health, Unknown
from quorate.core.machines.checks import RESTART_KUBELET, another_serves, dependable_ring, quorum_survives_removal, ways_to_nodes
from quorate.core.machines.rules.preflight import only_one_is_leaving
from quorate.core.machines.state import ControlPlane, Replica
from quorate.core.machines.steps import GROWS, DeleteReplica, ReleaseHook, RemoveMember, Step, UpdateInPlace
from quorate.core.proposal import NOTHING, Proposal
from quorate.core.ring import Ring
from quorate.core.versions import parse_or_none

LAST_HOOK_SINCE = (1, 31, 0)  # from here the kubelet talks to the local API server, so whatever needs a working kubelet goes before us
AT_HOOK = "the Machine has reached our hook"
BEFORE_INITIALIZATION = "exempt before initialization"
ANOTHER_HOLDS_THE_DATA = "another replica holds the data"
NOBODY_JOINS = "kubeadm is not joining on its host"


def release_the_leaving(control_plane: ControlPlane, now: datetime) -> Proposal[Step]:
    """Removes the member of a Machine that waits at our hook, as soon as the others can do without it.

    Of several that wait, the first whose removal keeps quorum goes, longest waiting first; so that two deleted Machines of three do not hold each other up
    while a safe order exists, as they do in upstream's provider. Until all have gone, nothing joins and nothing else is deleted; only the last control
    plane of all may be joined by its replacement, for it never goes without one.
    """
    if not control_plane.leaving:
        return NOTHING
    checks: tuple[Check, ...] = ()
    wake: list[datetime] = []
    for replica in control_plane.leaving:
        asked = _may_go(control_plane, replica, now)
        checks += asked
        if all(check.passed for check in asked):
            return Proposal(_let_go(control_plane, replica), asked)
        wake += [replica.joins_until] if replica.joins_until and replica.joins_until > now else []
    is_last = control_plane.may_be_initialized and only_one_is_leaving(control_plane)
    others: frozenset[type[Step]] = frozenset({DeleteReplica, UpdateInPlace})
    blocks = others if is_last else others | GROWS
    return Proposal(checks=checks, blocks=blocks, wake_at=min(wake, default=None))


def has_arrived(replica: Replica) -> Check:
    """Is everything done that comes before our hook: drain, volumes, and from Kubernetes 1.31 on the hooks of others? Judged by the Machine's own version."""
    if not replica.waits_at_hook:
        return failed(AT_HOOK, f"{replica.name} is being drained, or waits for volumes or other hooks")
    version = parse_or_none(replica.version)
    if replica.other_hooks and (version is None or version.release >= LAST_HOOK_SINCE):
        return failed(AT_HOOK, f"{replica.name} waits for other hooks first: {', '.join(replica.other_hooks)}")
    return passed(AT_HOOK, replica.name)


def safe_to_let_go(control_plane: ControlPlane, replica: Replica) -> tuple[Check, ...]:
    """Can the others do without this replica, whether or not its Machine has arrived at our hook? All of the checks must pass.

    The last holder of data is told that alone; where it is not known who holds it, everything is asked, for one certain refusal lets others act.
    """
    if not control_plane.may_be_initialized:
        return (exempt_before_initialization(control_plane, replica),)
    data = another_holds_the_data(control_plane, replica)
    if data.outcome is Outcome.FAIL:
        return (data,)
    serving = () if never_joined(control_plane, replica) else (another_serves(control_plane, replica),)
    unknown = () if data.passed else (data,)
    return (*unknown, *serving, quorum_survives_removal(control_plane, replica))


def exempt_before_initialization(control_plane: ControlPlane, replica: Replica) -> Check:
    """Nothing can be lost with the only replica of a cluster that, proven, never came up. Where there are several, it did: nobody joins before it has."""
    name = BEFORE_INITIALIZATION
    others = sorted(other.name for other in control_plane.replicas if other.name != replica.name)
    if not others:
        return passed(name, f"{replica.name} is the only one, and holds no data yet")
    remedy = "Make sure that quorate can reach the workload cluster: it learns there whether the cluster was initialized."
    return failed(name, f"{replica.name} is not the only one, so the cluster was initialized before: {', '.join(others)}", remedy)


def another_holds_the_data(control_plane: ControlPlane, replica: Replica) -> Check:
    """Is there a replica beside this one that has the cluster's data? The last holder is never released while the control plane is to live (S4).

    A healthy voter that belongs to no Machine does not count: nobody would replace it. With external etcd any other replica will do.
    """
    name = ANOTHER_HOLDS_THE_DATA
    others = [other for other in control_plane.holding if other.name != replica.name]
    if not others:
        return failed(name, f"{replica.name} is the only control plane left: {_loss(control_plane)}", _way_out(control_plane, replica))
    ring = control_plane.ring
    if not control_plane.desired.etcd_managed or isinstance(ring, Unknown) or not ring.members or isinstance(replica.member, Absent):
        return passed(name, others[0].name)  # it has no data to lose, or the check of quorum says that nothing is known
    voting = [other.name for other in others if _votes(ring, other)]
    if voting:
        return passed(name, voting[0])
    if any(isinstance(other.member, Unknown) for other in others):
        return unknown(name, f"cannot tell whether a replica other than {replica.name} has a voting member")
    return failed(
        name, f"no replica other than {replica.name} has a voting member: its etcd data would be lost", ways_to_nodes(control_plane, others)
    )


def a_replica_holds_the_data(control_plane: ControlPlane) -> Check:
    """Does a replica of ours have a voting member, so that orphan members can be done without (S4)? Needs a ring."""
    ring = control_plane.ring
    voting = [replica.name for replica in control_plane.holding if isinstance(ring, Ring) and _votes(ring, replica)]
    if voting:
        return passed(ANOTHER_HOLDS_THE_DATA, voting[0])
    remedy = "Delete nothing by hand: bring a Machine back whose etcd member votes, or restore etcd from a snapshot."
    return failed(ANOTHER_HOLDS_THE_DATA, "no Machine has a voting member: the data is with members that belong to no Machine", remedy)


def never_joined(control_plane: ControlPlane, replica: Replica) -> bool:
    """Whether it has no Node and, proven, no member: it serves nobody, so nobody misses it.

    With an external etcd nobody has a member, and a Node that was there may have been deleted while the API server goes on.
    """
    if replica.node is not None or not isinstance(replica.member, Absent):
        return False
    return control_plane.desired.etcd_managed or not replica.had_node


def _may_go(control_plane: ControlPlane, replica: Replica, now: datetime) -> tuple[Check, ...]:
    arrived = has_arrived(replica)
    if not arrived.passed:
        return (arrived,)
    return (arrived, *_nobody_joins(control_plane, replica, now), *safe_to_let_go(control_plane, replica))


def _nobody_joins(control_plane: ControlPlane, replica: Replica, now: datetime) -> tuple[Check, ...]:
    """Can the ring lose a member that kubeadm adds and lets vote after we have let its Machine go, just before the host does?

    A ring of one cannot, nor one that is at its margin. There the Machine is held until its member can be seen, and leaves as any other, or until kubeadm has
    had the time that it takes. Upstream's provider lets it go at once.
    """
    ring = dependable_ring(control_plane)
    joins = replica.joins_until is not None and now < replica.joins_until and never_joined(control_plane, replica)
    if not joins or not control_plane.may_be_initialized or not control_plane.desired.etcd_managed or isinstance(ring, Unknown):
        return ()
    after = ring.bearing_a_failed_member
    evidence = f"until {replica.joins_until:%H:%M:%S} kubeadm may be joining on the host of {replica.name}; if it adds a member that is lost at once: {after}"
    return (passed(NOBODY_JOINS, evidence) if after else failed(NOBODY_JOINS, evidence),)


def _loss(control_plane: ControlPlane) -> str:
    return "its etcd data would be lost" if control_plane.desired.etcd_managed else "nobody would serve, and no other could join"


def _way_out(control_plane: ControlPlane, replica: Replica) -> str:
    """What helps the only one that has the data. A kubelet makes its Node when it starts, and kubeadm's marks on it are kubeadm's to make."""
    if replica.node is None and replica.had_node and control_plane.workload.health is Health.GOOD:
        return RESTART_KUBELET.format(replica.name)
    if replica.deleting_since is None and len(control_plane.replicas) >= control_plane.desired.replicas:  # else others may still join
        return f"Repair what the health check of {replica.name} found: quorate creates no replacement until its Machine is deleted."
    if control_plane.desired.replicas + control_plane.desired.max_surge > 1:
        return ""  # its replacement may join beside it (S6), and it leaves then
    return "Its deletion cannot be undone: save what must be saved, then delete the KubeadmControlPlane or the Cluster."


def _votes(ring: Ring, replica: Replica) -> bool:
    member = ring.member(replica.member) if isinstance(replica.member, int) else None
    return member is not None and member.votes


def _let_go(control_plane: ControlPlane, replica: Replica) -> Step:
    if isinstance(replica.member, int) and control_plane.may_be_initialized and control_plane.desired.etcd_managed:
        return RemoveMember(replica.name, replica.member)
    return ReleaseHook(replica.name)
