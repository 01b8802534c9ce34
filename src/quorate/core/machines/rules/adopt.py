"""Adopts control-plane Machines without an owner, all at once, or names those that cannot be adopted, and why."""

from __future__ import annotations

from datetime import datetime

from quorate.core.checks import failed
from quorate.core.machines.state import ControlPlane
from quorate.core.machines.steps import EVERYTHING, AdoptReplicas, Step
from quorate.core.proposal import NOTHING, Proposal, blocking

ADOPTABLE = "every stand-alone control-plane Machine can be adopted"
ADOPTION_IN_TIME = "stand-alone Machines are adopted once the cluster can be reached"


def adopt_stand_alone_machines(control_plane: ControlPlane, _now: datetime) -> Proposal[Step]:
    """Adopts all or none: with one that cannot be adopted every replica count would be wrong, so nothing else is done either.

    Source: cluster-api, controlplane/kubeadm/reconcilers/kubeadmcontrolplane (adoptMachines), which stops in the same way but says so in an event alone.
    """
    if not control_plane.adoptable or control_plane.paused or control_plane.deletion:
        return NOTHING
    names = tuple(sorted(machine.name for machine in control_plane.adoptable))
    if not control_plane.infrastructure_ready or not control_plane.endpoint:
        waits_for = "its endpoint" if control_plane.infrastructure_ready else "its infrastructure"
        return blocking(EVERYTHING, failed(ADOPTION_IN_TIME, f"{', '.join(names)}: the Cluster waits for {waits_for}"))
    problems = [f"{machine.name}: {machine.problem}" for machine in control_plane.adoptable if machine.problem]
    if problems:
        remedy = "Correct or delete these Machines, or give them an owner."
        return blocking(EVERYTHING, failed(ADOPTABLE, "; ".join(sorted(problems)), remedy))
    return Proposal(AdoptReplicas(names))
