"""Scaling (rows 39 to 41), and creations that nobody wants any more."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from quorate.core import quorum
from quorate.core.health import Absent, Health, Unknown
from quorate.core.machines import checks
from quorate.core.machines.rules.scale import scale_down, scale_up, take_back_an_abandoned_creation
from quorate.core.machines.state import ControlPlane, Creation
from quorate.core.machines.steps import AbandonCreation, CreateReplica, DeleteReplica, Step
from quorate.core.proposal import NOTHING, Proposal

if TYPE_CHECKING:
    from tests.core.conftest import Build

JOIN = CreateReplica("", initialize=False)


def refused(proposal: Proposal[Step]) -> list[str]:
    """The names of the checks that did not pass, of a proposal without a step."""
    assert proposal.step is None
    return [check.name for check in proposal.checks if not check.passed]


def two(build: Build, **changes: Any) -> ControlPlane:
    """Two good replicas of three desired."""
    return replace(build.control_plane(build.replica(1), build.replica(2)), **changes)


# Scale up


def test_row_39_one_fewer_than_desired_is_joined_by_one(build: Build) -> None:
    assert scale_up(two(build), build.noon).step == JOIN


def test_enough_is_enough(build: Build) -> None:
    assert scale_up(build.three(), build.noon) == NOTHING
    assert scale_up(build.three(desired=build.desired(1)), build.noon) == NOTHING


def test_the_first_replica_is_not_scale_ups_to_make(build: Build) -> None:
    assert scale_up(build.control_plane(), build.noon) == NOTHING


def test_nobody_joins_before_initialization(build: Build) -> None:
    assert refused(scale_up(build.control_plane(build.replica(1), initialized=False), build.noon)) == ["the cluster is initialized"]


def test_row_41_the_previous_one_must_have_its_node_and_be_well(build: Build) -> None:
    joining = build.control_plane(build.replica(1), build.joining(2))
    assert refused(scale_up(joining, build.noon)) == [checks.COMPONENTS_HEALTHY, checks.MEMBERS_HEALTHY]
    assert refused(scale_up(build.control_plane(build.replica(1), build.ill(2)), build.noon)) == [checks.COMPONENTS_HEALTHY]


@pytest.mark.parametrize(
    ("ring", "why"),
    [("gG", "become a voter"), ("g-", "become a voter"), ("gb", "cannot commit"), ("ggb", "one more member"), ("", "listed no members")],
)
def test_row_41_the_ring_must_bear_one_that_fails_to_come_up(build: Build, ring: str, why: str) -> None:
    proposal = scale_up(two(build, ring=build.ring(ring)), build.noon)
    assert refused(proposal) == [quorum.QUORUM_SURVIVES_ADDITION]
    assert why in proposal.checks[-1].evidence


def test_a_missing_template_is_said(build: Build) -> None:
    assert refused(scale_up(two(build, template_problem="not found"), build.noon)) == [checks.TEMPLATE]


def test_external_etcd_is_not_asked_on_the_way_up_or_down(build: Build) -> None:
    external = build.desired(3, etcd_managed=False)
    up = two(build, desired=external, ring=Unknown("external"))
    down = build.three(desired=replace(external, replicas=1), ring=Unknown("external"))
    assert scale_up(up, build.noon).step == JOIN
    assert scale_down(down, build.noon).step == DeleteReplica("cp-1")


def test_a_replacement_need_not_wait_for_the_old_infrastructure(build: Build) -> None:
    control_plane = build.control_plane(build.replica(1), build.replica(2), build.vanishing(3, member=Absent()))
    assert scale_up(control_plane, build.noon).step == JOIN


def test_without_surge_it_waits_for_the_spare_and_says_so(build: Build) -> None:
    replicas = (build.replica(1), build.replica(2), build.vanishing(3, member=Absent()))
    proposal = scale_up(build.control_plane(*replicas, desired=build.desired(3, max_surge=0)), build.noon)
    assert refused(proposal) == [checks.ROOM]
    assert "cp-3 is being deleted" in proposal.checks[0].evidence


def test_one_that_leaves_keeps_its_place_until_our_hook_lets_it_go(build: Build) -> None:
    control_plane = build.control_plane(build.replica(1), build.replica(2), build.leaving(3))
    assert refused(scale_up(control_plane, build.noon)) == [checks.ROOM, checks.NOBODY_LEAVES]


def test_a_member_that_is_about_to_fail_counts_as_failed_before_anyone_joins(build: Build) -> None:
    control_plane = build.control_plane(build.replica(1), build.replica(2), build.vanishing(3))
    assert refused(scale_up(control_plane, build.noon)) == [quorum.QUORUM_SURVIVES_ADDITION]


# Scale down


def test_row_40_one_more_than_desired_loses_the_oldest(build: Build) -> None:
    assert scale_down(build.three(desired=build.desired(1)), build.noon).step == DeleteReplica("cp-1")


@pytest.mark.parametrize("desired", [3, 5])
def test_nothing_goes_below_what_is_desired(build: Build, desired: int) -> None:
    assert scale_down(build.three(desired=build.desired(desired)), build.noon) == NOTHING


def test_the_last_one_that_stays_is_never_scaled_away(build: Build) -> None:
    assert scale_down(build.control_plane(build.replica(1), build.vanishing(2), desired=0), build.noon) == NOTHING


def test_the_one_that_goes_need_not_be_well(build: Build) -> None:
    control_plane = build.control_plane(build.replica(1), build.ill(2), build.replica(3), desired=1)
    assert scale_down(control_plane, build.noon).step == DeleteReplica("cp-2")


def test_row_41_all_the_others_must_be_well(build: Build) -> None:
    control_plane = build.control_plane(build.ill(1), build.ill(2), build.replica(3), desired=1)
    assert refused(scale_down(control_plane, build.noon)) == [checks.COMPONENTS_HEALTHY]


def test_one_that_nobody_has_seen_goes_where_it_keeps_the_oldest_from_going(build: Build) -> None:
    control_plane = build.control_plane(build.replica(1), build.replica(2), build.ill(3, Health.UNKNOWN), desired=1)
    assert scale_down(control_plane, build.noon).step == DeleteReplica("cp-3")


def test_nobody_is_scaled_away_before_initialization(build: Build) -> None:
    for etcd_managed in (True, False):
        desired = build.desired(1, etcd_managed=etcd_managed)
        control_plane = build.three(desired=desired, initialized=False)
        assert refused(scale_down(control_plane, build.noon)) == [checks.INITIALIZED]


def test_row_41_a_victim_that_the_ring_needs_does_not_go(build: Build) -> None:
    control_plane = build.three(desired=build.desired(1), ring=build.ring("ggb"))
    assert refused(scale_down(control_plane, build.noon)) == [quorum.QUORUM_SURVIVES_REMOVAL]


def test_a_victim_that_would_not_wait_at_our_hook_does_not_go(build: Build) -> None:
    control_plane = build.control_plane(build.replica(1, holds_hook=False), build.replica(2), build.replica(3), desired=1)
    assert refused(scale_down(control_plane, build.noon)) == [checks.HOOK_HELD]


# Creations


def test_a_creation_that_nobody_wants_any_more_is_taken_back(build: Build) -> None:
    proposal = take_back_an_abandoned_creation(build.three(creation=Creation("cp-4", machine_exists=False)), build.noon)
    assert proposal.step == AbandonCreation("cp-4")


def test_one_that_is_still_wanted_or_whose_machine_exists_is_kept(build: Build) -> None:
    wanted = two(build, creation=Creation("cp-3", machine_exists=False))
    made = build.three(creation=Creation("cp-3", machine_exists=True))
    assert [take_back_an_abandoned_creation(c, build.noon) for c in (wanted, made, build.three())] == [NOTHING] * 3
