"""What the manager may do in the management cluster, as one table from which the manifest is generated.

`python -m quorate.clusterapi.api.rbac config/rbac` writes it. Nothing is asked for Pods, Nodes or ConfigMaps here: workload clusters are reached with their own
kubeconfig. Bindings and the ServiceAccount belong to the deployment, which knows the namespace.

Source: cluster-api, controlplane/kubeadm/config/rbac.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quorate.clusterapi.api import manifests, webhooks
from quorate.clusterapi.api.crd import DEFINITIONS
from quorate.clusterapi.types.names import PROVIDER_NAME, Label
from quorate.clusterapi.types.resources import BOOTSTRAP_GROUP, CLUSTER_GROUP, CONTROL_PLANE_GROUP, INFRASTRUCTURE_GROUP, RUNTIME_GROUP

READ = ("get", "list", "watch")
KEEP = (*READ, "patch")
OWN = ("create", "delete", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True, slots=True)
class Grant:
    """These verbs on these resources of these groups; on the named objects alone where names are given."""

    groups: tuple[str, ...]
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    names: tuple[str, ...] = ()

    def manifest(self) -> dict[str, Any]:
        """The grant as a role holds it."""
        manifest = {"apiGroups": list(self.groups), "resources": list(self.resources), "verbs": list(self.verbs)}
        return manifest | ({"resourceNames": list(self.names)} if self.names else {})


MANAGER = (
    Grant(("",), ("events",), ("create", "patch")),
    Grant(("",), ("namespaces",), READ),
    Grant(("",), ("secrets",), OWN),
    Grant(("apiextensions.k8s.io",), ("customresourcedefinitions",), READ),
    Grant(
        ("apiextensions.k8s.io",),
        ("customresourcedefinitions", "customresourcedefinitions/status"),
        ("patch", "update"),
        tuple(definition.name for definition in DEFINITIONS),
    ),
    Grant(("authentication.k8s.io",), ("tokenreviews",), ("create",)),
    Grant(("authorization.k8s.io",), ("subjectaccessreviews",), ("create",)),
    Grant((BOOTSTRAP_GROUP, CONTROL_PLANE_GROUP, INFRASTRUCTURE_GROUP), ("*",), OWN),
    Grant((CLUSTER_GROUP,), ("clusters", "clusters/status", "machinepools"), READ),
    Grant((CLUSTER_GROUP,), ("machinedrainrules",), ("list",)),
    Grant((CLUSTER_GROUP,), ("machines", "machines/status"), OWN),
    Grant((RUNTIME_GROUP,), ("extensionconfigs",), READ),
)
"""The manager's rights in every namespace it watches."""

SELF_MANAGED_CERTIFICATES = (
    Grant(("admissionregistration.k8s.io",), ("mutatingwebhookconfigurations",), KEEP, (webhooks.MUTATING_CONFIGURATION,)),
    Grant(("admissionregistration.k8s.io",), ("validatingwebhookconfigurations",), KEEP, (webhooks.VALIDATING_CONFIGURATION,)),
)
"""The manager's further rights where it makes the webhooks' certificates: to put their CAs into the configurations. It lists and watches each by its name."""

LEADER_ELECTION = (Grant(("",), ("events",), ("create",)), Grant(("coordination.k8s.io",), ("leases",), OWN))
"""The manager's rights in its own namespace."""


def roles(*, self_managed_certificates: bool = False) -> list[dict[str, Any]]:
    """The roles. Infrastructure providers outside the usual group add their own rights through the aggregation label."""
    manager = _role("ClusterRole", "manager-role", MANAGER + SELF_MANAGED_CERTIFICATES * self_managed_certificates)
    manager["metadata"]["labels"][Label.AGGREGATE_TO_MANAGER] = "true"
    aggregated = _role("ClusterRole", "aggregated-manager-role", ())
    aggregated["aggregationRule"] = {"clusterRoleSelectors": [{"matchLabels": {Label.AGGREGATE_TO_MANAGER: "true"}}]}
    return [manager, aggregated, _role("Role", "leader-election-role", LEADER_ELECTION)]


def _role(kind: str, name: str, grants: tuple[Grant, ...]) -> dict[str, Any]:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name, "labels": {Label.PROVIDER: PROVIDER_NAME}},
        "rules": [grant.manifest() for grant in grants],
    }


def files() -> dict[str, str]:
    """The manifest as a file: its name and its content."""
    return {"role.yaml": manifests.render("quorate.clusterapi.api.rbac", roles())}


if __name__ == "__main__":
    manifests.write(Path(sys.argv[1]), files())
