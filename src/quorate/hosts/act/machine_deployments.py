"""Creates the MachineDeployments of `dynamicWorkers` and sets their version. Everything else about them is up to their owner after that.

Source: the API of machine-controller (cluster.k8s.io/v1alpha1, and its provider configuration); KubeOne for what it sets: a rolling update that adds one before
it takes one, or takes first where addresses are fixed, the label `workerset`, and on AWS the tag that the cloud's controllers look for.
"""

from __future__ import annotations

from typing import Any

from quorate.hosts.act.failures import StepFailed
from quorate.hosts.act.nodes import written
from quorate.hosts.act.tools import Tools
from quorate.hosts.manifest import Manifest
from quorate.hosts.manifest.component_fields import DynamicWorker, ProviderSpec, StaticNetwork
from quorate.hosts.observe.api import MACHINE_DEPLOYMENTS, NAMESPACE
from quorate.hosts.observe.machine_deployments import version_of
from quorate.kubernetes.client import Client
from quorate.kubernetes.errors import AlreadyExists, NotFound
from quorate.kubernetes.metadata import metadata_of

_WHERE = "dynamicWorkers"
_SET = "workerset"
_PROVIDERS = {"vmwareCloudDirector": "vmware-cloud-director"}
"""machine-controller's names where they are not the manifest's."""


async def ensure_machine_deployments(tools: Tools) -> None:
    """Create those that are missing, and set the version of those that have another. Idempotent. Raises StepFailed where the API does not serve the kind."""
    api = await tools.access.api()
    try:
        await api.list(MACHINE_DEPLOYMENTS, NAMESPACE, limit=1)
    except NotFound:
        remedy = "Install machine-controller with its definitions, or remove dynamicWorkers from the manifest"
        raise StepFailed(_WHERE, "the API does not serve MachineDeployments of cluster.k8s.io/v1alpha1", remedy) from None
    for document in machine_deployments(tools.manifest):
        name = document["metadata"]["name"]

        async def ensure(api: Client, document: dict[str, Any] = document) -> None:
            await _ensure(tools, api, document)

        await written(tools, _WHERE, f"MachineDeployment {NAMESPACE}/{name}", ensure)


def machine_deployments(manifest: Manifest) -> tuple[dict[str, Any], ...]:
    """Every MachineDeployment of the manifest, as it is created. They may hold secrets of the cloud."""
    return tuple(_machine_deployment(manifest, worker) for worker in manifest.dynamic_workers)


async def _ensure(tools: Tools, api: Client, document: dict[str, Any]) -> None:
    name = document["metadata"]["name"]
    version = document["spec"]["template"]["spec"]["versions"]["kubelet"]
    try:
        found = await api.get(MACHINE_DEPLOYMENTS, name, NAMESPACE)
    except NotFound:
        tools.report(_WHERE, f"creating MachineDeployment {name}")
        try:
            await api.create(MACHINE_DEPLOYMENTS, document, NAMESPACE)
        except AlreadyExists:
            return  # an answer of ours that was lost; the next observation compares it
        return
    if version_of(found) != version:
        tools.report(_WHERE, f"setting the version of MachineDeployment {name} to {version}")
        patch = {
            "metadata": {"resourceVersion": metadata_of(found).resource_version},
            "spec": {"template": {"spec": {"versions": {"kubelet": version}}}},
        }
        await api.merge_patch(MACHINE_DEPLOYMENTS, name, patch, NAMESPACE)


def _machine_deployment(manifest: Manifest, worker: DynamicWorker) -> dict[str, Any]:
    spec = worker.provider_spec
    labels = {**spec.labels, _SET: worker.name}
    surge, unavailable = (1, 0) if spec.network is None else (0, 1)
    return {
        "apiVersion": MACHINE_DEPLOYMENTS.api_version,
        "kind": MACHINE_DEPLOYMENTS.kind,
        "metadata": _without_empty({"name": worker.name, "namespace": NAMESPACE, "annotations": dict(spec.annotations)}),
        "spec": {
            "replicas": worker.replicas or 0,
            "minReadySeconds": 0,
            "selector": {"matchLabels": {_SET: worker.name}},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}},
            "template": {
                "metadata": _without_empty(
                    {"labels": labels, "namespace": NAMESPACE, "annotations": dict(spec.machine_object_annotations)}
                ),
                "spec": _machine(manifest, spec, labels),
            },
        },
    }


def _machine(manifest: Manifest, spec: ProviderSpec, labels: dict[str, str]) -> dict[str, Any]:
    annotations = {**spec.machine_annotations, **spec.node_annotations}
    taints = [_without_empty({"key": taint.key, "value": taint.value, "effect": taint.effect.value}) for taint in spec.taints]
    return _without_empty(
        {
            "metadata": _without_empty({"labels": labels, "annotations": annotations}),
            "taints": taints,
            "versions": {"kubelet": manifest.versions.kubernetes},
            "providerSpec": {"value": _provider(manifest, spec)},
        }
    )


def _provider(manifest: Manifest, spec: ProviderSpec) -> dict[str, Any]:
    chosen = next(iter(manifest.cloud_provider.chosen), "")
    secret = spec.overwrite_cloud_config
    return _without_empty(
        {
            "cloudProvider": _PROVIDERS.get(chosen, chosen),
            "cloudProviderSpec": _cloud_provider_spec(manifest, spec),
            "operatingSystem": spec.operating_system,
            "operatingSystemSpec": spec.operating_system_spec.value if spec.operating_system_spec else None,
            "sshPublicKeys": list(spec.ssh_public_keys),
            "network": _network(spec.network) if spec.network else None,
            "overwriteCloudConfig": secret.reveal() if secret else None,
        }
    )


def _cloud_provider_spec(manifest: Manifest, spec: ProviderSpec) -> Any:
    value = spec.cloud_provider_spec.value if spec.cloud_provider_spec else None
    if manifest.cloud_provider.aws is None or not isinstance(value, dict):
        return value
    return {**value, "tags": {f"kubernetes.io/cluster/{manifest.name}": "shared", **(value.get("tags") or {})}}


def _network(network: StaticNetwork) -> dict[str, Any]:
    return _without_empty(
        {
            "cidr": network.cidr,
            "gateway": network.gateway,
            "dns": {"servers": list(network.dns.servers)},
            "ipFamily": network.ip_family.value,
        }
    )


def _without_empty(value: dict[str, Any]) -> dict[str, Any]:
    return {key: member for key, member in value.items() if member not in (None, "", [], {})}
