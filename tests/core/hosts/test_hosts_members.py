"""Who leaves the ring and when: dead ones after three probes, lost ones, surplus ones after their replacements; hosts that are to join anew."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from quorate.core.checks import Outcome
from quorate.core.health import Absent, Unknown
from quorate.core.hosts.forecast import forecast
from quorate.core.hosts.rules import facts, join, leftovers, members, repair
from quorate.core.hosts.rules.departures import AS_MANY_AS_SAID, departing
from quorate.core.hosts.state import JOINED_AS_WORKER, Cluster, Kind, Node
from quorate.core.hosts.steps import DeleteNode, Join, Prepare, RemoveMember, Reset, TakeSnapshot, UpdateNodes
from quorate.core.quorum import QUORUM_SURVIVES_ADDITION, QUORUM_SURVIVES_REMOVAL
from quorate.core.ring import Ring

from .conftest import BAD, GOOD, V134, V135, Build


def replaced(build: Build, probes: int | None, *, letter: str = "b", seconds_ago: float = 0) -> Cluster:
    """cp-3 was taken out of the manifest, cp-4 is to join in its place; member 3 was silent so often."""
    orphan = replace(build.orphan(3, letter), missed_probes=None if probes is None else build.silent(probes, seconds_ago=seconds_ago))
    return build.cluster(build.host(1), build.host(2), build.prepared(4), orphans=(orphan,), lost_nodes=("cp-3",))


@pytest.mark.parametrize("probes", [1, 2])
def test_a_member_is_not_dead_before_three_probes(build: Build, probes: int) -> None:
    cluster = replaced(build, probes, seconds_ago=2)
    assert members.SILENT in build.refused(cluster)
    assert build.decide(cluster).wake_at == build.noon + timedelta(seconds=3)


def test_a_probe_that_is_due_is_made_at_once(build: Build) -> None:
    assert build.decide(replaced(build, 1, seconds_ago=60)).wake_at == build.noon


def test_a_dead_member_of_no_host_leaves_then_its_node_goes_then_the_new_host_joins(build: Build) -> None:
    cluster = replaced(build, 3)
    assert build.step(cluster) == RemoveMember(3, "cp-3")
    without = build.cluster(build.host(1), build.host(2), build.prepared(4), lost_nodes=("cp-3",))
    assert build.step(without) == DeleteNode("cp-3")
    assert build.step(replace(without, lost_nodes=())) == Join("cp-4")


def test_a_snapshot_comes_before_the_first_member_leaves(build: Build) -> None:
    assert build.step(replace(replaced(build, 3), snapshot_taken=False)) == TakeSnapshot()


def test_the_new_host_is_prepared_while_the_probes_are_made(build: Build) -> None:
    cluster = replaced(build, 1)
    assert build.step(replace(cluster, hosts=(*cluster.hosts[:2], build.bare(4)))) == Prepare(("cp-4",))


def test_the_new_host_does_not_join_beside_a_member_that_is_only_silent_so_far(build: Build) -> None:
    assert QUORUM_SURVIVES_ADDITION in build.refused(replaced(build, 1))


def test_an_orphan_may_be_the_member_of_a_host_whose_own_is_not_known(build: Build) -> None:
    cluster = replaced(build, 3)
    hosts = (build.host(1), build.host(2), build.unreachable(4, member=Unknown("no address is known")))
    assert members.NOT_IN_MANIFEST in build.refused(replace(cluster, hosts=hosts))


def test_a_node_may_be_that_of_a_host_whose_own_is_not_known(build: Build) -> None:
    cluster = build.cluster(build.host(1), build.unreachable(2, member=Absent(), node=Unknown("its name is not known")), lost_nodes=("x",))
    assert leftovers.NODE_GOES in build.refused(cluster)


def test_a_ready_worker_that_somebody_else_joined_keeps_its_node_though_a_new_host_has_its_name(build: Build) -> None:
    hosts = (build.host(1), build.host(2), build.host(3), build.prepared(4, control_plane=False))
    elsewhere = Node("worker-4", GOOD, kubelet=V134)
    theirs = build.cluster(*hosts, lost_nodes=("worker-4",), other_nodes=(elsewhere,))
    assert build.step(theirs) is None
    assert "Give host worker-4 another hostname" in build.said(theirs)
    ours = replace(theirs, other_nodes=(replace(elsewhere, static_worker=True),))
    assert build.step(ours) == DeleteNode("worker-4", drain=True)


def test_the_node_of_a_worker_that_left_the_manifest_is_drained_while_its_kubelet_answers(build: Build) -> None:
    cluster = build.three(lost_nodes=("gone",))
    assert build.step(replace(cluster, other_nodes=(Node("gone", GOOD, kubelet=V134, static_worker=True),))) == DeleteNode(
        "gone", drain=True
    )
    assert build.step(replace(cluster, other_nodes=(Node("gone", BAD, kubelet=V134),))) == DeleteNode("gone")
    assert build.step(replace(cluster, other_nodes=(Node("gone", GOOD, control_plane=True, kubelet=V134),))) == DeleteNode("gone")


def test_a_host_that_cannot_be_reached_keeps_its_member_however_long_it_is_silent(build: Build) -> None:
    cluster = build.cluster(build.host(1), build.host(2), build.unreachable(3), ring="ggb", members_missed_probes=((3, build.silent(99)),))
    assert build.refused(cluster) == [repair.CONTROL_PLANE_WELL]
    assert "remove it from the manifest" in build.said(cluster)


def test_no_member_leaves_that_quorum_needs(build: Build) -> None:
    cluster = build.cluster(build.host(1), build.unreachable(2), ring="gub", orphans=(build.orphan(3, "b", probes=3),))
    assert QUORUM_SURVIVES_REMOVAL in build.refused(cluster)


def test_of_two_dead_members_of_five_one_leaves_at_a_time(build: Build) -> None:
    orphans = (build.orphan(4, "b", probes=3), build.orphan(5, "b", probes=3))
    cluster = build.cluster(build.host(1), build.host(2), build.host(3), orphans=orphans, options=build.options(remove_hosts=2))
    assert build.step(cluster) == RemoveMember(4, "cp-4")


def test_a_candidate_that_may_not_leave_yet_holds_up_nobody(build: Build) -> None:
    orphans = (build.orphan(4, "b", probes=1), build.orphan(5, "b", probes=3))
    cluster = build.cluster(build.host(1), build.host(2), build.host(3), orphans=orphans, options=build.options(remove_hosts=2))
    assert build.step(cluster) == RemoveMember(5, "cp-5")


def test_the_last_host_of_the_manifest_that_holds_the_data_keeps_the_others(build: Build) -> None:
    """Two orphans are well and the only host's member is not: the data is with members that nobody looks after."""
    cluster = build.cluster(build.broken(1), ring="bgg", orphans=(build.orphan(2), build.orphan(3)))
    assert facts.HOLDS_THE_DATA in build.refused(cluster)


