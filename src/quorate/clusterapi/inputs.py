"""When each control plane was told of a change last: the start of the clock for how fast its provider reacts."""

from __future__ import annotations

from collections.abc import Callable

from quorate.kubernetes.controller import Request
from quorate.kubernetes.handlers import Adder


class Inputs:
    """A work queue's face for whatever tells of changes: every watch, on the management cluster and on workload clusters, and the caches that have caught up.

    `clock` is monotonic, in seconds.
    """

    def __init__(self, queue: Adder, clock: Callable[[], float]) -> None:
        self._queue = queue
        self._clock = clock
        self._last: dict[Request, float] = {}

    def add(self, key: Request, *, priority: int = 0) -> None:
        """Something that concerns this control plane has changed."""
        self._last[key] = self._clock()
        self._queue.add(key, priority=priority)

    def settled(self, key: Request) -> None:
        """A step has been carried out: what follows it answers to that."""
        self._last[key] = self._clock()

    def since_last(self, key: Request) -> float | None:
        """Seconds since the last change; None where there was none yet."""
        last = self._last.get(key)
        return None if last is None else self._clock() - last

    def forget(self, key: Request) -> None:
        """The control plane is gone."""
        self._last.pop(key, None)
