"""In what hosts and configurations differ from the manifest: the exact field with both values, and nothing where they only look different."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtensionOID, NameOID
from hypothesis import given
from hypothesis import strategies as st

from quorate.core.health import Absent, Health, Unknown
from quorate.core.hosts.forecast import forecast
from quorate.core.hosts.state import Cluster, Node
from quorate.hosts.observe.flags import arguments, flag_differences, parsed
from quorate.hosts.observe.kubelet import kubelet_differences, overruling_flags
from quorate.hosts.observe.nodes import new_node_drift
from quorate.hosts.render.component_configurations import kubelet_configuration
from quorate.hosts.render.feature_files import Contents
from quorate.pki.issue import issue_server
from quorate.pki.keys import KeyAlgorithm
from tests.hosts.observe.world import (
    CONFIG_MAPS,
    NAMES,
    NODES,
    World,
    bare,
    put_configurations,
    put_core_dns,
    put_kube_proxy,
    put_node,
    stand,
    three,
    write_static_pods,
)
from tests.hosts.probe.machine import NOW, ca

KUBEONE_PLUGINS = "NamespaceLifecycle,LimitRanger,ServiceAccount,NodeRestriction,DefaultStorageClass,ResourceQuota,PodSecurity,Priority"


def differences(component: str, wanted: str, found: str) -> list[str]:
    return list(flag_differences(component, parsed(wanted.split()), parsed(found.split())))


@pytest.mark.parametrize(
    ("component", "wanted", "found"),
    [
        ("kube-apiserver", "--tls-cipher-suites=A,B", "--tls-cipher-suites=B,A"),
        ("kube-apiserver", "--request-timeout=1m", "--request-timeout=1m0s"),
        ("kube-apiserver", "--enable-admission-plugins=NodeRestriction", f"--enable-admission-plugins={KUBEONE_PLUGINS}"),
        ("kube-apiserver", "", "--endpoint-reconciler-type=lease"),
        ("kube-apiserver", "--profiling", "--profiling=true"),
        (
            "etcd",
            "--corrupt-check-time=240m --feature-gates=CompactHashCheck=true,InitialCorruptCheck=true",
            "--experimental-corrupt-check-time=240m --experimental-compact-hash-check-enabled=true --experimental-initial-corrupt-check=true",
        ),
    ],
)
def test_flags_that_say_the_same_are_no_difference(component: str, wanted: str, found: str) -> None:
    assert differences(component, wanted, found) == []


@pytest.mark.parametrize(
    ("wanted", "found", "said"),
    [
        ("--profiling=false", "--profiling=true", "--profiling is 'true' instead of 'false'"),
        ("--profiling=false", "", "--profiling is not set instead of 'false'"),
        ("", "--v=4", "--v is '4', and the manifest leaves it out"),
        ("--request-timeout=1m", "--request-timeout=90s", "--request-timeout is 90 s instead of 60 s"),
        ("--tls-cipher-suites=A,B", "--tls-cipher-suites=B,C", "--tls-cipher-suites lacks A and has C too many"),
        ("--some-token=hunter2", "--some-token=hunter3", "--some-token differs from the manifest"),
    ],
)
def test_a_flag_that_differs_is_told_with_both_values_unless_they_are_secret(wanted: str, found: str, said: str) -> None:
    assert differences("kube-apiserver", wanted, found) == [f"kube-apiserver: {said}"]


@given(st.permutations(["--a=1", "--b=x,y", "--c=5s", "--feature-gates=A=true,B=false"]))
def test_the_order_of_flags_is_no_difference(flags: list[str]) -> None:
    assert (
        list(flag_differences("kube-scheduler", parsed(["--feature-gates=B=false,A=true", "--c=5s", "--b=x,y", "--a=1"]), parsed(flags)))
        == []
    )


def test_arguments_are_those_of_kubeadms_list() -> None:
    assert arguments({"extraArgs": [{"name": "v", "value": "4"}]}) == {"v": "4"}
    assert arguments({}) == {}


async def test_a_flag_of_the_manifest_that_a_host_does_not_run_with_is_drift_of_that_host(tmp_path: Path) -> None:
    world = stand(tmp_path, controlPlaneComponents={"apiServer": {"flags": {"v": "4"}}})
    write_static_pods(world.machines["cp-2"], three(), extra={"kube-scheduler": ["--v=9"]})
    cluster = await world.cluster()
    assert [host.drift for host in cluster.hosts] == [
        (),
        ("kube-apiserver: --v is not set instead of '4'", "kube-scheduler: --v is '9', and the manifest leaves it out"),
        (),
    ]


@pytest.mark.parametrize("registry", ["mirror.example.com:5000/k8s", "mirror"])
async def test_images_from_another_registry_are_drift_of_each_host_and_of_kube_proxy(tmp_path: Path, registry: str) -> None:
    world = stand(tmp_path)
    world.manifest = three(registryConfiguration={"overwriteRegistry": registry})
    moved = f"docker.io/{registry}" if registry == "mirror" else registry
    cluster = await world.cluster()
    images = [each for each in cluster.hosts[1].drift if ": image " in each]
    assert images == [
        f"{name}: image is 'registry.k8s.io/{name}:{tag}' instead of '{moved}/{name}:{tag}'"
        for name, tag in (
            ("kube-apiserver", "v1.34.4"),
            ("kube-controller-manager", "v1.34.4"),
            ("kube-scheduler", "v1.34.4"),
            ("etcd", "3.6.5-0"),
        )
    ]
    assert f"kube-proxy: image is 'registry.k8s.io/kube-proxy:v1.34.4' instead of '{moved}/kube-proxy:v1.34.4'" in cluster.addon_drift
    put_kube_proxy(world.api_objects, image=f"{registry}/kube-proxy:v1.34.4")
    machine = world.machines["cp-1"].folder
    for path in (machine.root / "etc/kubernetes/manifests").iterdir():
        path.write_text(path.read_text().replace("registry.k8s.io/", f"{registry}/"))
    cluster = await world.cluster()
    assert not any(": image " in each for each in (*cluster.hosts[0].drift, *cluster.addon_drift) if not each.startswith("CoreDNS"))


async def test_a_cluster_that_kubeone_made_is_observed_as_it_is(tmp_path: Path) -> None:
    """KubeOne's lists, flags of kubelets instead of fields, flags of etcd 3.5, its reconciler, and no annotation of ours on control planes."""
    world = stand(tmp_path)
    for name, machine in world.machines.items():
        api_server = machine.folder.root / "etc/kubernetes/manifests/kube-apiserver.yaml"
        text = api_server.read_text().replace("plugins=NodeRestriction", f"plugins={KUBEONE_PLUGINS}")
        api_server.write_text(
            text.replace("    - --allow-privileged=true\n", "    - --allow-privileged=true\n    - --endpoint-reconciler-type=lease\n")
        )
        config = machine.folder.root / "var/lib/kubelet/config.yaml"
        config.write_text("".join(line for line in config.read_text().splitlines(keepends=True) if "volumePluginDir" not in line))
        machine.folder.file("var/lib/kubelet/kubeadm-flags.env", f'KUBELET_KUBEADM_ARGS="--node-ip={name} --max-pods=110"\n')
    put_configurations(world, _as_kubeone_does)
    cluster = await world.cluster()
    assert [host.drift for host in cluster.hosts] == [()] * 3
    assert (cluster.configuration_drift, cluster.addon_drift, cluster.problems) == ((), (), ())


