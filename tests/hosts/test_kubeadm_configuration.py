"""kubeadm's configuration has everything that a manifest asks for, says the same each time, and is accepted by kubeadm itself."""

from __future__ import annotations

import base64
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from quorate.hosts.manifest import Manifest, Secret
from quorate.hosts.render.component_arguments import CUSTOM_ENCRYPTION_CONFIGURATION
from quorate.hosts.render.component_configurations import kubelet_patch
from quorate.hosts.render.feature_files import Contents, MissingContent, feature_files
from quorate.hosts.render.host_files import HostFile
from quorate.hosts.render.kubeadm_configuration import (
    DISCOVERY_PATH,
    Discovery,
    Machine,
    cluster_configuration,
    init_file,
    join_files,
    upgrade_file,
)
from tests.hosts.manifests import document, load

KUBEADM = Path(__file__).parents[2] / ".bin" / "kubeadm"
GOLDEN = Path(__file__).parent / "golden"
TOKEN = Secret("abcdef.0123456789abcdef")
CA = b"-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n"
ENCRYPTION = """\
apiVersion: apiserver.config.k8s.io/v1
kind: EncryptionConfiguration
resources:
- resources: [secrets]
  providers:
  - kms: {apiVersion: v2, name: vault, endpoint: "unix:///run/kms/vault.sock"}
  - identity: {}
"""
KUBELET = {
    "systemReserved": {"memory": "300Mi", "cpu": "200m"},
    "maxPods": 200,
    "imageMinimumGCAge": "90s",
    "evictionHard": {"memory.available": "5%"},
}


@pytest.fixture
def everything(tmp_path: Path) -> Manifest:
    for name in ("policy.yaml", "rate.yaml", "selector.yaml"):
        (tmp_path / name).write_text("{}\n")
    made = document(
        features__staticAuditLog={"enable": True, "config": {"policyFilePath": "policy.yaml", "logPath": "/srv/audit/audit.log"}},
        features__eventRateLimit={"enable": True, "config": {"configFilePath": "rate.yaml"}},
        features__podNodeSelector={"enable": True, "config": {"configFilePath": "selector.yaml"}},
        features__alwaysPullImages={"enable": True},
        features__openidConnect={
            "enable": True,
            "config": {"issuerUrl": "https://dex.example.com", "caFile": "/srv/dex.crt", "groupsPrefix": "g:"},
        },
        features__encryptionProviders={"enable": True, "customEncryptionConfiguration": ENCRYPTION},
        features__coreDNS={"imageRepository": "mirror.example.com/dns"},
        clusterNetwork__kubeProxy={"ipvs": {"scheduler": "rr", "strictARP": True, "excludeCIDRs": ["10.9.0.0/16"], "tcpTimeout": "15m"}},
        clusterNetwork__ipFamily="IPv4+IPv6",
        registryConfiguration={"overwriteRegistry": "mirror.example.com:5000/k8s"},
        certificateAuthority={"certificateValidityPeriod": "4380h", "caCertificateValidityPeriod": "43800h"},
        apiEndpoint={"host": "API.example.com", "port": 7443, "alternativeNames": ["api", "203.0.113.9"]},
        controlPlaneComponents={
            "apiServer": {"flags": {"request-timeout": "2m", "audit-log-maxage": "7"}, "featureGates": {"B": False, "A": True}},
            "controllerManager": {"flags": {"node-monitor-period": "2s"}},
            "scheduler": {"featureGates": {"A": True}},
            "etcd": {"quotaBackendBytes": 8 << 30, "autoCompactionMode": "periodic", "autoCompactionRetention": "8h"},
        },
        kubeletConfig={"kubeReserved": {"cpu": "100m"}, "imageGCHighThresholdPercent": 90},
    )
    for number, host in enumerate(made["controlPlane"]["hosts"], 1):
        host |= {"ipv6Addresses": [f"2001:db8::{number}"], "kubelet": KUBELET}
    return load(made, folder=tmp_path)


@pytest.fixture
def smallest() -> Manifest:
    return load(document(staticWorkers__hosts=[{"publicAddress": "192.0.2.9", "privateAddress": "10.0.0.9"}]))


