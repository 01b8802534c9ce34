"""kubeadm's ClusterConfiguration follows the specification in the fields that it shall follow, and in no other."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import yaml

from quorate.core.versions import Version
from quorate.kubeadm.cluster_configuration import V1BETA3, V1BETA4, Document, brought_up_to_date, converted, decode, encode, with_dns

KUBEADM_1_34 = """apiServer: {}
apiVersion: kubeadm.k8s.io/v1beta4
caCertificateValidityPeriod: 87600h0m0s
certificateValidityPeriod: 8760h0m0s
certificatesDir: /etc/kubernetes/pki
clusterName: demo
controlPlaneEndpoint: 10.0.0.1:6443
controllerManager: {}
dns: {}
encryptionAlgorithm: RSA-2048
etcd:
  local:
    dataDir: /var/lib/etcd
featureGates:
  ControlPlaneKubeletLocalMode: true
imageRepository: registry.k8s.io
kind: ClusterConfiguration
kubernetesVersion: v1.34.4
networking:
  dnsDomain: cluster.local
  podSubnet: 192.168.0.0/16
  serviceSubnet: 10.128.0.0/12
proxy: {}
scheduler: {}
"""
"""As kubeadm v1.34 leaves it after an `init` that was told nothing special."""

SPEC: dict[str, Any] = {"clusterConfiguration": {"certificatesDir": "/etc/kubernetes/pki"}}


def _v(text: str) -> Version:
    return Version.parse(text)


def _updated(cluster: dict[str, Any], document: Document | None = None, version: str = "v1.35.4") -> Document:
    return brought_up_to_date(document or decode(KUBEADM_1_34), {"clusterConfiguration": cluster}, _v(version))


@pytest.mark.parametrize("spec", [{}, SPEC, {"clusterConfiguration": {"etcd": {"local": {}}, "apiServer": {}}}])
def test_what_kubeadm_wrote_itself_is_no_reason_to_write(spec: dict[str, Any]) -> None:
    document = decode(KUBEADM_1_34)
    assert brought_up_to_date(document, spec, _v("v1.34.4")) is document


def test_a_new_version_changes_the_version_alone() -> None:
    before = decode(KUBEADM_1_34)
    after = brought_up_to_date(before, SPEC, _v("v1.35.4"))
    assert {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)} == {"kubernetesVersion"}
    assert after["kubernetesVersion"] == "v1.35.4"
    assert before["kubernetesVersion"] == "v1.34.4"


def test_without_a_cluster_configuration_only_the_version_follows() -> None:
    document = {**decode(KUBEADM_1_34), "featureGates": {"Other": True}}
    assert brought_up_to_date(document, {}, _v("v1.35.4")) == {**document, "kubernetesVersion": "v1.35.4"}


def test_build_and_prerelease_stay_in_the_version() -> None:
    assert _updated({}, version="v1.35.0-rc.1+k.1")["kubernetesVersion"] == "v1.35.0-rc.1+k.1"


@pytest.mark.parametrize(
    ("cluster", "path", "value"),
    [
        ({"imageRepository": "example.org"}, ("imageRepository",), "example.org"),
        ({"imageRepository": ""}, ("imageRepository",), "registry.k8s.io"),
        ({"featureGates": {"A": True}}, ("featureGates",), {"A": True, "ControlPlaneKubeletLocalMode": True}),
        (
            {"apiServer": {"certSANs": ["a"], "extraArgs": [{"name": "v", "value": ""}]}},
            ("apiServer",),
            {"certSANs": ["a"], "extraArgs": [{"name": "v", "value": ""}]},
        ),
        (
            {"controllerManager": {"extraEnvs": [{"name": "A", "value": "b"}]}},
            ("controllerManager", "extraEnvs"),
            [{"name": "A", "value": "b"}],
        ),
        (
            {"scheduler": {"extraVolumes": [{"name": "a", "hostPath": "/a", "mountPath": "/b"}]}},
            ("scheduler", "extraVolumes", 0, "hostPath"),
            "/a",
        ),
        ({"certificateValidityPeriodDays": 100}, ("certificateValidityPeriod",), "2400h0m0s"),
        ({"certificateValidityPeriodDays": 365}, ("certificateValidityPeriod",), "8760h0m0s"),
        ({"encryptionAlgorithm": "ECDSA-P256"}, ("encryptionAlgorithm",), "ECDSA-P256"),
        ({"etcd": {"local": {"imageTag": "3.6.6-0"}}}, ("etcd", "local"), {"dataDir": "/var/lib/etcd", "imageTag": "3.6.6-0"}),
        ({"etcd": {"local": {"dataDir": "/x"}}}, ("etcd", "local"), {"dataDir": "/x"}),
    ],
)
def test_these_fields_follow_the_specification(cluster: dict[str, Any], path: tuple[Any, ...], value: Any) -> None:
    found: Any = _updated(cluster)
    for key in path:
        found = found[key]
    assert found == value


@pytest.mark.parametrize(
    "cluster",
    [{"controlPlaneEndpoint": "x:1"}, {"certificatesDir": "/x"}, {"caCertificateValidityPeriodDays": 5}, {"dns": {"imageTag": "v1.0.0"}}],
)
def test_these_fields_do_not_follow(cluster: dict[str, Any]) -> None:
    document = decode(KUBEADM_1_34)
    assert brought_up_to_date(document, {"clusterConfiguration": cluster}, _v("v1.34.4")) is document


def test_what_is_taken_back_is_taken_away_except_the_repository() -> None:
    full = _updated(
        {
            "imageRepository": "example.org",
            "featureGates": {"A": True},
            "apiServer": {"certSANs": ["a"]},
            "certificateValidityPeriodDays": 100,
            "encryptionAlgorithm": "ECDSA-P256",
            "etcd": {"local": {"dataDir": "/x"}},
        }
    )
    bare = _updated({"certificatesDir": "/etc/kubernetes/pki"}, full)
    assert bare["imageRepository"] == "example.org"
    assert bare["featureGates"] == {"ControlPlaneKubeletLocalMode": True}
    assert bare["apiServer"] == {}
    assert bare["etcd"] == {"local": {}}
    assert not {"certificateValidityPeriod", "encryptionAlgorithm"} & bare.keys()


def test_external_etcd_replaces_local_and_the_other_way_round() -> None:
    external = {"endpoints": ["https://a"], "caFile": "c", "certFile": "d", "keyFile": "e"}
    document = _updated({"etcd": {"external": external}})
    assert document["etcd"] == {"external": external}
    assert _updated({"apiServer": {"certSANs": ["a"]}}, document)["etcd"] == {"local": {}}


def test_fields_that_nobody_here_knows_stay() -> None:
    document = decode(KUBEADM_1_34)
    document |= {"future": {"a": 1}, "apiServer": {"future": 2}, "dns": {"disabled": True}, "proxy": {"disabled": True}}
    after = _updated({"apiServer": {"certSANs": ["a"]}}, document)
    assert after["future"] == {"a": 1}
    assert after["apiServer"] == {"future": 2, "certSANs": ["a"]}
    assert (after["dns"], after["proxy"]) == ({"disabled": True}, {"disabled": True})


V1_30 = {
    "apiVersion": V1BETA3,
    "kind": "ClusterConfiguration",
    "kubernetesVersion": "v1.30.2",
    "apiServer": {"extraArgs": {"b": "2", "a": "1"}, "timeoutForControlPlane": "4m0s"},
    "etcd": {"local": {"dataDir": "/var/lib/etcd", "extraArgs": {"x": "y"}}},
}


def test_the_document_moves_to_the_kubeadm_api_of_the_version() -> None:
    cluster = {
        "apiServer": {"extraArgs": [{"name": "a", "value": "1"}, {"name": "b", "value": "2"}]},
        "etcd": {"local": {"extraArgs": [{"name": "x", "value": "y"}]}},
    }
    after = _updated(cluster, copy.deepcopy(V1_30), "v1.31.0")
    assert after["apiVersion"] == V1BETA4
    assert after["apiServer"] == cluster["apiServer"]
    assert after["etcd"]["local"]["extraArgs"] == [{"name": "x", "value": "y"}]
    back = _updated(cluster, after, "v1.30.2")
    assert back["apiServer"] == {"extraArgs": {"a": "1", "b": "2"}}
    assert back["apiVersion"] == V1BETA3


def test_in_v1beta3_what_kubeadm_does_not_know_there_is_left_out_and_its_timeout_stays() -> None:
    cluster = {
        "apiServer": {"extraArgs": [{"name": "a", "value": "1"}], "extraEnvs": [{"name": "A", "value": "b"}]},
        "certificateValidityPeriodDays": 5,
        "encryptionAlgorithm": "ECDSA-P256",
    }
    after = _updated(cluster, copy.deepcopy(V1_30), "v1.30.3")
    assert after["apiServer"] == {"extraArgs": {"a": "1"}, "timeoutForControlPlane": "4m0s"}
    assert not {"certificateValidityPeriod", "encryptionAlgorithm"} & after.keys()


def test_the_form_of_the_api_alone_is_no_reason_to_write() -> None:
    document = converted(decode(KUBEADM_1_34), V1BETA3)
    assert brought_up_to_date(document, {}, _v("v1.34.4")) is document


def test_doing_it_twice_is_doing_it_once() -> None:
    cluster = {
        "featureGates": {"A": False},
        "apiServer": {"extraArgs": [{"name": "a", "value": ""}]},
        "etcd": {"local": {"dataDir": "/x"}},
        "certificateValidityPeriodDays": 30,
    }
    once = decode(encode(_updated(cluster)))
    assert _updated(cluster, once) is once


def test_an_empty_text_is_an_empty_document() -> None:
    after = brought_up_to_date(decode(""), SPEC, _v("v1.34.4"))
    assert (after["apiVersion"], after["kind"], after["kubernetesVersion"]) == (V1BETA4, "ClusterConfiguration", "v1.34.4")
    assert brought_up_to_date(after, SPEC, _v("v1.34.4")) is after


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [", "not YAML"),
        ("- 1", "it is a list"),
        ("apiVersion: kubeadm.k8s.io/v1beta2\nkind: ClusterConfiguration", "v1beta2 ClusterConfiguration, not"),
        ("apiVersion: kubeadm.k8s.io/v1beta4\nkind: InitConfiguration", "InitConfiguration, not"),
        ("apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\napiServer: [1]", "its apiServer is not"),
        (
            "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\netcd:\n  local: {extraArgs: 3}",
            r"its etcd\.local\.extraArgs is not",
        ),
    ],
)
def test_what_cannot_be_used_is_refused(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        decode(text)


def test_dns_follows_when_coredns_does_and_its_other_fields_stay() -> None:
    document = {**decode(KUBEADM_1_34), "dns": {"disabled": False, "imageTag": "v1.11.3"}}
    after = with_dns(document, {"imageTag": "v1.12.1", "imageRepository": "example.org"}, _v("v1.34.4"))
    assert after["dns"] == {"disabled": False, "imageTag": "v1.12.1", "imageRepository": "example.org"}
    assert with_dns(after, after["dns"], _v("v1.34.4")) is after


def test_the_text_is_yaml_with_sorted_keys() -> None:
    text = encode(decode(KUBEADM_1_34))
    assert text == KUBEADM_1_34
    assert list(yaml.safe_load(text)) == sorted(yaml.safe_load(text))


def test_one_of_more_values_than_any_is_refused_before_it_is_read() -> None:
    """Whoever has a tenant's cluster writes it, and reading and writing 99,000 values takes a second and a half of everybody's time."""
    with pytest.raises(ValueError, match=r"^it has more than 2000 values"):
        decode(f"kind: ClusterConfiguration\napiVersion: {V1BETA4}\napiServer:\n  certSANs: [{'a,' * 2000}]\n")
