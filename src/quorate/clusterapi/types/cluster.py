"""The Cluster, as far as a control-plane provider reads it.

Source: cluster-api, api/core/v1beta2/cluster_types.go.
"""

from __future__ import annotations

from msgspec import field

from quorate.clusterapi.types.conditions import Deprecated
from quorate.clusterapi.types.references import ObjectReference
from quorate.clusterapi.types.schema import ApiStruct
from quorate.kubernetes.objects import Condition, ObjectMeta


class ApiEndpoint(ApiStruct):
    """Where the workload cluster's API server is reached."""

    host: str = ""
    port: int = 0

    @property
    def valid(self) -> bool:
        """Whether both halves are known."""
        return bool(self.host) and self.port != 0

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host  # IPv6
        return f"{host}:{self.port}" if self.valid else ""


class Topology(ApiStruct):
    """The managed topology of a Cluster made from a ClusterClass."""

    version: str = ""


class ClusterSpec(ApiStruct):
    """What is desired of a Cluster."""

    paused: bool | None = None
    control_plane_endpoint: ApiEndpoint = ApiEndpoint()
    control_plane_ref: ObjectReference | None = None
    infrastructure_ref: ObjectReference | None = None
    topology: Topology | None = None


class ClusterInitialization(ApiStruct):
    """What happens once in a Cluster's life. None: not said yet."""

    infrastructure_provisioned: bool | None = None
    control_plane_initialized: bool | None = None


class FailureDomain(ApiStruct):
    """A part of the infrastructure that fails by itself."""

    name: str
    control_plane: bool | None = None  # may it hold control-plane machines


class ClusterStatus(ApiStruct):
    """What was seen of a Cluster."""

    conditions: list[Condition] = field(default_factory=list)
    initialization: ClusterInitialization = ClusterInitialization()
    failure_domains: list[FailureDomain] = field(default_factory=list)
    deprecated: Deprecated = Deprecated()
    observed_generation: int = 0


class Cluster(ApiStruct):
    """A cluster: what its control plane, its machines and its infrastructure belong to."""

    metadata: ObjectMeta
    spec: ClusterSpec = ClusterSpec()
    status: ClusterStatus = ClusterStatus()
