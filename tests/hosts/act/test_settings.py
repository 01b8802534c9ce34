"""Settings brought to hosts and to the cluster: manifests one component after the other, configuration, certificates, and metadata of Nodes."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest
import yaml

from quorate.core.health import Absent
from quorate.core.hosts.steps import (
    EnsureMachineDeployments,
    Reconfigure,
    RenewCertificates,
    Step,
    Uncordon,
    UpdateConfiguration,
    UpdateNodes,
)
from quorate.core.versions import Version
from quorate.hosts.act.component_manifests import CONFIGURATION
from quorate.hosts.act.configuration import merged_cluster_configuration, merged_kubelet_configuration
from quorate.hosts.act.executor import Executor
from quorate.hosts.act.failures import StepFailed
from quorate.hosts.act.machine_deployments import machine_deployments
from quorate.hosts.connect.access import AccessFailed
from quorate.hosts.connect.ssh.scripts import Outcome
from quorate.hosts.manifest import Manifest
from quorate.hosts.observe.api import ApiReading
from quorate.hosts.observe.configuration import addon_drift, configuration_drift
from quorate.hosts.probe.facts import HostFacts, Kubeconfig
from quorate.hosts.render.component_configurations import kube_proxy_configuration, kubelet_configuration
from quorate.hosts.render.core_dns import budget_wanted
from quorate.hosts.render.host_files import yaml_documents
from quorate.hosts.render.kubeadm_configuration import cluster_configuration, image_repository
from quorate.hosts.render.marks import CORDONED, STATIC_WORKER
from quorate.kubernetes.client import Client
from quorate.kubernetes.errors import NotFound
from quorate.pki.certificates import read_certificates
from quorate.pki.issue import issue_client, issue_server
from quorate.pki.keys import KeyAlgorithm, KeyPair
from quorate.workload.static_pods import Component
from tests.hosts.act.running import NEW, OLD, RunningHost, cluster, manifest, running, tools
from tests.hosts.act.world import NOW, World, pairs
from tests.hosts.manifests import document, load
from tests.hosts.observe.world import CORE_DNS, CORE_DNS_BUDGET, KUBE_PROXY, put_core_dns, put_kube_proxy

CONFIG_MAPS = "/api/v1/namespaces/kube-system/configmaps"
NODES = "/api/v1/nodes"
CERTIFICATE = "/etc/kubernetes/pki/apiserver.crt"
WORKER = {
    "name": "pool",
    "replicas": 2,
    "providerSpec": {
        "cloudProviderSpec": {"instanceType": "t3.medium"},
        "labels": {"tier": "web"},
        "operatingSystem": "ubuntu",
        "sshPublicKeys": ["ssh-ed25519 AAAA"],
    },
}


def configured(made: Manifest | None = None) -> World:
    """A cluster whose configurations are in ConfigMaps, at the version that runs, and whose API servers have certificates."""
    made = made or manifest()
    world = cluster(made)
    document = {**cluster_configuration(made), "kubernetesVersion": OLD}
    put(world, "kubeadm-config", "ClusterConfiguration", document)
    put(world, "kubelet-config", "kubelet", kubelet_configuration(made))
    put(world, "kube-proxy", "config.conf", kube_proxy_configuration(made) or {})
    core_dns = made.features.core_dns
    repository = core_dns.image_repository or made.registry_configuration.overwrite_registry or "registry.k8s.io/coredns"
    put_core_dns(world.api, image=f"{repository}/coredns:v1.12.1", replicas=core_dns.replicas)
    put_kube_proxy(world.api, image=f"{image_repository(made)}/kube-proxy:{OLD}")
    if not core_dns.deploy_pod_disruption_budget:
        del world.api.objects[CORE_DNS_BUDGET]
    certificate = serving("api.example.com", *made.api_endpoint.alternative_names)
    for name in ("h1", "h2", "h3"):
        world.hosts[name].files[CERTIFICATE] = certificate.certificate
    return world


def serving(*names: str) -> KeyPair:
    """An API server's certificate for these names."""
    end = NOW + timedelta(days=365)
    return issue_server(
        pairs()["ca"], common_name="kube-apiserver", dns_names=names, algorithm=KeyAlgorithm.ECDSA_P256, not_before=NOW, not_after=end
    )


