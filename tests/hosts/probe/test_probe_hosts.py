"""Asking all hosts at once: who answers, who cannot be reached, and what is said of a probe that fails."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from quorate.core.health import Unknown
from quorate.hosts.connect.ssh.errors import ConnectionCut, DeadlineExceeded, NoAnswer, SudoRefused
from quorate.hosts.connect.ssh.hosts import Unreachable
from quorate.hosts.connect.ssh.scripts import Outcome
from quorate.hosts.connect.ssh.tunnel import Tunnel
from quorate.hosts.probe.facts import HostFacts
from quorate.hosts.probe.probe import probe, script

ANSWER = Outcome(0, b"hostname\t=\tcp-1\nend\t=\n", b"")


@dataclass
class Scripted:
    """A host that answers a script as it is told, and does nothing else."""

    answer: Callable[[str], Awaitable[Outcome]]
    name: str = "cp-1"

    async def run(self, script: str, *, stdin: bytes = b"", deadline: float, sudo: bool = True) -> Outcome:
        assert sudo
        assert stdin == b""
        assert deadline <= 30
        return await self.answer(script)

    async def read_file(self, path: str, *, sudo: bool = True) -> bytes:
        raise AssertionError((path, sudo))

    async def forward(self, address: str, port: int) -> Tunnel:
        raise AssertionError((address, port))

    async def forward_socket(self, path: str) -> Tunnel:
        raise AssertionError(path)


def answering(outcome: Outcome | Exception) -> Scripted:
    async def answer(text: str) -> Outcome:
        assert text == script()
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    return Scripted(answer)


async def facts_of(outcome: Outcome | Exception) -> HostFacts:
    (found,) = (await probe({"cp-1": answering(outcome)})).values()
    assert isinstance(found, HostFacts)
    return found


async def test_one_host_that_cannot_be_reached_hides_nothing_of_the_others() -> None:
    gone = Unreachable("cp-2", "NoAnswer", "no route to host", "")
    refused = NoAnswer("bastion root@b:22", "connection refused", "Start sshd")
    found = await probe({"cp-1": answering(ANSWER), "cp-2": gone, "cp-3": answering(refused)})
    assert isinstance(found["cp-1"], HostFacts)
    assert found["cp-1"].hostname == "cp-1"
    assert found["cp-2"] is gone
    assert found["cp-3"] == Unreachable("cp-1", "NoAnswer", "bastion root@b:22: connection refused", "Start sshd")


async def test_all_hosts_are_asked_at_once() -> None:
    together = asyncio.Barrier(5)

    async def answer(_: str) -> Outcome:
        await together.wait()
        return ANSWER

    found = await probe({f"cp-{number}": Scripted(answer) for number in range(5)}, deadline=10)
    assert all(isinstance(each, HostFacts) and each.hostname == "cp-1" for each in found.values())


async def test_a_host_that_says_nothing_is_unknown_after_the_deadline() -> None:
    async def answer(_: str) -> Outcome:
        await asyncio.Event().wait()
        return ANSWER

    (found,) = (await probe({"cp-1": Scripted(answer)}, deadline=0.05)).values()
    assert isinstance(found, HostFacts)
    assert found.hostname == Unknown("the probe was not over within 0.05 s")


async def test_a_probe_that_fails_says_why_and_what_to_do() -> None:
    assert (await facts_of(SudoRefused("h", "sudo refuses: a password is required", "Allow it"))).kernel == Unknown(
        "the probe failed: sudo refuses: a password is required", "Allow it"
    )
    assert isinstance((await facts_of(ConnectionCut("h", "cut"))).kernel, Unknown)
    assert isinstance((await facts_of(DeadlineExceeded("h", "too long", ended=True))).kernel, Unknown)


async def test_what_came_before_the_probe_ended_badly_is_kept() -> None:
    found = await facts_of(Outcome(137, b"hostname\t=\tcp-1\nkern", b"Killed\n"))
    assert found.hostname == "cp-1"
    assert found.kernel == Unknown("the probe ended with status 137: Killed")
