"""The steps of a change-over before anything happens: `decide` played forward on a model in which every step succeeds and everybody comes up."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from quorate.core.checks import Check
from quorate.core.takeover.decide import decide, is_over
from quorate.core.takeover.state import Item, Journal, Key, Lease, Part, Provider, View
from quorate.core.takeover.steps import Begin, Delete, Finish, FreeLease, Put, Step, Stop, Turn

_MOST_STEPS = 500
"""An installation has about twenty objects; each is written and deleted once or twice."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """The steps in order, and what stands in the way of more; none where it comes to its end."""

    steps: tuple[Step, ...]
    refusals: tuple[Check, ...]


def forecast(view: View, now: datetime) -> Forecast:
    """Every step from here on, if nothing fails and nobody interferes. Pure and total."""
    steps: list[Step] = []
    decision = decide(view, now)  # the time stands still: nothing comes too late here
    while not is_over(decision) and len(steps) < _MOST_STEPS:
        if decision.step is not None:
            steps.append(decision.step)
            view = _after(view, decision.step, now)
            if isinstance(decision.step, Finish):
                break
        elif (waited := _waited(view)) != view:
            view = waited
        else:
            return Forecast(tuple(steps), decision.refusals)
        decision = decide(view, now)
    return Forecast(tuple(steps), ())


def _after(view: View, step: Step, now: datetime) -> View:
    match step:
        case Begin():
            return replace(view, journal=Journal(view.goal, now))
        case Turn(toward, reason):
            turned = view if toward is view.coming.side else _turned(view)
            return replace(turned, journal=Journal(toward, now, reason), since=now, undone=())
        case Put(key, both):
            return _put(view, key, both=both)
        case Delete(key):
            return replace(view, items=_with(view, key, exists=False, as_leaving=False))
        case Stop():
            return replace(view, leaving=replace(view.leaving, desired=0))
        case FreeLease():
            return replace(view, lease=Lease())
        case Finish():
            return replace(view, journal=replace(view.journal, done=True) if view.journal else None)


def _put(view: View, key: Key, *, both: bool) -> View:
    found = next(item for item in view.items if item.key == key)
    placed = _with(view, key, exists=True, as_coming=not both, as_leaving=False, as_both=both)
    starts = found.part is Part.PROVIDER
    return replace(
        view, items=placed, coming=replace(view.coming, exists=True, desired=max(view.coming.desired, 1)) if starts else view.coming
    )


def _with(view: View, key: Key, *, exists: bool, as_coming: bool = False, as_leaving: bool, as_both: bool = False) -> tuple[Item, ...]:
    return tuple(
        replace(item, exists=exists, as_coming=as_coming, as_leaving=as_leaving, as_both=as_both) if item.key == key else item
        for item in view.items
    )


def _turned(view: View) -> View:
    items = tuple(
        replace(item, coming=item.leaving, leaving=item.coming, as_coming=item.as_leaving, as_leaving=item.as_coming) for item in view.items
    )
    return replace(view, coming=view.leaving, leaving=view.coming, items=items, lease=replace(view.lease, fresh=False))


def _waited(view: View) -> View:
    """What comes by itself has come: the coming provider is up, the leaving one's Pods are gone, the Lease is taken, every control plane is judged."""
    if not view.coming.ready:
        return replace(view, coming=_up(view.coming))
    if not view.leaving.stopped:
        return replace(view, leaving=replace(view.leaving, pods=(), running=0, available=0))
    if not (view.lease.holder and view.lease.fresh):
        return replace(view, lease=Lease(f"a Pod of {view.coming.deployment.name}", timedelta(0), fresh=True))
    return replace(view, control_planes=tuple(replace(each, unreported="") for each in view.control_planes or ()))


def _up(provider: Provider) -> Provider:
    return replace(provider, running=provider.desired, available=provider.desired) if provider.exists else provider