def put(world: World, name: str, key: str, document: dict[str, Any]) -> None:
    world.api.put(f"{CONFIG_MAPS}/{name}", {"data": {key: yaml_documents(document).decode()}})


def stored(world: World, name: str, key: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(world.api.objects[f"{CONFIG_MAPS}/{name}"]["data"][key])
    return found


async def done(world: World, step: Step) -> World:
    await Executor(tools(world)).carry_out(step, world.observed())
    return world


# The configuration in the cluster.


def drift(world: World) -> tuple[str, ...]:
    data = {name: world.api.objects[f"{CONFIG_MAPS}/{name}"]["data"] for name in ("kubeadm-config", "kubelet-config", "kube-proxy")}
    core_dns, budget, proxy = (world.api.objects.get(path, Absent()) for path in (CORE_DNS, CORE_DNS_BUDGET, KUBE_PROXY))
    reading = ApiReading((), data["kubeadm-config"], data["kubelet-config"], data["kube-proxy"], Absent(), (), core_dns, budget, proxy)
    return configuration_drift(world.manifest, reading) + addon_drift(world.manifest, reading)


CHANGED: dict[str, Any] = {
    "controlPlaneComponents__apiServer__flags": {"audit-log-maxage": "7"},
    "controlPlaneComponents__etcd__quotaBackendBytes": 4294967296,
    "kubeletConfig__maxPods": 42,
    "loggingConfig__containerLogMaxFiles": 9,
    "apiEndpoint__alternativeNames": ["other.example.com"],
    "clusterNetwork__kubeProxy": {"ipvs": {"scheduler": "rr", "strictARP": True}},
    "certificateAuthority__certificateValidityPeriod": "4380h",
    "registryConfiguration__overwriteRegistry": "registry.example.com",
    "features__coreDNS__replicas": 3,
    "features__coreDNS__deployPodDisruptionBudget": False,
    "features__coreDNS__imageRepository": "registry.example.com/dns",
}


@pytest.mark.parametrize("field", CHANGED)
async def test_after_an_update_nothing_differs_and_the_version_is_what_it_was(field: str) -> None:
    world = configured()
    world.manifest = manifest(**{field: CHANGED[field]})
    assert drift(world)
    await done(world, UpdateConfiguration())
    assert drift(world) == ()
    assert stored(world, "kubeadm-config", "ClusterConfiguration")["kubernetesVersion"] == OLD


@pytest.mark.parametrize("field", CHANGED)
async def test_what_the_manifest_says_no_longer_goes_again(field: str) -> None:
    world = configured(manifest(**{field: CHANGED[field]}))
    world.manifest = manifest()
    await done(world, UpdateConfiguration())
    assert drift(world) == ()


async def test_nothing_is_written_where_nothing_differs() -> None:
    world = await done(configured(), UpdateConfiguration())
    assert world.api.log == []


async def test_of_core_dns_only_what_the_manifest_says_is_written_and_the_rest_stays() -> None:
    world = configured()
    world.manifest = manifest(features__coreDNS__replicas=5, features__coreDNS__imageRepository="registry.example.com")
    await done(world, UpdateConfiguration())
    [container] = world.api.objects[CORE_DNS]["spec"]["template"]["spec"]["containers"]
    assert (world.api.objects[CORE_DNS]["spec"]["replicas"], container["image"]) == (5, "registry.example.com/coredns:v1.12.1")
    assert container["args"] == ["-conf", "/etc/coredns/Corefile"]


async def test_of_kube_proxy_only_the_repository_changes_and_what_cannot_be_compared_stays() -> None:
    world = configured()
    world.manifest = manifest(registryConfiguration__overwriteRegistry="mirror.example.com:5000/k8s")
    await done(world, UpdateConfiguration())
    [container] = world.api.objects[KUBE_PROXY]["spec"]["template"]["spec"]["containers"]
    assert container == {
        "name": "kube-proxy",
        "image": f"mirror.example.com:5000/k8s/kube-proxy:{OLD}",
        "command": ["/usr/local/bin/kube-proxy"],
    }
    pinned = f"registry.k8s.io/kube-proxy@sha256:{'a' * 64}"
    put_kube_proxy(world.api, image=pinned)
    assert drift(world) == ()
    world.api.log.clear()
    await done(world, UpdateConfiguration())
    assert world.api.log == []


async def test_where_kube_proxy_is_left_out_one_that_runs_is_not_touched() -> None:
    world = configured()
    world.manifest = manifest(
        registryConfiguration__overwriteRegistry="mirror.example.com", clusterNetwork__kubeProxy={"skipInstallation": True}
    )
    await done(world, UpdateConfiguration())
    assert not any(KUBE_PROXY in each for each in world.api.log)
    assert drift(world) == ()


async def test_core_dns_of_somebody_elses_making_is_left_alone() -> None:
    world = configured()
    put_core_dns(world.api, image=f"registry.example.com/coredns@sha256:{'a' * 64}")
    assert drift(world) == ()
    del world.api.objects[CORE_DNS], world.api.objects[CORE_DNS_BUDGET]
    assert drift(world) == ()
    await done(world, UpdateConfiguration())
    assert world.api.log == []


def test_a_single_node_has_no_budget_that_would_keep_it_from_being_drained() -> None:
    single = load(document(controlPlane__hosts=[{"publicAddress": "192.0.2.1", "privateAddress": "10.0.0.1"}]))
    assert (budget_wanted(single), budget_wanted(manifest())) == (None, True)


async def test_fields_flags_and_mounts_of_others_stay() -> None:
    wanted = cluster_configuration(manifest())
    found = {**wanted, "certificatesDir": "/elsewhere", "kubernetesVersion": OLD}
    found["apiServer"] = {
        **wanted["apiServer"],
        "extraArgs": [{"name": "authorization-mode", "value": "Node,RBAC,Webhook"}, {"name": "v", "value": "9"}],
        "extraVolumes": [{"name": "theirs", "hostPath": "/theirs", "mountPath": "/theirs"}],
    }
    merged = merged_cluster_configuration(manifest(), found)
    arguments = {each["name"]: each["value"] for each in merged["apiServer"]["extraArgs"]}
    assert merged["certificatesDir"] == "/elsewhere"
    assert merged["apiServer"]["extraVolumes"] == [{"name": "theirs", "hostPath": "/theirs", "mountPath": "/theirs"}]
    assert arguments["authorization-mode"] == "Node,RBAC,Webhook"
    assert "v" not in arguments


def test_etcds_image_comes_from_where_all_do() -> None:
    wanted = cluster_configuration(manifest())
    found = {**wanted, "etcd": {"local": {**wanted["etcd"]["local"], "imageRepository": "elsewhere.example.com", "imageTag": "3.6.5-0"}}}
    local = merged_cluster_configuration(manifest(), found)["etcd"]["local"]
    assert local == {**wanted["etcd"]["local"], "imageTag": "3.6.5-0"}


def test_etcds_data_stay_where_they_are() -> None:
    wanted = cluster_configuration(manifest())
    found = {**wanted, "etcd": {"local": {**wanted["etcd"]["local"], "dataDir": "/srv/etcd", "extraArgs": []}}}
    local = merged_cluster_configuration(manifest(), found)["etcd"]["local"]
    assert local == {**wanted["etcd"]["local"], "dataDir": "/srv/etcd"}


@pytest.mark.parametrize("name", ["etcd-prefix", "etcd_prefix"])
def test_what_says_where_data_are_stays_whatever_the_manifest_says(name: str) -> None:
    wanted = cluster_configuration(manifest())
    wal, prefix = {"name": "wal-dir", "value": "/var/lib/etcd/wal"}, {"name": name, "value": "/k8s"}
    found = {
        **wanted,
        "apiServer": {**wanted["apiServer"], "extraArgs": [prefix]},
        "etcd": {"local": {**wanted["etcd"]["local"], "extraArgs": [wal]}},
    }
    ours = manifest(controlPlaneComponents={"apiServer": {"flags": {"etcd-prefix": "/mine", "etcd-servers-overrides": "/events#x"}}})
    for each in (manifest(), ours):
        merged = merged_cluster_configuration(each, found)
        assert wal in merged["etcd"]["local"]["extraArgs"]
        flags = [argument for argument in merged["apiServer"]["extraArgs"] if argument["name"].startswith("etcd")]
        assert flags == [prefix]


def test_a_kubelets_fields_of_others_stay_at_every_depth() -> None:
    found = {"authentication": {"webhook": {"cacheTTL": "9s"}}, "maxPods": 9, "clusterDNS": ["10.96.0.10"]}
    merged = merged_kubelet_configuration(kubelet_configuration(manifest()), found)
    assert merged["authentication"] == {"webhook": {"cacheTTL": "9s"}, "anonymous": {"enabled": False}}
    assert merged["clusterDNS"] == ["10.96.0.10"]
    assert "maxPods" not in merged


async def test_a_missing_kubeadm_configuration_is_named_with_the_way_out() -> None:
    world = configured()
    del world.api.objects[f"{CONFIG_MAPS}/kubeadm-config"]
    with pytest.raises(StepFailed, match=r"kubeadm-config does not exist.*upload-config"):
        await done(world, UpdateConfiguration())


async def test_a_missing_kubelet_configuration_is_made() -> None:
    world = configured()
    del world.api.objects[f"{CONFIG_MAPS}/kubelet-config"]
    await done(world, UpdateConfiguration())
    assert drift(world) == ()


# Components of a host.


@pytest.mark.parametrize(
    ("due", "restarted"), [(("containerd",), []), (("containerd", "trust"), ["kube-apiserver", "kube-controller-manager"])]
)
async def test_what_was_restarted_for_settings_stays_noted_until_the_host_is_well_again(due: tuple[str, ...], restarted: list[str]) -> None:
    world = configured()
    running(world, "h1").due = due
    await done(world, Reconfigure("h1"))
    assert running(world, "h1").ran == [
        *(f"end {component}" for component in restarted),
        "pull images",
        "kubelet configuration",
        "is well again",
    ]
    assert running(world, "h2").ran == []


async def test_only_what_differs_is_changed_one_component_after_the_other() -> None:
    world = configured()
    running(world, "h1").drifting = {Component.ETCD, Component.API_SERVER}
    await done(world, Reconfigure("h1"))
    assert running(world, "h1").ran == ["pull images", "new manifest of etcd", "new manifest of kube-apiserver", "kubelet configuration"]
    assert running(world, "h2").ran == []


async def test_a_host_keeps_the_version_that_it_has_where_the_cluster_is_not_told_of_it_yet() -> None:
    world = configured()
    observed = world.observed()
    hosts = tuple(replace(host, components=Version.parse(NEW)) if host.name == "h1" else host for host in observed.cluster.hosts)
    await Executor(tools(world)).carry_out(Reconfigure("h1"), replace(observed, cluster=replace(observed.cluster, hosts=hosts)))
    documents = yaml.safe_load_all(running(world, "h1").files[CONFIGURATION])
    assert [document["kubernetesVersion"] for document in documents if "kubernetesVersion" in document] == [NEW]
    assert stored(world, "kubeadm-config", "ClusterConfiguration")["kubernetesVersion"] == OLD


async def test_a_certificate_without_a_name_of_the_manifest_is_made_anew_and_no_other() -> None:
    world = configured()
    world.manifest = manifest(apiEndpoint__alternativeNames=["Other.example.com"])
    await done(world, Reconfigure("h1"))
    assert any("certificate with other.example.com" in what for _, what in world.reports)
    world.hosts["h1"].files[CERTIFICATE] = serving("api.example.com", "other.example.com").certificate
    world.reports.clear()
    await done(world, Reconfigure("h1"))
    assert not any("certificate with" in what for _, what in world.reports)


async def test_a_component_that_does_not_come_up_gets_its_old_manifest_back() -> None:
    world = configured()
    host = running(world, "h1")
    host.drifting, host.broken = {Component.CONTROLLER_MANAGER, Component.SCHEDULER}, {Component.CONTROLLER_MANAGER}
    host.report()
    with pytest.raises(StepFailed, match=r"kube-controller-manager.*was put back"):
        await done(world, Reconfigure("h1"))
    assert host.ran == ["pull images", "new manifest of kube-controller-manager", "old manifest of kube-controller-manager"]


def broken(world: World, host: RunningHost) -> None:
    """The host's API server does not start with the manifest that it has."""
    ask = world.api_of

    async def of(name: str) -> Client:
        if name == host.name and (host.drifting or host.broken):
            raise AccessFailed(f"{name} has no API server that starts")
        return await ask(name)

    world.api_of = of  # type: ignore[method-assign]


async def test_an_api_server_that_its_own_manifest_broke_is_not_waited_for_when_etcd_has_another() -> None:
    world = configured()
    host = running(world, "h1")
    host.drifting = {Component.ETCD, Component.API_SERVER}
    broken(world, host)
    await done(world, Reconfigure("h1"))
    assert host.ran == ["pull images", "new manifest of etcd", "new manifest of kube-apiserver", "kubelet configuration"]


async def test_one_that_an_attempt_which_was_cut_short_may_have_taken_down_is() -> None:
    world = configured()
    host = running(world, "h1")
    host.broken, host.files["etcd.before"] = {Component.API_SERVER}, b"0 0"
    broken(world, host)
    with pytest.raises(StepFailed, match=r"kube-apiserver to serve did not come about.*was put back"):
        await done(world, Reconfigure("h1"))
    assert host.ran[-1] == "old manifest of etcd"


async def test_the_only_api_server_gets_its_old_manifest_back_that_a_change_which_was_cut_short_broke() -> None:
    """Nobody else could tell kubeadm's configuration."""
    world = configured()
    host = running(world, "h1")
    host.broken, host.files["kube-apiserver.before"] = {Component.API_SERVER}, b"0"
    broken(world, host)
    ask = world.api_client

    async def any_that_answers() -> Client:
        if host.broken:
            raise AccessFailed("no API server answers")
        return await ask()

    world.api_client = any_that_answers  # type: ignore[method-assign]
    await done(world, Reconfigure("h1"))
    assert host.ran == ["old manifest of kube-apiserver", "pull images", "kubelet configuration"]


@pytest.mark.parametrize("alone", [True, False])
async def test_the_only_api_server_that_was_left_broken_is_mended_by_the_manifest_alone(*, alone: bool) -> None:
    """kubeadm was killed in the middle of an upgrade, say, and nothing on the host tells what its API server had before."""
    hosts = [{"publicAddress": f"192.0.2.{number}", "privateAddress": f"10.0.0.{number}"} for number in range(1, 2 if alone else 4)]
    world = cluster(manifest(controlPlane__hosts=hosts))
    host = running(world, "h1")
    host.drifting, host.files[CERTIFICATE] = {Component.API_SERVER}, serving("api.example.com").certificate
    broken(world, host)
    ask = world.api_client

    async def any_that_answers() -> Client:
        if host.drifting:
            raise AccessFailed("no API server answers")
        return await ask()

    world.api_client = any_that_answers  # type: ignore[method-assign]
    if alone:
        await done(world, Reconfigure("h1"))
        assert host.ran == ["pull images", "new manifest of kube-apiserver", "kubelet configuration"]
    else:  # another may be asked later
        with pytest.raises(StepFailed, match=r"kubeadm-config to be read did not come about.*no API server answers"):
            await done(world, Reconfigure("h1"))
        assert host.ran == []


async def test_an_api_server_that_is_about_to_answer_is_waited_for() -> None:
    world = configured()
    ask, asked = world.api_client, itertools.count(1)

    async def from_the_third_time_on() -> Client:
        if next(asked) < 3:
            raise AccessFailed("no API server answers")
        return await ask()

    world.api_client = from_the_third_time_on  # type: ignore[method-assign]
    await done(world, Reconfigure("h1"))
    assert running(world, "h1").ran == ["pull images", "kubelet configuration"]


async def test_nothing_is_ended_for_images_that_cannot_be_had() -> None:
    world = configured()
    running(world, "h1").drifting = {Component.ETCD}
    world.failures["h1"] = ("init phase preflight", "[ERROR ImagePull]: failed to pull image registry.example.com/etcd:3.6.5-0")
    with pytest.raises(StepFailed, match=r"pulling images failed: .*ImagePull: failed to pull image registry\.example\.com/etcd"):
        await done(world, Reconfigure("h1"))
    assert running(world, "h1").ran == []


async def test_a_worker_has_its_kubelet_configured_and_no_ring_is_asked() -> None:
    world = configured()
    world.unreachable.add("h3")
    await done(world, Reconfigure("h4"))
    assert running(world, "h4").ran == ["kubelet configuration"]


async def test_no_component_is_touched_while_the_ring_does_not_bear_it() -> None:
    world = configured()
    world.unreachable.add("h3")
    running(world, "h1").drifting = {Component.ETCD}
    with pytest.raises(StepFailed, match="quorum survives a restart"):
        await done(world, Reconfigure("h1"))
    assert running(world, "h1").ran == []


@pytest.mark.parametrize("how", ["before", "after"])
async def test_cut_at_any_call_a_reconfiguration_ends_the_same(how: str) -> None:
    for number in itertools.count(1):
        world = configured()
        world.calls, world.cut = 0, (number, how)
        running(world, "h1").drifting = {Component.ETCD, Component.API_SERVER, Component.SCHEDULER}
        try:
            await done(world, Reconfigure("h1"))
        except StepFailed:
            await done(world, Reconfigure("h1"))
        host = running(world, "h1")
        assert not host.drifting
        assert not [path for path in host.files if path.endswith(".before")]
        assert not [what for what in host.ran if what.startswith("old")], f"cut {how} call {number}"
        if world.calls < number:
            return


# Certificates.


@pytest.mark.parametrize("found", [b"", b"no certificate", pairs()["ca"].certificate])
async def test_a_certificate_that_names_nobody_or_is_none_is_made_anew(found: bytes) -> None:
    world = configured()
    world.hosts["h1"].files[CERTIFICATE] = found
    await done(world, Reconfigure("h1"))
    assert any("certificate with api.example.com" in what for _, what in world.reports)


async def test_nothing_of_a_certificate_is_moved_before_kubeadm_has_made_the_next_one() -> None:
    world = configured()
    world.hosts["h1"].files[CERTIFICATE] = b""
    await done(world, Reconfigure("h1"))
    script = next(script for script in world.hosts["h1"].scripts if "kubeadm init phase certs" in script)
    before, _, after = script.partition("kubeadm init phase certs")
    assert "mv -f -T -- /etc/kubernetes/tmp/quorate/pki/$file /etc/kubernetes/pki/$file" in after
    assert "/etc/kubernetes/pki/apiserver" not in before


async def test_certificates_are_renewed_before_their_readers_restart_and_the_administrators_last() -> None:
    world = await done(configured(), RenewCertificates("h2"))
    ran = running(world, "h2").ran
    assert ran[-1] == "renew admin.conf"
    assert ran[-5:-1] == ["end kube-apiserver", "end etcd", "end kube-controller-manager", "end kube-scheduler"]
    assert len(ran) == 9 + 4 + 1
    assert running(world, "h2").silent == ["1"], "the old API server alone"
    assert running(world, "h1").ran == running(world, "h3").ran == []


@pytest.mark.parametrize("days", [-1, 1])
async def test_an_administrators_certificate_that_has_expired_is_renewed_before_the_api_server_is_asked(days: int) -> None:
    """A renewal was cut short before it, and nobody came back for a month."""
    world = cluster()
    host, observed, ask = running(world, "h1"), world.observed(), world.api_of

    async def of(name: str) -> Client:
        if days < 0 and name == "h1" and "renew admin.conf" not in host.ran:
            raise AccessFailed("get /readyz: Unauthorized")
        return await ask(name)

    world.api_of = of  # type: ignore[method-assign]
    until = NOW + timedelta(days=days)
    made = issue_client(
        pairs()["ca"], common_name="admin", algorithm=KeyAlgorithm.ECDSA_P256, not_before=until - timedelta(days=9), not_after=until
    )
    known = observed.facts["h1"]
    assert isinstance(known, HostFacts)
    kubeconfigs = {**known.kubeconfigs, "admin": Kubeconfig("", Absent(), read_certificates(made.certificate), inline=True)}
    facts = {**observed.facts, "h1": replace(known, kubeconfigs=kubeconfigs)}
    await Executor(tools(world)).carry_out(RenewCertificates("h1"), replace(observed, facts=facts))
    assert host.ran.count("renew admin.conf") == (2 if days < 0 else 1)
    assert host.ran[-1] == "renew admin.conf"


async def test_renewal_stops_where_a_component_does_not_come_back() -> None:
    world = configured()
    running(world, "h2").broken.add(Component.CONTROLLER_MANAGER)
    running(world, "h2").report()
    with pytest.raises(StepFailed, match="kube-controller-manager"):
        await done(world, RenewCertificates("h2"))
    assert "renew admin.conf" not in running(world, "h2").ran


# Nodes.


async def test_nodes_get_what_the_manifest_says_and_keep_what_it_does_not_mention() -> None:
    host = {"labels": {"tier": "db", "old-": ""}, "annotations": {"owner": "me"}, "taints": [{"key": "db", "effect": "NoSchedule"}]}
    changes: dict[str, Any] = {f"controlPlane__hosts__0__{key}": value for key, value in host.items()}
    world = cluster(manifest(**changes))
    node = world.api.objects[f"{NODES}/h1"]
    node["metadata"] |= {"labels": {"old": "1", "kept": "1"}}
    node["spec"] = {
        "taints": [
            {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"},
            {"key": "theirs", "effect": "NoExecute", "timeAdded": "T"},
        ]
    }
    await done(world, UpdateNodes(("h1", "h4")))
    node = world.api.objects[f"{NODES}/h1"]
    assert node["metadata"]["labels"] == {"kept": "1", "tier": "db", "node-role.kubernetes.io/control-plane": ""}
    assert node["metadata"]["annotations"] == {"owner": "me"}
    assert node["spec"]["taints"] == [{"key": "theirs", "effect": "NoExecute", "timeAdded": "T"}, {"key": "db", "effect": "NoSchedule"}]
    assert world.api.objects[f"{NODES}/h4"]["metadata"]["annotations"] == {STATIC_WORKER: "true"}


async def test_nodes_that_are_right_are_not_written() -> None:
    world = await done(cluster(), UpdateNodes(("h1", "h4")))
    world.api.log.clear()
    await done(world, UpdateNodes(("h1", "h4")))
    assert world.api.log == []


async def test_pods_return_to_a_node_that_we_cordoned_and_to_no_other() -> None:
    world = cluster()
    for name, marks in (("h1", {CORDONED: "true"}), ("h2", {})):
        world.api.objects[f"{NODES}/{name}"]["metadata"]["annotations"] = marks
        world.api.objects[f"{NODES}/{name}"]["spec"] = {"unschedulable": True}
        await done(world, Uncordon(name))
    assert world.api.objects[f"{NODES}/h1"]["spec"] == {}
    assert world.api.objects[f"{NODES}/h2"]["spec"] == {"unschedulable": True}


# MachineDeployments.

DEPLOYMENTS = "/apis/cluster.k8s.io/v1alpha1/namespaces/kube-system/machinedeployments"


def with_workers() -> Manifest:
    return manifest(dynamicWorkers=[WORKER], cloudProvider={"aws": {}, "external": True})


def test_a_machine_deployment_has_what_machine_controller_needs() -> None:
    (made,) = machine_deployments(with_workers())
    machine = made["spec"]["template"]["spec"]
    assert made["metadata"] == {"name": "pool", "namespace": "kube-system"}
    assert (made["spec"]["replicas"], made["spec"]["selector"]) == (2, {"matchLabels": {"workerset": "pool"}})
    assert machine["versions"] == {"kubelet": "1.35.4"}
    assert machine["metadata"]["labels"] == {"tier": "web", "workerset": "pool"}
    assert machine["providerSpec"]["value"] == {
        "cloudProvider": "aws",
        "cloudProviderSpec": {"instanceType": "t3.medium", "tags": {"kubernetes.io/cluster/demo": "shared"}},
        "operatingSystem": "ubuntu",
        "sshPublicKeys": ["ssh-ed25519 AAAA"],
    }


async def test_those_that_are_missing_are_made_and_of_others_only_the_version_is_set() -> None:
    world = await done(cluster(with_workers()), EnsureMachineDeployments())
    assert world.api.below(DEPLOYMENTS) == ["pool"]
    pool = world.api.objects[f"{DEPLOYMENTS}/pool"]
    pool["spec"]["replicas"] = 7
    pool["spec"]["template"]["spec"]["versions"]["kubelet"] = "1.34.4"
    await done(world, EnsureMachineDeployments())
    pool = world.api.objects[f"{DEPLOYMENTS}/pool"]
    assert (pool["spec"]["replicas"], pool["spec"]["template"]["spec"]["versions"]["kubelet"]) == (7, "1.35.4")


async def test_an_api_that_does_not_know_them_is_said_by_name() -> None:
    world = cluster(with_workers())
    world.api.failing[DEPLOYMENTS] = NotFound("list machinedeployments kube-system: not found", code=404)
    with pytest.raises(StepFailed, match=r"cluster.k8s.io/v1alpha1.*Install machine-controller"):
        await done(world, EnsureMachineDeployments())


@dataclass
class LosesAnother(RunningHost):
    """While its images are pulled, another host goes down."""

    def _run(self, script: str, stdin: bytes, *, halfway: bool) -> Outcome:
        if "init phase preflight" in script:
            self.world.unreachable.add("h3")
        return super()._run(script, stdin, halfway=halfway)


async def test_etcd_is_not_restarted_once_another_member_was_lost_while_images_were_pulled() -> None:
    world = configured()
    host = running(world, "h1")
    world.hosts["h1"] = LosesAnother(**{field: getattr(host, field) for field in RunningHost.__dataclass_fields__})
    running(world, "h1").drifting = {Component.ETCD}
    with pytest.raises(StepFailed, match="quorum survives a restart"):
        await done(world, Reconfigure("h1"))
    assert "pull images" in running(world, "h1").ran
    assert "new manifest of etcd" not in running(world, "h1").ran
