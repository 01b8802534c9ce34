"""Updates the configurations that kubeadm keeps in the cluster to match the manifest. The next host that joins, is upgraded or reconfigured reads them.

Fields that the manifest decides nothing about stay as they are, and so does the Kubernetes version, which an upgrade changes. What counts as a difference is
what `quorate.hosts.observe.configuration` says is one: after this step it finds none.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from quorate.core import documents
from quorate.core.health import Absent
from quorate.hosts.act.core_dns import update_core_dns
from quorate.hosts.act.failures import StepFailed
from quorate.hosts.act.nodes import written
from quorate.hosts.act.tools import Tools
from quorate.hosts.manifest import Manifest
from quorate.hosts.observe.known_flags import IGNORED, KUBEADMS, PLACES
from quorate.hosts.observe.kubelet import FIELDS
from quorate.hosts.probe.facts import flag_name
from quorate.hosts.render.component_configurations import kube_proxy_configuration, kubelet_configuration
from quorate.hosts.render.host_files import yaml_documents
from quorate.hosts.render.kubeadm_configuration import cluster_configuration, image_repository
from quorate.kubeadm.cluster_configuration import V1BETA4, Document, converted
from quorate.kubernetes.client import Client
from quorate.kubernetes.errors import NotFound
from quorate.kubernetes.resource import CONFIG_MAPS
from quorate.workload.kube_proxy import move_image
from quorate.workload.kubeadm_config import update_kubeadm_config
from quorate.workload.static_pods import NAMESPACE
from quorate.workload.updates import CannotUpdate

WHERE = "the cluster"
_PARTS = {"apiServer": "kube-apiserver", "controllerManager": "kube-controller-manager", "scheduler": "kube-scheduler"}
_OPTIONAL = ("imageRepository", "certificateValidityPeriod", "caCertificateValidityPeriod")
"""Where the manifest says nothing, kubeadm's own default holds, and not what was said once."""


async def update_configuration(tools: Tools) -> None:
    """Write what differs in the ConfigMaps kubeadm-config, kubelet-config and kube-proxy, and in CoreDNS, only if nobody has changed it since. Idempotent.

    Raises StepFailed naming the ConfigMap; those before it are written by then.
    """
    for what, update in (("kubeadm-config", _update_kubeadm), ("kubelet-config", _update_kubelets), ("kube-proxy", _update_kube_proxy)):
        tools.report(WHERE, f"comparing ConfigMap {NAMESPACE}/{what} with the manifest")
        await written(tools, WHERE, f"ConfigMap {NAMESPACE}/{what} to be written", partial(update, tools.manifest))
    tools.report(WHERE, "comparing CoreDNS with the manifest")
    await written(tools, WHERE, "CoreDNS to be written", partial(update_core_dns, tools.manifest))


async def _update_kubeadm(manifest: Manifest, api: Client) -> None:
    def change(document: Document) -> Document:
        changed = merged_cluster_configuration(manifest, document)
        return document if changed == document else changed

    await update_kubeadm_config(api, change)


async def _update_kubelets(manifest: Manifest, api: Client) -> None:
    wanted = kubelet_configuration(manifest)
    stored = await _data(api, "kubelet-config")
    if isinstance(stored, Absent):
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "kubelet-config"},
            "data": {"kubelet": yaml_documents(wanted).decode()},
        }
        await api.create(CONFIG_MAPS, body, NAMESPACE)
        return
    await _write(api, "kubelet-config", "kubelet", stored, partial(merged_kubelet_configuration, wanted))


async def _update_kube_proxy(manifest: Manifest, api: Client) -> None:
    """A cluster without kube-proxy stays without it. Its Pods start anew when their file changes, a minute later at most, or one by one for another image."""
    wanted = kube_proxy_configuration(manifest)
    stored = await _data(api, "kube-proxy")
    if wanted is not None and not isinstance(stored, Absent):
        await _write(api, "kube-proxy", "config.conf", stored, partial(merged_kube_proxy_configuration, wanted))
    if wanted is not None:
        with suppress(CannotUpdate):
            await move_image(api, image_repository(manifest))


