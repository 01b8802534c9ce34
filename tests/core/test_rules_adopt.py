"""Adoption of stand-alone control-plane Machines (row 6): all at once, or none with the reason."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from quorate.core.machines.decide import decide
from quorate.core.machines.rules.adopt import ADOPTABLE, ADOPTION_IN_TIME, adopt_stand_alone_machines
from quorate.core.machines.state import Adoptable, Deletion
from quorate.core.machines.steps import EVERYTHING, AdoptReplicas
from quorate.core.proposal import NOTHING

if TYPE_CHECKING:
    from tests.core.conftest import Build

GOOD, OTHER = Adoptable("stand-alone-1"), Adoptable("stand-alone-0")


def test_nobody_stands_alone_and_nothing_is_said(build: Build) -> None:
    assert adopt_stand_alone_machines(build.three(), build.noon) == NOTHING


def test_row_6_all_are_adopted_at_once(build: Build) -> None:
    control_plane = build.control_plane(adoptable=(GOOD, OTHER), initialized=False)
    assert decide(control_plane, build.noon).step == AdoptReplicas(("stand-alone-0", "stand-alone-1"))


def test_row_6_one_that_cannot_be_adopted_stops_everything_and_is_named_with_a_remedy(build: Build) -> None:
    control_plane = build.control_plane(adoptable=(GOOD, Adoptable("old", "its version v1.31.0 is too far away")))
    proposal = adopt_stand_alone_machines(control_plane, build.noon)
    assert proposal.step is None
    assert proposal.blocks == EVERYTHING
    assert [(check.name, check.evidence) for check in proposal.checks] == [(ADOPTABLE, "old: its version v1.31.0 is too far away")]
    assert proposal.checks[0].remedy
    assert decide(control_plane, build.noon).step is None


@pytest.mark.parametrize("changes", [{"infrastructure_ready": False}, {"endpoint": ""}])
def test_adoption_waits_for_infrastructure_and_endpoint(build: Build, changes: dict[str, Any]) -> None:
    proposal = adopt_stand_alone_machines(build.control_plane(adoptable=(GOOD,), **changes), build.noon)
    assert proposal.blocks == EVERYTHING
    assert [check.name for check in proposal.checks] == [ADOPTION_IN_TIME]
    assert not proposal.checks[0].remedy


def test_nothing_is_adopted_while_paused_or_by_a_control_plane_that_goes(build: Build) -> None:
    assert adopt_stand_alone_machines(build.control_plane(adoptable=(GOOD,), paused="spec.paused"), build.noon) == NOTHING
    assert adopt_stand_alone_machines(build.control_plane(adoptable=(GOOD,), deletion=Deletion(build.noon)), build.noon) == NOTHING


def test_what_can_be_adopted_is_adopted_before_others_machines_are_complained_of(build: Build) -> None:
    assert decide(build.control_plane(adoptable=(GOOD,), foreign=("theirs",)), build.noon).step == AdoptReplicas(("stand-alone-1",))
