"""What is wrong with the networks of a manifest: subnets, families of addresses, the network plugin, kube-proxy, the API endpoint and proxies."""

from __future__ import annotations

import re
from collections import Counter
from urllib.parse import urlsplit

from quorate.hosts.manifest.fields import APIEndpoint, Manifest
from quorate.hosts.manifest.findings import Findings, child, item
from quorate.hosts.manifest.host_validation import MAX_PORT, validate_port
from quorate.hosts.manifest.names import Network, address, dialled, dns_name, network
from quorate.hosts.manifest.network_fields import CNI, Cilium, ClusterNetwork, IPFamily, KubeProxyReplacement, Proxy

_PATH = "clusterNetwork"
_PORT_RANGE = re.compile(r"([0-9]{1,5})-([0-9]{1,5})")
_MOST_NODE_BITS = 16  # kube-controller-manager refuses a node mask more than 16 bits longer than the Pods' subnet
_DUAL_STACK_CLOUDS = {"aws", "vsphere", "none"}


def validate_network(manifest: Manifest, findings: Findings) -> None:
    """Note what is wrong with the networks of a manifest whose defaults are filled in."""
    cluster_network = manifest.cluster_network
    _validate_family(manifest, findings)
    _validate_subnets(manifest, findings)
    _validate_node_ports(cluster_network.node_port_range, findings)
    if problem := dns_name(cluster_network.service_domain_name):
        findings.wrong(child(_PATH, "serviceDomainName"), problem)
    _validate_plugin(manifest, findings)
    if cluster_network.kube_proxy.ipvs is not None and cluster_network.kube_proxy.iptables is not None:
        findings.wrong(child(_PATH, "kubeProxy"), "has both ipvs and iptables; keep one of them")
    _validate_endpoint(manifest.api_endpoint, findings)
    _validate_proxy(manifest.proxy, findings)


def _validate_family(manifest: Manifest, findings: Findings) -> None:
    family, where = manifest.cluster_network.ip_family, child(_PATH, "ipFamily")
    if family in (IPFamily.IPV6, IPFamily.IPV6_IPV4):
        findings.wrong(where, f"{family.value} is not supported, as in KubeOne; use IPv4 or IPv4+IPv6")
    elif family is IPFamily.IPV4_IPV6 and not _DUAL_STACK_CLOUDS.issuperset(manifest.cloud_provider.chosen):
        findings.wrong(where, f"{family.value} needs the cloud aws, vsphere or none; use IPv4")


def _validate_subnets(manifest: Manifest, findings: Findings) -> None:
    cluster_network = manifest.cluster_network
    families = [
        (
            4,
            "",
            cluster_network.pod_subnet,
            cluster_network.service_subnet,
            "nodeCIDRMaskSizeIPv4",
            cluster_network.node_cidr_mask_size_ipv4,
        ),
        (
            6,
            "IPv6",
            cluster_network.pod_subnet_ipv6,
            cluster_network.service_subnet_ipv6,
            "nodeCIDRMaskSizeIPv6",
            cluster_network.node_cidr_mask_size_ipv6,
        ),
    ]
    wanted = ((4,) if cluster_network.has_ipv4 else ()) + ((6,) if cluster_network.has_ipv6 else ())
    for version, suffix, pods, services, mask_key, mask in families:
        if version not in wanted:
            continue
        pod_network = _subnet(pods, version, child(_PATH, f"podSubnet{suffix}"), findings)
        service_network = _subnet(services, version, child(_PATH, f"serviceSubnet{suffix}"), findings)
        if pod_network and service_network and pod_network.overlaps(service_network):
            findings.wrong(
                child(_PATH, f"serviceSubnet{suffix}"), f"{services} overlaps the Pods' {pods}; choose subnets that share no address"
            )
        if pod_network and mask is not None:
            _validate_mask(mask, pod_network, child(_PATH, mask_key), findings)
        for subnet in (pod_network, service_network):
            if subnet is not None:
                _look_for_hosts(manifest, subnet, findings)


