"""No collection of garbage stops the event loop for long, and none is given up."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from quorate.kubernetes.garbage_collection import GarbageCollector

Watch = Callable[[str, dict[str, Any]], None]


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    thresholds, callbacks = gc.get_threshold(), list(gc.callbacks)
    yield
    gc.set_threshold(*thresholds)
    gc.callbacks[:] = callbacks
    gc.unfreeze()


def test_what_is_there_when_the_caches_are_filled_is_not_looked_at_again() -> None:
    GarbageCollector().settle()
    assert gc.get_freeze_count() > 1000


def test_a_process_that_grows_by_two_million_objects_looks_at_few_of_them_at_a_time() -> None:
    """Without it each full collection looks at all that came before, and takes longer than the one before."""
    GarbageCollector().settle()
    most = 0

    def count(phase: str, info: dict[str, Any]) -> None:
        nonlocal most
        if phase == "start" and info["generation"] == 2:
            most = max(most, sum(len(gc.get_objects(generation)) for generation in range(3)))

    gc.callbacks.append(count)
    grown: list[list[list[int]]] = [[[]] for _ in range(1_000_000)]
    assert len(grown) == 1_000_000
    assert 300_000 < most < 1_000_000


@pytest.mark.parametrize(("seconds", "frozen"), [(0.01, False), (0.03, True)])
def test_only_what_takes_long_to_look_at_is_spared(seconds: float, frozen: bool) -> None:
    times = iter([0.0, seconds])
    GarbageCollector(lambda: next(times)).settle()
    gc.unfreeze()
    gc.collect()
    assert (gc.get_freeze_count() > 0) is frozen


async def test_cycles_that_were_spared_are_collected_once_a_day() -> None:
    class Node:
        other: Node

    collector = GarbageCollector()
    collector.settle()
    first, second = Node(), Node()
    first.other, second.other = second, first
    gc.freeze()
    del first, second
    gc.collect()
    assert any(isinstance(found, Node) for found in _everything())
    with suppress(TimeoutError):
        async with asyncio.timeout(86_401):
            await collector.run()
    assert not any(isinstance(found, Node) for found in _everything())


def _everything() -> list[Any]:
    """All objects that the collector knows, frozen ones included, which are shown only once they are not."""
    gc.unfreeze()
    found = gc.get_objects()
    gc.freeze()
    return found
