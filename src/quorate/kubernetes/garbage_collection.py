"""Python's collector of cyclic garbage, in a process with millions of objects that stay: no pause that others notice.

A collection stops everything for as long as it takes to look at each object: 40 ms for 300,000, 400 ms for 3 million, and a thousand workload clusters are
connected by as many. Left to itself it begins when there are so many objects more than before: in a process that makes as many as it drops that is seldom, and
then it has a million new ones to look at. So it looks every few seconds here, or twice in one while there is much, at what is new since; and what takes long to
look at is not looked at again (`gc.freeze`), but for once a day.

Nearly everything is freed without it, by reference counts, frozen or not; the caches hold trees, and are out of its sight already.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable
from typing import Protocol

import structlog

_SOON, _LATEST = 0.5, 8.0  # seconds; a look takes 1 ms at rest, and 40 ms for what fifty control planes that roll leave behind in one
_LONG = 0.005  # seconds for 50,000 objects: what is spared from then on, or it would cost as much again each time
_DAY = 86_400.0

_log = structlog.get_logger(__name__)


class Collector(Protocol):
    """What Python's module `gc` is."""

    def disable(self) -> None:
        """Begin no collection by itself."""

    def collect(self) -> int:
        """Look at all that is not frozen, and free what nobody can reach; how many objects that were."""

    def freeze(self) -> None:
        """Look no more at what there is now."""

    def unfreeze(self) -> None:
        """Look at everything again."""


class GarbageCollector:
    """The collector of this process, once its caches are filled. `now` is a monotonic clock in seconds."""

    def __init__(self, collector: Collector = gc, now: Callable[[], float] = time.perf_counter) -> None:
        self._collector, self._now = collector, now

    def settle(self) -> None:
        """Collect what there is, have everything that is there now looked at no more, and nothing but `run` begin a collection. For the whole process."""
        self._collector.disable()
        self._collector.collect()
        self._collector.freeze()

    async def run(self) -> None:
        """Look at what is new, and at everything once a day: at cycles, too, that were dropped after they had been frozen. Until cancelled."""
        clock = asyncio.get_running_loop().time
        while True:
            end, pause = clock() + _DAY, _SOON
            while clock() < end:
                await asyncio.sleep(pause)
                pause = _SOON if self._took_long() else min(2 * pause, _LATEST)
            self._collector.unfreeze()
            _log.info("full garbage collection", unreachable=self._collector.collect())
            self._collector.freeze()

    def _took_long(self) -> bool:
        """Look at what is new; whether there was so much of it that it is spared from now on."""
        began = self._now()
        self._collector.collect()
        if self._now() - began <= _LONG:
            return False
        self._collector.freeze()
        return True
