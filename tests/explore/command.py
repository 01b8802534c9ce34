"""The command line of the exploration: what is explored, side by side on the cores there are, and what came of it."""

from __future__ import annotations

import gc
import logging
import math
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import click
import structlog

from quorate.cli.durations import parse_duration
from tests.explore import search
from tests.explore.hosts.model import Hosts
from tests.explore.machines.model import Machines
from tests.explore.search import Example, Found, Limits


@dataclass(frozen=True, slots=True)
class Exploration:
    """What is explored, and how much may go wrong in it."""

    model: Machines | Hosts
    limits: Limits

    def with_limits(self, faults: int | None, within: int | None) -> Exploration:
        """The same with others; None: as they are."""
        asked = {name: value for name, value in (("faults", faults), ("within", within)) if value is not None}
        return replace(self, limits=replace(self.limits, **asked))

    def __str__(self) -> str:
        faults, within = self.limits.faults, self.limits.within
        close = f", the last within {within:g} moves of the one before" if faults > 1 and within < math.inf else ""
        return f"{self.model.name}, {faults} fault{'' if faults == 1 else 's'}{close}"


_NO_MACHINE = Machines("no Machine yet", size=0, backup_of=None)
_ONE_MACHINE = Machines("one Machine that is well, with a backup of three", size=1, backup_of=3)
_THREE_MACHINES = Machines("three Machines that are well, with a backup of one", size=3, backup_of=1)

CLOSING = (
    Exploration(_ONE_MACHINE, Limits(2, within=0)),
    Exploration(_THREE_MACHINES, Limits(1)),
    Exploration(Hosts("three hosts that are well", size=3), Limits(2)),
    Exploration(Hosts("three bare hosts", size=3, bare=True), Limits(1)),
    Exploration(Hosts("one host that is well", size=1), Limits(2)),
    Exploration(Hosts("five hosts that are well", size=5), Limits(1)),
    Exploration(_NO_MACHINE, Limits(2, within=0)),
)
"""What is explored to closure, the largest first."""
AS_FAR_AS_IT_GOES = (
    Exploration(_NO_MACHINE, Limits(2)),
    Exploration(_ONE_MACHINE, Limits(2)),
    Exploration(_THREE_MACHINES, Limits(2)),
    Exploration(Machines("five Machines that are well, with a backup of three", size=5, backup_of=3), Limits(1)),
)
"""What has more states than anybody can wait for: as many as an hour allows, those first that take the fewest faults."""


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--only", default="", help="Explore what has this text in its name.")
@click.option("--faults", type=int, default=None, help="Faults in one history, in place of what each has by itself.")
@click.option("--within", type=int, default=None, help="Moves after a fault within which the last one comes, in place of what each has.")
@click.option("--lasting", default="3h", help="For how long each is explored at the most that is to close.")
@click.option("--further", default="1h", help="For how long each is explored that is too large to close.")
def explore(only: str, faults: int | None, within: int | None, lasting: str, further: str) -> None:
    """Explore every interleaving of quorate's steps, of its deaths after each write, and of what else can happen.

    Exits 1 where a promise is broken, and 3 where something that is to close did not in time.
    """
    asked = dict.fromkeys(each.with_limits(faults, within) for each in CLOSING if only in each.model.name)
    seconds = (
        {each: parse_duration(further) for each in AS_FAR_AS_IT_GOES if only in each.model.name}
        if faults is None and within is None
        else {}
    )
    seconds |= dict.fromkeys(asked, parse_duration(lasting))
    status = 0
    with ProcessPoolExecutor(max_workers=os.cpu_count()) as pool:
        running = {pool.submit(partial(_quietly, each, limit)): each for each, limit in seconds.items()}
        for done in as_completed(running):
            exploration, found = running[done], done.result()
            for line in told(exploration, found):
                click.echo(line)
            status = 1 if found.violations else status or (3 if found.unfinished and exploration in asked else 0)
    sys.exit(status)


def told(exploration: Exploration, found: Found) -> Iterator[str]:
    """What came of one exploration, for a reader."""
    counts = f"{found.states:,} states, {found.transitions:,} transitions, {found.seconds:,.0f} s, histories of up to {found.longest} moves"
    yield f"{exploration}: {counts}; {_how_far(exploration, found)}"
    for promise, example in found.violations.items():
        yield f"  BROKEN {promise}, in {example.states:,} states: {example.what}"
        yield from _history(example)
    for example in found.waits.values():
        yield f"  somebody has to act, in {example.states:,} states: {example.what or 'and nothing says so'}"
        yield from _history(example)


def _how_far(exploration: Exploration, found: Found) -> str:
    fewer = exploration.limits.faults - found.left
    return f"every history of fewer than {fewer} fault{'' if fewer == 1 else 's'}; {found.unfinished}" if found.unfinished else "closed"


def _history(example: Example) -> Iterator[str]:
    return (f"    {number}. {move}" for number, move in enumerate(example.history))


def _quietly(exploration: Exploration, seconds: float) -> Found:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    gc.set_threshold(
        50_000, 20, 100
    )  # what is found is kept to the end: looking through it as often as Python does by itself took a fifth of the time
    return search.explore(cast("search.Model[Any]", exploration.model), exploration.limits, seconds=seconds)
