"""A run on existing hosts as a pure fold over its events: a line for each host with its state, its step and what it waits for. No clock, no terminal."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime

from quorate.cli.durations import format_age
from quorate.cli.lines import blocked
from quorate.core.checks import Check
from quorate.hosts.run.events import Ended, Event, Observed, Progress, Started, StepBegun, StepBroke, StepDone, Waiting

INDENT = " " * 12
"""Of what belongs to an event, below its line: as wide as its time and what goes before its text."""
HEADINGS = ("Host", "State", "Step", "Elapsed", "Now")


@dataclass(frozen=True, slots=True)
class Line:
    """One host: what it is, the step that concerns it now and since when, and what is done there or waited for."""

    state: str = ""
    step: str = ""
    since: datetime | None = None
    now: str = ""


@dataclass(frozen=True, slots=True)
class View:
    """Everything that a display shows."""

    began: datetime | None = None
    started: Started | None = None
    ring: str = ""
    hosts: dict[str, Line] = field(default_factory=dict)
    step: StepBegun | None = None  # while it is carried out
    waiting: tuple[Check, ...] = ()
    ended: Ended | None = None


def fold(view: View, event: Event) -> View:
    """The view after an event. Events of hosts that it does not know add them."""
    view = view if view.began else replace(view, began=event.at)
    match event:
        case Started():
            return replace(view, started=event, hosts={name: Line() for name in event.hosts})
        case Observed():
            hosts = {name: replace(view.hosts.get(name, Line()), state=state) for name, state in event.hosts.items()}
            return replace(view, ring=event.ring, hosts={**view.hosts, **hosts})
        case StepBegun():
            begun = {name: replace(view.hosts.get(name, Line()), step=event.step, since=event.at, now="") for name in event.hosts}
            return replace(view, step=event, waiting=(), hosts={**view.hosts, **begun})
        case Progress():
            return replace(view, hosts={**view.hosts, event.host: replace(view.hosts.get(event.host, Line()), now=event.what)})
        case StepDone() | StepBroke():
            return _at_rest(replace(view, step=None))
        case Waiting():
            return replace(view, waiting=event.because)
        case Ended():
            return _at_rest(replace(view, step=None, waiting=(), ended=event))


def _at_rest(view: View) -> View:
    """Nobody works on any host; who is no host, such as etcd while a snapshot is taken, is shown no longer."""
    return replace(view, hosts={name: Line(line.state) for name, line in view.hosts.items() if line.state or view.started is None})


def rows(view: View, now: datetime) -> list[tuple[str, ...]]:
    """A row for each host at an instant, in the order of HEADINGS."""
    return [
        (name, line.state or "-", line.step or "-", format_age((now - line.since).total_seconds()) if line.since else "-", line.now or "-")
        for name, line in view.hosts.items()
    ]


def title(view: View) -> str:
    """The run in one line."""
    if view.started is None:
        return "looking at the hosts"
    return f"{view.started.cluster} at {view.started.version}, etcd: {view.ring or 'not known yet'}"


def footer(view: View) -> str:
    """What is going on in the cluster."""
    if view.ended is not None:
        return f"{view.ended.outcome.value}: {view.ended.message}"
    if view.step is not None:
        return f"step {view.step.number}: {view.step.step}"
    if view.waiting:
        return f"waiting: {view.waiting[0].name}: {view.waiting[0].evidence}"
    return "looking"


def line(event: Event, before: View) -> str:
    """An event as lines of plain text, or "" where a reader would see nothing new; `before` is the view that it is folded into."""
    text = _text(event, before)
    seconds = (event.at - (before.began or event.at)).total_seconds()
    return f"{seconds:7.1f}s  {text}" if text else ""


def _text(event: Event, before: View) -> str:
    match event:
        case Started():
            return f"{event.command} of {event.cluster} at {event.version} by {event.by}"
        case Observed(ring=ring):
            return f"etcd: {ring}" if ring != before.ring else ""
        case StepBegun():
            return f"step {event.number}: {event.step}"
        case Progress():
            return f"  {event.host}: {event.what}"
        case StepDone():
            took = f" after {(event.at - before.step.at).total_seconds():.1f} s" if before.step else ""
            return f"step {event.number}: done{took}"
        case StepBroke():
            return f"step {event.number}: failed on {event.where}: {event.cause}{f' -> {event.remedy}' if event.remedy else ''}"
        case Waiting(because=because):
            return "" if because == before.waiting else "\n".join(["waiting, because", *blocked(because, INDENT)])
        case Ended():
            return "\n".join([f"{event.outcome.value}: {event.message}", *blocked(event.because, INDENT)])
