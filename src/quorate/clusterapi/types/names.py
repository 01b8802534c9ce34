"""Every name that a control-plane provider shares with the rest of Cluster API: labels, annotations, finalizers, field managers, conditions and reasons.

They are upstream's, letter by letter, so that either provider can take over from the other without touching a Machine. Reasons are grouped by the condition
that carries them; a reason that several conditions share is repeated in each group.

Source: cluster-api, api/core/v1beta2, api/controlplane/kubeadm/v1beta2 and controlplane/kubeadm/reconcilers/kubeadmcontrolplane/consts.go.
"""

from __future__ import annotations

from enum import StrEnum


class Label:
    """Keys of labels."""

    CLUSTER_NAME = "cluster.x-k8s.io/cluster-name"
    CONTROL_PLANE = "cluster.x-k8s.io/control-plane"  # value: empty
    CONTROL_PLANE_NAME = "cluster.x-k8s.io/control-plane-name"  # value: the control plane's name, hashed where it is no label value
    WATCH_FILTER = "cluster.x-k8s.io/watch-filter"
    PROVIDER = "cluster.x-k8s.io/provider"
    CLUSTERCTL = "clusterctl.cluster.x-k8s.io"  # on a CRD; value: empty. `clusterctl move` finds by it what it moves
    CONTRACT = "cluster.x-k8s.io/v1beta2"  # on a CRD; value: the API versions that fulfil the contract
    CONTRACT_V1BETA1 = "cluster.x-k8s.io/v1beta1"  # the same of the contract before; ClusterClasses may still refer to v1beta1
    TOPOLOGY_OWNED = "topology.cluster.x-k8s.io/owned"
    AGGREGATE_TO_MANAGER = "kubeadm.controlplane.cluster.x-k8s.io/aggregate-to-manager"  # on a ClusterRole; value: true


class Annotation:
    """Keys of annotations."""

    PAUSED = "cluster.x-k8s.io/paused"
    SKIP_COREDNS = "controlplane.cluster.x-k8s.io/skip-coredns"
    SKIP_KUBE_PROXY = "controlplane.cluster.x-k8s.io/skip-kube-proxy"
    REMEDIATION_IN_PROGRESS = "controlplane.cluster.x-k8s.io/remediation-in-progress"
    REMEDIATION_FOR = "controlplane.cluster.x-k8s.io/remediation-for"
    CLONED_FROM_NAME = "cluster.x-k8s.io/cloned-from-name"
    CLONED_FROM_GROUP_KIND = "cluster.x-k8s.io/cloned-from-groupkind"
    DELETE_MACHINE = "cluster.x-k8s.io/delete-machine"
    REMEDIATE_MACHINE = "cluster.x-k8s.io/remediate-machine"
    SKIP_REMEDIATION = "cluster.x-k8s.io/skip-remediation"
    CERTIFICATES_EXPIRY = "machine.cluster.x-k8s.io/certificates-expiry"  # RFC 3339; a Machine's goes before its KubeadmConfig's
    EXCLUDE_NODE_DRAINING = "machine.cluster.x-k8s.io/exclude-node-draining"
    EXCLUDE_WAIT_FOR_NODE_VOLUME_DETACH = "machine.cluster.x-k8s.io/exclude-wait-for-node-volume-detach"
    UPDATE_IN_PROGRESS = "in-place-updates.internal.cluster.x-k8s.io/update-in-progress"
    PENDING_HOOKS = "runtime.cluster.x-k8s.io/pending-hooks"
    UPGRADE_STEP = "topology.internal.cluster.x-k8s.io/upgrade-step"
    TOPOLOGY_DRY_RUN = "topology.cluster.x-k8s.io/dry-run"
    CONVERSION_DATA = "cluster.x-k8s.io/conversion-data"
    KUBEADM_CLUSTER_CONFIGURATION = "controlplane.cluster.x-k8s.io/kubeadm-cluster-configuration"  # of v1.11 and older: removed where seen
    CRD_MIGRATION_OBSERVED_GENERATION = "crd-migration.cluster.x-k8s.io/observed-generation"


class Hook:
    """Annotations that hold a Machine's deletion at one point until whoever set them takes them away."""

    PRE_DRAIN_PREFIX = "pre-drain.delete.hook.machine.cluster.x-k8s.io"
    PRE_TERMINATE_PREFIX = "pre-terminate.delete.hook.machine.cluster.x-k8s.io"
    PRE_TERMINATE = "pre-terminate.delete.hook.machine.cluster.x-k8s.io/kcp-cleanup"  # ours; value: empty


