"""`quorate simulate`: simulations in both modes, what it tells of them, and the command that replays one that failed."""

from __future__ import annotations

import pytest
from click.testing import CliRunner, Result

from quorate.cli.development import simulate
from quorate.simulation.machines.invariant_checker import Violation
from quorate.simulation.machines.simulation import Outcome


def run(*arguments: str) -> Result:
    return CliRunner().invoke(simulate.command, arguments)


def broken(seed: int, **_options: object) -> Outcome:
    return Outcome(seed, [Violation("s1_removal_keeps_quorum", 12.5, "member 1 is removed")], lines=["what came before"])


def test_a_seed_is_simulated_in_each_mode_and_each_is_summed_up() -> None:
    told = run("--seed", "3")
    assert told.exit_code == 0, told.output
    assert [line.split(",")[0] for line in told.stdout.splitlines() if ", seed 3: " in line] == ["machines", "hosts"]
    assert "machines: 1 simulation" in told.stdout
    assert "hosts: 1 simulation, " in told.stdout
    assert told.stdout.count("violations: 0") == 2  # one for each mode


def test_one_mode_alone_and_without_faults() -> None:
    told = run("--mode", "hosts", "--seed", "3", "--calm")
    assert "machines: " not in told.stdout
    assert "faults: 0" in told.stdout


@pytest.mark.parametrize(("mode", "function"), [("machines", "simulate_machines"), ("hosts", "simulate_hosts")])
def test_a_simulation_that_broke_a_promise_is_told_with_the_command_that_replays_it(
    monkeypatch: pytest.MonkeyPatch, mode: str, function: str
) -> None:
    monkeypatch.setattr(simulate, function, broken)
    told = run("--mode", mode, "--seed", "7", "--calm")
    assert told.exit_code == 1
    assert told.stderr.splitlines() == [
        f"{mode}, seed 7: s1_removal_keeps_quorum at 12.500 s: member 1 is removed",
        f"replay: quorate simulate --mode {mode} --seed 7 --calm --trace",
    ]
