"""Every rule for a manifest has a case that breaks it and one beside it that keeps it."""

from __future__ import annotations

import base64
import datetime as dt
import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from quorate.hosts.manifest import ManifestError, parse
from quorate.hosts.manifest.encryption import kms_endpoints, problems_of
from quorate.hosts.manifest.unsupported import UNSUPPORTED
from quorate.hosts.manifest.values import Secret
from quorate.hosts.render.feature_contents import read as read_contents
from tests.core.test_text import BOMB
from tests.hosts.manifests import PUBLIC_KEY, SMALLEST, changed, document, load, notices, problems, put

HOST = "controlPlane.hosts.0"
LONG = "a" * 64


def shown(path: str) -> str:
    """The path as mistakes have it, with indices in brackets."""
    parts = path.split(".")
    return ".".join(parts[:1]) + "".join(f"[{part}]" if part.isdigit() else f".{part}" for part in parts[1:])


@pytest.mark.parametrize(
    ("path", "value", "where", "expected"),
    [
        ("name", None, "name", "is missing; give the cluster a name"),
        ("name", "", "name", "is missing; give the cluster a name"),
        ("name", "Demo", "name", "Demo has capitals; Kubernetes accepts demo"),
        ("name", "de_mo", "name", "de_mo is not a DNS name"),
        ("name", "-a", "name", "-a is not a DNS name"),
        ("name", LONG, "name", "is not a DNS name"),
        ("name", ".".join(["a" * 60] * 5), "name", "is not a DNS name"),
        ("versions.kubernetes", None, "versions.kubernetes", "is missing; give a version such as 1.34.4"),
        ("versions.kubernetes", "1.34", "versions.kubernetes", "1.34 is not a version such as 1.34.4, with all three numbers"),
        ("versions.kubernetes", "latest", "versions.kubernetes", "latest is not a version"),
        ("versions.kubernetes", "1.30.9", "versions.kubernetes", "1.30.9 is older than 1.31.0"),
        ("versions.kubernetes", "1.34.4-eks-1", "versions.kubernetes", "1.34.4-eks-1 is a version of Amazon EKS"),
        ("controlPlane.hosts", [], "controlPlane.hosts", "names no host"),
        ("controlPlane", None, "controlPlane.hosts", "names no host"),
        (HOST, {"hostname": "a"}, HOST, "has neither publicAddress nor privateAddress"),
        (f"{HOST}.publicAddress", "a b", f"{HOST}.publicAddress", "a b is neither an IP address nor a DNS name"),
        (f"{HOST}.publicAddress", "192.0.2.300", f"{HOST}.publicAddress", "192.0.2.300 is not an IP address"),
        (f"{HOST}.publicAddress", "192.0.2.0/24", f"{HOST}.publicAddress", "192.0.2.0/24 is neither"),
        (
            f"{HOST}.privateAddress",
            "node.example.com",
            f"{HOST}.privateAddress",
            "node.example.com is not an IP address, and kubeadm needs one",
        ),
        (f"{HOST}.privateAddress", "127.0.0.1", f"{HOST}.privateAddress", "127.0.0.1 is an address that other hosts cannot reach"),
        (f"{HOST}.privateAddress", "0.0.0.0", f"{HOST}.privateAddress", "0.0.0.0 is an address that other hosts cannot reach"),
        (f"{HOST}.privateAddress", "224.0.0.1", f"{HOST}.privateAddress", "224.0.0.1 is an address that other hosts cannot reach"),
        (f"{HOST}.privateAddress", "2001:db8::1", f"{HOST}.privateAddress", "2001:db8::1 is not an IPv4 address"),
        (f"{HOST}.ipv6Addresses", ["10.0.0.1"], f"{HOST}.ipv6Addresses.0", "10.0.0.1 is not an IPv6 address"),
        (f"{HOST}.hostname", "Node-1", f"{HOST}.hostname", "Node-1 has capitals; Kubernetes accepts node-1"),
        (f"{HOST}.hostname", "node_1", f"{HOST}.hostname", "node_1 is not a DNS name"),
        (f"{HOST}.sshPort", 65536, f"{HOST}.sshPort", "65536 is not a port"),
        (f"{HOST}.sshPort", -1, f"{HOST}.sshPort", "-1 is not a port"),
        (f"{HOST}.bastionPort", 70000, f"{HOST}.bastionPort", "70000 is not a port"),
        (f"{HOST}.bastion", "a b", f"{HOST}.bastion", "a b is neither"),
        (f"{HOST}.sshHostPublicKey", "aGVsbG8=", f"{HOST}.sshHostPublicKey", "is not an SSH public key"),
        (f"{HOST}.bastionHostPublicKey", "aGVsbG8=", f"{HOST}.bastionHostPublicKey", "is not an SSH public key"),
        (f"{HOST}.labels", {"a/b/c": "x"}, f"{HOST}.labels.a/b/c", "is not a label key"),
        (f"{HOST}.labels", {"_a": "x"}, f"{HOST}.labels._a", "is not a label key"),
        (f"{HOST}.labels", {LONG: "x"}, f"{HOST}.labels.{LONG}", "is not a label key"),
        (f"{HOST}.labels", {"a": "x y"}, f"{HOST}.labels.a", "is not a label value"),
        (f"{HOST}.labels", {"a": LONG}, f"{HOST}.labels.a", "is not a label value"),
        (f"{HOST}.labels", {"a-": "x"}, f"{HOST}.labels.a-", "ends with '-', which removes it, and has a value"),
        (f"{HOST}.annotations", {"a-": "x"}, f"{HOST}.annotations.a-", "ends with '-', which removes it, and has a value"),
        (f"{HOST}.annotations", {"a b": "x"}, f"{HOST}.annotations.a b", "is not a label key"),
        (f"{HOST}.taints", [{"effect": "NoSchedule"}], f"{HOST}.taints.0.key", "is not a label key"),
        (f"{HOST}.taints", [{"key": "a"}], f"{HOST}.taints.0.effect", "is missing; it is NoSchedule"),
        (f"{HOST}.taints", [{"key": "a", "effect": "NoExec"}], f"{HOST}.taints.0.effect", "did you mean NoExecute?"),
        (f"{HOST}.taints", [{"key": "a", "value": "x y", "effect": "NoSchedule"}], f"{HOST}.taints.0.value", "is not a label value"),
        (f"{HOST}.taints", [{"key": "a", "effect": "NoSchedule"}] * 2, f"{HOST}.taints", "has a with effect NoSchedule 2 times"),
        (
            f"{HOST}.taints",
            [{"key": "node-role.kubernetes.io/master", "effect": "NoSchedule"}],
            f"{HOST}.taints.0.key",
            "is gone since Kubernetes 1.25",
        ),
        (f"{HOST}.kubelet", {"maxPods": 0}, f"{HOST}.kubelet.maxPods", "0 is too few"),
        (f"{HOST}.kubelet", {"systemReserved": {"cpu": "lots"}}, f"{HOST}.kubelet.systemReserved.cpu", "is not an amount"),
        (f"{HOST}.kubelet", {"kubeReserved": {"cpu": "5%"}}, f"{HOST}.kubelet.kubeReserved.cpu", "is not an amount"),
        (
            "kubeletConfig",
            {"evictionHard": {"memory": "500%"}},
            "kubeletConfig.evictionHard.memory",
            "is not an amount such as 200m or 100Mi or 5%",
        ),
        ("kubeletConfig", {"imageGCHighThresholdPercent": 101}, "kubeletConfig.imageGCHighThresholdPercent", "101 is not a percentage"),
        ("kubeletConfig", {"imageGCLowThresholdPercent": -1}, "kubeletConfig.imageGCLowThresholdPercent", "-1 is not a percentage"),
        (
            "kubeletConfig",
            {"imageGCLowThresholdPercent": 85},
            "kubeletConfig.imageGCLowThresholdPercent",
            "85 is not below the high threshold, 85",
        ),
        (
            "kubeletConfig",
            {"imageGCHighThresholdPercent": 70},
            "kubeletConfig.imageGCLowThresholdPercent",
            "80 is not below the high threshold, 70",
        ),
        ("kubeletConfig", {"imageMinimumGCAge": "-1m"}, "kubeletConfig.imageMinimumGCAge", "is below 0"),
        ("apiEndpoint.host", "a b", "apiEndpoint.host", "a b is neither an IP address nor a DNS name"),
        ("apiEndpoint.host", "https://a", "apiEndpoint.host", "https://a is neither"),
        ("apiEndpoint.port", 65536, "apiEndpoint.port", "65536 is not a port"),
        ("apiEndpoint.port", -1, "apiEndpoint.port", "-1 is not a port"),
        ("apiEndpoint.alternativeNames", ["a", "b", "A"], "apiEndpoint.alternativeNames.0", "a is there 2 times"),
        ("apiEndpoint.alternativeNames", ["a b"], "apiEndpoint.alternativeNames.0", "a b is neither"),
        ("cloudProvider", {}, "cloudProvider", "names no provider; name exactly one"),
        ("cloudProvider", {"aws": None}, "cloudProvider", "names no provider; name exactly one, with {} after it"),
        ("cloudProvider", {"aws": {}, "gce": {}}, "cloudProvider", "names aws and gce; name exactly one"),
        ("cloudProvider", {"vmwareCloudDirector": {}, "external": True}, "cloudProvider.external", "has no cloud controller manager"),
        ("clusterNetwork.ipFamily", "IPv6", "clusterNetwork.ipFamily", "IPv6 is not supported"),
        ("clusterNetwork.ipFamily", "IPv6+IPv4", "clusterNetwork.ipFamily", "IPv6+IPv4 is not supported"),
        ("clusterNetwork.podSubnet", "10.244.0.0", "clusterNetwork.podSubnet", "10.244.0.0 is not an IPv4 subnet"),
        ("clusterNetwork.podSubnet", "fd01::/48", "clusterNetwork.podSubnet", "fd01::/48 is not an IPv4 subnet"),
        ("clusterNetwork.serviceSubnet", "x", "clusterNetwork.serviceSubnet", "x is not an IPv4 subnet"),
        ("clusterNetwork.serviceSubnet", "10.244.8.0/24", "clusterNetwork.serviceSubnet", "10.244.8.0/24 overlaps the Pods' 10.244.0.0/16"),
        ("clusterNetwork.nodeCIDRMaskSizeIPv4", 16, "clusterNetwork.nodeCIDRMaskSizeIPv4", "16 must be longer than the mask"),
        ("clusterNetwork.nodeCIDRMaskSizeIPv4", 33, "clusterNetwork.nodeCIDRMaskSizeIPv4", "33 must be longer than the mask"),
        ("clusterNetwork.nodePortRange", "30000", "clusterNetwork.nodePortRange", "30000 is not a range of ports"),
        ("clusterNetwork.nodePortRange", "32767-30000", "clusterNetwork.nodePortRange", "32767-30000 is not a range of ports"),
        ("clusterNetwork.nodePortRange", "30000-99999", "clusterNetwork.nodePortRange", "30000-99999 is not a range of ports"),
        ("clusterNetwork.serviceDomainName", "Cluster.local", "clusterNetwork.serviceDomainName", "Cluster.local has capitals"),
        ("clusterNetwork.cni", {}, "clusterNetwork.cni", "names no network plugin"),
        ("clusterNetwork.cni", {"external": {}, "cilium": {}}, "clusterNetwork.cni", "names cilium and external; name exactly one"),
        (
            "clusterNetwork.cni",
            {"cilium": {"kubeProxyReplacement": "strict"}},
            "clusterNetwork.cni.cilium.kubeProxyReplacement",
            "needs clusterNetwork.kubeProxy.skipInstallation: true",
        ),
        (
            "clusterNetwork.cni",
            {"cilium": {"enableGatewayAPI": True}},
            "clusterNetwork.cni.cilium.enableGatewayAPI",
            "needs kubeProxyReplacement",
        ),
        (
            "clusterNetwork.cni",
            {"cilium": {"enableLocalRedirectPolicy": True}},
            "clusterNetwork.cni.cilium.enableLocalRedirectPolicy",
            "needs kubeProxyReplacement",
        ),
        ("clusterNetwork.kubeProxy", {"ipvs": {}, "iptables": {}}, "clusterNetwork.kubeProxy", "has both ipvs and iptables"),
        ("proxy", {"http": "proxy:3128"}, "proxy.http", "is not a URL of a proxy"),
        ("proxy", {"https": "socks5://a"}, "proxy.https", "is not a URL of a proxy"),
        ("proxy", {"https": "http://[a"}, "proxy.https", "is not a URL of a proxy"),
        ("proxy", {"https": "http://a:99999"}, "proxy.https", "is not a URL of a proxy"),
        (
            "containerRuntime.containerd.registries",
            {"_default": {}},
            "containerRuntime.containerd.registries._default",
            "is not a registry; write '*'",
        ),
        (
            "containerRuntime.containerd.registries",
            {"a/x": {}, "a/y": {}},
            "containerRuntime.containerd.registries.a/y",
            "is at the same host as a/x",
        ),
        (
            "registryConfiguration",
            {"insecureRegistry": True},
            "registryConfiguration.insecureRegistry",
            "has no effect without overwriteRegistry",
        ),
        (
            "containerRuntime.containerd.registries",
            {"../../ssl": {}},
            "containerRuntime.containerd.registries[../../ssl]",
            "is not a registry such as",
        ),
        (
            "containerRuntime.containerd.registries",
            {"a": {"mirrors": ["https://b/../c"]}},
            "containerRuntime.containerd.registries.a.mirrors[0]",
            "is not a mirror such as",
        ),
        (
            "containerRuntime.containerd.registries",
            {"a": {"auth": {"password": "hunter2\n"}}},
            "containerRuntime.containerd.registries.a.auth",
            "has a character that cannot be printed",
        ),
        ("containerRuntime.containerd", {"sandboxImage": "a b"}, "containerRuntime.containerd.sandboxImage", "is not an image such as"),
        ("registryConfiguration", {"overwriteRegistry": "a/../b"}, "registryConfiguration.overwriteRegistry", "is not a registry such as"),
        ("features.coreDNS", {"imageRepository": "$(x)"}, "features.coreDNS.imageRepository", "is not a registry such as"),
        ("controlPlaneComponents.apiServer.flags", {"v": "4\n- x"}, "controlPlaneComponents.apiServer.flags.v", "has a line break"),
        ("controlPlane.hosts.0.annotations", {"a": "b\u202ec"}, "controlPlane.hosts[0].annotations.a", "cannot be printed"),
        ("certificateAuthority.bundle", "x", "certificateAuthority.bundle", "is not a list of certificates as PEM"),
        ("caBundle", "x", "certificateAuthority.bundle", "is not a list of certificates as PEM"),
        ("certificateAuthority.file", "none.pem", "certificateAuthority.file", "cannot read /nowhere/none.pem: No such file"),
        ("certificateAuthority.certificateValidityPeriod", "0", "certificateAuthority.certificateValidityPeriod", "must be longer than 0"),
        ("certificateAuthority.certificateValidityPeriod", "99999h", "certificateAuthority.certificateValidityPeriod", "which ends first"),
        ("features.coreDNS", {"replicas": -1}, "features.coreDNS.replicas", "-1 is below 0"),
        ("features.staticAuditLog", {"enable": True}, "features.staticAuditLog.config.policyFilePath", "is missing; name the file"),
        (
            "features.staticAuditLog",
            {"enable": True, "config": {"policyFilePath": "p"}},
            "features.staticAuditLog.config.policyFilePath",
            "there is no file /nowhere/p",
        ),
        ("features.eventRateLimit", {"enable": True}, "features.eventRateLimit.config.configFilePath", "is missing; name the file"),
        ("features.podNodeSelector", {"enable": True}, "features.podNodeSelector.config.configFilePath", "is missing; name the file"),
        ("features.openidConnect", {"enable": True}, "features.openidConnect.config.issuerUrl", "must be the issuer's URL"),
        (
            "features.openidConnect",
            {"enable": True, "config": {"issuerUrl": "http://a"}},
            "features.openidConnect.config.issuerUrl",
            "begin with https",
        ),
        (
            "controlPlaneComponents",
            {"scheduler": {"flags": {"feature-gates": "A=true"}}},
            "controlPlaneComponents.scheduler.flags.feature-gates",
            "is forbidden here; write the gates under controlPlaneComponents.scheduler.featureGates",
        ),
        (
            "controlPlaneComponents",
            {"apiServer": {"flags": {"--v": "4"}}},
            "controlPlaneComponents.apiServer.flags.--v",
            "write it without dashes",
        ),
        (
            "controlPlaneComponents",
            {"etcd": {"quotaBackendBytes": 1024}},
            "controlPlaneComponents.etcd.quotaBackendBytes",
            "1024 is less than 2 GiB",
        ),
        (
            "controlPlaneComponents",
            {"etcd": {"autoCompactionRetention": "x"}},
            "controlPlaneComponents.etcd.autoCompactionRetention",
            "x is neither a duration such as 8h nor a number",
        ),
        (
            "controlPlaneComponents",
            {"etcd": {"autoCompactionMode": "x"}},
            "controlPlaneComponents.etcd.autoCompactionMode",
            "is none of periodic, revision",
        ),
        (
            "tlsCipherSuites",
            {"etcd": ["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA"]},
            "tlsCipherSuites.etcd.0",
            "is not a cipher suite; did you mean TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256?",
        ),
        ("loggingConfig", {"containerLogMaxSize": "big"}, "loggingConfig.containerLogMaxSize", "is not an amount"),
        ("loggingConfig", {"containerLogMaxFiles": 1}, "loggingConfig.containerLogMaxFiles", "1 is too few"),
        ("dynamicWorkers", [{"replicas": 1}], "dynamicWorkers.0.name", "is missing"),
        ("dynamicWorkers", [{"name": "A", "replicas": 1}], "dynamicWorkers.0.name", "A has capitals"),
        ("dynamicWorkers", [{"name": "a"}], "dynamicWorkers.0.replicas", "must be given, and 0 at least"),
        ("dynamicWorkers", [{"name": "a", "replicas": -1}], "dynamicWorkers.0.replicas", "must be given, and 0 at least"),
        ("dynamicWorkers", [{"name": "a", "replicas": 1}] * 2, "dynamicWorkers", "has a 2 times"),
        (
            "dynamicWorkers",
            [{"name": "a", "replicas": 1, "providerSpec": {"taints": [{"key": "a"}]}}],
            "dynamicWorkers.0.providerSpec.taints.0.effect",
            "is missing",
        ),
    ],
)
def test_what_is_wrong_is_refused_where_it_is_and_with_the_reason(path: str, value: object, where: str, expected: str) -> None:
    found = problems(changed(path, value), ignore=True)
    assert shown(where) in found, found
    assert expected in found[shown(where)]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("name", "a"),
        ("name", "a.b-c.d1"),
        ("versions.kubernetes", "v1.34.4"),
        ("versions.kubernetes", "1.31.0"),
        ("versions.kubernetes", "1.36.0-rc.1"),
        ("versions.kubernetes", "1.37.2"),
        (f"{HOST}.publicAddress", "node1.example.com"),
        (f"{HOST}.publicAddress", "Node1.Example.com"),
        (f"{HOST}.publicAddress", "2001:db8::1"),
        (f"{HOST}.hostname", "ip-10-0-0-1.eu-west-1.compute.internal"),
        (f"{HOST}.sshPort", 65535),
        (f"{HOST}.sshHostPublicKey", PUBLIC_KEY),
        (f"{HOST}.labels", {"node-role.kubernetes.io/edge": "", "a.b/c": "1.2_3-4", "gone-": ""}),
        (f"{HOST}.annotations", {"a.b/c": "any text, of any length " * 20}),
        (f"{HOST}.taints", [{"key": "a", "effect": "NoSchedule"}, {"key": "a", "effect": "NoExecute"}]),
        (f"{HOST}.kubelet", {"systemReserved": {"cpu": "200m", "memory": "1.5Gi", "ephemeral-storage": "1e9"}, "maxPods": 1}),
        ("kubeletConfig", {"evictionHard": {"memory.available": "100Mi", "nodefs.available": "10%", "imagefs.inodesFree": "5.5%"}}),
        ("kubeletConfig", {"imageGCHighThresholdPercent": 100, "imageGCLowThresholdPercent": 0}),
        ("apiEndpoint", {"host": "10.0.0.100", "port": 443, "alternativeNames": ["*.example.com", "10.0.0.1", "api"]}),
        ("clusterNetwork.nodePortRange", "1-65535"),
        ("clusterNetwork.nodeCIDRMaskSizeIPv4", 17),
        ("clusterNetwork.kubeProxy", {"ipvs": {}}),
        ("proxy", {"http": "http://user:password@proxy:3128", "https": "https://proxy"}),
        ("containerRuntime.containerd.registries", {"a": {}, "b/x": {}, "*": {}}),
        ("registryConfiguration", {"overwriteRegistry": "a:5000", "insecureRegistry": True}),
        (
            "controlPlaneComponents",
            {"etcd": {"quotaBackendBytes": 2 * 1024**3, "autoCompactionRetention": "1000", "autoCompactionMode": "revision"}},
        ),
        ("controlPlaneComponents", {"apiServer": {"flags": {"audit-webhook-config-file": "/a"}, "featureGates": {"X": False}}}),
        ("dynamicWorkers", [{"name": "a", "replicas": 0}, {"name": "b", "replicas": 3}]),
        ("features.eventRateLimit", {"enable": False}),
        ("features.openidConnect", {"enable": False}),
        ("certificateAuthority", {"certificateValidityPeriod": "8760h", "caCertificateValidityPeriod": "8760h"}),
    ],
)
def test_what_is_right_passes(path: str, value: object) -> None:
    assert problems(changed(path, value)) == {}


