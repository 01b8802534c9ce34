"""The first replica, which initializes the cluster: once, and never again."""

from __future__ import annotations

from datetime import datetime

from quorate.core.checks import failed, passed, unknown
from quorate.core.health import Unknown
from quorate.core.machines.rules.placement import next_failure_domain
from quorate.core.machines.rules.preflight import template_exists
from quorate.core.machines.state import ControlPlane
from quorate.core.machines.steps import GROWS, CreateReplica, Step
from quorate.core.proposal import NOTHING, Proposal, blocking, wanting


def initialize(control_plane: ControlPlane, _now: datetime) -> Proposal[Step]:
    """Creates the first replica, unless the cluster was initialized before: then its data is elsewhere, and a new `kubeadm init` would hide that (S3)."""
    if control_plane.replicas or control_plane.desired.replicas < 1:
        return NOTHING
    name = "the cluster was never initialized"
    if isinstance(control_plane.initialized, Unknown):
        return blocking(GROWS, unknown(name, control_plane.initialized.reason, control_plane.initialized.remedy))
    if control_plane.initialized:
        remedy = "Restore an etcd snapshot into a new cluster, or bring the lost Machines back; a new control plane would start empty."
        return blocking(GROWS, failed(name, "every control-plane Machine of an initialized cluster is gone", remedy))
    step = CreateReplica(next_failure_domain(control_plane), initialize=True)
    return wanting(step, passed(name, "no control plane has come up yet"), template_exists(control_plane))
