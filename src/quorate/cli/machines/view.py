"""The display as a pure fold over events: a state, what each event makes of it, and the rows and lines that show it. No clock, no terminal."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from quorate.cli.durations import format_age
from quorate.cli.machines.events import ControlPlaneGone, ControlPlaneSeen, Event, MachineGone, MachineSeen, StepSeen

HEADINGS = ("Machine", "Version", "Node", "etcd", "Health", "Waits for", "Elapsed")


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine and how long it has been, or was, on its way: from `since` until `until`, or until now where that is None."""

    seen: MachineSeen
    since: datetime
    until: datetime | None


@dataclass(frozen=True, slots=True)
class View:
    """Everything that a display shows."""

    began: datetime | None = None  # the first event's time
    control_plane: ControlPlaneSeen | None = None
    machines: tuple[Machine, ...] = ()  # in order of creation, then by name
    step: StepSeen | None = None  # the last one
    gone: bool = False  # there was a control plane, and it is no more


@dataclass(frozen=True, slots=True)
class Row:
    """One machine's line in a table, in the order of HEADINGS; `health` and `waiting` are for colours."""

    cells: tuple[str, ...]
    health: str
    waiting: bool


def fold(view: View, event: Event) -> View:
    """The view after an event. Events of things it does not know, or knows already, change nothing that is wrong."""
    view = view if view.began else replace(view, began=event.at)
    match event:
        case ControlPlaneSeen():
            return replace(view, control_plane=event, gone=False)
        case ControlPlaneGone():
            return replace(view, control_plane=None, machines=(), step=None, gone=True)
        case MachineSeen():
            return replace(view, machines=_with(view.machines, event))
        case MachineGone():
            return replace(view, machines=tuple(machine for machine in view.machines if machine.seen.name != event.name))
        case StepSeen():
            return replace(view, step=event)


def _with(machines: tuple[Machine, ...], event: MachineSeen) -> tuple[Machine, ...]:
    before = next((machine for machine in machines if machine.seen.name == event.name), None)
    others = [machine for machine in machines if machine is not before]
    return tuple(sorted([*others, _after(before, event)], key=lambda machine: (machine.seen.created, machine.seen.name)))


def _after(before: Machine | None, event: MachineSeen) -> Machine:
    waiting = bool(event.waits_for)
    if before is None:
        return Machine(event, event.created, None if waiting else event.at)
    if before.until is not None and waiting:  # it was ready: a new wait begins
        return Machine(event, event.at, None)
    return Machine(event, before.since, before.until or (None if waiting else event.at))


def rows(view: View, now: datetime) -> list[Row]:
    """A row for each machine at an instant."""
    return [_row(machine, now) for machine in view.machines]


def _row(machine: Machine, now: datetime) -> Row:
    seen = machine.seen
    elapsed = ((machine.until or now) - machine.since).total_seconds()
    what = "; ".join(filter(None, [f"deletion: {seen.waits_for}" if seen.deleting else seen.waits_for or "ready", seen.fate]))
    cells = (seen.name, seen.version, seen.node or "-", seen.role or "-", seen.health, what, format_age(elapsed))
    return Row(cells, seen.health, waiting=bool(seen.waits_for))


def title(view: View) -> str:
    """The control plane in one line."""
    if view.gone:
        return "the control plane is gone"
    seen = view.control_plane
    if seen is None:
        return "no control plane yet"
    return f"{seen.name} {seen.version}: {seen.ready} of {seen.desired} ready, {seen.available} available, etcd {seen.etcd}"


def footer(view: View) -> str:
    """What comes next."""
    seen = view.control_plane
    if seen is None:
        return ""
    return f"next: {seen.next}" if seen.next else "nothing left to do"


def line(event: Event, before: View) -> str:
    """An event as a line of plain text, or "" where a reader would see nothing new; `before` is the view that it is folded into."""
    text = _text(event, before)
    seconds = (event.at - (before.began or event.at)).total_seconds()
    return f"{seconds:6.1f}s  {text}" if text else ""


def _text(event: Event, before: View) -> str:
    match event:
        case ControlPlaneSeen():
            text = title(fold(before, event))
            return "" if text == title(before) else text
        case ControlPlaneGone(name=name):
            return f"{name} is gone"
        case MachineSeen():
            return _machine_text(event)
        case MachineGone(name=name):
            return f"{name} is gone"
        case StepSeen(text=text):
            return f"step: {text}"


def _machine_text(seen: MachineSeen) -> str:
    parts = [f"node {seen.node}" if seen.node and seen.node != seen.name else "", f"etcd {seen.role}" if seen.role else ""]
    if not seen.waits_for:
        parts.append("ready")
    else:
        parts.append(f"{'deletion ' if seen.deleting else ''}waits for {seen.waits_for}")
    fate = f"; {seen.fate}" if seen.fate else ""
    return f"{seen.name}: {', '.join(filter(None, parts))}{fate}"
