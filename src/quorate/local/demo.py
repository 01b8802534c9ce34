"""Manifests of a demo cluster on CAPD's in-memory backend: machines that take as long as they are told, and cost nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from quorate.core import documents

_CORE = "cluster.x-k8s.io/v1beta2"
_INFRASTRUCTURE_GROUP = "infrastructure.cluster.x-k8s.io"
_CONTROL_PLANE_GROUP = "controlplane.cluster.x-k8s.io"

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class DemoCluster:
    """A cluster to ask for. `phase_seconds` is how long each of a machine's four phases takes: machine, node, API server, etcd.

    Names such as `y` or `on` are booleans to YAML readers; these manifests quote them, a user's command line may not.
    """

    name: str = "demo"
    namespace: str = "default"
    replicas: int = 3
    version: str = "v1.34.4"
    phase_seconds: float = 2.0

    def objects(self) -> list[Object]:
        """Cluster, DevCluster, DevMachineTemplate and KubeadmControlPlane, in an order in which they may be created."""
        return [self._cluster(), self._dev_cluster(), self._dev_machine_template(), self._control_plane()]

    def health_check(self) -> Object:
        """A MachineHealthCheck for the control plane: it fails Machines whose Node is not ready for five minutes, and those annotated `remediate-machine`."""
        conditions = [{"type": "Ready", "status": status, "timeoutSeconds": 300} for status in ("Unknown", "False")]
        spec = {
            "clusterName": self.name,
            "selector": {"matchLabels": {"cluster.x-k8s.io/control-plane": ""}},
            "checks": {"nodeStartupTimeoutSeconds": 0, "unhealthyNodeConditions": conditions},
        }
        return {"apiVersion": _CORE, "kind": "MachineHealthCheck", "metadata": self._metadata(), "spec": spec}

    def manifests(self) -> str:
        """The objects as YAML documents."""
        return documents.dump_all(self.objects(), sort_keys=False)

    def _metadata(self, **extra: Any) -> Object:
        return {"name": self.name, "namespace": self.namespace, **extra}

    def _cluster(self) -> Object:
        network = {
            "services": {"cidrBlocks": ["10.128.0.0/12"]},
            "pods": {"cidrBlocks": ["192.168.0.0/16"]},
            "serviceDomain": "cluster.local",
        }
        references = {
            "controlPlaneRef": {"apiGroup": _CONTROL_PLANE_GROUP, "kind": "KubeadmControlPlane", "name": self.name},
            "infrastructureRef": {"apiGroup": _INFRASTRUCTURE_GROUP, "kind": "DevCluster", "name": self.name},
        }
        return {"apiVersion": _CORE, "kind": "Cluster", "metadata": self._metadata(), "spec": {"clusterNetwork": network, **references}}

    def _dev_cluster(self) -> Object:
        # CAPD v1.14.0 writes into the annotation map without checking that there is one, and panics where there is none.
        metadata = self._metadata(annotations={"quorate.dev/demo": "true"})
        return {
            "apiVersion": f"{_INFRASTRUCTURE_GROUP}/v1beta2",
            "kind": "DevCluster",
            "metadata": metadata,
            "spec": {"backend": {"inMemory": {}}},
        }

    def _dev_machine_template(self) -> Object:
        provisioning = {"startupDuration": _duration(self.phase_seconds), "startupJitter": "0"}
        backend = {"inMemory": {phase: {"provisioning": dict(provisioning)} for phase in ("vm", "node", "apiServer", "etcd")}}
        return {
            "apiVersion": f"{_INFRASTRUCTURE_GROUP}/v1beta2",
            "kind": "DevMachineTemplate",
            "metadata": self._metadata(),
            "spec": {"template": {"spec": {"backend": backend}}},
        }

    def _control_plane(self) -> Object:
        template = {"apiGroup": _INFRASTRUCTURE_GROUP, "kind": "DevMachineTemplate", "name": self.name}
        spec = {
            "replicas": self.replicas,
            "version": self.version,
            "machineTemplate": {"spec": {"infrastructureRef": template}},
            "kubeadmConfigSpec": {
                "clusterConfiguration": {"apiServer": {"certSANs": ["localhost", "127.0.0.1"]}},
                "initConfiguration": _node_registration(),
                "joinConfiguration": _node_registration(),
            },
        }
        return {"apiVersion": f"{_CONTROL_PLANE_GROUP}/v1beta2", "kind": "KubeadmControlPlane", "metadata": self._metadata(), "spec": spec}


def _duration(seconds: float) -> str:
    """As Go writes it: a runtime extension that reads 0ms and writes 0s has changed the machine."""
    milliseconds = round(seconds * 1000)
    return f"{milliseconds}ms" if 0 < milliseconds < 1000 else f"{milliseconds / 1000:g}s"


def _node_registration() -> Object:
    """What a kubelet on a nearly full disk needs, as upstream's templates have it; a value that a comparison of specs must keep."""
    return {"nodeRegistration": {"kubeletExtraArgs": [{"name": "eviction-hard", "value": "nodefs.available<0%"}]}}
