"""How long a run waits, and when it looks again: one policy for a plan that cannot begin yet and for a run that cannot go on."""

from __future__ import annotations

from datetime import datetime, timedelta

from quorate.core.checks import Outcome
from quorate.core.hosts.decide import Decision
from quorate.core.hosts.forecast import forecast
from quorate.core.hosts.state import Cluster

TIMEOUT = timedelta(seconds=60)
"""How long something may be in the way that is not known for certain, or that time alone may take away: hosts that were just switched on tell little.

Counted, as the others of these, from the beginning, from the first look after a step, or from when something else came to stand in the way.
"""
SETTLING = timedelta(seconds=20)
"""How long, after a step or a change, something may be in the way that, by its remedy, somebody would have to take away: what just started answers late."""
RESTARTING = timedelta(seconds=100)
"""How long an API server is waited for that runs and does not listen: asked to end, it stays for up to 70 s, and the next one takes up to 30 to listen. Once it
is seen like that no more, what it serves with has SETTLING to come up.
"""
NEAR = timedelta(minutes=10)
"""A decision that time alone changes is waited for when it is as near as this; the next run finds what is farther away, such as certificates that expire."""
LONGEST_WAIT = timedelta(minutes=20)
"""How long a run waits for time to change a decision: longer than any kubeadm takes that an earlier run left behind."""
FIRST_PAUSE = 1.0
LONGEST_PAUSE = 5.0
"""Seconds between two looks while nothing can be done: half of how long that has been so, within these limits."""


class WaitPolicy:
    """How one run waits, or the wait for one to begin."""

    def __init__(self, now: datetime) -> None:
        self._since = now
        self._moves = False
        self._seen: set[tuple[str, ...]] = set()
        self._restarting: datetime | None = None  # when an API server was last seen that runs and does not listen

    def renew(self, now: datetime) -> None:
        """Begin anew with this first look after a step: a busy host takes long to tell what it is, and what it told first must not be the last word."""
        self._since, self._moves = now, True

    def look_again(self, decision: Decision, now: datetime, cluster: Cluster) -> datetime | None:
        """When to look again after a decision on this cluster that has refusals and no step; None: nothing is to be expected.

        Something else in the way than ever before begins it anew too: hosts that were switched on come up one thing after another.
        """
        because = tuple(check.name for check in decision.refusals)
        if self._seen and because not in self._seen:
            self.renew(now)
        self._seen.add(because)
        if cluster.is_restarting:
            self._restarting = now
        near = decision.wake_at if decision.wake_at is not None and decision.wake_at - now <= NEAR else None
        if now - self._since >= (LONGEST_WAIT if near else self._limit(decision, cluster)):
            return None
        quiet = (now - self._since).total_seconds()
        return near or now + timedelta(seconds=min(max(FIRST_PAUSE, quiet / 2), LONGEST_PAUSE))

    def _limit(self, decision: Decision, cluster: Cluster) -> timedelta:
        if cluster.is_restarting:
            return RESTARTING
        settled = SETTLING if self._moves else timedelta(0)
        if self._restarting is not None:
            settled = max(settled, self._restarting - self._since + SETTLING)
        uncertain = any(not check.remedy or check.outcome is Outcome.UNKNOWN for check in decision.refusals)
        return max(settled, TIMEOUT) if cluster.is_booting or uncertain else settled


def before_a_plan(policy: WaitPolicy, cluster: Cluster, decision: Decision, now: datetime) -> datetime | None:
    """When to look again at hosts with which nothing can be done yet; None: there is something to do, or nothing to wait for."""
    waits = decision.refusals and not cluster.locked_by
    until = policy.look_again(decision, now, cluster) if waits else None
    return None if until is None or forecast(cluster, now).steps else until
