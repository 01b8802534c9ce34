"""How long a run waits for what stands in its way, and when it looks again: one rule for the plan that cannot begin yet and for the run that cannot go on."""

from __future__ import annotations

from datetime import datetime, timedelta

from quorate.core.checks import Outcome
from quorate.core.in_place.decide import Decision

PATIENCE = timedelta(seconds=60)
"""How long something may be in the way that is not known for certain, or that time alone may take away: hosts that were just switched on tell little.

Counted, as the next and the last of these, from the beginning or from the first look after a step.
"""
SETTLING = timedelta(seconds=20)
"""How long, after a step, something may be in the way that, by its remedy, somebody would have to take away: what was just restarted answers late."""
NEAR = timedelta(minutes=10)
"""A decision that time alone changes is waited for when it is as near as this; the next run finds what is farther away, such as certificates that expire."""
LONGEST_WAIT = timedelta(minutes=20)
"""How long a run waits for time to change a decision: longer than any kubeadm takes that an earlier run left behind."""
FIRST_PAUSE = 1.0
LONGEST_PAUSE = 5.0
"""Seconds between two looks while nothing can be done: half of how long that has been so, within these limits."""


def look_again(decision: Decision, now: datetime, quiet_since: datetime, *, has_worked: bool) -> datetime | None:
    """When to look again after a decision that has refusals and no step; None: nothing is to be expected.

    `quiet_since` is when nothing could be done for the first time, `has_worked` whether this run has done anything before.
    """
    near = decision.wake_at if decision.wake_at is not None and decision.wake_at - now <= NEAR else None
    if now - quiet_since >= (LONGEST_WAIT if near else _patience(decision, has_worked)):
        return None
    quiet = (now - quiet_since).total_seconds()
    return near or now + timedelta(seconds=min(max(FIRST_PAUSE, quiet / 2), LONGEST_PAUSE))


def _patience(decision: Decision, has_worked: bool) -> timedelta:
    if any(not check.remedy or check.outcome is Outcome.UNKNOWN for check in decision.refusals):
        return PATIENCE
    return SETTLING if has_worked else timedelta(0)
