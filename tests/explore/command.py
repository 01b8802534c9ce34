"""The command line of the exploration: what is explored, side by side on the cores there are, and what came of it."""

from __future__ import annotations

import gc
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

CLOSING: tuple[Model, ...] = (
    Machines("three Machines that are well, with a backup of one", size=3, backup_of=1, faults=1),
    Machines("one Machine that is well, with a backup of three", size=1, backup_of=3, faults=1),
    Hosts("three hosts that are well", size=3, faults=2),
    Hosts("three bare hosts", size=3, faults=1, bare=True),
    Hosts("one host that is well", size=1, faults=2),
    Hosts("five hosts that are well", size=5, faults=1),
    Machines("no Machine yet", size=0, backup_of=None, faults=1),
)
"""What is explored to closure, the largest first."""
AS_FAR_AS_IT_GOES: tuple[Model, ...] = (
    Machines("no Machine yet", size=0, backup_of=None, faults=2),
    Machines("one Machine that is well, with a backup of three", size=1, backup_of=3, faults=2),
    Machines("three Machines that are well, with a backup of one", size=3, backup_of=1, faults=2),
    Machines("five Machines that are well, with a backup of three", size=5, backup_of=3, faults=1),
)
"""What has more states than anybody can wait for: as many as an hour allows, those first that take the fewest faults."""


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--only", default="", help="Explore what has this text in its name.")
@click.option("--faults", type=int, default=None, help="Faults in one history, in place of what each has by itself.")
@click.option("--lasting", default="3h", help="For how long each is explored at the most that is to close.")
@click.option("--further", default="1h", help="For how long each is explored that is too large to close.")
def explore(only: str, faults: int | None, lasting: str, further: str) -> None:
    """Explore every interleaving of quorate's steps, of its deaths after each write, and of what else can happen.

    Exits 1 where a promise is broken, and 3 where something that is to close did not in time.
    """
    limits = [(model, parse_duration(lasting)) for model in CLOSING] + [(model, parse_duration(further)) for model in AS_FAR_AS_IT_GOES]
    status = 0
    with ProcessPoolExecutor(max_workers=os.cpu_count()) as pool:
        running = {
            pool.submit(partial(_quietly, model.with_faults(faults), seconds)): model for model, seconds in limits if only in model.name
        }
        for done in as_completed(running):
            model, found = running[done], done.result()
            for line in told(model.with_faults(faults), found):
                click.echo(line)
            status = 1 if found.violations else status or (3 if found.unfinished and model in CLOSING else 0)
    sys.exit(status)


def told(model: Model, found: Found) -> Iterator[str]:
    """What came of one exploration, for a reader."""
    counts = f"{found.states:,} states, {found.transitions:,} transitions, {found.seconds:,.0f} s, histories of up to {found.longest} moves"
    yield f"{model.name}, {model.faults} fault{'' if model.faults == 1 else 's'}: {counts}; {_how_far(model, found)}"
    for promise, example in found.violations.items():
        yield f"  BROKEN {promise}, in {example.states:,} states: {example.what}"
        yield from _history(example)
    for example in found.waits.values():
        yield f"  somebody has to act, in {example.states:,} states: {example.what or 'and nothing says so'}"
        yield from _history(example)


def _how_far(model: Model, found: Found) -> str:
    fewer = model.faults - found.left
    return f"every history of fewer than {fewer} fault{'' if fewer == 1 else 's'}; {found.unfinished}" if found.unfinished else "closed"


def _history(example: Example) -> Iterator[str]:
    return (f"    {number}. {move}" for number, move in enumerate(example.history))


def _quietly(model: Model, seconds: float) -> Found:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    gc.set_threshold(
        50_000, 20, 100
    )  # what is found is kept to the end: looking through it as often as Python does by itself took a fifth of the time
    return search.explore(cast("search.Model[Any]", model), seconds=seconds)
