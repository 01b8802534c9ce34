"""How the configurations that kubeadm keeps in the cluster, and its CoreDNS, differ from what the manifest would make now. Pure.

Only what the manifest decides about is compared; the Kubernetes version is not, which an upgrade changes. What cannot be changed in a cluster that runs, its
name and its networks, is a problem and not a difference: whoever changed it has the wrong manifest, or needs another cluster.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from quorate.core import documents
from quorate.core.health import Absent, Unknown
from quorate.core.text import printable
from quorate.core.versions import Version, parse_or_none
from quorate.hosts.manifest import Manifest
from quorate.hosts.observe.api import ApiReading
from quorate.hosts.observe.core_dns import core_dns_differences
from quorate.hosts.observe.flags import arguments, flag_differences
from quorate.hosts.observe.known_flags import PLACES
from quorate.hosts.observe.kubelet import kubelet_differences
from quorate.hosts.observe.kubelet import read as read_kubelet
from quorate.hosts.observe.values import differ, difference
from quorate.hosts.render.component_configurations import kube_proxy_configuration, kubelet_configuration
from quorate.hosts.render.kubeadm_configuration import cluster_configuration, image_repository
from quorate.kubeadm.cluster_configuration import V1BETA4, Document, converted, decode
from quorate.workload.kube_proxy import image_of, moved_image
from quorate.workload.updates import CannotUpdate

_DEFAULTS = {
    "imageRepository": "registry.k8s.io",
    "certificateValidityPeriod": "8760h0m0s",
    "caCertificateValidityPeriod": "87600h0m0s",
}
"""What kubeadm writes where nothing was asked for: it says the same as nothing."""
_COMPONENTS = {"apiServer": "kube-apiserver", "controllerManager": "kube-controller-manager", "scheduler": "kube-scheduler"}
_NETWORKS = ("podSubnet", "serviceSubnet", "dnsDomain")


def running_version(api: ApiReading | Unknown | Absent) -> Version | None:
    """The version that kubeadm's configuration in the cluster names; None where it is not known."""
    document = _cluster_document(api)
    return parse_or_none(str(document.get("kubernetesVersion", ""))) if document is not None else None


def etcd_data_folder(api: ApiReading | Unknown | Absent) -> str | None:
    """Where kubeadm's configuration in the cluster has etcd's data; None where it does not say."""
    here: object = _cluster_document(api)
    for key in ("etcd", "local", "dataDir"):
        here = here.get(key) if isinstance(here, Mapping) else None
    return here if isinstance(here, str) and here else None


def configuration_drift(manifest: Manifest, api: ApiReading | Unknown | Absent) -> tuple[str, ...]:
    """In what kubeadm's and the kubelets' configurations differ, each as a sentence. Nothing where they could not be read: that says nothing about them."""
    if not isinstance(api, ApiReading):
        return ()
    return tuple(map(printable, (*_of_cluster(manifest, api), *_of_kubelets(manifest, api))))


def addon_drift(manifest: Manifest, api: ApiReading | Unknown | Absent) -> tuple[str, ...]:
    """In what kube-proxy and CoreDNS differ, which nobody reads who joins."""
    if not isinstance(api, ApiReading):
        return ()
    found = (*_of_kube_proxy(manifest, api), *_of_kube_proxys_image(manifest, api), *core_dns_differences(manifest, api))
    return tuple(map(printable, found))


def fixed_problems(manifest: Manifest, api: ApiReading | Unknown | Absent) -> tuple[str, ...]:
    """What the manifest says otherwise than the cluster, and cannot be changed in it."""
    document = _cluster_document(api)
    if document is None:
        return ()
    wanted = cluster_configuration(manifest)
    has, wants = document.get("networking") or {}, wanted["networking"]
    pairs = {"the cluster's name": (document.get("clusterName"), wanted["clusterName"])}
    pairs |= {f"the cluster's {field}": (has.get(field), wants[field]) for field in _NETWORKS}
    return (*_pairs_apart(pairs), *_places_apart(document, wanted))


def _pairs_apart(pairs: Mapping[str, tuple[object, object]]) -> Iterator[str]:
    yield from (
        f"{what} is {found}, and the manifest says {wish}: it cannot be changed in a cluster that runs, so set it back in the manifest"
        for what, (found, wish) in pairs.items()
        if found and found != wish
    )


def _places_apart(document: Document, wanted: Document) -> Iterator[str]:
    """Flags that say where data are, and that the manifest wants otherwise than the cluster has them."""
    for component, path in {"kube-apiserver": ("apiServer",), "etcd": ("etcd", "local")}.items():
        has, wants = arguments(_below(document, path)), arguments(_below(wanted, path))
        for name in sorted(PLACES[component] & wants.keys()):
            if has.get(name) != wants[name]:
                found = has.get(name, "not there")
                yield (
                    f"the --{name} of {component} is {found}, and the manifest says {wants[name]}: it cannot be changed in a cluster that runs, since what is "
                    "stored would not be found, so set it back in the manifest"
                )


