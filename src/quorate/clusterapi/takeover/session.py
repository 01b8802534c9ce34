"""One run of `quorate takeover` or `quorate handback`: observe, decide, act, and observe again, until it is over or somebody has to act.

Nothing is kept between two looks but what is written down in the management cluster, and how often an object was written: a run that was cut short anywhere is
continued by the next one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime

from quorate.clusterapi.takeover.act import Actor
from quorate.clusterapi.takeover.observe import Observation, Observer
from quorate.core.takeover.decide import Decision, decide, is_over, only_waits
from quorate.core.takeover.state import Key
from quorate.core.takeover.steps import Delete, Finish, Put, Step, Stop
from quorate.kubernetes.errors import Conflict

LOOK_AGAIN = 1.0
"""Seconds between two looks while something is waited for."""
ATTEMPTS = 3
"""Times that an object is written and has lost it again before that is somebody's doing."""
_CONFLICTS = 20  # in a row: others write the same object all the time


@dataclass(frozen=True, slots=True)
class Ended:
    """How a run ended: the last look, and what was decided of it: that it is over, what stands in the way, or the last step, which was taken."""

    observation: Observation
    decision: Decision

    @property
    def over(self) -> bool:
        """Whether a change, or the way back, has come to its end."""
        return is_over(self.decision) or isinstance(self.decision.step, Finish)


@dataclass
class Session:
    """One run. `tell` gets each step before it is taken, and what is waited for when that is something else."""

    observer: Observer
    actor: Actor
    tell: Callable[[str], None]
    now: Callable[[], datetime]
    sleep: Callable[[float], Awaitable[None]]
    _written: Counter[tuple[Key, type[Step], bool]] = field(default_factory=Counter)
    _told: str = ""
    _conflicts: int = 0

    async def run(self) -> Ended:
        """Work until it is over, or until nothing goes on without somebody. Raises what the API answers, and what looks raise."""
        while True:
            seen = await self.observer.observe()
            decision = decide(seen.view, self.now())
            if decision.step is not None:
                if await self._take(decision.step, seen) and isinstance(decision.step, Finish):
                    return Ended(seen, decision)
            elif is_over(decision) or not only_waits(decision):
                return Ended(seen, decision)
            else:
                self._say("; ".join(f"waits until {check.name}: {check.evidence}" for check in decision.refusals))
                await self.sleep(LOOK_AGAIN)

    async def _take(self, step: Step, seen: Observation) -> bool:
        """Whether it was taken: not where somebody has changed what it is about since the look."""
        self._say(str(step))
        try:
            await self.actor.perform(step, seen)
        except Conflict:
            self._conflicts += 1
            if self._conflicts > _CONFLICTS:
                raise
            await self.sleep(LOOK_AGAIN / 10)
            return False
        self._conflicts = 0
        self._count(step)
        return True

    def _count(self, step: Step) -> None:
        """What was written and is to be written again has been changed back in between; the other direction begins to count anew."""
        if isinstance(step, Put | Delete | Stop):
            self._written[step.key, type(step), isinstance(step, Put) and step.both] += 1
            self.observer.undone = tuple(sorted({key for (key, *_), times in self._written.items() if times > ATTEMPTS}))
        else:
            self._written.clear()
            self.observer.undone = ()

    def _say(self, what: str) -> None:
        if what != self._told:
            self._told = what
            self.tell(what)
