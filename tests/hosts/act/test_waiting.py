"""Health gates end as soon as there is nothing against them, pause a second at most, tell each reason once, and fail with the last one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import pytest

from quorate.hosts.act.concurrently import on_all
from quorate.hosts.act.failures import StepFailed
from quorate.hosts.act.waiting import LONGEST_PAUSE, Ask, Waits
from quorate.hosts.connect.ssh.errors import ConnectionCut
from quorate.kubernetes.errors import ConnectionFailed


class Clock:
    """Time that passes only by pauses."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.pauses: list[float] = []
        self.reports: list[str] = []

    async def sleep(self, duration: float) -> None:
        self.seconds += duration
        self.pauses.append(duration)

    @property
    def waits(self) -> Waits:
        return Waits(lambda host, what: self.reports.append(f"{host}: {what}"), lambda: self.seconds, self.sleep)


def saying(answers: Iterable[str | Exception]) -> Ask:
    following = iter(answers)

    async def ask() -> str:
        answer = next(following)
        if isinstance(answer, Exception):
            raise answer
        return answer

    return ask


async def test_what_is_so_is_not_waited_for() -> None:
    clock = Clock()
    await clock.waits.until("h1", "the API server", saying([""]), deadline=5)
    assert (clock.pauses, clock.reports) == ([], [])


async def test_each_reason_is_told_once_and_what_does_not_answer_is_asked_again() -> None:
    clock = Clock()
    answers: list[str | Exception] = ["booting", "booting", ConnectionFailed("connection refused"), ConnectionCut("h1", "gone"), ""]
    await clock.waits.until("h1", "the API server", saying(answers), deadline=60)
    assert clock.reports == [
        "h1: waiting for the API server: booting",
        "h1: waiting for the API server: connection refused",
        "h1: waiting for the API server: h1: gone",
    ]


async def test_pauses_double_up_to_a_second_and_the_last_reason_is_the_failure() -> None:
    clock = Clock()
    with pytest.raises(StepFailed) as failed:
        await clock.waits.until("h1", "its Node", saying(["none"] * 1000), deadline=30, remedy="Look at it")
    assert max(clock.pauses) == LONGEST_PAUSE
    assert clock.pauses[:3] == [0.05, 0.1, 0.2]
    assert clock.seconds == pytest.approx(30)
    assert str(failed.value) == "h1: its Node did not come about within 30 s: none. Look at it"


async def test_a_mistake_of_our_own_is_not_waited_out() -> None:
    with pytest.raises(ZeroDivisionError):
        await Clock().waits.until("h1", "nothing", saying([ZeroDivisionError()]), deadline=30)


async def test_work_on_all_hosts_keeps_to_its_limit_and_names_every_failure() -> None:
    running, most, told = 0, 0, []

    async def work(host: str) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        if host in ("h2", "h4"):
            raise ConnectionCut(host, "gone")

    with pytest.raises(StepFailed) as failed:
        await on_all(["h1", "h2", "h3", "h4"], work, lambda host, what: told.append(f"{host} {what}"), limit=2)
    assert most == 2
    assert (failed.value.where, failed.value.cause) == ("h2, h4", "h2: gone; h4: gone")
    assert sorted(told) == ["h1 done", "h2 failed: gone", "h3 done", "h4 failed: gone"]
