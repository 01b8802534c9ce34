"""Scaling: one replica more or one fewer, when everything that stays is well. While something is outdated, the rollout does both."""

from __future__ import annotations

from datetime import datetime

from quorate.core.checks import Check
from quorate.core.machines.rules.placement import candidates, next_failure_domain
from quorate.core.machines.rules.preflight import before_deleting, before_joining, wants_more
from quorate.core.machines.state import ControlPlane, Replica
from quorate.core.machines.steps import AbandonCreation, CreateReplica, DeleteReplica, Step
from quorate.core.proposal import NOTHING, Proposal, wanting


def take_back_an_abandoned_creation(control_plane: ControlPlane, _now: datetime) -> Proposal[Step]:
    """Deletes what a creation left behind that was begun and is no longer wanted."""
    creation = control_plane.creation
    if creation is None or creation.machine_exists or wants_more(control_plane):
        return NOTHING
    return Proposal(AbandonCreation(creation.name))


def scale_up(control_plane: ControlPlane, _now: datetime) -> Proposal[Step]:
    """Adds one replica once the cluster is initialized and every other replica is healthy, or before the only replica, which is being deleted, leaves."""
    if not control_plane.replicas or control_plane.outdated or len(control_plane.staying) >= control_plane.desired.replicas:
        return NOTHING
    return wanting(CreateReplica(next_failure_domain(control_plane), initialize=False), *before_joining(control_plane))


def scale_down(control_plane: ControlPlane, _now: datetime) -> Proposal[Step]:
    """Removes one replica. It need not be healthy itself; all the others must be."""
    if control_plane.outdated or len(control_plane.staying) <= max(control_plane.desired.replicas, 1):
        return NOTHING
    return first_permitted(control_plane, candidates(control_plane))


def first_permitted(control_plane: ControlPlane, victims: tuple[Replica, ...], *reasons: Check) -> Proposal[Step]:
    """The first of the victims, of which there is at least one, that may go; if none may, why the first may not. `reasons` are said beforehand."""
    proposals = [wanting(DeleteReplica(victim.name), *reasons, *before_deleting(control_plane, victim)) for victim in victims]
    return next((proposal for proposal in proposals if proposal.step is not None), proposals[0])
