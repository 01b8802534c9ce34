"""Small installations of both providers, of every kind that real ones have."""

from __future__ import annotations

import copy
from typing import Any

from quorate.clusterapi.takeover import installation
from quorate.clusterapi.takeover.installation import Installation
from quorate.core.takeover.state import Side

Object = dict[str, Any]
SYSTEM = "capi-kubeadm-control-plane-system"
PREFIX = "capi-kubeadm-control-plane"
THEIRS, OURS = "control-plane-kubeadm", "control-plane-quorate"
THEIR_DEPLOYMENT, OUR_DEPLOYMENT = f"{PREFIX}-controller-manager", "quorate-controller-manager"
LEASE = "kubeadm-control-plane-manager-leader-election-capi"
INJECTED = {"cert-manager.io/inject-ca-from": f"{SYSTEM}/{PREFIX}-serving-cert"}
RBAC, ADMISSION = "rbac.authorization.k8s.io/v1", "admissionregistration.k8s.io/v1"


def _object(version: str, kind: str, name: str, label: str, *, namespaced: bool = True, **fields: Any) -> Object:
    metadata = {"name": name, "labels": {"cluster.x-k8s.io/provider": label}} | ({"namespace": SYSTEM} if namespaced else {})
    annotations = fields.pop("annotations", None)
    return {"apiVersion": version, "kind": kind, "metadata": metadata | ({"annotations": annotations} if annotations else {}), **fields}


def deployment(name: str, label: str, *, image: str, replicas: int, arguments: tuple[str, ...]) -> Object:
    selected = {"cluster.x-k8s.io/provider": label, "control-plane": "controller-manager"}
    container = {"name": "manager", "image": image, "command": ["/manager"], "args": list(arguments)}
    pod = {"metadata": {"labels": selected}, "spec": {"containers": [container], "serviceAccountName": f"{PREFIX}-manager"}}
    return _object(
        "apps/v1", "Deployment", name, label, spec={"replicas": replicas, "selector": {"matchLabels": selected}, "template": pod}
    )


def definition(plural: str, kind: str, label: str) -> Object:
    versions = [{"name": name, "served": True, "storage": name == "v1beta2"} for name in ("v1beta1", "v1beta2")]
    service = {"name": f"{PREFIX}-webhook-service", "namespace": SYSTEM, "path": "/convert"}
    conversion = {"strategy": "Webhook", "webhook": {"clientConfig": {"service": service}, "conversionReviewVersions": ["v1"]}}
    spec = {
        "group": "controlplane.cluster.x-k8s.io",
        "names": {"kind": kind, "plural": plural},
        "versions": versions,
        "conversion": conversion,
    }
    name = f"{plural}.controlplane.cluster.x-k8s.io"
    return _object("apiextensions.k8s.io/v1", "CustomResourceDefinition", name, label, namespaced=False, spec=spec)


def webhooks(kind: str, prefix: str, label: str) -> Object:
    service = {"name": f"{PREFIX}-webhook-service", "namespace": SYSTEM, "path": f"/{prefix}"}
    name = f"{PREFIX}-{prefix}-webhook-configuration"
    return _object(ADMISSION, kind, name, label, namespaced=False, webhooks=[{"name": f"{prefix}.x", "clientConfig": {"service": service}}])


def common(label: str, rules: list[Object], extra: Object) -> list[Object]:
    selected = {"cluster.x-k8s.io/provider": label}
    subject = {"kind": "ServiceAccount", "name": f"{PREFIX}-manager", "namespace": SYSTEM}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": f"{PREFIX}-aggregated-manager-role"}
    aggregated = _object(
        RBAC, "ClusterRole", f"{PREFIX}-aggregated-manager-role", label, namespaced=False, aggregationRule={"selectors": []}
    )
    return [
        _object("v1", "Namespace", SYSTEM, label, namespaced=False),
        definition("kubeadmcontrolplanes", "KubeadmControlPlane", label),
        definition("kubeadmcontrolplanetemplates", "KubeadmControlPlaneTemplate", label),
        _object("v1", "ServiceAccount", f"{PREFIX}-manager", label),
        _object(RBAC, "ClusterRole", f"{PREFIX}-manager-role", label, namespaced=False, rules=rules),
        aggregated,
        _object(RBAC, "ClusterRoleBinding", f"{PREFIX}-manager-rolebinding", label, namespaced=False, roleRef=role, subjects=[subject]),
        _object("v1", "Service", f"{PREFIX}-webhook-service", label, spec={"ports": [{"port": 443}], "selector": selected}),
        webhooks("MutatingWebhookConfiguration", "mutating", label),
        webhooks("ValidatingWebhookConfiguration", "validating", label),
        extra,
    ]


def upstream(*arguments: str) -> list[Object]:
    """Upstream's as clusterctl leaves it, with its entry in the inventory."""
    issuing = _object("cert-manager.io/v1", "Issuer", f"{PREFIX}-selfsigned-issuer", THEIRS, spec={"selfSigned": {}})
    items = common(THEIRS, [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "update"]}], issuing)
    image = "registry.k8s.io/cluster-api/kubeadm-control-plane-controller:v1.14.0"
    items.append(deployment(THEIR_DEPLOYMENT, THEIRS, image=image, replicas=1, arguments=("--leader-elect", *arguments)))
    for item in items:
        item["metadata"]["labels"]["clusterctl.cluster.x-k8s.io"] = ""
        if item["kind"] in ("CustomResourceDefinition", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
            item["metadata"]["annotations"] = dict(INJECTED)
    return [*items, entry(THEIRS, "kubeadm", "v1.14.0")]


def entry(label: str, name: str, version: str) -> Object:
    """An entry in clusterctl's inventory."""
    kind = "CoreProvider" if name == "cluster-api" else "ControlPlaneProvider"
    item = _object("clusterctl.cluster.x-k8s.io/v1alpha3", "Provider", label, label)
    return item | {"providerName": name, "type": kind, "version": version}


def quorate(*arguments: str) -> list[Object]:
    """quorate's components, which make their own certificates."""
    policy = _object("networking.k8s.io/v1", "NetworkPolicy", OUR_DEPLOYMENT, OURS, spec={"podSelector": {}})
    items = common(OURS, [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "patch"]}], policy)
    items[0]["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] = "restricted"
    made = deployment(OUR_DEPLOYMENT, OURS, image="quorate:v0.1.0", replicas=2, arguments=("--leader-elect=true", *arguments))
    return [*items, made]


def given(*arguments: str) -> Installation:
    """quorate's as the command reads it."""
    items = copy.deepcopy(quorate(*arguments))
    for item in items:
        item["metadata"]["labels"]["clusterctl.cluster.x-k8s.io"] = ""
    return installation.of(Side.QUORATE, [*items, entry(OURS, "quorate", "v0.1.0")])
