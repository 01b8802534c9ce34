"""`make scale`: many control planes of three in one process, measured. What each number means is in docs/scale.md."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import click

from quorate.clusterapi.connect import descriptors
from quorate.kubernetes.errors import Timeout
from quorate.kubernetes.garbage_collection import GarbageCollector
from quorate.kubernetes.tasks import sole
from quorate.local import ports
from tests.bench.table import percentile
from tests.scale import planes, priority
from tests.scale.management import Management, management
from tests.scale.measure import Reactions, Use, using
from tests.scale.providers import Providers
from tests.scale.workloads import Workload, Workloads

_LOOK_AGAIN = 1.0
_SAMPLES = 40
_REST = 120.0  # seconds


@dataclass(slots=True)
class Results:
    """What was measured for one number of control planes. Times in seconds."""

    size: int
    creation: float = 0.0
    first_verdicts: float = 0.0
    rest: Use | None = None
    reactions: dict[str, list[float]] = field(default_factory=dict)  # by what happened meanwhile
    stops: dict[str, float] = field(default_factory=dict)

    def lines(self) -> list[str]:
        """A row for each number, as Markdown."""
        rest = self.rest or Use(0.0, 0, 0, 0.0)
        rows = [
            ("all created, from nothing", f"{self.creation:.0f} s"),
            ("from start until the first decision for the last of them", f"{self.first_verdicts:.1f} s"),
            ("CPU at rest", f"{rest.cores:.3f} cores"),
            ("memory at rest", f"{rest.resident / 2**20:.0f} MiB"),
            ("file descriptors at rest", f"{rest.descriptors:,}"),
            ("longest stop of the event loop at rest", f"{rest.longest_stop * 1000:.0f} ms"),
        ]
        for what, found in self.reactions.items():
            rows.append((f"reaction {what}: median, p95", f"{percentile(found, 0.5):.2f} s, {percentile(found, 0.95):.2f} s"))
        rows += [(f"longest stop of the event loop {what}", f"{stop * 1000:.0f} ms") for what, stop in self.stops.items()]
        return [f"| {what} | {number} |" for what, number in rows]


@dataclass
class Measurement:
    """The control planes of one size, and the manager that is measured."""

    site: Management
    workloads: Workloads
    providers: Providers
    reactions: Reactions
    say: Callable[[str], None]
    results: Results

    @property
    def all(self) -> list[Workload]:
        return list(self.workloads.by_name.values())

    async def run(self) -> None:
        """Everything, in this order."""
        await self._create()
        health = await self._restart()
        await self._at_rest(health)
        await self._while_some_roll(health)
        await self._while_some_do_not_answer(health)

    async def _create(self) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        await planes.apply_all(self.site.client, self.all, self.workloads.port)
        self.say(f"{len(self.all)} control planes are applied after {loop.time() - began:.0f} s")
        await self.site.start_manager("creating")
        await self._until_settled([workload.name for workload in self.all])
        self.results.creation = loop.time() - began
        await self.site.cluster.launcher.stop("creating")

    async def _restart(self) -> int:
        loop = asyncio.get_running_loop()
        for workload in self.all:
            workload.listed_at = 0.0
        began = loop.time()
        health = (await self.site.start_manager("measured")).health
        while missing := [workload for workload in self.all if workload.listed_at < began]:
            await self._look_again(f"{len(missing)} are still to be decided on", pause=0.1)
        self.results.first_verdicts = loop.time() - began
        self.say(f"the first decision for the last of them came after {self.results.first_verdicts:.1f} s")
        return health

    async def _at_rest(self, health: int) -> None:
        await asyncio.sleep(30.0)  # what a start leaves to be written
        process = self.site.identity("measured")
        async with using(process, health) as found:
            await asyncio.sleep(_REST)
        self.results.rest = found[0]
        self.say(f"at rest: {found[0].cores:.3f} cores, {found[0].resident / 2**20:.0f} MiB")
        await self._react(health, "while all rest", self.all)

    async def _while_some_roll(self, health: int) -> None:
        rolling, others = self.all[: min(50, len(self.all) // 2)], self.all[min(50, len(self.all) // 2) :]
        for workload in rolling:
            await planes.edit(self.site.client, workload.name, {"version": "v1.34.5"})
        await self._react(health, f"while {len(rolling)} roll", others)
        await self._until_settled([workload.name for workload in rolling], version="v1.34.5")

    async def _while_some_do_not_answer(self, health: int) -> None:
        refusing, dropping = self.all[: len(self.all) * 3 // 10], self.all[len(self.all) * 3 // 10 : len(self.all) * 4 // 10]
        for workload in refusing:
            await self.workloads.refuse(workload)
        for workload in dropping:
            await self.workloads.drop(workload)
        await asyncio.sleep(120.0)  # until all of them count as lost
        await self._react(
            health, f"while {len(refusing)} refuse connections and {len(dropping)} drop packets", self.all[len(self.all) * 4 // 10 :]
        )
        for workload in (*refusing, *dropping):
            await self.workloads.listen(workload)

    async def _react(self, health: int, what: str, among: list[Workload]) -> None:
        step = max(1, len(among) // _SAMPLES)
        async with using(self.site.identity("measured"), health) as found:
            self.results.reactions[what] = await self.reactions.of([workload.name for workload in among[::step]][:_SAMPLES])
        self.results.stops[what] = found[0].longest_stop
        self.say(f"reactions {what}: {percentile(self.results.reactions[what], 0.95):.2f} s (p95), {found[0].cores:.2f} cores")

    async def _until_settled(self, names: list[str], *, version: str = planes.VERSION) -> None:
        missing = names
        while True:
            with contextlib.suppress(Timeout):  # while a thousand are made the API server has more to do than two cores can
                if not (missing := await planes.settled(self.site.client, missing, version=version)):
                    return
            await self._look_again(f"{len(missing)} of {len(names)} are not as desired yet", pause=max(5.0, len(missing) / 50))

    async def _look_again(self, what: str, *, pause: float = _LOOK_AGAIN) -> None:
        if ended := self.site.cluster.ended():
            raise RuntimeError(f"{', '.join(ended)} ended; see {self.site.cluster.folder.path}/log")
        if pause >= 1.0:
            self.say(what)
        await asyncio.sleep(pause)


@asynccontextmanager
async def _set_up(size: int, folder: Path, say: Callable[[str], None]) -> AsyncIterator[Measurement]:
    collector = GarbageCollector()  # or this process, with all of the clusters, answers nothing for a second at a time
    collector.settle()
    (port,) = ports.choose(1, start=os.getpid())
    workloads = Workloads([f"plane-{number}" for number in range(1, size + 1)], port)
    await workloads.start()
    try:
        async with management(folder / "management") as site, asyncio.TaskGroup() as tasks:
            providers = Providers(site.client, workloads)
            running = [tasks.create_task(part.run()) for part in (providers, collector)]
            yield Measurement(site, workloads, providers, Reactions(site.client, providers), say, Results(size))
            for task in running:
                task.cancel()
    finally:
        await workloads.close()


async def measure(size: int, folder: Path, say: Callable[[str], None]) -> Results:
    """Everything for one number of control planes."""
    async with _set_up(size, folder, say) as measurement:
        await measurement.run()
        return measurement.results


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--planes", "sizes", multiple=True, type=click.IntRange(2, 2000), default=(200, 1000), show_default=True, help="How many.")
@click.option("--folder", type=click.Path(path_type=Path), help="Where logs and data go; a temporary folder where it is not given.")
def scale(sizes: tuple[int, ...], folder: Path | None) -> None:
    """Measure one manager process with many control planes of three."""
    descriptors.raised()
    priority.give_way()
    for size in sizes:
        with tempfile.TemporaryDirectory(prefix="quorate-scale-", ignore_cleanup_errors=True) as temporary:
            chosen = (folder / str(size)) if folder else Path(temporary)
            chosen.mkdir(parents=True, exist_ok=True)
            try:
                found = asyncio.run(measure(size, chosen, lambda line: click.echo(f"  {line}", err=True)))
            except BaseExceptionGroup as errors:
                raise sole(errors) from None
        click.echo(f"\n| {size:,} control planes of three | |\n|---|---|")
        click.echo("\n".join(found.lines()))
    sys.exit(0)
