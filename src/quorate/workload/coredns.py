"""CoreDNS in a workload cluster: its image, and its Corefile carried along with it.

An update takes up to four writes. Until the last one the Pods read the Corefile of the version they run: the old text is kept under the key Corefile-backup,
the Deployment points there, the new text replaces the old one, and then image and pointer change in one write. Whoever is interrupted begins again, from the
text that the Pods read. Source: Cluster API's controlplane/kubeadm/pkg/workload_cluster_coredns.go; unlike it, a Corefile that needs no change is neither
rewritten nor a reason to restart the Pods twice, and nothing is replaced whole.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from quorate.core.versions import Version
from quorate.kubeadm.cluster_configuration import with_dns
from quorate.kubernetes.errors import NotFound
from quorate.kubernetes.objects import ConfigMap
from quorate.kubernetes.resource import CONFIG_MAPS, Resource
from quorate.workload.corefile_migration import check, migrate, parse_tag
from quorate.workload.images import Image
from quorate.workload.kubeadm_config import update_kubeadm_config
from quorate.workload.static_pods import NAMESPACE
from quorate.workload.updates import Api, CannotUpdate, checked

DEPLOYMENTS: Resource[dict[str, Any]] = Resource("apps", "v1", "deployments", "Deployment", dict)
NAME = "coredns"
COREFILE, BACKUP = "Corefile", "Corefile-backup"

_VOLUME = "config-volume"
_OFFICIAL = ("registry.k8s.io", "k8s.gcr.io")
_NESTED_FROM = (1, 8, 0)  # since then the official image is called coredns/coredns
_WAY_OUT = "or set the annotation controlplane.cluster.x-k8s.io/skip-coredns"


async def update_coredns(api: Api, cluster_configuration: Mapping[str, Any], version: Version) -> None:
    """Give CoreDNS the image that the cluster configuration asks for. Idempotent at every write; writes only differences.

    A cluster without CoreDNS' ConfigMap or Deployment is left alone. Raises CannotUpdate for what cannot be migrated or read, Conflict where somebody else
    writes at the same time, and what else the API answers.
    """
    try:
        config_map = await api.get(CONFIG_MAPS, NAME, NAMESPACE)
        deployment = await api.get(DEPLOYMENTS, NAME, NAMESPACE)
    except NotFound:
        return
    running = _Running.read(config_map, deployment)
    wanted = wanted_image(running.image, cluster_configuration)
    if wanted == running.image and not running.on_backup:
        return
    check(running.image.tag, wanted.tag)
    source, migrated = running.texts(wanted)
    if wanted != running.image:
        dns = cluster_configuration.get("dns") or {}
        await update_kubeadm_config(api, lambda document: with_dns(document, dns, version))
    if migrated != source:
        config_map = await _set_data(api, config_map, BACKUP, source)
        deployment = await _set_deployment(api, deployment, key=BACKUP, image="")
    await _set_data(api, config_map, COREFILE, migrated)
    await _set_deployment(api, deployment, key=COREFILE, image="" if wanted == running.image else str(wanted))


async def move_image(api: Api, cluster_configuration: Mapping[str, Any]) -> None:
    """Take CoreDNS' image from the repository that the cluster configuration names, at the version that it has: the Corefile stays as it is. Idempotent.

    A cluster without CoreDNS' Deployment is left alone. Raises CannotUpdate, Conflict where somebody else writes, and what else the API answers.
    """
    try:
        deployment = await api.get(DEPLOYMENTS, NAME, NAMESPACE)
    except NotFound:
        return
    current, wanted = images(deployment, cluster_configuration)
    if wanted != current:
        containers = [{**each, "image": str(wanted)} if each["name"] == NAME else each for each in _pod(deployment)["containers"]]
        patch = {
            "metadata": {"resourceVersion": deployment["metadata"]["resourceVersion"]},
            "spec": {"template": {"spec": {"containers": containers}}},
        }
        await api.merge_patch(DEPLOYMENTS, NAME, patch, NAMESPACE)


def images(deployment: Mapping[str, Any], cluster_configuration: Mapping[str, Any]) -> tuple[Image, Image]:
    """The image that CoreDNS has, and the one that `move_image` gives it. Raises CannotUpdate."""
    current = image_of(deployment)
    return current, wanted_image(current, {"imageRepository": _OFFICIAL[0], **cluster_configuration})


def image_of(deployment: Mapping[str, Any]) -> Image:
    """The image of CoreDNS' own container. Raises CannotUpdate."""
    checked(deployment, f"Deployment {NAMESPACE}/{NAME}")
    container = next((c for c in _pod(deployment)["containers"] if c["name"] == NAME), None)
    if container is None:
        raise CannotUpdate(f"Deployment {NAMESPACE}/{NAME} has no container {NAME}: add it, {_WAY_OUT}")
    return Image.parse(container.get("image", ""))