def files(manifest: Manifest) -> dict[str, HostFile]:
    first, second = (Machine(host, f"cp-{number}") for number, host in enumerate(manifest.control_plane.hosts[:2], 1))
    discovery = Discovery(TOKEN, CA)
    join, found = join_files(manifest, second, discovery, control_plane=True)
    made = {"init": init_file(manifest, first, TOKEN), "join": join, "discovery": found, "upgrade": upgrade_file(manifest, second)}
    if workers := manifest.static_workers.hosts:
        made["worker"] = join_files(manifest, Machine(workers[0], "worker-1"), discovery, control_plane=False)[0]
    return made


def cluster(**changes: Any) -> dict[str, Any]:
    return cluster_configuration(load(document(**changes)))


def arguments(component: dict[str, Any]) -> dict[str, str]:
    return {argument["name"]: argument["value"] for argument in component["extraArgs"]}


@pytest.mark.parametrize("of", ["smallest", "everything"])
def test_the_configuration_is_the_committed_one(of: str, request: pytest.FixtureRequest) -> None:
    for name, file in files(request.getfixturevalue(of)).items():
        assert file.content.decode() == (GOLDEN / f"{of}-{name}.yaml").read_text(), f"{of}-{name}.yaml"


@pytest.mark.integration
@pytest.mark.parametrize("of", ["smallest", "everything"])
def test_kubeadm_accepts_it(of: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    found = files(request.getfixturevalue(of))
    discovery = tmp_path / "discovery.conf"
    discovery.write_bytes(found.pop("discovery").content)
    for name, file in found.items():
        path = tmp_path / f"{name}.yaml"
        path.write_bytes(file.content.replace(DISCOVERY_PATH.encode(), bytes(discovery)))
        done = subprocess.run([KUBEADM, "config", "validate", "--config", path], capture_output=True, text=True, timeout=30, check=False)
        assert (done.returncode, done.stderr) == (0, ""), name
        assert done.stdout == "ok\n"


@pytest.mark.integration
def test_kubeadm_refuses_what_it_does_not_know(smallest: Manifest, tmp_path: Path) -> None:
    path = tmp_path / "init.yaml"
    path.write_bytes(files(smallest)["init"].content.replace(b"certSANs", b"certSANz"))
    done = subprocess.run([KUBEADM, "config", "validate", "--config", path], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode != 0


def test_the_same_manifest_in_another_order_gives_the_same_bytes() -> None:
    flags = {"node-monitor-period": "2s", "concurrent-gc-syncs": "5", "v": "4"}
    one = load(document(controlPlaneComponents={"controllerManager": {"flags": flags}}))
    other = load(document(controlPlaneComponents={"controllerManager": {"flags": dict(reversed(flags.items()))}}))
    assert files(one) == files(other)


def test_a_flag_of_the_user_wins_and_the_others_stay() -> None:
    made = arguments(cluster(controlPlaneComponents={"apiServer": {"flags": {"profiling": "true"}}})["apiServer"])
    assert made["profiling"] == "true"
    assert made["request-timeout"] == "1m"


def test_a_host_never_joins_without_checking_the_ca(smallest: Manifest) -> None:
    join, found = (yaml.safe_load(files(smallest)[name].content) for name in ("worker", "discovery"))
    assert join["discovery"] == {"file": {"kubeConfigPath": DISCOVERY_PATH}}
    assert base64.b64decode(found["clusters"][0]["cluster"]["certificate-authority-data"]) == CA
    with pytest.raises(ValueError, match="cannot check"):
        Discovery(TOKEN, b"")


def test_the_token_is_only_where_root_alone_reads_it(smallest: Manifest) -> None:
    assert {name for name, file in files(smallest).items() if TOKEN.reveal().encode() in file.content} == {"init", "discovery"}
    assert all(file.mode == 0o600 for file in files(smallest).values())


def test_the_certificate_key_is_never_used(everything: Manifest) -> None:
    assert all(b"certificateKey" not in file.content for file in files(everything).values())


def test_no_taints_are_an_empty_list_and_not_kubeadms_default() -> None:
    made = document()
    made["controlPlane"]["hosts"][0]["taints"] = []
    init = next(yaml.safe_load_all(files(load(made))["init"].content))
    assert init["nodeRegistration"]["taints"] == []


def test_a_hosts_own_kubelet_settings_are_a_patch_for_every_kubeadm_command(everything: Manifest, smallest: Manifest) -> None:
    patch = kubelet_patch(everything.control_plane.hosts[0])
    assert patch is not None
    settings = yaml.safe_load(patch.content)
    assert (settings["maxPods"], settings["imageMinimumGCAge"]) == (200, "90s")
    found = files(everything)
    for name in ("init", "join", "upgrade"):
        assert b"directory: /etc/kubernetes/patches" in found[name].content, name
    assert kubelet_patch(smallest.control_plane.hosts[0]) is None
    assert all(b"patches" not in file.content for file in files(smallest).values())


def test_an_external_cloud_provider_initializes_nodes_and_knows_their_addresses_when_there_are_two() -> None:
    made = document(cloudProvider={"hetzner": {}}, clusterNetwork__ipFamily="IPv4")
    init = next(yaml.safe_load_all(files(load(made))["init"].content))
    assert arguments({"extraArgs": init["nodeRegistration"]["kubeletExtraArgs"]}) == {"cloud-provider": "external", "node-ip": "10.0.0.1"}


def test_without_kube_proxy_there_is_no_configuration_of_it() -> None:
    made = load(document(clusterNetwork__kubeProxy={"skipInstallation": True}))
    kinds = [each["kind"] for each in yaml.safe_load_all(files(made)["init"].content)]
    assert kinds == ["InitConfiguration", "ClusterConfiguration", "KubeletConfiguration"]
    assert cluster_configuration(made)["proxy"] == {"disabled": True}


def test_an_ipv6_endpoint_is_in_brackets() -> None:
    assert cluster(apiEndpoint={"host": "2001:db8::5"})["controlPlaneEndpoint"] == "[2001:db8::5]:6443"


def test_only_the_folder_of_a_kms_socket_is_mounted_so_that_its_plugin_can_restart(everything: Manifest) -> None:
    volumes = {volume["name"]: volume["hostPath"] for volume in cluster_configuration(everything)["apiServer"]["extraVolumes"]}
    assert volumes["kms-0"] == "/run/kms"


def test_every_file_that_the_api_server_is_told_of_is_placed(everything: Manifest) -> None:
    placed = {file.path: file for file in feature_files(everything, Contents(b"policy", b"rate", b"selector"))}
    told = arguments(cluster_configuration(everything)["apiServer"])
    named = {told[flag] for flag in ("audit-policy-file", "admission-control-config-file", "encryption-provider-config")}
    assert named <= placed.keys()
    assert told["encryption-provider-config"] == CUSTOM_ENCRYPTION_CONFIGURATION
    admission = yaml.safe_load(placed[told["admission-control-config-file"]].content)
    assert {plugin["path"] for plugin in admission["plugins"]} <= placed.keys()
    assert {(file.mode, file.owner) for file in placed.values()} == {(0o600, "root:root")}


def test_a_feature_without_its_content_is_refused() -> None:
    manifest = load(document(features__encryptionProviders={"enable": True}))
    with pytest.raises(MissingContent, match="encryptionProviders"):
        feature_files(manifest, Contents())


def test_no_token_or_key_is_in_a_repr(everything: Manifest) -> None:
    shown = repr((files(everything), Discovery(TOKEN, CA), Contents(encryption_providers=Secret("a-key"))))
    assert TOKEN.reveal() not in shown
    assert "a-key" not in shown


@pytest.mark.integration
@pytest.mark.parametrize(
    ("program", "component"), [("kube-apiserver", "apiServer"), ("kube-controller-manager", "controllerManager"), ("etcd", "etcd")]
)
def test_the_programs_know_every_argument(program: str, component: str, everything: Manifest) -> None:
    done = subprocess.run([KUBEADM.parent / program, "--help"], capture_output=True, text=True, timeout=30, check=False)
    configuration = cluster_configuration(everything)[component]
    for name in arguments(configuration.get("local", configuration)):
        assert f"--{name} " in done.stdout + done.stderr, name