def hosts(*given: dict[str, Any], workers: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    return document(controlPlane={"hosts": list(given)}, staticWorkers={"hosts": list(workers)})


A, B = {"publicAddress": "192.0.2.1", "privateAddress": "10.0.0.1"}, {"publicAddress": "192.0.2.2", "privateAddress": "10.0.0.2"}


@pytest.mark.parametrize(
    ("first", "second", "where"),
    [
        (A, A, "privateAddress"),
        (A, B | {"privateAddress": "10.0.0.1"}, "privateAddress"),
        (A, B | {"publicAddress": "192.0.2.1"}, "publicAddress"),
        (A, {"publicAddress": "10.0.0.1"}, "privateAddress"),
        (A | {"publicAddress": "2001:db8::1"}, B | {"publicAddress": "2001:DB8:0::1"}, "publicAddress"),
        (A | {"publicAddress": "node.example.com"}, B | {"publicAddress": "Node.example.com"}, "publicAddress"),
        (A | {"hostname": "a"}, B | {"hostname": "a"}, "hostname"),
    ],
)
@pytest.mark.parametrize("role", ["controlPlane", "staticWorkers"])
def test_a_host_that_is_listed_twice_is_refused(first: dict[str, Any], second: dict[str, Any], where: str, role: str) -> None:
    made = hosts(first, second) if role == "controlPlane" else hosts(first, workers=(second,))
    index = 1 if role == "controlPlane" else 0
    assert "is that of controlPlane.hosts[0] as well; a host can be listed once" in problems(made)[f"{role}.hosts[{index}].{where}"]


def test_hosts_behind_one_address_differ_by_their_ports() -> None:
    assert problems(hosts(A | {"sshPort": 2201}, B | {"publicAddress": "192.0.2.1", "sshPort": 2202})) == {}


def test_two_leaders_are_refused() -> None:
    found = problems(hosts(A | {"isLeader": True}, B | {"isLeader": True}))
    assert found == {"controlPlane.hosts[1].isLeader": "is true here and in controlPlane.hosts[0]; one host at most is the leader"}


@pytest.mark.parametrize(("count", "told"), [(1, False), (2, True), (3, False), (4, True), (5, False)])
def test_an_even_number_of_control_plane_hosts_is_told_and_allowed(count: int, *, told: bool) -> None:
    made = hosts(*({"publicAddress": f"10.0.0.{number + 1}"} for number in range(count)))
    assert ("controlPlane.hosts" in notices(load(made))) is told


@pytest.mark.parametrize(
    ("count", "text"),
    [(2, "2 hosts tolerate the failure of 0, no more than 1 would"), (4, "4 hosts tolerate the failure of 1, no more than 3")],
)
def test_the_even_number_is_told_with_what_it_tolerates(count: int, text: str) -> None:
    made = hosts(*({"publicAddress": f"10.0.0.{number + 1}"} for number in range(count)))
    assert text in notices(load(made))["controlPlane.hosts"]


@pytest.mark.parametrize(
    ("made", "told"),
    [
        (changed("apiEndpoint", None), True),
        (changed("apiEndpoint.host", "10.0.0.2"), True),
        (changed("apiEndpoint.host", "192.0.2.2"), True),
        (changed("apiEndpoint.host", "10.0.0.100"), False),
        (hosts(A) | {"apiEndpoint": {"host": "10.0.0.1"}}, False),
    ],
)
def test_an_endpoint_that_is_one_of_several_hosts_is_told(made: dict[str, Any], *, told: bool) -> None:
    assert ("apiEndpoint.host" in notices(load(made))) is told


@pytest.mark.parametrize("subnet", ["podSubnet", "serviceSubnet"])
def test_hosts_inside_the_clusters_subnets_are_told(subnet: str) -> None:
    assert "10.0.0.1" in notices(load(changed(f"clusterNetwork.{subnet}", "10.0.0.0/16")))["clusterNetwork"]
    assert notices(load(SMALLEST)) == {}


def test_dual_stack_needs_an_ipv6_address_of_each_host() -> None:
    found = problems(changed("clusterNetwork.ipFamily", "IPv4+IPv6"))
    assert set(found) == {f"controlPlane.hosts[{index}].ipv6Addresses" for index in range(3)}


def test_dual_stack_is_for_three_clouds() -> None:
    made = changed("clusterNetwork.ipFamily", "IPv4+IPv6")
    put(made, "cloudProvider", {"hetzner": {}})
    assert "needs the cloud aws, vsphere or none" in problems(made)["clusterNetwork.ipFamily"]


def test_a_node_mask_that_the_controller_manager_refuses_is_refused() -> None:
    made = document(
        clusterNetwork__podSubnet="10.0.0.0/8", clusterNetwork__serviceSubnet="172.16.0.0/16", clusterNetwork__nodeCIDRMaskSizeIPv4=25
    )
    assert "more than 16 bits longer" in problems(made)["clusterNetwork.nodeCIDRMaskSizeIPv4"]


def certificate() -> str:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
    key, day = ec.generate_private_key(ec.SECP256R1()), dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, day, day + dt.timedelta(days=1))
    return builder.sign(key, SHA256()).public_bytes(Encoding.PEM).decode()


