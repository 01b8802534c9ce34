"""Which step counts as one that was shown: by its kind, its host or Node, and its member."""

from __future__ import annotations

import pytest

from quorate.core.hosts.approval import Approval
from quorate.core.hosts.steps import (
    CHANGES_WHAT_RUNS,
    DESTROYS,
    EVERYTHING,
    DeleteNode,
    Initialize,
    Join,
    JoinWorkers,
    Prepare,
    RemoveMember,
    RenewCertificates,
    Reset,
    StartServices,
    Step,
    TakeSnapshot,
)

SHOWN: tuple[Step, ...] = (
    Prepare(("cp-1", "cp-2")),
    Initialize("cp-1"),
    DeleteNode("cp-7", drain=True),
    RemoveMember(7, "cp-7"),
    Reset("cp-3"),
)


@pytest.mark.parametrize(
    "step",
    [*SHOWN, Prepare(("cp-2",)), Initialize("cp-1", resume=True), DeleteNode("cp-7")],
    ids=str,
)
def test_what_was_shown_may_be_done_as_often_as_it_takes_and_in_parts(step: Step) -> None:
    assert Approval.of(SHOWN, only=True).check(step).passed


@pytest.mark.parametrize(
    "step",
    [
        Initialize("cp-2"),
        DeleteNode("cp-3"),
        RemoveMember(8, "cp-7"),
        RemoveMember(7, "cp-1"),
        RemoveMember(7, ""),
        Reset("cp-7"),
    ],
    ids=str,
)
def test_nothing_is_destroyed_that_was_not_shown(step: Step) -> None:
    check = Approval.of(SHOWN, only=False).check(step)
    assert not check.passed
    assert str(step) in check.evidence
    assert check.remedy


def test_approval_to_continue_an_initialization_is_none_to_begin_one() -> None:
    assert not Approval.of([Initialize("cp-1", resume=True)], only=False).check(Initialize("cp-1")).passed


@pytest.mark.parametrize(
    "step",
    [Prepare(("cp-3",)), Join("cp-3"), JoinWorkers(("w",)), StartServices("cp-1", ("kubelet",)), TakeSnapshot(), RenewCertificates("cp-1")],
)
def test_what_destroys_nothing_may_come_into_view_later_but_not_outside_a_kept_plan(step: Step) -> None:
    assert Approval.of(SHOWN, only=False).check(step).passed
    assert not Approval.of(SHOWN, only=True).check(step).passed


def test_a_host_more_is_another_step() -> None:
    assert not Approval.of(SHOWN, only=True).check(Prepare(("cp-2", "cp-3"))).passed


def test_steps_that_destroy_are_named() -> None:
    assert {Initialize, Reset, RemoveMember, DeleteNode} == DESTROYS
    assert DESTROYS < EVERYTHING
    assert not DESTROYS & CHANGES_WHAT_RUNS
