"""Clusters of hosts from beginning to end: the same for the same seed, without a violation, and with one as soon as a rule is wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from quorate.core.hosts.state import Host, Kind
from quorate.core.proposal import NOTHING
from quorate.simulation.hosts import fence
from quorate.simulation.hosts.faults import (
    FAULTS,
    HOST_FAULTS,
    OPERATOR_FAULTS,
    WAY_FAULTS,
    Fault,
    api_unknown,
    lease_refused,
    operator_killed,
    operator_stopped,
    operators_apart,
    slow,
)
from quorate.simulation.hosts.fence import Fence
from quorate.simulation.hosts.simulation import simulate
from quorate.simulation.machines.simulation import Outcome
from tests.conftest import SIMULATIONS
from tests.simulation.hosts_wrong import YES, put_wrong

CALM, TROUBLED, EVERYTHING = range(6), range(10), (*range(100, 130), 757)  # in the last a user finishes a join by hand

Simulated = Callable[[int, Sequence[Fault]], Outcome]


@pytest.fixture
def simulated(record_property: Callable[[str, object], None]) -> Simulated:
    """Simulates a seed with these faults, which counts in the summary of the run."""

    def simulated(seed: int, faults: Sequence[Fault]) -> Outcome:
        outcome = simulate(seed, faults=faults)
        record_property(SIMULATIONS, [outcome.seconds, outcome.faults.total(), len(outcome.violations)])
        return outcome

    return simulated


def told(outcome: Outcome, faults: Sequence[Fault]) -> str:
    """The violations and the command that replays them; those with some faults only have none, and tell what came before."""
    options = {FAULTS: "", (): " --calm"}.get(tuple(faults))
    before = outcome.lines[-40:] if options is None else [f"replay: quorate simulate --mode hosts --seed {outcome.seed}{options} --trace"]
    return "\n".join([*before, *map(str, outcome.violations)])


def test_the_same_seed_has_the_same_history() -> None:
    assert simulate(3).digest == simulate(3).digest
    assert simulate(3).digest != simulate(4).digest


@pytest.mark.parametrize("seed", CALM)
def test_without_faults_every_edit_is_carried_out(simulated: Simulated, seed: int) -> None:
    outcome = simulated(seed, ())
    assert not outcome.violations, told(outcome, ())


@pytest.mark.parametrize("seed", TROUBLED)
def test_whatever_happens_to_hosts_no_invariant_is_violated(simulated: Simulated, seed: int) -> None:
    outcome = simulated(seed, HOST_FAULTS)
    assert not outcome.violations, told(outcome, HOST_FAULTS)


@pytest.mark.parametrize("seed", TROUBLED)
def test_whatever_happens_to_connections_and_operators_no_invariant_is_violated(simulated: Simulated, seed: int) -> None:
    outcome = simulated(seed, (*WAY_FAULTS, *OPERATOR_FAULTS))
    assert not outcome.violations, told(outcome, WAY_FAULTS)


@pytest.mark.parametrize("seed", EVERYTHING)
def test_with_everything_at_once_no_invariant_is_violated(simulated: Simulated, seed: int) -> None:
    outcome = simulated(seed, FAULTS)
    assert not outcome.violations, told(outcome, FAULTS)


def test_a_simulation_can_be_followed_line_by_line() -> None:
    lines: list[str] = []
    simulate(5, faults=FAULTS, echo=lines.append)
    assert any("initialize the cluster" in line for line in lines)
    assert any("fault:" in line for line in lines)


def as_it_is(*arguments: Any) -> Any:
    """For a function that may put another proposal in the place of its last argument: it does not."""
    return arguments[-1]


def gone_when_silent(host: Host) -> bool:
    return host.kind is Kind.UNREACHABLE


# What is wrong, the invariant that is violated then, faults that bring it about, and what stands in the place of which function. What random ones rarely
# come to is played in test_hosts_scenarios.py.
WRONG: dict[str, tuple[str, Sequence[Fault], dict[str, object]]] = {
    "any member may leave": ("s1_removal_keeps_quorum", FAULTS, {"gates:removal": YES, "rules.guard:keep_the_quorum": NOTHING}),
    "any member may be restarted": ("s1_restart_keeps_quorum", FAULTS, {"gates:restart": YES, "rules.repair:repair_comes_first": NOTHING}),
    "a host that is silent has lost its data": (
        "s4_hosts_that_may_come_back_stay",
        WAY_FAULTS,
        {"rules.facts:data_lost": gone_when_silent},
    ),
    "every kubelet is to be upgraded": ("s8_equal_hosts_are_left_alone", (), {"rules.upgrade:_kubelet_pending": True}),
    "no snapshot is taken": ("snapshot_comes_first", (), {"rules.snapshot:after_a_snapshot": as_it_is}),
    "upgrades do not wait for repair": ("repair_comes_first", HOST_FAULTS, {"rules.repair:repair_comes_first": NOTHING}),
    "services that are stopped stay so": ("liveness", HOST_FAULTS, {"rules.services:start_services": NOTHING}),
}
SEEDS = range(60)
"""In which one is found out; the first that is has been below 15 for each."""


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_rule_is_found_out(monkeypatch: pytest.MonkeyPatch, wrong: str) -> None:
    invariant, faults, places = WRONG[wrong]
    put_wrong(monkeypatch, places)
    found = (violation.invariant for seed in SEEDS for violation in simulate(seed, faults=faults).violations)
    assert invariant in found


STOPPED = (operator_stopped, slow)


@pytest.mark.parametrize("seed", range(8))
def test_a_run_that_was_stopped_and_goes_on_beside_another_changes_nothing(simulated: Simulated, seed: int) -> None:
    simulated(seed, STOPPED)


def test_without_a_fence_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    for check in ("admit", "confirm", "permit"):
        monkeypatch.setattr(Fence, check, lambda *_: None)
    found = (violation.invariant for seed in SEEDS for violation in simulate(seed, faults=STOPPED).violations)
    assert "s15_nobody_changes_what_another_has_locked" in found


APART = (operators_apart, operator_stopped, operator_killed, api_unknown, lease_refused, slow)


@pytest.mark.parametrize("seed", range(12))
def test_operators_who_reach_different_hosts_are_kept_apart(simulated: Simulated, seed: int) -> None:
    outcome = simulated(seed, APART)
    assert not outcome.violations, told(outcome, APART)


def test_without_the_rule_that_one_is_confirmed_they_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fence, "confirmed_until", lambda now, **_: now + 60)
    found = (violation.invariant for seed in SEEDS for violation in simulate(seed, faults=APART).violations)
    assert "s15_nobody_changes_what_another_has_locked" in found


def test_without_a_rule_that_one_works_alone_the_fence_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    put_wrong(monkeypatch, {"rules.guard:work_alone": NOTHING})
    for seed in range(4):
        assert not [found for found in simulate(seed, faults=OPERATOR_FAULTS).violations if found.invariant.startswith("s")]
