"""Whose turn it is to connect, where many want to at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager

MOST = 32
"""Attempts at once. Each costs some 20 ms of CPU: of a thousand that begin together, as after a start, most would meet their deadline before an answer."""
LONGEST = 2.0
"""Seconds after which an attempt counts as one that waits for an answer, and costs nothing: clusters that never answer keep nobody waiting."""


class Turns:
    """Gives turns to connect, in the order of asking."""

    def __init__(self, most: int = MOST, longest: float = LONGEST) -> None:
        self._free = asyncio.Semaphore(most)
        self._longest = longest

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[Callable[[], None]]:
        """Wait for a turn, and have it until the block ends, what it yields is called, or it has lasted its time."""
        await self._free.acquire()
        with ExitStack() as held:
            held.callback(self._free.release)
            held.callback(asyncio.get_running_loop().call_later(self._longest, held.close).cancel)
            yield held.close
