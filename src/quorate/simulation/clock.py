"""Virtual time: an event loop on which nothing waits, every delay is exact, and a deadlock is an error at once."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TypeVar

T = TypeVar("T")


class Deadlock(RuntimeError):
    """No task can run, and no timer is set: everybody waits for somebody else."""


class _NullSelector(selectors.SelectSelector):
    """Never sees any I/O; instead of waiting it moves the clock."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise Deadlock("no task can run, and no timer is set")
        if timeout > 0:
            self.now += timeout
        return []


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop on which sleeping takes no time, and on which there are no threads: what is sent to one is done at once, in its place.

    What runs on it is deterministic as long as it asks neither the real clock nor unseeded randomness.
    """

    def __init__(self) -> None:
        self._null = _NullSelector()
        super().__init__(self._null)

    def time(self) -> float:
        """Seconds since the loop was made, in its own time."""
        return self._null.now

    def run_in_executor(self, executor: Executor | None, func: Callable[..., T], *args: object) -> asyncio.Future[T]:  # noqa: ARG002
        """Call `func` now; the future is done already."""
        future: asyncio.Future[T] = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 (it is the caller's, as from a thread)
            future.set_exception(error)
        return future
