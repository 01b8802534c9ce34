"""Members that belong to no replica: until it is removed, each costs the others a vote, or keeps every replica from joining."""

from __future__ import annotations

from datetime import datetime, timedelta

from quorate.core.checks import Check, failed, passed, unknown
from quorate.core.health import Health, Unknown
from quorate.core.machines.checks import another_serves, dependable_ring
from quorate.core.machines.rules.remove import a_replica_holds_the_data, another_holds_the_data, has_arrived, never_joined
from quorate.core.machines.state import ControlPlane, Orphan, Replica
from quorate.core.machines.steps import GROWS, SHRINKS, RemoveOrphan, Step
from quorate.core.proposal import NOTHING, Proposal, blocking
from quorate.core.quorum import removal_keeps_quorum
from quorate.core.ring import Ring

GRACE = timedelta(minutes=2)
"""For how long a member must have been an orphan: a Machine or a Node that is about to appear may explain it. Upstream gives a new Node as long."""
JOINING = timedelta(minutes=10)
"""For how long after its Node came a replica may still be joining etcd: twice what kubeadm gives up after. Hosts of metal boot for longer than that."""

GIVEN_UP = timedelta(minutes=20)
"""After which a member that has never started is not waited for any more, whosever it is: kubeadm starts it within 5, or ends with an error."""

CONSENT = "quorate.dev/remove-member"
"""Annotation on the KubeadmControlPlane: ids of members, in hexadecimal with commas between, that are to go although they run on a Node."""

AGED = "the member has been an orphan for long enough"
IS_OF_NO_NEWCOMER = "the member cannot be that of a replica on its way"
HAS_NO_OWNER = "the member does not run on somebody's Node"
RING_IS_READ = "the ring was read"
AGREEMENT = "the etcd members agree about who they are"


def members_agree(control_plane: ControlPlane, _now: datetime) -> Proposal[Step]:
    """Every member must list the same members of the same cluster. If they differ, no list can be trusted, and quorate changes no membership."""
    problem = control_plane.membership_problem
    if not control_plane.may_be_initialized or not control_plane.desired.etcd_managed or not problem:
        return NOTHING
    remedy = "Find the members that left or were restored apart from the others, and delete their Machines or data."
    return blocking(GROWS | SHRINKS, failed(AGREEMENT, problem, remedy))


def remove_orphans(control_plane: ControlPlane, now: datetime) -> Proposal[Step]:
    """Removes an orphan member once it is certain to be one, if the ring can do without it. One at a time.

    Those that never started go first: they keep everybody from joining. An orphan that leads may go too: it hands over first where it can be asked, else etcd
    elects another; the gate counts without it.
    """
    if not control_plane.orphans or not control_plane.may_be_initialized or not control_plane.desired.etcd_managed:
        return NOTHING
    ring = dependable_ring(control_plane)
    if isinstance(ring, Unknown):
        return Proposal(checks=(unknown(RING_IS_READ, f"members that belong to no Machine cannot be checked: {ring.reason}"),))
    checks: tuple[Check, ...] = ()
    wake: list[datetime] = []
    for orphan in sorted(control_plane.orphans, key=_order):
        asked = may_be_removed(control_plane, ring, orphan, now)
        checks += asked
        if all(check.passed for check in asked):
            return Proposal(RemoveOrphan(orphan.member.id), asked)
        wake += [moment for moment in _wake_moments(control_plane, orphan) if moment > now]
    return Proposal(checks=checks, wake_at=min(wake, default=None))


def may_be_removed(control_plane: ControlPlane, ring: Ring, orphan: Orphan, now: datetime) -> tuple[Check, ...]:
    """Everything that must hold before an orphan is removed from `ring`, which is asked again on a fresh read right before the step (S10)."""
    owners = _possible_owners(control_plane, orphan, now)
    at_hook = [replica for replica in owners if replica.deleting_since and has_arrived(replica).passed]
    coming = [replica for replica in owners if replica not in at_hook]
    return (
        _aged(orphan, now),
        _is_of_no_newcomer(orphan, coming),
        _has_no_owner(orphan),
        a_replica_holds_the_data(control_plane),
        *(check for replica in at_hook for check in _can_do_without(control_plane, replica)),
        removal_keeps_quorum(ring, orphan.member.id),
    )


def _possible_owners(control_plane: ControlPlane, orphan: Orphan, now: datetime) -> list[Replica]:
    """Replicas whose own member this may be: of those without a known one, whoever has no Node yet, and whoever it fits as others do.

    Any other with a Node only as long as that is young, and only where the member has not started yet. One that never starts keeps everybody from joining,
    its own replica too, and has no data that could be lost.
    """
    if not orphan.member.started and now >= orphan.since + GIVEN_UP:
        return []
    unmatched = [replica for replica in control_plane.holding if not isinstance(replica.member, int)]
    return [replica for replica in unmatched if _may_own(replica, orphan, now)]


