"""A client that reads every Secret that it has written, again and again, through the load balancer and from each API server itself, and writes one more now and
then.

An API server that refuses a connection is about to restart: through the load balancer one more try is made after 1 s, and by itself it is asked again in the
next round. One that has just started knows no roles yet and forbids everything, which the load balancer keeps from its clients by asking /readyz: what an API
server answers by itself counts if it says that it is ready. An answer that is not the Secret is then a failure at once, whoever gives it: that API server could
not read it, or read something else.
"""

from __future__ import annotations

import asyncio
import base64
import threading
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import Self

import aiohttp

from tests.e2e.client import connection

PAUSE = 0.5
WRITE_EVERY = 10
"""Rounds."""
_LIMIT = 5.0
_RETRY_AFTER = 1.0
_TROUBLE = (aiohttp.ClientConnectionError, TimeoutError, OSError)
_PATH = "/api/v1/namespaces/default/secrets"
_CREATED, _CONFLICT = 201, 409


class SecretsClient:
    """For the length of a block; `failures`, `reads` and `names` are true all the time. `servers` are the addresses of hosts with an API server."""

    def __init__(self, kubeconfig: Path, servers: Sequence[str], prefix: str) -> None:
        self._balancer, self._context = connection(kubeconfig)
        self._servers = [f"https://{address}:6443" for address in servers]
        self._prefix = prefix
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._work()), daemon=True)
        self._began = threading.Event()
        self.names: list[str] = []
        self.failures: list[str] = []
        self.reads = 0

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._began.wait(30), f"the first Secret was not written and read: {self.failures}"
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stopping.set()
        self._thread.join(60)

    @property
    def report(self) -> str:
        """What it did, in words."""
        return f"{len(self.names)} Secrets, {self.reads} reads, {len(self.failures)} failures"

    async def _work(self) -> None:
        rounds = 0
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=self._context, force_close=True)) as session:
            while not self._stopping.is_set():
                if rounds % WRITE_EVERY == 0:
                    await self._retried(partial(self._write, session, f"{self._prefix}-{rounds}"))
                for name in self.names:
                    await self._retried(partial(self._read, session, self._balancer, name))
                    for server in self._servers:
                        with suppress(*_TROUBLE):
                            if await self._ready(session, server):
                                await self._read(session, server, name)
                rounds += 1
                self._began.set()
                await asyncio.sleep(PAUSE)

    async def _retried(self, attempt: Callable[[], Awaitable[None]]) -> None:
        """Through the load balancer: once more where there was no connection."""
        try:
            await attempt()
        except _TROUBLE:
            await asyncio.sleep(_RETRY_AFTER)
            try:
                await attempt()
            except _TROUBLE as error:
                self.failures.append(f"twice no answer through the load balancer: {type(error).__name__} {error}")

    async def _ready(self, session: aiohttp.ClientSession, server: str) -> bool:
        async with asyncio.timeout(_LIMIT), session.get(f"{server}/readyz") as answer:
            return answer.status == HTTPStatus.OK

    async def _write(self, session: aiohttp.ClientSession, name: str) -> None:
        body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": {"name": name}}
        async with asyncio.timeout(_LIMIT), session.post(f"{self._balancer}{_PATH}", json=body) as answer:
            if answer.status in (_CREATED, _CONFLICT):
                self.names.append(name)
            else:
                self.failures.append(f"{name} was not written: {answer.status} {(await answer.text())[:200]}")

    async def _read(self, session: aiohttp.ClientSession, server: str, name: str) -> None:
        async with asyncio.timeout(_LIMIT), session.get(f"{server}{_PATH}/{name}") as answer:
            text = await answer.text()
            self.reads += 1
            if answer.status != HTTPStatus.OK or base64.b64encode(name.encode()).decode() not in text:
                self.failures.append(f"{name} was not read from {server}: {answer.status} {text[:200]}")
