"""What the simulated API servers store: JSON objects of a few kinds, never changed in place, each with its bytes and who owns which field."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import msgspec

from quorate.clusterapi.types.resources import (
    BOOTSTRAP_GROUP,
    CLUSTER_GROUP,
    CONTROL_PLANE_GROUP,
    INFRASTRUCTURE_GROUP,
    RUNTIME_GROUP,
    VERSION,
)
from quorate.simulation.engine.fields import Path

Json = dict[str, Any]
Key = tuple[str, str]  # namespace, name


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """One kind in the one version that is served. Compared by identity: each is made once, below."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    has_status: bool = True

    @property
    def api_version(self) -> str:
        """`group/version`."""
        return f"{self.group}/{self.version}" if self.group else self.version


CLUSTERS = Kind(CLUSTER_GROUP, VERSION, "clusters", "Cluster")
MACHINES = Kind(CLUSTER_GROUP, VERSION, "machines", "Machine")
MACHINE_POOLS = Kind(CLUSTER_GROUP, VERSION, "machinepools", "MachinePool")
CONFIGS = Kind(BOOTSTRAP_GROUP, VERSION, "kubeadmconfigs", "KubeadmConfig")
CONTROL_PLANES = Kind(CONTROL_PLANE_GROUP, VERSION, "kubeadmcontrolplanes", "KubeadmControlPlane")
INFRASTRUCTURE = Kind(INFRASTRUCTURE_GROUP, VERSION, "devmachines", "DevMachine")
TEMPLATES = Kind(INFRASTRUCTURE_GROUP, VERSION, "devmachinetemplates", "DevMachineTemplate", has_status=False)
EXTENSION_CONFIGS = Kind(RUNTIME_GROUP, VERSION, "extensionconfigs", "ExtensionConfig", namespaced=False)
NAMESPACES = Kind("", "v1", "namespaces", "Namespace", namespaced=False)
SECRETS = Kind("", "v1", "secrets", "Secret", has_status=False)
CONFIG_MAPS = Kind("", "v1", "configmaps", "ConfigMap", has_status=False)
EVENTS = Kind("", "v1", "events", "Event", has_status=False)
NODES = Kind("", "v1", "nodes", "Node", namespaced=False)
PODS = Kind("", "v1", "pods", "Pod")
LEASES = Kind("coordination.k8s.io", "v1", "leases", "Lease", has_status=False)
DEFINITIONS = Kind("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False)
DEPLOYMENTS = Kind("apps", "v1", "deployments", "Deployment")
DAEMON_SETS = Kind("apps", "v1", "daemonsets", "DaemonSet")
ROLES = Kind("rbac.authorization.k8s.io", "v1", "roles", "Role", has_status=False)
ROLE_BINDINGS = Kind("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding", has_status=False)
CLUSTER_ROLES = Kind("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", namespaced=False, has_status=False)
CLUSTER_ROLE_BINDINGS = Kind(
    "rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False, has_status=False
)

MANAGEMENT_KINDS = (
    CLUSTERS,
    MACHINES,
    MACHINE_POOLS,
    CONFIGS,
    CONTROL_PLANES,
    INFRASTRUCTURE,
    TEMPLATES,
    SECRETS,
    CONFIG_MAPS,
    EVENTS,
    LEASES,
    DEFINITIONS,
    EXTENSION_CONFIGS,
    NAMESPACES,
)
BACKED_UP = (CLUSTERS, TEMPLATES, CONTROL_PLANES, MACHINES, CONFIGS, INFRASTRUCTURE, SECRETS, CONFIG_MAPS)
"""What a backup of the management cluster has of a cluster, and what is moved to another one."""
WORKLOAD_KINDS = (NODES, PODS, SECRETS, CONFIG_MAPS, DEPLOYMENTS, DAEMON_SETS, ROLES, ROLE_BINDINGS, CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS)


@dataclass(slots=True, eq=False)
class Stored:
    """One version of one object. `owners` has the fields that each field manager owns, status apart."""

    kind: Kind
    obj: Json
    version: int
    owners: Mapping[str, frozenset[Path]] = field(default_factory=dict)
    _data: bytes = b""

    @property
    def metadata(self) -> Json:
        """Its metadata."""
        metadata: Json = self.obj["metadata"]
        return metadata

    @property
    def name(self) -> str:
        """Its name."""
        return str(self.obj["metadata"]["name"])

    @property
    def key(self) -> Key:
        """Its namespace and name."""
        metadata = self.obj["metadata"]
        return metadata.get("namespace", ""), metadata["name"]

    @property
    def uid(self) -> str:
        """Its uid."""
        return str(self.obj["metadata"]["uid"])

    @property
    def deleting(self) -> bool:
        """Whether somebody has deleted it and finalizers hold it."""
        return "deletionTimestamp" in self.obj["metadata"]

    @property
    def annotations(self) -> dict[str, str]:
        """Its annotations."""
        annotations: dict[str, str] = self.obj["metadata"].get("annotations") or {}
        return annotations

    @property
    def labels(self) -> dict[str, str]:
        """Its labels."""
        labels: dict[str, str] = self.obj["metadata"].get("labels") or {}
        return labels

    @property
    def spec(self) -> Json:
        """Its specification."""
        return self.obj.get("spec") or {}

    @property
    def status(self) -> Json:
        """Its status."""
        return self.obj.get("status") or {}

    @property
    def data(self) -> bytes:
        """Itself as JSON, as lists and watches have it: without managedFields."""
        if not self._data:
            self._data = msgspec.json.encode(self.obj)
        return self._data

    def condition(self, kind: str) -> Json:
        """Its condition of this type; empty where it has none."""
        return next((condition for condition in self.status.get("conditions") or () if condition["type"] == kind), {})

    def owned_by(self, uid: str) -> bool:
        """Whether one of its owners has this uid."""
        return any(owner["uid"] == uid for owner in self.metadata.get("ownerReferences") or ())


Requirement = tuple[str, str | None, bool]  # key, value (None: any), wanted or not


@lru_cache(maxsize=256)
def parse_selector(text: str) -> tuple[Requirement, ...]:
    """A selector of the forms `key`, `!key`, `key=value`, `key==value` and `key!=value`, separated by commas. Raises ValueError for any other."""
    if "(" in text:
        raise ValueError(f"selector {text!r}: sets are not simulated")
    return tuple(_requirement(part.strip()) for part in text.split(",") if part.strip())


def _requirement(part: str) -> Requirement:
    if "!=" in part:
        key, _, value = part.partition("!=")
        return key, value, False
    if "=" in part:
        key, _, value = part.replace("==", "=").partition("=")
        return key, value, True
    return part.removeprefix("!"), None, not part.startswith("!")


def matches(requirements: tuple[Requirement, ...], values: Mapping[str, str]) -> bool:
    """Whether labels, or fields by their path, fulfil all requirements."""
    return all(((key in values) if value is None else values.get(key) == value) is wanted for key, value, wanted in requirements)
