"""`quorate manager` as a real process with the one that serves its webhooks, beside a management cluster that answers just so."""

from __future__ import annotations

import asyncio
import os
import signal
import ssl
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from quorate.clusterapi.api import webhooks
from quorate.local import ports
from tests.clusterapi.test_process import ManagementCluster, served
from tests.kubernetes.runtime.test_webhook import write_pair

pytestmark = pytest.mark.timeout(120)

SCALE = {"metadata": {"name": "demo", "namespace": "default"}, "spec": {"replicas": 0}}


@dataclass
class Served:
    """One manager with its webhooks."""

    manager: asyncio.subprocess.Process
    port: int
    health: int
    certificates: Path

    @property
    def webhook_pid(self) -> int:
        """The process beside it, its only child."""
        (pid,) = Path(f"/proc/{self.manager.pid}/task/{self.manager.pid}/children").read_text().split()
        return int(pid)

    async def probe(self, path: str = "readyz") -> tuple[int, str]:
        """What a probe is answered; 0 where nobody listens."""
        try:
            async with aiohttp.ClientSession() as http, http.get(f"http://127.0.0.1:{self.health}/{path}") as answer:
                return answer.status, await answer.text()
        except aiohttp.ClientConnectionError:
            return 0, ""

    async def validate(self) -> Any:
        """What comes back for a control plane with nothing in it."""
        review = {
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "request": {"uid": "1", "operation": "CREATE", "object": {}},
        }
        url = f"https://127.0.0.1:{self.port}{webhooks.VALIDATE.path}"
        async with aiohttp.ClientSession() as http, http.post(url, json=review, ssl=False) as answer:
            return (await answer.json())["response"]

    async def certificate(self) -> str:
        """The certificate that a new connection is shown."""
        return await asyncio.to_thread(ssl.get_server_certificate, ("127.0.0.1", self.port))

    async def listens(self) -> bool:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", self.port)
        except OSError:
            return False
        writer.close()
        return True


async def until(question: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(60):
        while not await question():  # noqa: ASYNC110 (another process sets no Event here)
            await asyncio.sleep(0.05)


@asynccontextmanager
async def running(folder: Path) -> AsyncIterator[Served]:
    """A manager that is ready, until the end of the block."""
    write_pair(folder, "first")
    port, health = ports.choose(2, start=os.getpid() * 16)
    async with served(ManagementCluster(), folder) as kubeconfig:
        flags = (f"--kubeconfig={kubeconfig}", f"--health-addr=127.0.0.1:{health}", "--diagnostics-address=0")
        serving = (f"--webhook-port={port}", f"--webhook-cert-dir={folder}")
        with (folder / "log").open("wb") as log:
            manager = await asyncio.create_subprocess_exec(sys.executable, "-m", "quorate", "manager", *flags, *serving, stderr=log)
        found = Served(manager, port, health, folder)
        try:

            async def ready() -> bool:
                return (await found.probe())[0] == 200

            await until(ready)
            yield found
        finally:
            if manager.returncode is None:
                manager.kill()
            await manager.wait()


async def test_it_is_ready_once_webhooks_are_served_and_both_end_together(tmp_path: Path) -> None:
    async with running(tmp_path) as found:
        assert (await found.validate())["status"]["code"] == 422
        assert await found.probe("healthz") == (200, "ok")
        found.manager.terminate()
        assert await found.manager.wait() == 0
        assert not await found.listens()


@pytest.mark.thorough
async def test_a_manager_that_is_killed_leaves_no_webhooks_behind(tmp_path: Path) -> None:
    async with running(tmp_path) as found:
        found.manager.kill()
        await found.manager.wait()

        async def gone() -> bool:
            return not await found.listens()

        await until(gone)


@pytest.mark.thorough
async def test_a_manager_whose_webhooks_are_gone_ends_and_says_so(tmp_path: Path) -> None:
    async with running(tmp_path) as found:
        os.kill(found.webhook_pid, signal.SIGKILL)
        assert await found.manager.wait() == 1
        assert "WebhookProcess ended early" in (tmp_path / "log").read_text()


@pytest.mark.thorough
async def test_webhooks_that_are_stuck_fail_the_probes(tmp_path: Path) -> None:
    async with running(tmp_path) as found:
        pid = found.webhook_pid
        os.kill(pid, signal.SIGSTOP)
        try:

            async def failing() -> bool:
                return "[-]webhook failed: the webhook server has given no sign of life for 3" in (await found.probe("healthz"))[1]

            await until(failing)
        finally:
            os.kill(pid, signal.SIGCONT)


@pytest.mark.thorough
async def test_signals_to_the_whole_group_are_the_managers_to_answer(tmp_path: Path) -> None:
    async with running(tmp_path) as found:
        os.kill(found.webhook_pid, signal.SIGTERM)
        os.kill(found.webhook_pid, signal.SIGINT)
        assert (await found.validate())["status"]["code"] == 422


@pytest.mark.thorough
async def test_another_certificate_is_presented_without_a_restart(tmp_path: Path) -> None:
    async with running(tmp_path) as found:
        before = await found.certificate()
        write_pair(tmp_path, "second")

        async def replaced() -> bool:
            return await found.certificate() != before

        await until(replaced)
