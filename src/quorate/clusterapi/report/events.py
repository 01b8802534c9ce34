"""The events of one pass: what failed, and what holds a change up. Who sends them counts repeats instead of sending them again."""

from __future__ import annotations

from dataclasses import dataclass

from quorate.clusterapi.observation import is_coming_up
from quorate.clusterapi.report.facts import Facts
from quorate.clusterapi.types.names import EventReason
from quorate.core.checks import COMPONENTS_HEALTHY, MEMBERS_HEALTHY
from quorate.core.steps import CreateReplica, DeleteAll, DeleteReplica, Step

WARNING = "Warning"


@dataclass(frozen=True, slots=True)
class EventToSend:
    """An event about the control plane: `type` is Normal or Warning."""

    type: str
    reason: str
    message: str


def events(facts: Facts) -> tuple[EventToSend, ...]:
    """The step that failed, if one did, and an ill control plane that nothing may be added to or taken from."""
    found = []
    if facts.error and (reason := _failed(facts.decision.step)):
        found.append(EventToSend(WARNING, str(reason), facts.error))
    ills = [check.evidence for check in facts.decision.refusals if check.name in (COMPONENTS_HEALTHY, MEMBERS_HEALTHY)]
    if ills and facts.decision.step is None and not _somebody_comes_up(facts):
        found.append(EventToSend(WARNING, str(EventReason.CONTROL_PLANE_UNHEALTHY), "; ".join(dict.fromkeys(ills))))
    return tuple(found)


def _somebody_comes_up(facts: Facts) -> bool:
    """Whether a Machine is young enough for its components to be expected soon: that is progress, not an ill control plane."""
    return any(is_coming_up(replica.created, facts.now) for replica in facts.view.staying)


def _failed(step: Step | None) -> EventReason | None:
    match step:
        case CreateReplica(initialize=initialize):
            return EventReason.FAILED_INITIALIZATION if initialize else EventReason.FAILED_SCALE_UP
        case DeleteReplica():
            return EventReason.FAILED_SCALE_DOWN
        case DeleteAll():
            return EventReason.FAILED_DELETE
    return None
