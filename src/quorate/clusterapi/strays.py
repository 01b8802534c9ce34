"""When each etcd member was first seen as nobody's. Kept in memory alone: a restart starts the wait again, which is on the safe side."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from quorate.core.control_plane import Stray
from quorate.core.ring import Member
from quorate.kubernetes.controller import Request


class Sightings:
    """The members of nobody, by control plane."""

    def __init__(self) -> None:
        self._since: dict[Request, dict[int, datetime]] = {}

    def of(self, request: Request, members: Sequence[Member], now: datetime) -> tuple[Stray, ...]:
        """These members as strays, each since it was first seen as one without a break; call it with every ring that was read.

        Never since a moment after `now`: a clock that was ahead then, and was set right, would have them wait for as long as it was wrong.
        """
        before = self._since.get(request, {})
        since = {member.id: min(before.get(member.id, now), now) for member in members}
        if since:
            self._since[request] = since
        else:
            self.forget(request)
        return tuple(Stray(member, since[member.id]) for member in members)

    def forget(self, request: Request) -> None:
        """The control plane is gone."""
        self._since.pop(request, None)
