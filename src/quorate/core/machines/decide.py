"""The one next step for a control plane of Machines, and why: its table of rules, evaluated as `quorate.core.proposal` says."""

from __future__ import annotations

from datetime import datetime

from quorate.core import proposal
from quorate.core.machines.rules import (
    adopt,
    certificates,
    delete,
    guard,
    in_place,
    initialize,
    maintenance,
    orphans,
    remediate,
    remove,
    rollout,
    scale,
)
from quorate.core.machines.state import ControlPlane
from quorate.core.machines.steps import EVERYTHING, Step

Decision = proposal.Decision[Step]
"""What to do next with a control plane, and why."""

RULES: tuple[tuple[str, proposal.Rule[ControlPlane, Step]], ...] = (
    ("keep the finalizer", guard.keep_the_finalizer),
    ("respect a pause", guard.respect_a_pause),
    ("take the control plane down", delete.take_down),
    ("refuse invalid objects", guard.refuse_what_is_invalid),
    ("be the control plane that the Cluster names", guard.be_the_one_that_the_cluster_names),
    ("adopt stand-alone Machines", adopt.adopt_stand_alone_machines),
    ("leave others' Machines alone", guard.leave_others_machines_alone),
    ("wait for infrastructure", guard.wait_for_infrastructure),
    ("provide certificates", certificates.provide_certificates),
    ("wait for the endpoint", guard.wait_for_the_endpoint),
    ("provide the kubeconfig", certificates.provide_the_kubeconfig),
    ("wait for the workload cluster", guard.wait_for_the_workload_cluster),
    ("members agree", orphans.members_agree),
    ("remove orphans", orphans.remove_orphans),
    ("let leaving Machines go", remove.release_the_leaving),
    ("take back an abandoned creation", scale.take_back_an_abandoned_creation),
    ("finish what was begun in place", in_place.finish_what_was_begun),
    ("keep the records of remediations", remediate.keep_the_records),
    ("remediate", remediate.remediate),
    ("wait for updates in place", in_place.wait_for_updates),
    ("prepare the workload", maintenance.prepare_the_workload),
    ("replace outdated Machines", rollout.replace_the_outdated),
    ("move CoreDNS ahead", maintenance.move_coredns),
    ("initialize", initialize.initialize),
    ("scale up", scale.scale_up),
    ("scale down", scale.scale_down),
    ("update add-ons", maintenance.update_addons),
    ("record expiries", maintenance.record_expiries),
    ("foresee updates in place", in_place.foresee_updates),
)
"""In order. The documentation's table is made from this one."""


def decide(control_plane: ControlPlane, now: datetime) -> Decision:
    """The decision for what was observed at `now`. Pure and total."""
    return proposal.judge(RULES, EVERYTHING, control_plane, now)
