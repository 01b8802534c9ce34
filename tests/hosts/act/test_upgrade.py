"""Upgrades of hosts in a cluster: in which order, behind which gate, and cut short at every call."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from quorate.core.hosts.steps import UpgradeControlPlane, UpgradeKubelet
from quorate.core.versions import Version
from quorate.hosts.act.executor import Executor
from quorate.hosts.act.failures import StepFailed
from quorate.hosts.probe.parse import parse
from quorate.hosts.render.feature_files import Contents
from quorate.hosts.render.kubeadm_configuration import UPGRADE_PATH
from quorate.hosts.render.marks import CORDONED
from quorate.workload.static_pods import Component
from tests.hosts.act.running import NEW, OLD, api_of, cluster, manifest, running, tools
from tests.hosts.act.test_settings import configured
from tests.hosts.act.world import World

TARGET = Version.parse(NEW)
FIRST = UpgradeControlPlane("h1", TARGET, first=True)
SECOND = UpgradeControlPlane("h2", TARGET, first=False)
KUBELET = UpgradeKubelet("h1", TARGET)


async def carried_out(world: World, step: UpgradeControlPlane | UpgradeKubelet) -> World:
    await Executor(tools(world)).carry_out(step, world.observed())
    return world


def node(world: World, name: str) -> dict[str, object]:
    found: dict[str, object] = world.api.objects[f"/api/v1/nodes/{name}"]
    return found


def said(world: World, host: str) -> list[str]:
    return [what for name, what in world.reports if name == host]


async def test_packages_and_images_come_before_anything_is_down() -> None:
    world = await carried_out(cluster(), FIRST)
    assert running(world, "h1").ran == ["install kubeadm", "pull images", "kubeadm upgrade apply"]


async def test_the_first_host_brings_packages_and_images_to_the_others_too() -> None:
    world = await carried_out(cluster(), FIRST)
    assert [running(world, name).ran for name in ("h2", "h3", "h4")] == [["install kubeadm", "pull images"]] * 2 + [[]]


async def test_another_host_that_cannot_be_prepared_yet_does_not_stop_the_first() -> None:
    world = cluster()
    world.failures["h3"] = ("apt-mark hold", "E: no space left on device")
    await carried_out(world, FIRST)
    assert running(world, "h1").components == NEW
    assert any("no space left" in what for what in said(world, "h3"))


async def test_settings_that_the_version_brings_with_it_come_with_the_upgrade() -> None:
    """As the forecast has it: after an upgrade nothing of the host differs, such as the image of the pause container of Kubernetes 1.36."""
    world = cluster()
    running(world, "h1").due = ("containerd",)
    await carried_out(world, FIRST)
    assert running(world, "h1").ran == ["install kubeadm", "pull images", "kubeadm upgrade apply", "is well again"]
    assert "/etc/sysctl.d/99-quorate.conf" in running(world, "h1").files


async def test_later_hosts_are_upgraded_from_what_the_cluster_says() -> None:
    world = await carried_out(cluster(), SECOND)
    assert running(world, "h2").ran == ["install kubeadm", "pull images", "kubeadm upgrade node"]
    assert running(world, "h1").ran == running(world, "h3").ran == []


async def test_the_configuration_and_the_files_of_flags_are_there_before_kubeadm_runs(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n")
    policy = {"enable": True, "config": {"policyFilePath": "policy.yaml"}}
    made = manifest(folder=tmp_path, features__staticAuditLog=policy, controlPlane__hosts__0__kubelet={"maxPods": 200})
    world = cluster(made)
    with_policy = replace(tools(world), contents=Contents(audit_policy=b"rules: []"))
    await Executor(with_policy).carry_out(FIRST, world.observed())
    patches = {f"/etc/kubernetes/patches/{name}" for name in ("kubeletconfiguration0+merge.yaml", "etcd0+json.json")}
    assert {UPGRADE_PATH, "/etc/kubernetes/audit/policy.yaml", *patches} <= set(running(world, "h1").files)
    assert yaml.safe_load(running(world, "h1").files[UPGRADE_PATH])["apply"]["patches"] == {"directory": "/etc/kubernetes/patches"}


@pytest.mark.parametrize(("found", "said"), [(OLD, None), (NEW, False)])
async def test_a_host_that_has_the_version_already_gets_no_certificates_for_which_nothing_is_restarted(
    found: str, said: bool | None
) -> None:
    """That admin.conf has its old end tells of a renewal that was cut short before everything was restarted."""
    world = cluster()
    observed = world.observed()
    hosts = tuple(replace(host, components=Version.parse(found)) for host in observed.cluster.hosts)
    await Executor(tools(world)).carry_out(FIRST, replace(observed, cluster=replace(observed.cluster, hosts=hosts)))
    configuration = yaml.safe_load(running(world, "h1").files[UPGRADE_PATH])
    assert [configuration[command].get("certificateRenewal") for command in ("apply", "node")] == [said] * 2


async def test_nothing_is_upgraded_with_which_data_would_be_looked_for_elsewhere() -> None:
    """By kubeadm's configuration, of which it makes the new manifests; the host was changed by hand."""
    world = configured()
    manifests = (
        b"manifests\t=\t1\nmanifest.etcd.yaml\t=\t"
        + b"0" * 64
        + b"\tetcd:3.6.5-0\t--data-dir=/var/lib/etcd\t--wal-dir=/var/lib/etcd/wal\nend\t=\n"
    )
    observed = world.observed()
    observed = replace(observed, facts={**observed.facts, "h1": parse(manifests)})
    with pytest.raises(StepFailed, match="the --wal-dir of etcd is /var/lib/etcd/wal, and not there in kubeadm's configuration"):
        await Executor(tools(world)).carry_out(FIRST, observed)
    assert running(world, "h1").ran == []