# Learners and members that never started


@pytest.mark.parametrize("letter", ["G", "B", "-"])
def test_an_orphan_that_never_voted_leaves_after_three_probes(build: Build, letter: str) -> None:
    cluster = build.three(orphans=(build.orphan(4, letter, probes=3),))
    assert isinstance(build.step(cluster), RemoveMember)
    assert members.SILENT in build.refused(build.three(orphans=(build.orphan(4, letter, probes=2),)))


def test_one_that_never_started_is_not_believed_to_be_dead_before_it_was_probed(build: Build) -> None:
    cluster = build.three(orphans=(build.orphan(4, "-"),))
    assert members.SILENT in build.refused(cluster)
    assert build.decide(cluster).wake_at == build.noon + members.PROBE_INTERVAL


@pytest.mark.parametrize(("letter", "probes"), [("G", None), ("-", 3)])
def test_a_learner_of_nobody_stays_as_long_as_whoever_lets_it_join_may_make_it_a_voter(
    build: Build, letter: str, probes: int | None
) -> None:
    """It answers, or has yet to start: somebody lets a machine join by hand, or with another manifest."""
    cluster = build.three(orphans=(build.orphan(4, letter, probes=probes, without_vote_for=100),))
    assert build.step(cluster) is None
    assert members.GIVEN_UP in build.refused(cluster)
    assert build.decide(cluster).wake_at == build.noon + timedelta(seconds=80)
    assert [type(each.step) for each in forecast(cluster, build.noon).steps] == [RemoveMember]
    assert isinstance(build.step(build.three(orphans=(build.orphan(4, letter, probes=probes, without_vote_for=180),))), RemoveMember)


def test_a_learner_that_was_given_up_and_may_not_leave_wakes_nobody(build: Build) -> None:
    cluster = build.cluster(build.host(1), build.broken(2), orphans=(build.orphan(3, "G"),), ring="gbG")
    assert (build.step(cluster), build.decide(cluster).wake_at) == (None, None)


