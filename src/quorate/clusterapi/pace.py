"""When a control plane is reported on, and how long to wait after a conflict."""

from __future__ import annotations

from collections.abc import Callable

from quorate.kubernetes.controller import Request

GATHER, PACE, WORDING = 0.15, 1.0, 10.0
"""Seconds from a change to the report of it, from one report of a control plane to the next, and from one that writes the wording of conditions to the next.

A machine that comes up changes a dozen facts within a second, each report is several writes, and other controllers write to the same Machines at the same time.
Without the last, one status write in five would change nothing but a sentence.
"""

SHARE, LONGEST_PACE = 0.1, 10.0
"""The part of its time that a control plane may spend on being reported on, and the seconds that it waits at most for the next report because of that.

Each write of a status wakes several other controllers. An API server at rest takes 20 ms for a report, one that thirty control planes of three keep busy on
two cores a second: there, reports once a second take the room that the work itself needs.
"""

AFTER_CONFLICT, LONGEST_AFTER_CONFLICT = 0.05, 5.0  # seconds; what conflicts for as long as that is reported


class Pace:
    """Gathers changes into reports and spreads these, for each control plane. `clock` is monotonic, in seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._due: dict[Request, float] = {}
        self._last: dict[Request, float] = {}
        self._next: dict[Request, float] = {}
        self._worded: dict[Request, float] = {}
        self._conflicts: dict[Request, int] = {}

    def too_early(self, request: Request) -> float:
        """How long the next report must wait; 0 means that it is made now."""
        now = self._clock()
        due = self._due.setdefault(request, max(now + GATHER, self._next.get(request, now)))
        if due > now:
            return due - now
        del self._due[request]
        return 0.0

    def too_early_for_wording(self, request: Request) -> float:
        """How long another wording must wait where there is no news; 0 means that it is written now."""
        return max(0.0, self._worded.get(request, -WORDING) + WORDING - self._clock())

    def begun(self, request: Request, *, wording: bool) -> None:
        """A report is being written: of all that has changed, or of what is news."""
        now = self._clock()
        self._due.pop(request, None)
        self._last[request], self._next[request] = now, now + PACE
        if wording:
            self._worded[request] = now

    def written(self, request: Request) -> None:
        """The report that was begun has been written, or could not be."""
        now = self._clock()
        took = now - self._last[request]
        self._next[request] = max(self._next[request], now + min(took / SHARE, LONGEST_PACE))

    def conflicted(self, request: Request) -> float:
        """How long to wait after one more conflict in a row: the cache is behind, for a moment as a rule, and for over a minute where a watch has died."""
        before = self._conflicts.get(request, 0)
        self._conflicts[request] = before + 1
        return min(AFTER_CONFLICT * 2.0 ** min(before, 10), LONGEST_AFTER_CONFLICT)

    def agreed(self, request: Request) -> None:
        """A step met no conflict."""
        self._conflicts.pop(request, None)

    def forget(self, request: Request) -> None:
        """The control plane is gone."""
        for kept in (self._conflicts, self._due, self._last, self._next, self._worded):
            kept.pop(request, None)