def test_a_bundle_of_cas_is_read_from_its_file_from_its_field_or_from_its_old_field(tmp_path: Path) -> None:
    bundle = certificate()
    (tmp_path / "ca.pem").write_text(bundle)
    for path, value in (("certificateAuthority.file", "ca.pem"), ("certificateAuthority.bundle", bundle), ("caBundle", bundle)):
        assert load(changed(path, value), folder=tmp_path).certificate_authority.bundle == bundle


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("fifo", "it is not a regular file"),
        ("/dev/zero", "it is not a regular file"),
        ("large", "it has more than 1 MiB"),
        ("folder", "Is a directory"),
    ],
)
@pytest.mark.parametrize("field", ["certificateAuthority.file", "features.podNodeSelector.config.configFilePath"])
def test_a_file_that_has_no_end_or_is_none_is_refused(tmp_path: Path, field: str, name: str, expected: str) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "folder").mkdir()
    (tmp_path / "large").write_bytes(bytes(2 << 20))
    made = changed(field, name)
    put(made, "features.podNodeSelector.enable", value="podNodeSelector" in field)
    with pytest.raises(ManifestError, match=f"{expected}|there is no file") as raised:
        read_contents(load(made, folder=tmp_path))
    assert [problem.path for problem in raised.value.problems] == [field]


