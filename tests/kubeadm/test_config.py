"""A machine's own configuration: what init and join keep, and the one feature gate that is added."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from quorate.core.versions import Version
from quorate.kubeadm import api_version, etcd_is_managed, is_join, machine_config
from quorate.kubeadm.config import brings_discovery

V1_30 = Version.parse("v1.30.0")
SPEC: dict[str, Any] = {
    "clusterConfiguration": {"certificatesDir": "/pki"},
    "initConfiguration": {"nodeRegistration": {"name": "first"}},
    "joinConfiguration": {"nodeRegistration": {"name": "later"}},
    "files": [{"path": "/a", "content": "b"}],
}


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("v1.22.0", "v1beta3"),
        ("v1.30.9", "v1beta3"),
        ("v1.31.0-alpha.1", "v1beta4"),
        ("v1.31.0", "v1beta4"),
        ("v1.99.0", "v1beta4"),
        ("v2.0.0", "v1beta4"),
    ],
)
def test_the_kubernetes_version_decides_kubeadms_api(version: str, expected: str) -> None:
    assert api_version(Version.parse(version)) == f"kubeadm.k8s.io/{expected}"


def test_before_1_22_there_is_no_api() -> None:
    with pytest.raises(ValueError, match=r"Kubernetes v1\.21\.14 is older than v1\.22"):
        api_version(Version.parse("v1.21.14"))


def test_the_first_machine_gets_no_join_configuration() -> None:
    config = machine_config(SPEC, version=V1_30, init=True)
    assert config == {name: SPEC[name] for name in ("clusterConfiguration", "initConfiguration", "files")}
    assert not is_join(config)


def test_a_later_machine_keeps_the_cluster_configuration_and_is_marked_as_joining() -> None:
    config = machine_config(SPEC, version=V1_30, init=False)
    assert config == {
        "clusterConfiguration": SPEC["clusterConfiguration"],
        "joinConfiguration": {"nodeRegistration": {"name": "later"}, "controlPlane": {}},
        "files": SPEC["files"],
    }
    assert is_join(config)


def test_an_endpoint_of_its_own_survives_the_mark() -> None:
    control_plane = {"localAPIEndpoint": {"bindPort": 6443}}
    config = machine_config({"joinConfiguration": {"controlPlane": control_plane}}, version=V1_30, init=False)
    assert config["joinConfiguration"]["controlPlane"] == control_plane


@pytest.mark.parametrize(
    "spec", [{}, {"joinConfiguration": None}, {"joinConfiguration": {}}, {"joinConfiguration": {"controlPlane": None}}]
)
def test_nothing_is_enough_to_join(spec: dict[str, Any]) -> None:
    assert not is_join(spec)
    assert machine_config(spec, version=V1_30, init=False)["joinConfiguration"] == {"controlPlane": {}}


@pytest.mark.parametrize(
    ("discovery", "brought"),
    [
        (None, False),
        ({}, False),
        ({"bootstrapToken": None, "file": None}, False),
        ({"bootstrapToken": {"apiServerEndpoint": "lb:6443", "caCertHashes": ["sha256:0"]}}, False),
        ({"file": {"kubeConfigPath": ""}}, False),
        ({"bootstrapToken": {"token": "abcdef.0123456789abcdef"}}, True),
        ({"file": {"kubeConfigPath": "/etc/join.conf"}}, True),
    ],
)
def test_only_a_file_or_a_token_says_how_a_machine_joins(discovery: dict[str, Any] | None, brought: bool) -> None:
    assert brings_discovery({"joinConfiguration": {"discovery": discovery}}) is brought
    assert not brings_discovery({})


def test_a_token_joins_what_the_discovery_says_already_and_the_config_given_stays_as_it_was() -> None:
    config = {"joinConfiguration": {"controlPlane": {}, "discovery": {"bootstrapToken": {"apiServerEndpoint": "lb:6443"}}}, "files": []}
    before = copy.deepcopy(config)
    made = machine_config(config, version=V1_30, init=False, token="abcdef.0123456789abcdef")
    assert made["joinConfiguration"]["discovery"] == {
        "bootstrapToken": {"apiServerEndpoint": "lb:6443", "token": "abcdef.0123456789abcdef"}
    }
    assert made["joinConfiguration"]["controlPlane"] == {}
    assert config == before


@pytest.mark.parametrize(
    ("version", "added"),
    [
        ("v1.30.9", False),
        ("v1.31.0-rc.1", True),
        ("v1.31.0", True),
        ("v1.35.99", True),
        ("v1.36.0-alpha.0", False),
        ("v1.36.0", False),
        ("v2.31.0", False),
    ],
)
@pytest.mark.parametrize("init", [True, False])
def test_kubelets_talk_to_their_own_api_server_from_1_31_until_kubeadm_drops_the_gate(version: str, added: bool, init: bool) -> None:
    config = machine_config({}, version=Version.parse(version), init=init)
    assert config.get("clusterConfiguration") == ({"featureGates": {"ControlPlaneKubeletLocalMode": True}} if added else None)


def test_a_gate_the_user_set_is_left_alone_and_others_are_kept() -> None:
    gates = {"ControlPlaneKubeletLocalMode": False, "NodeLocalCRISocket": True}
    config = machine_config({"clusterConfiguration": {"featureGates": gates}}, version=Version.parse("v1.34.0"), init=True)
    assert config["clusterConfiguration"]["featureGates"] == gates


@pytest.mark.parametrize("init", [True, False])
def test_the_control_planes_spec_is_not_touched(init: bool) -> None:
    before = copy.deepcopy(SPEC)
    config = machine_config(SPEC, version=Version.parse("v1.34.0"), init=init)
    config["files"][0]["content"] = "changed"
    assert before == SPEC


@pytest.mark.parametrize(
    ("spec", "managed"),
    [
        ({}, True),
        ({"clusterConfiguration": {"etcd": {"local": {"imageTag": "3.6"}}}}, True),
        ({"clusterConfiguration": {"etcd": {"external": {}}}}, True),
        ({"clusterConfiguration": {"etcd": {"external": {"endpoints": ["https://e:2379"], "caFile": "/ca"}}}}, False),
    ],
)
def test_etcd_is_managed_unless_an_external_one_is_described(spec: dict[str, Any], managed: bool) -> None:
    assert etcd_is_managed(spec) is managed
