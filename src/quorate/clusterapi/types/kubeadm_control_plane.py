"""KubeadmControlPlane and its template: the objects this provider is for.

`spec.kubeadmConfigSpec` is kept as the dict it came as, because it is copied word for word into KubeadmConfig objects and must not lose a field that is newer
than this program; its published schema is that of `KubeadmConfigSpec`. Such specifications may carry passwords and file contents, so they stay out of reprs.

Source: cluster-api, api/controlplane/kubeadm/v1beta2/kubeadm_control_plane_types.go and kubeadmcontrolplanetemplate_types.go.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from msgspec import field

from quorate.clusterapi.types.conditions import LegacyCondition
from quorate.clusterapi.types.kubeadm_config import KubeadmConfigSpec
from quorate.clusterapi.types.machine import MachineDeletionTimeouts, MachineTaint, ReadinessGate
from quorate.clusterapi.types.references import ObjectReference, TemplateMetadata
from quorate.clusterapi.types.schema import ApiStruct, group, int32, int64, items, keyed, one_of, plain, published_as, text
from quorate.kubernetes.objects import Condition, ObjectMeta

Metadata = Annotated[TemplateMetadata, group("Labels and annotations of the objects made for each machine; changed in place.")]
Taints = Annotated[list[MachineTaint], keyed("Taints that each machine's Node is kept with; changed in place.", "key", "effect", most=64)]
DeletionTimeouts = Annotated[MachineDeletionTimeouts, group("How long each phase of a machine's deletion may take; changed in place.")]


class RollingUpdate(ApiStruct):
    """How machines are replaced one after the other."""

    max_surge: Annotated[
        int | str | None, plain("How many machines may exist beyond the desired number during a rollout: 1 (also when not set) or 0.")
    ] = None


class RolloutStrategy(ApiStruct):
    """The way in which machines are replaced."""

    type: Annotated[str, one_of("The kind of rollout; RollingUpdate is the only one.", "RollingUpdate")]
    rolling_update: Annotated[RollingUpdate, group("How a rolling update goes.")] = RollingUpdate()


class RolloutBefore(ApiStruct):
    """What replaces machines before something else happens to them."""

    certificates_expiry_days: Annotated[
        int | None, int32("Replace a machine whose API server certificate expires in fewer days than this.", least=7)
    ] = None


class Rollout(ApiStruct):
    """When and how machines are replaced though nothing else in the specification asks for it."""

    before: Annotated[RolloutBefore, group("Replace machines ahead of something.")] = RolloutBefore()
    after: Annotated[datetime | None, plain("Replace machines created before this instant, once it has passed.")] = None
    strategy: Annotated[RolloutStrategy | None, group("How machines are replaced.")] = None


class Remediation(ApiStruct):
    """Limits on replacing unhealthy machines."""

    max_retry: Annotated[int | None, int32("How often to try again for one and the same place; not set: without limit.")] = None
    retry_period_seconds: Annotated[int | None, int32("Seconds to wait between two tries; not set: none.", least=0)] = None
    min_healthy_period_seconds: Annotated[
        int | None, int32("Seconds a replacement must have lived for its failure to count as a new one; not set: 3600.", least=0)
    ] = None


class MachineNaming(ApiStruct):
    """How machines are named."""

    template: Annotated[
        str,
        text(
            "A Go template that names a machine, of .cluster.name, .kubeadmControlPlane.name and .random, of which the last must occur. "
            "Not set: '{{ .kubeadmControlPlane.name }}-{{ .random }}'. What is longer than 63 characters is cut, and ends in random ones.",
            most=256,
        ),
    ] = ""


class MachineTemplateSpec(ApiStruct):
    """What each machine of the control plane is like."""

    infrastructure_ref: Annotated[ObjectReference, plain("The infrastructure template that machines are made from, in the same namespace.")]
    readiness_gates: Annotated[
        list[ReadinessGate],
        keyed("Conditions that a machine's readiness waits for, beside those always asked for.", "conditionType", most=32),
    ] = field(default_factory=list)
    deletion: DeletionTimeouts = MachineDeletionTimeouts()
    taints: Taints = field(default_factory=list)


class MachineTemplate(ApiStruct):
    """The template of the control plane's machines."""

    metadata: Metadata = TemplateMetadata()
    spec: Annotated[MachineTemplateSpec, plain("What each machine is like.")]


class KubeadmControlPlaneSpec(ApiStruct):
    """What is desired of a control plane."""

    replicas: Annotated[int | None, int32("How many machines: odd while etcd runs on them. Not set at creation: 1.")] = None
    version: Annotated[str, text("The Kubernetes version, such as v1.34.4.", most=256)]
    machine_template: Annotated[MachineTemplate, plain("What the machines are made from.")]
    kubeadm_config_spec: Annotated[
        dict[str, Any], published_as(KubeadmConfigSpec, "What kubeadm and the machine's first boot are told.", empty=False)
    ] = field(default_factory=dict)
    rollout: Annotated[Rollout, group("When and how machines are replaced.")] = Rollout()
    remediation: Annotated[Remediation, group("Limits on replacing unhealthy machines.")] = Remediation()
    machine_naming: Annotated[MachineNaming, group("How machines are named.")] = MachineNaming()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(version={self.version!r}, replicas={self.replicas!r})"


class ControlPlaneInitialization(ApiStruct):
    """What happens once in a control plane's life."""

    control_plane_initialized: Annotated[
        bool | None, plain("True once the workload cluster's API server has answered; never taken back.")
    ] = None


