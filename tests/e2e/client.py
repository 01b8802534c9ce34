"""A client that writes once a second through the load balancer while something happens to the cluster, and tells what it noticed: `python -m tests.e2e.client`.

Each write creates a ConfigMap of its own within 5 s, over the connection that the one before used. One that fails is tried once more after 1 s on a new
connection; if that fails too, it is lost. A write that was done although its answer was lost is no lost one: its second try is told that it is there.
"""

from __future__ import annotations

import asyncio
import base64
import json
import signal
import ssl
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import aiohttp
import yaml

INTERVAL = 1.0
LIMIT = 5.0
"""Seconds for one try."""
RETRY_AFTER = 1.0
_STOP_TIMEOUT = 60.0
_LISTED_AFTER = 30.0
"""Seconds that the last question, what is there, may be repeated: how that goes is no part of what is measured."""
_PATH = "/api/v1/namespaces/default/configmaps"
_CREATED, _CONFLICT = 201, 409
_TROUBLE = (aiohttp.ClientError, TimeoutError, OSError)


@dataclass(frozen=True, slots=True)
class Report:
    """What the client noticed. `longest_gap` is the longest time, in seconds, between the ends of two writes in a row that were done.

    `vanished` are writes that were acknowledged and are not there at the end. Each failure begins with its time in UTC, as the journals of the hosts do.
    """

    writes: int
    lost: int
    failed_first_tries: int
    longest_gap: float
    vanished: int
    failures: tuple[str, ...] = ()

    def __str__(self) -> str:
        bad = f"{self.lost} lost, {self.vanished} vanished, {self.failed_first_tries} first tries failed"
        return f"{self.writes} writes: {bad}, longest gap {self.longest_gap:.1f} s"


class WritingClient:
    """A process that writes for the length of the block; `report` is there afterwards."""

    def __init__(self, kubeconfig: Path) -> None:
        self._kubeconfig = kubeconfig
        self._process: subprocess.Popen[str] | None = None
        self._report: Report | None = None

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "tests.e2e.client", str(self._kubeconfig)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        if self._process.stdout.readline() != "writing\n":
            self._process.kill()
            raise RuntimeError("the writing client did not get its first write done")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        assert self._process is not None
        self._process.terminate()
        said, _ = self._process.communicate(timeout=_STOP_TIMEOUT)
        if kind is None:
            document = json.loads(said)
            self._report = Report(**{**document, "failures": tuple(document["failures"])})

    @property
    def report(self) -> Report:
        """What it noticed, once the block has ended."""
        assert self._report is not None
        return self._report


class _Writer:
    def __init__(self, server: str, context: ssl.SSLContext) -> None:
        self._url = f"{server}{_PATH}"
        self._context = context
        self._session: aiohttp.ClientSession | None = None
        self._prefix = f"write-{time.time_ns():x}-"  # of this run alone
        self._done: list[str] = []
        self._failures: list[str] = []
        self._failed = 0
        self._lost = 0
        self._gap = 0.0
        self._last_done = time.monotonic()
        self._writes = 0

    async def until(self, stopping: asyncio.Event) -> None:
        """Write until told to stop; the write that is under way is finished."""
        began = time.monotonic()
        while not stopping.is_set():
            self._writes += 1
            await self._write(f"{self._prefix}{self._writes}")
            if self._writes == 1 and self._done:
                sys.stdout.write("writing\n")
                sys.stdout.flush()
            began = max(began + INTERVAL, time.monotonic())
            try:
                async with asyncio.timeout(began - time.monotonic()):
                    await stopping.wait()
            except TimeoutError:
                continue

    async def report(self) -> Report:
        """Look for every write that was acknowledged."""
        there = await self._listed_in_the_end()
        vanished = sum(name not in there for name in self._done)
        await self._disconnect()
        return Report(self._writes, self._lost, self._failed, self._gap, vanished, tuple(self._failures))

    async def _write(self, name: str) -> None:
        try:
            await self._try(name)
        except _TROUBLE as first:
            self._failed += 1
            self._note(name, first)
            await self._disconnect()
            await asyncio.sleep(RETRY_AFTER)
            try:
                await self._try(name)
            except _TROUBLE as second:
                await self._disconnect()
                self._note(f"{name}, again", second)
                self._lost += 1
                return
        now = time.monotonic()
        if self._done:
            self._gap = max(self._gap, now - self._last_done)
        self._last_done = now
        self._done.append(name)

    async def _try(self, name: str) -> None:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
        async with asyncio.timeout(LIMIT), self._connected().post(self._url, json=body) as answer:
            if answer.status not in (_CREATED, _CONFLICT):
                raise aiohttp.ClientError(f"status {answer.status}: {(await answer.text())[:200]}")

    def _note(self, name: str, error: BaseException) -> None:
        self._failures.append(f"{time.strftime('%H:%M:%S', time.gmtime())} {name}: {type(error).__name__} {error}")

    async def _listed_in_the_end(self) -> frozenset[str]:
        deadline = time.monotonic() + _LISTED_AFTER
        while True:
            try:
                return await self._listed()
            except _TROUBLE:
                await self._disconnect()
                if time.monotonic() > deadline:
                    raise
                await asyncio.sleep(RETRY_AFTER)

    async def _listed(self) -> frozenset[str]:
        async with asyncio.timeout(LIMIT), self._connected().get(self._url) as answer:
            answer.raise_for_status()
            return frozenset(item["metadata"]["name"] for item in (await answer.json())["items"])

    def _connected(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=self._context, limit=1))
        return self._session

    async def _disconnect(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None


def connection(kubeconfig: Path) -> tuple[str, ssl.SSLContext]:
    """The server of a kubeconfig, and what it takes to talk to it as its user."""
    document = yaml.safe_load(kubeconfig.read_text())
    cluster, user = document["clusters"][0]["cluster"], document["users"][0]["user"]
    context = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
    with tempfile.TemporaryDirectory() as folder:
        certificate, key = Path(folder, "certificate"), Path(folder, "key")
        certificate.write_bytes(base64.b64decode(user["client-certificate-data"]))
        key.write_bytes(base64.b64decode(user["client-key-data"]))
        context.load_cert_chain(certificate, key)
    return str(cluster["server"]), context


async def _main(kubeconfig: Path) -> None:
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    writer = _Writer(*connection(kubeconfig))
    await writer.until(stopping)
    json.dump(asdict(await writer.report()), sys.stdout)


if __name__ == "__main__":
    asyncio.run(_main(Path(sys.argv[1])))
