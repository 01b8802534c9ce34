"""Preconditions of every step."""

from __future__ import annotations

from datetime import datetime

from quorate.core.checks import failed, passed, unknown
from quorate.core.health import Health, Unknown
from quorate.core.machines.checks import INITIALIZED
from quorate.core.machines.state import ControlPlane
from quorate.core.machines.steps import EVERYTHING, GROWS, SHRINKS, AbandonCreation, AddFinalizer, Step, WriteKubeconfig
from quorate.core.proposal import NOTHING, Proposal, blocking

NOT_PAUSED = "nothing is paused"
WORKLOAD_ANSWERS = "the workload cluster answers"
_TO_ACCESS = (
    "Restore access to the workload cluster's API server. If etcd has lost its quorum for good, restore a snapshot on the host of one of the Machines; "
    "if none of their hosts is left, delete the Cluster, create it anew, and restore the snapshot there."
)


def keep_the_finalizer(control_plane: ControlPlane, _now: datetime) -> Proposal[Step]:
    """Adds our finalizer to a control plane that is not being deleted before anything else is created, even while it is paused."""
    if control_plane.has_finalizer or control_plane.deletion:
        return NOTHING
    return Proposal(AddFinalizer())


def respect_a_pause(control_plane: ControlPlane, _now: datetime) -> Proposal[Step]:
    """Does nothing while the control plane or its Cluster is paused, not even for a deletion (S11)."""
    if not control_plane.paused:
        return NOTHING
    return blocking(EVERYTHING, failed(NOT_PAUSED, f"paused by {control_plane.paused}", "Remove the pause to go on."))


def refuse_what_is_invalid(control_plane: ControlPlane, _now: datetime) -> Proposal[Step]:
    """Sets a condition and does nothing for an object that admission would refuse, or that asks for what this release does not support."""
    checks = [failed("the specification is valid", text, "Correct the KubeadmControlPlane.") for text in control_plane.invalid]
    checks += [failed("the specification is supported", text, "Change the specification.") for text in control_plane.unsupported]
    return blocking(EVERYTHING, *checks)


def be_the_one_that_the_cluster_names(control_plane: ControlPlane, _now: datetime) -> Proposal[Step]:
    """Of several control planes that claim one Cluster, only the one that the Cluster names creates anything: two would initialize two clusters (S3)."""
    if not control_plane.not_the_clusters:
        return NOTHING
    remedy = "Delete this KubeadmControlPlane, or name it in the Cluster's spec.controlPlaneRef."
    return blocking(EVERYTHING, failed("the Cluster names this control plane", control_plane.not_the_clusters, remedy))


def leave_others_machines_alone(control_plane: ControlPlane, _now: datetime) -> Proposal[Step]:
    """Does nothing while the cluster has control-plane Machines that are not ours: they make every replica count wrong."""
    if not control_plane.foreign:
        return NOTHING
    names = ", ".join(control_plane.foreign)
    remedy = "Give these Machines the KubeadmControlPlane as controller owner, or delete them."
    return blocking(
        EVERYTHING, failed("all control-plane Machines are ours", f"not controlled by this KubeadmControlPlane: {names}", remedy)
    )


def wait_for_infrastructure(control_plane: ControlPlane, _now: datetime) -> Proposal[Step]:
    """Creates nothing before the cluster's infrastructure is provisioned."""
    name = "the cluster's infrastructure is provisioned"
    if control_plane.infrastructure_ready:
        return Proposal(checks=(passed(name, "the Cluster says so"),))
    return blocking(EVERYTHING, failed(name, "waiting for Cluster status.initialization.infrastructureProvisioned"))


def wait_for_the_endpoint(control_plane: ControlPlane, _now: datetime) -> Proposal[Step]:
    """Waits for the endpoint: kubeconfigs and kubeadm need to know where the API server will be."""
    name = "the control plane endpoint is known"
    if control_plane.endpoint:
        return Proposal(checks=(passed(name, control_plane.endpoint),))
    return blocking(GROWS | SHRINKS | {WriteKubeconfig}, failed(name, "waiting for Cluster spec.controlPlaneEndpoint"))


def wait_for_the_workload_cluster(control_plane: ControlPlane, _now: datetime) -> Proposal[Step]:
    """Once there is a cluster, adds nothing to it and removes nothing from it while its API does not answer."""
    initialized = control_plane.initialized
    if isinstance(initialized, Unknown):
        return blocking(GROWS | SHRINKS | {AbandonCreation}, unknown(INITIALIZED, initialized.reason, initialized.remedy))
    if not initialized:
        return NOTHING
    name, finding = WORKLOAD_ANSWERS, control_plane.workload
    if finding.health is Health.GOOD:
        return Proposal(checks=(passed(name, finding.message or finding.reason),))
    answer = failed if finding.health is Health.BAD else unknown
    return blocking(
        GROWS | SHRINKS | {AbandonCreation}, answer(name, finding.message or finding.reason, _TO_ACCESS if answer is failed else "")
    )
