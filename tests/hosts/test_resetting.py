"""Resets of hosts: members leave after a quorum check, the whole cluster ends only where no control-plane host is left out."""

from __future__ import annotations

from dataclasses import replace

from quorate.core.health import Absent, Unknown
from quorate.core.hosts.forecast import forecast
from quorate.core.hosts.rules.guard import HOSTS_FIT
from quorate.core.hosts.state import Cluster, Kind, Node, RunOptions
from quorate.core.hosts.steps import DeleteNode, RemoveMember, RenewCertificates, Reset, Step, TakeSnapshot
from quorate.core.ring import Ring
from quorate.hosts.run import resetting
from quorate.hosts.run.renewing import FIRST, decide_renewal, only_renewal
from quorate.hosts.run.resetting import Request
from tests.core.hosts.conftest import BAD, V135, Build

BUILD = Build()
NOON = BUILD.noon


def steps(cluster: Cluster, *names: str, everything: bool = False, save: bool = True) -> list[Step | None]:
    return [each.step for each in resetting.reset_steps(cluster, Request(names, everything, save, resetting.apart(cluster)))]


def test_a_member_leaves_the_ring_then_its_node_goes_then_everything_on_the_host() -> None:
    assert steps(BUILD.three(), "cp-2") == [RemoveMember(2, "cp-2"), DeleteNode("cp-2"), Reset("cp-2")]


def test_a_node_goes_with_a_reason_and_after_every_member_of_its_name() -> None:
    node = next(each for each in resetting.reset_steps(BUILD.three(), Request(("cp-2",))) if isinstance(each.step, DeleteNode))
    assert [(check.name, check.passed, check.evidence) for check in node.checks] == [
        (resetting.LEFT, True, "etcd has no member called cp-2 then")
    ]
    ring = Ring((*(BUILD.member(number) for number in (1, 2, 3)), BUILD.member(8, name="cp-2")), 1)
    (*_, refused) = resetting.reset_steps(BUILD.three(ring=ring), Request(("cp-2",)))
    assert (refused.step, refused.checks[0].name) == (None, resetting.LEFT)
    assert "another member called cp-2 (8)" in refused.checks[0].evidence


def test_the_leader_goes_last_and_workers_first() -> None:
    cluster = BUILD.cluster(*BUILD.three().hosts, BUILD.host(4), BUILD.host(5), BUILD.worker(1))
    assert [
        each.host for each in resetting.reset_steps(cluster, Request(("cp-1", "cp-2", "worker-1"))) if isinstance(each.step, Reset)
    ] == [
        "worker-1",
        "cp-2",
        "cp-1",
    ]


def test_one_that_would_take_the_quorum_along_is_refused_with_the_numbers() -> None:
    cluster = BUILD.cluster(BUILD.host(1), BUILD.host(2), BUILD.broken(3), ring="ggb")
    decision = resetting.deciding(Request(("cp-2",)))(cluster, NOON)
    assert decision.step is None
    assert "1 short of quorum" in decision.refusals[0].evidence


def test_where_the_ring_cannot_be_read_nobody_leaves_it() -> None:
    cluster = BUILD.three(ring=Unknown("nobody answers"))
    decision = resetting.deciding(Request(("cp-2",)))(cluster, NOON)
    assert (decision.step, decision.refusals[0].name) == (None, resetting.RING_KNOWN)
    assert "--all" in decision.refusals[0].remedy


ALL = ("cp-1", "cp-2", "cp-3")
RESETS = [Reset("cp-2"), Reset("cp-3"), Reset("cp-1")]


def test_the_whole_cluster_ends_after_its_data_was_saved() -> None:
    fresh = BUILD.three(snapshot_taken=False)
    assert steps(fresh, *ALL, everything=True) == [TakeSnapshot(), *RESETS]
    assert steps(BUILD.three(), *ALL, everything=True) == RESETS
    assert steps(fresh, *ALL, everything=True, save=False) == RESETS


def test_where_etcd_cannot_be_read_the_cluster_ends_only_where_its_data_may_go_unsaved() -> None:
    cluster = BUILD.three(ring=Unknown("nobody answers"), snapshot_taken=False)
    decision = resetting.deciding(Request(ALL, everything=True))(cluster, NOON)
    assert (decision.step, [check.name for check in decision.refusals]) == (None, [resetting.SAVED])
    assert "--no-snapshot" in decision.refusals[0].remedy
    assert len(steps(cluster, *ALL, everything=True, save=False)) == len(ALL)
    assert len(steps(replace(cluster, snapshot_taken=True), *ALL, everything=True)) == len(ALL), "the members that went were the quorum"