def _as_kubeone_does(document: dict[str, Any]) -> None:
    for argument in document["apiServer"]["extraArgs"]:
        if argument["name"] == "enable-admission-plugins":
            argument["value"] = KUBEONE_PLUGINS
    document["apiServer"]["extraArgs"].reverse()
    document["apiServer"]["extraArgs"].append({"name": "endpoint-reconciler-type", "value": "lease"})
    document |= {"imageRepository": "registry.k8s.io", "certificateValidityPeriod": "8760h0m0s", "dns": {}, "proxy": {}}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda document: document.update(imageRepository="mirror"),
            "ClusterConfiguration: imageRepository is 'mirror' instead of 'registry.k8s.io'",
        ),
        (lambda document: document["apiServer"].update(certSANs=[]), "ClusterConfiguration: apiServer.certSANs lacks api.example.com"),
        (lambda document: document["scheduler"].update(extraArgs=[]), "kube-scheduler: --profiling is not set instead of 'false'"),
        (
            lambda document: document["etcd"]["local"].update(extraEnvs=[]),
            "etcd: ETCDCTL_KEY is not set instead of '/etc/kubernetes/pki/etcd/healthcheck-client.key'",
        ),
        (
            lambda document: document.update(controlPlaneEndpoint="old:6443"),
            "controlPlaneEndpoint is 'old:6443' instead of 'api.example.com:6443'",
        ),
    ],
)
async def test_the_configuration_in_the_cluster_differs_field_by_field(
    tmp_path: Path, change: Callable[[dict[str, Any]], None], said: str
) -> None:
    world = stand(tmp_path)
    put_configurations(world, change)
    drift = (await world.cluster()).configuration_drift
    assert any(each.endswith(said) for each in drift), drift


