"""Which objects a local cluster consists of: kinds, namespaces and webhooks of Cluster API, rewritten for managers that run as processes on loopback.

Upstream's manifests address webhooks as Services with certificates of cert-manager; here they are URLs on loopback, signed by the local CA.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from quorate.clusterapi.api import crd, webhooks
from quorate.clusterapi.types.names import DEFAULT_NAMESPACE
from quorate.local.errors import MissingTool
from quorate.local.ports import LOOPBACK

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Provider:
    """One of Cluster API's managers: its program, its rendered manifest in the programs' folder, and its feature gates."""

    program: str
    manifest: str
    feature_gates: str


CORE = Provider("capi-core", "core.yaml", "ClusterTopology=true")
CABPK = Provider("capi-cabpk", "bootstrap-kubeadm.yaml", "MachinePool=true")
KCP = Provider("capi-kcp", "controlplane-kubeadm.yaml", "ClusterTopology=true")
CAPD = Provider("capi-capd", "capd.yaml", "ClusterTopology=true")


@dataclass(frozen=True, slots=True)
class ManifestSet:
    """Objects in the order they have to be created: a kind's conversion and a webhook are only asked once its objects are written."""

    kinds: tuple[Object, ...]
    namespaces: tuple[Object, ...]
    webhooks: tuple[Object, ...]


def read(path: Path) -> list[Object]:
    """The objects of a manifest; raises MissingTool where it has not been rendered."""
    try:
        with path.open("rb") as file:
            return [item for item in yaml.load_all(file, Loader=yaml.CSafeLoader) if item]
    except FileNotFoundError:
        raise MissingTool(f"{path} is missing: build the programs and their manifests with `make programs`") from None


def manifest_set(items: Iterable[Object], *, webhook_port: int, ca: bytes) -> ManifestSet:
    """What of one provider's manifest is installed, with its webhooks and conversions at `webhook_port` of loopback. Roles and Deployments stay out."""
    kinds, namespaces, webhooks = [], [], []
    for item in items:
        kind = item["kind"]
        if kind == "CustomResourceDefinition":
            kinds.append(_local_kind(item, webhook_port, ca))
        elif kind == "Namespace":
            namespaces.append(item)
        elif kind.endswith("WebhookConfiguration"):
            webhooks.append(_local_webhooks(item, webhook_port, ca))
    return ManifestSet(tuple(kinds), tuple(namespaces), tuple(webhooks))


def own(*, webhook_port: int, ca: bytes) -> ManifestSet:
    """quorate's kinds and webhooks, with the namespace of the Lease. At port 0 nobody serves webhooks: there are none then, and v1beta1 is not served."""
    conversion = webhooks.conversion() if webhook_port else None
    kinds = [crd.custom_resource_definition(definition, conversion) for definition in crd.DEFINITIONS]
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": DEFAULT_NAMESPACE}}
    hooks = webhooks.configurations() if webhook_port else []
    return manifest_set([*kinds, namespace, *hooks], webhook_port=webhook_port, ca=ca)


def merge(parts: Iterable[ManifestSet]) -> ManifestSet:
    """The manifest_set of several providers as one."""
    chosen = tuple(parts)
    return ManifestSet(
        tuple(item for part in chosen for item in part.kinds),
        tuple(item for part in chosen for item in part.namespaces),
        tuple(item for part in chosen for item in part.webhooks),
    )


def _local_kind(item: Object, port: int, ca: bytes) -> Object:
    spec = dict(item["spec"])
    if "conversion" in spec:
        webhook = {"conversionReviewVersions": ["v1"], "clientConfig": _client_config("/convert", port, ca)}
        spec["conversion"] = {"strategy": "Webhook", "webhook": webhook}
    return {**item, "metadata": _without_annotations(item["metadata"]), "spec": spec}


def _local_webhooks(item: Object, port: int, ca: bytes) -> Object:
    hooks = [{**hook, "clientConfig": _client_config(hook["clientConfig"]["service"]["path"], port, ca)} for hook in item["webhooks"]]
    return {**item, "metadata": _without_annotations(item["metadata"]), "webhooks": hooks}


def _without_annotations(metadata: Object) -> Object:
    """They only ask cert-manager to inject its CA."""
    return {name: value for name, value in metadata.items() if name != "annotations"}


def _client_config(path: str, port: int, ca: bytes) -> Object:
    return {"url": f"https://{LOOPBACK}:{port}{path}", "caBundle": base64.b64encode(ca).decode()}