def test_a_private_key_among_the_cas_reaches_no_host() -> None:
    key = "-----BEGIN PRIVATE KEY-----\naHVudGVyMg==\n-----END PRIVATE KEY-----\n"
    said = problems(changed("certificateAuthority.bundle", certificate() + key))["certificateAuthority.bundle"]
    assert "holds a private key" in said
    assert "aHVudGVy" not in said


KEY = base64.b64encode(bytes(32)).decode()


def encryption(*providers: Any, **other: Any) -> str:
    resources = [{"resources": ["secrets"], "providers": list(providers)}]
    return yaml.safe_dump({"apiVersion": "apiserver.config.k8s.io/v1", "kind": "EncryptionConfiguration", "resources": resources} | other)


AESCBC: dict[str, Any] = {"aescbc": {"keys": [{"name": "a", "secret": KEY}]}}
KMS: dict[str, Any] = {"kms": {"apiVersion": "v2", "name": "a", "endpoint": "unix:///run/kms.sock"}}


@pytest.mark.parametrize(
    ("configuration", "expected"),
    [
        ("a: [", "is not YAML"),
        ("- a", "must be an EncryptionConfiguration of apiserver.config.k8s.io/v1"),
        (encryption(AESCBC, kind="Other"), "must be an EncryptionConfiguration"),
        (encryption(AESCBC, resources=[]), "has no resources"),
        (encryption(AESCBC, resources=["x"]), "resources[0] names no resources"),
        (encryption(AESCBC, resources=[{"providers": [AESCBC]}]), "resources[0] names no resources"),
        (encryption(), "resources[0] has no providers"),
        (encryption({"aescb": {}}), "resources[0] providers[0] must have one key, one of identity, aescbc"),
        (encryption({**AESCBC, "identity": {}}), "resources[0] providers[0] must have one key"),
        (encryption({"aescbc": {"keys": []}}), "resources[0] providers[0] aescbc has no keys"),
        (encryption({"aescbc": {"keys": [{"secret": KEY}]}}), "aescbc.keys[0] has no name"),
        (encryption({"aescbc": {"keys": [{"name": "a"}]}}), "aescbc.keys[0].secret must be 16 or 24 or 32 bytes as base64"),
        (encryption({"secretbox": {"keys": [{"name": "a", "secret": "aGVsbG8="}]}}), "secretbox.keys[0].secret must be 32 bytes as base64"),
        (encryption({"aesgcm": {"keys": [{"name": "a", "secret": "?"}]}}), "aesgcm.keys[0].secret must be"),
        (encryption({"kms": {"name": "a", "endpoint": "tcp://a"}}), "kms has no endpoint that begins with unix://"),
    ],
)
def test_an_encryption_configuration_that_would_stop_every_api_server_is_refused(configuration: str, expected: str) -> None:
    made = changed("features.encryptionProviders", {"enable": True, "customEncryptionConfiguration": configuration})
    assert expected in problems(made)["features.encryptionProviders.customEncryptionConfiguration"]


