"""The permissions that kubeadm gained and that joining machines of its versions rely on.

Its administrators have a group of their own since v1.29, beside system:masters, and API servers may use the kubelets' API as a user of their own from v1.37 on.
Source: Cluster API's controlplane/kubeadm/pkg/workload_cluster_rbac.go.
"""

from __future__ import annotations

from typing import Any

from quorate.core.versions import Version
from quorate.kubernetes.errors import AlreadyExists, NotFound
from quorate.kubernetes.resource import Resource
from quorate.workload.updates import Api

CLUSTER_ROLE_BINDINGS: Resource[dict[str, Any]] = Resource(
    "rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", dict, namespaced=False
)
UNTIL = (1, 38, 0)
"""From this version on every cluster was made, or upgraded, by a kubeadm that has made the bindings."""

_GROUP = "rbac.authorization.k8s.io"


def _binding(name: str, role: str, kind: str, subject: str) -> dict[str, Any]:
    return {
        "apiVersion": f"{_GROUP}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": _GROUP, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": _GROUP, "kind": kind, "name": subject}],
    }


_BINDINGS = (
    _binding("kubeadm:cluster-admins", "cluster-admin", "Group", "kubeadm:cluster-admins"),
    _binding("kubeadm:apiserver-kubelet-client", "system:kubelet-api-admin", "User", "kube-apiserver-kubelet-client"),
)


async def ensure_permissions(api: Api, version: Version) -> None:
    """Create each binding where it is missing; one that exists, whatever it says, is left as it is. Idempotent. Raises what the API answers."""
    if version.release >= UNTIL:
        return
    for binding in _BINDINGS:
        try:
            await api.get(CLUSTER_ROLE_BINDINGS, binding["metadata"]["name"])
        except NotFound:
            await _create(api, binding)


async def _create(api: Api, binding: dict[str, Any]) -> None:
    try:
        await api.create(CLUSTER_ROLE_BINDINGS, binding)
    except AlreadyExists:
        return  # somebody else was faster, or the answer to our own was lost
