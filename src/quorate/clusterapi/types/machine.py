"""The Machine, as far as a control-plane provider reads it, and the parts it shares with the control plane's machine template.

Source: cluster-api, api/core/v1beta2/machine_types.go.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from msgspec import field

from quorate.clusterapi.types.conditions import Deprecated
from quorate.clusterapi.types.references import ObjectReference
from quorate.clusterapi.types.schema import CONDITION_TYPE, LABEL_KEY, LABEL_VALUE, ApiStruct, int32, one_of, text
from quorate.kubernetes.objects import Condition, NodeAddress, ObjectMeta, OwnedMeta


class ReadinessGate(ApiStruct):
    """A condition that a Machine's readiness waits for."""

    condition_type: Annotated[str, text("The type of a condition on the Machine.", most=316, pattern=CONDITION_TYPE)]
    polarity: Annotated[
        str,
        one_of("Whether the condition is good when True (Positive, also when not set) or when False (Negative).", "Positive", "Negative"),
    ] = ""


class MachineTaint(ApiStruct):
    """A taint that the Machine controller keeps on the Machine's Node."""

    key: Annotated[str, text("The taint's key.", most=317, pattern=LABEL_KEY)]
    value: Annotated[str, text("The taint's value.", most=63, pattern=LABEL_VALUE)] = ""
    effect: Annotated[str, one_of("What it does to Pods that do not tolerate it.", "NoSchedule", "PreferNoSchedule", "NoExecute")]
    propagation: Annotated[
        str,
        one_of("Kept on the Node for ever (Always), or set once when the Node is made (OnInitialization).", "Always", "OnInitialization"),
    ]


class MachineDeletionTimeouts(ApiStruct):
    """How long each phase of a Machine's deletion may take, in seconds. Zero: without limit."""

    node_drain_timeout_seconds: Annotated[int | None, int32("Seconds that draining the Node may take; 0: no limit.", least=0)] = None
    node_volume_detach_timeout_seconds: Annotated[
        int | None, int32("Seconds to wait for volumes to be detached from the Node; 0: no limit.", least=0)
    ] = None
    node_deletion_timeout_seconds: Annotated[
        int | None, int32("Seconds to keep trying to delete the Node once the Machine is being deleted; 0: no limit.", least=0)
    ] = None


class Bootstrap(ApiStruct):
    """Where the Machine's bootstrap data comes from."""

    config_ref: ObjectReference | None = None
    data_secret_name: str | None = None


class MachineSpec(ApiStruct):
    """What is desired of a Machine."""

    cluster_name: str = ""
    bootstrap: Bootstrap = Bootstrap()
    infrastructure_ref: ObjectReference | None = None
    version: str = ""
    provider_id: str = field(default="", name="providerID")
    failure_domain: str = ""
    readiness_gates: list[ReadinessGate] = field(default_factory=list)
    deletion: MachineDeletionTimeouts = MachineDeletionTimeouts()
    taints: list[MachineTaint] = field(default_factory=list)


class NodeReference(ApiStruct):
    """The Node that a Machine became."""

    name: str = ""


class NodeInfo(ApiStruct):
    """What the Node says of itself."""

    kubelet_version: str = ""


class MachineInitialization(ApiStruct):
    """What happens once in a Machine's life. None: not said yet."""

    infrastructure_provisioned: bool | None = None
    bootstrap_data_secret_created: bool | None = None


class MachineDeletionStatus(ApiStruct):
    """How far the Machine's deletion has come."""

    node_drain_start_time: datetime | None = None
    wait_for_node_volume_detach_start_time: datetime | None = None


class MachineStatus(ApiStruct):
    """What was seen of a Machine."""

    conditions: list[Condition] = field(default_factory=list)
    initialization: MachineInitialization = MachineInitialization()
    node_ref: NodeReference | None = None
    node_info: NodeInfo | None = None
    addresses: list[NodeAddress] = field(default_factory=list)
    certificates_expiry_date: datetime | None = None
    phase: str = ""
    deletion: MachineDeletionStatus | None = None
    deprecated: Deprecated = Deprecated()
    observed_generation: int = 0


class Machine(ApiStruct):
    """One machine of a cluster."""

    metadata: OwnedMeta
    spec: MachineSpec = MachineSpec()
    status: MachineStatus = MachineStatus()


class MachinePoolSpec(ApiStruct):
    """As much of a MachinePool's specification as tells whose it is."""

    cluster_name: str = ""


class MachinePool(ApiStruct):
    """A pool of workers; only its existence matters here: it must go before the control plane does."""

    metadata: ObjectMeta
    spec: MachinePoolSpec = MachinePoolSpec()
