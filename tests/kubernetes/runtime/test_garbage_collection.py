"""No collection of garbage stops the event loop for long, and none is given up."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from quorate.kubernetes import garbage_collection
from quorate.kubernetes.garbage_collection import FullCollections


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    thresholds = gc.get_threshold()
    yield
    gc.set_threshold(*thresholds)
    gc.unfreeze()


def test_what_is_there_when_the_caches_are_filled_is_never_looked_at_again() -> None:
    garbage_collection.settle()
    assert gc.get_freeze_count() > 1000


def test_a_process_that_grows_by_half_a_million_objects_looks_at_few_of_them_at_a_time() -> None:
    """A full collection of them takes 70 ms and more, which none of the collections that they cause comes near."""
    garbage_collection.settle()
    stops: list[float] = []

    def measure(phase: str, info: dict[str, Any]) -> None:
        assert info["generation"] < 2
        stops.append(time.thread_time() if phase == "start" else time.thread_time() - stops.pop())

    gc.callbacks.append(measure)
    try:
        grown: list[list[list[int]]] = [[[]] for _ in range(250_000)]
    finally:
        gc.callbacks.remove(measure)
    assert len(grown) == 250_000
    assert len(stops) >= 40  # each of them is asked
    began = time.thread_time()
    gc.collect()
    assert max(stops) < (time.thread_time() - began) / 2


async def test_a_full_collection_comes_once_a_day() -> None:
    collected: list[float] = []

    def collect() -> int:
        collected.append(asyncio.get_running_loop().time())
        return 0

    with suppress(TimeoutError):
        async with asyncio.timeout(3 * 86_400 + 1):
            await FullCollections(collect).run()
    assert collected == [86_400, 172_800, 259_200]
