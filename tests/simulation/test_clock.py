"""Virtual time: nothing waits, threads do not exist, a deadlock is an error, and a program can be suspended while the others go on."""

from __future__ import annotations

import asyncio
import time

import pytest

from quorate.simulation.engine.clock import Deadlock, VirtualTimeLoop, program, running_loop


async def test_an_hour_of_sleep_takes_no_time() -> None:
    loop, before = asyncio.get_running_loop(), time.monotonic()
    await asyncio.sleep(3600.0)
    assert loop.time() == pytest.approx(3600.0)
    assert time.monotonic() - before < 5


async def test_what_is_sent_to_a_thread_is_done_in_its_place() -> None:
    done: list[str] = []
    await asyncio.to_thread(done.append, "thread")
    assert done == ["thread"]


async def test_what_a_thread_raises_arrives() -> None:
    def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await asyncio.to_thread(fail)


def test_a_deadlock_is_an_error_at_once() -> None:
    async def wait_for_ever() -> None:
        await asyncio.get_running_loop().create_future()

    loop = VirtualTimeLoop()
    task = loop.create_task(wait_for_ever())
    with pytest.raises(Deadlock, match="no task can run"):
        loop.run_until_complete(task)
    task.cancel()
    loop.run_until_complete(asyncio.wait((task,)))
    loop.close()


class Ticking:
    """A program that notes the time every second, and gives up what it waits for after ten."""

    def __init__(self) -> None:
        self.ticks: list[float] = []
        self.gave_up_at = 0.0

    async def run(self) -> None:
        program.set("ticking")
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._wait())
            while len(self.ticks) < 6:
                await asyncio.sleep(1.0)
                self.ticks.append(round(running_loop().time(), 3))

    async def _wait(self) -> None:
        try:
            async with asyncio.timeout(10.0):
                await running_loop().create_future()
        except TimeoutError:
            self.gave_up_at = running_loop().time()


async def test_a_suspended_program_does_nothing_until_it_is_resumed_and_then_goes_on() -> None:
    loop, ticking = running_loop(), Ticking()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(ticking.run())
        await asyncio.sleep(2.5)
        loop.suspend("ticking")
        await asyncio.sleep(60.0)
        assert ticking.ticks == [1.0, 2.0]
        loop.resume("ticking")
    assert ticking.ticks == [1.0, 2.0, 62.5, 63.5, 64.5, 65.5]
    assert ticking.gave_up_at == pytest.approx(62.5)


async def test_what_a_suspended_program_had_cancelled_is_not_done_when_it_is_resumed() -> None:
    loop, done = running_loop(), list[str]()

    async def run() -> None:
        program.set("cancelling")
        later = loop.call_later(2.0, done.append, "too late")
        loop.call_later(1.0, later.cancel)
        await asyncio.sleep(3.0)

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(run())
        await asyncio.sleep(0.5)
        loop.suspend("cancelling")
        await asyncio.sleep(10.0)
        loop.resume("cancelling")
    assert done == []
