"""Whether kubeadm has initialized the workload cluster: yes, no with a proof, or unknown (S3, S4, S16).

A status does not outlive `clusterctl move`, nor a restore: a control plane that has lost it looks like one that was never initialized. So "yes" is kept in the
metadata too, which is moved and restored with the object; and "no" is believed only of what this very control plane, known by its uid, has made.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from quorate.clusterapi.desired.objects import FOUNDED_BY
from quorate.clusterapi.observe.machines import holds_hook
from quorate.clusterapi.types.cluster import Cluster
from quorate.clusterapi.types.kubeadm_control_plane import KubeadmControlPlane
from quorate.clusterapi.types.machine import Machine
from quorate.core.health import Unknown

ANNOTATION = "quorate.dev/initialized"
"""On the KubeadmControlPlane, for good: kubeadm has founded its cluster."""

_REMEDY = (
    "Restore access to the workload cluster's API server: it tells whether the cluster was initialized. "
    "If it certainly never was, or no host has its data any more, delete the Machines that became Nodes and the KubeadmControlPlane, and create it anew."
)


def is_initialized(
    kcp: KubeadmControlPlane, cluster: Cluster, machines: Sequence[Machine], everyone: Sequence[Machine], kubeadm_config: bool | Unknown
) -> bool | Unknown:
    """Whether kubeadm has founded the cluster. `machines` are those of the control plane, `everyone` all of the Cluster, workers too; `kubeadm_config`: is its
    ConfigMap in the workload cluster.

    "Yes" is what any record says, or the ConfigMap. The one exception: it appears as the founding Machine ends, already let go; its successor would wait
    to join nothing.
    "No" is proven where there is neither record nor Machine, and where the only Machine is the one that this control plane had made to found the cluster;
    but not where a Machine became a Node: an API server took it. Only where that is the founding one alone, whose kubelet registers before kubeadm ends, may
    that API server itself say that kubeadm has yet to end. Else the lack of the ConfigMap proves nothing: anybody may have deleted it.
    """
    if is_on_record(kcp, cluster):
        return True
    founding = _is_founding(kcp, machines)
    if kubeadm_config is True:
        return not (founding and machines[0].metadata.deletion_timestamp and not holds_hook(machines[0]))
    became_nodes = _became_nodes(everyone)
    api_server_says_no = (
        founding and kubeadm_config is False and all(node.metadata.uid == machines[0].metadata.uid for node in became_nodes)
    )
    if api_server_says_no or (not became_nodes and (founding or not machines)):
        return False
    names = ", ".join(machine.metadata.name for machine in machines)
    found = f"{names} may hold its data" if machines else f"{', '.join(machine.metadata.name for machine in became_nodes)} joined it"
    why = (
        kubeadm_config.reason if isinstance(kubeadm_config, Unknown) else "the workload cluster has no ConfigMap kube-system/kubeadm-config"
    )
    return Unknown(f"nothing on record says whether kubeadm has initialized the cluster, {found}, and {why}", _REMEDY)


def is_on_record(kcp: KubeadmControlPlane, cluster: Cluster) -> bool:
    """Whether the cluster was called initialized: in the metadata or the status of the control plane, or in that of the Cluster."""
    status = kcp.status.initialization.control_plane_initialized
    return bool(status or ANNOTATION in kcp.metadata.annotations or cluster.status.initialization.control_plane_initialized)


def _is_founding(kcp: KubeadmControlPlane, machines: Sequence[Machine]) -> bool:
    """Whether the only Machine is the one that this very control plane had made to found the cluster: nobody had founded it then.

    A control plane that was moved, or restored by its specification, has another uid than the one that its Machine names.
    """
    return len(machines) == 1 and machines[0].metadata.annotations.get(FOUNDED_BY) == kcp.metadata.uid


def _became_nodes(machines: Iterable[Machine]) -> list[Machine]:
    """Those that an API server took as Nodes, as core's Machine controller saw it."""
    return [machine for machine in machines if machine.status.node_ref]