@pytest.mark.parametrize("configuration", [encryption(AESCBC, {"identity": {}}), encryption({"identity": {}}), encryption(KMS, AESCBC), ""])
def test_an_encryption_configuration_that_works_passes(configuration: str) -> None:
    made = changed("features.encryptionProviders", {"enable": True, "customEncryptionConfiguration": configuration})
    assert load(made).features.encryption_providers.custom_encryption_configuration.reveal() == configuration


def test_the_sockets_of_kms_plugins_are_known_each_once() -> None:
    assert kms_endpoints(Secret(encryption(KMS, AESCBC, KMS))) == ("unix:///run/kms.sock",)
    assert kms_endpoints(Secret("")) == ()


ASKING: dict[str, Any] = {
    "controlPlane.nodeSets": [{"name": "a"}],
    "addons": {"path": "x"},
    "helmReleases": [{"chart": "x"}],
    "cloudProvider.cloudConfig": "x",
    "cloudProvider.csiConfig": "x",
    "cloudProvider.secretProviderClassName": "x",
    "cloudProvider.hetzner.networkID": "x",
    "cloudProvider.kubevirt.infraNamespace": "x",
    "cloudProvider.vmwareCloudDirector.vApp": "x",
    "cloudProvider.vmwareCloudDirector.storageProfile": "x",
    "containerRuntime.docker": {},
}


