"""The one permission that kubeadm gained and that joining machines of its versions rely on: API servers may use the kubelets' API.

Source: Cluster API's controlplane/kubeadm/pkg/workload_cluster_rbac.go; kubeadm itself makes the binding from v1.37 on.
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
"""From this version on every cluster was made, or upgraded, by a kubeadm that has made the binding."""

_GROUP = "rbac.authorization.k8s.io"
_BINDING = {
    "apiVersion": f"{_GROUP}/v1",
    "kind": "ClusterRoleBinding",
    "metadata": {"name": "kubeadm:apiserver-kubelet-client"},
    "roleRef": {"apiGroup": _GROUP, "kind": "ClusterRole", "name": "system:kubelet-api-admin"},
    "subjects": [{"apiGroup": _GROUP, "kind": "User", "name": "kube-apiserver-kubelet-client"}],
}


async def ensure_permissions(api: Api, version: Version) -> None:
    """Create the binding where it is missing; one that exists, whatever it says, is left as it is. Idempotent. Raises what the API answers."""
    if version.release >= UNTIL:
        return
    try:
        await api.get(CLUSTER_ROLE_BINDINGS, "kubeadm:apiserver-kubelet-client")
    except NotFound:
        try:
            await api.create(CLUSTER_ROLE_BINDINGS, _BINDING)
        except AlreadyExists:
            return  # somebody else was faster, or the answer to our own was lost
