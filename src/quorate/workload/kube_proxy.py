"""kube-proxy follows the control plane's version: one image in one DaemonSet. Source: Cluster API's controlplane/kubeadm/pkg/workload_cluster.go."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from quorate.kubernetes.errors import NotFound
from quorate.kubernetes.resource import Resource
from quorate.workload.images import Image, tag_of
from quorate.workload.static_pods import NAMESPACE
from quorate.workload.updates import Api, CannotUpdate, checked

DAEMON_SETS: Resource[dict[str, Any]] = Resource("apps", "v1", "daemonsets", "DaemonSet", dict)
NAME = "kube-proxy"


async def update_kube_proxy(api: Api, *, version: str, image_repository: str) -> None:
    """Give kube-proxy the image of this version, from this repository where it is not empty. Idempotent; writes only a difference.

    A cluster without kube-proxy, or with one that somebody else made (no container of that name), is left alone. Raises CannotUpdate for an image that is
    pinned by digest or is none, Conflict where the DaemonSet changes meanwhile, and what else the API answers.
    """
    await _change_image(api, lambda current: wanted_image(current, version=version, image_repository=image_repository))


async def move_image(api: Api, image_repository: str) -> None:
    """Take kube-proxy's image from this repository, at the version that it has. Idempotent, and for the rest as `update_kube_proxy`."""
    await _change_image(api, lambda current: moved_image(current, image_repository))


def image_of(daemon_set: Mapping[str, Any]) -> Image | None:
    """The image of kube-proxy's own container; None where there is no such container. Raises CannotUpdate for one that is none."""
    checked(daemon_set, f"DaemonSet {NAMESPACE}/{NAME}")
    containers = daemon_set["spec"]["template"]["spec"]["containers"]
    return next((Image.parse(container.get("image", "")) for container in containers if container["name"] == NAME), None)


def moved_image(current: Image, image_repository: str) -> Image:
    """The image of the same version in this repository. Raises CannotUpdate."""
    return wanted_image(current, version=current.tag, image_repository=image_repository)


async def _change_image(api: Api, change: Callable[[Image], Image]) -> None:
    try:
        daemon_set = await api.get(DAEMON_SETS, NAME, NAMESPACE)
    except NotFound:
        return
    current = image_of(daemon_set)
    if current is None or (wanted := change(current)) == current:
        return
    containers = daemon_set["spec"]["template"]["spec"]["containers"]
    changed = [{**each, "image": str(wanted)} if each["name"] == NAME else each for each in containers]
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
