"""Where the Cluster API kinds live in the Kubernetes API: one constant for each kind, all in v1beta2."""

from __future__ import annotations

from typing import Any

from quorate.clusterapi.types.cluster import Cluster
from quorate.clusterapi.types.kubeadm_config import KubeadmConfig
from quorate.clusterapi.types.kubeadm_control_plane import KubeadmControlPlane, KubeadmControlPlaneTemplate
from quorate.clusterapi.types.machine import Machine, MachinePool
from quorate.kubernetes.resource import Resource

CLUSTER_GROUP = "cluster.x-k8s.io"
BOOTSTRAP_GROUP = "bootstrap.cluster.x-k8s.io"
CONTROL_PLANE_GROUP = "controlplane.cluster.x-k8s.io"
INFRASTRUCTURE_GROUP = "infrastructure.cluster.x-k8s.io"
RUNTIME_GROUP = "runtime.cluster.x-k8s.io"
VERSION = "v1beta2"
OLD_VERSION = "v1beta1"  # of the control-plane kinds, served beside it

CLUSTERS = Resource(CLUSTER_GROUP, VERSION, "clusters", "Cluster", Cluster)
MACHINES = Resource(CLUSTER_GROUP, VERSION, "machines", "Machine", Machine)
MACHINE_POOLS = Resource(CLUSTER_GROUP, VERSION, "machinepools", "MachinePool", MachinePool)
MACHINE_DRAIN_RULES: Resource[dict[str, Any]] = Resource(CLUSTER_GROUP, VERSION, "machinedrainrules", "MachineDrainRule", dict)
KUBEADM_CONFIGS = Resource(BOOTSTRAP_GROUP, VERSION, "kubeadmconfigs", "KubeadmConfig", KubeadmConfig)
KUBEADM_CONTROL_PLANES = Resource(CONTROL_PLANE_GROUP, VERSION, "kubeadmcontrolplanes", "KubeadmControlPlane", KubeadmControlPlane)
KUBEADM_CONTROL_PLANE_TEMPLATES = Resource(
    CONTROL_PLANE_GROUP, VERSION, "kubeadmcontrolplanetemplates", "KubeadmControlPlaneTemplate", KubeadmControlPlaneTemplate
)