def test_the_learner_of_a_join_that_was_cut_short_leaves_then_node_traces_and_it_joins_anew(build: Build) -> None:
    node = Node("cp-3", GOOD, control_plane=True)
    half = build.half_joined(3, member=3, node=node)
    others = (build.host(1), build.host(2))
    assert build.step(build.cluster(*others, half, ring="ggG")) == RemoveMember(3, "cp-3")
    assert build.step(build.cluster(*others, build.half_joined(3, node=node))) == DeleteNode("cp-3")
    assert build.step(build.cluster(*others, build.half_joined(3))) == Reset("cp-3")
    assert build.step(build.cluster(*others, build.prepared(3))) == Join("cp-3")


def test_a_learner_is_not_removed_where_the_voters_have_no_quorum_without_it(build: Build) -> None:
    cluster = build.cluster(build.host(1), build.broken(2), build.half_joined(3, member=3), ring="gbG")
    assert build.step(cluster) is None


def test_the_learner_of_a_host_that_cannot_be_reached_keeps_others_from_joining_and_leaves_when_it_is_dead(build: Build) -> None:
    hosts = (build.host(1), build.host(2), build.unreachable(3), build.prepared(4))
    missed = ((3, build.silent(3)),)
    assert build.step(build.cluster(*hosts, ring="ggB", members_missed_probes=missed)) == RemoveMember(3, "cp-3")
    assert members.SILENT in build.refused(build.cluster(*hosts, ring="ggB"))


# Data that is lost


def test_the_member_of_a_host_whose_data_is_lost_leaves_and_the_host_joins_anew(build: Build) -> None:
    others = (build.host(1), build.host(2))
    emptied = build.broken(3, etcd_data_lost=True)
    missed = ((3, build.silent(3)),)
    assert build.step(build.cluster(*others, emptied, ring="ggb", members_missed_probes=missed)) == RemoveMember(3, "cp-3")
    assert members.SILENT in build.refused(build.cluster(*others, emptied, ring="ggb", members_missed_probes=((3, build.silent(2)),)))
    out = build.broken(3, member=Absent())
    assert build.step(build.cluster(*others, out)) == DeleteNode("cp-3")
    assert build.step(build.cluster(*others, replace(out, node=Absent()))) == Reset("cp-3")


def test_data_that_is_lost_on_a_host_that_is_well_is_a_contradiction_for_somebody_to_look_at(build: Build) -> None:
    cluster = build.cluster(build.host(1), build.host(2), build.host(3, etcd_data_lost=True))
    assert build.refused(cluster) == [repair.CONTROL_PLANE_WELL]
    assert "cp-3 has lost its etcd data" in build.said(cluster)


def test_a_founder_that_lost_its_data_is_reset_beside_a_cluster_that_stands_and_continues_nothing(build: Build) -> None:
    others = (build.host(2), build.host(3))
    assert build.step(build.cluster(build.half_initialized(1), *others)) == Reset("cp-1")


def test_a_host_installed_anew_loses_member_and_node_before_it_is_prepared(build: Build) -> None:
    others = (build.host(1), build.host(2))
    missed = ((3, build.silent(3)),)
    assert build.step(build.cluster(*others, build.wiped(3), ring="ggb", members_missed_probes=missed)) == RemoveMember(3, "cp-3")
    out = build.wiped(3, member=Absent(), etcd_data_lost=False)
    assert build.step(build.cluster(*others, out)) == DeleteNode("cp-3")


def test_a_node_that_is_ready_is_not_deleted_for_a_host_on_which_nothing_is_left(build: Build) -> None:
    out = build.wiped(3, member=Absent(), node=Node("cp-3", GOOD))
    cluster = build.cluster(build.host(1), build.host(2), out)
    assert leftovers.NODE_GOES in build.refused(cluster)
    assert build.decide(cluster).wake_at == build.noon + leftovers.LOOK_AGAIN


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ({"member": Unknown("the ring was not matched")}, leftovers.OUT_OF_THE_RING),
        ({"member_health": GOOD}, leftovers.RUNS_NO_ETCD),
    ],
)
def test_a_host_is_not_reset_that_may_hold_something(build: Build, host: dict[str, object], name: str) -> None:
    assert name in build.refused(build.cluster(build.host(1), build.host(2), build.half_joined(3, **host)))


