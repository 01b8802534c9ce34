"""No collection of garbage stops the event loop for long, and none is given up."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from contextlib import suppress

import pytest

from quorate.kubernetes.garbage_collection import GarbageCollector


class Told:
    """A collector that keeps what it was told to do, and when; each collection takes so many seconds."""

    def __init__(self, seconds: float = 0.001) -> None:
        self.done: list[str] = []
        self._seconds, self._now = seconds, 0.0

    def now(self) -> float:
        return self._now

    def disable(self) -> None:
        self.done.append("disable")

    def collect(self) -> int:
        self._now += self._seconds
        self.done.append("collect")
        return 0

    def freeze(self) -> None:
        self.done.append("freeze")

    def unfreeze(self) -> None:
        self.done.append("unfreeze")


async def running(told: Told, seconds: float) -> list[str]:
    """What it was told to do in so many seconds."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await GarbageCollector(told, told.now).run()
    return told.done


def test_what_is_there_when_the_caches_are_filled_is_not_looked_at_again_and_nothing_begins_by_itself() -> None:
    told = Told()
    GarbageCollector(told, told.now).settle()
    assert told.done == ["disable", "collect", "freeze"]


async def test_it_looks_less_and_less_often_while_there_is_little_and_every_eight_seconds_at_least() -> None:
    assert await running(Told(), 7.6) == ["collect"] * 4  # after 0.5, 1.5, 3.5 and 7.5 s
    assert await running(Told(), 80.0) == ["collect"] * 13


@pytest.mark.parametrize(("seconds", "done"), [(0.004, ["collect"] * 3), (0.006, ["collect", "freeze"] * 9)])
async def test_only_what_takes_long_to_look_at_is_spared_and_looked_for_more_often(seconds: float, done: list[str]) -> None:
    assert await running(Told(seconds), 4.9) == done


async def test_what_was_spared_is_looked_at_once_a_day() -> None:
    done = await running(Told(), 86_410.0)
    once = done.index("unfreeze")
    assert done[once - 1 : once + 3] == ["collect", "unfreeze", "collect", "freeze"]
    assert done.count("unfreeze") == 1


# A process of its own: what the others here have made would be looked at, too.
_GROWING = """
import asyncio, gc, itertools
from quorate.kubernetes.garbage_collection import GarbageCollector
from quorate.simulation.engine.clock import VirtualTimeLoop

class Node:
    other = None

looked_at, grown = [], []
gc.callbacks.append(lambda phase, _: phase == "start" and looked_at.append(sum(len(gc.get_objects(each)) for each in range(3))))

async def main():
    collector = GarbageCollector(now=itertools.count(step=0.01).__next__)  # each look takes long
    collector.settle()
    looked_at.clear()
    running = asyncio.ensure_future(collector.run())
    for _ in range(10):
        grown.extend([[]] for _ in range(100_000))
        first, second = Node(), Node()
        first.other, second.other = second, first
        del first, second
        await asyncio.sleep(2.0)
    running.cancel()

with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
    runner.run(main())
gc.unfreeze()
print(len(looked_at), max(looked_at), sum(isinstance(each, Node) for each in gc.get_objects()))
"""


def test_a_process_that_grows_looks_at_what_is_new_alone_and_keeps_no_cycles() -> None:
    """Two million objects in twenty seconds: left to itself Python would look at all of them in the end."""
    done = subprocess.run([sys.executable, "-c", _GROWING], capture_output=True, text=True, timeout=50, check=True)
    looks, most, cycles = map(int, done.stdout.split())
    assert looks >= 9
    assert most < 500_000
    assert cycles <= 2  # of the last two seconds