def _may_own(replica: Replica, orphan: Orphan, now: datetime) -> bool:
    if replica.node is None or replica.name in orphan.may_be_of:
        return True
    return not orphan.member.started and now < _joins_until(replica)


def joins_on(control_plane: ControlPlane, orphan: Orphan) -> str:
    """The replica on whose host a member that has yet to vote was to join: the only one that has no Node and no member, where this is the only member that
    nobody has. Empty where nobody can tell, or where somebody has called the member another host's by consenting to its removal.
    """
    owners = [replica for replica in control_plane.replicas if not isinstance(replica.member, int)]
    certain = len(owners) == len(control_plane.orphans) == 1 and owners[0].node is None
    return owners[0].name if certain and not (orphan.member.votes or orphan.node or orphan.consented) else ""


def _joins_until(replica: Replica) -> datetime:
    return max(replica.created, replica.node_created or replica.created) + JOINING


def _can_do_without(control_plane: ControlPlane, owner: Replica) -> tuple[Check, ...]:
    """Of a possible owner that waits at our hook: where the others can do without it, the orphan may go whether it is the owner's or not."""
    serving = () if never_joined(control_plane, owner) else (another_serves(control_plane, owner),)
    return (another_holds_the_data(control_plane, owner), *serving)


def _aged(orphan: Orphan, now: datetime) -> Check:
    evidence = f"{orphan.member.label} was first seen at {orphan.since:%H:%M:%S} as belonging to no Machine"
    return passed(AGED, evidence) if now >= orphan.since + GRACE else failed(AGED, evidence)


def _has_no_owner(orphan: Orphan) -> Check:
    """Whoever has a Node has an owner, whatever the objects say (S17): a restore of older objects, or an adoption of one Machine, forgets the others.

    Only what is down on a Node that is not ready either is given up without being asked for. What could not be asked may be well.
    """
    member, node = orphan.member, orphan.node
    if isinstance(node, Unknown):
        return unknown(HAS_NO_OWNER, f"cannot tell whether {member.label} runs on a Node: {node.reason}")
    if not node:
        return passed(HAS_NO_OWNER, f"no Node is known that {member.label} runs on")
    if orphan.consented:
        return passed(HAS_NO_OWNER, f"the removal of {member.id:x} on Node {node} was asked for")
    if member.health is Health.BAD and not member.only_alarmed and not orphan.node_ready:
        return passed(HAS_NO_OWNER, f"{member.label} is down, and Node {node} is not ready")
    remedy = (
        f"Bring back the Machine of Node {node}. If it is to leave the cluster, annotate the KubeadmControlPlane "
        f"with {CONSENT}={member.id:x}: the member is removed when the others can do without it."
    )
    return failed(HAS_NO_OWNER, f"{member.label} ({member.id:x}) runs on Node {node}, which is there and belongs to no Machine", remedy)


def _is_of_no_newcomer(orphan: Orphan, coming: list[Replica]) -> Check:
    """Whose owner asked for its removal may go whether a replica on its way is it or not: the quorum is asked for all the same."""
    member = orphan.member
    if orphan.consented:
        return passed(IS_OF_NO_NEWCOMER, f"the removal of {member.id:x} was asked for")
    if not coming:
        return passed(IS_OF_NO_NEWCOMER, f"{member.label} is that of no Machine that stays, or has yet to reach our hook")
    which = f"{member.name} ({member.id:x})" if member.name else member.label
    names = ", ".join(sorted(replica.name for replica in coming))
    remedy = ""
    if any(replica.overdue for replica in coming):  # else time will tell
        remedy = f"If it is not, and is to leave, annotate the KubeadmControlPlane with {CONSENT}={member.id:x}."
    return failed(IS_OF_NO_NEWCOMER, f"{which} may be the member of {names}", remedy)


def _wake_moments(control_plane: ControlPlane, orphan: Orphan) -> list[datetime]:
    """When time alone may change the answer about an orphan."""
    young = [_joins_until(replica) for replica in control_plane.holding if replica.node is not None and not isinstance(replica.member, int)]
    given_up = [] if orphan.member.started else [orphan.since + GIVEN_UP]
    return [orphan.since + GRACE, *given_up, *young]


def _order(orphan: Orphan) -> tuple[bool, datetime, int]:
    return orphan.member.started, orphan.since, orphan.member.id