@pytest.mark.parametrize("joins", ["cp-3", "worker-1"])
async def test_whoever_joins_gets_what_the_manifest_says_and_no_setting_that_it_has_corrected(tmp_path: Path, joins: str) -> None:
    """kubeadm takes what it gives to a host that joins from the cluster: an API server would be started with the flag that broke the others."""
    world = _with_one_that_is_to_join(tmp_path, joins)
    put_configurations(world, lambda document: document["apiServer"]["extraArgs"].append({"name": "no-such-flag", "value": "x"}))
    steps = _foreseen(await world.cluster())
    assert steps.index("update kubeadm's configuration in the cluster") < steps.index(_JOINS[joins])


async def test_what_only_addons_differ_in_waits_until_everybody_has_joined(tmp_path: Path) -> None:
    world = _with_one_that_is_to_join(tmp_path, "cp-3")
    put_core_dns(world.api_objects, replicas=1)
    steps = _foreseen(await world.cluster())
    assert steps.index(_JOINS["cp-3"]) < steps.index("update kubeadm's configuration in the cluster")


_JOINS = {"cp-3": "join cp-3 as a control plane", "worker-1": "join worker-1 as workers"}


def _with_one_that_is_to_join(folder: Path, name: str) -> World:
    workers = {"hosts": [{"hostname": "worker-1", "publicAddress": "192.0.2.11", "privateAddress": "10.0.0.11", "sshUsername": "root"}]}
    world = stand(folder, **({} if name in NAMES else {"staticWorkers": workers}))
    bare(world, name)
    world.etcd_ring.members = [each for each in world.etcd_ring.members if each.member.name != name]
    world.api_objects.objects.pop(f"{NODES}/{name}", None)
    return world


def _foreseen(cluster: Cluster) -> list[str]:
    return [str(step.step) for step in forecast(cluster, NOW).steps]


async def test_a_mount_of_a_feature_that_is_missing_is_said(tmp_path: Path) -> None:
    world = stand(tmp_path, features=_with_audit(tmp_path))
    world.contents = Contents(audit_policy=b"kind: Policy\n")
    put_configurations(world, lambda document: document["apiServer"].pop("extraVolumes"))
    observation = await world.observe()
    assert "kube-apiserver: /etc/kubernetes/audit is not mounted" in observation.cluster.configuration_drift
    assert observation.cluster.host("cp-1").drift == ("/etc/kubernetes/audit/policy.yaml: is missing",)


async def test_a_feature_file_is_compared_by_what_it_means(tmp_path: Path) -> None:
    world = stand(tmp_path, features=_with_audit(tmp_path))
    world.contents = Contents(audit_policy=b"kind: Policy\nrules: []\n")
    for name, text in (("cp-1", "rules: []\nkind: Policy\n"), ("cp-2", "kind: Policy\n"), ("cp-3", "rules: []\nkind: Policy # old\n")):
        world.machines[name].folder.file("etc/kubernetes/audit/policy.yaml", text)
    cluster = await world.cluster()
    assert [host.drift for host in cluster.hosts] == [(), ("/etc/kubernetes/audit/policy.yaml: differs from the manifest",), ()]