class Finalizer:
    """Finalizers."""

    KUBEADM_CONTROL_PLANE = "kubeadm.controlplane.cluster.x-k8s.io"
    ORPHAN = "orphan"  # of the garbage collector: `kubectl delete --cascade=orphan`


class FieldManager:
    """Field managers of server-side apply."""

    KUBEADM_CONTROL_PLANE = "capi-kubeadmcontrolplane"  # Machines; specification and owners of what is made with them
    METADATA = "capi-kubeadmcontrolplane-metadata"  # labels and annotations of what is made with a Machine
    DEFAULT = "manager"  # plain patches


CLUSTER_SECRET_TYPE = "cluster.x-k8s.io/secret"  # noqa: S105 - a type, not a secret
PROVIDER_NAME = "control-plane-kubeadm"
DEFAULT_NAMESPACE = "capi-kubeadm-control-plane-system"  # that a provider of this name is installed in
KUBEADM_CONTROL_PLANE_KIND = "KubeadmControlPlane"
LEADER_ELECTION_LEASE = "kubeadm-control-plane-manager-leader-election-capi"
UPDATE_MACHINE_HOOK = "UpdateMachine"  # an entry of the pending-hooks annotation
RECORDER_NAME = "kubeadmcontrolplane-controller"


class ControlPlaneCondition(StrEnum):
    """Types of the conditions on a KubeadmControlPlane."""

    AVAILABLE = "Available"
    INITIALIZED = "Initialized"
    CERTIFICATES_AVAILABLE = "CertificatesAvailable"
    ETCD_CLUSTER_HEALTHY = "EtcdClusterHealthy"
    CONTROL_PLANE_COMPONENTS_HEALTHY = "ControlPlaneComponentsHealthy"
    MACHINES_READY = "MachinesReady"
    MACHINES_UP_TO_DATE = "MachinesUpToDate"
    ROLLING_OUT = "RollingOut"
    SCALING_UP = "ScalingUp"
    SCALING_DOWN = "ScalingDown"
    REMEDIATING = "Remediating"
    DELETING = "Deleting"
    PAUSED = "Paused"


class MachineCondition(StrEnum):
    """Types of the conditions on a Machine that are written or read here."""

    API_SERVER_POD_HEALTHY = "APIServerPodHealthy"
    CONTROLLER_MANAGER_POD_HEALTHY = "ControllerManagerPodHealthy"
    SCHEDULER_POD_HEALTHY = "SchedulerPodHealthy"
    ETCD_POD_HEALTHY = "EtcdPodHealthy"
    ETCD_MEMBER_HEALTHY = "EtcdMemberHealthy"
    NODE_KUBEADM_LABELS_AND_TAINTS_SET = "NodeKubeadmLabelsAndTaintsSet"
    UP_TO_DATE = "UpToDate"
    OWNER_REMEDIATED = "OwnerRemediated"
    HEALTH_CHECK_SUCCEEDED = "HealthCheckSucceeded"  # read
    READY = "Ready"  # read
    AVAILABLE = "Available"  # read
    DELETING = "Deleting"  # read
    UPDATING = "Updating"  # read


class AvailableReason(StrEnum):
    """Reasons of a control plane's Available."""

    AVAILABLE = "Available"
    NOT_AVAILABLE = "NotAvailable"
    INSPECTION_FAILED = "InspectionFailed"


class InitializedReason(StrEnum):
    """Reasons of a control plane's Initialized."""

    INITIALIZED = "Initialized"
    NOT_INITIALIZED = "NotInitialized"


class CertificatesAvailableReason(StrEnum):
    """Reasons of a control plane's CertificatesAvailable."""

    AVAILABLE = "Available"
    NOT_AVAILABLE = "NotAvailable"
    INTERNAL_ERROR = "InternalError"


class ClusterHealthReason(StrEnum):
    """Reasons of a control plane's EtcdClusterHealthy and ControlPlaneComponentsHealthy."""

    HEALTHY = "Healthy"
    NOT_HEALTHY = "NotHealthy"
    HEALTH_UNKNOWN = "HealthUnknown"
    INSPECTION_FAILED = "InspectionFailed"
    CONNECTION_DOWN = "ConnectionDown"


class MachinesReadyReason(StrEnum):
    """Reasons of a control plane's MachinesReady."""

    READY = "Ready"
    NOT_READY = "NotReady"
    READY_UNKNOWN = "ReadyUnknown"
    NO_REPLICAS = "NoReplicas"
    INTERNAL_ERROR = "InternalError"


