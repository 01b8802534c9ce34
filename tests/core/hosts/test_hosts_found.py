"""How a cluster begins: prepared, initialized once, continued where it was cut short; and never beside a host that may hold it already (S3)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from quorate.core.health import Finding, Health, Unknown
from quorate.core.hosts.rules import found, guard
from quorate.core.hosts.state import LEADERLESS, Host, Kind, Node
from quorate.core.hosts.steps import EnsureMachineDeployments, Initialize, Join, JoinWorkers, Prepare, TakeSnapshot
from quorate.core.maintenance import Maintenance

from .conftest import BAD, GOOD, V134, V135, Build


def silent(build: Build, number: int) -> Host:
    """A host of which nobody ever heard anything."""
    return build.unreachable(number, member=Unknown("not asked"), node=Unknown("not asked"))


def test_bare_hosts_are_prepared_all_at_once_workers_too(build: Build) -> None:
    hosts = (build.bare(1), build.prepared(2), build.bare(3), build.bare(1, control_plane=False))
    assert build.step(build.new(*hosts)) == Prepare(("cp-1", "cp-3", "worker-1"))


def test_a_host_with_packages_that_lacks_a_setting_is_prepared_too(build: Build) -> None:
    assert build.step(build.new(build.prepared(1, lacks=("net.ipv4.ip_forward",)))) == Prepare(("cp-1",))


def test_the_manifests_leader_initializes(build: Build) -> None:
    assert build.step(build.new(build.prepared(1), build.prepared(2), build.prepared(3), leader="cp-2")) == Initialize("cp-2")


def test_nothing_is_initialized_while_a_host_that_cannot_be_asked_may_hold_the_cluster(build: Build) -> None:
    cluster = build.new(build.prepared(1), build.prepared(2), silent(build, 3))
    assert build.refused(cluster) == [found.NO_CLUSTER_HIDDEN]
    assert "--without cp-3" in build.said(cluster)


def test_unless_the_operator_says_that_it_holds_none_which_is_a_check_of_its_own(build: Build) -> None:
    cluster = build.new(build.prepared(1), build.prepared(2), silent(build, 3), options=build.options(without=("cp-3",)))
    decision = build.decide(cluster)
    assert decision.step == Initialize("cp-1")
    assert (found.SAID_EMPTY, "cp-3") in [(check.name, check.evidence) for check in decision.checks]


def test_another_host_takes_the_place_of_a_leader_that_was_declared_empty(build: Build) -> None:
    cluster = build.new(silent(build, 1), build.prepared(2), build.prepared(3), options=build.options(without=("cp-1",)))
    assert build.step(cluster) == Initialize("cp-2")


def test_of_a_host_that_may_be_anything_the_same_holds(build: Build) -> None:
    puzzling = build.prepared(2, kind=Kind.UNKNOWN)
    assert guard.KNOWN in build.refused(build.new(build.prepared(1), puzzling))
    assert build.step(build.new(build.prepared(1), puzzling, options=build.options(without=("cp-2",)))) == Initialize("cp-1")


def test_a_worker_that_cannot_be_reached_keeps_nobody_from_beginning(build: Build) -> None:
    worker = build.worker(1, kind=Kind.UNREACHABLE, node=Unknown("not asked"))
    assert build.step(build.new(build.prepared(1), worker)) == Initialize("cp-1")


@pytest.mark.parametrize("kind", [Kind.MEMBER, Kind.HALF_JOINED, Kind.BROKEN, Kind.FOREIGN])
def test_traces_on_a_worker_say_that_there_was_a_cluster(build: Build, kind: Kind) -> None:
    cluster = build.new(build.prepared(1), build.worker(1, kind=kind))
    assert build.refused(cluster) == [found.NO_TRACES]
    assert "quorate reset -m MANIFEST worker-1" in build.said(cluster)


def test_a_worker_that_may_be_anything_blocks_the_beginning_and_nobody_is_told_to_free_it(build: Build) -> None:
    cluster = build.new(build.prepared(1), build.worker(1, kind=Kind.UNKNOWN))
    assert build.refused(cluster) == [found.NO_TRACES]
    assert "quorate explain -m MANIFEST worker-1" in build.said(cluster)
    assert "reset" not in build.said(cluster)


def test_a_half_joined_control_plane_without_a_cluster_is_a_trace(build: Build) -> None:
    assert build.refused(build.new(build.prepared(1), build.half_joined(2))) == [found.NO_TRACES]


@pytest.mark.parametrize("ring", ["g", Unknown("dial timeout")], ids=["there", "not known"])
def test_an_etcd_that_runs_somewhere_is_nobodys_to_overwrite(build: Build, ring: str | Unknown) -> None:
    assert build.refused(build.new(build.prepared(1), ring=ring)) == [found.NO_RING]


def test_an_initialization_that_was_cut_short_is_continued_and_not_begun_anew(build: Build) -> None:
    others = (build.prepared(2), build.prepared(3))
    assert build.step(build.new(build.half_initialized(1), *others, ring=Unknown("refused"))) == Initialize("cp-1", resume=True)
    assert build.step(build.new(build.half_initialized(1, member=1), *others, ring="g")) == Initialize("cp-1", resume=True)


def test_it_is_continued_on_the_host_that_began_whoever_leads_now(build: Build) -> None:
    cluster = build.new(build.prepared(1), build.half_initialized(2), ring=Unknown("connection refused"))
    assert build.step(cluster) == Initialize("cp-2", resume=True)


def test_it_is_not_continued_while_the_cluster_may_be_on_a_host_that_cannot_be_asked(build: Build) -> None:
    hosts = (build.half_initialized(1), silent(build, 2))
    assert build.refused(build.new(*hosts, ring=Unknown("refused"))) == [found.NO_CLUSTER_HIDDEN]
    assert build.step(build.new(*hosts, ring=Unknown("refused"), options=build.options(without=("cp-2",)))) == Initialize(
        "cp-1", resume=True
    )


def test_two_that_began_are_for_somebody_who_knows(build: Build) -> None:
    cluster = build.new(build.half_initialized(1), build.half_initialized(2), ring=Unknown("refused"))
    assert build.refused(cluster) == [found.FOUNDED_ONCE]


def test_a_ring_with_others_is_no_beginning(build: Build) -> None:
    assert build.refused(build.new(build.half_initialized(1, member=1), build.prepared(2), ring="ggg")) == [found.NO_RING]


def test_one_that_answers_without_a_leader_may_be_one_of_several(build: Build) -> None:
    ill = Finding(Health.BAD, LEADERLESS, "its etcd says: 503 RAFT NO LEADER")
    founder = build.half_initialized(1, findings=(ill,))
    assert build.refused(build.new(founder, ring=Unknown("cp-1 knows no leader"))) == [found.NO_RING]
    assert build.step(build.new(replace(founder, member=1), ring="g")) == Initialize("cp-1", resume=True)


def test_it_waits_for_a_disk_that_may_not_be_mounted_yet(build: Build) -> None:
    founder = build.half_initialized(1, just_booted=True, etcd_data_lost=True)
    decision = build.decide(build.new(founder, ring=Unknown("refused")))
    assert [check.name for check in decision.refusals] == [found.DATA_MOUNTED]
    assert decision.wake_at is not None
    for mounted in (replace(founder, just_booted=False), replace(founder, etcd_data_lost=False)):
        assert build.step(build.new(mounted, ring=Unknown("refused"))) == Initialize("cp-1", resume=True)


def test_it_goes_on_with_the_version_that_it_began_with(build: Build) -> None:
    cluster = build.new(build.half_initialized(1, components=V134), ring=Unknown("refused"), version=V135)
    assert build.refused(cluster) == [found.SAME_VERSION]
    assert "Set versions.kubernetes to v1.34.4" in build.said(cluster)


def test_all_machines_lost_is_no_reason_to_begin_anew(build: Build) -> None:
    """Hosts installed anew that the cluster's own lists still name are no beginning."""
    cluster = build.cluster(build.wiped(1), build.wiped(2), build.wiped(3), ring=Unknown("no member answers"), api=BAD)
    assert build.refused(cluster)[0] == guard.QUORUM