def _with_audit(folder: Path) -> dict[str, Any]:
    (folder / "policy.yaml").touch()
    audit = {"enable": True, "config": {"policyFilePath": str(folder / "policy.yaml")}}
    return {"metricsServer": {"enable": False}, "nodeLocalDNS": {"deploy": False}, "staticAuditLog": audit}


async def test_what_cannot_be_changed_is_a_problem_and_no_drift(tmp_path: Path) -> None:
    world = stand(tmp_path)

    def another(document: dict[str, Any]) -> None:
        document["clusterName"] = "other"
        document["networking"]["podSubnet"] = "10.99.0.0/16"

    put_configurations(world, another)
    cluster = await world.cluster()
    assert cluster.configuration_drift == ()
    assert [problem.partition(":")[0] for problem in cluster.problems] == [
        "the cluster's name is other, and the manifest says demo",
        "the cluster's podSubnet is 10.99.0.0/16, and the manifest says 10.244.0.0/16",
    ]


async def test_configurations_that_are_missing_or_broken_are_drift_and_those_not_read_are_not(tmp_path: Path) -> None:
    world = stand(tmp_path)
    world.api_objects.put(f"{CONFIG_MAPS}/kubelet-config", {"data": {"kubelet": "a: [b"}})
    world.api_objects.put(f"{CONFIG_MAPS}/kube-proxy", {"data": {"config.conf": "mode: ipvs"}})
    del world.api_objects.objects[f"{CONFIG_MAPS}/kubeadm-config"]
    cluster = await world.cluster()
    assert cluster.configuration_drift == (
        "ClusterConfiguration: is missing or cannot be read",
        "KubeletConfiguration: it is not YAML: line 2, column 1",
    )
    assert cluster.addon_drift == (
        "kube-proxy: clusterCIDR is not set instead of '10.244.0.0/16'",
        "kube-proxy: mode is 'ipvs' instead of 'iptables'",
    )


WANTED = kubelet_configuration(three())
ANONYMOUS = "kubelet: authentication.anonymous.enabled is True instead of False"


@pytest.mark.parametrize(
    ("wanted", "found", "flags", "said"),
    [
        ({"maxPods": 110}, {"maxPods": 250}, "", ["kubelet: maxPods is 250 instead of 110"]),
        ({"maxPods": 110}, {}, "--max-pods=110", []),
        ({"maxPods": 110}, {"maxPods": 110}, "--max-pods=250", ["kubelet: maxPods is 250 instead of 110"]),
        ({"systemReserved": {"cpu": "200m", "memory": "1Gi"}}, {}, "--system-reserved=memory=1Gi,cpu=200m", []),
        ({"evictionHard": {"memory.available": "100Mi"}}, {}, "'--eviction-hard=memory.available<100Mi'", []),
        ({}, {"maxPods": 250}, "", ["kubelet: maxPods is 250, and the manifest leaves it out"]),
        ({}, {"imageMinimumGCAge": "0s", "streamingConnectionIdleTimeout": "4h"}, "--max-pods=3", []),
        ({"imageMinimumGCAge": "300s"}, {"imageMinimumGCAge": "5m0s"}, "", []),
        ({"readOnlyPort": 0, "volumePluginDir": "/x"}, {}, "", []),
        (
            {"authentication": {"anonymous": {"enabled": False}}},
            {"authentication": {"anonymous": {"enabled": True}, "x509": {}}},
            "",
            [ANONYMOUS],
        ),
        ({"maxPods": 110}, {"maxPods": 110}, "a 'quote", []),
    ],
)
def test_a_kubelets_configuration_is_compared_field_by_field(
    wanted: dict[str, Any], found: dict[str, Any], flags: str, said: list[str]
) -> None:
    assert list(kubelet_differences(wanted, found, flags)) == said


