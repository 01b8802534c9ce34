"""Python's collector of cyclic garbage, in a process with millions of objects that stay: no pause that others notice.

A collection stops everything for as long as it takes to look at each object: 40 ms for 300,000, 400 ms for 3 million, and a thousand workload clusters are
connected by as many. Nearly everything is freed without it, by reference counts; the caches hold trees, and are out of its sight already.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable

import structlog

_DAY = 86_400.0
_THRESHOLDS = (10_000, 5, 1_000_000_000)
"""Objects more than there were, until the new ones are looked at; young collections until a second look at what outlived them, 60,000 objects at most; and
those until a full one: never by itself. With the default of 700 a list of 5,000 objects costs 3 times as much to decode."""

_log = structlog.get_logger(__name__)


def settle() -> None:
    """Have the collector look at new objects only, and never again at those that are there now. Call it once the caches are filled; for the whole process."""
    gc.set_threshold(*_THRESHOLDS)
    gc.collect()
    gc.freeze()


class FullCollections:
    """A full collection once a day: of cycles that outlived two looks and were dropped then."""

    def __init__(self, collect: Callable[[], int] = gc.collect) -> None:
        self._collect = collect

    async def run(self) -> None:
        """Collect every 24 hours until cancelled."""
        while True:
            await asyncio.sleep(_DAY)
            _log.debug("full garbage collection", unreachable=self._collect())
