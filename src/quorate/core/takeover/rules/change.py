"""The order of a change-over: the coming provider stands ready before the leaving one is stopped, so that nobody waits for either; and what leads back."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from quorate.core.checks import Check, failed, passed
from quorate.core.proposal import NOTHING, Proposal, blocking, wanting
from quorate.core.takeover.state import Item, Part, Provider, View
from quorate.core.takeover.steps import EVERYTHING, Delete, Finish, FreeLease, Put, Step, Stop, Turn

OURS = "nobody else changes the two installations meanwhile"
IN_TIME = "the change comes to its end in time"
READY = "the coming provider stands ready"
STOPPED = "the leaving provider has stopped"
LEADS = "the coming provider leads"
JUDGED = "every control plane is judged by the coming provider"

ABANDONED = timedelta(seconds=10)
"""Without a renewal, after which a Lease whose holder's Pod is gone is taken from it: two of the periods in which both providers renew it."""
_SWITCHES = ("Service", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
"""Kinds of webhooks' objects, in the order in which they change: first who answers, then who is asked."""


def turn_back(view: View, now: datetime) -> Proposal[Step]:
    """On any doubt everything is put back: others change the same objects, or the coming provider does not come up in time. Nothing turns twice."""
    if view.journal is None or not view.under_way:
        return NOTHING
    doubts = tuple(check for check in (_undisturbed(view), _in_time(view, now)) if not check.passed)
    if not doubts:
        return Proposal(wake_at=view.since + view.limit)
    if view.journal.returning:
        return blocking(EVERYTHING, *doubts)
    return Proposal(Turn(view.leaving.side, f"{doubts[0].name}: {doubts[0].evidence}"), doubts)


def provide(view: View, _now: datetime) -> Proposal[Step]:
    """Everything that the coming provider needs, and that takes nothing from the leaving one: the rights of one account are those of both meanwhile."""
    if not view.under_way:
        return NOTHING
    for item in _in_order(view, Part.GROUND, Part.RIGHTS):
        both = item.part is Part.RIGHTS and item.leaving and not view.leaving.stopped
        if item.coming and not (item.as_both if both else item.as_coming or (item.part is Part.RIGHTS and item.as_both)):
            return wanting(Put(item.key, both))
    return NOTHING


def start_the_coming(view: View, _now: datetime) -> Proposal[Step]:
    """The coming provider is started while the leaving one works: it waits for the Lease."""
    if not view.under_way:
        return NOTHING
    for item in _in_order(view, Part.PROVIDER):
        if item.coming and (not item.as_coming or not view.coming.desired):
            return wanting(Put(item.key))
    if view.coming.ready:
        return NOTHING
    return blocking(EVERYTHING, failed(READY, _coming_up(view.coming)))


def move_the_webhooks(view: View, _now: datetime) -> Proposal[Step]:
    """The API server asks the coming provider as soon as that answers; where only its leader can answer, once the leaving one has stopped."""
    if not view.under_way or (view.coming.only_the_leader_serves and not view.leaving.stopped):
        return NOTHING
    for item in sorted(_in_order(view, Part.WEBHOOKS), key=lambda each: _SWITCHES.index(each.key.kind)):
        if item.coming and not item.as_coming:
            return wanting(Put(item.key))
        if item.leaving and not item.coming and item.exists:
            return wanting(Delete(item.key))
    return NOTHING


def stop_the_leaving(view: View, _now: datetime) -> Proposal[Step]:
    """The leaving provider is stopped, and nothing goes on before its last Pod is gone."""
    if not view.under_way or view.leaving.stopped:
        return NOTHING
    if view.leaving.exists and view.leaving.desired:
        return wanting(Stop(view.leaving.deployment))
    return blocking(EVERYTHING, failed(STOPPED, f"its Pods end: {', '.join(view.leaving.pods)}"))


def hand_the_lease_over(view: View, _now: datetime) -> Proposal[Step]:
    """The coming provider leads at once: a Lease whose holder's last Pod is gone is taken from it, once it is seen that nobody renews it."""
    if not view.under_way:
        return NOTHING
    lease = view.lease
    if lease.holder and lease.fresh:
        return Proposal(checks=(passed(LEADS, f"{lease.holder} holds the Lease"),))
    if not lease.holder:
        return blocking(EVERYTHING, failed(LEADS, "nobody holds the Lease yet"))
    if lease.idle >= ABANDONED:
        return wanting(FreeLease(lease.holder))
    return blocking(EVERYTHING, failed(LEADS, f"{lease.holder} held the Lease last; it is seen whether that still renews it"))


def let_it_judge(view: View, _now: datetime) -> Proposal[Step]:
    """The change is over once the status of every control plane is what the coming provider says of it. What is put back waits for none of them."""
    if view.journal is None or not view.under_way or view.journal.returning:
        return NOTHING
    if view.control_planes is None:
        return blocking(EVERYTHING, failed(JUDGED, "they are looked at next"))
    waiting = [f"{each.name}: {each.unreported}" for each in view.control_planes if each.unreported and each.name not in view.accepted]
    if waiting:
        return blocking(EVERYTHING, failed(JUDGED, "; ".join(waiting)))
    return Proposal(checks=(passed(JUDGED, f"{len(view.control_planes)} control planes"),))


def clear_up(view: View, _now: datetime) -> Proposal[Step]:
    """Then the leaving installation goes: rights that were its own, its Deployment, and last its entry in clusterctl's inventory."""
    if not view.under_way:
        return NOTHING
    for item in _in_order(view, Part.RIGHTS, Part.INVENTORY):
        if item.coming and not item.as_coming:
            return wanting(Put(item.key))
    for item in _in_order(view, Part.PROVIDER, Part.RIGHTS, Part.GROUND, Part.INVENTORY):
        if item.leaving and not item.coming and item.exists and not item.stays:
            return wanting(Delete(item.key))
    return wanting(Finish())


def _in_order(view: View, *parts: Part) -> Iterator[Item]:
    return (item for part in parts for item in view.items if item.part is part)


def _undisturbed(view: View) -> Check:
    """What others have changed is a reason to go back, and none to stop on the way: what was saved is then written over it."""
    if view.undone:
        remedy = "Find out who writes it, such as a GitOps controller or Cluster API Operator, and stop that before the next attempt."
        return failed(OURS, f"{', '.join(map(str, view.undone))} was written and is changed back again and again", remedy)
    changed = [str(item.key) for item in view.items if item.foreign]
    if changed and not (view.journal and view.journal.returning):
        return failed(
            OURS, f"{', '.join(changed)} has been changed since both installations were saved", "Undo the change, then try again."
        )
    return passed(OURS, "every object has the form of one of the two")


def _in_time(view: View, now: datetime) -> Check:
    if now < view.since + view.limit:
        return passed(IN_TIME, f"since {view.since:%H:%M:%S}")
    missing = _coming_up(view.coming) if not view.coming.ready else "see what is waited for"
    remedy = f"Look at the Pods of {view.coming.deployment}; --timeout gives them longer."
    return failed(IN_TIME, f"not over after {view.limit.total_seconds():.0f} s; {missing}", remedy)


def _coming_up(provider: Provider) -> str:
    problem = f": {provider.problem}" if provider.problem else ""
    what = "run" if provider.only_the_leader_serves else "are available"
    count = provider.running if provider.only_the_leader_serves else provider.available
    return f"{count} of {provider.desired} Pods of {provider.deployment} {what}{problem}"
