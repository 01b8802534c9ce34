"""Signals and exit status of a manager process, with real signals."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from quorate.kubernetes.leader import LeadershipLost
from quorate.kubernetes.manager import CachesNotSynced, run_until_signal


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_stops_the_manager_and_the_status_is_zero(number: signal.Signals) -> None:
    ended = []

    async def run(stopping: asyncio.Event) -> None:
        os.kill(os.getpid(), number)
        await stopping.wait()
        ended.append(number)

    assert await run_until_signal(run) == 0
    assert ended == [number]
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


@pytest.mark.parametrize("error", [LeadershipLost("another leads"), CachesNotSynced("nodes: forbidden")])
async def test_a_manager_that_must_stop_exits_with_status_one(error: Exception) -> None:
    async def run(_: asyncio.Event) -> None:
        raise error

    assert await run_until_signal(run) == 1


async def test_a_fault_is_not_hidden_behind_a_status() -> None:
    async def run(_: asyncio.Event) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await run_until_signal(run)
