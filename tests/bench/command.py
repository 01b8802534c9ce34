"""The command line of the bench of one control plane's lifecycle."""

from __future__ import annotations

import asyncio
import os
import platform
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import click

from quorate.cli.durations import parse_duration
from quorate.local import LocalError
from tests.bench import plots, results, table
from tests.bench.measure import NotSettled, Plan, run
from tests.bench.results import Provider, Results, Run

_FOLDER = Path(".local/bench")


def plans(phases: Sequence[float], runs: int, idle: float) -> Iterator[Plan]:
    """Every run to make, in order: upstream before quorate, and with an idle time only in the first run of each."""
    for phase_seconds in phases:
        for number in range(1, runs + 1):
            for provider in (Provider.UPSTREAM, Provider.QUORATE):
                first = number == 1 and phase_seconds == phases[0]
                yield Plan(provider, phase_seconds, number, idle if first else 0.0)


def _phases(_ctx: click.Context, _param: click.Parameter, value: str) -> list[float]:
    try:
        return list(dict.fromkeys(parse_duration(part) for part in value.split(",")))
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


@click.command(name="lifecycle", context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--runs", type=click.IntRange(1), default=3, show_default=True, help="How often each provider runs at each phase duration.")
@click.option(
    "--phases", default="2s,0s", show_default=True, callback=_phases, help="How long each of a machine's four phases takes, with commas."
)
@click.option(
    "--idle", type=click.FloatRange(0), default=600.0, show_default=True, help="Seconds to measure at rest, once for each provider."
)
@click.option(
    "--output", type=click.Path(dir_okay=False, path_type=Path), help="Where the raw numbers go; .local/bench/DATE.json unless given."
)
@click.option("--markdown", is_flag=True, help="Print the table in Markdown.")
def bench(runs: int, phases: list[float], idle: float, output: Path | None, markdown: bool) -> None:
    """Measure upstream's control-plane provider and quorate, one after the other, on fresh local management clusters.

    Each run creates a control plane of 3, replaces failed machines, upgrades it, scales it to 5 and back to 3, and deletes it. The raw numbers are
    written after every run, and in the end pictures of them, one for each phase duration, beside them.
    Ends with 0 also where a bar is not met: the table says so. Nothing else should run on the machine meanwhile.
    """
    started = datetime.now(UTC)
    chosen = output or _FOLDER / f"{started:%Y-%m-%dT%H%M%SZ}.json"
    done: list[Run] = []
    try:
        for plan in plans(phases, runs, idle):
            done.append(_measured(plan, runs))
            results.write(chosen, _results(started, done))
    except (LocalError, NotSettled) as error:
        raise click.ClickException(str(error)) from error
    click.echo(table.render(done, markdown=markdown))
    pictures = [_drawn(done, phase_seconds, chosen) for phase_seconds in table.phases(done)]
    click.echo(f"raw numbers: {chosen}; pictures: {', '.join(map(str, pictures))}", err=True)


def _measured(plan: Plan, runs: int) -> Run:
    title = f"{plan.provider}, {plan.phase_seconds:g} s a phase, run {plan.number} of {runs}"
    return asyncio.run(run(plan, _FOLDER / "run", lambda line: click.echo(f"{title}: {line}", err=True)))


def _drawn(done: list[Run], phase_seconds: float, beside: Path) -> Path:
    path = beside.with_name(f"{beside.stem}-{phase_seconds:g}s.svg")
    path.write_text(plots.picture(done, phase_seconds))
    return path


def _results(started: datetime, done: list[Run]) -> Results:
    return Results(started.isoformat(), version("quorate"), platform.python_version(), os.cpu_count() or 1, done)
