"""The rolling replacement of replicas that differ from what is desired: one more while there is room for a surge, otherwise one that is outdated goes.

The newest specification wins: what failed to come up by an earlier one makes room first, so that a bad change corrected half-way ends well.
Source: kubeadmcontrolplane/update.go.
"""

from __future__ import annotations

from datetime import datetime

from quorate.core.checks import Check, failed, passed
from quorate.core.machines.rules.in_place import takes_place, update_or_ask
from quorate.core.machines.rules.placement import age, candidates, choose_victim, is_ill, next_failure_domain
from quorate.core.machines.rules.preflight import before_joining, has_room, template_exists, topology_arrived
from quorate.core.machines.rules.remove import BEFORE_INITIALIZATION
from quorate.core.machines.rules.scale import first_permitted
from quorate.core.machines.state import Answer, ControlPlane, Replica
from quorate.core.machines.steps import CreateReplica, DeleteReplica, Step
from quorate.core.proposal import Proposal, wanting
from quorate.core.ring import Ring

UP_TO_DATE = "replicas are up to date"
REPLACEMENT_WANTED = "a replacement is wanted"
ANOTHER_STAYS = "another replica stays"


def replace_the_outdated(control_plane: ControlPlane, now: datetime) -> Proposal[Step]:
    """Adds one replica of the new specification while there are fewer than desired plus surge; otherwise deletes one outdated replica, a failed one first,
    or has it updated in place by an extension that can."""
    if not control_plane.outdated:
        moments = [replica.outdated_from for replica in control_plane.staying if replica.outdated_from]
        up_to_date = (passed(UP_TO_DATE, "all of them"),) if control_plane.replicas else ()
        return Proposal(checks=up_to_date, wake_at=min(moments, default=None))
    wanted = passed(REPLACEMENT_WANTED, "; ".join(map(_ways, sorted(control_plane.outdated, key=age))))
    if not control_plane.may_be_initialized:
        return _begin_anew(control_plane, wanted)
    desired = control_plane.desired
    if len(control_plane.staying) < desired.replicas + desired.max_surge:
        return _one_more(control_plane, wanted)
    chosen = choose_victim(control_plane)
    if chosen.in_place is not None and takes_place(control_plane, chosen):
        return update_or_ask(control_plane, chosen, chosen.in_place, now, wanted)
    return _one_fewer(control_plane, candidates(control_plane), wanted)


def _ways(replica: Replica) -> str:
    """In which ways it differs, and why that cannot be changed in place, where somebody was asked."""
    in_place = replica.in_place
    refused = f" (not in place: {in_place.reason})" if in_place is not None and in_place.answer is Answer.NO else ""
    return f"{replica.name}: {', '.join(replica.outdated)}{refused}"


def _one_more(control_plane: ControlPlane, wanted: Check) -> Proposal[Step]:
    """One at the new specification joins; where an outdated one that failed to come up is all that stands in the way, that one goes."""
    proposal = wanting(CreateReplica(next_failure_domain(control_plane), initialize=False), wanted, *before_joining(control_plane))
    failed_ones = tuple(sorted((r for r in control_plane.outdated if _failed_to_come_up(control_plane, r)), key=age))
    if proposal.step is not None or not failed_ones or len(control_plane.staying) == 1:
        return proposal
    if control_plane.remediating is not None or not has_room(control_plane).passed:
        return proposal  # another one is going already, and this one's place would be the second that is empty
    instead = _one_fewer(control_plane, failed_ones, wanted)
    return instead if instead.step is not None else proposal


def _one_fewer(control_plane: ControlPlane, victims: tuple[Replica, ...], wanted: Check) -> Proposal[Step]:
    """One outdated replica goes, unless it is the only one."""
    if len(control_plane.staying) == 1:
        evidence = f"{control_plane.staying[0].name} is the only one, and maxSurge is 0"
        remedy = "Allow a surge (rollout.strategy.rollingUpdate.maxSurge 1), or ask for three replicas."
        return Proposal(checks=(wanted, failed(ANOTHER_STAYS, evidence, remedy)))
    return first_permitted(control_plane, victims, wanted)


def _failed_to_come_up(control_plane: ControlPlane, replica: Replica) -> bool:
    """The newest one, when it is ill; or one with neither a Node nor a vote.

    An older one that is ill did come up, and may be so for a moment: it keeps its place until the surge is there. So does one that votes and has lost its Node.
    """
    if replica.node is not None:
        return is_ill(replica) and replica is max(control_plane.staying, key=age)
    member = control_plane.ring.member(replica.member) if isinstance(control_plane.ring, Ring) and isinstance(replica.member, int) else None
    return member is None or not member.votes


def _begin_anew(control_plane: ControlPlane, wanted: Check) -> Proposal[Step]:
    """Where kubeadm, proven, has founded nothing there is no data and no ring: the only replica goes, and the next one founds the cluster anew."""
    replica, *others = sorted(control_plane.replicas, key=age)
    alone = (
        failed(BEFORE_INITIALIZATION, f"{replica.name} is not the only one: {', '.join(r.name for r in others)}")
        if others
        else passed(BEFORE_INITIALIZATION, f"{replica.name} is the only one, and has not finished kubeadm init")
    )
    asked = (alone, topology_arrived(control_plane), template_exists(control_plane))
    return wanting(DeleteReplica(replica.name), wanted, *asked)
