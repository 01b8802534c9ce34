"""What one process asked the ring and did to it, with the times: what an invariant needs to know which truth the process could have known."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Removal:
    """A process is removing a member at this instant."""

    process: str
    member: int
    read_since: (
        float | None
    )  # when the reading made for it was begun; None: the ring was not listed since the decision, or since the last change
    moved_leader_since: bool  # was leadership tried to be moved since that reading


class Journal:
    """The record of one process and one cluster. `on_removal` is called at the instant before a removal takes effect."""

    def __init__(self, process: str, clock: Callable[[], float], on_removal: Callable[[Removal], None]) -> None:
        self._process, self._clock, self._on_removal = process, clock, on_removal
        self._first_question: float | None = None  # of the reading that is being made
        self._reading: float | None = None  # when the last complete reading was begun
        self._decided = False  # was a step decided on at all
        self._fresh: float | None = None  # when the last complete reading since the decision was begun
        self._moved = False

    def decided(self) -> None:
        """A step was decided on: what was read so far is what it was decided by, and no reading made for the step."""
        self._decided, self._fresh, self._first_question = True, None, None

    def asked(self) -> None:
        """A member was asked for its status: a reading begins with these."""
        if self._first_question is None:
            self._first_question = self._clock()

    def listed(self, started: float) -> None:
        """The members were listed: the reading is complete."""
        self._reading = started if self._first_question is None else self._first_question
        self._fresh = self._reading if self._decided else None
        self._first_question = None

    def tried_to_move_leader(self) -> None:
        """Leadership was asked to move."""
        self._moved = True

    def removes(self, member: int) -> None:
        """A member is about to be removed."""
        self._on_removal(Removal(self._process, member, self._fresh, self._moved))
        self._reading, self._fresh, self._moved = None, None, False

    @property
    def reading(self) -> float | None:
        """When the last complete reading was begun; None where the ring was changed since."""
        return self._reading


current: ContextVar[Journal | None] = ContextVar("journal", default=None)
"""The record of the process that runs in this task; None outside of one."""
