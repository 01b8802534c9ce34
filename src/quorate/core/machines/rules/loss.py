"""What a control plane would lose with a replica that failed: the decision before a remediation may begin."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from enum import StrEnum

from quorate.core.checks import Check, Outcome, failed, passed
from quorate.core.health import Unknown
from quorate.core.machines.checks import another_serves, dependable_ring, quorum_survives_removal, ways_to_nodes
from quorate.core.machines.rules.remove import another_holds_the_data, never_joined, safe_to_let_go
from quorate.core.machines.state import ControlPlane, Replica
from quorate.core.quorum import removal_keeps_quorum
from quorate.core.ring import Ring

NOBODY_COMING_UP = "no replica is coming up"
SAFE_TOGETHER = "the others can do without it and those that leave"


class Reason(StrEnum):
    """Why a replica is not replaced now, in the words of its OwnerRemediated condition."""

    DEFERRED = "RemediationDeferred"  # time, or what is under way, changes the answer
    CANNOT = "CannotBeRemediated"  # something else has to change first
    DELETING = "MachineDeleting"
    WAITING = "WaitingForRemediation"  # another remediation goes first: the condition stays as the health check wrote it


def safe_to_remediate(control_plane: ControlPlane, replica: Replica) -> Iterator[tuple[Check, Reason]]:
    """What an initialized control plane must not lose with this replica, each with the kind of refusal that it would be.

    Asked once more of a fresh reading of the ring right before the step (S10). etcd is asked only where it is managed: an external one loses nothing.
    """
    yield another_holds_the_data(control_plane, replica), Reason.CANNOT
    yield _nobody_coming_up(control_plane, replica), Reason.DEFERRED
    for check in _alone(control_plane, replica):
        on_its_way = bool(control_plane.leaving or control_plane.vanishing)  # their end changes the answer, one way or the other
        later = on_its_way or check.outcome is Outcome.UNKNOWN
        yield (replace(check, remedy="") if on_its_way else check), Reason.DEFERRED if later else Reason.CANNOT
    if control_plane.leaving:
        yield _together(control_plane, replica), Reason.DEFERRED


def _nobody_coming_up(control_plane: ControlPlane, replica: Replica) -> Check:
    """A replica without a Node that nobody found unhealthy may be well at any moment, and is then the better one to lean on."""
    coming = [other for other in control_plane.staying if other.name != replica.name and other.node is None and not other.unhealthy]
    if coming:
        names, state = ", ".join(sorted(other.name for other in coming)), "yet" if control_plane.knows_nodes else "that is known"
        return failed(NOBODY_COMING_UP, f"{names} has no Node {state}", ways_to_nodes(control_plane, coming))
    return passed(NOBODY_COMING_UP, "every other replica has its Node or failed too")


def _alone(control_plane: ControlPlane, replica: Replica) -> tuple[Check, ...]:
    serving = () if never_joined(control_plane, replica) else (another_serves(control_plane, replica),)
    return (*serving, _quorum(control_plane, replica))


def _quorum(control_plane: ControlPlane, replica: Replica) -> Check:
    """The gate of every removal. A member that cannot be told from orphans may go if each one of them may, whichever it is.

    So it is with a replica that added its member and never started it: it has no Node by which the two could be matched. And with one whose host came back
    empty under its name and is silent now: two members have that name, and neither answers. They leave at its hook, one after the other: see orphans.py.
    """
    ring = dependable_ring(control_plane)
    if not control_plane.desired.etcd_managed or isinstance(ring, Unknown) or not isinstance(replica.member, Unknown):
        return quorum_survives_removal(control_plane, replica)
    candidates = _candidates(control_plane)
    orphans = {orphan.member.id for orphan in control_plane.orphans}
    if not candidates or not candidates <= orphans:  # nothing would ever remove it from the ring: see orphans.py
        return quorum_survives_removal(control_plane, replica)
    answers = [removal_keeps_quorum(ring, member) for member in sorted(candidates)]
    return next((answer for answer in answers if not answer.passed), answers[0])


def _candidates(control_plane: ControlPlane) -> set[int]:
    """The members that were matched with no replica."""
    matched = {replica.member for replica in control_plane.replicas if isinstance(replica.member, int)}
    members = control_plane.ring.members if isinstance(control_plane.ring, Ring) else ()
    return {member.id for member in members} - matched


def _together(control_plane: ControlPlane, replica: Replica) -> Check:
    """Beside replicas that leave, one more may be deleted if the others can do without all of them, or if those that leave cannot go before it.

    In the second case they stay at our hook, serving and voting, until this one is replaced: to wait for them would be to wait for ever.
    """
    names = ", ".join(other.name for other in control_plane.leaving)
    if all(is_held(control_plane, other) for other in control_plane.leaving):
        return passed(SAFE_TOGETHER, f"{names} cannot leave before it does")
    if not never_joined(control_plane, replica) and not _one_that_stays_serves(control_plane, replica):
        return failed(SAFE_TOGETHER, f"{names} is being deleted, and no replica that stays would serve with every component healthy")
    ring = dependable_ring(control_plane)
    if not control_plane.desired.etcd_managed or isinstance(ring, Unknown):  # an unreadable ring was refused before
        return passed(SAFE_TOGETHER, f"another that stays serves without {names}")
    going = (replica, *control_plane.leaving)
    removed = {other.member for other in going if isinstance(other.member, int)}
    if any(isinstance(other.member, Unknown) for other in going):
        removed |= _candidates(control_plane)
    after = ring.after(removing=removed)
    evidence = f"{names} is being deleted; without all of them: {after}"
    return passed(SAFE_TOGETHER, evidence) if after else failed(SAFE_TOGETHER, evidence)


def is_held(control_plane: ControlPlane, leaving: Replica) -> bool:
    """Whether a replica that leaves stays at our hook for certain, until something other than time has changed."""
    return any(check.outcome is Outcome.FAIL for check in safe_to_let_go(control_plane, leaving))


def _one_that_stays_serves(control_plane: ControlPlane, replica: Replica) -> bool:
    staying = tuple(other for other in control_plane.replicas if other.deleting_since is None)
    return another_serves(replace(control_plane, replicas=staying), replica).passed
