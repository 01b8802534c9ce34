"""The command line of the exploration: what is explored, side by side on the cores there are, and what came of it."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from typing import Any, cast

import click
import structlog

from quorate.cli.durations import parse_duration
from tests.explore import search
from tests.explore.hosts.model import Hosts
from tests.explore.machines.model import Machines
from tests.explore.search import Example, Found

Model = Machines | Hosts

MODELS: tuple[Model, ...] = (
    Machines("five Machines that are well, with a backup of three", size=5, backup_of=3, faults=1),
    Machines("three Machines that are well, with a backup of one", size=3, backup_of=1, faults=2),
    Machines("one Machine that is well, with a backup of three", size=1, backup_of=3, faults=2),
    Machines("no Machine yet", size=0, backup_of=None, faults=2),
    Hosts("three hosts that are well", size=3, faults=2),
    Hosts("three bare hosts", size=3, faults=1, bare=True),
    Hosts("one host that is well", size=1, faults=2),
    Hosts("five hosts that are well", size=5, faults=1),
)
"""What is explored, the largest first."""


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--only", default="", help="Explore what has this text in its name.")
@click.option("--faults", type=int, default=None, help="Faults in one history, in place of what each has by itself.")
@click.option("--lasting", default="1h", help="For how long each is explored at the most.")
def explore(only: str, faults: int | None, lasting: str) -> None:
    """Explore every interleaving of quorate's steps, of its deaths after each write, and of what else can happen.

    Exits 1 where a promise is broken, and 3 where not everything could be looked at in time.
    """
    models = [model.with_faults(faults) for model in MODELS if only in model.name]
    status = 0
    with ProcessPoolExecutor(max_workers=os.cpu_count()) as pool:
        running = {pool.submit(partial(_quietly, model, parse_duration(lasting))): model for model in models}
        for done in as_completed(running):
            found = done.result()
            for line in told(running[done], found):
                click.echo(line)
            status = 1 if found.violations else status or (3 if found.unfinished else 0)
    sys.exit(status)


def told(model: Model, found: Found) -> Iterator[str]:
    """What came of one exploration, for a reader."""
    counts = f"{found.states:,} states, {found.transitions:,} transitions, {found.seconds:,.0f} s, histories of up to {found.longest} moves"
    yield f"{model.name}, {model.faults} fault{'' if model.faults == 1 else 's'}: {counts}; {found.unfinished or 'closed'}"
    for promise, example in found.violations.items():
        yield f"  BROKEN {promise}, in {example.states:,} states: {example.what}"
        yield from _history(example)
    for example in found.waits.values():
        yield f"  somebody has to act, in {example.states:,} states: {example.what or 'and nothing says so'}"
        yield from _history(example)


def _history(example: Example) -> Iterator[str]:
    return (f"    {number}. {move}" for number, move in enumerate(example.history))


def _quietly(model: Model, seconds: float) -> Found:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    return search.explore(cast("search.Model[Any]", model), seconds=seconds)
