"""No collection of garbage stops the event loop for long, and none is given up."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from quorate.kubernetes.garbage_collection import GarbageCollector


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    yield
    gc.enable()
    gc.unfreeze()


class Node:
    """One half of a cycle."""

    other: Node


def a_cycle() -> Node:
    first, second = Node(), Node()
    first.other, second.other = second, first
    return first


def left() -> bool:
    """Whether any such cycle is there, frozen or not: what is frozen is shown only once it is not."""
    gc.unfreeze()
    found = any(isinstance(each, Node) for each in gc.get_objects())
    gc.freeze()
    return found


async def running(collector: GarbageCollector, seconds: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await collector.run()


def test_what_is_there_when_the_caches_are_filled_is_not_looked_at_again_and_nothing_begins_by_itself() -> None:
    GarbageCollector().settle()
    assert gc.get_freeze_count() > 1000
    assert not gc.isenabled()


async def test_what_was_dropped_is_collected_in_a_moment() -> None:
    collector = GarbageCollector(lambda: 0.0)
    collector.settle()
    a_cycle()
    await running(collector, 2.5)
    assert not left()


async def test_a_process_that_grows_looks_at_what_is_new_alone() -> None:
    """Without it each collection looks at all that came before, and takes longer than the one before."""
    collector = GarbageCollector()
    collector.settle()
    looked_at: list[int] = []

    def count(phase: str, _info: dict[str, Any]) -> None:
        if phase == "start":
            looked_at.append(sum(len(gc.get_objects(generation)) for generation in range(3)))

    grown: list[list[list[int]]] = []
    gc.callbacks.append(count)
    try:
        async with asyncio.TaskGroup() as tasks:
            collecting = tasks.create_task(collector.run())
            for _ in range(10):
                grown += ([[]] for _ in range(100_000))
                await asyncio.sleep(2.0)
            collecting.cancel()
    finally:
        gc.callbacks.remove(count)
    assert len(looked_at) >= 9
    assert max(looked_at) < 500_000 < 2 * len(grown)


@pytest.mark.parametrize(("seconds", "frozen"), [(0.004, False), (0.006, True)])
async def test_only_what_takes_long_to_look_at_is_spared(seconds: float, frozen: bool) -> None:
    times = iter([0.0, seconds])
    collector = GarbageCollector(lambda: next(times))
    collector.settle()
    gc.unfreeze()
    await running(collector, 2.5)
    assert (gc.get_freeze_count() > 0) is frozen


async def test_cycles_that_were_spared_are_collected_once_a_day(monkeypatch: pytest.MonkeyPatch) -> None:
    collector = GarbageCollector(lambda: 0.0)
    monkeypatch.setattr(collector, "_look", lambda: None)  # 43,200 times a day
    collector.settle()
    cycle = a_cycle()
    gc.freeze()
    del cycle
    gc.collect()
    assert left()
    await running(collector, 86_401)
    assert not left()
