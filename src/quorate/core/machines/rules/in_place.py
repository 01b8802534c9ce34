"""Updates in place by a runtime extension: asked for, begun, and waited for.

Upstream begins one where it would delete a Machine of a rollout otherwise, replaces without a word where no extension answers, and finishes what it began
whatever has changed since. Here an extension that is configured and does not answer is waited for, the quorum gate stands before an update as before a restart,
and what was begun is asked about anew. Source: cluster-api, kubeadmcontrolplane/inplace.go and update.go.
"""

from __future__ import annotations

from datetime import datetime

from quorate.core.checks import Check, failed, passed, unknown
from quorate.core.machines import checks
from quorate.core.machines.rules.placement import age
from quorate.core.machines.rules.preflight import before_updating
from quorate.core.machines.state import Answer, ControlPlane, InPlace, Replica
from quorate.core.machines.steps import GROWS, AskExtension, DeleteReplica, MoveCoreDNS, Step, UpdateAddons, UpdateInPlace
from quorate.core.proposal import NOTHING, Proposal, wanting

NO_UPDATE = "no update in place is under way"
EXTENSION_ANSWERS = "the extension says whether it can update in place"

_BESIDE_AN_UPDATE: frozenset[type[Step]] = GROWS | {DeleteReplica, UpdateInPlace, MoveCoreDNS, UpdateAddons}
_FAILING = (
    "See in the log of Cluster API's core controller what the extension answers, and correct that; or delete the Machine {}: another is made in its place. "
    "A MachineHealthCheck with unhealthyMachineConditions of type Updating does that by itself."
)


def finish_what_was_begun(control_plane: ControlPlane, now: datetime) -> Proposal[Step]:
    """An update in place that was marked, and that core may not begin yet, is asked about anew and finished; one that is not possible any more is none.

    Nobody has touched its host, so that it holds up no other step than the update of another. Whatever was asked before was asked of another specification,
    or of objects that are half written by now. Who cannot be finished differs from what is desired, and goes first in the rollout.
    """
    wanted = [(age(replica), replica, replica.in_place) for replica in control_plane.begun if replica.in_place is not None]
    for _, replica, in_place in sorted(wanted, key=lambda each: each[0]):
        if in_place.answer is not Answer.NO:
            proposal = update_or_ask(control_plane, replica, in_place, now)
            return Proposal(proposal.step, proposal.checks, frozenset({UpdateInPlace, UpdateAddons}), proposal.wake_at)
    return NOTHING


def wait_for_updates(control_plane: ControlPlane, _now: datetime) -> Proposal[Step]:
    """While a replica is updated in place nobody joins, is deleted or is updated beside it; one that fails its health check meanwhile was replaced before."""
    if not control_plane.updating:
        return NOTHING
    return Proposal(checks=tuple(_under_way(replica) for replica in sorted(control_plane.updating, key=age)), blocks=_BESIDE_AN_UPDATE)


def foresee_updates(control_plane: ControlPlane, _now: datetime) -> Proposal[Step]:
    """While nothing else is to be done, the extension is asked about the other outdated replicas, so that people can be told what becomes of each."""
    unasked = [r for r in control_plane.outdated if r.in_place is not None and r.in_place.answer is Answer.UNASKED]
    return Proposal(AskExtension(min(unasked, key=age).name)) if unasked else NOTHING


def update_or_ask(control_plane: ControlPlane, replica: Replica, in_place: InPlace, now: datetime, *reasons: Check) -> Proposal[Step]:
    """The update of a replica that may be updated, once the extension has said so and everything else holds. `reasons` are said beforehand."""
    match in_place.answer:
        case Answer.UNASKED:
            return Proposal(AskExtension(replica.name), reasons)
        case Answer.UNKNOWN:
            due = in_place.retry_at is not None and in_place.retry_at <= now
            silent = unknown(EXTENSION_ANSWERS, f"{in_place.extension}, about {replica.name}: {in_place.reason}", in_place.remedy)
            return Proposal(AskExtension(replica.name) if due else None, (*reasons, silent), wake_at=in_place.retry_at)
    yes = passed(EXTENSION_ANSWERS, f"{in_place.extension} can update {replica.name}")
    others = map(_under_way, control_plane.updating)
    return wanting(UpdateInPlace(replica.name), *reasons, yes, *others, *before_updating(control_plane, replica))


def takes_place(control_plane: ControlPlane, replica: Replica) -> bool:
    """Whether a replica that is to make room is to be updated instead, as far as its extension can: it is well, and fewer than desired are up to date.

    One that is not well is replaced, and so is the last of a surge. Source: rollingUpdate in kubeadmcontrolplane/update.go.
    """
    if replica.in_place is None or replica.in_place.answer is Answer.NO:
        return False
    up_to_date = sum(not other.outdated for other in control_plane.staying)
    well = all(check.passed for check in checks.components_healthy(control_plane, (replica,)))
    return well and up_to_date < control_plane.desired.replicas


def _under_way(replica: Replica) -> Check:
    update = replica.update
    if update is None:
        raise AssertionError(f"{replica.name} is not being updated")
    told = f": {update.message}" if update.message else ""
    if update.failed:
        return failed(NO_UPDATE, f"the update in place of {replica.name} fails{told}", _FAILING.format(replica.name))
    return failed(NO_UPDATE, f"{replica.name} is being updated in place{told}")
