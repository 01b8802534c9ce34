"""What of a process' time goes into one server's answers: those who share the process must not wait for a server that sends without end."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Iterator
from contextlib import contextmanager

import aiohttp
from aiohttp.client_proto import ResponseHandler


class Share:
    """So much CPU may go into what one server sends: `burst` seconds at once, and `part` of the time from then on; by default, as much as it takes.

    The time of this thread is counted, and not what others on the machine take meanwhile. Whoever spends it asks `wait` before the next piece.
    """

    def __init__(self, part: float = 1.0, burst: float = math.inf) -> None:
        self.part = part
        self._burst = self._left = burst
        self._filled_at = -math.inf

    @contextmanager
    def spending(self) -> Iterator[None]:
        """Count the time of the block, in which nothing may be awaited."""
        began = self.begin()
        try:
            yield
        finally:
            self.end(began)

    def begin(self) -> float:
        """The beginning of what is counted; for who yields meanwhile, and may not come back."""
        return time.thread_time()

    def end(self, began: float) -> None:
        """Count what was taken since that beginning."""
        self._left -= time.thread_time() - began

    def wait(self) -> float:
        """Seconds until something is left; 0 where something is."""
        now = asyncio.get_running_loop().time()
        self._left, self._filled_at = min(self._burst, self._left + (now - self._filled_at) * self.part), now
        return max(0.0, -self._left / self.part)

    @property
    def overdrawn(self) -> bool:
        """Whether as much was spent again as there was, since whoever sends does not wait to be asked."""
        return self.wait() > self._burst / self.part


class CountedHandler(ResponseHandler):
    """aiohttp's protocol of one connection, which counts what it takes to understand what comes in, and drops the connection of whoever does not stop.

    For the connectors' hook `_factory`, as tests/hosts/test_library_contracts.py watches it.
    """

    def __init__(self, share: Share, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self._share = share

    def data_received(self, data: bytes) -> None:
        """Understand what came in."""
        with self._share.spending():
            super().data_received(data)
        if self._share.overdrawn and self.transport is not None:
            self.set_exception(aiohttp.ClientOSError("it sends without an end"))
            self.transport.abort()
