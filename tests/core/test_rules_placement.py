"""Who goes, and where the next one comes, upstream's cases first: deterministic, and the same for the same replicas in any order."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.core.health import Absent, Finding, Health, Unknown
from quorate.core.machines.rules.placement import candidates, choose_victim, next_failure_domain
from quorate.core.machines.state import ControlPlane, Desired, Replica
from quorate.core.versions import Version

if TYPE_CHECKING:
    from tests.core.conftest import Build

OUTDATED = ("Version",)
OLD = {"outdated": OUTDATED}
VICTIMS: dict[str, tuple[list[dict[str, Any]], str]] = {
    "the oldest in the largest domain": ([{"failure_domain": "a"}, {"failure_domain": "b"}, {"failure_domain": "b"}], "cp-2"),
    "of outdated ones, the oldest in the domain with most outdated": (
        [{"failure_domain": "a"}, {"failure_domain": "a"}, {"failure_domain": "a", **OLD}, *[{"failure_domain": "b", **OLD}] * 2],
        "cp-4",
    ),
    "an outdated one before an older one up to date": ([{}, OLD], "cp-2"),
    "an outdated one before an ill one up to date": ([{"ill": True}, OLD], "cp-2"),
    "a marked one, though another is ill": ([{}, {"delete_first": True}, {"ill": True}], "cp-2"),
    "the marked one of the outdated": ([OLD, {"delete_first": True, **OLD}, OLD], "cp-2"),
    "the oldest of several marked outdated ones": ([OLD, {"delete_first": True, **OLD}, {"delete_first": True, **OLD}], "cp-2"),
    "the oldest of several marked, where none is outdated": ([{}, {"delete_first": True}, {"delete_first": True}], "cp-2"),
    "a marked outdated one before a marked one": ([{"delete_first": True}, {"delete_first": True, **OLD}], "cp-2"),
    "a marked one up to date before an unmarked outdated one": ([OLD, {"delete_first": True}], "cp-2"),
    "a marked outdated one before an ill outdated one": ([{"ill": True, **OLD}, {"delete_first": True, **OLD}], "cp-2"),
    "an outdated one whose API server is bad": ([OLD, {"ill": True, **OLD}], "cp-2"),
    "the oldest of several ill outdated ones": ([OLD, {"ill": True, **OLD}, {"ill": True, **OLD}], "cp-2"),
    "an outdated one that never came up before a good outdated one": ([OLD, {"node": None, **OLD}], "cp-2"),
    "an ill one before a good one": ([{}, {}, {"ill": True}], "cp-3"),
    "the oldest of several ill ones": ([{}, {"ill": True}, {"ill": True}], "cp-2"),
    "one whose health nobody knows is not ill": ([{}, {"unknown": True}], "cp-1"),
    "one in a domain that the cluster does not know": (
        [{"failure_domain": "a"}, {"failure_domain": "a"}, {"failure_domain": "old"}],
        "cp-3",
    ),
    "of several in unknown domains the oldest, however many share one": (
        [{"failure_domain": "old"}, {"failure_domain": "older"}, {"failure_domain": "older"}],
        "cp-1",
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


def test_one_being_deleted_is_neither_to_be_replaced_nor_counted_for_the_next_domain(build: Build) -> None:
    going = build.leaving(1, failure_domain="a", outdated=OUTDATED)
    replicas = (going, build.leaving(2, failure_domain="a"), build.replica(3, failure_domain="b", outdated=OUTDATED))
    control_plane = build.control_plane(*replicas, desired=build.desired(3, failure_domains=("a", "b")))
    assert [replica.name for replica in control_plane.outdated] == ["cp-3"]
    assert next_failure_domain(control_plane) == "a"


@pytest.mark.parametrize("surge", [0, 1])
@pytest.mark.parametrize("count", [3, 5])
def test_a_rollout_leaves_the_replicas_spread_as_evenly_as_they_can_be(build: Build, surge: int, count: int) -> None:
    domains = ("a", "b", "c")
    replicas = [build.replica(number, failure_domain=domains[number % 3], outdated=OUTDATED) for number in range(1, count + 1)]
    desired = build.desired(count, max_surge=surge, failure_domains=domains)
    for number in range(11, 11 + count):
        joins = build.replica(number, created=build.noon + timedelta(minutes=number))
        if surge:
            replicas.append(replace(joins, failure_domain=next_failure_domain(build.control_plane(*replicas, desired=desired))))
        replicas.remove(choose_victim(build.control_plane(*replicas, desired=desired)))
        if not surge:
            replicas.append(replace(joins, failure_domain=next_failure_domain(build.control_plane(*replicas, desired=desired))))
    spread = Counter(replica.failure_domain for replica in replicas)
    assert not any(replica.outdated for replica in replicas)
    assert max(spread.values()) - min(spread.values()) <= 1
    assert set(spread) == set(domains)


def test_what_keeps_the_victim_from_going_may_go_in_its_place(build: Build) -> None:
    unseen = build.ill(3, Health.UNKNOWN)
    control_plane = build.control_plane(build.replica(1), build.replica(2), unseen)
    assert [replica.name for replica in candidates(control_plane)] == ["cp-1", "cp-3"]


def test_nobody_goes_in_place_of_one_that_its_owner_marked(build: Build) -> None:
    control_plane = build.control_plane(build.replica(1), build.replica(2, delete_first=True), build.ill(3))
    assert [replica.name for replica in candidates(control_plane)] == ["cp-2"]


def test_in_a_rollout_only_outdated_ones_go_in_place_of_the_victim_marked_or_not(build: Build) -> None:
    for marked in (True, False):
        first = build.replica(1, outdated=OUTDATED, delete_first=marked)
        control_plane = build.control_plane(first, build.ill(2, Health.UNKNOWN), build.ill(3, Health.UNKNOWN, outdated=OUTDATED))
        assert [replica.name for replica in candidates(control_plane)] == ["cp-1", "cp-3"]


# In any order


@st.composite
def crowds(draw: st.DrawFn) -> ControlPlane:
    """One to seven replicas that stay, in any state that the choice looks at, many of one age."""
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    healths = st.sampled_from([Health.GOOD, Health.GOOD, Health.BAD, Health.UNKNOWN])
    replicas = [
        Replica(
            name=f"cp-{number}",
            version="v1.34.4",
            created=noon - timedelta(minutes=draw(st.integers(0, 2))),
            member=Absent(),
            node=draw(st.sampled_from([f"cp-{number}", f"cp-{number}", None])),
            failure_domain=draw(st.sampled_from(["", "a", "b", "gone"])),
            component_findings=(("Part", Finding(draw(healths), "Seen")),),
            outdated=draw(st.sampled_from([(), OUTDATED])),
            delete_first=draw(st.sampled_from([False, False, False, True])),
        )
        for number in range(1, draw(st.integers(1, 7)) + 1)
    ]
    desired = Desired(1, Version.parse("v1.34.4"), failure_domains=draw(st.sampled_from([(), ("a",), ("a", "b", "c")])))
    return ControlPlane("kcp", desired, tuple(replicas), Unknown("not asked"), initialized=True, workload=Finding(Health.GOOD, "Seen"))


@given(crowds(), st.randoms(use_true_random=False))
def test_neither_choice_depends_on_the_order_in_which_things_are_listed(crowd: ControlPlane, order: random.Random) -> None:
    domains = order.sample(crowd.desired.failure_domains, len(crowd.desired.failure_domains))
    shuffled = replace(
        crowd,
        replicas=tuple(order.sample(crowd.replicas, len(crowd.replicas))),
        desired=replace(crowd.desired, failure_domains=tuple(domains)),
    )
    assert candidates(crowd) == candidates(shuffled)
    assert next_failure_domain(crowd) == next_failure_domain(shuffled)


@given(crowds())
def test_no_up_to_date_replica_goes_before_an_outdated_one_unless_its_owner_asked_for_it(crowd: ControlPlane) -> None:
    victim = choose_victim(crowd)
    assert victim.outdated or victim.delete_first or not crowd.outdated
    assert victim.delete_first or not any(replica.delete_first for replica in crowd.replicas)
