"""What is said of a change-over: the checks, the steps, the objects with what changes in them, and how it ended. Pure."""

from __future__ import annotations

from datetime import datetime

from quorate.cli import lines, views
from quorate.clusterapi.takeover.observe import Observation
from quorate.clusterapi.takeover.session import Ended
from quorate.core.takeover.decide import decide
from quorate.core.takeover.forecast import forecast
from quorate.core.takeover.state import Item, Side

_NEW, _GOES, _STAYS = "is made", "is deleted", "stays as it is"


def change_of(seen: Observation, now: datetime) -> views.Change:
    """One look, and what would be done from there on."""
    view, foreseen = seen.view, forecast(seen.view, now)
    journal = view.journal
    return views.Change(
        goal=view.goal.value,
        under_way=view.under_way,
        done=journal is not None and journal.done and journal.toward is view.goal,
        returning=journal.returning if journal else "",
        steps=tuple(map(str, foreseen.steps)),
        checks=decide(view, now).checks,
        in_the_way=foreseen.refusals,
        objects=tuple(views.ChangedObject(str(item.key), _fate(item), item.changes) for item in view.items),
        control_planes=tuple(
            views.Prospect(each.name, each.prospect.value, each.evidence, each.unreported) for each in view.control_planes or ()
        ),
    )


def _fate(item: Item) -> str:
    if item.coming and not item.exists:
        return _NEW
    if item.leaving and not item.coming and item.exists and not item.stays:
        return _GOES
    return "changes" if item.changes else _STAYS


def text(change: views.Change, *, objects: bool = False) -> str:
    """The change for a person, before it is carried out; with `objects` each of them."""
    if change.done and not change.steps:
        return f"Nothing to do: {_whose(change.goal)} answers for the control planes.\n"
    found = ["Checks", *lines.checks(change.checks)]
    if objects:
        found += ["", "Objects"]
        for each in change.objects:
            found += [f"  {each.name}: {each.fate}", *(f"    {line}" for line in each.changes)]
    if change.steps:
        found += ["", "Steps", *(f"  {number:>3}  {step}" for number, step in enumerate(change.steps, 1))]
    if change.in_the_way:
        found += ["", lines.NOTHING_NOW, *lines.blocked(change.in_the_way)]
    return "\n".join(found) + "\n"


def ended_text(ended: Ended, goal: Side) -> str:
    """How a run ended, for a person."""
    record = ended.observation.record
    if ended.over and record is not None and record.journal.toward is not goal:
        return f"Everything is back with {record.journal.toward}: {record.journal.returning}\n"
    if ended.over:
        return f"{_whose(goal.value)} answers for the control planes now.\n"
    return "\n".join([lines.NOTHING_NOW, *lines.blocked(ended.decision.refusals)]) + "\n"


def _whose(side: str) -> str:
    return str(Side(side))
