"""Members leave at our hook (rows 21 to 29), two and more deletions at once, and the last holder of data."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from quorate.core.checks import Outcome
from quorate.core.health import Absent, Finding, Health, Unknown
from quorate.core.machines import checks
from quorate.core.machines.decide import decide
from quorate.core.machines.rules.remove import (
    ANOTHER_HOLDS_THE_DATA,
    AT_HOOK,
    BEFORE_INITIALIZATION,
    another_holds_the_data,
    release_the_leaving,
)
from quorate.core.machines.state import ControlPlane
from quorate.core.machines.steps import CreateReplica, DeleteReplica, ReleaseHook, RemoveMember, Step, UpdateInPlace
from quorate.core.proposal import NOTHING, Proposal
from quorate.core.ring import Ring

if TYPE_CHECKING:
    from tests.core.conftest import Build

BARRED = frozenset({CreateReplica, DeleteReplica, UpdateInPlace})


def refusals(proposal: Proposal[Step]) -> list[str]:
    """The evidence of every check that did not pass, of a proposal that holds everything else back."""
    assert proposal.step is None
    assert proposal.blocks == BARRED
    return [check.evidence for check in proposal.checks if not check.passed]


def last_one(proposal: Proposal[Step]) -> str:
    """Why the only one is held, of a proposal that lets its replacement join."""
    assert proposal.step is None
    assert proposal.blocks == frozenset({DeleteReplica, UpdateInPlace})
    assert proposal.checks[-1].name == ANOTHER_HOLDS_THE_DATA
    return proposal.checks[-1].evidence


def test_nobody_leaves_and_nothing_is_said(build: Build) -> None:
    assert release_the_leaving(build.three(), build.noon) == NOTHING


def test_row_21_one_without_our_hook_is_no_longer_ours_to_release(build: Build) -> None:
    gone = build.control_plane(build.replica(1), build.replica(2), build.vanishing(3, member=Absent()))
    assert release_the_leaving(gone, build.noon) == NOTHING


def test_row_21_one_whose_hook_was_taken_by_hand_is_waited_for_where_its_member_is_needed(build: Build) -> None:
    control_plane = build.control_plane(build.leaving(1), build.replica(2), build.vanishing(3))
    assert refusals(release_the_leaving(control_plane, build.noon)) == ["without cp-1: 1 of 2 voters healthy, quorum 2: 1 short of quorum"]


def test_row_22_one_that_is_still_drained_is_waited_for(build: Build) -> None:
    control_plane = build.control_plane(build.leaving(1, waits_at_hook=False), build.replica(2), build.replica(3))
    proposal = release_the_leaving(control_plane, build.noon)
    assert [check.name for check in proposal.checks] == [AT_HOOK]
    assert refusals(proposal) == ["cp-1 is being drained, or waits for volumes or other hooks"]


@pytest.mark.parametrize(("version", "waits"), [("v1.30.9", False), ("v1.31.0-alpha.1", True), ("v1.31.0", True), ("", True)])
def test_row_22_other_hooks_go_first_from_1_31_by_the_machines_own_version(build: Build, version: str, waits: bool) -> None:
    leaving = build.leaving(1, other_hooks=("backup",), version=version)
    control_plane = build.control_plane(leaving, build.replica(2), build.replica(3))
    proposal = release_the_leaving(control_plane, build.noon)
    if waits:
        assert refusals(proposal) == ["cp-1 waits for other hooks first: backup"]
    else:
        assert proposal.step == RemoveMember("cp-1", 1)


def test_row_23_the_only_machine_is_held_until_its_replacement_has_joined_where_upstream_lets_it_go(build: Build) -> None:
    proposal = release_the_leaving(build.control_plane(build.leaving(1), desired=1), build.noon)
    assert last_one(proposal) == "cp-1 is the only control plane left: its etcd data would be lost"
    assert not proposal.checks[-1].remedy


def test_row_23_with_no_room_for_a_replacement_somebody_has_to_decide(build: Build) -> None:
    proposal = release_the_leaving(build.control_plane(build.leaving(1), desired=build.desired(1, max_surge=0)), build.noon)
    last_one(proposal)
    assert proposal.checks[-1].remedy


@pytest.mark.parametrize("build_one", ["leaving", "replica"])
def test_who_has_the_only_data_and_lost_its_node_is_held_with_what_makes_that_anew(build: Build, build_one: str) -> None:
    alone = getattr(build, build_one)(1, node=None, had_node=True, member=Unknown("no node to ask"))
    held = another_holds_the_data(build.control_plane(alone, desired=1, ring=Unknown("no node to ask")), alone)
    assert "`systemctl restart kubelet`" in held.remedy
    silent = build.control_plane(alone, desired=1, ring=Unknown("not connected"), workload=Finding(Health.BAD, "NotConnected"))
    assert "kubelet" not in another_holds_the_data(silent, alone).remedy  # the Node may well be there


def test_who_has_the_only_data_and_is_not_deleted_has_to_be_mended_unless_others_are_still_to_join(build: Build) -> None:
    alone = build.replica(1, unhealthy=True)
    assert another_holds_the_data(build.control_plane(alone, desired=1), alone).remedy.startswith("Repair what")
    assert not another_holds_the_data(build.control_plane(alone, desired=3), alone).remedy


def test_row_23_one_that_is_gone_in_all_but_name_is_no_second_machine(build: Build) -> None:
    proposal = release_the_leaving(build.control_plane(build.leaving(1), build.vanishing(2, member=Absent())), build.noon)
    last_one(proposal)


def test_row_23_with_external_etcd_the_last_that_serves_is_held_too(build: Build) -> None:
    external = build.control_plane(build.leaving(1), desired=build.desired(3, etcd_managed=False), ring=Unknown("external"))
    assert "nobody would serve" in last_one(release_the_leaving(external, build.noon))


def test_the_only_machine_gets_its_replacement_first_and_leaves_once_that_votes_and_serves(build: Build) -> None:
    alone = build.control_plane(build.leaving(1), desired=1)
    assert decide(alone, build.noon).step == CreateReplica("", initialize=False)
    joining = build.control_plane(build.leaving(1), build.joining(2, member=2), desired=1, ring="gG")
    assert decide(joining, build.noon).step is None
    joined = build.control_plane(build.leaving(1), build.replica(2), desired=1)
    assert decide(joined, build.noon).step == RemoveMember("cp-1", 1)


def test_the_last_voter_of_ours_is_held_beside_a_voter_that_is_nobodys(build: Build) -> None:
    replicas = build.leaving(1), build.joining(2)
    proposal = release_the_leaving(build.control_plane(*replicas, ring="ggg"), build.noon)
    assert refusals(proposal) == ["no replica other than cp-1 has a voting member: its etcd data would be lost"]


def test_the_last_voter_of_ours_is_held_where_the_other_s_member_is_not_known(build: Build) -> None:
    replicas = build.leaving(1), build.replica(2, member=Unknown("two members have its address"))
    proposal = release_the_leaving(build.control_plane(*replicas, ring="ggg"), build.noon)
    assert refusals(proposal) == ["cannot tell whether a replica other than cp-1 has a voting member"]


@pytest.mark.parametrize("member", [1, Absent(), Unknown("never dialled")])
def test_before_initialization_a_failed_first_machine_goes_by_a_named_exemption(build: Build, member: int | Absent | Unknown) -> None:
    control_plane = build.control_plane(build.leaving(1, member=member), initialized=False, ring=Unknown("no cluster yet"))
    proposal = release_the_leaving(control_plane, build.noon)
    assert proposal.step == ReleaseHook("cp-1")
    assert BEFORE_INITIALIZATION in [check.name for check in proposal.checks]


def test_several_replicas_of_a_cluster_that_was_never_initialized_are_not_believed(build: Build) -> None:
    control_plane = build.control_plane(build.leaving(1), build.replica(2), initialized=False, ring=Unknown("no cluster yet"))
    assert "cp-1 is not the only one" in refusals(release_the_leaving(control_plane, build.noon))[0]


def test_row_24_no_member_goes_while_no_other_control_plane_serves(build: Build) -> None:
    control_plane = build.control_plane(build.leaving(1), build.ill(2), build.ill(3, Health.UNKNOWN))
    assert refusals(release_the_leaving(control_plane, build.noon)) == [
        "without cp-1 no control plane with every component healthy is left"
    ]


def test_row_25_with_external_etcd_the_hook_alone_is_dropped(build: Build) -> None:
    control_plane = build.control_plane(
        build.leaving(1), build.replica(2), desired=build.desired(3, etcd_managed=False), ring=Unknown("external")
    )
    proposal = release_the_leaving(control_plane, build.noon)
    assert proposal.step == ReleaseHook("cp-1")
    assert checks.EXTERNAL in [check.evidence for check in proposal.checks]


def test_with_external_etcd_one_whose_node_somebody_deleted_may_be_the_last_that_serves(build: Build) -> None:
    """Its Node tells nothing of its API server, and no member that it has not got proves that it serves nobody."""
    external: dict[str, Any] = {"desired": build.desired(3, etcd_managed=False), "ring": Unknown("external")}
    leaving: dict[str, Any] = {"deleting_since": build.noon, "waits_at_hook": True}
    ill = build.ill(2, member=Absent())
    held = build.control_plane(build.joining(1, had_node=True, **leaving), ill, **external)
    assert refusals(release_the_leaving(held, build.noon)) == ["without cp-1 no control plane with every component healthy is left"]
    never_there = build.control_plane(build.joining(1, **leaving), ill, **external)
    assert release_the_leaving(never_there, build.noon).step == ReleaseHook("cp-1")


@pytest.mark.parametrize("member", [1, Absent(), Unknown("no Node")])
def test_row_26_a_ring_that_cannot_be_read_lets_nobody_go(build: Build, member: int | Absent | Unknown) -> None:
    control_plane = build.control_plane(build.leaving(1, member=member), build.replica(2), ring=Unknown("dial timeout"))
    assert refusals(release_the_leaving(control_plane, build.noon)) == ["the ring could not be read: dial timeout"]


def test_row_26_an_empty_member_list_lets_nobody_go(build: Build) -> None:
    proposal = release_the_leaving(build.control_plane(build.leaving(1), build.replica(2), ring=""), build.noon)
    assert refusals(proposal) == ["the ring could not be read: etcd listed no members"]


def test_row_27_an_unmatched_member_is_waited_for_where_upstream_drops_the_hook(build: Build) -> None:
    control_plane = build.control_plane(build.leaving(1, member=Unknown("no Node")), build.replica(2), ring="gg")
    proposal = release_the_leaving(control_plane, build.noon)
    assert refusals(proposal) == ["cannot tell which member is cp-1's: no Node"]
    assert proposal.checks[-1].outcome is Outcome.UNKNOWN


def test_row_27_one_proven_without_a_member_is_released_even_where_nobody_else_serves(build: Build) -> None:
    control_plane = build.control_plane(build.joining(3, deleting_since=build.noon, waits_at_hook=True), build.ill(1), build.ill(2))
    assert release_the_leaving(control_plane, build.noon).step == ReleaseHook("cp-3")


def test_one_whose_node_alone_is_gone_may_still_be_the_only_one_that_serves(build: Build) -> None:
    control_plane = build.control_plane(build.leaving(1, node=None), build.ill(2), build.ill(3))
    assert refusals(release_the_leaving(control_plane, build.noon)) == [
        "without cp-1 no control plane with every component healthy is left"
    ]


def test_row_28_a_removal_that_breaks_quorum_waits_and_says_so(build: Build) -> None:
    control_plane = build.control_plane(build.leaving(1), build.replica(2), build.replica(3), ring="ggb")
    assert refusals(release_the_leaving(control_plane, build.noon)) == ["without cp-1: 1 of 2 voters healthy, quorum 2: 1 short of quorum"]


def test_row_29_a_safe_one_gives_up_its_member(build: Build) -> None:
    proposal = release_the_leaving(build.control_plane(build.leaving(1), build.replica(2), build.replica(3)), build.noon)
    assert proposal.step == RemoveMember("cp-1", 1)
    assert all(check.passed for check in proposal.checks)


def test_after_a_crash_between_member_and_hook_the_hook_is_what_is_left_to_do(build: Build) -> None:
    control_plane = build.control_plane(build.leaving(1, member=Absent()), build.replica(2), build.replica(3))
    assert release_the_leaving(control_plane, build.noon).step == ReleaseHook("cp-1")


def test_of_several_the_longest_waiting_goes_first_and_names_break_ties(build: Build) -> None:
    two = build.control_plane(build.leaving(1, minutes=1), build.leaving(2, minutes=9), build.replica(3))
    tie = build.control_plane(build.leaving(2), build.leaving(1), build.replica(3))
    assert release_the_leaving(two, build.noon).step == RemoveMember("cp-2", 2)
    assert release_the_leaving(tie, build.noon).step == RemoveMember("cp-1", 1)


def test_a_dead_one_goes_before_a_good_one_that_waited_longer(build: Build) -> None:
    control_plane = build.control_plane(build.leaving(1, minutes=9), build.leaving(2, minutes=1), build.replica(3), ring="gbg")
    assert release_the_leaving(control_plane, build.noon).step == RemoveMember("cp-2", 2)


def test_one_stuck_in_its_drain_holds_no_other_up(build: Build) -> None:
    stuck = build.leaving(1, minutes=90, waits_at_hook=False)
    control_plane = build.control_plane(stuck, build.leaving(2, minutes=1), build.replica(3))
    assert release_the_leaving(control_plane, build.noon).step == RemoveMember("cp-2", 2)


def removed(control_plane: ControlPlane, build: Build) -> list[str]:
    """Who leaves, in order, when every removal succeeds and takes its Machine with it."""
    order: list[str] = []
    while isinstance(step := release_the_leaving(control_plane, build.noon).step, RemoveMember):
        order.append(step.replica)
        left = [replica for replica in control_plane.replicas if replica.name != step.replica]
        control_plane = build.control_plane(*left)
    return order


def test_two_of_three_deleted_at_once_both_go_where_upstream_deadlocks(build: Build) -> None:
    assert removed(build.control_plane(build.leaving(1), build.leaving(2), build.replica(3)), build) == ["cp-1", "cp-2"]


def test_three_of_five_deleted_at_once_all_go_where_upstream_deadlocks(build: Build) -> None:
    five = [*(build.leaving(number) for number in (1, 2, 3)), build.replica(4), build.replica(5)]
    assert removed(build.control_plane(*five), build) == ["cp-1", "cp-2", "cp-3"]


def test_of_all_deleted_at_once_the_last_one_is_kept(build: Build) -> None:
    assert removed(build.control_plane(*(build.leaving(number) for number in (1, 2, 3))), build) == ["cp-1", "cp-2"]


def test_all_three_deleted_the_last_is_joined_by_a_replacement(build: Build) -> None:
    left = build.control_plane(build.leaving(3), build.vanishing(2, member=Absent()))
    assert decide(left, build.noon).step == CreateReplica("", initialize=False)


@pytest.mark.parametrize(("ring", "leaves"), [("ggG", True), ("gggG", True), ("gbG", False), ("gg-", False), ("gggg-", True)])
def test_s2_a_voter_leaves_beside_one_that_joins_only_where_quorum_holds_without_that_one(build: Build, ring: str, leaves: bool) -> None:
    others = [build.replica(number) for number in range(2, len(ring) + 1)]
    proposal = release_the_leaving(build.control_plane(build.leaving(1), *others, ring=ring), build.noon)
    assert proposal.step == (RemoveMember("cp-1", 1) if leaves else None)


@pytest.mark.parametrize("ring", ["Ggg", "-gg", "Bgg"])
def test_s2_the_one_that_joins_may_itself_leave(build: Build, ring: str) -> None:
    control_plane = build.control_plane(build.leaving(1), build.replica(2), build.replica(3), ring=ring)
    assert release_the_leaving(control_plane, build.noon).step == RemoveMember("cp-1", 1)


@pytest.mark.parametrize("leader", [1, None])
def test_the_hook_waits_for_no_leader_that_could_take_over(build: Build, leader: int | None) -> None:
    ring = Ring(build.ring("ggg").members, leader)
    control_plane = build.control_plane(build.leaving(1), build.replica(2), build.replica(3), ring=ring)
    assert release_the_leaving(control_plane, build.noon).step == RemoveMember("cp-1", 1)


def test_nothing_joins_and_nothing_else_goes_while_one_cannot_leave(build: Build) -> None:
    for desired in (1, 5):
        control_plane = build.control_plane(build.leaving(1, waits_at_hook=False), *map(build.replica, (2, 3)), desired=desired)
        decision = decide(control_plane, build.noon)
        assert decision.step is None
        assert AT_HOOK in [check.name for check in decision.refusals]


@pytest.mark.parametrize(
    ("others", "held"),
    [((1,), "1 of 2 voters healthy, quorum 2: 1 short of quorum"), ((1, 2), ""), ((1, 2, 3), "")],
    ids=["of one", "of two", "of three"],
)
def test_one_that_may_be_joining_is_held_where_the_ring_could_not_lose_its_member(build: Build, others: tuple[int, ...], held: str) -> None:
    """kubeadm could let it vote in the moments between quorate to let it go and the end of its host."""
    until = build.noon + timedelta(minutes=3)
    newcomer = build.leaving(9, member=Absent(), node=None, component_findings=(), member_findings=(), joins_until=until)
    control_plane = build.control_plane(*map(build.replica, others), newcomer)
    proposal = release_the_leaving(control_plane, build.noon)
    if not held:
        assert proposal.step == ReleaseHook("cp-9")
        return
    assert refusals(proposal) == [
        f"until 12:03:00 kubeadm may be joining on the host of cp-9; if it adds a member that is lost at once: {held}"
    ]
    assert proposal.wake_at == until
    assert release_the_leaving(control_plane, until).step == ReleaseHook("cp-9")


def test_one_that_was_seen_to_join_leaves_as_a_member(build: Build) -> None:
    """Its member goes first, so that nothing is left to wait for."""
    newcomer = build.leaving(2, node=None, component_findings=(), member_findings=(), joins_until=build.noon + timedelta(minutes=3))
    assert release_the_leaving(build.control_plane(build.replica(1), newcomer), build.noon).step == RemoveMember("cp-2", 2)
