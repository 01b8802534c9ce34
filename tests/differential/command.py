"""The command line of the comparisons with upstream's programs."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import click

from tests import own_network
from tests.differential import conversions as sides
from tests.differential import upstream


@click.group()
def differential() -> None:
    """What quorate answers beside what upstream's program answers. Needs the programs in .bin (make programs)."""


@differential.command()
@click.option("--count", default=5000, show_default=True, help="How many objects are made; each is converted more than once.")
@click.option("--seed", default=1, show_default=True, help="The same seed makes the same objects.")
@click.option("--show", default=20, show_default=True, help="How many differences are printed.")
def conversions(count: int, seed: int, show: int) -> None:
    """Conversions between v1beta1 and v1beta2 of KubeadmControlPlanes and their templates."""
    with suppress(OSError):  # without the right to, it waits for its turn, as every local stack does
        own_network.enter()
    found = asyncio.run(_conversions(count, seed))
    click.echo(found)
    for line in found.differences[:show]:
        click.echo(f"  {line}")
    sys.exit(1 if found.different else 0)


async def _conversions(count: int, seed: int) -> sides.Comparison:
    with tempfile.TemporaryDirectory() as folder:
        async with upstream.running(Path(folder) / "stack") as program:
            return await sides.compare(program, count=count, seed=seed)
