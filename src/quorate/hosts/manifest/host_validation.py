"""What is wrong with the hosts of a manifest, each by itself and beside the others.

Beyond KubeOne's own checks: hosts that appear twice, names that no Node can have, addresses that kubeadm refuses, and settings a kubelet does not start with.
"""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Iterator, Mapping

from quorate.hosts.manifest.fields import Manifest
from quorate.hosts.manifest.findings import Findings, child, item
from quorate.hosts.manifest.host_fields import Host, KubeletSettings, Taint, TaintEffect
from quorate.hosts.manifest.names import address, dialled, dns_name, label_key, label_value, public_key, quantity
from quorate.hosts.manifest.network_fields import ClusterNetwork, IPFamily
from quorate.pki.certificates import comparable

MASTER_TAINT = "node-role.kubernetes.io/master"
MAX_PORT = 65535


def validate_hosts(manifest: Manifest, findings: Findings) -> None:
    """Note what is wrong with any host of a manifest whose defaults are filled in."""
    located = list(_located(manifest))
    if not manifest.control_plane.hosts:
        findings.wrong("controlPlane.hosts", "names no host; a control plane has at least one")
    for path, host in located:
        _validate_host(host, manifest.cluster_network, path, findings)
    leaders = [path for path, host in located if host.is_leader and path.startswith("controlPlane")]
    for path in leaders[1:]:
        findings.wrong(child(path, "isLeader"), f"is true here and in {leaders[0]}; one host at most is the leader")
    _validate_distinct(located, findings)


def _located(manifest: Manifest) -> Iterator[tuple[str, Host]]:
    for index, host in enumerate(manifest.control_plane.hosts):
        yield item("controlPlane.hosts", index), host
    for index, host in enumerate(manifest.static_workers.hosts):
        yield item("staticWorkers.hosts", index), host


def _validate_distinct(located: list[tuple[str, Host]], findings: Findings) -> None:
    """No two hosts share a hostname, a private address, or the place that SSH connects to: a port of the public address, from the same bastion."""
    seen: dict[tuple[str, ...], str] = {}
    for path, host in located:
        identities = {
            "privateAddress": ("private", comparable(host.private_address)),
            "publicAddress": ("public", comparable(host.public_address), str(host.ssh_port)),
            "hostname": ("hostname", host.hostname.lower()),
        }
        for key, identity in identities.items():
            if not identity[1] or (key == "publicAddress" and host.public_address == host.private_address):
                continue  # an address that is both is told once
            first = seen.setdefault(identity, path)
            if first != path:
                findings.wrong(child(path, key), f"{identity[1]} is that of {first} as well; a host can be listed once")


def _validate_host(host: Host, network: ClusterNetwork, path: str, findings: Findings) -> None:
    if not host.public_address:
        findings.wrong(path, "has neither publicAddress nor privateAddress; give one at least")
    else:
        _note(dialled(host.public_address), child(path, "publicAddress"), findings)
        _validate_private_address(host, network, path, findings)
    if host.hostname:
        _note(dns_name(host.hostname), child(path, "hostname"), findings)
    _validate_ipv6_addresses(host, network, path, findings)
    _validate_ssh(host, path, findings)
    _validate_labels(host.labels, child(path, "labels"), findings, values=True)
    _validate_labels(host.annotations, child(path, "annotations"), findings, values=False)
    validate_taints(host.taints or (), child(path, "taints"), findings)
    validate_kubelet(host.kubelet, child(path, "kubelet"), findings)


def _validate_private_address(host: Host, network: ClusterNetwork, path: str, findings: Findings) -> None:
    """kubeadm's advertiseAddress and the kubelet's --node-ip are IP addresses of the cluster's first family."""
    where, ip = child(path, "privateAddress"), address(host.private_address)
    version = 6 if network.ip_family in (IPFamily.IPV6, IPFamily.IPV6_IPV4) else 4
    if ip is None:
        findings.wrong(where, f"{host.private_address} is not an IP address, and kubeadm needs one; resolve the name and give the address")
    elif ip.is_unspecified or ip.is_loopback or ip.is_multicast:
        findings.wrong(where, f"{host.private_address} is an address that other hosts cannot reach; give the one of the hosts' own network")
    elif ip.version != version:
        findings.wrong(
            where, f"{host.private_address} is not an IPv{version} address, and clusterNetwork.ipFamily is {network.ip_family.value}"
        )


def _validate_ipv6_addresses(host: Host, network: ClusterNetwork, path: str, findings: Findings) -> None:
    for index, text in enumerate(host.ipv6_addresses):
        if not isinstance(address(text), ipaddress.IPv6Address):
            findings.wrong(item(child(path, "ipv6Addresses"), index), f"{text} is not an IPv6 address")
    if network.has_ipv6 and not host.ipv6_addresses:
        findings.wrong(
            child(path, "ipv6Addresses"), f"is empty, and clusterNetwork.ipFamily is {network.ip_family.value}; give the host's address"
        )


