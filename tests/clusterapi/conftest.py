"""What the tests of this room share: control planes as plain objects, and schemas laid flat."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Build = Callable[..., dict[str, Any]]


@pytest.fixture
def kubeadm_control_plane() -> Build:
    """Builds a valid KubeadmControlPlane; keywords replace parts of its spec."""

    def build(annotations: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
        return {
            "apiVersion": "controlplane.cluster.x-k8s.io/v1beta2",
            "kind": "KubeadmControlPlane",
            "metadata": {"name": "demo", "namespace": "default", "annotations": annotations or {}},
            "spec": {
                "replicas": 3,
                "version": "v1.34.4",
                "machineTemplate": {
                    "spec": {
                        "infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DevMachineTemplate", "name": "demo"}
                    }
                },
                "kubeadmConfigSpec": {},
                "rollout": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}},
            }
            | spec,
        }

    return build
