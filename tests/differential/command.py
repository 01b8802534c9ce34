"""The command line of the comparisons with upstream's programs."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Protocol, TypeVar

import click

from tests import own_network
from tests.differential import admissions as of_admissions
from tests.differential import conversions as of_conversions
from tests.differential import cost as of_costs
from tests.differential import servers
from tests.differential.servers import Servers

T = TypeVar("T")


class Comparison(Protocol):
    """What came of it, told by str."""

    differences: list[str]

    @property
    def different(self) -> int:
        """How many answers differ."""


_options = (
    click.option("--count", default=5000, show_default=True, help="How many are made."),
    click.option("--seed", default=1, show_default=True, help="The same seed makes the same."),
    click.option("--show", default=20, show_default=True, help="How many differences are printed."),
)


@click.group()
def differential() -> None:
    """What quorate answers beside what upstream's program answers. Needs the programs in .bin (make programs)."""


@differential.command()
@_options[0]
@_options[1]
@_options[2]
def conversions(count: int, seed: int, show: int) -> None:
    """Conversions between v1beta1 and v1beta2 of KubeadmControlPlanes and their templates; each object is converted more than once."""
    _run(lambda both: of_conversions.compare(both, count=count, seed=seed), show)


@differential.command()
@_options[0]
@_options[1]
@_options[2]
def admissions(count: int, seed: int, show: int) -> None:
    """Admission reviews of KubeadmControlPlanes, their scales and their templates."""
    _run(lambda both: of_admissions.compare(both, count=count, seed=seed), show)


@differential.command()
@click.option("--count", default=1000, show_default=True, help="How often each thing is asked for.")
def cost(count: int) -> None:
    """What each webhook costs, in milliseconds, beside upstream's, and a list of 500 control planes in v1beta1."""
    with suppress(OSError):
        own_network.enter()
    click.echo(asyncio.run(_beside(lambda both: of_costs.measure(both, count=count))))


def _run(compare: Callable[[Servers], Awaitable[Comparison]], show: int) -> None:
    with suppress(OSError):  # without the right to, it waits for its turn, as every local stack does
        own_network.enter()
    found = asyncio.run(_beside(compare))
    click.echo(found)
    for line in found.differences[:show]:
        click.echo(f"  {line}")
    sys.exit(1 if found.different else 0)


async def _beside(compare: Callable[[Servers], Awaitable[T]]) -> T:
    with tempfile.TemporaryDirectory() as folder:
        async with servers.running(Path(folder) / "stack") as both:
            return await compare(both)
