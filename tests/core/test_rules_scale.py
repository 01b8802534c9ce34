"""Scaling (rows 39 to 41), its preflight, the choice of victim and of failure domain."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from quorate.core import checks
from quorate.core.control_plane import ControlPlane, Creation, Replica
from quorate.core.decide import decide
from quorate.core.health import Absent, Finding, Health, Unknown
from quorate.core.opinion import NOTHING, Opinion
from quorate.core.rules.scale import choose_victim, next_failure_domain, preflight, scale_down, scale_up, take_back_an_abandoned_creation
from quorate.core.steps import AbandonCreation, CreateReplica, DeleteReplica

if TYPE_CHECKING:
    from tests.core.conftest import Build

JOIN = CreateReplica("", initialize=False)


def refused(opinion: Opinion) -> list[str]:
    """The names of the checks that did not pass, of an opinion without a step."""
    assert opinion.step is None
    return [check.name for check in opinion.checks if not check.passed]


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
    [("gG", "become a voter"), ("g-", "become a voter"), ("gb", "cannot commit"), ("ggb", "one more member"), ("", "no members at all")],
)
def test_row_41_the_ring_must_bear_one_that_fails_to_come_up(build: Build, ring: str, why: str) -> None:
    opinion = scale_up(two(build, ring=build.ring(ring)), build.noon)
    assert refused(opinion) == [checks.QUORUM_SURVIVES_ADDITION]
    assert why in opinion.checks[-1].evidence


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
    opinion = scale_up(build.control_plane(*replicas, desired=build.desired(3, max_surge=0)), build.noon)
    assert refused(opinion) == [checks.ROOM]
    assert "cp-3 is being deleted" in opinion.checks[0].evidence


def test_one_that_leaves_keeps_its_place_until_our_hook_lets_it_go(build: Build) -> None:
    control_plane = build.control_plane(build.replica(1), build.replica(2), build.leaving(3))
    assert refused(scale_up(control_plane, build.noon)) == [checks.ROOM, checks.NOBODY_LEAVES]


def test_a_member_that_is_about_to_fail_counts_as_failed_before_anyone_joins(build: Build) -> None:
    control_plane = build.control_plane(build.replica(1), build.replica(2), build.vanishing(3))
    assert refused(scale_up(control_plane, build.noon)) == [checks.QUORUM_SURVIVES_ADDITION]


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


def test_row_41_a_victim_that_the_ring_needs_does_not_go(build: Build) -> None:
    control_plane = build.three(desired=build.desired(1), ring=build.ring("ggb"))
    assert refused(scale_down(control_plane, build.noon)) == [checks.QUORUM_SURVIVES_REMOVAL]


def test_a_victim_that_would_not_wait_at_our_hook_does_not_go(build: Build) -> None:
    control_plane = build.control_plane(build.replica(1, holds_hook=False), build.replica(2), build.replica(3), desired=1)
    assert refused(scale_down(control_plane, build.noon)) == [checks.HOOK_HELD]


# Preflight


def test_preflight_passes_when_all_is_well(build: Build) -> None:
    assert all(check.passed for check in preflight(build.three(), build.three().staying))


def test_preflight_passes_without_any_machine(build: Build) -> None:
    assert all(check.passed for check in preflight(build.control_plane(), ()))


def test_a_version_that_a_topology_is_about_to_set_is_waited_for(build: Build) -> None:
    for desired in (1, 5):
        control_plane = build.three(desired=build.desired(desired), topology_pending="v1.35.0")
        rule = scale_up if desired == 5 else scale_down
        opinion = rule(control_plane, build.noon)
        assert refused(opinion) == [checks.TOPOLOGY]
        assert "waiting for version v1.35.0 to be propagated" in [check.evidence for check in opinion.checks]


def test_a_deleting_machine_is_waited_for(build: Build) -> None:
    control_plane = build.control_plane(build.replica(1), build.replica(2), build.leaving(3), desired=1)
    assert refused(scale_down(control_plane, build.noon)) == [checks.NOBODY_LEAVES]


def test_certificates_that_are_missing_stop_growth_and_not_shrinking(build: Build) -> None:
    lost = replace(build.three().certificates, missing=("ca",))
    up, down = two(build, certificates=lost), build.three(certificates=lost, desired=build.desired(1))
    assert decide(up, build.noon).step is None
    assert decide(down, build.noon).step == DeleteReplica("cp-1")


@pytest.mark.parametrize("health", [Health.BAD, Health.UNKNOWN])
@pytest.mark.parametrize(("part", "name"), [("component_findings", checks.COMPONENTS_HEALTHY), ("member_findings", checks.MEMBERS_HEALTHY)])
@pytest.mark.parametrize("missing", [False, True])
def test_each_condition_must_exist_and_be_true(build: Build, health: Health, part: str, name: str, missing: bool) -> None:
    findings = () if missing else (("Condition", Finding(health, "Seen")),)
    replica = build.replica(1, **{part: findings})
    assert [check.name for check in preflight(build.control_plane(replica), (replica,)) if not check.passed] == [name]


# Who goes, and where the next one comes

OUTDATED = ("Version",)
VICTIMS: dict[str, tuple[list[dict[str, Any]], str]] = {
    "the oldest in the largest domain": ([{"failure_domain": "a"}, {"failure_domain": "b"}, {"failure_domain": "b"}], "cp-2"),
    "a marked one, though another is ill": ([{}, {"delete_first": True}, {"ill": True}], "cp-2"),
    "the oldest of several marked": ([{}, {"delete_first": True}, {"delete_first": True}], "cp-2"),
    "a marked outdated one before a marked one": ([{"delete_first": True}, {"delete_first": True, "outdated": OUTDATED}], "cp-2"),
    "a marked one before an unmarked outdated one": ([{"outdated": OUTDATED}, {"delete_first": True}], "cp-2"),
    "an ill one before a good one": ([{}, {}, {"ill": True}], "cp-3"),
    "the oldest of several ill ones": ([{}, {"ill": True}, {"ill": True}], "cp-2"),
    "one whose health nobody knows is not ill": ([{}, {"unknown": True}], "cp-1"),
    "one in a domain that the cluster does not know": (
        [{"failure_domain": "a"}, {"failure_domain": "a"}, {"failure_domain": "old"}],
        "cp-3",
    ),
    "one without a domain where there are some": ([{"failure_domain": "a"}, {"failure_domain": "a"}, {}], "cp-3"),
    "of as many eligible ones, in the domain with more machines": (
        [{"failure_domain": "a", "ill": True}, {"failure_domain": "b", "ill": True}, {"failure_domain": "b"}],
        "cp-2",
    ),
    "of equal domains, the first by name": ([{"failure_domain": "b"}, {"failure_domain": "a"}], "cp-2"),
}


def described(build: Build, number: int, words: dict[str, Any]) -> Replica:
    """A replica from a row of the table above."""
    plain = {key: value for key, value in words.items() if key not in ("ill", "unknown")}
    health = Health.BAD if "ill" in words else Health.UNKNOWN if "unknown" in words else Health.GOOD
    return build.ill(number, health, **plain)


@pytest.mark.parametrize(("rows", "name"), VICTIMS.values(), ids=VICTIMS.keys())
def test_the_victim_is(build: Build, rows: list[dict[str, Any]], name: str) -> None:
    replicas = [described(build, number, words) for number, words in enumerate(rows, start=1)]
    control_plane = build.control_plane(*replicas, desired=build.desired(1, failure_domains=("a", "b")))
    assert choose_victim(control_plane).name == name
    assert choose_victim(replace(control_plane, replicas=control_plane.replicas[::-1])).name == name


def test_one_that_never_came_up_goes_before_those_that_are_well(build: Build) -> None:
    assert choose_victim(build.control_plane(build.replica(1), build.replica(2), build.joining(3))).name == build.joining(3).name


def test_an_ill_member_makes_a_victim_too(build: Build) -> None:
    ill = build.replica(2, member_findings=(("EtcdMemberHealthy", Finding(Health.BAD, "Seen")),))
    assert choose_victim(build.control_plane(build.replica(1), ill)) is ill


def test_of_one_age_the_first_by_name_goes(build: Build) -> None:
    twins = [replace(build.replica(number), created=build.noon - timedelta(hours=1)) for number in (2, 1)]
    assert choose_victim(build.control_plane(*twins)).name == "cp-1"


def test_one_that_is_leaving_is_not_chosen_again(build: Build) -> None:
    assert choose_victim(build.control_plane(build.leaving(1, delete_first=True), build.replica(2))).name == "cp-2"


DOMAINS: dict[str, tuple[list[dict[str, Any]], str]] = {
    "the first by name of empty ones": ([], "a"),
    "the emptiest": ([{"failure_domain": "a"}, {"failure_domain": "b"}], "c"),
    "that with fewest up to date": (
        [
            {"failure_domain": "a"},
            {"failure_domain": "b", "outdated": OUTDATED},
            {"failure_domain": "b", "outdated": OUTDATED},
            {"failure_domain": "c"},
        ],
        "b",
    ),
    "of as many up to date, that with fewest": ([{"failure_domain": "a", "outdated": OUTDATED}, {"failure_domain": "b"}], "c"),
    "not counting one that is leaving": ([{"failure_domain": "b"}, {"failure_domain": "c"}, {"failure_domain": "a", "leaving": True}], "a"),
    "not counting unknown and missing domains": ([{"failure_domain": "old"}, {}, {"failure_domain": "a"}], "b"),
}


@pytest.mark.parametrize(("rows", "domain"), DOMAINS.values(), ids=DOMAINS.keys())
def test_the_next_failure_domain_is(build: Build, rows: list[dict[str, Any]], domain: str) -> None:
    replicas = [
        (build.leaving if "leaving" in words else build.replica)(number, **{key: value for key, value in words.items() if key != "leaving"})
        for number, words in enumerate(rows, start=1)
    ]
    assert next_failure_domain(build.control_plane(*replicas, desired=build.desired(3, failure_domains=("c", "b", "a")))) == domain


def test_without_failure_domains_there_is_none_to_choose(build: Build) -> None:
    assert next_failure_domain(build.control_plane(build.replica(1, failure_domain="a"))) == ""


# Creations


def test_a_creation_that_nobody_wants_any_more_is_taken_back(build: Build) -> None:
    opinion = take_back_an_abandoned_creation(build.three(creation=Creation("cp-4", machine_exists=False)), build.noon)
    assert opinion.step == AbandonCreation("cp-4")


def test_one_that_is_still_wanted_or_whose_machine_exists_is_kept(build: Build) -> None:
    wanted = two(build, creation=Creation("cp-3", machine_exists=False))
    made = build.three(creation=Creation("cp-3", machine_exists=True))
    assert [take_back_an_abandoned_creation(c, build.noon) for c in (wanted, made, build.three())] == [NOTHING] * 3