def test_only_flags_of_what_the_manifest_says_overrule_it() -> None:
    assert overruling_flags({"maxPods": 110, "kubeReserved": {"cpu": "1"}, "readOnlyPort": 0}) == ("kube-reserved", "max-pods")
    assert overruling_flags(WANTED) == ()


def test_what_kubeadm_adds_to_a_kubelets_configuration_is_no_difference() -> None:
    assert list(kubelet_differences(WANTED, {**WANTED, "clusterDNS": ["10.96.0.10"], "staticPodPath": "/etc/kubernetes/manifests"})) == []


async def test_metadata_of_nodes_is_what_the_manifest_says(tmp_path: Path) -> None:
    world = stand(tmp_path)
    put_node(world, "cp-2", "10.0.0.2", labels={})
    world.api_objects.objects["/api/v1/nodes/cp-3"]["spec"] = {"unschedulable": True}
    world.api_objects.objects["/api/v1/nodes/cp-3"]["metadata"]["annotations"] = {"quorate.dev/cordoned": "true"}
    world.api_objects.put(
        "/api/v1/nodes/old-worker", {"metadata": {"name": "old-worker", "annotations": {"quorate.dev/static-worker": "true"}}}
    )
    world.api_objects.put("/api/v1/nodes/not-ours", {"metadata": {"name": "not-ours"}})
    cluster = await world.cluster()
    assert [host.new_node_drift for host in cluster.hosts] == [()] * 3, "kubeadm makes Nodes of a control plane as they are to be"
    assert cluster.host("cp-2").node_drift == ("label node-role.kubernetes.io/control-plane is missing",)
    assert cluster.host("cp-3").node_drift == ("taint node-role.kubernetes.io/control-plane:NoSchedule is missing",)
    node = cluster.host("cp-3").node
    assert not isinstance(node, Absent | Unknown)
    assert (node.unschedulable, node.cordoned_by_us) == (True, True)
    assert cluster.lost_nodes == ("old-worker",)
    assert [node.name for node in cluster.other_nodes] == ["not-ours", "old-worker"]


async def test_a_node_says_since_when_it_is_ready_or_there(tmp_path: Path) -> None:
    world = stand(tmp_path)
    first, second = (world.api_objects.objects[f"/api/v1/nodes/{name}"] for name in ("cp-1", "cp-2"))
    first["status"]["conditions"] = [{"type": "Ready", "status": "False", "lastTransitionTime": "2026-01-01T11:59:00Z"}]
    second["metadata"]["creationTimestamp"] = "2026-01-01T11:58:00Z"
    second["status"]["conditions"] = []
    nodes = [host.node for host in (await world.cluster()).control_planes]
    assert [node.ready_since and node.ready_since.minute for node in nodes if isinstance(node, Node)] == [59, 58, None]


async def test_a_node_says_what_it_is_short_of(tmp_path: Path) -> None:
    world = stand(tmp_path)
    conditions = [
        {"type": kind, "status": status} for kind, status in (("Ready", "True"), ("DiskPressure", "True"), ("PIDPressure", "False"))
    ]
    world.api_objects.objects["/api/v1/nodes/cp-3"]["status"]["conditions"] = conditions
    node = (await world.cluster()).host("cp-3").node
    assert not isinstance(node, Absent | Unknown)
    assert (node.ready.health, node.pressures) == (Health.GOOD, ("DiskPressure",))


def test_in_what_a_node_that_a_host_gets_will_differ_is_known_before_it_joins() -> None:
    host = three().control_plane.hosts[0]
    assert new_node_drift(host, control_plane=True) == ()
    assert new_node_drift(host, control_plane=False) == ("annotation quorate.dev/static-worker is missing",)
    labelled = replace(host, labels={"tier": "gold", "node.kubernetes.io/exclude-from-external-load-balancers-": ""})
    assert new_node_drift(labelled, control_plane=True) == (
        "label node.kubernetes.io/exclude-from-external-load-balancers is set, and the manifest removes it",
        "label tier is missing",
    )


