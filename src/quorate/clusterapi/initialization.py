"""Whether kubeadm has founded the workload cluster: yes, no with a proof, or unknown (S3, S4, S16).

A status does not outlive `clusterctl move`, nor a restore: a control plane that has lost it looks like one that was never initialized. So "yes" is kept in the
metadata too, which is moved and restored with the object; and "no" is believed only of what this very control plane, known by its uid, has made.
"""

from __future__ import annotations

from collections.abc import Sequence

from quorate.clusterapi.clients import Clients
from quorate.clusterapi.control_plane_writes import patch_control_plane
from quorate.clusterapi.desired import FOUNDED_BY
from quorate.clusterapi.machines import holds_hook
from quorate.clusterapi.observation import Observation
from quorate.clusterapi.types.cluster import Cluster
from quorate.clusterapi.types.kubeadm_control_plane import KubeadmControlPlane
from quorate.clusterapi.types.machine import Machine
from quorate.core.health import Unknown

ANNOTATION = "quorate.dev/initialized"
"""On the KubeadmControlPlane, for good: kubeadm has founded its cluster."""

_REMEDY = (
    "Restore access to the workload cluster's API server: it tells whether the cluster was initialized. "
    "If it certainly never was, delete the KubeadmControlPlane and create it anew."
)


def is_initialized(
    kcp: KubeadmControlPlane, cluster: Cluster, machines: Sequence[Machine], kubeadm_config: bool | Unknown
) -> bool | Unknown:
    """Whether kubeadm has founded the cluster. `machines` are those of the control plane; `kubeadm_config`: is its ConfigMap in the workload cluster.

    "Yes" is what any record says, or the ConfigMap. The one exception: it appears as the founding Machine ends, already let go; its successor would wait
    to join nothing.
    "No" is proven where there is neither record nor Machine, and where the only Machine is the one that this control plane had made to found the cluster.
    The lack of the ConfigMap proves nothing: anybody may have deleted it.
    """
    if is_on_record(kcp, cluster):
        return True
    proven = not machines or _is_founding(kcp, machines)
    if kubeadm_config is True:
        return not (machines and proven and machines[0].metadata.deletion_timestamp and not holds_hook(machines[0]))
    if proven:
        return False
    names = ", ".join(machine.metadata.name for machine in machines)
    why = (
        kubeadm_config.reason if isinstance(kubeadm_config, Unknown) else "the workload cluster has no ConfigMap kube-system/kubeadm-config"
    )
    return Unknown(f"nothing on record says whether kubeadm has initialized the cluster, {names} may hold its data, and {why}", _REMEDY)


def is_on_record(kcp: KubeadmControlPlane, cluster: Cluster) -> bool:
    """Whether the cluster was called initialized: in the metadata or the status of the control plane, or in that of the Cluster."""
    status = kcp.status.initialization.control_plane_initialized
    return bool(status or ANNOTATION in kcp.metadata.annotations or cluster.status.initialization.control_plane_initialized)


def _is_founding(kcp: KubeadmControlPlane, machines: Sequence[Machine]) -> bool:
    """Whether the only Machine is the one that this very control plane had made to found the cluster: nobody had founded it then.

    A control plane that was moved, or restored by its specification, has another uid than the one that its Machine names.
    """
    return len(machines) == 1 and machines[0].metadata.annotations.get(FOUNDED_BY) == kcp.metadata.uid


async def record(clients: Clients, observation: Observation) -> None:
    """Put on record for good that the cluster is initialized. Once in its life."""
    if observation.initialized and ANNOTATION not in observation.kcp.metadata.annotations:
        await patch_control_plane(clients, observation.kcp, {"metadata": {"annotations": {ANNOTATION: "true"}}})