class MachinesUpToDateReason(StrEnum):
    """Reasons of a control plane's MachinesUpToDate."""

    UP_TO_DATE = "UpToDate"
    NOT_UP_TO_DATE = "NotUpToDate"
    UP_TO_DATE_UNKNOWN = "UpToDateUnknown"
    NO_REPLICAS = "NoReplicas"
    INTERNAL_ERROR = "InternalError"


class RollingOutReason(StrEnum):
    """Reasons of a control plane's RollingOut."""

    ROLLING_OUT = "RollingOut"
    NOT_ROLLING_OUT = "NotRollingOut"


class ScalingUpReason(StrEnum):
    """Reasons of a control plane's ScalingUp."""

    SCALING_UP = "ScalingUp"
    NOT_SCALING_UP = "NotScalingUp"
    WAITING_FOR_REPLICAS_SET = "WaitingForReplicasSet"


class ScalingDownReason(StrEnum):
    """Reasons of a control plane's ScalingDown."""

    SCALING_DOWN = "ScalingDown"
    NOT_SCALING_DOWN = "NotScalingDown"
    WAITING_FOR_REPLICAS_SET = "WaitingForReplicasSet"


class RemediatingReason(StrEnum):
    """Reasons of a control plane's Remediating."""

    REMEDIATING = "Remediating"
    NOT_REMEDIATING = "NotRemediating"
    INTERNAL_ERROR = "InternalError"


class DeletingReason(StrEnum):
    """Reasons of a control plane's Deleting."""

    NOT_DELETING = "NotDeleting"
    WAITING_FOR_WORKERS_DELETION = "WaitingForWorkersDeletion"
    WAITING_FOR_MACHINE_DELETION = "WaitingForMachineDeletion"
    DELETION_COMPLETED = "DeletionCompleted"
    INTERNAL_ERROR = "InternalError"


class PausedReason(StrEnum):
    """Reasons of a control plane's Paused."""

    PAUSED = "Paused"
    NOT_PAUSED = "NotPaused"


class PodHealthReason(StrEnum):
    """Reasons of a Machine's conditions about one static Pod."""

    RUNNING = "Running"
    PROVISIONING = "Provisioning"
    DOES_NOT_EXIST = "DoesNotExist"
    FAILED = "Failed"
    INSPECTION_FAILED = "InspectionFailed"
    CONNECTION_DOWN = "ConnectionDown"
    DELETING = "Deleting"


class EtcdMemberReason(StrEnum):
    """Reasons of a Machine's EtcdMemberHealthy."""

    HEALTHY = "Healthy"
    NOT_HEALTHY = "NotHealthy"
    INSPECTION_FAILED = "InspectionFailed"
    CONNECTION_DOWN = "ConnectionDown"
    DELETING = "Deleting"


class NodeLabelsAndTaintsReason(StrEnum):
    """Reasons of a Machine's NodeKubeadmLabelsAndTaintsSet."""

    SET = "Set"
    NOT_SET = "NotSet"
    INSPECTION_FAILED = "InspectionFailed"
    CONNECTION_DOWN = "ConnectionDown"
    DELETING = "Deleting"


class UpToDateReason(StrEnum):
    """Reasons of a Machine's UpToDate."""

    UP_TO_DATE = "UpToDate"
    NOT_UP_TO_DATE = "NotUpToDate"
    UPDATING = "Updating"


class OwnerRemediatedReason(StrEnum):
    """Reasons of a Machine's OwnerRemediated."""

    WAITING_FOR_REMEDIATION = "WaitingForRemediation"  # read: the health check asks for a remediation
    INTERNAL_ERROR = "InternalError"
    CANNOT_BE_REMEDIATED = "CannotBeRemediated"
    REMEDIATION_DEFERRED = "RemediationDeferred"
    MACHINE_DELETING = "MachineDeleting"


class MachineDeletingReason(StrEnum):
    """Reasons of a Machine's Deleting that are read here."""

    DRAINING_NODE = "DrainingNode"
    WAITING_FOR_PRE_TERMINATE_HOOK = "WaitingForPreTerminateHook"


class LegacyControlPlaneCondition(StrEnum):
    """Types of the v1beta1 conditions on a KubeadmControlPlane."""

    READY = "Ready"
    MACHINES_CREATED = "MachinesCreated"
    MACHINES_SPEC_UP_TO_DATE = "MachinesSpecUpToDate"
    RESIZED = "Resized"
    MACHINES_READY = "MachinesReady"
    AVAILABLE = "Available"
    CERTIFICATES_AVAILABLE = "CertificatesAvailable"
    CONTROL_PLANE_COMPONENTS_HEALTHY = "ControlPlaneComponentsHealthy"
    ETCD_CLUSTER_HEALTHY = "EtcdClusterHealthy"


