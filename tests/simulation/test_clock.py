"""Virtual time: nothing waits, threads do not exist, and a deadlock is an error."""

from __future__ import annotations

import asyncio
import time

import pytest

from quorate.simulation.clock import Deadlock, VirtualTimeLoop


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
