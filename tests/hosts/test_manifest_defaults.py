"""What a manifest leaves open has KubeOne's defaults, and every key that KubeOne's v1beta2 has is known."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from quorate.core.versions import Version
from quorate.hosts.manifest import Manifest, Opaque, parse
from quorate.hosts.manifest.decoding import places_of
from quorate.hosts.manifest.defaults import CONTROL_PLANE_TAINT
from quorate.hosts.manifest.host_fields import OperatingSystem, Taint, TaintEffect
from quorate.hosts.manifest.network_fields import IPFamily
from tests.hosts.manifests import PUBLIC_KEY, SMALLEST, changed, document
from tests.hosts.manifests import load as load_document

PROVIDER_SPEC: dict[str, Any] = {
    "cloudProviderSpec": {"location": "nbg1"},
    "annotations": {"a": "b"},
    "machineAnnotations": {"a": "b"},
    "nodeAnnotations": {"a": "b"},
    "machineObjectAnnotations": {"a": "b"},
    "labels": {"a": "b"},
    "taints": [{"key": "a", "value": "b", "effect": "NoExecute"}],
    "sshPublicKeys": ["ssh-ed25519 AAAA"],
    "operatingSystem": "ubuntu",
    "operatingSystemSpec": {"distUpgradeOnBoot": False},
    "network": {"cidr": "10.0.0.0/24", "gateway": "10.0.0.1", "dns": {"servers": ["1.1.1.1"]}, "ipFamily": "IPv4"},
    "overwriteCloudConfig": "x",
}

KUBELET: dict[str, Any] = {
    "systemReserved": {"cpu": "200m"},
    "kubeReserved": {"memory": "300Mi"},
    "evictionHard": {"memory.available": "5%"},
    "maxPods": 120,
    "imageGCHighThresholdPercent": 90,
    "imageGCLowThresholdPercent": 70,
    "imageMinimumGCAge": "2m",
    "imageMaximumGCAge": "24h",
}

HOST: dict[str, Any] = {
    "publicAddress": "192.0.2.1",
    "privateAddress": "10.0.0.1",
    "ipv6Addresses": ["2001:db8::1"],
    "sshPort": 2222,
    "sshUsername": "ubuntu",
    "sshPrivateKeyFile": "/keys/id",
    "sshCertFile": "/keys/id-cert.pub",
    "sshHostPublicKey": PUBLIC_KEY,
    "sshAgentSocket": "/run/agent",
    "bastion": "bastion.example.com",
    "bastionPort": 2022,
    "bastionUser": "jump",
    "bastionHostPublicKey": PUBLIC_KEY,
    "bastionPrivateKeyFile": "/keys/bastion",
    "hostname": "a.example.com",
    "isLeader": True,
    "taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}],
    "labels": {"example.com/rack": "1", "old-": ""},
    "annotations": {"example.com/note": "any text at all"},
    "kubelet": KUBELET,
    "operatingSystem": "rockylinux",
}

PROVIDERS: dict[str, dict[str, Any]] = {
    "aws": {},
    "azure": {},
    "digitalocean": {},
    "gce": {},
    "hetzner": {"networkID": "net", "controlPlane": {"loadBalancer": {}}},
    "kubevirt": {"infraNamespace": "vms", "zoneAndRegionEnabled": True, "loadBalancerEnabled": True, "controlPlane": {"loadBalancer": {}}},
    "nutanix": {},
    "openstack": {"controlPlane": {"loadBalancer": {"name": "x"}}},
    "equinixmetal": {},
    "vmwareCloudDirector": {"vApp": "v", "storageProfile": "*"},
    "vsphere": {},
    "none": {},
}


def full(folder: Path) -> dict[str, Any]:
    """A manifest that has every key, but for those of which only one can be set."""
    (folder / "policy.yaml").write_text("x")
    return {
        "apiVersion": "kubeone.k8c.io/v1beta2",
        "kind": "KubeOneCluster",
        "metadata": {"name": "anything"},
        "name": "full",
        "controlPlane": {"hosts": [HOST], "nodeSets": [{"name": "pool", "replicas": 3}]},
        "kubeletConfig": KUBELET,
        "apiEndpoint": {"host": "api.example.com", "port": 443, "alternativeNames": ["10.9.9.9", "*.example.com"]},
        "cloudProvider": {
            "external": True,
            "disableBundledCSIDrivers": True,
            "cloudConfig": "[global]",
            "csiConfig": "x",
            "secretProviderClassName": "x",
            "none": {},
        },
        "versions": {"kubernetes": "v1.35.4"},
        "containerRuntime": {
            "docker": {"registryMirrors": []},
            "containerd": {
                "registries": {
                    "registry.example.com": {
                        "mirrors": ["https://mirror.example.com"],
                        "overridePath": True,
                        "tlsConfig": {"insecureSkipVerify": True},
                        "auth": {"username": "u", "password": "p", "auth": "a", "identityToken": "t"},
                    }
                },
                "deviceOwnershipFromSecurityContext": True,
                "sandboxImage": "registry.k8s.io/pause:3.10",
            },
        },
        "clusterNetwork": {
            "podSubnet": "172.20.0.0/16",
            "podSubnetIPv6": "fd10::/48",
            "serviceSubnet": "172.21.0.0/16",
            "serviceSubnetIPv6": "fd11::/112",
            "serviceDomainName": "cluster.internal",
            "nodePortRange": "20000-21000",
            "cni": {
                "cilium": {
                    "kubeProxyReplacement": "strict",
                    "enableHubble": True,
                    "enableL2Announcements": True,
                    "enableGatewayAPI": True,
                    "enableLocalRedirectPolicy": True,
                }
            },
            "kubeProxy": {
                "skipInstallation": True,
                "ipvs": {
                    "scheduler": "rr",
                    "excludeCIDRs": ["10.0.0.0/8"],
                    "strictARP": True,
                    "tcpTimeout": "1m",
                    "tcpFinTimeout": "2m",
                    "udpTimeout": "3m",
                },
            },
            "ipFamily": "IPv4+IPv6",
            "nodeCIDRMaskSizeIPv4": 25,
            "nodeCIDRMaskSizeIPv6": 60,
        },
        "proxy": {"http": "http://proxy.example.com:3128", "https": "http://proxy.example.com:3128", "noProxy": "example.com"},
        "staticWorkers": {"hosts": [{"privateAddress": "10.0.0.9", "ipv6Addresses": ["2001:db8::9"]}]},
        "dynamicWorkers": [{"name": "pool", "replicas": 2, "providerSpec": PROVIDER_SPEC}],
        "machineController": {"deploy": True},
        "operatingSystemManager": {"deploy": True, "enableNonRootDeviceOwnership": True},
        "caBundle": "",
        "certificateAuthority": {"bundle": "", "file": "", "certificateValidityPeriod": "8760h", "caCertificateValidityPeriod": "87600h"},
        "features": {
            "coreDNS": {"replicas": 3, "deployPodDisruptionBudget": False, "imageRepository": "registry.example.com/coredns"},
            "alwaysPullImages": {"enable": True},
            "eventRateLimit": {"enable": True, "config": {"configFilePath": "policy.yaml"}},
            "podNodeSelector": {"enable": True, "config": {"configFilePath": "policy.yaml"}},
            "podSecurityPolicy": {"enable": True},
            "staticAuditLog": {
                "enable": True,
                "config": {
                    "policyFilePath": "policy.yaml",
                    "logPath": "/logs/audit.log",
                    "logMaxAge": 1,
                    "logMaxBackup": 2,
                    "logMaxSize": 3,
                },
            },
            "dynamicAuditLog": {"enable": True},
            "metricsServer": {"enable": True},
            "openidConnect": {
                "enable": True,
                "config": {
                    "issuerUrl": "https://issuer.example.com",
                    "clientId": "c",
                    "usernameClaim": "email",
                    "usernamePrefix": "-",
                    "groupsClaim": "g",
                    "groupsPrefix": "p",
                    "requiredClaim": "r=1",
                    "signingAlgs": "ES256",
                    "caFile": "/ca.pem",
                },
            },
            "encryptionProviders": {"enable": True, "customEncryptionConfiguration": ""},
            "nodeLocalDNS": {"deploy": True},
        },
        "addons": {"enable": True, "path": "addons", "globalParams": {"a": "b"}, "addons": [{"name": "x"}]},
        "helmReleases": [{"chart": "x", "namespace": "y"}],
        "systemPackages": {"configureRepositories": True},
        "registryConfiguration": {"overwriteRegistry": "registry.example.com:5000", "insecureRegistry": True},
        "loggingConfig": {"containerLogMaxSize": "50Mi", "containerLogMaxFiles": 3},
        "tlsCipherSuites": {
            "apiServer": ["TLS_AES_128_GCM_SHA256"],
            "etcd": ["TLS_AES_128_GCM_SHA256"],
            "kubelet": ["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"],
        },
        "controlPlaneComponents": {
            "apiServer": {"flags": {"v": "4"}, "featureGates": {"A": True}},
            "controllerManager": {"flags": {"v": "4"}, "featureGates": {"A": True}},
            "scheduler": {"flags": {"v": "4"}, "featureGates": {"A": True}},
            "etcd": {"quotaBackendBytes": 8 * 1024**3, "autoCompactionRetention": "8h", "autoCompactionMode": "periodic"},
        },
    }


def keys_in(value: Any) -> Iterator[str]:
    match value:
        case dict():
            for key, below in value.items():
                yield key
                yield from keys_in(below)
        case list():
            for below in value:
                yield from keys_in(below)


def test_a_manifest_with_every_key_there_is_can_be_read(tmp_path: Path) -> None:
    made = full(tmp_path)
    alternatives = {
        "canal",
        "mtu",
        "weaveNet",
        "encrypted",
        "external",
        "iptables",
        *PROVIDERS,
        *(key for one in PROVIDERS.values() for key in one),
    }
    assert set(places_of(Manifest)) <= set(keys_in(made)) | alternatives
    manifest = load_document(made, folder=tmp_path, ignore=True)
    host = manifest.control_plane.hosts[0]
    assert (host.ssh_port, host.ssh_username, host.operating_system, host.kubelet.max_pods) == (
        2222,
        "ubuntu",
        OperatingSystem.ROCKY_LINUX,
        120,
    )
    assert host.taints == (Taint("a", "b", TaintEffect.NO_SCHEDULE),)
    assert manifest.cluster_network.pod_subnets == ("172.20.0.0/16", "fd10::/48")
    assert manifest.cluster_network.service_subnets == ("172.21.0.0/16", "fd11::/112")
    assert manifest.features.openid_connect.config.username_prefix == "-"
    assert manifest.control_plane_components.etcd.quota_backend_bytes == 8 * 1024**3


@pytest.mark.parametrize("name", PROVIDERS)
def test_each_cloud_provider_is_read_with_its_settings(name: str) -> None:
    manifest = load_document(changed("cloudProvider", {name: PROVIDERS[name]}), ignore=True)
    assert manifest.cloud_provider.chosen == (name,)


@pytest.mark.parametrize("name", PROVIDERS)
def test_a_cloud_provider_is_external_unless_it_has_no_controller_manager(name: str) -> None:
    manifest = load_document(changed("cloudProvider", {name: PROVIDERS[name]}), ignore=True)
    assert manifest.cloud_provider.external is (name not in ("none", "vmwareCloudDirector"))
    assert ("cloudProvider" in {notice.path for notice in manifest.notices}) is manifest.cloud_provider.external


def test_a_manifest_that_says_the_least_has_kubeones_defaults() -> None:
    made = {
        **{key: SMALLEST[key] for key in ("apiVersion", "kind", "name", "cloudProvider")},
        "versions": {"kubernetes": "v1.34.4"},
        "controlPlane": {"hosts": [{"publicAddress": "192.0.2.1"}]},
    }
    manifest = load_document(made)
    [host] = manifest.hosts
    assert (host.private_address, host.ssh_username, host.ssh_port, host.ssh_agent_socket) == ("192.0.2.1", "root", 22, "env:SSH_AUTH_SOCK")
    assert (host.bastion_port, host.bastion_user, host.is_leader, host.taints) == (22, "root", True, (CONTROL_PLANE_TAINT,))
    assert manifest.leader is host
    assert (manifest.api_endpoint.host, manifest.api_endpoint.port) == ("192.0.2.1", 6443)
    assert (manifest.versions.kubernetes, manifest.version) == ("1.34.4", Version.parse("v1.34.4"))
    network = manifest.cluster_network
    assert (network.pod_subnets, network.service_subnets) == (("10.244.0.0/16",), ("10.96.0.0/12",))
    assert (network.service_domain_name, network.node_port_range, network.ip_family) == ("cluster.local", "30000-32767", IPFamily.IPV4)
    assert (network.node_cidr_mask_size_ipv4, network.node_cidr_mask_size_ipv6) == (24, None)
    assert network.cni is not None
    assert network.cni.chosen == ("external",)
    features = manifest.features
    assert (features.core_dns.replicas, features.core_dns.deploy_pod_disruption_budget) == (2, True)
    assert (features.metrics_server.enable, features.node_local_dns.deploy, manifest.machine_controller.deploy) == (False, False, False)
    assert manifest.system_packages.configure_repositories
    assert (manifest.logging_config.container_log_max_size, manifest.logging_config.container_log_max_files) == ("100Mi", 5)
    assert manifest.certificate_authority.certificate_validity_period is None
    assert {notice.path for notice in manifest.notices} == {"clusterNetwork.cni", "features.metricsServer", "features.nodeLocalDNS"}


@pytest.mark.parametrize(("written", "told"), [(None, True), (False, True), (True, False)])
def test_csi_drivers_that_are_not_switched_off_are_told_said_or_unsaid(written: bool | None, *, told: bool) -> None:
    """KubeOne deploys those of the cloud unless it is told not to."""
    made = {"hetzner": {}, "external": True} | ({} if written is None else {"disableBundledCSIDrivers": written})
    notices = {notice.path for notice in load_document(changed("cloudProvider", made)).notices}
    assert ("cloudProvider.disableBundledCSIDrivers" in notices) is told


def test_a_host_with_a_private_address_alone_is_reached_there() -> None:
    hosts = load_document(changed("controlPlane.hosts.0", {"privateAddress": "10.0.0.1"})).control_plane.hosts
    assert hosts[0].public_address == "10.0.0.1"


def test_a_host_with_a_key_file_uses_no_agent_unless_told() -> None:
    hosts = load_document(changed("controlPlane.hosts.0.sshPrivateKeyFile", "~/.ssh/id")).control_plane.hosts
    assert (hosts[0].ssh_private_key_file, hosts[0].ssh_agent_socket) == (str(Path.home() / ".ssh/id"), "")
    assert hosts[1].ssh_agent_socket == "env:SSH_AUTH_SOCK"


def test_the_bastions_user_is_the_hosts() -> None:
    assert load_document(changed("controlPlane.hosts.0.sshUsername", "core")).control_plane.hosts[0].bastion_user == "core"


def test_the_leader_that_is_named_stays_the_leader() -> None:
    manifest = load_document(changed("controlPlane.hosts.2.isLeader", value=True))
    assert manifest.leader.public_address == "192.0.2.3"


@pytest.mark.parametrize(("taints", "expected"), [(None, (CONTROL_PLANE_TAINT,)), ([], ())])
def test_no_taints_are_asked_for_by_an_empty_list(taints: object, expected: object) -> None:
    assert load_document(changed("controlPlane.hosts.0.taints", taints)).control_plane.hosts[0].taints == expected


def test_static_workers_have_no_taints() -> None:
    assert load_document(changed("staticWorkers.hosts", [{"publicAddress": "10.0.0.9"}])).static_workers.hosts[0].taints == ()


@pytest.mark.parametrize(
    ("value", "expected"), [({}, False), ({"configureRepositories": True}, True), ({"configureRepositories": False}, False)]
)
def test_package_repositories_are_set_up_where_the_manifest_does_not_say_otherwise(value: object, *, expected: bool) -> None:
    assert load_document(changed("systemPackages", value)).system_packages.configure_repositories is expected
    assert load_document(SMALLEST).system_packages.configure_repositories


def test_dual_stack_has_the_defaults_of_both_families() -> None:
    made = changed("clusterNetwork.ipFamily", "IPv4+IPv6")
    for index, host in enumerate(made["controlPlane"]["hosts"]):
        host["ipv6Addresses"] = [f"2001:db8::{index + 1}"]
    network = load_document(made).cluster_network
    assert network.pod_subnets == ("10.244.0.0/16", "fd01::/48")
    assert network.service_subnets == ("10.96.0.0/12", "fd02::/120")
    assert (network.node_cidr_mask_size_ipv4, network.node_cidr_mask_size_ipv6) == (24, 64)


@pytest.mark.parametrize(
    ("proxy", "expected"),
    [
        ({}, ""),
        ({"noProxy": "example.com"}, "example.com"),
        ({"http": "http://p:1"}, "127.0.0.1/8,localhost,cluster.local,10.244.0.0/16,10.96.0.0/12"),
        ({"https": "http://p:1", "noProxy": "a,b"}, "127.0.0.1/8,localhost,cluster.local,10.244.0.0/16,10.96.0.0/12,a,b"),
    ],
)
def test_a_proxy_is_not_used_for_the_clusters_own_networks(proxy: object, expected: str) -> None:
    assert load_document(changed("proxy", proxy)).proxy.no_proxy == expected


def test_canal_has_the_mtu_of_ethernet_without_vxlan() -> None:
    cni = load_document(changed("clusterNetwork.cni", {"canal": {}}), ignore=True).cluster_network.cni
    assert cni is not None
    assert cni.canal is not None
    assert cni.canal.mtu == 1450


@pytest.mark.parametrize(("component", "count"), [("api_server", 19), ("etcd", 13), ("kubelet", 6)])
def test_cipher_suites_are_those_of_the_cis_benchmark_or_of_go(component: str, count: int) -> None:
    suites = getattr(load_document(SMALLEST).tls_cipher_suites, component)
    assert len(suites) == len(set(suites)) == count


def test_no_cipher_suites_leave_them_to_the_component() -> None:
    assert load_document(changed("tlsCipherSuites.etcd", [])).tls_cipher_suites.etcd == ()


def test_files_are_sought_beside_the_manifest(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text("x")
    made = document(features__staticAuditLog={"enable": True, "config": {"policyFilePath": "policy.yaml"}})
    config = parse(yaml.safe_dump(made), folder=tmp_path).features.static_audit_log.config
    assert config.policy_file_path == str(tmp_path / "policy.yaml")
    assert (config.log_path, config.log_max_age, config.log_max_backup, config.log_max_size) == (
        "/var/log/kubernetes/audit.log",
        30,
        3,
        100,
    )


def test_openid_connect_has_kubeones_claims() -> None:
    config = load_document(
        changed("features.openidConnect", {"enable": True, "config": {"issuerUrl": "https://a"}})
    ).features.openid_connect.config
    assert (config.client_id, config.username_claim, config.groups_claim) == ("kubernetes", "sub", "groups")
    assert (config.username_prefix, config.groups_prefix, config.signing_algs) == ("oidc:", "oidc:", "RS256")


def test_validity_periods_are_spans_of_time() -> None:
    ca = load_document(changed("certificateAuthority.certificateValidityPeriod", "720h")).certificate_authority
    assert ca.certificate_validity_period == timedelta(days=30)


def test_values_are_frozen_all_the_way_down(tmp_path: Path) -> None:
    def walk(value: Any) -> Iterator[Any]:
        yield value
        if is_dataclass(value) and not isinstance(value, Opaque):
            for each in fields(value):
                yield from walk(getattr(value, each.name))
        elif isinstance(value, tuple):
            for each in value:
                yield from walk(each)

    manifest = load_document(full(tmp_path), folder=tmp_path, ignore=True)
    assert not [value for value in walk(manifest) if isinstance(value, dict | list | set)]


def test_the_same_text_gives_an_equal_manifest() -> None:
    text = yaml.safe_dump(SMALLEST)
    assert parse(text) == parse(text)
