"""Control planes from beginning to end: the same for the same seed, without a violation, and with one as soon as a guard is taken away."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice

import pytest

from quorate.clusterapi.act import adoption, etcd_membership, maintenance
from quorate.clusterapi.observe import specification
from quorate.clusterapi.observe.observation import Observation
from quorate.clusterapi.types.cluster import Cluster
from quorate.clusterapi.types.kubeadm_control_plane import KubeadmControlPlane
from quorate.core import ring
from quorate.core.machines.state import ControlPlane, Desired
from quorate.kubernetes import leader
from quorate.simulation.engine.world import randomness
from quorate.simulation.machines.faults import (
    CONTROLLER_FAULTS,
    FAULTS,
    HOST_FAULTS,
    MEMBERSHIP_FAULTS,
    OBJECT_FAULTS,
    PROCESS_FAULTS,
    Fault,
    ghost,
    isolated_host,
    power_cut,
)
from quorate.simulation.machines.setting import draw
from quorate.simulation.machines.simulation import Outcome, simulate
from quorate.workload.connection import Workload
from tests.conftest import SIMULATIONS

CALM, TROUBLED, RESTORED = range(8), range(10), range(4)
EVERYTHING = (*range(100, 130), 349)  # in the last a request arrives 65 s late, for a Machine whose creation was given up

_SIMULATE = (
    "python -c 'from quorate.simulation.machines import faults, simulation; simulation.simulate({{}}, faults=faults.{}, echo=print)'"
)
REPLAY = {
    (): "quorate simulate --mode machines --seed {} --calm --trace",
    PROCESS_FAULTS: _SIMULATE.format("PROCESS_FAULTS"),
    HOST_FAULTS: _SIMULATE.format("HOST_FAULTS"),
    OBJECT_FAULTS: _SIMULATE.format("OBJECT_FAULTS"),
    FAULTS: "quorate simulate --mode machines --seed {} --trace",
}
"""The command with which a seed is simulated again with these faults, and told step by step."""

Simulated = Callable[[int, Sequence[Fault]], Outcome]


@pytest.fixture
def simulated(record_property: Callable[[str, object], None]) -> Simulated:
    """Simulates a seed with these faults, which counts in the summary of the run."""

    def simulated(seed: int, faults: Sequence[Fault]) -> Outcome:
        outcome = simulate(seed, faults=faults)
        record_property(SIMULATIONS, [outcome.seconds, outcome.faults.total(), len(outcome.violations)])
        return outcome

    return simulated


def told(outcome: Outcome, faults: tuple[Fault, ...]) -> str:
    return "\n".join([*map(str, outcome.violations), f"replay: {REPLAY[faults].format(outcome.seed)}"])


def test_the_same_seed_has_the_same_history() -> None:
    history = simulate(23).digest  # of one with an election, and many faults
    assert simulate(23).digest == history
    assert simulate(24).digest != history


@pytest.mark.parametrize("seed", CALM)
def test_without_faults_everything_that_users_ask_for_is_reached(simulated: Simulated, seed: int) -> None:
    outcome = simulated(seed, ())
    assert not outcome.violations, told(outcome, ())


@pytest.mark.parametrize("seed", TROUBLED)
def test_whatever_happens_to_its_processes_no_invariant_is_violated(simulated: Simulated, seed: int) -> None:
    outcome = simulated(seed, PROCESS_FAULTS)
    assert not outcome.violations, told(outcome, PROCESS_FAULTS)


@pytest.mark.parametrize("seed", TROUBLED)
def test_whatever_happens_to_machines_no_invariant_is_violated(simulated: Simulated, seed: int) -> None:
    outcome = simulated(seed, HOST_FAULTS)
    assert not outcome.violations, told(outcome, HOST_FAULTS)


@pytest.mark.parametrize("seed", RESTORED)
def test_whatever_becomes_of_the_management_objects_no_invariant_is_violated(simulated: Simulated, seed: int) -> None:
    outcome = simulated(seed, OBJECT_FAULTS)
    assert not outcome.violations, told(outcome, OBJECT_FAULTS)


@pytest.mark.parametrize("seed", EVERYTHING)
def test_with_everything_at_once_no_invariant_is_violated(simulated: Simulated, seed: int) -> None:
    outcome = simulated(seed, FAULTS)
    assert not outcome.violations, told(outcome, FAULTS)


def first_violation(invariant: str, seeds: Iterator[int], faults: Sequence[Fault] = FAULTS) -> Outcome | None:
    """The first simulation with these faults in which the invariant is violated."""
    for seed in seeds:
        outcome = simulate(seed, faults=faults)
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
    assert first_violation("s2_no_joining_beside_a_learner", iter(range(20)), MEMBERSHIP_FAULTS)


def test_a_provider_that_thinks_every_ring_safe_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ring.Verdict, "__bool__", lambda _: True)
    assert first_violation("s1_removal_keeps_quorum", iter(range(20, 40)), (power_cut, isolated_host, ghost))


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


def test_a_provider_that_takes_a_lease_that_has_not_run_out_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leader.LeaderElector, "_run_out", lambda *_: True)
    assert first_violation("one_leader", drawn("elected"))


def test_a_provider_that_leaves_the_secrets_of_adopted_machines_alone_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    async def leave(*_: object) -> None:
        return None

    monkeypatch.setattr(adoption, "_secrets_of", lambda *_: [])
    monkeypatch.setattr(maintenance, "_own_secrets", leave)
    assert first_violation("liveness", drawn("adopted"))


def test_a_provider_that_records_what_no_api_server_said_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    async def guessed(*_: object) -> datetime:
        return datetime(2126, 1, 1, tzinfo=UTC)

    monkeypatch.setattr(Workload, "certificate_expiry", guessed)
    assert first_violation("liveness", iter(range(3)))


@pytest.mark.parametrize("trait", ["elected", "external etcd", "adopted", "updated in place"])
def test_simulations_of_every_kind_end_without_a_violation(simulated: Simulated, trait: str) -> None:
    for seed in islice(drawn(trait), 5):
        outcome = simulated(seed, FAULTS)
        assert outcome.traits[trait] == 1
        assert not outcome.violations, told(outcome, FAULTS)


def drawn(trait: str) -> Iterator[int]:
    """Seeds of simulations with this trait."""
    return (seed for seed in range(200, 400) if trait in draw(randomness(seed, "life"), randomness(seed, "settings of extensions")).traits)


def test_a_simulation_can_be_followed_line_by_line() -> None:
    lines: list[str] = []
    simulate(9, faults=CONTROLLER_FAULTS, echo=lines.append)
    assert any("kubeadm init" in line for line in lines)