async def test_a_name_that_an_api_servers_certificate_lacks_is_drift_of_its_host(tmp_path: Path) -> None:
    world = stand(tmp_path, apiEndpoint={"host": "API.example.com", "alternativeNames": ["fd00:0::1", "new.example.com"]})
    for name, names in (("cp-1", ["api.example.com", "new.example.com"]), ("cp-2", ["api.example.com"])):
        pair = issue_server(
            ca(),
            common_name="kube-apiserver",
            dns_names=names,
            ip_addresses=["fd00::1"],
            algorithm=KeyAlgorithm.ECDSA_P256,
            not_before=NOW,
            not_after=NOW + timedelta(days=365),
        )
        world.machines[name].folder.file("etc/kubernetes/pki/apiserver.crt", pair.certificate)
    cluster = await world.cluster()
    assert [host.drift for host in cluster.hosts] == [(), ("kube-apiserver: its certificate lacks new.example.com",), ()]


async def test_an_api_servers_certificate_that_names_nobody_lacks_every_name_and_one_that_cannot_be_read_is_unknown(tmp_path: Path) -> None:
    world = stand(tmp_path, apiEndpoint={"host": "api.example.com"})
    nameless, unreadable = ca().certificate, with_a_name_of_no_known_kind()
    for name, certificate in (("cp-1", nameless), ("cp-2", unreadable)):
        world.machines[name].folder.file("etc/kubernetes/pki/apiserver.crt", certificate)
    first, second, _ = (await world.cluster()).hosts
    assert first.drift == ("kube-apiserver: its certificate lacks api.example.com",)
    assert second.drift == ()  # what it says of itself is unknown: kubeadm judges it when it is renewed


def with_a_name_of_no_known_kind() -> bytes:
    """A certificate whose subject alternative name is an x400Address, which parsers of certificates do not know."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kube-apiserver")])
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key()).serial_number(5)
    made = made.not_valid_before(NOW).not_valid_after(NOW + timedelta(days=365))
    made = made.add_extension(
        x509.UnrecognizedExtension(ExtensionOID.SUBJECT_ALTERNATIVE_NAME, bytes.fromhex("3004a3020500")), critical=False
    )
    return made.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)


@pytest.mark.parametrize(
    ("component", "place"),
    [("etcd", "wal-dir=/var/lib/etcd/wal"), ("kube-apiserver", "etcd-prefix=/k8s"), ("kube-apiserver", "etcd_prefix=/k8s")],
)
async def test_what_says_where_data_are_is_not_rolled_off(tmp_path: Path, component: str, place: str) -> None:
    world = stand(tmp_path)
    name, _, value = place.partition("=")
    for number, host in enumerate(NAMES):
        write_static_pods(world.machines[host], world.manifest, founder=number == 0, extra={component: [f"--{place}"]})

    def change(document: dict[str, Any]) -> None:
        part = document["etcd"]["local"] if component == "etcd" else document["apiServer"]
        part["extraArgs"] = [*part["extraArgs"], {"name": name, "value": value}]

    put_configurations(world, change)
    cluster = await world.cluster()
    assert (cluster.configuration_drift, [host.drift for host in cluster.hosts], cluster.problems) == ((), [()] * 3, ())


@pytest.mark.parametrize("cluster_has", ["/k8s", ""])
async def test_a_manifest_that_wants_stored_objects_elsewhere_is_refused_by_name(tmp_path: Path, cluster_has: str) -> None:
    world = stand(tmp_path, controlPlaneComponents={"apiServer": {"flags": {"etcd-prefix": "/mine"}}})

    def change(document: dict[str, Any]) -> None:
        kept = [each for each in document["apiServer"]["extraArgs"] if each["name"] != "etcd-prefix"]
        document["apiServer"]["extraArgs"] = [*kept, *([{"name": "etcd-prefix", "value": cluster_has}] if cluster_has else [])]

    put_configurations(world, change)
    cluster = await world.cluster()
    [problem] = cluster.problems
    assert problem.startswith(f"the --etcd-prefix of kube-apiserver is {cluster_has or 'not there'}, and the manifest says /mine")
    assert forecast(cluster, NOW).steps == ()