class LegacyReason(StrEnum):
    """Reasons of v1beta1 conditions, on control planes and on Machines."""

    CERTIFICATES_GENERATION_FAILED = "CertificatesGenerationFailed"
    WAITING_FOR_KUBEADM_INIT = "WaitingForKubeadmInit"
    ROLLING_UPDATE_IN_PROGRESS = "RollingUpdateInProgress"
    SCALING_UP = "ScalingUp"
    SCALING_DOWN = "ScalingDown"
    DELETING = "Deleting"
    CONTROL_PLANE_COMPONENTS_UNHEALTHY = "ControlPlaneComponentsUnhealthy"
    CONTROL_PLANE_COMPONENTS_UNKNOWN = "ControlPlaneComponentsUnknown"
    CONTROL_PLANE_COMPONENTS_INSPECTION_FAILED = "ControlPlaneComponentsInspectionFailed"
    ETCD_CLUSTER_UNHEALTHY = "EtcdClusterUnhealthy"
    ETCD_CLUSTER_UNKNOWN = "EtcdClusterUnknown"
    ETCD_CLUSTER_INSPECTION_FAILED = "EtcdClusterInspectionFailed"
    INFRASTRUCTURE_TEMPLATE_CLONING_FAILED = "InfrastructureTemplateCloningFailed"
    BOOTSTRAP_TEMPLATE_CLONING_FAILED = "BootstrapTemplateCloningFailed"
    MACHINE_GENERATION_FAILED = "MachineGenerationFailed"
    POD_PROVISIONING = "PodProvisioning"
    POD_MISSING = "PodMissing"
    POD_FAILED = "PodFailed"
    POD_INSPECTION_FAILED = "PodInspectionFailed"
    MEMBER_INSPECTION_FAILED = "MemberInspectionFailed"
    ETCD_MEMBER_UNHEALTHY = "EtcdMemberUnhealthy"
    WAITING_FOR_REMEDIATION = "WaitingForRemediation"
    REMEDIATION_IN_PROGRESS = "RemediationInProgress"
    REMEDIATION_FAILED = "RemediationFailed"


class Severity(StrEnum):
    """Severities of v1beta1 conditions."""

    ERROR = "Error"
    WARNING = "Warning"
    INFO = "Info"


class EventReason(StrEnum):
    """Reasons of the events that are sent."""

    FAILED_INITIALIZATION = "FailedInitialization"
    FAILED_SCALE_UP = "FailedScaleUp"
    FAILED_SCALE_DOWN = "FailedScaleDown"
    FAILED_DELETE = "FailedDelete"
    CONTROL_PLANE_UNHEALTHY = "ControlPlaneUnhealthy"
    ADOPTION_FAILED = "AdoptionFailed"
    SUCCESSFUL_START_IN_PLACE_UPDATE = "SuccessfulStartInPlaceUpdate"


class Secret:
    """Suffixes of the names of a cluster's Secrets, each after `<cluster>-`."""

    CLUSTER_CA = "ca"
    ETCD_CA = "etcd"
    FRONT_PROXY_CA = "proxy"
    SERVICE_ACCOUNT = "sa"
    API_SERVER_ETCD_CLIENT = "apiserver-etcd-client"
    KUBECONFIG = "kubeconfig"


MANDATORY_READINESS_GATES = (
    MachineCondition.NODE_KUBEADM_LABELS_AND_TAINTS_SET,
    MachineCondition.API_SERVER_POD_HEALTHY,
    MachineCondition.CONTROLLER_MANAGER_POD_HEALTHY,
    MachineCondition.SCHEDULER_POD_HEALTHY,
)
"""Readiness gates of every control-plane Machine, in this order, ahead of the user's."""

ETCD_READINESS_GATES = (MachineCondition.ETCD_POD_HEALTHY, MachineCondition.ETCD_MEMBER_HEALTHY)
"""Readiness gates that follow where etcd runs on the Machines."""


class FeatureGate(StrEnum):
    """Cluster API's feature gates that are consulted here."""

    MACHINE_POOL = "MachinePool"
    CLUSTER_TOPOLOGY = "ClusterTopology"
    KUBEADM_BOOTSTRAP_FORMAT_IGNITION = "KubeadmBootstrapFormatIgnition"
    IN_PLACE_UPDATES = "InPlaceUpdates"
    MACHINE_TAINT_PROPAGATION = "MachineTaintPropagation"


DEFAULT_FEATURE_GATES = frozenset({FeatureGate.MACHINE_POOL})
"""The gates that are on unless somebody turns them off: the others are alpha."""