def merged_kube_proxy_configuration(wanted: Mapping[str, Any], found: Mapping[str, Any]) -> dict[str, Any]:
    """kube-proxy's configuration with the manifest's networks and mode. Its connection table is left alone, as in the comparison."""
    made = _overlaid(found, {field: wanted[field] for field in ("clusterCIDR", "ipvs") if field in wanted})
    mode = wanted.get("mode", "")
    return made if (found.get("mode") or "") == mode else {**made, "mode": mode}


def merged_cluster_configuration(manifest: Manifest, document: Document) -> Document:
    """The document with everything that the manifest decides about. Where data are is not among it: elsewhere a member would begin anew without them."""
    wanted = cluster_configuration(manifest)
    made = converted(document, V1BETA4)
    for field in ("controlPlaneEndpoint", *_OPTIONAL):
        made = _set(made, field, wanted.get(field))
    for part, field in (("dns", "imageRepository"), ("proxy", "disabled")):
        made = _set(made, part, _set(made.get(part) or {}, field, (wanted.get(part) or {}).get(field)) or None)
    for part, component in _PARTS.items():
        made[part] = _merged_part(component, made.get(part) or {}, wanted[part])
    etcd = made.get("etcd") or {}
    found = etcd.get("local") or {}
    local = _set(_merged_part("etcd", found, wanted["etcd"]["local"]), "imageRepository", None)
    return {**made, "etcd": {**etcd, "local": {**local, "dataDir": found.get("dataDir") or local["dataDir"]}}}


def merged_kubelet_configuration(wanted: Mapping[str, Any], found: Mapping[str, Any]) -> dict[str, Any]:
    """The kubelets' configuration with what the manifest says, and without what it might say and does not."""
    kept = {field: value for field, value in found.items() if field not in FIELDS or field in wanted}
    whole = {field: wanted[field] for field in FIELDS if field in wanted}
    return {**_overlaid(kept, {field: value for field, value in wanted.items() if field not in FIELDS}), **whole}


def _merged_part(component: str, found: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Flags are the manifest's, but for those that are kubeadm's own to set, and those that say where data are; mounts and variables of others stay."""
    made = {**found, **wanted}
    places = PLACES.get(component, frozenset())
    theirs = KUBEADMS[component] | IGNORED.get(component, {}).keys() | places
    ours = [each for each in wanted.get("extraArgs") or () if flag_name(each["name"]) not in places]
    named = {flag_name(each["name"]) for each in ours}
    kept = [each for each in found.get("extraArgs") or () if flag_name(each["name"]) in theirs - named]
    made["extraArgs"] = sorted([*kept, *ours], key=lambda each: str(each["name"]))
    for field in ("extraVolumes", "extraEnvs"):
        named = {each["name"] for each in wanted.get(field) or ()}
        if both := [*(each for each in found.get(field) or () if each["name"] not in named), *(wanted.get(field) or ())]:
            made[field] = both
    return made


def _overlaid(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Objects are merged at every depth; anything else is replaced."""
    made = dict(found)
    for field, value in wanted.items():
        made[field] = _overlaid(found.get(field) or {}, value) if isinstance(value, dict) else value
    return made


def _set(document: Mapping[str, Any], field: str, value: Any) -> dict[str, Any]:
    made = {name: member for name, member in document.items() if name != field}
    return made if value is None else {**made, field: value}


async def _data(api: Client, name: str) -> Any:
    try:
        return await api.get(CONFIG_MAPS, name, NAMESPACE)
    except NotFound:
        return Absent()


async def _write(api: Client, name: str, key: str, stored: Any, change: Any) -> None:
    """Change the document under a key of a ConfigMap."""
    try:
        found = documents.load(stored.data.get(key, "")) or {}
    except documents.NotADocument as error:
        found = error
    if not isinstance(found, dict):
        raise StepFailed(
            WHERE, f"the key {key} of ConfigMap {NAMESPACE}/{name} cannot be read", "Correct it by hand, then run the same command again"
        )
    if (changed := change(found)) != found:
        patch = {"metadata": {"resourceVersion": stored.metadata.resource_version}, "data": {key: yaml_documents(changed).decode()}}
        await api.merge_patch(CONFIG_MAPS, name, patch, NAMESPACE)
