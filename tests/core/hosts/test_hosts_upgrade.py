"""Upgrades, settings and certificates: one host at a time after a quorum check, resumed where they were cut short, and never beside what needs repair."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from quorate.core import quorum
from quorate.core.health import Absent, Unknown
from quorate.core.hosts import gates
from quorate.core.hosts.rules import maintenance, mend, repair, settings, skew, upgrade
from quorate.core.hosts.state import Cluster, Host, Kind, Node
from quorate.core.hosts.steps import (
    EnsureMachineDeployments,
    Join,
    Reconfigure,
    RenewCertificates,
    TakeSnapshot,
    Uncordon,
    UpdateConfiguration,
    UpdateNodes,
    UpgradeControlPlane,
    UpgradeKubelet,
)
from quorate.core.maintenance import Maintenance
from quorate.core.versions import Version

from .conftest import BAD, GOOD, V134, V135, Build

SERVES_135: dict[str, Any] = {"components": V135}


def done(build: Build, number: int, **changes: Any) -> Host:
    """A control plane host that has v1.35.4 entirely."""
    return build.host(number, components=V135, kubelet=V135, node=Node(f"cp-{number}", GOOD, kubelet=V135), **changes)


def upgrading(build: Build, *hosts: Host, **changes: Any) -> Cluster:
    return build.cluster(*hosts, **{"version": V135, "running": V135, **changes})


# The order


def test_the_first_host_upgrades_the_clusters_own_configuration_and_the_etcd_leader_comes_last(build: Build) -> None:
    cluster = build.three(version=V135)
    assert build.step(cluster) == UpgradeControlPlane("cp-2", V135, first=True)
    second = upgrading(build, build.host(1), build.host(2, **SERVES_135), build.host(3))
    assert build.step(second) == UpgradeControlPlane("cp-3", V135, first=False)
    third = upgrading(build, build.host(1), build.host(2, **SERVES_135), build.host(3, **SERVES_135))
    assert build.step(third) == UpgradeControlPlane("cp-1", V135, first=False)


def test_kubelets_follow_control_planes_first_and_again_the_etcd_leader_last_of_them(build: Build) -> None:
    hosts = [build.host(1, **SERVES_135), build.host(2, **SERVES_135), build.host(3, **SERVES_135), build.worker(1)]
    assert build.step(upgrading(build, *hosts)) == UpgradeKubelet("cp-2", V135)
    hosts[1:3] = done(build, 2), done(build, 3)
    assert build.step(upgrading(build, *hosts)) == UpgradeKubelet("cp-1", V135)
    hosts[0] = done(build, 1)
    assert build.step(upgrading(build, *hosts)) == UpgradeKubelet("worker-1", V135)


def test_a_snapshot_and_the_configuration_come_before_the_first_host(build: Build) -> None:
    drifted = build.three(version=V135, configuration_drift=("apiServer.extraArgs",), snapshot_taken=False)
    assert build.step(drifted) == UpdateConfiguration()
    assert build.step(replace(drifted, configuration_drift=())) == TakeSnapshot()


# Resuming


def test_a_host_that_began_and_told_nobody_is_the_first_again(build: Build) -> None:
    cluster = upgrading(build, build.host(1), build.host(2), build.host(3, **SERVES_135), running=V134)
    assert build.step(cluster) == UpgradeControlPlane("cp-3", V135, first=True)


def test_a_kubelet_that_was_installed_and_not_restarted_is_upgraded_again(build: Build) -> None:
    hosts = (done(build, 1), done(build, 2), build.host(3, components=V135, kubelet=V135))
    assert build.step(upgrading(build, *hosts)) == UpgradeKubelet("cp-3", V135)


def test_the_host_whose_kubelet_upgrade_was_cut_short_goes_first_although_it_is_not_ready(build: Build) -> None:
    cut = build.host(3, components=V135, node=Node("cp-3", BAD, kubelet=V134, unschedulable=True, cordoned_by_us=True))
    cluster = upgrading(build, build.host(1, **SERVES_135), build.host(2, **SERVES_135), cut)
    assert build.step(cluster) == UpgradeKubelet("cp-3", V135)


def test_a_host_that_an_upgrade_under_way_left_broken_goes_on_while_all_others_are_well(build: Build) -> None:
    cluster = upgrading(build, done(build, 1), build.host(2), build.broken(3), ring="ggb")
    assert build.step(cluster) == UpgradeControlPlane("cp-3", V135, first=False)
    unwell = replace(cluster, hosts=(done(build, 1), build.broken(2, drift=()), build.broken(3)), ring=build.ring("gbb"))
    assert build.step(unwell) is None


def test_a_host_that_is_broken_before_the_upgrade_keeps_it_from_beginning(build: Build) -> None:
    cluster = build.cluster(build.host(1), build.host(2), build.broken(3), version=V135, ring="ggb")
    assert repair.CONTROL_PLANE_WELL in build.refused(cluster)


def test_an_interrupted_upgrade_beside_a_dead_host_waits_for_the_repair(build: Build) -> None:
    hosts = (done(build, 1), build.host(2), build.prepared(3))
    assert build.step(upgrading(build, *hosts)) == Join("cp-3")


# What blocks it


@pytest.mark.parametrize("ring", ["ggb", "ggu", "gga"])
def test_no_host_is_upgraded_while_a_member_is_not_well(build: Build, ring: str) -> None:
    assert quorum.QUORUM_SURVIVES_RESTART in build.refused(build.three(version=V135, ring=ring))


@pytest.mark.parametrize(("kubelet", "said"), [("v1.31.9", "to v1.32 or later first"), ("v1.36.0", "none newer than v1.35.4")])
def test_a_node_of_no_host_whose_kubelet_the_new_api_servers_would_not_fit_blocks_it_by_name(build: Build, kubelet: str, said: str) -> None:
    others = (Node("machine-a", GOOD, kubelet=V134), Node("machine-b", GOOD, kubelet=Version.parse(kubelet)))
    cluster = build.three(version=V135, other_nodes=others)
    assert skew.OTHERS_NEAR in build.refused(cluster)
    assert f"Node machine-b runs {kubelet}" in build.said(cluster)
    assert "machine-a" not in build.said(cluster)
    assert said in build.said(cluster)


@pytest.mark.parametrize("kubelet", ["v1.32.0", "v1.34.9", "v1.35.9"])
def test_a_node_of_no_host_whose_kubelet_is_near_enough_blocks_nothing(build: Build, kubelet: str) -> None:
    others = (Node("machine-a", GOOD, kubelet=Version.parse(kubelet)), Node("machine-b", BAD))
    assert build.step(build.three(version=V135, other_nodes=others)) == UpgradeControlPlane("cp-2", V135, first=True)


def test_a_single_control_plane_is_upgraded_and_its_downtime_is_a_check_of_its_own(build: Build) -> None:
    decision = build.decide(build.cluster(build.host(1), version=V135))
    assert decision.step == UpgradeControlPlane("cp-1", V135, first=True)
    assert gates.TOO_SMALL in [check.name for check in decision.checks]


@pytest.mark.parametrize("ring", ["gb", "gu"])
def test_of_two_neither_is_upgraded_while_one_is_ill(build: Build, ring: str) -> None:
    assert build.step(build.cluster(build.host(1), build.host(2), version=V135, ring=ring)) is None


def test_a_control_plane_host_that_cannot_be_reached_blocks_it_even_where_the_ring_could_bear_it(build: Build) -> None:
    hosts = (*(build.host(number) for number in (1, 2, 3, 4)), build.unreachable(5))
    assert repair.CONTROL_PLANE_WELL in build.refused(build.cluster(*hosts, version=V135, ring="ggggb"))


def test_a_worker_that_cannot_be_reached_is_named_and_blocks_nothing(build: Build) -> None:
    worker = build.worker(1, kind=Kind.UNREACHABLE)
    cluster = build.three(version=V135)
    decision = build.decide(replace(cluster, hosts=(*cluster.hosts, worker)))
    assert decision.step == UpgradeControlPlane("cp-2", V135, first=True)
    assert (repair.WORKERS_REACHABLE, "worker-1") in [(check.name, check.evidence) for check in decision.refusals]


def test_a_worker_that_is_broken_blocks_it_and_says_why(build: Build) -> None:
    worker = build.worker(1, kind=Kind.BROKEN, findings=(BAD,))
    cluster = build.three(version=V135)
    cluster = replace(cluster, hosts=(*cluster.hosts, worker))
    assert repair.WORKERS_WELL in build.refused(cluster)
    assert "worker-1 is broken; Seen: does not answer" in build.said(cluster)


def test_a_node_that_is_not_ready_blocks_it(build: Build) -> None:
    cluster = build.cluster(build.host(1), build.host(2), build.host(3, node=Node("cp-3", BAD, kubelet=V134)), version=V135)
    assert upgrade.NODES_READY in build.refused(cluster)


def test_a_node_that_is_not_ready_since_a_short_while_is_looked_at_again_soon(build: Build) -> None:
    def waits(**node: Any) -> datetime | None:
        unready = Node("cp-3", BAD, kubelet=V134, **node)
        return build.decide(build.cluster(build.host(1), build.host(2), build.host(3, node=unready), version=V135)).wake_at

    assert waits(ready_since=build.noon - timedelta(minutes=2)) == build.noon + upgrade.LOOK_AGAIN
    assert waits(ready_since=build.noon - timedelta(minutes=4)) is None
    assert waits() is None
    assert build.decide(build.cluster(build.host(1), build.host(2), build.host(3, node=Absent()), version=V135)).wake_at is None


def test_what_else_blocks_it_is_not_waited_for_with_a_node_that_is_not_ready(build: Build) -> None:
    unready = Node("cp-3", BAD, kubelet=V134, ready_since=build.noon, pressures=("DiskPressure",))
    assert build.decide(build.cluster(build.host(1), build.host(2), build.host(3, node=unready), version=V135)).wake_at is None


def test_what_several_rules_ask_is_said_once(build: Build) -> None:
    cluster = build.cluster(build.host(1), build.host(2), build.host(3, node=Node("cp-3", BAD, kubelet=V134)), version=V135)
    assert [check.name for check in build.decide(cluster).refusals] == [upgrade.NODES_READY]


def test_a_node_under_pressure_blocks_it(build: Build) -> None:
    node = Node("cp-3", GOOD, kubelet=V134, pressures=("DiskPressure",))
    cluster = build.cluster(build.host(1), build.host(2), build.host(3, node=node), version=V135)
    assert upgrade.NOTHING_SHORT in build.refused(cluster)
    assert "cp-3 has DiskPressure" in build.said(cluster)


def test_a_node_that_nobody_knows_of_blocks_it_and_is_not_called_missing(build: Build) -> None:
    cluster = build.cluster(build.host(1), build.host(2), build.host(3, node=Unknown("no answer")), version=V135)
    assert "cp-3 may have a Node or not: no answer" in build.said(cluster)


def test_a_member_of_nobody_blocks_it(build: Build) -> None:
    cluster = build.three(version=V135, orphans=(build.orphan(4, "b", probes=1),))
    assert repair.RING_MATCHES in build.refused(cluster)


# Versions


@pytest.mark.parametrize(
    ("target", "hosts", "name"),
    [
        ("v1.36.0", {}, skew.ONE_MINOR),
        ("v2.0.0", {}, skew.ONE_MINOR),
        ("v1.34.3", {}, skew.NO_STEP_BACK),
        ("v1.33.9", {}, skew.NO_STEP_BACK),
        ("v1.35.4", {"kubelet": Version.parse("v1.31.0")}, skew.KUBELETS_NEAR),
        ("v1.35.4", {"kubelet": Version.parse("v1.36.0")}, skew.NO_STEP_BACK),
        ("v1.35.4", {"components": None}, skew.VERSIONS_KNOWN),
    ],
)
@pytest.mark.parametrize("force", [False, True])
def test_the_skew_policy_is_kept_force_or_not(build: Build, target: str, hosts: dict[str, Any], name: str, force: bool) -> None:
    cluster = build.cluster(build.host(1), build.host(2), build.host(3, **hosts), version=Version.parse(target))
    assert name in build.refused(replace(cluster, options=build.options(force_upgrade=force)))


@pytest.mark.parametrize("kubelet", ["v1.32.0", "v1.33.1"])
def test_kubelets_may_be_up_to_three_minors_behind(build: Build, kubelet: str) -> None:
    cluster = build.three(version=V135)
    old = build.worker(1, kubelet=Version.parse(kubelet))
    assert build.step(replace(cluster, hosts=(*cluster.hosts, old))) == UpgradeControlPlane("cp-2", V135, first=True)


def test_a_worker_that_cannot_be_reached_counts_for_the_skew(build: Build) -> None:
    cluster = build.three(version=V135)
    far = build.worker(1, kind=Kind.UNREACHABLE, kubelet=None, node=Node("worker-1", BAD, kubelet=Version.parse("v1.31.0")))
    assert skew.KUBELETS_NEAR in build.refused(replace(cluster, hosts=(*cluster.hosts, far)))


def test_a_patch_release_is_an_upgrade(build: Build) -> None:
    patch = Version.parse("v1.34.5")
    assert build.step(build.three(version=patch)) == UpgradeControlPlane("cp-2", patch, first=True)


def test_force_regenerates_every_host_once_and_never_past_the_gate(build: Build) -> None:
    forced = build.three(options=build.options(force_upgrade=True))
    assert build.step(forced) == UpgradeControlPlane("cp-2", V134, first=True)
    assert build.step(replace(forced, regenerated=("cp-2",))) == UpgradeControlPlane("cp-3", V134, first=False)
    assert build.step(replace(forced, regenerated=("cp-1", "cp-2", "cp-3"))) is None
    assert quorum.QUORUM_SURVIVES_RESTART in build.refused(replace(forced, ring=build.ring("ggb")))


# Settings


def test_the_configuration_in_the_cluster_comes_before_the_hosts_and_the_leader_comes_last(build: Build) -> None:
    drift = ("kube-apiserver --audit-log-maxage: 30, should be 7",)
    cluster = build.cluster(*(build.host(number, drift=drift) for number in (1, 2, 3)), configuration_drift=drift)
    assert build.step(cluster) == UpdateConfiguration()
    cluster = replace(cluster, configuration_drift=())
    assert build.step(cluster) == Reconfigure("cp-2")
    hosts = (build.host(1, drift=drift), build.host(2), build.host(3))
    assert build.step(replace(cluster, hosts=hosts)) == Reconfigure("cp-1")


def test_a_worker_is_reconfigured_after_the_control_plane(build: Build) -> None:
    worker = build.worker(1, drift=("kubelet maxPods",))
    assert build.step(build.cluster(build.host(1), worker)) == Reconfigure("worker-1")
    assert build.step(build.cluster(build.host(1, drift=("x",)), worker)) == Reconfigure("cp-1")


@pytest.mark.parametrize("ring", ["ggb", "ggu"])
def test_settings_wait_for_the_gate(build: Build, ring: str) -> None:
    assert quorum.QUORUM_SURVIVES_RESTART in build.refused(build.cluster(*(build.host(n, drift=("x",)) for n in (1, 2, 3)), ring=ring))


def test_settings_wait_for_an_upgrade_that_is_refused(build: Build) -> None:
    cluster = build.cluster(*(build.host(n, drift=("x",)) for n in (1, 2, 3)), version=Version.parse("v1.36.0"))
    assert skew.ONE_MINOR in build.refused(cluster)


def test_a_host_that_a_setting_broke_gets_the_one_that_is_right_now(build: Build) -> None:
    broken = build.broken(3, drift=("kube-apiserver --no-such-flag",))
    cluster = build.cluster(build.host(1), build.host(2), broken, ring="ggb", configuration_drift=("the same",))
    assert build.step(cluster) == UpdateConfiguration()
    assert build.step(replace(cluster, configuration_drift=())) == Reconfigure("cp-3")
    assert mend.OTHERS_WELL in build.refused(replace(cluster, hosts=(build.host(1), build.unreachable(2), broken), ring=build.ring("gub")))


# Certificates


def test_certificates_are_renewed_thirty_days_before_they_expire_the_earliest_first(build: Build) -> None:
    soon, later = (build.noon + timedelta(days=days) for days in (29, 31))
    hosts = (build.host(1, certificates_expire=later), build.host(2, certificates_expire=later), build.host(3, certificates_expire=soon))
    assert build.step(build.cluster(*hosts)) == RenewCertificates("cp-3")
    assert build.step(build.cluster(*hosts[:2])) is None


def test_when_asked_for_every_host_gets_new_ones_once_the_leader_last(build: Build) -> None:
    cluster = build.three(options=build.options(renew_certificates=True))
    assert build.step(cluster) == RenewCertificates("cp-2")
    assert build.step(replace(cluster, renewed=("cp-2", "cp-3"))) == RenewCertificates("cp-1")
    assert build.step(replace(cluster, renewed=("cp-1", "cp-2", "cp-3"))) is None


def test_certificates_wait_for_the_gate_and_for_repair(build: Build) -> None:
    cluster = build.three(options=build.options(renew_certificates=True), ring="ggb")
    assert quorum.QUORUM_SURVIVES_RESTART in build.refused(cluster)
    five = build.cluster(*(build.host(n) for n in (1, 2, 3, 4)), build.unreachable(5), ring="ggggb", options=cluster.options)
    assert repair.CONTROL_PLANE_WELL in build.refused(five)


def test_a_broken_worker_keeps_no_certificate_from_being_renewed(build: Build) -> None:
    worker = build.worker(1, kind=Kind.BROKEN, findings=(BAD,))
    expiring = build.host(1, certificates_expire=build.noon)
    assert build.step(build.cluster(expiring, worker)) == RenewCertificates("cp-1")


def test_a_host_that_does_not_belong_renews_nothing(build: Build) -> None:
    expiring = build.broken(3, certificates_expire=build.noon)
    assert settings.HOST_WELL in build.refused(build.cluster(build.host(1), build.host(2), expiring, ring="ggb"))


# What follows


def test_pods_return_to_a_node_that_we_cordoned_and_to_no_other(build: Build) -> None:
    ours = build.host(2, node=Node("cp-2", GOOD, kubelet=V134, unschedulable=True, cordoned_by_us=True))
    theirs = build.host(3, node=Node("cp-3", GOOD, kubelet=V134, unschedulable=True))
    assert build.step(build.cluster(build.host(1), ours, theirs)) == Uncordon("cp-2")
    assert build.step(build.cluster(build.host(1), build.host(2), theirs)) is None


def test_labels_and_taints_of_all_nodes_are_set_at_once(build: Build) -> None:
    hosts = (build.host(1, node_drift=("label tier",)), build.worker(1, node_drift=("taint x",)), build.worker(2))
    assert build.step(build.cluster(*hosts)) == UpdateNodes(("cp-1", "worker-1"))


def test_what_follows_happens_beside_a_host_that_is_broken(build: Build) -> None:
    hosts = (build.host(1, node_drift=("label tier",)), build.host(2), build.broken(3))
    assert build.step(build.cluster(*hosts, ring="ggb")) == UpdateNodes(("cp-1",))


def test_machine_deployments_follow_the_api_servers(build: Build) -> None:
    pending = Maintenance(pending=True)
    assert build.step(build.three(machine_deployments=pending)) == EnsureMachineDeployments()
    refused = build.three(version=V135, machine_deployments=pending, ring="ggb")
    assert maintenance.NOT_ABOVE in build.refused(refused)


def test_machine_deployments_that_cannot_be_ensured_are_said(build: Build) -> None:
    unserved = build.three(machine_deployments=Maintenance(pending=True, problem="the API does not serve MachineDeployments"))
    assert build.refused(unserved) == [maintenance.DEPLOYMENTS]
    retry = Maintenance(pending=True, problem="conflict", retry_at=build.noon + timedelta(seconds=5))
    assert build.decide(build.three(machine_deployments=retry)).wake_at == retry.retry_at


def test_a_host_without_a_known_member_is_not_restarted(build: Build) -> None:
    cluster = build.cluster(build.host(1), build.host(2, member=Absent()), version=V135, ring="g")
    assert not isinstance(build.step(cluster), UpgradeControlPlane)
