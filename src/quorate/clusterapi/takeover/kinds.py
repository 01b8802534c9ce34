"""The kinds of object that an installation may consist of: where they live, what they are there for, and in which order they are written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from quorate.core.takeover.state import Key, Part
from quorate.kubernetes.resource import Resource

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind. `stays`: an object of it is never deleted, since objects that are no provider's hang on it, or a private key would be gone."""

    resource: Resource[Object]
    part: Part
    stays: bool = False


def _kind(group: str, version: str, plural: str, kind: str, part: Part, *, namespaced: bool = True, stays: bool = False) -> Kind:
    return Kind(Resource(group, version, plural, kind, dict, namespaced), part, stays)


_RBAC, _ADMISSION, _ISSUING = "rbac.authorization.k8s.io", "admissionregistration.k8s.io", "cert-manager.io"

DEPLOYMENT = _kind("apps", "v1", "deployments", "Deployment", Part.PROVIDER)
DEFINITION = _kind(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", Part.GROUND, namespaced=False, stays=True
)
ENTRY = _kind("clusterctl.cluster.x-k8s.io", "v1alpha3", "providers", "Provider", Part.INVENTORY)

_ORDERED = (
    _kind("", "v1", "namespaces", "Namespace", Part.GROUND, namespaced=False, stays=True),
    _kind("", "v1", "serviceaccounts", "ServiceAccount", Part.GROUND),
    _kind("", "v1", "configmaps", "ConfigMap", Part.GROUND),
    _kind("", "v1", "secrets", "Secret", Part.GROUND, stays=True),
    _kind(_ISSUING, "v1", "issuers", "Issuer", Part.GROUND),
    _kind(_ISSUING, "v1", "certificates", "Certificate", Part.GROUND),
    _kind("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy", Part.GROUND),
    _kind("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", Part.GROUND),
    DEFINITION,
    _kind(_RBAC, "v1", "roles", "Role", Part.RIGHTS),
    _kind(_RBAC, "v1", "clusterroles", "ClusterRole", Part.RIGHTS, namespaced=False),
    _kind(_RBAC, "v1", "rolebindings", "RoleBinding", Part.RIGHTS),
    _kind(_RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", Part.RIGHTS, namespaced=False),
    DEPLOYMENT,
    _kind("", "v1", "services", "Service", Part.WEBHOOKS),
    _kind(_ADMISSION, "v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", Part.WEBHOOKS, namespaced=False),
    _kind(_ADMISSION, "v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", Part.WEBHOOKS, namespaced=False),
    ENTRY,
)
KINDS = {kind.resource.kind: kind for kind in _ORDERED}
"""By name, in the order in which they are written."""
WEBHOOK_CONFIGURATIONS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
BINDINGS = ("RoleBinding", "ClusterRoleBinding")


def key_of(item: Object) -> Key:
    """An object's identity."""
    metadata = item["metadata"]
    return Key(item["kind"], metadata.get("namespace", ""), metadata["name"])


def place(key: Key) -> tuple[int, Key]:
    """Where an object stands in the order."""
    return list(KINDS).index(key.kind), key