def test_all_control_planes_by_name_are_freed_behind_the_gate_which_the_last_does_not_pass() -> None:
    assert steps(BUILD.cluster(BUILD.host(1)), "cp-1") == [None]


def test_a_snapshot_comes_before_the_first_member_that_goes_and_only_then() -> None:
    cluster = BUILD.cluster(*BUILD.three().hosts, BUILD.worker(1), snapshot_taken=False)
    assert steps(cluster, "cp-2", "worker-1")[2:4] == [TakeSnapshot(), RemoveMember(2, "cp-2")]
    assert TakeSnapshot() not in steps(cluster, "worker-1")


def test_members_that_contradict_each_other_keep_every_member() -> None:
    assert steps(BUILD.three(membership_problem="cp-1 lists others than cp-2"), "cp-2") == [None]


def test_hosts_of_another_cluster_are_freed_only_by_name() -> None:
    foreign = BUILD.host(3, kind=Kind.FOREIGN, member=Absent(), node=Absent())
    cluster = BUILD.cluster(BUILD.host(1), BUILD.host(2), foreign)
    assert steps(cluster, *ALL, everything=True) == [Reset("cp-2"), None, Reset("cp-1")]
    assert steps(cluster, "cp-3") == [Reset("cp-3")]


def test_a_host_that_is_gone_leaves_the_ring_and_says_what_is_left_to_do() -> None:
    cluster = BUILD.cluster(BUILD.host(1), BUILD.host(2), BUILD.unreachable(3), ring="ggb")
    assert steps(cluster, "cp-3") == [RemoveMember(3, "cp-3"), DeleteNode("cp-3"), None]


def test_free_hosts_are_left_alone() -> None:
    assert steps(BUILD.new(BUILD.prepared(1), BUILD.bare(2)), "cp-1", "cp-2") == []
    assert resetting.deciding(Request(("cp-1",)))(BUILD.new(BUILD.prepared(1)), NOON).refusals == ()


def test_a_half_initialized_host_without_a_ring_is_freed_when_its_owner_says_so() -> None:
    assert steps(BUILD.new(BUILD.half_initialized(1)), "cp-1") == [Reset("cp-1")]


def test_a_worker_is_drained_before_it_loses_its_node_and_everything_on_it() -> None:
    cluster = BUILD.cluster(*BUILD.three().hosts, BUILD.worker(1))
    assert steps(cluster, "worker-1") == [DeleteNode("worker-1", drain=True), Reset("worker-1")]
    assert str(steps(cluster, "worker-1")[0]) == "drain and delete Node worker-1"


def test_a_worker_whose_kubelet_is_silent_is_not_drained() -> None:
    cluster = BUILD.cluster(*BUILD.three().hosts, BUILD.worker(1, node=Node("worker-1", BAD)))
    assert steps(cluster, "worker-1") == [DeleteNode("worker-1"), Reset("worker-1")]


# Certificates only.


def renewing(cluster: Cluster) -> Cluster:
    return replace(cluster, options=RunOptions(renew_certificates=True))


def test_a_run_for_certificates_renews_them_and_leaves_the_rest_to_apply() -> None:
    cluster = renewing(BUILD.three())
    assert isinstance(decide_renewal(cluster, NOON).step, RenewCertificates)
    done = replace(cluster, renewed=("cp-1", "cp-2", "cp-3"))
    assert (decide_renewal(done, NOON).step, decide_renewal(done, NOON).refusals) == (None, ())


def test_what_comes_before_the_renewal_is_named_and_not_done() -> None:
    decision = decide_renewal(renewing(BUILD.three(version=V135, snapshot_taken=True)), NOON)
    assert decision.step is None
    assert [check.name for check in decision.refusals] == [FIRST]


def test_of_the_plan_only_the_renewals_that_nothing_comes_before_are_shown() -> None:
    shown = only_renewal(forecast(renewing(BUILD.three()), NOON))
    assert [each.step for each in shown.steps] == [RenewCertificates("cp-2"), RenewCertificates("cp-3"), RenewCertificates("cp-1")]
    assert only_renewal(forecast(renewing(BUILD.three(version=V135)), NOON)).steps == ()


def test_hosts_that_contradict_the_manifest_keep_every_host() -> None:
    cluster = BUILD.three(problems=("cp-1 is Node cp-2 by its kubelet's certificate",), snapshot_taken=False)
    for request in (Request(("cp-1",)), Request(ALL, everything=True), Request(ALL, everything=True, save=False)):
        decision = resetting.deciding(request)(cluster, NOON)
        assert (decision.step, [check.name for check in decision.refusals]) == (None, [HOSTS_FIT])