def test_others_join_one_at_a_time_after_a_snapshot_and_workers_when_the_control_plane_stands(build: Build) -> None:
    hosts = [build.host(1), build.prepared(2), build.prepared(3), build.prepared(1, control_plane=False)]
    assert build.step(build.cluster(*hosts, snapshot_taken=False)) == TakeSnapshot()
    assert build.step(build.cluster(*hosts)) == Join("cp-2")
    hosts[1] = build.host(2)
    assert build.step(build.cluster(*hosts)) == Join("cp-3")
    hosts[2] = build.host(3)
    assert build.step(build.cluster(*hosts)) == JoinWorkers(("worker-1",))


def test_no_worker_joins_above_an_api_server_that_an_upgrade_did_not_reach_before_its_host_fell_silent(build: Build) -> None:
    """Two hosts have the version, and the cluster's configuration names it; the third cannot be asked, and its Node tells of the kubelet before."""
    upgraded = [
        build.host(number, components=V135, kubelet=V135, kubeadm=V135, node=Node(f"cp-{number}", GOOD, kubelet=V135)) for number in (1, 2)
    ]
    worker = build.prepared(1, control_plane=False, kubelet=V135, kubeadm=V135)
    behind = build.cluster(*upgraded, build.unreachable(3), worker, version=V135, running=V135)
    assert build.step(behind) is None
    assert "no API server is older than the kubelets that join" in build.refused(behind)
    assert "Bring cp-3 back" in build.said(behind)
    reached = build.unreachable(3, node=Node("cp-3", BAD, kubelet=V135))
    assert build.step(build.cluster(*upgraded, reached, worker, version=V135, running=V135)) == JoinWorkers(("worker-1",))
    deployments = Maintenance(pending=True)
    assert build.step(build.cluster(*upgraded, build.unreachable(3), version=V135, running=V135, machine_deployments=deployments)) is None
    assert (
        build.step(build.cluster(*upgraded, reached, version=V135, running=V135, machine_deployments=deployments))
        == EnsureMachineDeployments()
    )