class VersionReplicas(ApiStruct):
    """How many machines run one version."""

    version: Annotated[str, text("A Kubernetes version.", most=256)]
    replicas: Annotated[int | None, int32("How many machines run it.", least=1)] = None


class LastRemediation(ApiStruct):
    """The last time that an unhealthy machine was replaced."""

    machine: Annotated[str, text("The machine that was replaced.", most=253)]
    time: Annotated[datetime, plain("When its replacement began.")]
    retry_count: Annotated[int, int32("How many replacements before it had failed in the same place.", least=0)]


class ControlPlaneDeprecatedV1Beta1(ApiStruct):
    """What v1beta1 kept in the status of a control plane."""

    conditions: Annotated[list[LegacyCondition], items("Conditions of the v1beta1 generation.", list_type=None)] = field(
        default_factory=list
    )
    updated_replicas: Annotated[int | None, int32("How many machines are up to date.")] = None
    ready_replicas: Annotated[int | None, int32("How many Nodes of the workload cluster's control plane are ready.")] = None
    unavailable_replicas: Annotated[int | None, int32("How many machines have no ready Node.")] = None
    failure_reason: Annotated[str, plain("Not written any more.")] = ""
    failure_message: Annotated[str, text("Not written any more.", most=10240)] = ""


class ControlPlaneDeprecated(ApiStruct):
    """What earlier API versions kept in the status."""

    v1beta1: Annotated[ControlPlaneDeprecatedV1Beta1, plain("What v1beta1 kept in the status.")] = ControlPlaneDeprecatedV1Beta1()


class KubeadmControlPlaneStatus(ApiStruct):
    """What was seen of a control plane."""

    conditions: Annotated[list[Condition], keyed("What is true of the control plane, and why.", "type", least=None, most=32)] = field(
        default_factory=list
    )
    initialization: Annotated[ControlPlaneInitialization, group("What happens once.")] = ControlPlaneInitialization()
    selector: Annotated[str, text("The label selector of the control plane's machines, for the scale subresource.", most=4096)] = ""
    replicas: Annotated[int | None, int32("How many machines there are, those being deleted included.")] = None
    ready_replicas: Annotated[int | None, int32("How many machines are ready.")] = None
    available_replicas: Annotated[int | None, int32("How many machines are available.")] = None
    up_to_date_replicas: Annotated[int | None, int32("How many machines are as the specification asks.")] = None
    versions: Annotated[list[VersionReplicas], keyed("The versions that the machines run, oldest first.", "version", most=100)] = field(
        default_factory=list
    )
    version: Annotated[str, text("The oldest version that a machine runs. Deprecated: read versions.", most=256)] = ""
    observed_generation: Annotated[int, int64("The generation that this status speaks of.", least=1)] = 0
    last_remediation: Annotated[LastRemediation | None, plain("The last replacement of an unhealthy machine.")] = None
    deprecated: Annotated[ControlPlaneDeprecated, plain("What earlier API versions kept here.")] = ControlPlaneDeprecated()


class KubeadmControlPlane(ApiStruct):
    """The control plane of a cluster, each of its machines set up by kubeadm."""

    metadata: ObjectMeta
    spec: Annotated[KubeadmControlPlaneSpec, plain("What is desired.")]
    status: Annotated[KubeadmControlPlaneStatus, group("What was seen.")] = KubeadmControlPlaneStatus()


class TemplateMachineTemplateSpec(ApiStruct):
    """What each machine is like, as far as a ClusterClass may say; the rest comes from the Cluster's topology."""

    deletion: DeletionTimeouts = MachineDeletionTimeouts()
    taints: Taints = field(default_factory=list)


class TemplateMachineTemplate(ApiStruct):
    """The template of the machines of control planes made from a template."""

    metadata: Metadata = TemplateMetadata()
    spec: Annotated[TemplateMachineTemplateSpec, group("What each machine is like.")] = TemplateMachineTemplateSpec()


class KubeadmControlPlaneTemplateResourceSpec(ApiStruct):
    """What control planes made from a template are like. Replicas, version and infrastructure come from the Cluster's topology."""

    machine_template: Annotated[TemplateMachineTemplate, group("What the machines are made from.")] = TemplateMachineTemplate()
    kubeadm_config_spec: Annotated[
        dict[str, Any], published_as(KubeadmConfigSpec, "What kubeadm and the machine's first boot are told.", empty=False)
    ] = field(default_factory=dict)
    rollout: Annotated[Rollout, group("When and how machines are replaced.")] = Rollout()
    remediation: Annotated[Remediation, group("Limits on replacing unhealthy machines.")] = Remediation()
    machine_naming: Annotated[MachineNaming, group("How machines are named.")] = MachineNaming()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(...)"


class KubeadmControlPlaneTemplateResource(ApiStruct):
    """The control plane that a template makes."""

    metadata: Annotated[TemplateMetadata, group("Labels and annotations of the control planes made from this template.")] = (
        TemplateMetadata()
    )
    spec: Annotated[KubeadmControlPlaneTemplateResourceSpec, group("What they are like.")] = KubeadmControlPlaneTemplateResourceSpec()


class KubeadmControlPlaneTemplateSpec(ApiStruct):
    """What a template holds."""

    template: Annotated[KubeadmControlPlaneTemplateResource, group("The control plane that this template makes.")]


class KubeadmControlPlaneTemplate(ApiStruct):
    """A template of control planes, for a ClusterClass."""

    metadata: ObjectMeta
    spec: Annotated[KubeadmControlPlaneTemplateSpec | None, plain("What the template holds.")] = None
