"""Whole lives of control planes: the same for the same seed, without a violation, and with one as soon as a guard is taken away."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from quorate.clusterapi import etcd_membership
from quorate.core import ring
from quorate.simulation.faults import CONTROLLER_FAULTS, HOST_FAULTS, PROCESS_FAULTS
from quorate.simulation.life import Outcome, live

CALM, TROUBLED = range(8), range(20)


def told(outcome: Outcome) -> str:
    return "\n".join([*map(str, outcome.violations), f"replay: quorate simulate --seed {outcome.seed} --trace"])


def test_the_same_seed_has_the_same_history() -> None:
    assert live(3).digest == live(3).digest
    assert live(3).digest != live(4).digest


@pytest.mark.parametrize("seed", CALM)
def test_without_faults_everything_that_users_ask_for_is_reached(seed: int) -> None:
    outcome = live(seed, faults=())
    assert not outcome.violations, told(outcome)


@pytest.mark.parametrize("seed", TROUBLED)
def test_whatever_happens_to_its_processes_no_invariant_is_violated(seed: int) -> None:
    outcome = live(seed, faults=PROCESS_FAULTS)
    assert not outcome.violations, told(outcome)


@pytest.mark.parametrize("seed", TROUBLED)
def test_whatever_happens_to_machines_no_invariant_is_violated(seed: int) -> None:
    outcome = live(seed, faults=HOST_FAULTS)
    assert not outcome.violations, told(outcome)


def test_with_everything_at_once_no_safety_invariant_is_violated() -> None:
    outcomes = [live(seed) for seed in range(100, 115)]
    assert not [violation for outcome in outcomes for violation in outcome.violations if violation.invariant.startswith("s")]
    assert sum(outcome.faults.total() for outcome in outcomes) > 50


def first_violation(invariant: str, seeds: Iterator[int]) -> Outcome | None:
    """The first life in which the invariant is violated."""
    for seed in seeds:
        outcome = live(seed)
        if any(violation.invariant == invariant for violation in outcome.violations):
            return outcome
    return None


def test_a_provider_that_never_moves_leadership_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    async def keep(*_: object) -> None:
        return None

    monkeypatch.setattr(etcd_membership, "pass_leadership_on", keep)
    assert first_violation("s7_leadership_moves_first", iter(range(60)))


def test_a_provider_that_lets_machines_join_beside_learners_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ring.Ring, "unsettled", property(lambda _: ()))
    assert first_violation("s2_no_joining_beside_a_learner", iter(range(60)))


def test_a_provider_that_thinks_every_ring_safe_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ring.Verdict, "__bool__", lambda _: True)
    assert first_violation("s1_removal_keeps_quorum", iter(range(30, 90)))


def test_a_life_can_be_followed_line_by_line() -> None:
    lines: list[str] = []
    live(9, faults=CONTROLLER_FAULTS, echo=lines.append)
    assert any("kubeadm init" in line for line in lines)
