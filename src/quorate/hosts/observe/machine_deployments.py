"""Whether the MachineDeployments of the manifest's dynamic workers are there, with the manifest's Kubernetes version. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from quorate.core.health import Absent, Unknown
from quorate.core.maintenance import Maintenance
from quorate.hosts.manifest import Manifest
from quorate.hosts.observe.api import MACHINE_DEPLOYMENTS, ApiReading


def machine_deployments(manifest: Manifest, api: ApiReading | Unknown | Absent) -> Maintenance:
    """What there is to do about them; nothing while the API cannot be asked, or where the manifest has no dynamic workers."""
    if not manifest.dynamic_workers or not isinstance(api, ApiReading):
        return Maintenance()
    match api.machine_deployments:
        case Absent():
            kind = f"{MACHINE_DEPLOYMENTS.plural}.{MACHINE_DEPLOYMENTS.group}"
            return Maintenance(
                problem=f"the cluster does not serve {kind}, which dynamicWorkers are: install machine-controller, or remove dynamicWorkers from the manifest"
            )
        case Unknown(reason):
            return Maintenance(problem=f"the MachineDeployments could not be listed: {reason}")
        case found:
            versions = {name: version_of(each) for each in found if isinstance(name := _at(each, "metadata", "name"), str)}
            wanted = manifest.versions.kubernetes
            return Maintenance(pending=any(versions.get(worker.name) != wanted for worker in manifest.dynamic_workers))


def version_of(deployment: Mapping[str, Any]) -> str:
    """The kubelet's version that its Machines are made with, without a `v`; empty where it has none."""
    return str(_at(deployment, "spec", "template", "spec", "versions", "kubelet") or "").removeprefix("v")


def _at(value: Any, *path: str) -> Any:
    for field in path:
        value = value.get(field) if isinstance(value, Mapping) else None
    return value
