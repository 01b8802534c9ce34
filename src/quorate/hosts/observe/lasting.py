"""Differences of joined hosts, and of the cluster, from the manifest that no step changes: each sentence says what its reader can do.

Pure. What could not be read is no difference.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from quorate.core.health import Absent, Unknown
from quorate.core.text import printable
from quorate.hosts.manifest import Host, Manifest
from quorate.hosts.observe.api import ApiReading
from quorate.hosts.observe.endpoint import address_of, server_of_kube_proxy
from quorate.hosts.observe.flags import parsed
from quorate.hosts.observe.kernel import lasting_kernel_drift
from quorate.hosts.observe.values import differ, difference
from quorate.hosts.probe.facts import HostFacts, Kubeconfig
from quorate.hosts.render.kubeadm_configuration import control_plane_endpoint, node_address
from quorate.workload import coredns, kube_proxy
from quorate.workload.images import Image
from quorate.workload.static_pods import NAMESPACE
from quorate.workload.updates import CannotUpdate

_KUBECONFIGS = {"admin": "", "super-admin": "", "kubelet": ", then restart the kubelet"}
"""Those whose server is the cluster's endpoint, and what a change of it needs. The other components ask the API server of their own host."""
_CAS = ("ca", "front-proxy-ca", "etcd/ca")


def lasting_drift(manifest: Manifest, host: Host, facts: HostFacts, *, control_plane: bool) -> tuple[str, ...]:
    """Of one host; nothing of one that has not joined, which is given all of it when it joins."""
    if isinstance(facts.kubeconfigs["kubelet"], Absent):
        return ()
    found = (
        *_servers(manifest, host, facts, control_plane=control_plane),
        *_cloud_provider(manifest, facts),
        *_cas(manifest, facts),
        *lasting_kernel_drift(manifest, facts),
    )
    return tuple(map(printable, found))


def lasting_configuration_drift(manifest: Manifest, api: ApiReading | Unknown | Absent) -> tuple[str, ...]:
    """Of what runs in the cluster."""
    return tuple(map(printable, (*_kube_proxy(manifest, api), *_core_dns(api)))) if isinstance(api, ApiReading) else ()


# A host.


def _servers(manifest: Manifest, host: Host, facts: HostFacts, *, control_plane: bool) -> Iterator[str]:
    wanted = _endpoint(manifest)
    own = {node_address(manifest, host), *(facts.addresses if isinstance(facts.addresses, frozenset) else ())}
    for name, then in _KUBECONFIGS.items():
        kubeconfig = facts.kubeconfigs[name]
        if not isinstance(kubeconfig, Kubeconfig) or not _is_another(kubeconfig.server, wanted):
            continue
        if name == "kubelet" and control_plane and address_of(kubeconfig.server) in own:
            continue  # of a control plane kubeadm 1.33 and later point it to the API server beside it
        yield (
            f"{name}.conf: its server {difference(kubeconfig.server, wanted)}, the manifest's apiEndpoint: "
            f"set it in /etc/kubernetes/{name}.conf{then}"
        )


def _cloud_provider(manifest: Manifest, facts: HostFacts) -> Iterator[str]:
    if isinstance(facts.kubelet_flags, Absent | Unknown):
        return
    try:
        found = parsed(shlex.split(facts.kubelet_flags)).get("cloud-provider")
    except ValueError:  # a quote without its end: nothing can be told of them
        return
    wanted = "external" if manifest.cloud_provider.external else None
    if differ(found, wanted):
        yield (
            f"kubelet: --cloud-provider {difference(found, wanted)}, as cloudProvider.external has it: a host gets it when it joins; change it in "
            "/var/lib/kubelet/kubeadm-flags.env and restart the kubelet, or reset the host and have it join again"
        )


def _cas(manifest: Manifest, facts: HostFacts) -> Iterator[str]:
    """To the day: kubeadm dates them back by some minutes."""
    wanted = manifest.certificate_authority.ca_certificate_validity_period
    if wanted is None:
        return
    for name in _CAS:
        chain = facts.certificates[name]
        if isinstance(chain, Absent | Unknown):
            continue
        days = (chain[0].not_after - chain[0].not_before).days
        if days != wanted.days:
            yield f"{name}.crt: is valid for {days} days instead of {wanted.days}: a CA is made once; set caCertificateValidityPeriod back"


# The cluster.


def _kube_proxy(manifest: Manifest, api: ApiReading) -> Iterator[str]:
    skipped = manifest.cluster_network.kube_proxy.skip_installation
    match api.kube_proxy_pods:
        case Mapping() if skipped:
            yield (
                "kube-proxy: it runs, and the manifest's skipInstallation leaves it out: when what takes its place serves, "
                f"`kubectl -n {NAMESPACE} delete daemonset,configmap kube-proxy`; its rules go with the next boot of each host"
            )
        case Absent() if not skipped:
            yield f"kube-proxy: it is missing; {_installing('kube-proxy')}, or set clusterNetwork.kubeProxy.skipInstallation"
        case Mapping() as pods:
            yield from _incomparable("kube-proxy", f"DaemonSet {NAMESPACE}/{kube_proxy.NAME}", pods)
            yield from _server_of_kube_proxy(manifest, api)


def _server_of_kube_proxy(manifest: Manifest, api: ApiReading) -> Iterator[str]:
    server = server_of_kube_proxy(api)  # of somebody else's making nothing is told
    if _is_another(server, wanted := _endpoint(manifest)):
        yield (
            f"kube-proxy: its server {difference(server, wanted)}, the manifest's apiEndpoint: set it in the key kubeconfig.conf of ConfigMap "
            f"{NAMESPACE}/kube-proxy, then `kubectl -n {NAMESPACE} rollout restart daemonset kube-proxy`"
        )


def _core_dns(api: ApiReading) -> Iterator[str]:
    match api.core_dns:
        case Absent():
            yield f"CoreDNS: Deployment {NAMESPACE}/{coredns.NAME} is missing; {_installing('coredns')}"
        case Mapping() as deployment:
            yield from _incomparable(coredns.NAME, f"Deployment {NAMESPACE}/{coredns.NAME}", deployment)


def _installing(addon: str) -> str:
    return (
        f"`kubectl -n {NAMESPACE} get configmap kubeadm-config -o jsonpath='{{.data.ClusterConfiguration}}' >FILE` and "
        f"`kubeadm init phase addon {addon} --config FILE` on a control-plane host install it"
    )


def _incomparable(container: str, where: str, workload: Mapping[str, Any]) -> Iterator[str]:
    """An image is moved from one repository to another by its tag."""
    containers = workload["spec"]["template"]["spec"]["containers"]
    text = next((each.get("image", "") for each in containers if each["name"] == container), None)
    if text is None:
        yield f"{where}: has no container {container}, so that its image is not compared; call the container so"
        return
    try:
        image = Image.parse(text)
    except CannotUpdate as error:
        yield f"{where}: {error}"
        return
    if image.digest or not image.tag:
        yield f"{where}: its image {image} has {'a digest' if image.digest else 'no tag'}, and is not compared; name it by a tag alone"


# Servers.


def _endpoint(manifest: Manifest) -> str:
    return f"https://{control_plane_endpoint(manifest)}"


def _is_another(server: str, wanted: str) -> bool:
    return bool(server) and server.lower().rstrip("/") != wanted
