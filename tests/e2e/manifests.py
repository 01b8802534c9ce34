"""The kubeone.yaml of a run, as its user would write it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.e2e.machines import USER, Machine
from tests.e2e.nodes.images import SSH_KEY
from tests.e2e.nodes.programs import VERSIONS


def document(
    balancer: str, control_plane: Sequence[Machine], workers: Sequence[Machine] = (), *, version: str = VERSIONS[0]
) -> dict[str, Any]:
    """A manifest for these hosts behind the load balancer at that address. Their SSH host keys are pinned in it."""
    made: dict[str, Any] = {
        "apiVersion": "kubeone.k8c.io/v1beta2",
        "kind": "KubeOneCluster",
        "name": "e2e",
        "versions": {"kubernetes": version.removeprefix("v")},
        "cloudProvider": {"none": {}},
        "apiEndpoint": {"host": balancer, "port": 6443},
        "clusterNetwork": {"cni": {"external": {}}},
        "features": {"metricsServer": {"enable": False}, "nodeLocalDNS": {"deploy": False}},
        "machineController": {"deploy": False},
        "operatingSystemManager": {"deploy": False},
        "controlPlane": {"hosts": [_host(machine) for machine in control_plane]},
    }
    if workers:
        made["staticWorkers"] = {"hosts": [_host(machine) for machine in workers]}
    return made


def write(path: Path, made: dict[str, Any]) -> Path:
    """Write a manifest where `quorate -m` is to read it."""
    path.write_text(yaml.safe_dump(made, sort_keys=False))
    return path


def _host(machine: Machine) -> dict[str, Any]:
    return {
        "publicAddress": machine.address,
        "privateAddress": machine.address,
        "hostname": machine.name,
        "sshUsername": USER,
        "sshPrivateKeyFile": str(SSH_KEY),
        "sshHostPublicKey": machine.host_key,
    }