def asking(path: str) -> dict[str, Any]:
    """A manifest that asks for what quorate does not do."""
    made = document()
    if path.startswith("cloudProvider.") and path.count(".") > 1:
        made["cloudProvider"] = {path.split(".")[1]: {}}
    if path.startswith("clusterNetwork.cni"):
        made["clusterNetwork"]["cni"] = {}
    put(made, path, ASKING.get(path, {} if path.rsplit(".", maxsplit=1)[-1] in ("controlPlane", "canal", "cilium", "weaveNet") else True))
    return made


@pytest.mark.parametrize("entry", UNSUPPORTED, ids=lambda entry: entry.path)
def test_what_quorate_does_not_do_is_refused_by_name_with_the_way_out(entry: Any) -> None:
    message = problems(asking(entry.path))[entry.path]
    assert entry.reason in message
    assert entry.remedy in message
    assert message.endswith("or go on without it: --ignore-unsupported")


@pytest.mark.parametrize("entry", UNSUPPORTED, ids=lambda entry: entry.path)
def test_what_quorate_does_not_do_is_listed_where_the_user_says_so(entry: Any) -> None:
    [ignored] = load(asking(entry.path), ignore=True).ignored
    assert (ignored.path, ignored.reason, ignored.remedy) == (entry.path, entry.reason, entry.remedy)
    assert str(ignored) == f"{entry.path} is ignored: {entry.reason}; {entry.remedy}"


