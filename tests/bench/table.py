"""The table of a bench: for each phase duration every figure's median, upstream's beside quorate's, and whether the bar is met.

Peak memory and CPU of a whole run are medians over runs of the run's own peak and sum, not of the steps'. Reactions are pooled over runs before their median
and percentile are taken.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from tests.bench import audit
from tests.bench.measure import CREATE, DELETE, REMEDIATE_1, REMEDIATE_2, ROLLOUT_3, ROLLOUT_5, SCALE_DOWN, SCALE_UP, STEPS
from tests.bench.results import Idle, Provider, Run

SECONDS_BARS = {
    CREATE: 0.9,
    REMEDIATE_1: 0.85,
    ROLLOUT_3: 0.75,
    SCALE_UP: 0.9,
    REMEDIATE_2: 0.85,
    ROLLOUT_5: 0.75,
    SCALE_DOWN: 0.75,
    DELETE: 1.1,
}
CPU_BAR, CREATE_CPU_BAR, MEMORY_BAR, WRITES_BAR = 0.9, 0.7, 1.0, 0.45
IDLE_CPU_BAR = 0.5  # seconds in IDLE_SECONDS
IDLE_SECONDS = 600.0
TRACE_BAR = 500.0  # milliseconds
HEADINGS = ("", "upstream", "quorate", "ratio", "bar", "met")
NOTE = (
    "Reaction: from the answer to the last change by another program of an object that the provider watches to the provider's next write,\n"
    "both in the audit log of the management cluster.\n"
    "A write that answers the workload cluster or a timer counts as late, so this is no bound on the provider's own delay.\n"
    "Own trace: from the last change that quorate's manager was told of, by a watch of either cluster, to the step that it took next.\n"
    "Not watched but looked at: kubeadm-config every 0.5 s before initialization; etcd's ring every 1 s while a member joins or leaves,\n"
    "every 5 s while one is ill, every 60 s at rest. Steps that answer to those are in the trace with the time since the last change before them."
)

_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Bar:
    """What quorate's figure may be at most: a share of upstream's, or with `absolute` a number of its own."""

    most: float
    absolute: bool = False

    def __str__(self) -> str:
        return f"{self.most:g}" if self.absolute else f"{self.most:g} x"


@dataclass(frozen=True, slots=True)
class Row:
    """One figure of both providers; None where it was not measured."""

    label: str
    upstream: float | None
    quorate: float | None
    bar: Bar | None = None
    digits: int = 1

    @property
    def ratio(self) -> float | None:
        """quorate's figure as a share of upstream's; None where there is none."""
        return self.quorate / self.upstream if self.upstream and self.quorate is not None else None

    @property
    def met(self) -> bool | None:
        """Whether the bar is met; None where there is no bar, or a figure to judge by is missing."""
        judged = self.quorate if self.bar and self.bar.absolute else self.ratio
        return judged <= self.bar.most if self.bar and judged is not None else None

    def cells(self) -> tuple[str, ...]:
        """The row as text, under HEADINGS."""
        verdict = {True: "yes", False: "NO", None: ""}[self.met]
        return (self.label, self._number(self.upstream), self._number(self.quorate), _text(self.ratio, 2), str(self.bar or ""), verdict)

    def _number(self, value: float | None) -> str:
        return _text(value, self.digits)


def percentile(values: Sequence[float], share: float) -> float | None:
    """The least value that at least `share` (0 to 1) of the values do not exceed (nearest rank); None of no values."""
    ordered = sorted(values)
    return ordered[max(math.ceil(share * len(ordered)), 1) - 1] if ordered else None


def phases(runs: Iterable[Run]) -> list[float]:
    """The phase durations that were measured, in that order."""
    return list(dict.fromkeys(run.phase_seconds for run in runs))


def rows(runs: Sequence[Run], phase_seconds: float) -> list[Row]:
    """All rows but those of the idle time, for one phase duration."""
    figures = _Figures([run for run in runs if run.phase_seconds == phase_seconds])
    found = [row for name in STEPS for row in _of_step(figures, name)]
    found += [
        figures.row("CPU s, all steps", lambda run: sum(step.cpu_seconds for step in run.steps), Bar(CPU_BAR), digits=2),
        figures.row("peak memory MiB", lambda run: max(step.peak_resident for step in run.steps) / _MIB, Bar(MEMORY_BAR)),
        figures.row("writes, all steps", lambda run: sum(audit.writes(step.requests) for step in run.steps), Bar(WRITES_BAR), digits=0),
    ]
    found += [figures.row(f"  {verb} requests", _requests(verb), digits=0) for verb in figures.verbs()]
    found.append(figures.row("Lease writes", lambda run: sum(step.lease_writes for step in run.steps), digits=0))
    found += [figures.pooled(f"reaction ms, {label}", share) for label, share in (("median", 0.5), ("95th percentile", 0.95))]
    found.append(figures.traced("own trace ms, median", 0.5))
    found.append(figures.traced("own trace ms, 95th percentile", 0.95, Bar(TRACE_BAR, absolute=True)))
    return found


def idle_rows(runs: Sequence[Run]) -> list[Row]:
    """The rows of the idle time; none where it was not measured. The bar on CPU is for ten minutes, and is left out for less."""
    found: dict[Provider, Idle] = {run.provider: run.idle for run in runs if run.idle}
    if not found:
        return []
    upstream, quorate = found.get(Provider.UPSTREAM), found.get(Provider.QUORATE)
    length = max(idle.seconds for idle in found.values())
    cpu_bar = Bar(IDLE_CPU_BAR, absolute=True) if length >= IDLE_SECONDS else None
    return [
        Row(
            "idle: writes",
            _of(upstream, lambda idle: audit.writes(idle.requests)),
            _of(quorate, lambda idle: audit.writes(idle.requests)),
            Bar(0, absolute=True),
            digits=0,
        ),
        Row("idle: Lease writes", _of(upstream, lambda idle: idle.lease_writes), _of(quorate, lambda idle: idle.lease_writes), digits=0),
        Row(
            f"idle: CPU s in {length:.0f} s",
            _of(upstream, lambda idle: idle.cpu_seconds),
            _of(quorate, lambda idle: idle.cpu_seconds),
            cpu_bar,
            digits=2,
        ),
    ]


def render(runs: Sequence[Run], *, markdown: bool = False) -> str:
    """The tables of all phase durations and of the idle time."""
    tables = []
    for phase_seconds in phases(runs):
        numbers = [run.number for run in runs if run.phase_seconds == phase_seconds]
        tables.append((f"Machines of {phase_seconds:g} s a phase, medians of {max(numbers)}", rows(runs, phase_seconds)))
    if idle := idle_rows(runs):
        tables.append(("Idle, with one cluster of 3", idle))
    return "\n\n".join([*(draw(title, found, markdown=markdown) for title, found in tables), NOTE]) + "\n"


def draw(title: str, found: Sequence[Row], *, markdown: bool) -> str:
    """One table under its title."""
    return _markdown(title, found) if markdown else _plain(title, found)


class _Figures:
    """Medians over the runs of each provider."""

    def __init__(self, runs: Sequence[Run]) -> None:
        self._runs = {provider: [run for run in runs if run.provider is provider] for provider in Provider}

    def row(self, label: str, figure: Callable[[Run], float], bar: Bar | None = None, *, digits: int = 1) -> Row:
        upstream, quorate = (self._median(provider, figure) for provider in (Provider.UPSTREAM, Provider.QUORATE))
        return Row(label, upstream, quorate, bar, digits)

    def pooled(self, label: str, share: float) -> Row:
        upstream, quorate = (self._reaction(provider, share) for provider in (Provider.UPSTREAM, Provider.QUORATE))
        return Row(label, upstream, quorate, digits=0)

    def traced(self, label: str, share: float, bar: Bar | None = None) -> Row:
        found = percentile([seconds for run in self._runs[Provider.QUORATE] for seconds in run.trace], share)
        return Row(label, None, None if found is None else found * 1000, bar, digits=0)

    def verbs(self) -> list[str]:
        return sorted({verb for runs in self._runs.values() for run in runs for step in run.steps for verb in step.requests})

    def _median(self, provider: Provider, figure: Callable[[Run], float]) -> float | None:
        values = [figure(run) for run in self._runs[provider]]
        return median(values) if values else None

    def _reaction(self, provider: Provider, share: float) -> float | None:
        found = percentile([seconds for run in self._runs[provider] for seconds in run.reactions], share)
        return None if found is None else found * 1000


def _of_step(figures: _Figures, name: str) -> list[Row]:
    return [
        figures.row(f"{name}, s", lambda run: run.step(name).seconds, Bar(SECONDS_BARS[name])),
        figures.row("  of which waiting for core and bootstrap, s", lambda run: run.step(name).waiting.total),
        figures.row("    for Cluster API core, s", lambda run: run.step(name).waiting.core),
        figures.row("    for the bootstrap provider, s", lambda run: run.step(name).waiting.bootstrap),
        figures.row("  CPU s", lambda run: run.step(name).cpu_seconds, Bar(CREATE_CPU_BAR) if name == CREATE else None, digits=2),
        figures.row("  writes", lambda run: audit.writes(run.step(name).requests), digits=0),
    ]


def _requests(verb: str) -> Callable[[Run], float]:
    return lambda run: sum(step.requests.get(verb, 0) for step in run.steps)


def _of(idle: Idle | None, figure: Callable[[Idle], float]) -> float | None:
    return None if idle is None else figure(idle)


def _text(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def _plain(title: str, found: Sequence[Row]) -> str:
    lines = [HEADINGS, *(row.cells() for row in found)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEADINGS))]
    drawn = [
        f"{line[0]:<{widths[0]}}  " + "  ".join(f"{cell:>{width}}" for cell, width in zip(line[1:], widths[1:], strict=True))
        for line in lines
    ]
    return "\n".join([title, *(line.rstrip() for line in drawn)])


def _markdown(title: str, found: Sequence[Row]) -> str:
    lines = [HEADINGS, ("---", *["---:"] * (len(HEADINGS) - 1)), *((row.cells()[0].strip(), *row.cells()[1:]) for row in found)]
    return "\n".join([f"**{title}**", "", *("| " + " | ".join(line) + " |" for line in lines)])
