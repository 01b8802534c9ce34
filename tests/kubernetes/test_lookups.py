"""Names are looked up in threads of their own, each once however many ask, and nobody who gives up disturbs another."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import threading
from typing import Any

import pytest
from structlog.testing import capture_logs

from quorate.kubernetes.lookups import Lookups

FOUND = [(socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("fe80::1", 0, 0, 7)), (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("192.0.2.1", 0))]
HANGS = """
import asyncio, socket, time
from quorate.kubernetes.lookups import Lookups
socket.getaddrinfo = lambda *_, **__: time.sleep(600)
async def give_up():
    async with asyncio.timeout(0.1):
        await Lookups().resolve("hung.test")
try:
    asyncio.run(give_up())
except TimeoutError:
    print("gave up")
"""


class Names:
    """What looks names up, when it is `released`; how often it was asked, and by how many at once."""

    def __init__(self) -> None:
        self.released = threading.Event()
        self.answer: list[Any] | Exception = FOUND
        self.asked = self.busy = self.most_busy = 0

    def getaddrinfo(self, *_: Any, **__: Any) -> list[Any]:
        self.asked += 1
        self.busy += 1
        self.most_busy = max(self.busy, self.most_busy)
        self.released.wait(30)
        self.busy -= 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Names:
    names = Names()
    monkeypatch.setattr(socket, "getaddrinfo", names.getaddrinfo)
    return names


async def test_many_who_ask_for_a_name_wait_for_one_lookup_and_one_who_gives_up_ends_it_for_nobody(names: Names) -> None:
    lookups = Lookups()
    async with asyncio.TaskGroup() as tasks:
        asking = [tasks.create_task(lookups.resolve("a.test", 6443)) for _ in range(3)]
        await asyncio.sleep(0)
        asking[0].cancel()
        names.released.set()
    assert asking[0].cancelled()
    for each in asking[1:]:
        assert [(found["host"], found["port"]) for found in each.result()] == [("fe80::1%7", 6443), ("192.0.2.1", 6443)]
    assert names.asked == 1
    await lookups.resolve("a.test", 6443)
    assert names.asked == 2


async def test_a_failure_is_told_to_whoever_still_waits_and_logged_by_nobody(names: Names, caplog: pytest.LogCaptureFixture) -> None:
    lookups = Lookups()
    names.answer = socket.gaierror(socket.EAI_NONAME, "there is none")
    with capture_logs() as logged:
        async with asyncio.TaskGroup() as tasks:
            gave_up = tasks.create_task(lookups.resolve("a.test"))
            await asyncio.sleep(0)
            gave_up.cancel()
            names.released.set()
            with pytest.raises(OSError, match="there is none"):
                await lookups.resolve("b.test")
    assert (logged, caplog.records) == ([], [])


async def test_only_so_many_are_looked_up_at_once(names: Names) -> None:
    lookups = Lookups(most=2)
    async with asyncio.TaskGroup() as tasks:
        for number in range(5):
            tasks.create_task(lookups.resolve(f"{number}.test"))
        await asyncio.sleep(0.1)
        names.released.set()
    assert (names.asked, names.most_busy) == (5, 2)


async def test_what_is_no_name_is_an_error_of_whoever_asks() -> None:
    with pytest.raises(UnicodeError):
        await Lookups().resolve("a..b")
    assert "127.0.0.1" in [each["host"] for each in await Lookups().resolve("localhost", family=socket.AF_INET)]


def test_the_process_ends_though_a_name_is_still_looked_up() -> None:
    done = subprocess.run([sys.executable, "-c", HANGS], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "gave up\n"