def test_what_is_ignored_is_not_in_the_manifest() -> None:
    manifest = load(asking("machineController.deploy"), ignore=True)
    assert not manifest.machine_controller.deploy
    assert load(asking("features.nodeLocalDNS.deploy"), ignore=True).features.node_local_dns.deploy is False


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("machineController", {"deploy": False}),
        ("machineController", {}),
        ("operatingSystemManager", {"deploy": False}),
        ("addons", {"enable": False}),
        ("addons", {}),
        ("helmReleases", []),
        ("controlPlane.nodeSets", []),
        ("features.podSecurityPolicy", {"enable": False}),
        ("cloudProvider.csiConfig", ""),
    ],
)
def test_what_asks_for_nothing_is_no_mistake(path: str, value: object) -> None:
    assert problems(changed(path, value)) == {}


@given(st.permutations(range(5)), st.integers(0, 4), st.integers(0, 4))
def test_a_duplicate_is_found_whatever_the_order(order: list[int], first: int, second: int) -> None:
    listed = [{"publicAddress": f"10.0.0.{number + 1}"} for number in order]
    listed[first] = listed[second]
    assert bool(problems(hosts(*listed))) is (first != second)


@pytest.mark.parametrize(
    ("path", "folder"),
    [
        ("/audit.log", "/"),
        ("/etc/kubernetes/audit.log", "/etc/kubernetes"),
        ("/usr/share/audit/audit.log", "/usr/share/audit"),
        ("/var/lib/audit.log", "/var/lib"),
        ("/var/lib/etcd/audit.log", "/var/lib/etcd"),
        ("/var/lib/kubelet/pods/audit.log", "/var/lib/kubelet/pods"),
        ("/run/audit.log", "/run"),
        ("/root/audit.log", "/root"),
        ("/proc/1/audit.log", "/proc/1"),
    ],
)
def test_no_folder_of_the_system_becomes_the_api_servers_to_write_to(path: str, folder: str, tmp_path: Path) -> None:
    (tmp_path / "policy").write_text("x")
    audit = {"enable": True, "config": {"policyFilePath": "policy", "logPath": path}}
    found = problems(changed("features.staticAuditLog", audit), folder=tmp_path)
    assert f"is in {folder}, which" in found["features.staticAuditLog.config.logPath"]


