"""`quorate simulate`: control planes from beginning to end in simulated worlds, every invariant checked at every step. A seed replays."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

import click

from quorate.simulation.hosts import faults as faults_of_hosts
from quorate.simulation.hosts.simulation import simulate as simulate_hosts
from quorate.simulation.machines import faults
from quorate.simulation.machines.simulation import Outcome
from quorate.simulation.machines.simulation import simulate as simulate_machines

_YEAR = 365.25 * 24 * 3600
_MODES = ("machines", "hosts")

Echo = Callable[[str], None] | None


@click.command("simulate")
@click.option(
    "--mode",
    type=click.Choice(_MODES),
    default=None,
    help="Simulate only Cluster API Machines, or only existing hosts. Default: each seed in both.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="The first seed, or the only one without --seconds.")
@click.option("--seconds", type=float, default=None, help="Go on with the next seeds for this many seconds.")
@click.option("--calm", is_flag=True, help="Simulate users, but no faults.")
@click.option("--trace", is_flag=True, help="Print everything that happens.")
def command(mode: str | None, seed: int, seconds: float | None, calm: bool, trace: bool) -> None:
    """Simulate control planes from beginning to end, with faults, and check that none loses its quorum.

    Runs the code of `quorate manager` and `quorate apply` in simulated clusters with virtual time. Prints a summary, and each violation with the command
    that replays it. Exits 1 if there was a violation.
    """
    totals = {each: _Total() for each in (_MODES if mode is None else (mode,))}
    started = time.monotonic()
    current = seed
    while current == seed or (seconds is not None and time.monotonic() - started < seconds):
        for each, total in totals.items():
            before = time.process_time()
            outcome = _simulate(each, current, calm=calm, echo=click.echo if trace else None)
            total.add(outcome, time.process_time() - before)
            _tell(each, outcome, calm=calm, alone=seconds is None)
        current += 1
    click.echo("\n".join(f"{each}: {total.text()}" for each, total in totals.items()))
    if any(total.violations for total in totals.values()):
        raise SystemExit(1)


def _simulate(mode: str, seed: int, *, calm: bool, echo: Echo) -> Outcome:
    if mode == "hosts":
        return simulate_hosts(seed, faults=() if calm else faults_of_hosts.FAULTS, echo=echo)
    return simulate_machines(seed, faults=() if calm else faults.FAULTS, echo=echo)


class _Total:
    """The sum of many simulations."""

    def __init__(self) -> None:
        self.simulations = self.violations = self.machines = self.checks = self.lost = 0
        self.seconds = self.cpu = 0.0
        self.faults: Counter[str] = Counter()
        self.actions: Counter[str] = Counter()
        self.traits: Counter[str] = Counter()

    def add(self, outcome: Outcome, cpu: float) -> None:
        """One more simulation, and how many seconds of CPU it took."""
        self.simulations += 1
        self.violations += len(outcome.violations)
        self.machines += outcome.machines
        self.checks += outcome.checks
        self.lost += outcome.lost
        self.seconds += outcome.seconds
        self.cpu += cpu
        self.faults += outcome.faults
        self.actions += outcome.actions
        self.traits += outcome.traits

    def text(self) -> str:
        """For a reader."""
        rate = self.machines / 3 / (self.cpu / 60) if self.cpu else 0.0
        lines = [
            f"{_simulations(self.simulations)}{_traits(self.traits)}, {self.seconds / _YEAR:.4f} cluster-years, {self.machines} machines made",
            f"{self.cpu:.1f} s of CPU: {rate:.0f} times three machines made in a minute of one core",
            f"faults: {_counted(self.faults)}",
            f"users: {_counted(self.actions)}",
            f"invariants asked {self.checks} times; in {_simulations(self.lost)} faults destroyed a majority's data",
            f"violations: {self.violations}",
        ]
        return "\n  ".join(lines)


def _simulations(number: int) -> str:
    return f"{number} {'simulation' if number == 1 else 'simulations'}"


def _counted(counter: Counter[str]) -> str:
    named = ", ".join(f"{name} {number}" for name, number in sorted(counter.items()))
    return f"{counter.total()} ({named})" if named else "0"


def _traits(counter: Counter[str]) -> str:
    named = ", ".join(f"{number} {name}" for name, number in sorted(counter.items()))
    return f" ({named})" if named else ""


def _tell(mode: str, outcome: Outcome, *, calm: bool, alone: bool) -> None:
    if alone:
        click.echo(f"{mode}, seed {outcome.seed}: {outcome.seconds:.0f} s simulated, history {outcome.digest}")
    if not outcome.violations:
        return
    if not alone:
        click.echo("\n".join(outcome.lines[-30:]))
    for violation in outcome.violations:
        click.echo(f"{mode}, seed {outcome.seed}: {violation}", err=True)
    click.echo(f"replay: quorate simulate --mode {mode} --seed {outcome.seed}{' --calm' if calm else ''} --trace", err=True)