def _below(document: Document, path: tuple[str, ...]) -> Document:
    here: Any = document
    for key in path:
        here = here.get(key) or {}
    return here if isinstance(here, dict) else {}


def _cluster_document(api: ApiReading | Unknown | Absent) -> Document | None:
    if not isinstance(api, ApiReading) or not isinstance(api.kubeadm, Mapping):
        return None
    try:
        return converted(decode(api.kubeadm.get("ClusterConfiguration", "")), V1BETA4)
    except ValueError:
        return None


def _of_cluster(manifest: Manifest, api: ApiReading) -> Iterator[str]:
    if isinstance(api.kubeadm, Unknown):
        return
    found = _cluster_document(api)
    if found is None:
        yield "ClusterConfiguration: is missing or cannot be read"
        return
    wanted = cluster_configuration(manifest)
    for field in ("controlPlaneEndpoint", "imageRepository", "certificateValidityPeriod", "caCertificateValidityPeriod"):
        yield from _field("ClusterConfiguration", field, _told(field, found), _told(field, wanted))
    yield from _field("ClusterConfiguration", "dns.imageRepository", *(_at(each, "dns", "imageRepository") for each in (found, wanted)))
    yield from _field("ClusterConfiguration", "proxy.disabled", *(_at(each, "proxy", "disabled") for each in (found, wanted)))
    yield from _field("ClusterConfiguration", "apiServer.certSANs", *(_at(each, "apiServer", "certSANs") for each in (found, wanted)))
    for part, component in _COMPONENTS.items():
        yield from _part(component, found.get(part) or {}, wanted.get(part) or {})
    local, wanted_local = _at(found, "etcd", "local") or {}, wanted["etcd"]["local"]
    yield from _field(
        "ClusterConfiguration", "etcd.local.imageRepository", local.get("imageRepository"), wanted_local.get("imageRepository")
    )
    yield from _part("etcd", local, wanted_local)


def _part(component: str, found: Mapping[str, Any], wanted: Mapping[str, Any]) -> Iterator[str]:
    """Flags; and the mounts and variables that are wanted: others may be somebody else's."""
    yield from flag_differences(component, arguments(wanted), arguments(found))
    mounts = [(each.get("hostPath"), each.get("mountPath")) for each in found.get("extraVolumes") or ()]
    for volume in wanted.get("extraVolumes") or ():
        if (volume["hostPath"], volume["mountPath"]) not in mounts:
            yield f"{component}: {volume['hostPath']} is not mounted"
    variables = {each.get("name"): each.get("value") for each in found.get("extraEnvs") or ()}
    for each in wanted.get("extraEnvs") or ():
        yield from _field(component, each["name"], variables.get(each["name"]), each["value"])


def _of_kubelets(manifest: Manifest, api: ApiReading) -> Iterator[str]:
    if isinstance(api.kubelet, Unknown):
        return
    if isinstance(api.kubelet, Absent):
        yield "KubeletConfiguration: is missing"
        return
    try:
        found = read_kubelet(api.kubelet.get("kubelet", ""))
    except ValueError as error:
        yield f"KubeletConfiguration: {error}"
        return
    yield from kubelet_differences(kubelet_configuration(manifest), found)


def _of_kube_proxy(manifest: Manifest, api: ApiReading) -> Iterator[str]:
    """Its mode and its settings. Its connection table is left alone: KubeOne leaves it to kube-proxy, which does no harm."""
    wanted = kube_proxy_configuration(manifest)
    if wanted is None or not isinstance(api.kube_proxy, Mapping):
        return
    try:
        found = documents.load(api.kube_proxy.get("config.conf", ""))
    except documents.NotADocument:
        found = None
    if not isinstance(found, dict):
        yield "KubeProxyConfiguration: cannot be read"
        return
    yield from _field("kube-proxy", "clusterCIDR", found.get("clusterCIDR"), wanted["clusterCIDR"])
    yield from _field("kube-proxy", "mode", found.get("mode") or "iptables", wanted.get("mode") or "iptables")
    for name, value in (wanted.get("ipvs") or {}).items():
        yield from _field("kube-proxy", f"ipvs.{name}", (found.get("ipvs") or {}).get(name), value)


def _of_kube_proxys_image(manifest: Manifest, api: ApiReading) -> Iterator[str]:
    """Its repository: its version follows that of the cluster. One that has a digest is not compared (`observe.lasting`)."""
    if manifest.cluster_network.kube_proxy.skip_installation or not isinstance(api.kube_proxy_pods, Mapping):
        return
    with suppress(CannotUpdate):
        current = image_of(api.kube_proxy_pods)
        if current is not None and (wanted := moved_image(current, image_repository(manifest))) != current:
            yield f"kube-proxy: image {difference(str(current), str(wanted))}"


def _field(where: str, path: str, found: Any, wanted: Any) -> Iterator[str]:
    if differ(found, wanted):
        yield f"{where}: {path} {difference(found, wanted)}"


def _told(field: str, document: Mapping[str, Any]) -> Any:
    return document.get(field) or _DEFAULTS.get(field)


def _at(document: Mapping[str, Any], part: str, field: str) -> Any:
    return (document.get(part) or {}).get(field)