def test_that_a_member_of_no_host_is_the_last_with_the_data_is_said_before_anything_else(build: Build) -> None:
    lost = build.broken(1, etcd_data_lost=True, member_health=GOOD)
    cluster = build.cluster(lost, build.prepared(3), orphans=(build.orphan(2),), version=V135)
    first = build.decide(cluster).refusals[0]
    assert first.name == facts.HOLDS_THE_DATA
    assert "the last with the data is cp-2" in first.evidence
    assert "put it back into the manifest" in first.remedy
    silent = build.cluster(build.broken(1), build.prepared(3), orphans=(build.orphan(2),), ring="ug")
    assert "the last with the data" not in build.said(silent), "it may come back with its own"
    back = build.cluster(lost, build.host(2), build.prepared(3), version=V135)
    assert build.step(back) == RemoveMember(1, "cp-1")


def test_a_host_is_not_reset_while_no_other_holds_the_data(build: Build) -> None:
    cluster = build.cluster(build.broken(1), build.half_joined(2), ring="u")
    assert facts.HOLDS_THE_DATA in build.refused(cluster)


def test_a_worker_whose_join_was_cut_short_is_reset_unless_it_runs_pods(build: Build) -> None:
    half = build.worker(1, kind=Kind.HALF_JOINED, findings=(BAD,), node=Absent())
    assert build.step(build.cluster(build.host(1), half)) == Reset("worker-1")
    busy = replace(half, node=Node("worker-1", GOOD))
    assert leftovers.RUNS_NOTHING in build.refused(build.cluster(build.host(1), busy))


def test_a_worker_that_the_manifest_has_as_a_control_plane_is_not_freed_for_it(build: Build) -> None:
    joined = replace(BAD, reason=JOINED_AS_WORKER)
    works = build.host(4, kind=Kind.HALF_JOINED, findings=(joined,), member=Absent(), member_health=None, node=Node("cp-4", BAD))
    cluster = build.cluster(build.host(1), build.host(2), works)
    assert leftovers.RUNS_NOTHING in build.refused(cluster)
    assert build.step(cluster) is None


def test_a_member_stays_while_the_disk_with_its_data_may_not_be_mounted_yet(build: Build) -> None:
    booted = build.broken(3, etcd_data_lost=True, just_booted=True)
    cluster = build.cluster(build.host(1), build.host(2), booted, ring="ggb", members_missed_probes=((3, build.silent(3)),))
    assert members.LOST in build.refused(cluster)
    assert build.step(cluster) is None


# Hosts taken out of the manifest


def test_three_to_one_one_at_a_time_and_their_nodes_after_them(build: Build) -> None:
    cluster = build.cluster(
        build.host(1), orphans=(build.orphan(2), build.orphan(3)), lost_nodes=("cp-2", "cp-3"), options=build.options(remove_hosts=2)
    )
    assert build.step(cluster) == RemoveMember(2, "cp-2")
    smaller = build.cluster(build.host(1), orphans=(build.orphan(3),), lost_nodes=("cp-2", "cp-3"), options=build.options(remove_hosts=2))
    assert build.step(smaller) == DeleteNode("cp-2")
    assert build.step(replace(smaller, lost_nodes=("cp-3",))) == RemoveMember(3, "cp-3")


def test_the_surplus_leaves_by_name_whatever_ids_etcd_gave_and_who_leads_comes_last(build: Build) -> None:
    orphans = (build.orphan(2, name="cp-5"), build.orphan(3, name="cp-4"))
    cluster = build.cluster(build.host(1), orphans=orphans, options=build.options(remove_hosts=2))
    assert build.step(cluster) == RemoveMember(3, "cp-4")
    assert isinstance(cluster.ring, Ring)
    assert build.step(replace(cluster, ring=replace(cluster.ring, leader=3))) == RemoveMember(2, "cp-5")


def test_a_replacement_joins_before_the_one_that_is_well_leaves(build: Build) -> None:
    assert build.step(replaced(build, None, letter="g")) == Join("cp-4")
    unready = build.unreachable(4, member=Absent(), node=Absent())
    cluster = build.cluster(build.host(1), build.host(2), unready, orphans=(build.orphan(3),))
    assert members.REPLACED_FIRST in build.refused(cluster)


def test_the_old_member_goes_first_where_the_new_host_has_its_name(build: Build) -> None:
    cluster = build.cluster(build.host(1), build.host(2), build.prepared(3), orphans=(build.orphan(9, name="cp-3"),))
    assert build.step(cluster) == RemoveMember(9, "cp-3")


