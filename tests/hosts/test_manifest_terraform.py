"""Terraform's outputs are merged into a manifest as KubeOne merges them, and a mistake in them is told with the output that it is in."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.hosts.manifest import Manifest, ManifestError, parse
from quorate.hosts.manifest.defaults import CONTROL_PLANE_TAINT
from quorate.hosts.manifest.terraform import Outputs
from tests.hosts.manifests import PUBLIC_KEY, SMALLEST, changed, document, load, notices, problems

GROUP: dict[str, Any] = {
    "public_address": ["192.0.2.11", "192.0.2.12", "192.0.2.13"],
    "private_address": ["10.0.1.1", "10.0.1.2", "10.0.1.3"],
}


def control_plane(**more: Any) -> dict[str, Any]:
    return {"kubeone_hosts": {"control_plane": GROUP | more}}


def addresses(manifest: Manifest) -> list[tuple[str, str]]:
    return [(host.public_address, host.private_address) for host in manifest.hosts]


def test_terraforms_control_plane_hosts_replace_the_manifests() -> None:
    manifest = load(SMALLEST, control_plane())
    assert addresses(manifest) == [("192.0.2.11", "10.0.1.1"), ("192.0.2.12", "10.0.1.2"), ("192.0.2.13", "10.0.1.3")]


def test_without_hosts_in_terraform_the_manifests_stay() -> None:
    assert addresses(load(SMALLEST, {"kubeone_hosts": {"control_plane": {"cluster_name": "other"}}})) == addresses(load(SMALLEST))


def test_the_manifest_needs_no_hosts_endpoint_name_or_cloud_of_its_own() -> None:
    made = document(controlPlane=None, apiEndpoint=None, name=None, cloudProvider=None)
    outputs = {"kubeone_api": {"endpoint": "lb.example.com"}} | control_plane(cluster_name="from-terraform", cloud_provider="none")
    manifest = load(made, outputs)
    assert (manifest.name, manifest.api_endpoint.host, manifest.cloud_provider.chosen) == ("from-terraform", "lb.example.com", ("none",))


@pytest.mark.parametrize(
    ("output", "value", "attribute", "expected"),
    [
        ("operating_system", "flatcar", "operating_system", "flatcar"),
        ("ssh_user", "core", "ssh_username", "core"),
        ("ssh_port", 2222, "ssh_port", 2222),
        ("ssh_port", 0, "ssh_port", 22),
        ("ssh_private_key_file", "/key", "ssh_private_key_file", "/key"),
        ("ssh_cert_file", "/cert", "ssh_cert_file", "/cert"),
        ("ssh_agent_socket", "env:SSH_AUTH_SOCK", "ssh_agent_socket", "env:SSH_AUTH_SOCK"),
        ("bastion", "192.0.2.1", "bastion", "192.0.2.1"),
        ("bastion_port", 2022, "bastion_port", 2022),
        ("bastion_user", "jump", "bastion_user", "jump"),
        ("bastion_private_key_file", "/bastion", "bastion_private_key_file", "/bastion"),
        ("labels", {"a": "b"}, "labels", {"a": "b"}),
        ("annotations", {"a": "b"}, "annotations", {"a": "b"}),
        ("untaint", True, "taints", ()),
        ("untaint", False, "taints", (CONTROL_PLANE_TAINT,)),
        ("ssh_user", None, "ssh_username", "root"),
        ("labels", None, "labels", {}),
    ],
)
def test_what_a_group_says_is_said_of_each_of_its_hosts(output: str, value: object, attribute: str, expected: object) -> None:
    hosts = load(SMALLEST, control_plane(**{output: value})).control_plane.hosts
    assert [getattr(host, attribute) for host in hosts] == [expected] * 3


@pytest.mark.parametrize(
    ("output", "values", "attribute", "expected"),
    [
        ("hostnames", ["a", "b", "c"], "hostname", ["a", "b", "c"]),
        ("hostnames", [], "hostname", ["", "", ""]),
        ("hostnames", None, "hostname", ["", "", ""]),
        ("ipv6_addresses", [["2001:db8::1"], [], ["2001:db8::3"]], "ipv6_addresses", [("2001:db8::1",), (), ("2001:db8::3",)]),
        ("ssh_hosts_keys", [PUBLIC_KEY, None, PUBLIC_KEY], "ssh_host_public_key", [True, False, True]),
        ("private_address", [], "private_address", GROUP["public_address"]),
        ("private_address", None, "private_address", GROUP["public_address"]),
    ],
)
def test_parallel_lists_give_each_host_its_own(output: str, values: object, attribute: str, expected: list[Any]) -> None:
    hosts = load(SMALLEST, control_plane(**{output: values})).control_plane.hosts
    found = [getattr(host, attribute) for host in hosts]
    assert [bool(each) if isinstance(each, bytes) else each for each in found] == expected


def test_without_public_addresses_the_private_ones_make_the_hosts() -> None:
    manifest = load(SMALLEST, control_plane(public_address=[]))
    assert addresses(manifest) == [(address, address) for address in GROUP["private_address"]]


@pytest.mark.parametrize("output", ["private_address", "hostnames", "ssh_hosts_keys", "ipv6_addresses"])
def test_parallel_lists_of_other_lengths_are_refused(output: str) -> None:
    value = {"private_address": ["10.0.1.1"], "hostnames": ["a"], "ssh_hosts_keys": [PUBLIC_KEY], "ipv6_addresses": [["2001:db8::1"]]}[
        output
    ]
    found = problems(SMALLEST, control_plane(**{output: value}))
    assert found == {
        f"kubeone_hosts.value.control_plane.{output}": "has 1 items, and public_address has 3; give one for each host, or none"
    }


@pytest.mark.parametrize(("leader", "expected"), [("192.0.2.12", 1), ("10.0.1.3", 2), ("", 0)])
def test_the_leader_is_who_has_its_address(leader: str, expected: int) -> None:
    manifest = load(SMALLEST, control_plane(leader_ip=leader))
    assert manifest.leader is manifest.control_plane.hosts[expected]


def test_a_leader_that_is_gone_is_told_and_the_first_host_leads() -> None:
    manifest = load(SMALLEST, control_plane(leader_ip="192.0.2.99"))
    assert manifest.leader is manifest.control_plane.hosts[0]
    assert (
        notices(manifest)["controlPlane.hosts"]
        == "Terraform's leader_ip, 192.0.2.99, is not an address of these hosts; the first of them leads"
    )


def test_the_kubelets_settings_are_read_from_their_lists() -> None:
    kubelet = {
        "system_reserved": "cpu=200m,memory=200Mi",
        "kube_reserved": "cpu=100m",
        "eviction_hard": "memory.available<100Mi,nodefs.available<10%",
        "max_pods": 120,
        "image_gc_high_threshold_percent": 90,
        "image_gc_low_threshold_percent": 70,
        "image_minimum_gc_age": "2m",
        "image_maximum_gc_age": "0",
    }
    found = load(SMALLEST, control_plane(kubelet=kubelet)).control_plane.hosts[0].kubelet
    assert found.system_reserved == {"cpu": "200m", "memory": "200Mi"}
    assert found.kube_reserved == {"cpu": "100m"}
    assert found.eviction_hard == {"memory.available": "100Mi", "nodefs.available": "10%"}
    assert (found.max_pods, found.image_gc_high_threshold_percent, found.image_gc_low_threshold_percent) == (120, 90, 70)
    assert found.image_minimum_gc_age.total_seconds() == 120


@pytest.mark.parametrize(
    ("output", "value"),
    [("system_reserved", "cpu"), ("kube_reserved", "cpu=1,memory"), ("eviction_hard", "memory=1"), ("kube_reserved", "=1")],
)
def test_a_pair_without_its_value_is_refused(output: str, value: str) -> None:
    [(where, message)] = problems(SMALLEST, control_plane(kubelet={output: value})).items()
    assert where == f"kubeone_hosts.value.control_plane.kubelet.{output}"
    assert message.startswith("is not a list such as cpu")


@pytest.mark.parametrize("name", ["aws", "digitalocean", "gce", "hetzner", "nutanix", "equinixmetal", "packet", "vmwareCloudDirector"])
def test_terraform_chooses_the_cloud_where_the_manifest_does_not(name: str) -> None:
    manifest = load(document(cloudProvider=None), control_plane(cloud_provider=name))
    assert manifest.cloud_provider.chosen == ("equinixmetal" if name == "packet" else name,)


def test_two_clouds_one_from_each_are_refused() -> None:
    assert "names aws and none; name exactly one" in problems(SMALLEST, control_plane(cloud_provider="aws"))["cloudProvider"]


def test_an_unknown_cloud_is_refused_with_the_nearest() -> None:
    found = problems(document(cloudProvider=None), control_plane(cloud_provider="hetzer"))
    assert found["kubeone_hosts.value.control_plane.cloud_provider"] == "hetzer is not a known provider; did you mean hetzner?"


@pytest.mark.parametrize(
    ("name", "outputs"),
    [("hetzner", {"network_id": "42"}), ("vmwareCloudDirector", {"vapp_name": "v", "storage_profile": "fast", "cluster_name": "c"})],
)
def test_outputs_for_what_kubeone_deploys_for_a_cloud_are_known_and_ask_for_nothing(name: str, outputs: dict[str, Any]) -> None:
    manifest = load(document(cloudProvider=None), control_plane(cloud_provider=name, **outputs))
    assert manifest.cloud_provider.chosen == (name,)


@pytest.mark.parametrize(
    ("api", "host", "names"),
    [
        ({"endpoint": "lb.example.com"}, "lb.example.com", ("old",)),
        ({"endpoint": ""}, "api.example.com", ("old",)),
        ({"apiserver_alternative_names": ["new"]}, "api.example.com", ("new",)),
        ({"apiserver_alternative_names": []}, "api.example.com", ("old",)),
        (None, "api.example.com", ("old",)),
    ],
)
def test_the_endpoint_is_terraforms_where_it_says_one(api: object, host: str, names: tuple[str, ...]) -> None:
    endpoint = load(changed("apiEndpoint.alternativeNames", ["old"]), {"kubeone_api": api}).api_endpoint
    assert (endpoint.host, endpoint.alternative_names) == (host, names)


def test_static_workers_are_added_in_the_order_of_their_groups() -> None:
    made = changed("staticWorkers.hosts", [{"publicAddress": "10.0.2.1"}])
    outputs = {
        "kubeone_static_workers": {"b": {"private_address": ["10.0.2.3"]}, "a": {"private_address": ["10.0.2.2"], "ssh_user": "core"}}
    }
    workers = load(made, outputs).static_workers.hosts
    assert [(host.private_address, host.ssh_username, host.taints) for host in workers] == [
        ("10.0.2.1", "root", ()),
        ("10.0.2.2", "core", ()),
        ("10.0.2.3", "root", ()),
    ]


def worker(**settings: Any) -> dict[str, Any]:
    return {
        "replicas": 3,
        "providerSpec": {"cloudProviderSpec": settings, "operatingSystem": "ubuntu", "sshPublicKeys": ["ssh-ed25519 AAAA"]},
    }


def test_workers_that_the_manifest_does_not_have_are_added() -> None:
    [pool] = load(SMALLEST, {"kubeone_workers": {"pool1": worker(location="nbg1")}}).dynamic_workers
    assert (pool.name, pool.replicas, pool.provider_spec.operating_system) == ("pool1", 3, "ubuntu")


def test_of_workers_that_the_manifest_has_only_open_settings_of_the_cloud_are_taken() -> None:
    made = changed("dynamicWorkers", [{"name": "pool1", "replicas": 1, "providerSpec": {"cloudProviderSpec": {"location": "own"}}}])
    settings: dict[str, Any] = {"location": "terraforms", "network": "n", "empty": "", "none": None, "no": [], "zero": 0, "off": False}
    [pool] = load(made, {"kubeone_workers": {"pool1": worker(**settings)}}).dynamic_workers
    assert (pool.replicas, pool.provider_spec.operating_system) == (1, "")
    assert pool.provider_spec.cloud_provider_spec is not None
    assert pool.provider_spec.cloud_provider_spec.value == {"location": "own", "network": "n"}


def test_workers_are_added_in_the_order_of_their_names() -> None:
    pools = load(SMALLEST, {"kubeone_workers": {"b": worker(), "a": worker()}}).dynamic_workers
    assert [pool.name for pool in pools] == ["a", "b"]


def test_other_outputs_are_not_read() -> None:
    assert load(SMALLEST, {"ssh_commands": 5, "proxy": {"http": 5}} | control_plane()).proxy.http == ""


@pytest.mark.parametrize(
    ("outputs", "where", "expected"),
    [
        (control_plane(ssh_usr="x"), "kubeone_hosts.value.control_plane.ssh_usr", "did you mean ssh_user?"),
        (control_plane(sshPort=1), "kubeone_hosts.value.control_plane.sshPort", "did you mean ssh_port?"),
        ({"kubeone_hosts": {"controlplane": {}}}, "kubeone_hosts.value.controlplane", "did you mean control_plane?"),
        ({"kubeone_api": {"endpont": "a"}}, "kubeone_api.value.endpont", "did you mean endpoint?"),
        (
            {"kubeone_static_workers": {"a": {"publicAddress": []}}},
            "kubeone_static_workers.value.a.publicAddress",
            "did you mean public_address?",
        ),
        ({"kubeone_workers": {"a": {"replica": 1}}}, "kubeone_workers.value.a.replica", "did you mean replicas?"),
        (
            {"kubeone_workers": {"a": worker() | {"replicas": "3"}}},
            "kubeone_workers.value.a.replicas",
            "is a text, and must be a whole number",
        ),
        ({"kubeone_workers": {"a": 5}}, "kubeone_workers.value.a", "is a number, and must be a mapping"),
        ({"kubeone_workers": [5]}, "kubeone_workers.value", "must be an object of groups by their names"),
        ({"kubeone_static_workers": "x"}, "kubeone_static_workers.value", "must be an object of groups by their names"),
        (control_plane(ssh_port="22"), "kubeone_hosts.value.control_plane.ssh_port", "is a text, and must be a whole number"),
        (control_plane(ssh_port=99999), "kubeone_hosts.value.control_plane.ssh_port", "99999 is not a port"),
        (control_plane(public_address="10.0.0.1"), "kubeone_hosts.value.control_plane.public_address", "is a text, and must be a list"),
        (
            control_plane(public_address=["x y", "b", "c"]),
            "kubeone_hosts.value.control_plane.public_address[0]",
            "x y is neither an IP address",
        ),
        (
            control_plane(hostnames=["A", "b", "c"]),
            "kubeone_hosts.value.control_plane.hostnames[0]",
            "A has capitals; Kubernetes accepts a",
        ),
        (control_plane(operating_system="amzn2"), "kubeone_hosts.value.control_plane.operating_system", "is none of ubuntu"),
        (control_plane(ssh_hosts_keys=["?", None, None]), "kubeone_hosts.value.control_plane.ssh_hosts_keys[0]", "is not base64"),
        (control_plane(labels={"a b": "c"}), "kubeone_hosts.value.control_plane.labels", "is not a label key"),
        (control_plane(cluster_name="Demo"), "kubeone_hosts.value.control_plane.cluster_name", "Demo has capitals"),
        ({"kubeone_api": {"endpoint": "a b"}}, "kubeone_api.value.endpoint", "a b is neither"),
    ],
)
def test_a_mistake_in_an_output_is_told_with_the_output(outputs: dict[str, Any], where: str, expected: str) -> None:
    found = problems(SMALLEST, outputs)
    assert where in found, found
    assert expected in found[where]


def test_the_message_names_the_file_and_the_output() -> None:
    with pytest.raises(ManifestError, match=r"^tf.json: kubeone_hosts.value.control_plane.ssh_port: 99999 is not a port"):
        load(SMALLEST, control_plane(ssh_port=99999))


def test_hosts_that_terraform_has_wrong_are_not_called_missing() -> None:
    found = problems(document(controlPlane=None), control_plane(public_address="10.0.0.1"))
    assert list(found) == ["kubeone_hosts.value.control_plane.public_address"]


def test_a_host_of_terraform_is_not_told_with_a_line_of_the_manifest() -> None:
    found = problems(SMALLEST, control_plane(private_address=["127.0.0.1", "10.0.1.2", "10.0.1.3"]))
    assert list(found) == ["kubeone_hosts.value.control_plane.private_address[0]"]
    outputs = control_plane(public_address=["node.example.com", "192.0.2.12", "192.0.2.13"], private_address=[])
    with pytest.raises(
        ManifestError, match=r"^tf.json: kubeone_hosts.value.control_plane.public_address\[0\]: node.example.com is not an IP address"
    ):
        load(SMALLEST, outputs)


def test_unknown_keys_of_newer_modules_are_listed_where_the_user_says_so() -> None:
    manifest = load(SMALLEST, control_plane(invented="x"), ignore=True)
    assert [ignored.path for ignored in manifest.ignored] == ["kubeone_hosts.value.control_plane.invented"]
    assert len(manifest.hosts) == 3


@pytest.mark.parametrize("values", [{}, {"other": {"value": 1}}])
def test_outputs_that_are_somebody_elses_are_refused(values: dict[str, Any]) -> None:
    with pytest.raises(ManifestError, match=r"^tf.json: has none of the outputs kubeone_api, kubeone_hosts"):
        parse(TEXT, terraform=Outputs("tf.json", values))


@pytest.mark.parametrize("output", [5, [], {"control_plane": {}}])
def test_values_without_their_wrapping_are_refused(output: object) -> None:
    with pytest.raises(ManifestError, match=r"^tf.json: kubeone_hosts: has no value"):
        parse(TEXT, terraform=Outputs("tf.json", {"kubeone_hosts": output}))


def test_a_wrong_kind_in_the_manifest_is_still_told_where_terraform_would_add_to_it() -> None:
    made = document(staticWorkers={"hosts": "x"}, dynamicWorkers="y", apiEndpoint=5)
    outputs = {
        "kubeone_static_workers": {"a": {"private_address": ["10.0.2.2"]}},
        "kubeone_workers": {"a": worker()},
        "kubeone_api": {"endpoint": "lb.example.com"},
    }
    assert set(problems(made, outputs)) == {"staticWorkers.hosts", "dynamicWorkers", "apiEndpoint"}


def test_outputs_are_in_no_repr() -> None:
    assert "hunter2" not in repr(Outputs("tf.json", {"a": "hunter2"}))
    assert "hunter2" not in repr(load(SMALLEST, {"kubeone_workers": {"a": worker(token="hunter2")}}))


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text("ab=,<", max_size=4),
        lambda below: (
            st.lists(below, max_size=3)
            | st.dictionaries(
                st.sampled_from(["control_plane", "kubelet", "public_address", "labels", "endpoint", "providerSpec", "cloudProviderSpec"]),
                below,
            )
        ),
        max_leaves=10,
    ),
    st.sampled_from(["kubeone_api", "kubeone_hosts", "kubeone_static_workers", "kubeone_workers"]),
    st.booleans(),
)
def test_whatever_an_output_holds_the_answer_is_a_manifest_or_its_mistakes(value: object, name: str, ignore: bool) -> None:
    try:
        found: Manifest | ManifestError = load(SMALLEST, {name: value}, ignore=ignore)
    except ManifestError as error:
        found = error
    assert isinstance(found, Manifest) or found.problems


TEXT = """\
apiVersion: kubeone.k8c.io/v1beta2
kind: KubeOneCluster
name: demo
versions: {kubernetes: 1.34.4}
cloudProvider: {none: {}}
controlPlane: {hosts: [{publicAddress: 10.0.0.1}]}
"""