def _validate_ssh(host: Host, path: str, findings: Findings) -> None:
    for key, port in (("sshPort", host.ssh_port), ("bastionPort", host.bastion_port)):
        validate_port(port, child(path, key), findings)
    if host.bastion:
        _note(dialled(host.bastion), child(path, "bastion"), findings)
    for key, value in (("sshHostPublicKey", host.ssh_host_public_key), ("bastionHostPublicKey", host.bastion_host_public_key)):
        if value:
            _note(public_key(value), child(path, key), findings)
    if host.ssh_cert_file and not host.ssh_private_key_file and not host.ssh_agent_socket:
        findings.wrong(child(path, "sshCertFile"), "needs the key that it certifies; give sshPrivateKeyFile or sshAgentSocket")


def validate_port(port: int, path: str, findings: Findings) -> None:
    """Note a number that no TCP port has."""
    if not 1 <= port <= MAX_PORT:
        findings.wrong(path, f"{port} is not a port; ports are 1 to {MAX_PORT}")


def _validate_labels(labels: Mapping[str, str], path: str, findings: Findings, *, values: bool) -> None:
    """A key that ends with `-` removes the label from the Node, as `kubectl label` has it."""
    for key, value in labels.items():
        where = child(path, key)
        _note(label_key(key.removesuffix("-")), where, findings)
        if key.endswith("-") and value:
            findings.wrong(where, "ends with '-', which removes it, and has a value; leave the value empty")
        elif values:
            _note(label_value(value), where, findings)


def validate_taints(taints: tuple[Taint, ...], path: str, findings: Findings) -> None:
    """Note taints that no Node can have, and those that have no effect any more."""
    for index, taint in enumerate(taints):
        where = item(path, index)
        _note(label_key(taint.key), child(where, "key"), findings)
        _note(label_value(taint.value), child(where, "value"), findings)
        if taint.effect is TaintEffect.UNSET:
            findings.wrong(child(where, "effect"), "is missing; it is NoSchedule, PreferNoSchedule or NoExecute")
        if taint.key == MASTER_TAINT:
            findings.wrong(
                child(where, "key"), f"{MASTER_TAINT} is gone since Kubernetes 1.25; it is node-role.kubernetes.io/control-plane"
            )
    for (key, effect), count in Counter((taint.key, taint.effect) for taint in taints).items():
        if count > 1:
            findings.wrong(path, f"has {key} with effect {effect.value} {count} times; once is what a Node can have")


def validate_kubelet(kubelet: KubeletSettings, path: str, findings: Findings) -> None:
    """Note settings that a kubelet does not start with."""
    for key, amounts in (("systemReserved", kubelet.system_reserved), ("kubeReserved", kubelet.kube_reserved)):
        for name, text in amounts.items():
            _note(quantity(text), child(child(path, key), name), findings)
    for name, text in kubelet.eviction_hard.items():
        _note(quantity(text, percentage=True), child(child(path, "evictionHard"), name), findings)
    if kubelet.max_pods is not None and kubelet.max_pods <= 0:
        findings.wrong(child(path, "maxPods"), f"{kubelet.max_pods} is too few; give 1 at least, or remove it")
    _validate_image_collection(kubelet, path, findings)


def _validate_image_collection(kubelet: KubeletSettings, path: str, findings: Findings) -> None:
    high, low = kubelet.image_gc_high_threshold_percent, kubelet.image_gc_low_threshold_percent
    for key, percent in (("imageGCHighThresholdPercent", high), ("imageGCLowThresholdPercent", low)):
        if percent is not None and not 0 <= percent <= 100:
            findings.wrong(child(path, key), f"{percent} is not a percentage from 0 to 100")
    high, low = 85 if high is None else high, 80 if low is None else low  # the kubelet's defaults
    if low >= high and (kubelet.image_gc_low_threshold_percent, kubelet.image_gc_high_threshold_percent) != (None, None):
        findings.wrong(
            child(path, "imageGCLowThresholdPercent"), f"{low} is not below the high threshold, {high}; the kubelet does not start so"
        )
    for key, age in (("imageMinimumGCAge", kubelet.image_minimum_gc_age), ("imageMaximumGCAge", kubelet.image_maximum_gc_age)):
        if age.total_seconds() < 0:
            findings.wrong(child(path, key), "is below 0")


def _note(problem: str, path: str, findings: Findings) -> None:
    if problem:
        findings.wrong(path, problem)
