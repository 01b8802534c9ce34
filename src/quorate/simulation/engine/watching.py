"""One watch on a simulated API server: events in their order, each after a lag, with bookmarks, until it ends, breaks, expires or falls silent."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextvars import copy_context

import msgspec

from quorate.kubernetes.errors import Timeout
from quorate.simulation.engine.apiserver import ApiServer, Change, Failure
from quorate.simulation.engine.objects import Kind, Requirement, Stored, matches

BOOKMARK_EVERY = 60.0
"""Seconds, as API servers do."""


class Watch:
    """A watch of one kind in one namespace ("" for all).

    `lag` says after how many seconds the next event arrives; events never overtake each other. `inactivity` is after how many silent seconds the reader
    takes the connection for dead.
    """

    def __init__(
        self,
        server: ApiServer,
        kind: Kind,
        namespace: str,
        selector: tuple[Requirement, ...],
        lag: Callable[[], float],
        inactivity: float,
    ) -> None:
        self._server, self._kind, self._namespace, self._selector, self._lag = server, kind, namespace, selector, lag
        self._inactivity = inactivity
        self._loop = asyncio.get_running_loop()
        self._context = copy_context()  # the reader's: events come to it from tasks of whoever writes
        self._under_way: deque[bytes] = deque()  # timers of the same instant fire in no order, events arrive in theirs
        self._arrived: deque[bytes] = deque()
        self._end: Exception | None = None
        self._ended = False
        self._wake: asyncio.Future[None] | None = None
        self._due = 0.0
        self._silent = False
        self._timers: list[asyncio.TimerHandle] = []

    def begin(self, version: int, seconds: float) -> None:
        """Deliver everything after a version, for so many seconds. Raises a Failure where that is not kept any more."""
        for change in self._server.since(self._kind, version):
            self.tell(change)
        self._timers = [
            self._loop.call_later(BOOKMARK_EVERY, self._bookmark),
            self._loop.call_later(seconds, self.stop, None),
        ]

    def tell(self, change: Change) -> None:
        """Something has changed on the server."""
        if change.kind is self._kind and (not self._namespace or change.object.key[0] == self._namespace):
            before = change.before is not None and matches(self._selector, change.before.labels)
            after = change.after is not None and matches(self._selector, change.after.labels)
            if change.after is None and before:
                self._send("DELETED", change.object)
            elif after:
                self._send("MODIFIED" if before else "ADDED", change.object)
            elif before:  # it no longer matches: it goes as it is now
                self._send("DELETED", change.object)

    def stop(self, error: Exception | None) -> None:
        """End the stream: with nothing, as the server does after its time, or with an error that the reader gets. Idempotent."""
        if not self._ended:
            self._ended, self._end = True, error
            self._rouse()

    def expire(self) -> None:
        """End it as API servers do when the history that it needs is gone: with an error in the stream."""
        self._arrived.append(msgspec.json.encode({"type": "ERROR", "object": status(410, "Expired", "too old resource version")}) + b"\n")
        self._rouse()

    def silence(self) -> None:
        """Nothing arrives any more, and nobody says so: a connection that died without a word."""
        self._silent = True
        self._timers.append(self._loop.call_later(self._inactivity, self.stop, Timeout(f"no answer within {self._inactivity:g} s")))

    def close(self) -> None:
        """Let go of the timers."""
        for timer in self._timers:
            timer.cancel()

    async def chunks(self) -> AsyncIterator[bytes]:
        """What arrives, as it arrives."""
        while True:
            if self._arrived:
                chunk = b"".join(self._arrived)
                self._arrived.clear()
                yield chunk
            elif self._ended:
                if self._end is not None:
                    raise self._end
                return
            else:
                self._wake = self._loop.create_future()
                await self._wake

    def _send(self, kind: str, stored: Stored) -> None:
        self._schedule(b'{"type":"%b","object":%b}\n' % (kind.encode(), stored.data))

    def _bookmark(self) -> None:
        metadata = {"resourceVersion": str(self._server.version)}
        body = {"apiVersion": self._kind.api_version, "kind": self._kind.kind, "metadata": metadata}
        self._schedule(msgspec.json.encode({"type": "BOOKMARK", "object": body}) + b"\n")
        self._timers[0] = self._loop.call_later(BOOKMARK_EVERY, self._bookmark)

    def _schedule(self, event: bytes) -> None:
        if not self._silent:
            self._due = max(self._due, self._loop.time() + self._lag())
            self._under_way.append(event)
            self._loop.call_at(self._due, self._arrive, context=self._context)

    def _arrive(self) -> None:
        if not self._silent and not self._ended:
            self._arrived.append(self._under_way.popleft())
            self._rouse()

    def _rouse(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)


def status(code: int, reason: str, message: str) -> dict[str, object]:
    """A Status of a failure."""
    return {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "message": message, "code": code}


def failure_status(failure: Failure) -> dict[str, object]:
    """A Failure as a Status."""
    return status(failure.code, failure.reason, failure.message)
