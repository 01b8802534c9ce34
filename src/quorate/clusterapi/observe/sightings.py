"""Since when things have been seen without a break, by this process and its clock.

Kept in memory alone: a restart starts the wait again, which is on the safe side.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from datetime import datetime
from typing import Generic, TypeVar

from quorate.kubernetes.controller import Request

T = TypeVar("T", bound=Hashable)


class Sightings(Generic[T]):
    """Of one kind of things, by control plane."""

    def __init__(self) -> None:
        self._since: dict[Request, dict[T, datetime]] = {}

    def of(self, request: Request, things: Iterable[T], now: datetime) -> dict[T, datetime]:
        """Since when each of these was seen without a break; call it with everything that there is, whenever that is known.

        Never since a moment after `now`: a clock that was ahead then, and was set right, would have them wait for as long as it was wrong.
        """
        before = self._since.get(request, {})
        since = {thing: min(before.get(thing, now), now) for thing in things}
        if since:
            self._since[request] = since
        else:
            self.forget(request)
        return since

    def forget(self, request: Request) -> None:
        """The control plane is gone."""
        self._since.pop(request, None)