def wanted_image(current: Image, cluster_configuration: Mapping[str, Any]) -> Image:
    """The image that CoreDNS should have; without a tag in `dns` it stays at its version. Raises CannotUpdate."""
    if current.digest or not current.tag:
        raise CannotUpdate(f"Deployment {NAMESPACE}/{NAME} has the image {current}, whose version cannot be told: use a tag, {_WAY_OUT}")
    dns = cluster_configuration.get("dns") or {}
    repository = dns.get("imageRepository") or cluster_configuration.get("imageRepository") or current.repository
    repository = repository.removesuffix("/")
    tag = dns.get("imageTag") or current.tag
    nested = repository in _OFFICIAL and current.name == NAME and parse_tag(tag) >= _NESTED_FROM
    return Image.parse(f"{repository}/{NAME}/{NAME}:{tag}" if nested else f"{repository}/{current.name}:{tag}")


@dataclass(frozen=True, slots=True)
class _Running:
    """What runs now, and from which text."""

    image: Image
    on_backup: bool  # an update was interrupted: the Pods read the backup
    corefile: str
    backup: str

    @classmethod
    def read(cls, config_map: ConfigMap, deployment: Mapping[str, Any]) -> _Running:
        """From the two objects. Raises CannotUpdate."""
        if COREFILE not in config_map.data:
            raise CannotUpdate(f"ConfigMap {NAMESPACE}/{NAME} has no key {COREFILE}: write CoreDNS' configuration there, {_WAY_OUT}")
        image = image_of(deployment)
        on_backup = BACKUP in config_map.data and any(item["key"] == BACKUP for item in _items(_pod(deployment)))
        return cls(image, on_backup, config_map.data[COREFILE], config_map.data.get(BACKUP, ""))

    def texts(self, wanted: Image) -> tuple[str, str]:
        """The text that the running version reads, and the one that the wanted version needs. Raises CannotUpdate.

        While the Pods read the backup, the other text is a migrated one, unless somebody has edited it since: then that counts.
        """
        if self.on_backup:
            migrated = migrate(self.backup, self.image.tag, wanted.tag)
            if self.corefile in (self.backup, migrated) or wanted == self.image:
                return self.backup, migrated
        return self.corefile, migrate(self.corefile, self.image.tag, wanted.tag)


async def _set_data(api: Api, config_map: ConfigMap, key: str, text: str) -> ConfigMap:
    """Set one key. The answer is the ConfigMap as it then is."""
    if config_map.data.get(key) == text:
        return config_map
    patch = {"metadata": {"resourceVersion": config_map.metadata.resource_version}, "data": {key: text}}
    return await api.merge_patch(CONFIG_MAPS, NAME, patch, NAMESPACE)


async def _set_deployment(api: Api, deployment: dict[str, Any], *, key: str, image: str) -> dict[str, Any]:
    """Point the Deployment to a key of the ConfigMap and, where one is given, to an image. The answer is the Deployment as it then is."""
    pod = copy.deepcopy(_pod(deployment))
    for item in _items(pod):
        item["key"] = key
    for container in pod["containers"]:
        if container["name"] == NAME and image:
            container["image"] = image
    if pod == _pod(deployment):
        return deployment
    spec = {
        name: pod[name] for name in ("containers", "volumes") if name in pod
    }  # a merge patch takes lists whole, which is why it is guarded
    patch = {"metadata": {"resourceVersion": deployment["metadata"]["resourceVersion"]}, "spec": {"template": {"spec": spec}}}
    return await api.merge_patch(DEPLOYMENTS, NAME, patch, NAMESPACE)


def _pod(deployment: Mapping[str, Any]) -> dict[str, Any]:
    pod: dict[str, Any] = deployment["spec"]["template"]["spec"]
    return pod


def _items(pod: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Where the volume says which key of the ConfigMap becomes the Corefile."""
    return [
        item
        for volume in pod.get("volumes") or ()
        if volume.get("name") == _VOLUME and (volume.get("configMap") or {}).get("name") == NAME
        for item in volume["configMap"].get("items") or ()
        if item.get("key") in (COREFILE, BACKUP)
    ]