@pytest.mark.parametrize("path", ["", "audit.log", "/var/log/../../audit.log", "/var/log/", "/var//log", "/var/log/a b", "-"])
def test_a_path_on_a_host_is_absolute_and_plain(path: str, tmp_path: Path) -> None:
    (tmp_path / "policy").write_text("x")
    audit = {"enable": True, "config": {"policyFilePath": "policy", "logPath": path}}
    if path:
        assert (
            "is not a path of a file"
            in problems(changed("features.staticAuditLog", audit), folder=tmp_path)["features.staticAuditLog.config.logPath"]
        )
    login = {"enable": True, "config": {"issuerUrl": "https://a", "caFile": path}}
    assert bool(problems(changed("features.openidConnect", login))) == bool(path)


@pytest.mark.parametrize("socket", ["/kms.sock", "/etc/kubernetes/kms.sock", "/run/containerd/kms.sock", "/run/../kms.sock", "kms.sock"])
def test_a_kms_plugin_has_its_socket_in_a_folder_that_the_api_server_may_have(socket: str) -> None:
    found = list(problems_of(Secret(encryption({"kms": {"name": "a", "endpoint": f"unix://{socket}"}}))))
    assert any("kms.endpoint: " in problem for problem in found), found


def test_aliases_that_would_fill_the_memory_are_refused_at_once() -> None:
    with pytest.raises(ManifestError, match="cannot be read: it has more than 100000 values, its aliases written out"):
        parse(f"{yaml.safe_dump(SMALLEST)}\n{BOMB}")