async def test_leadership_moves_away_before_its_holder_restarts() -> None:
    world = cluster()
    leader = world.members[0]
    assert leader.name == "h1"
    await carried_out(world, FIRST)
    assert world.members[0].name != "h1"
    assert any("handing etcd's leadership" in what for what in said(world, "h1"))


async def test_nothing_goes_down_while_another_member_is_silent() -> None:
    world = cluster()
    world.unreachable.add("h3")
    with pytest.raises(StepFailed, match="quorum survives a restart"):
        await carried_out(world, SECOND)
    assert "kubeadm upgrade node" not in running(world, "h2").ran


async def test_an_api_server_that_stays_old_is_waited_for_and_named() -> None:
    world = cluster()
    api_of(world).stuck = True
    with pytest.raises(StepFailed, match=f"it is of {OLD}"):
        await carried_out(world, FIRST)


async def test_a_component_that_is_not_ready_stops_the_upgrade_with_its_name() -> None:
    world = cluster()
    running(world, "h1").broken.add(Component.SCHEDULER)
    with pytest.raises(StepFailed, match="kube-scheduler"):
        await carried_out(world, FIRST)


async def test_a_kubelet_is_upgraded_on_an_empty_cordoned_node_that_then_takes_pods_again() -> None:
    world = cluster()
    api_of(world).pod("default", "web", "h1")
    await carried_out(world, KUBELET)
    assert api_of(world).below("/api/v1/namespaces/default/pods") == []
    assert running(world, "h1").ran == ["install kubectl kubelet", "restart kubelet and static Pods"]
    assert running(world, "h1").kubelet == NEW
    assert CORDONED not in node(world, "h1")["metadata"].get("annotations", {})  # type: ignore[attr-defined]
    assert "unschedulable" not in node(world, "h1").get("spec", {})  # type: ignore[operator]


async def test_a_kubelet_of_the_same_minor_version_leaves_static_pods_alone_and_so_the_api_server_is() -> None:
    world = cluster()
    running(world, "h1").kubelet = "v1.35.1"
    await carried_out(world, KUBELET)
    assert running(world, "h1").ran == ["install kubectl kubelet", "restart kubelet"]


async def test_an_upgrade_waits_until_the_new_kubelet_runs_every_static_pod_anew() -> None:
    """Until then the host looks as it did, and the next would be touched while this one's etcd is about to restart."""
    world = cluster()
    running(world, "h1").lingering.add(Component.ETCD)
    with pytest.raises(StepFailed, match=r"another container of etcd did not come about .* the one before has not ended"):
        await carried_out(world, KUBELET)
    assert CORDONED in node(world, "h1")["metadata"].get("annotations", {})  # type: ignore[attr-defined]


async def test_a_node_that_somebody_else_cordoned_stays_cordoned() -> None:
    world = cluster()
    node(world, "h1")["spec"] = {"unschedulable": True}
    await carried_out(world, KUBELET)
    assert node(world, "h1")["spec"] == {"unschedulable": True}


async def test_a_workers_kubeadm_writes_its_configuration_first_and_no_ring_is_asked() -> None:
    world = cluster()
    world.unreachable.add("h3")
    await carried_out(world, UpgradeKubelet("h4", TARGET))
    assert running(world, "h4").ran == ["install kubeadm kubectl kubelet", "kubeadm upgrade node", "restart kubelet"]
    assert UPGRADE_PATH in running(world, "h4").files


async def test_pods_that_may_not_be_disrupted_keep_the_kubelet_as_it_is() -> None:
    world = cluster()
    api_of(world).pod("default", "web", "h1")
    api_of(world).budgets["web"] = "The disruption budget web needs 1 healthy pods and has 1 currently"
    with pytest.raises(StepFailed, match=r"default/web.*disruption budget web"):
        await carried_out(world, KUBELET)
    assert running(world, "h1").kubelet == OLD


@pytest.mark.parametrize("step", [FIRST, SECOND, KUBELET, UpgradeKubelet("h4", TARGET)], ids=str)
@pytest.mark.parametrize("how", ["before", "after"])
async def test_cut_at_any_call_the_same_step_ends_the_same(step: UpgradeControlPlane | UpgradeKubelet, how: str) -> None:
    whole = await carried_out(cluster(), step)
    for number in itertools.count(1):
        world = cluster(cut=(number, how))
        try:
            await carried_out(world, step)
        except StepFailed:
            await carried_out(world, step)
        for name in world.hosts:
            ended, wanted = running(world, name), running(whole, name)
            assert (ended.kubelet, ended.components) == (wanted.kubelet, wanted.components), f"cut {how} call {number}"
            assert node(world, name).get("spec") == node(whole, name).get("spec")
        if world.calls < number:
            return