def _subnet(text: str, version: int, path: str, findings: Findings) -> Network | None:
    found = network(text)
    if found is None or found.version != version:
        example = "10.244.0.0/16" if version == 4 else "fd01::/48"
        findings.wrong(path, f"{text} is not an IPv{version} subnet such as {example}")
        return None
    return found


def _validate_mask(mask: int, pods: Network, path: str, findings: Findings) -> None:
    if not pods.prefixlen < mask <= pods.max_prefixlen:
        findings.wrong(path, f"{mask} must be longer than the mask of the Pods' {pods}, and at most {pods.max_prefixlen}")
    elif mask - pods.prefixlen > _MOST_NODE_BITS:
        findings.wrong(
            path,
            f"{mask} is more than {_MOST_NODE_BITS} bits longer than the mask of the Pods' {pods}, which kube-controller-manager refuses",
        )


def _look_for_hosts(manifest: Manifest, subnet: Network, findings: Findings) -> None:
    inside = [host.private_address for host in manifest.hosts if (ip := address(host.private_address)) and ip in subnet]
    if inside:
        findings.tell(_PATH, f"the cluster's subnet {subnet} holds the addresses of hosts ({', '.join(inside)}), which Pods will not reach")


def _validate_node_ports(text: str, findings: Findings) -> None:
    where, match = child(_PATH, "nodePortRange"), _PORT_RANGE.fullmatch(text)
    if match is None or not 1 <= int(match[1]) <= int(match[2]) <= MAX_PORT:
        findings.wrong(where, f"{text} is not a range of ports such as 30000-32767")


def _validate_plugin(manifest: Manifest, findings: Findings) -> None:
    cni, where = manifest.cluster_network.cni or CNI(), child(_PATH, "cni")
    if len(cni.chosen) != 1:
        findings.wrong(
            where, f"names {' and '.join(cni.chosen) or 'no network plugin'}; name exactly one, or `external: {{}}` for your own"
        )
    if cni.canal is not None and cni.canal.mtu < 0:
        findings.wrong(child(child(where, "canal"), "mtu"), f"{cni.canal.mtu} is below 0")
    if cni.cilium is not None:
        _validate_cilium(cni.cilium, manifest.cluster_network, child(where, "cilium"), findings)


def _validate_cilium(cilium: Cilium, cluster_network: ClusterNetwork, path: str, findings: Findings) -> None:
    replaces = cilium.kube_proxy_replacement is KubeProxyReplacement.STRICT
    if replaces and not cluster_network.kube_proxy.skip_installation:
        findings.wrong(child(path, "kubeProxyReplacement"), "needs clusterNetwork.kubeProxy.skipInstallation: true, or both would run")
    for key, on in (("enableGatewayAPI", cilium.enable_gateway_api), ("enableLocalRedirectPolicy", cilium.enable_local_redirect_policy)):
        if on and not replaces:
            findings.wrong(child(path, key), "needs kubeProxyReplacement: strict")


def _validate_endpoint(endpoint: APIEndpoint, findings: Findings) -> None:
    if endpoint.host and (problem := dialled(endpoint.host)):
        findings.wrong("apiEndpoint.host", problem)
    validate_port(endpoint.port, "apiEndpoint.port", findings)
    names = Counter(name.lower() for name in endpoint.alternative_names)
    for index, name in enumerate(endpoint.alternative_names):
        where = item("apiEndpoint.alternativeNames", index)
        if problem := dialled(name.removeprefix("*.")):
            findings.wrong(where, problem)
        if names[name.lower()] > 1:
            findings.wrong(where, f"{name} is there {names[name.lower()]} times; once is enough")


def _validate_proxy(proxy: Proxy, findings: Findings) -> None:
    """No message quotes a proxy's URL: it may hold a password."""
    for key, url in (("http", proxy.http), ("https", proxy.https)):
        if url and not _is_proxy(url):
            findings.wrong(child("proxy", key), "is not a URL of a proxy such as http://proxy.example.com:3128")


def _is_proxy(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