def test_nobody_joins_under_the_name_of_a_node_that_is_not_gone(build: Build) -> None:
    unplaced = build.unreachable(4, member=Absent(), node=Unknown("its name is not known"))
    cluster = build.cluster(build.host(1), build.host(2), build.prepared(3), unplaced, lost_nodes=("cp-3",))
    assert join.NAME_FREE in build.refused(cluster)


def test_one_that_answers_and_is_ill_leaves_without_waiting_for_others(build: Build) -> None:
    assert build.step(replaced(build, None, letter="a")) == RemoveMember(3, "cp-3")


def test_a_ring_in_dispute_is_left_alone(build: Build) -> None:
    cluster = replace(replaced(build, 3), membership_problem="cp-1 and cp-2 are of different clusters")
    assert build.refused(cluster)[0] == members.AGREEMENT


# Joining


def test_nobody_joins_with_another_version_than_the_cluster_runs(build: Build) -> None:
    cluster = build.cluster(build.host(1), build.bare(2), build.bare(1, control_plane=False), version=V135)
    assert join.REPAIR_AT_RUNNING_VERSION in build.refused(cluster)
    assert "Set versions.kubernetes to v1.34.4, repair, then upgrade." in build.said(cluster)


def test_a_worker_that_has_yet_to_join_is_repair_too(build: Build) -> None:
    cluster = build.three(version=V135)
    assert build.step(cluster) is not None
    assert join.REPAIR_AT_RUNNING_VERSION in build.refused(replace(cluster, hosts=(*cluster.hosts, build.prepared(1, control_plane=False))))


def test_a_version_of_the_cluster_that_is_not_known_lets_nobody_join(build: Build) -> None:
    decision = build.decide(build.cluster(build.host(1), build.prepared(2), running=None))
    assert decision.step is None
    assert (join.REPAIR_AT_RUNNING_VERSION, Outcome.UNKNOWN) in [(check.name, check.outcome) for check in decision.refusals]


def test_workers_join_at_most_so_many_at_once(build: Build) -> None:
    workers = tuple(build.prepared(number, control_plane=False) for number in range(1, 6))
    cluster = build.cluster(build.host(1), *workers, options=build.options(parallel_workers=2))
    assert str(build.step(cluster)) == "join worker-1, worker-2 as workers"


def test_workers_join_beside_a_control_plane_host_that_is_broken(build: Build) -> None:
    hosts = (build.host(1), build.host(2), build.broken(3), build.prepared(1, control_plane=False))
    assert str(build.step(build.cluster(*hosts, ring="ggb"))) == "join worker-1 as workers"


def test_workers_wait_for_api_servers_that_an_interrupted_upgrade_left_behind_and_do_not_hold_it_up(build: Build) -> None:
    done = {"components": V135, "kubelet": V134}
    worker = build.prepared(1, control_plane=False, kubelet=V135)
    hosts = (build.host(1, **done), build.host(2), build.host(3), worker)
    cluster = build.cluster(*hosts, version=V135, running=V135)
    assert str(build.step(cluster)) == "upgrade the control plane of cp-2 to v1.35.4"
    assert V134 < V135


def test_the_node_of_a_name_that_a_member_of_no_host_has_is_not_deleted_for_another_host(build: Build) -> None:
    """It may be that member's: a host whose own join was cut short never had one."""
    half = build.half_joined(3, node=Node("cp-3", GOOD, kubelet=V134, control_plane=True))
    without = build.cluster(build.host(1), build.host(2), half, ring="gg")
    beside = build.cluster(build.host(1), build.host(2), half, orphans=(build.orphan(3),))
    assert build.step(without) == DeleteNode("cp-3")
    assert not isinstance(build.step(beside), DeleteNode)


# How many hosts leave.


def test_more_hosts_than_one_leave_only_where_their_number_is_said(build: Build) -> None:
    cluster = build.cluster(build.host(1), orphans=(build.orphan(2),), lost_nodes=("cp-2", "worker-7"))
    assert AS_MANY_AS_SAID in build.refused(cluster)
    said = build.said(cluster)
    assert "2 hosts of the cluster are not in the manifest: cp-2, worker-7; 1 may leave" in said
    assert "--remove-hosts 2" in said
    assert "-t if they come from there" in said
    assert build.step(replace(cluster, options=build.options(remove_hosts=2))) == DeleteNode("worker-7")


