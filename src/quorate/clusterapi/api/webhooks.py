"""Which webhooks there are, and the objects by which the API server is told of them, under upstream's names.

`python -m quorate.clusterapi.api.webhooks config/webhook` writes them for the namespace that upstream's provider is installed in. The CAs are not in them: they
are put in by whoever makes the certificates.

Source: cluster-api, controlplane/kubeadm/config/webhook, config/crd/patches and config/default.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quorate.clusterapi.api import manifests
from quorate.clusterapi.types.names import DEFAULT_NAMESPACE, PROVIDER_NAME, Label
from quorate.clusterapi.types.resources import CONTROL_PLANE_GROUP, KUBEADM_CONTROL_PLANE_TEMPLATES, KUBEADM_CONTROL_PLANES, VERSION

Manifest = dict[str, Any]

_PREFIX = "capi-kubeadm-control-plane"
SERVICE = f"{_PREFIX}-webhook-service"
MUTATING_CONFIGURATION = f"{_PREFIX}-mutating-webhook-configuration"
VALIDATING_CONFIGURATION = f"{_PREFIX}-validating-webhook-configuration"
CONVERT = "/convert"
PORT = 9443  # upstream's, and that of the flag --webhook-port
_SERVICE_PORT = 443


@dataclass(frozen=True, slots=True)
class Webhook:
    """One admission webhook: its name, its path, and what it is asked about."""

    name: str
    path: str
    resource: str
    operations: tuple[str, ...] = ("CREATE", "UPDATE")

    def manifest(self, namespace: str) -> Manifest:
        """The webhook as a configuration holds it."""
        rule = {
            "apiGroups": [CONTROL_PLANE_GROUP],
            "apiVersions": [VERSION],
            "operations": list(self.operations),
            "resources": [self.resource],
        }
        return {
            "name": self.name,
            "admissionReviewVersions": ["v1"],
            "clientConfig": client_config(self.path, namespace),
            "failurePolicy": "Fail",
            "matchPolicy": "Equivalent",
            "sideEffects": "None",
            "rules": [rule],
        }


def _webhook(purpose: str, verb: str, kind: str, resource: str, operations: tuple[str, ...] = ("CREATE", "UPDATE")) -> Webhook:
    name, path = f"{purpose}.{kind}.{CONTROL_PLANE_GROUP}", f"/{verb}-{CONTROL_PLANE_GROUP.replace('.', '-')}-{VERSION}-{kind}"
    return Webhook(name, path, resource, operations)


_KIND, _TEMPLATE = (resource.kind.lower() for resource in (KUBEADM_CONTROL_PLANES, KUBEADM_CONTROL_PLANE_TEMPLATES))
_PLURAL = KUBEADM_CONTROL_PLANES.plural

DEFAULT = _webhook("default", "mutate", _KIND, _PLURAL)
VALIDATE = _webhook("validation", "validate", _KIND, _PLURAL)
VALIDATE_SCALE = _webhook("validation-scale", "validate-scale", _KIND, f"{_PLURAL}/scale", ("UPDATE",))
VALIDATE_TEMPLATE = _webhook("validation", "validate", _TEMPLATE, KUBEADM_CONTROL_PLANE_TEMPLATES.plural)


def client_config(path: str, namespace: str = DEFAULT_NAMESPACE) -> Manifest:
    """Where the API server finds what is served under a path: behind the Service, in the namespace that quorate is installed in."""
    return {"service": {"name": SERVICE, "namespace": namespace, "path": path}}


def conversion(namespace: str = DEFAULT_NAMESPACE) -> Manifest:
    """`spec.conversion` of both CustomResourceDefinitions."""
    return {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": client_config(CONVERT, namespace)}}


def configurations(namespace: str = DEFAULT_NAMESPACE) -> list[Manifest]:
    """The MutatingWebhookConfiguration and the ValidatingWebhookConfiguration."""
    return [
        _configuration("MutatingWebhookConfiguration", MUTATING_CONFIGURATION, namespace, DEFAULT),
        _configuration("ValidatingWebhookConfiguration", VALIDATING_CONFIGURATION, namespace, VALIDATE_SCALE, VALIDATE, VALIDATE_TEMPLATE),
    ]


def _configuration(kind: str, name: str, namespace: str, *webhooks: Webhook) -> Manifest:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name, "labels": {Label.PROVIDER: PROVIDER_NAME}},
        "webhooks": [webhook.manifest(namespace) for webhook in webhooks],
    }


def service(namespace: str = DEFAULT_NAMESPACE) -> Manifest:
    """The Service in front of the managers, all of which serve; their container's port is called webhook-server."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": SERVICE, "namespace": namespace, "labels": {Label.PROVIDER: PROVIDER_NAME}},
        "spec": {"selector": {Label.PROVIDER: PROVIDER_NAME}, "ports": [{"port": _SERVICE_PORT, "targetPort": "webhook-server"}]},
    }


def files() -> dict[str, str]:
    """The manifests as files: their names and contents."""
    generator = "quorate.clusterapi.api.webhooks"
    return {"manifests.yaml": manifests.render(generator, configurations()), "service.yaml": manifests.render(generator, [service()])}


if __name__ == "__main__":
    manifests.write(Path(sys.argv[1]), files())
