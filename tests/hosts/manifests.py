"""Manifests for tests: the smallest that is valid, with changes made to it, and one that has every key there is."""

from __future__ import annotations

import base64
import copy
from pathlib import Path
from typing import Any

import yaml

from quorate.hosts.manifest import Manifest, ManifestError, parse
from quorate.hosts.manifest.terraform import Outputs

PUBLIC_KEY = base64.b64encode(b"\x00\x00\x00\x0bssh-ed25519" + b"\x00\x00\x00\x20" + bytes(32)).decode()

SMALLEST: dict[str, Any] = {
    "apiVersion": "kubeone.k8c.io/v1beta2",
    "kind": "KubeOneCluster",
    "name": "demo",
    "versions": {"kubernetes": "1.34.4"},
    "cloudProvider": {"none": {}},
    "apiEndpoint": {"host": "api.example.com"},
    "clusterNetwork": {"cni": {"external": {}}},
    "features": {"metricsServer": {"enable": False}, "nodeLocalDNS": {"deploy": False}},
    "controlPlane": {"hosts": [{"publicAddress": f"192.0.2.{number}", "privateAddress": f"10.0.0.{number}"} for number in (1, 2, 3)]},
}


def document(**changes: Any) -> dict[str, Any]:
    """The smallest valid manifest with changes, by path (dots written as `__`); None takes a field away."""
    made = copy.deepcopy(SMALLEST)
    for path, value in changes.items():
        put(made, path.replace("__", "."), value)
    return made


def put(target: dict[str, Any], path: str, value: Any) -> None:
    """Set a field by its path; a number is an index."""
    *parents, last = path.split(".")
    here: Any = target
    for key in parents:
        here = here[int(key)] if isinstance(here, list) else here.setdefault(key, {})
    if isinstance(here, list):
        here[int(last)] = value
    elif value is None:
        here.pop(last, None)
    else:
        here[last] = value


def changed(path: str, value: Any) -> dict[str, Any]:
    """The smallest valid manifest with one field changed."""
    made = copy.deepcopy(SMALLEST)
    put(made, path, value)
    return made


def load(made: dict[str, Any], outputs: dict[str, Any] | None = None, *, folder: Path = Path("/nowhere"), ignore: bool = False) -> Manifest:
    """The manifest that a document, and Terraform's outputs by name, give."""
    terraform = (
        Outputs("tf.json", {name: {"sensitive": False, "value": value} for name, value in (outputs or {}).items()}) if outputs else None
    )
    text = yaml.safe_dump(made, sort_keys=False)
    return parse(text, source="kubeone.yaml", folder=folder, terraform=terraform, ignore_unsupported=ignore)


def problems(
    made: dict[str, Any], outputs: dict[str, Any] | None = None, *, folder: Path = Path("/nowhere"), ignore: bool = False
) -> dict[str, str]:
    """What is wrong with them, by the field that it is about; nothing where they are right."""
    try:
        load(made, outputs, folder=folder, ignore=ignore)
    except ManifestError as error:
        return {problem.mark.path or problem.path: problem.message for problem in error.problems}
    return {}


def notices(manifest: Manifest) -> dict[str, str]:
    """What its author is told, by the field."""
    return {notice.path: notice.message for notice in manifest.notices}
