"""What one manager uses, how long its event loop stands still, and how soon it reacts."""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from multiprocessing.connection import Connection
from pathlib import Path

from quorate.clusterapi.types.machine import Machine
from quorate.kubernetes.client import Client
from quorate.local import processes
from quorate.local.processes import Identity
from tests.scale import planes, priority
from tests.scale.providers import Providers

_PROBE_EVERY = 0.02
_REACTION_TIMEOUT = 60.0


@dataclass(frozen=True, slots=True)
class Use:
    """What a process used over some seconds."""

    cores: float
    resident: int
    descriptors: int
    longest_stop: float  # seconds that its event loop did not answer


@asynccontextmanager
async def using(process: Identity, health_port: int) -> AsyncIterator[list[Use]]:
    """Measures the process while the block runs; the answer is there after it."""
    found: list[Use] = []
    before, began = processes.measure(process), time.monotonic()
    ours, theirs = multiprocessing.get_context("spawn").Pipe()
    probe = multiprocessing.get_context("spawn").Process(target=_probe, args=(health_port, theirs), daemon=True)
    probe.start()
    try:
        yield found
        after, lasted = processes.measure(process), time.monotonic() - began
        ours.send(None)
        stop = await asyncio.to_thread(ours.recv)
    finally:
        probe.terminate()
        probe.join()
    if before is None or after is None:
        raise RuntimeError(f"the manager (pid {process.pid}) has ended")
    descriptors = _descriptors(process.pid)
    found.append(Use((after.cpu_seconds - before.cpu_seconds) / lasted, after.resident, descriptors, stop))


def _descriptors(pid: int) -> int:
    return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())


def _probe(port: int, end: Connection) -> None:
    """Ask for /healthz every 20 ms, and tell the longest time that an answer took. In a process of its own, so that no other work here counts."""
    priority.come_first()
    longest, connection = 0.0, HTTPConnection("127.0.0.1", port, timeout=60.0)
    while not end.poll():
        began = time.monotonic()
        with contextlib.suppress(OSError):
            connection.request("GET", "/healthz")
            connection.getresponse().read()
        longest = max(longest, time.monotonic() - began)
        time.sleep(_PROBE_EVERY)
    end.send(longest)


@dataclass(slots=True)
class Reactions:
    """From an edit of a control plane that its Machines follow in place to the first Machine that has it: seen, decided and written."""

    client: Client
    providers: Providers
    turn: int = 100
    waiting: dict[str, asyncio.Future[float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.providers.told.append(self._told)

    async def of(self, names: Sequence[str]) -> list[float]:
        """The reaction of each of these, one after the other, in seconds; one that takes longer than a minute counts as that."""
        return [await self._of(name) for name in names]

    async def _of(self, name: str) -> float:
        self.turn += 1
        loop = asyncio.get_running_loop()
        told: asyncio.Future[float] = loop.create_future()
        self.waiting[name] = told
        began = loop.time()
        await planes.edit(self.client, name, {"machineTemplate": {"spec": {"deletion": {"nodeDrainTimeoutSeconds": self.turn}}}})
        try:
            async with asyncio.timeout(_REACTION_TIMEOUT):
                return (await told) - began
        except TimeoutError:
            return _REACTION_TIMEOUT
        finally:
            del self.waiting[name]

    def _told(self, machine: Machine) -> None:
        told = self.waiting.get(machine.spec.cluster_name)
        if told is not None and not told.done() and machine.spec.deletion.node_drain_timeout_seconds == self.turn:
            told.set_result(asyncio.get_running_loop().time())
