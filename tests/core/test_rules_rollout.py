"""This release shows what is outdated and holds still."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quorate.core.decide import decide
from quorate.core.opinion import NOTHING
from quorate.core.rules.rollout import UP_TO_DATE, hold_back
from quorate.core.steps import CreateReplica, DeleteReplica, RemoveMember

if TYPE_CHECKING:
    from tests.core.conftest import Build

OLD = ("Version v1.33.0, v1.34.4 required",)


def test_outdated_replicas_are_named_with_every_way_they_differ(build: Build) -> None:
    opinion = hold_back(build.control_plane(build.replica(1, outdated=("one", "two")), build.replica(2)), build.noon)
    assert (opinion.step, opinion.bars) == (None, frozenset({CreateReplica, DeleteReplica}))
    assert [(check.name, check.evidence) for check in opinion.checks] == [(UP_TO_DATE, "cp-1: one, two")]


def test_up_to_date_replicas_bar_nothing(build: Build) -> None:
    opinion = hold_back(build.three(), build.noon)
    assert (opinion.bars, opinion.checks[0].passed) == (frozenset(), True)


def test_of_no_replicas_nothing_is_said(build: Build) -> None:
    assert hold_back(build.control_plane(), build.noon) == NOTHING


def test_one_that_leaves_anyway_is_not_outdated(build: Build) -> None:
    opinion = hold_back(build.control_plane(build.leaving(1, outdated=OLD), build.replica(2)), build.noon)
    assert not opinion.bars


def test_neither_scaling_begins_beside_a_changed_version(build: Build) -> None:
    old = [build.replica(number, outdated=OLD) for number in (1, 2, 3)]
    for desired in (1, 3, 5):
        decision = decide(build.control_plane(*old, desired=desired), build.noon)
        assert decision.step is None
        assert UP_TO_DATE in [check.name for check in decision.refusals]


def test_a_leaving_member_is_still_removed_beside_a_changed_version(build: Build) -> None:
    control_plane = build.control_plane(build.leaving(1), build.replica(2, outdated=OLD), build.replica(3, outdated=OLD))
    assert decide(control_plane, build.noon).step == RemoveMember("cp-1", 1)