@pytest.mark.parametrize("probes", [None, 3])
def test_of_two_members_of_no_host_none_leaves_unsaid_be_they_well_or_dead(build: Build, probes: int | None) -> None:
    letter = "g" if probes is None else "b"
    orphans = tuple(build.orphan(number, letter, probes=probes) for number in (6, 7))
    cluster = build.cluster(*(build.host(number) for number in (1, 2, 3, 4, 5)), orphans=orphans)
    assert AS_MANY_AS_SAID in build.refused(cluster)
    assert isinstance(build.step(replace(cluster, options=build.options(remove_hosts=2))), RemoveMember)


def test_learners_that_never_were_hosts_leave_unasked(build: Build) -> None:
    orphans = tuple(build.orphan(number, "B", probes=3) for number in (6, 7))
    assert build.step(build.cluster(build.host(1), build.host(2), build.host(3), orphans=orphans)) == RemoveMember(6, "cp-6")


def test_voters_of_one_name_are_as_many_hosts_whether_or_not_a_node_has_it(build: Build) -> None:
    orphans = (build.orphan(6, name="old"), build.orphan(7, name="old"))
    cluster = build.three(orphans=orphans, lost_nodes=("old",), ring=build.ring("ggg"))
    assert departing(cluster) == ("old (6)", "old (7)")
    assert departing(replace(cluster, orphans=orphans[:1])) == ("old",)


def test_a_member_of_no_host_that_one_question_failed_does_not_leave_before_its_replacement(build: Build) -> None:
    unheard = build.orphan(3, "u", name="cp-9")
    cluster = build.cluster(build.host(1), build.host(2), build.prepared(4), orphans=(unheard,))
    assert members.REPLACED_FIRST in build.refused(cluster)
    joined = build.cluster(build.host(1), build.host(2), build.host(4), orphans=(unheard,))
    assert build.step(joined) == RemoveMember(3, "cp-9")


def test_no_host_is_reset_where_as_many_hold_data_outside_the_ring_as_serve_in_it(build: Build) -> None:
    """The ring may be that of a founder which began anew, under the ids that it had."""
    outside = [build.broken(number, member=Absent(), member_health=None, node=Absent(), holds_a_copy=True) for number in (3, 4)]
    cluster = build.cluster(build.host(1), build.host(2), *outside)
    assert leftovers.NO_MORE_COPIES in build.refused(cluster)
    assert "quorate reset -m MANIFEST cp-3 cp-4" in build.said(cluster)
    assert build.step(build.cluster(build.host(1), build.host(2), outside[0])) == Reset("cp-3")
    assert leftovers.NO_MORE_COPIES in build.refused(build.cluster(build.host(1), outside[0]))
    assert build.step(build.cluster(build.host(1), replace(outside[0], holds_a_copy=False))) == Reset("cp-3")


def test_no_host_is_reset_that_holds_data_of_another_ring(build: Build) -> None:
    """Where etcd was not restored, they may be those of the cluster that somebody has founded anew by mistake."""
    other = build.broken(3, member=Absent(), member_health=None, node=Absent(), holds_other_data=True)
    cluster = build.cluster(build.host(1), build.host(2), other)
    assert leftovers.NO_OTHER_DATA in build.refused(cluster)
    assert "quorate reset -m MANIFEST cp-3" in build.said(cluster)
    assert build.step(build.cluster(build.host(1), build.host(2), replace(other, holds_other_data=False))) == Reset("cp-3")


def test_what_a_learner_had_received_goes_though_only_one_votes(build: Build) -> None:
    cluster = build.cluster(build.host(1), build.half_joined(2, holds_a_copy=True))
    assert build.step(cluster) == Reset("cp-2")


def test_the_node_of_a_machine_controllers_machine_stays_though_it_has_the_label(build: Build) -> None:
    node = Node("md-1", GOOD, kubelet=V134, control_plane=True, machine="Machine md-1", kept_by="Machine md-1")
    cluster = build.three(lost_nodes=("md-1",), other_nodes=(node,))
    assert build.step(cluster) is None
    assert "Take the label off Node md-1" in build.said(cluster)
    assert departing(cluster) == ()
    assert build.step(replace(cluster, other_nodes=(replace(node, machine=""),))) == DeleteNode("md-1"), "a cloud has given it an id"


def test_the_node_of_a_host_that_has_yet_to_join_gets_no_labels(build: Build) -> None:
    """It is another machine's, or goes."""
    wiped = build.wiped(3, member=Absent(), node=Node("cp-3", GOOD, kubelet=V134), node_drift=("label is missing",))
    assert not isinstance(build.step(build.cluster(build.host(1), build.host(2), wiped)), UpdateNodes)
