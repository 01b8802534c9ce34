"""Whole lives of control planes: the same for the same seed, without a violation, and with one as soon as a guard is taken away."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import pytest

from quorate.clusterapi import etcd_membership, specification
from quorate.clusterapi.observation import Observation
from quorate.clusterapi.types.cluster import Cluster
from quorate.clusterapi.types.kubeadm_control_plane import KubeadmControlPlane
from quorate.core import ring
from quorate.core.control_plane import ControlPlane, Desired
from quorate.simulation.faults import CONTROLLER_FAULTS, FAULTS, HOST_FAULTS, PROCESS_FAULTS, Fault
from quorate.simulation.life import Outcome, live
from tests.conftest import LIVES

CALM, TROUBLED, EVERYTHING = range(8), range(10), range(100, 130)

Lived = Callable[[int, Sequence[Fault]], Outcome]


@pytest.fixture
def lived(record_property: Callable[[str, object], None]) -> Lived:
    """Lives the life of a seed with these faults, which counts in the summary of the run."""

    def lived(seed: int, faults: Sequence[Fault]) -> Outcome:
        outcome = live(seed, faults=faults)
        record_property(LIVES, [outcome.seconds, outcome.faults.total(), len(outcome.violations)])
        return outcome

    return lived


def told(outcome: Outcome) -> str:
    return "\n".join([*map(str, outcome.violations), f"replay: quorate simulate --seed {outcome.seed} --trace"])


def test_the_same_seed_has_the_same_history() -> None:
    assert live(3).digest == live(3).digest
    assert live(3).digest != live(4).digest


@pytest.mark.parametrize("seed", CALM)
def test_without_faults_everything_that_users_ask_for_is_reached(lived: Lived, seed: int) -> None:
    outcome = lived(seed, ())
    assert not outcome.violations, told(outcome)


@pytest.mark.parametrize("seed", TROUBLED)
def test_whatever_happens_to_its_processes_no_invariant_is_violated(lived: Lived, seed: int) -> None:
    outcome = lived(seed, PROCESS_FAULTS)
    assert not outcome.violations, told(outcome)


@pytest.mark.parametrize("seed", TROUBLED)
def test_whatever_happens_to_machines_no_invariant_is_violated(lived: Lived, seed: int) -> None:
    outcome = lived(seed, HOST_FAULTS)
    assert not outcome.violations, told(outcome)


@pytest.mark.parametrize("seed", EVERYTHING)
def test_with_everything_at_once_no_invariant_is_violated(lived: Lived, seed: int) -> None:
    outcome = lived(seed, FAULTS)
    assert not outcome.violations, told(outcome)


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


def test_a_provider_that_acts_on_what_it_decided_by_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    async def unread(_clients: object, observation: Observation) -> ControlPlane:
        return etcd_membership.view_of(observation)

    monkeypatch.setattr(etcd_membership, "read_afresh", unread)
    assert first_violation("s10_reading_before_removal", iter(range(20)))


def test_a_provider_that_makes_a_machine_too_many_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = specification.desired

    def one_more(kcp: KubeadmControlPlane, cluster: Cluster) -> Desired:
        asked = wanted(kcp, cluster)
        return replace(asked, replicas=asked.replicas + 1)

    monkeypatch.setattr(specification, "desired", one_more)
    assert first_violation("s8_made_for_a_reason", iter(range(20)))


def test_a_life_can_be_followed_line_by_line() -> None:
    lines: list[str] = []
    live(9, faults=CONTROLLER_FAULTS, echo=lines.append)
    assert any("kubeadm init" in line for line in lines)
