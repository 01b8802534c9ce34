"""The rolling replacement (rows 34 to 37 of docs/testing.md), what failed by an earlier specification, and a rollout over a rollout."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from quorate.core import quorum
from quorate.core.health import Absent, Finding, Health, Unknown
from quorate.core.machines import checks
from quorate.core.machines.decide import decide
from quorate.core.machines.rules.remove import BEFORE_INITIALIZATION
from quorate.core.machines.rules.rollout import (
    ANOTHER_STAYS,
    REPLACEMENT_WANTED,
    UP_TO_DATE,
    replace_the_outdated,
)
from quorate.core.machines.rules.scale import take_back_an_abandoned_creation
from quorate.core.machines.state import Certificates, ControlPlane, Creation, Remediation, Replica
from quorate.core.machines.steps import CreateReplica, DeleteReplica, ReleaseHook, RemoveMember, Step
from quorate.core.proposal import NOTHING, Proposal
from quorate.core.ring import Member, Ring
from quorate.core.versions import Version

if TYPE_CHECKING:
    from tests.core.conftest import Build

OLD = ("Version v1.33.0, v1.34.4 required",)
JOIN = CreateReplica("", initialize=False)


def old(build: Build, *numbers: int) -> list[Replica]:
    """Good replicas, all outdated."""
    return [build.replica(number, outdated=OLD) for number in numbers]


def refused(proposal: Proposal[Step]) -> list[str]:
    """The names of the checks that did not pass, of a proposal without a step."""
    assert proposal.step is None
    return [check.name for check in proposal.checks if not check.passed]


# Rows 34 to 37


def test_up_to_date_replicas_bar_nothing_and_are_named_as_such(build: Build) -> None:
    proposal = replace_the_outdated(build.three(), build.noon)
    assert (proposal.step, proposal.blocks) == (None, frozenset())
    assert [(check.name, check.passed) for check in proposal.checks] == [(UP_TO_DATE, True)]


def test_it_wakes_when_time_alone_makes_one_outdated(build: Build) -> None:
    soon, later = build.noon + timedelta(hours=1), build.noon + timedelta(hours=2)
    leaving = build.leaving(4, outdated_from=build.noon + timedelta(minutes=1))
    replicas = (build.replica(1, outdated_from=later), build.replica(2, outdated_from=soon), build.replica(3), leaving)
    assert replace_the_outdated(build.control_plane(*replicas), build.noon).wake_at == soon
    assert replace_the_outdated(build.three(), build.noon).wake_at is None
    assert decide(build.control_plane(*replicas[:3]), build.noon).wake_at == soon


def test_of_no_replicas_nothing_is_said(build: Build) -> None:
    assert replace_the_outdated(build.control_plane(), build.noon) == NOTHING


def test_one_that_leaves_anyway_is_not_outdated(build: Build) -> None:
    proposal = replace_the_outdated(build.control_plane(build.leaving(1, outdated=OLD), build.replica(2)), build.noon)
    assert [check.name for check in proposal.checks] == [UP_TO_DATE]


def test_every_way_in_which_a_replica_differs_is_in_the_evidence(build: Build) -> None:
    proposal = replace_the_outdated(build.control_plane(build.replica(1, outdated=("one", "two")), *old(build, 2, 3)), build.noon)
    assert (proposal.checks[0].name, proposal.checks[0].evidence) == (REPLACEMENT_WANTED, f"cp-1: one, two; cp-2: {OLD[0]}; cp-3: {OLD[0]}")


def test_row_34_with_room_for_the_surge_one_more_joins(build: Build) -> None:
    assert replace_the_outdated(build.control_plane(*old(build, 1, 2, 3)), build.noon).step == JOIN


def test_row_36_with_the_surge_used_an_outdated_one_goes(build: Build) -> None:
    assert replace_the_outdated(build.control_plane(*old(build, 1, 2, 3), build.replica(4)), build.noon).step == DeleteReplica("cp-1")


def test_row_36_enough_up_to_date_ones_change_nothing_about_that(build: Build) -> None:
    control_plane = build.control_plane(*old(build, 1), *map(build.replica, (2, 3, 4)))
    assert replace_the_outdated(control_plane, build.noon).step == DeleteReplica("cp-1")


def test_row_36_the_candidate_itself_may_be_sick_and_its_preflight_leaves_it_out(build: Build) -> None:
    control_plane = build.control_plane(*old(build, 1, 2), build.ill(3, outdated=OLD), build.replica(4))
    assert replace_the_outdated(control_plane, build.noon).step == DeleteReplica("cp-3")


@pytest.mark.parametrize("replicas", [3, 4])
def test_row_37_with_one_up_to_date_that_is_not_well_nothing_moves(build: Build, replicas: int) -> None:
    joining = build.joining(5)
    control_plane = build.control_plane(*old(build, *range(1, replicas)), joining)
    assert checks.COMPONENTS_HEALTHY in refused(replace_the_outdated(control_plane, build.noon))


def test_row_37_the_kind_of_step_that_waits_is_the_one_that_is_explained(build: Build) -> None:
    up = build.control_plane(*old(build, 1, 2, 3), topology_pending="v1.35.0")
    down = build.control_plane(*old(build, 1, 2, 3), build.replica(4), topology_pending="v1.35.0")
    assert quorum.QUORUM_SURVIVES_ADDITION in [check.name for check in replace_the_outdated(up, build.noon).checks]
    assert quorum.QUORUM_SURVIVES_REMOVAL in [check.name for check in replace_the_outdated(down, build.noon).checks]
    assert refused(replace_the_outdated(up, build.noon)) == refused(replace_the_outdated(down, build.noon)) == [checks.TOPOLOGY]


@pytest.mark.parametrize(
    ("surge", "count", "step"),
    [(1, 3, JOIN), (1, 4, DeleteReplica("cp-1")), (0, 3, DeleteReplica("cp-1")), (0, 2, JOIN)],
)
def test_rolling_update_table(build: Build, surge: int, count: int, step: object) -> None:
    control_plane = build.control_plane(*old(build, *range(1, count + 1)), desired=build.desired(3, max_surge=surge))
    assert replace_the_outdated(control_plane, build.noon).step == step


def test_with_surge_one_replica_is_joined_then_waited_for_then_replaced(build: Build) -> None:
    alone = build.control_plane(*old(build, 1), desired=1)
    coming = build.control_plane(*old(build, 1), build.joining(2), desired=1)
    both = build.control_plane(*old(build, 1), build.replica(2), desired=1)
    assert replace_the_outdated(alone, build.noon).step == JOIN
    assert checks.COMPONENTS_HEALTHY in refused(replace_the_outdated(coming, build.noon))
    assert replace_the_outdated(both, build.noon).step == DeleteReplica("cp-1")


def test_without_surge_three_become_two_first(build: Build) -> None:
    three = build.control_plane(*old(build, 1, 2, 3), desired=build.desired(3, max_surge=0))
    assert replace_the_outdated(three, build.noon).step == DeleteReplica("cp-1")


def test_without_surge_the_only_replica_is_held_and_the_way_out_is_named(build: Build) -> None:
    proposal = replace_the_outdated(build.control_plane(*old(build, 1), desired=build.desired(1, max_surge=0)), build.noon)
    assert refused(proposal) == [ANOTHER_STAYS]
    assert "maxSurge 1" in proposal.checks[-1].remedy


def test_without_surge_nothing_more_goes_or_joins_before_the_spare_is_gone(build: Build) -> None:
    for spare, expected in ((build.leaving(1), {checks.ROOM, checks.NOBODY_LEAVES}), (build.vanishing(1, member=Absent()), {checks.ROOM})):
        control_plane = build.control_plane(spare, *old(build, 2, 3), desired=build.desired(3, max_surge=0))
        assert set(refused(replace_the_outdated(control_plane, build.noon))) == expected


def test_with_surge_the_next_one_joins_as_soon_as_the_hook_is_dropped(build: Build) -> None:
    control_plane = build.control_plane(build.vanishing(1, member=Absent(), outdated=OLD), *old(build, 2, 3), build.replica(4))
    assert replace_the_outdated(control_plane, build.noon).step == JOIN


def test_nothing_moves_while_one_is_leaving(build: Build) -> None:
    control_plane = build.control_plane(build.leaving(1, waits_at_hook=False, outdated=OLD), *old(build, 2, 3), build.replica(4))
    assert decide(control_plane, build.noon).step is None


def test_a_leaving_member_is_removed_before_the_rollout_goes_on(build: Build) -> None:
    control_plane = build.control_plane(build.leaving(1), *old(build, 2, 3))
    assert decide(control_plane, build.noon).step == RemoveMember("cp-1", 1)


# Scaling in the middle of a rollout


def test_growing_and_rolling_together_fills_up_with_new_machines_first(build: Build) -> None:
    for count in (3, 4, 5):
        control_plane = build.control_plane(*old(build, 1, 2, 3), *map(build.replica, range(4, count + 1)), desired=5)
        assert decide(control_plane, build.noon).step == JOIN
    full = build.control_plane(*old(build, 1, 2, 3), *map(build.replica, (4, 5, 6)), desired=5)
    assert decide(full, build.noon).step == DeleteReplica("cp-1")


def test_shrinking_and_rolling_together_takes_outdated_ones_away_first(build: Build) -> None:
    control_plane = build.control_plane(*old(build, 1, 2, 3, 4, 5), desired=3)
    assert decide(control_plane, build.noon).step == DeleteReplica("cp-1")
    assert decide(build.control_plane(build.replica(1), *old(build, 2), build.replica(3), desired=1), build.noon).step == DeleteReplica(
        "cp-2"
    )


def test_scaling_has_nothing_to_say_while_something_is_outdated(build: Build) -> None:
    for desired in (1, 5):
        decision = decide(build.control_plane(*old(build, 1, 2, 3), desired=desired), build.noon)
        assert decision.rule == "replace outdated Machines"


def test_a_creation_for_the_surge_is_kept_and_one_too_many_is_taken_back(build: Build) -> None:
    creation = Creation("cp-9", machine_exists=False)
    rolling = build.control_plane(*old(build, 1, 2, 3), creation=creation)
    full = build.control_plane(*old(build, 1, 2, 3), build.replica(4), creation=creation)
    assert take_back_an_abandoned_creation(rolling, build.noon) == NOTHING
    assert str(take_back_an_abandoned_creation(full, build.noon).step) == "take back the creation of cp-9"


# What is refused


def test_the_ring_must_do_without_the_one_that_goes(build: Build) -> None:
    control_plane = build.control_plane(*old(build, 1, 2), build.replica(3), desired=build.desired(3, max_surge=0), ring="gbg")
    assert refused(replace_the_outdated(control_plane, build.noon)) == [quorum.QUORUM_SURVIVES_REMOVAL]


@pytest.mark.parametrize("surge", [0, 1])
def test_a_learner_that_is_nobodys_keeps_every_machine_from_joining_and_none_from_going(build: Build, surge: int) -> None:
    ring = Ring((*(Member(number, f"cp-{number}", Health.GOOD) for number in (1, 2, 3)), Member(9, "", Health.BAD, learner=True)), 1)
    control_plane = build.control_plane(*old(build, 1, 2, 3), desired=build.desired(3, max_surge=surge), ring=ring)
    proposal = replace_the_outdated(control_plane, build.noon)
    if surge:
        assert refused(proposal) == [quorum.QUORUM_SURVIVES_ADDITION]
    else:
        assert proposal.step == DeleteReplica("cp-1")


@pytest.mark.parametrize("surge", [0, 1])
@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"template_problem": "not found"}, checks.TEMPLATE),
        ({"certificates": Certificates(missing=("ca",))}, checks.CERTIFICATES),
    ],
)
def test_nothing_is_taken_away_for_a_replacement_that_cannot_be_made(build: Build, surge: int, changes: dict[str, Any], name: str) -> None:
    control_plane = replace(build.control_plane(*old(build, 1, 2, 3), desired=build.desired(3, max_surge=surge)), **changes)
    decision = decide(control_plane, build.noon)
    assert decision.step is None
    assert name in [check.name for check in decision.refusals]


@pytest.mark.parametrize("surge", [0, 1])
@pytest.mark.parametrize(("target", "name"), [("v1.36.0", checks.VERSION_NEAR), ("v1.33.9", checks.VERSION_NOT_BELOW)])
def test_a_version_out_of_reach_is_refused_before_anything_goes(build: Build, surge: int, target: str, name: str) -> None:
    desired = build.desired(3, max_surge=surge, version=Version.parse(target))
    proposal = replace_the_outdated(build.control_plane(*old(build, 1, 2, 3), desired=desired), build.noon)
    assert refused(proposal) == [name]


def test_going_back_in_the_middle_of_a_rollout_is_no_downgrade(build: Build) -> None:
    back = build.desired(3, version=Version.parse("v1.33.9"))
    three = [build.replica(number, version="v1.33.9") for number in (1, 2, 3)]
    full = build.control_plane(*three, build.replica(4, outdated=OLD), desired=back)
    half = build.control_plane(*three[:2], build.replica(4, outdated=OLD), desired=back)
    assert replace_the_outdated(full, build.noon).step == DeleteReplica("cp-4")
    assert replace_the_outdated(half, build.noon).step == JOIN


def test_the_preflight_is_relaxed_for_the_replacement_of_a_remediated_machine_in_a_rollout_too(build: Build) -> None:
    control_plane = build.control_plane(*old(build, 1), build.ill(2, outdated=OLD), remediating=Remediation("cp-3", None))
    assert replace_the_outdated(control_plane, build.noon).step == JOIN


# B7 and B19: a bad change in the middle, and another one over it


def joined_badly(build: Build, number: int) -> Replica:
    """A replica with a Node and a voter, whose API server does not come up."""
    return build.ill(number, outdated=OLD)


def without_node(build: Build, number: int) -> Replica:
    """A replica that kubeadm never joined."""
    return build.joining(number, outdated=OLD)


def as_learner(build: Build, number: int) -> Replica:
    """A replica whose member was never promoted."""
    return build.joining(number, outdated=OLD, member=number)


@pytest.mark.parametrize("broken", [joined_badly, without_node])
@pytest.mark.parametrize("good", [1, 3, 5])
def test_b7_a_broken_new_one_goes_first_once_the_specification_is_corrected(build: Build, broken: object, good: int) -> None:
    assert callable(broken)
    numbers = range(1, good + 1)
    bad = broken(build, good + 1)
    still_bad = build.control_plane(*old(build, *numbers), replace(bad, outdated=()), desired=good)
    corrected = build.control_plane(*old(build, *numbers), bad, desired=good)
    assert checks.COMPONENTS_HEALTHY in refused(replace_the_outdated(still_bad, build.noon))
    assert decide(corrected, build.noon).step == DeleteReplica(bad.name)


@pytest.mark.parametrize("good", [1, 3])
@pytest.mark.parametrize("learner", [True, False])
def test_b7_its_learner_may_go_and_nothing_else_may(build: Build, good: int, learner: bool) -> None:
    numbers = range(1, good + 1)
    members = [Member(number, f"cp-{number}", Health.GOOD) for number in numbers]
    ring = Ring((*members, Member(good + 1, "", Health.BAD, learner=learner)), leader=1)
    control_plane = build.control_plane(*old(build, *numbers), as_learner(build, good + 1), desired=good, ring=ring)
    step = replace_the_outdated(control_plane, build.noon).step
    keeps_quorum = learner or good == 3  # one voter of two cannot commit the removal of the one that never started
    assert step == (DeleteReplica(f"cp-{good + 1}") if keeps_quorum else None)


def test_b7_going_back_to_the_specification_of_the_old_ones_takes_the_broken_one_away_and_stops(build: Build) -> None:
    undone = build.control_plane(*map(build.replica, (1, 2, 3)), without_node(build, 4))
    assert decide(undone, build.noon).step == DeleteReplica("cp-4")
    assert decide(build.three(), build.noon).step is None


def test_b7_with_room_left_a_failed_new_one_is_replaced_before_more_join(build: Build) -> None:
    for broken in (joined_badly(build, 4), without_node(build, 4)):
        control_plane = build.control_plane(*map(build.replica, (1, 2, 3)), broken, desired=5)
        assert decide(control_plane, build.noon).step == DeleteReplica("cp-4")


def test_b7_without_surge_the_broken_one_goes_before_the_good_ones(build: Build) -> None:
    control_plane = build.control_plane(*old(build, 1, 2), without_node(build, 3), desired=build.desired(3, max_surge=0))
    assert decide(control_plane, build.noon).step == DeleteReplica("cp-3")


def test_an_old_one_that_is_ill_keeps_its_place_until_the_surge_is_there(build: Build) -> None:
    control_plane = build.control_plane(joined_badly(build, 1), *old(build, 2, 3))
    assert refused(replace_the_outdated(control_plane, build.noon)) == [checks.COMPONENTS_HEALTHY]


def test_one_that_votes_and_has_lost_its_node_keeps_its_place_too(build: Build) -> None:
    control_plane = build.control_plane(*old(build, 1, 2), build.replica(3, outdated=OLD, node=None))
    assert checks.COMPONENTS_HEALTHY in refused(replace_the_outdated(control_plane, build.noon))


def test_with_room_left_nothing_goes_while_another_place_is_empty_already(build: Build) -> None:
    remediating = build.control_plane(*old(build, 1), without_node(build, 2), ring="gb", remediating=Remediation("cp-3", None))
    vanishing = build.control_plane(
        *old(build, 1), without_node(build, 2), build.vanishing(3, member=Absent()), desired=build.desired(3, max_surge=0)
    )
    assert replace_the_outdated(remediating, build.noon).step is None
    assert checks.ROOM in refused(replace_the_outdated(vanishing, build.noon))


def test_the_last_one_of_an_initialized_cluster_is_never_the_failed_one_that_goes(build: Build) -> None:
    for desired in (1, 3):
        control_plane = build.control_plane(joined_badly(build, 1), desired=desired)
        assert checks.COMPONENTS_HEALTHY in refused(replace_the_outdated(control_plane, build.noon))


def test_a_failed_one_goes_where_the_chosen_one_cannot_because_of_it(build: Build) -> None:
    marked = build.replica(1, outdated=OLD, delete_first=True)
    control_plane = build.control_plane(marked, *old(build, 2, 3), without_node(build, 4))
    assert replace_the_outdated(control_plane, build.noon).step == DeleteReplica("cp-4")


def test_where_nobody_may_go_the_reasons_are_those_of_the_one_that_was_chosen(build: Build) -> None:
    control_plane = build.control_plane(*old(build, 1, 2), joined_badly(build, 3), build.ill(4))
    proposal = replace_the_outdated(control_plane, build.noon)
    assert "cp-4" in next(check.evidence for check in proposal.checks if check.name == checks.COMPONENTS_HEALTHY)
    assert "cp-3" not in next(check.evidence for check in proposal.checks if check.name == checks.COMPONENTS_HEALTHY)


def test_b19_a_rollout_over_a_rollout_goes_on_with_the_newest_specification(build: Build) -> None:
    half = build.control_plane(*old(build, 1, 2, 3), build.replica(4, outdated=("KubeadmConfig",)))
    later = build.control_plane(*old(build, 2, 3), build.replica(4, outdated=("KubeadmConfig",)))
    assert decide(half, build.noon).step == DeleteReplica("cp-1")
    assert decide(later, build.noon).step == JOIN


def test_b19_a_machine_of_the_earlier_rollout_that_is_still_coming_up_makes_way(build: Build) -> None:
    control_plane = build.control_plane(*old(build, 1, 2, 3), without_node(build, 4))
    assert decide(control_plane, build.noon).step == DeleteReplica("cp-4")


def test_b19_a_member_that_cannot_be_told_yet_is_waited_for(build: Build) -> None:
    coming = build.joining(4, outdated=OLD, member=Unknown("may be its own"))
    ring = Ring((*(Member(number, f"cp-{number}", Health.GOOD) for number in (1, 2, 3)), Member(4, "", Health.BAD, learner=True)), 1)
    proposal = replace_the_outdated(build.control_plane(*old(build, 1, 2, 3), coming, ring=ring), build.noon)
    assert refused(proposal) == [quorum.QUORUM_SURVIVES_REMOVAL]


# G13: the first machine, before initialization


def first(build: Build, *replicas: Replica, **changes: Any) -> ControlPlane:
    """A control plane of which it is proven that kubeadm has not founded it; its ring was never read."""
    plane = build.control_plane(*replicas, ring=Unknown("not initialized"), initialized=False)
    return replace(plane, workload=Finding(Health.UNKNOWN, "Connection"), **changes)


@pytest.mark.parametrize("node", [None, "cp-1"])
def test_g13_the_first_machine_makes_way_for_a_new_specification_whether_broken_or_coming_up(build: Build, node: str | None) -> None:
    proposal = replace_the_outdated(first(build, build.joining(1, outdated=OLD, node=node)), build.noon)
    assert proposal.step == DeleteReplica("cp-1")
    assert BEFORE_INITIALIZATION in [check.name for check in proposal.checks if check.passed]


def test_g13_it_is_released_and_the_next_one_founds_the_cluster(build: Build) -> None:
    leaving = first(build, build.leaving(1, outdated=OLD, member=Unknown("not initialized")))
    gone = first(build)
    assert decide(leaving, build.noon).step == ReleaseHook("cp-1")
    assert decide(gone, build.noon).step == CreateReplica("", initialize=True)


def test_g13_one_that_is_up_to_date_is_waited_for(build: Build) -> None:
    decision = decide(first(build, build.joining(1)), build.noon)
    assert decision.step is None
    assert checks.INITIALIZED in [check.name for check in decision.refusals]


def test_g13_one_that_may_be_of_a_restored_control_plane_is_left_to_its_user(build: Build) -> None:
    """After a restore or a move nothing says that the cluster is initialized until it was reached: its data must not go for that."""
    decision = decide(first(build, build.joining(1, outdated=OLD), initialized=Unknown("its status is lost", "Reach it.")), build.noon)
    assert decision.step is None
    assert "Reach it." in [check.remedy for check in decision.refusals if check.name == checks.INITIALIZED]


@pytest.mark.parametrize("gone", [True, False])
def test_g13_one_of_several_is_not_touched(build: Build, gone: bool) -> None:
    other = build.vanishing(2, member=Absent()) if gone else build.joining(2)
    proposal = replace_the_outdated(first(build, build.joining(1, outdated=OLD), other), build.noon)
    assert refused(proposal) == [BEFORE_INITIALIZATION]


@pytest.mark.parametrize(
    ("changes", "name"), [({"template_problem": "not found"}, checks.TEMPLATE), ({"topology_pending": "v1.35.0"}, checks.TOPOLOGY)]
)
def test_g13_it_does_not_go_while_its_successor_cannot_be_made(build: Build, changes: dict[str, Any], name: str) -> None:
    assert refused(replace_the_outdated(first(build, build.joining(1, outdated=OLD), **changes), build.noon)) == [name]
