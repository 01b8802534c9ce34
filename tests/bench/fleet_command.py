"""The command line of the bench of many clusters at once, and its table."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

import click
import msgspec

from quorate.local import LocalError
from tests.bench.fleet import CREATE, IDLE, STEPS, UPGRADE, FleetPlan, FleetRun, FleetStep, run
from tests.bench.measure import NotSettled
from tests.bench.results import Provider
from tests.bench.table import TRACE_BAR, Bar, Row, draw, percentile

_FOLDER = Path(".local/bench")
_MIB = 1 << 20

SECONDS_BARS = {10: {CREATE: Bar(0.85), UPGRADE: Bar(0.8)}, 30: {CREATE: Bar(1.0), UPGRADE: Bar(1.0)}}
MEMORY_BARS = {30: Bar(0.6)}
TRACE_BARS = {10: Bar(TRACE_BAR, absolute=True)}
CPU_BAR, WRITES_BAR, IDLE_CPU_BAR = Bar(0.9), Bar(0.5), Bar(1.1)
NOTE = "API server: its own CPU in shares of one core during the step; with 30 clusters it is what everybody waits for on two cores."


def fleet_plans(sizes: Sequence[int], runs: int, idle: float, phase_seconds: float) -> Iterator[FleetPlan]:
    """Every run to make, in order: upstream before quorate."""
    for clusters in sizes:
        for number in range(1, runs + 1):
            for provider in (Provider.UPSTREAM, Provider.QUORATE):
                yield FleetPlan(provider, clusters, number, idle, phase_seconds)


@click.command(name="fleet", context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--clusters", type=click.IntRange(1), multiple=True, default=(10, 30), show_default=True, help="How many at once; repeatable."
)
@click.option("--runs", type=click.IntRange(1), default=3, show_default=True, help="How often each provider runs with each number.")
@click.option("--idle", type=click.FloatRange(0), default=120.0, show_default=True, help="Seconds to measure at rest.")
@click.option("--phase", type=click.FloatRange(0), default=2.0, show_default=True, help="Seconds of each of a machine's four phases.")
@click.option(
    "--output", type=click.Path(dir_okay=False, path_type=Path), help="Where the raw numbers go; .local/bench/fleet-DATE.json unless given."
)
@click.option("--markdown", is_flag=True, help="Print the table in Markdown.")
def fleet(clusters: Sequence[int], runs: int, idle: float, phase: float, output: Path | None, markdown: bool) -> None:
    """Measure upstream's control-plane provider and quorate with many clusters of 3: created, upgraded and deleted at once, and at rest.

    Ends with 0 also where a bar is not met: the table says so. Nothing else should run on the machine meanwhile.
    """
    chosen = output or _FOLDER / f"fleet-{datetime.now(UTC):%Y-%m-%dT%H%M%SZ}.json"
    chosen.parent.mkdir(parents=True, exist_ok=True)
    done: list[FleetRun] = []
    try:
        for plan in fleet_plans(clusters, runs, idle, phase):
            done.append(_measured(plan, runs))
            chosen.write_bytes(msgspec.json.format(msgspec.json.encode(done), indent=1) + b"\n")
    except (LocalError, NotSettled) as error:
        raise click.ClickException(str(error)) from error
    click.echo(render(done, markdown=markdown))
    click.echo(f"raw numbers: {chosen}", err=True)


def _measured(plan: FleetPlan, runs: int) -> FleetRun:
    title = f"{plan.provider}, {plan.clusters} clusters, run {plan.number} of {runs}"
    return asyncio.run(run(plan, _FOLDER / "fleet", lambda line: click.echo(f"{title}: {line}", err=True)))


def render(runs: Sequence[FleetRun], *, markdown: bool = False) -> str:
    """One table for each number of clusters."""
    sizes = list(dict.fromkeys(run.clusters for run in runs))
    tables = [
        draw(f"{size} clusters of 3 at once, medians of {max(run.number for run in of_size)}", rows(of_size), markdown=markdown)
        for size in sizes
        if (of_size := [run for run in runs if run.clusters == size])
    ]
    return "\n\n".join([*tables, NOTE]) + "\n"


def rows(runs: Sequence[FleetRun]) -> list[Row]:
    """All figures of one number of clusters, medians over the runs."""
    size = runs[0].clusters
    blocks = SECONDS_BARS.get(size, {})
    found: list[Row] = []
    for name in STEPS:
        if name != IDLE:
            found.append(_row(f"{name}, s", runs, _of(name, lambda step: step.seconds), blocks.get(name)))
        found.append(
            _row(f"  {name}: provider CPU s", runs, _of(name, lambda step: step.cpu_seconds), IDLE_CPU_BAR if name == IDLE else None, 2)
        )
        found.append(_row(f"  {name}: API server, cores", runs, _of(name, _share), None, 2))
        found.append(_row(f"  {name}: writes", runs, _of(name, lambda step: step.writes), None, 0))
    found.append(
        _row("provider CPU s, all but idle", runs, lambda run: sum(s.cpu_seconds for s in run.steps if s.name != IDLE), CPU_BAR, 2)
    )
    found.append(_row("writes, all but idle", runs, lambda run: sum(s.writes for s in run.steps if s.name != IDLE), WRITES_BAR, 0))
    found.append(_row("peak memory MiB", runs, lambda run: run.peak_resident / _MIB, MEMORY_BARS.get(size)))
    found.append(_row("errors in the log", runs, lambda run: run.errors, None, 0))
    traced = percentile([seconds for run in runs if run.provider is Provider.QUORATE for seconds in run.trace], 0.95)
    found.append(Row("own trace ms, 95th percentile", None, None if traced is None else traced * 1000, TRACE_BARS.get(size), 0))
    return found


def _of(name: str, figure: Callable[[FleetStep], float]) -> Callable[[FleetRun], float]:
    return lambda run: figure(run.step(name))


def _share(step: FleetStep) -> float:
    return step.api_server_cpu_seconds / step.seconds if step.seconds else 0.0


def _row(label: str, runs: Sequence[FleetRun], figure: Callable[[FleetRun], float], bar: Bar | None, digits: int = 1) -> Row:
    values = {provider: [figure(run) for run in runs if run.provider is provider] for provider in Provider}
    upstream, quorate = (median(found) if found else None for found in (values[Provider.UPSTREAM], values[Provider.QUORATE]))
    return Row(label, upstream, quorate, bar, digits)
