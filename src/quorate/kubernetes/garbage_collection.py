"""Python's collector of cyclic garbage, in a process with millions of objects that stay: no pause that others notice.

A collection stops everything for as long as it takes to look at each object: 40 ms for 300,000, 400 ms for 3 million, and a thousand workload clusters are
connected by as many. Whatever takes long to look at is therefore not looked at again (`gc.freeze`), but for once a day. Nearly everything is freed without a
collection, by reference counts, frozen or not; the caches hold trees, and are out of the collector's sight already.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable
from typing import Any

import structlog

_DAY = 86_400.0
_THRESHOLDS = (10_000, 5, 4)
"""Objects more than there were, until the new ones are looked at; young collections until a second look at what outlived them, 60,000 objects; and those
until a full one, which so has 300,000 new ones. With the default of 700 a list of 5,000 objects costs 3 times as much to decode."""
_LONG = 0.02  # seconds for a full collection, after which it is spared what it has looked at

_log = structlog.get_logger(__name__)


class GarbageCollector:
    """The collector of this process, once its caches are filled. `now` is a monotonic clock in seconds."""

    def __init__(self, now: Callable[[], float] = time.perf_counter) -> None:
        self._now = now
        self._began = 0.0

    def settle(self) -> None:
        """Set the thresholds, collect what there is, and have everything that is there now looked at no more. Once, for the whole process."""
        gc.set_threshold(*_THRESHOLDS)
        gc.collect()
        gc.freeze()
        gc.callbacks.append(self._look)

    def _look(self, phase: str, info: dict[str, Any]) -> None:
        if phase == "start":
            self._began = self._now()
        elif info["generation"] == 2 and self._now() - self._began > _LONG:
            gc.freeze()

    async def run(self) -> None:
        """Look at everything once a day, until cancelled: at cycles, too, that were dropped after they had been frozen."""
        while True:
            await asyncio.sleep(_DAY)
            gc.unfreeze()
            _log.info("full garbage collection", unreachable=gc.collect())
            gc.freeze()
