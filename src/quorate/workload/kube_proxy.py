"""kube-proxy follows the control plane's version: one image in one DaemonSet. Source: Cluster API's controlplane/kubeadm/pkg/workload_cluster.go."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from quorate.kubernetes.errors import NotFound
from quorate.kubernetes.resource import Resource
from quorate.workload.images import Image, tag_of
from quorate.workload.static_pods import NAMESPACE
from quorate.workload.updates import Api, CannotUpdate

DAEMON_SETS: Resource[dict[str, Any]] = Resource("apps", "v1", "daemonsets", "DaemonSet", dict)
NAME = "kube-proxy"


async def update_kube_proxy(api: Api, *, version: str, image_repository: str) -> None:
    """Give kube-proxy the image of this version, from this repository where it is not empty. Idempotent; writes only a difference.

    A cluster without kube-proxy, or with one that somebody else made (no container of that name), is left alone. Raises CannotUpdate for an image that is
    pinned by digest or is none, Conflict where the DaemonSet changes meanwhile, and what else the API answers.
    """
    try:
        daemon_set = await api.get(DAEMON_SETS, NAME, NAMESPACE)
    except NotFound:
        return
    containers = daemon_set["spec"]["template"]["spec"]["containers"]
    container = next((container for container in containers if container["name"] == NAME), None)
    if container is None:
        return
    current = Image.parse(container["image"])
    wanted = wanted_image(current, version=version, image_repository=image_repository)
    if wanted == current:
        return
    changed = [{**c, "image": str(wanted)} if c is container else c for c in containers]
    patch = {
        "metadata": {"resourceVersion": daemon_set["metadata"]["resourceVersion"]},
        "spec": {"template": {"spec": {"containers": changed}}},
    }
    await api.merge_patch(DAEMON_SETS, NAME, patch, NAMESPACE)


def wanted_image(current: Image, *, version: str, image_repository: str) -> Image:
    """The image that kube-proxy should have. Raises CannotUpdate."""
    if current.digest:
        raise CannotUpdate(
            f"DaemonSet {NAMESPACE}/{NAME} pins its image by digest ({current}), so its version cannot follow: use a tag, "
            "or set the annotation controlplane.cluster.x-k8s.io/skip-kube-proxy"
        )
    tagged = replace(current, tag=tag_of(version))
    return Image.parse(f"{image_repository.rstrip('/')}/{current.name}:{tagged.tag}") if image_repository else tagged
