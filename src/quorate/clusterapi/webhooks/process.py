"""The process that serves webhooks, beside the one that decides.

It is forked before anything runs, so that all code is in memory once: 5 MB are its own. Both talk over a pair of sockets, a line of JSON each time: the
certificates come down, and that it listens, and lives, goes up. Where one of the two ends, the other notices by the end of the stream, and ends too: neither a
webhook that nobody looks after stays behind, nor a provider whose webhooks are gone.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import NoReturn

import msgspec
import structlog

from quorate.clusterapi.webhooks.api_versions import ApiVersions
from quorate.clusterapi.webhooks.handlers import ListConversion, admission_handlers
from quorate.kubernetes import kubeconfig
from quorate.kubernetes.client import connect
from quorate.kubernetes.serving_pairs import CertificateSource, ServingPair
from quorate.kubernetes.webhook import WebhookServer

_HEARTBEAT, _SILENT = 5.0, 30.0  # seconds between two signs of life, and without any until it counts as stuck
_GRACE = 5.0  # seconds for requests that run, before it is killed
_LONGEST_LINE = 1024 * 1024  # bytes of a certificate with those that lead to its CA
_QPS, _BURST = 100.0, 200  # requests a second to the management cluster; one for each that is scaled

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Settings:
    """What the process is told at its start: where it serves, whom it asks, and which feature gates are on."""

    port: int
    kubeconfig: str | None
    context: str | None
    gates: frozenset[str]


@dataclass
class WebhookProcess:
    """The process as the one that decides sees it: `certificates` are handed on to it."""

    channel: socket.socket
    certificates: CertificateSource
    _listens: bool = field(default=False, init=False)
    _heard: float = field(default=0.0, init=False)

    def check(self) -> str:
        """The health check that upstream calls `webhook`: "" while it listens and lives."""
        if not self._listens:
            return "the webhook server has not started yet"
        silent = time.monotonic() - self._heard
        return "" if silent < _SILENT else f"the webhook server has given no sign of life for {silent:.0f} s"

    async def run(self) -> None:
        """Hand certificates down until cancelled. Returns where the process has ended; raises what the source of certificates raises."""
        reader, writer = await asyncio.open_connection(sock=self.channel)
        try:
            async with asyncio.TaskGroup() as group:
                sending = group.create_task(self._send(writer))
                while await reader.readline():
                    self._listens, self._heard = True, time.monotonic()
                sending.cancel()
        finally:
            self._listens = False
            writer.close()

    async def _send(self, writer: asyncio.StreamWriter) -> None:
        async for pair in self.certificates.pairs():
            writer.write(msgspec.json.encode({"certificate": pair.certificate.decode(), "key": pair.key.decode()}) + b"\n")
            with suppress(ConnectionError):  # it has ended, which the reading side tells
                await writer.drain()


@contextmanager
def beside(serve: Callable[[socket.socket], None]) -> Iterator[socket.socket]:
    """Run `serve` with one end of a channel in a process of its own, for the length of the block, which gets the other end.

    Call it before there are threads or an event loop: they do not come along.
    """
    ours, theirs = socket.socketpair()
    gc.collect()
    gc.freeze()  # a look at what both have would copy it
    pid = os.fork()
    if not pid:
        ours.close()
        _be(serve, theirs)
    theirs.close()
    try:
        yield ours
    finally:
        ours.close()
        _end(pid)


def _be(serve: Callable[[socket.socket], None], channel: socket.socket) -> NoReturn:
    """Live as the process, which ends with its channel and not by a signal: what is sent to a whole group of processes is for the other one to answer."""
    code = 1
    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        serve(channel)
        code = 0
    except Exception:  # noqa: BLE001 (nobody else is there to say what ended it)
        _log.exception("the webhook server failed")
    finally:
        sys.stderr.flush()
        os._exit(code)


def _end(pid: int) -> None:
    """Wait until it has ended, which it does by itself, and kill it after _GRACE."""
    due = time.monotonic() + _GRACE
    while time.monotonic() < due:
        if os.waitpid(pid, os.WNOHANG)[0]:
            return
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


async def serve(settings: Settings, channel: socket.socket) -> None:
    """Serve webhooks with the certificates that come over the channel, until that ends. Raises ConfigError for a kubeconfig that cannot be used, and OSError
    for a port that is taken.
    """
    reader, writer = await asyncio.open_connection(sock=channel, limit=_LONGEST_LINE)
    handed = _Handed(reader)
    if not await handed.first():
        return
    client = connect(kubeconfig.load(settings.kubeconfig, settings.context), qps=_QPS, burst=_BURST)
    clock = asyncio.get_running_loop().time
    server = WebhookServer(
        f":{settings.port}",
        handed,
        admission_handlers(client, settings.gates),
        ListConversion(ApiVersions(client, clock)),
    )
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(server.run()), group.create_task(_tell(server, writer))]
            await handed.ended.wait()
            for task in tasks:
                task.cancel()
    finally:
        writer.close()
        await client.close()


async def _tell(server: WebhookServer, writer: asyncio.StreamWriter) -> None:
    await server.state.started.wait()
    _log.info("webhooks are served", port=server.state.port)
    while True:
        writer.write(b"{}\n")
        with suppress(ConnectionError):
            await writer.drain()
        await asyncio.sleep(_HEARTBEAT)


class _Handed:
    """The certificates that the other process hands down."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader
        self._first: ServingPair | None = None
        self.ended = asyncio.Event()

    async def first(self) -> bool:
        """Wait for the first; False where the stream ends before."""
        self._first = await self._read()
        return self._first is not None

    async def pairs(self) -> AsyncIterator[ServingPair]:
        """Each, until the stream ends."""
        pair = self._first
        while pair:
            yield pair
            pair = await self._read()

    async def _read(self) -> ServingPair | None:
        line = await self._reader.readline()
        if not line:
            self.ended.set()
            return None
        found = msgspec.json.decode(line, type=dict[str, str])
        return ServingPair(found["certificate"].encode(), found["key"].encode())
