"""How many probes in a row a host or member missed, which one observation cannot tell: it is called dead only after several, apart in time."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Generic, TypeVar

from quorate.core.hosts.rules.members import PROBE_INTERVAL
from quorate.core.hosts.state import MissedProbes
from quorate.core.ring import Ring

Key = TypeVar("Key")


class Unanswered(Generic[Key]):
    """Who is silent, since how many probes. Whoever answers once starts anew."""

    def __init__(self) -> None:
        self._silent: dict[Key, MissedProbes] = {}

    def note(self, asked: Iterable[Key], silent: Iterable[Key], now: datetime) -> None:
        """Take note of one probe of all of `asked`, of whom these gave no answer. Of others than those asked nothing is kept."""
        quiet = set(silent)
        self._silent = {key: _after(self._silent.get(key), now) for key in asked if key in quiet}

    def of(self, key: Key) -> MissedProbes | None:
        """The probes that it missed; None where it answered when it was last asked."""
        return self._silent.get(key)


def _after(before: MissedProbes | None, now: datetime) -> MissedProbes:
    if before is None:
        return MissedProbes(1, now)
    return MissedProbes(before.count + 1, now) if now - before.last >= PROBE_INTERVAL else before


class Memory:
    """What is carried from one observation of a cluster to the next, within one run."""

    def __init__(self) -> None:
        self.hosts: Unanswered[str] = Unanswered()  # by the host's name
        self.members: Unanswered[int] = Unanswered()  # by the member's id
        self._without_vote: dict[int, tuple[datetime, datetime]] = {}  # by the member's id: when that was seen first, and last

    def note_members(self, ring: Ring, silent: Iterable[int], now: datetime) -> None:
        """Take note of one reading of the ring."""
        self.members.note((member.id for member in ring.members), silent, now)
        voteless = [member.id for member in ring.members if not member.votes]
        self._without_vote = {member: (self._without_vote.get(member, (now, now))[0], now) for member in voteless}

    def without_vote_for(self, member: int) -> timedelta:
        """How long it has been seen without a vote, up to the last reading."""
        seen = self._without_vote.get(member)
        return seen[1] - seen[0] if seen is not None else timedelta()
