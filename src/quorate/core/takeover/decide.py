"""The one next step of a change-over, and why: its table of rules, judged as `quorate.core.proposal` says."""

from __future__ import annotations

from datetime import datetime

from quorate.core import proposal
from quorate.core.takeover.rules import change, preflight
from quorate.core.takeover.state import View
from quorate.core.takeover.steps import EVERYTHING, Step

Decision = proposal.Decision[Step]
"""What to do next, and why."""

RULES: tuple[tuple[str, proposal.Rule[View, Step]], ...] = (
    ("refuse what does not fit", preflight.refuse_what_does_not_fit),
    ("judge the control planes", preflight.judge_the_control_planes),
    ("begin", preflight.begin),
    ("follow the command", preflight.follow_the_command),
    ("turn back", change.turn_back),
    ("provide", change.provide),
    ("start the coming", change.start_the_coming),
    ("move the webhooks", change.move_the_webhooks),
    ("stop the leaving", change.stop_the_leaving),
    ("hand the Lease over", change.hand_the_lease_over),
    ("let it judge", change.let_it_judge),
    ("clear up", change.clear_up),
)
"""In order. The documentation's table is made from this one."""


def decide(view: View, now: datetime) -> Decision:
    """The decision for what was observed at `now`. Pure and total."""
    return proposal.judge(RULES, EVERYTHING, view, now)


def is_over(decision: Decision) -> bool:
    """Whether nothing is left to do."""
    return decision.step is None and not decision.refusals


def only_waits(decision: Decision) -> bool:
    """Whether what it waits for comes by itself."""
    return decision.step is None and bool(decision.refusals) and not any(check.remedy for check in decision.refusals)
