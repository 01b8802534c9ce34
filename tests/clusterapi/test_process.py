"""The manager's process over real connections, beside a management cluster that answers just so."""

from __future__ import annotations

import asyncio
import json
import resource
import socket
from collections.abc import AsyncIterator, Callable, Collection, Iterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from structlog.testing import capture_logs

from quorate.clusterapi import manager
from quorate.clusterapi.connect.descriptors import Descriptors
from quorate.clusterapi.manager import Options
from quorate.clusterapi.observe.specification import Specifications
from quorate.etcd.pool import Pool
from quorate.kubernetes.controller import Controller


@dataclass
class ManagementCluster:
    """An API server with nothing in it but Leases. Its watches stay open and say nothing."""

    leases: dict[str, Any] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    watches: int = 0
    down: bool = False  # refuses everything from then on, and ends what it serves
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    renewed: asyncio.Event = field(default_factory=asyncio.Event)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(f"{request.method} {request.path}")
        if self.down:
            return web.Response(status=503)
        if "/leases" in request.path:
            return await self._lease(request)
        if "watch" not in request.query:
            return web.json_response({"metadata": {"resourceVersion": "1"}, "items": []})
        self.watches += 1
        stream = web.StreamResponse()
        await stream.prepare(request)
        await self.changed.wait()
        return stream

    async def _lease(self, request: web.Request) -> web.Response:
        body = json.loads(await request.read() or "{}")
        name = body["metadata"]["name"] if request.method == "POST" else request.path.rpartition("/")[2]
        if request.method == "GET" and name not in self.leases:
            return web.json_response({"kind": "Status", "reason": "NotFound", "code": 404}, status=404)
        if request.method == "PATCH":
            self.renewed.set()
        if request.method != "GET":
            before = self.leases.get(name, {"metadata": {}, "spec": {}})
            metadata = {"name": name, "resourceVersion": str(len(self.requests))}
            self.leases[name] = {"metadata": metadata, "spec": before["spec"] | body["spec"]}
        return web.json_response(self.leases[name])


@asynccontextmanager
async def served(cluster: ManagementCluster, folder: Path) -> AsyncIterator[str]:
    """Serve it; the path of a kubeconfig for it."""
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", cluster.handle)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.05)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        server = f"http://127.0.0.1:{runner.addresses[0][1]}"
        kubeconfig = folder / "kubeconfig"
        contexts = [{"name": "c", "context": {"cluster": "k", "user": "u"}}]
        clusters, users = [{"name": "k", "cluster": {"server": server}}], [{"name": "u", "user": {}}]
        kubeconfig.write_text(json.dumps({"current-context": "c", "contexts": contexts, "clusters": clusters, "users": users}))
        yield str(kubeconfig)
    finally:
        await runner.cleanup()


@asynccontextmanager
async def running(options: Options) -> AsyncIterator[None]:
    """A manager, until the end of the block."""
    stopping = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(manager.run(options, stopping))
        try:
            yield
        finally:
            stopping.set()


async def test_the_lease_is_had_and_renewed_by_a_client_of_its_own_however_busy_that_of_the_work_is(tmp_path: Path) -> None:
    cluster = ManagementCluster()
    async with served(cluster, tmp_path) as kubeconfig:
        options = Options(
            kubeconfig=kubeconfig,
            leader_elect=True,
            leader_elect_lease_duration=6.0,
            leader_elect_renew_deadline=5.0,
            leader_elect_retry_period=0.3,
            kube_api_qps=0.001,
            kube_api_burst=6,  # its six caches have listed then, and anything else would wait for a quarter of an hour
            health_addr="0",
            diagnostics_address="0",
        )
        async with asyncio.timeout(30), running(options):
            await cluster.renewed.wait()
    assert cluster.watches == 0


async def test_at_its_start_it_says_for_how_many_control_planes_it_has_descriptors(tmp_path: Path) -> None:
    async with served(ManagementCluster(), tmp_path) as kubeconfig:
        with capture_logs() as logged:
            async with asyncio.timeout(30), running(Options(kubeconfig=kubeconfig, health_addr="0", diagnostics_address="0")):
                pass
    (said,) = [entry for entry in logged if entry["event"] == "file descriptors"]
    assert said["limit"] == resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    assert said["control_planes_of_three"] == (said["limit"] - 256) // 15


@pytest.fixture
def port() -> Iterator[int]:
    """One that nobody else gets until the test is over: whoever listens on it may use the address again."""
    with closing(socket.socket()) as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


async def answer(url: str, status: int) -> str:
    """What the server says once it answers with this status."""
    async with asyncio.timeout(30), aiohttp.ClientSession() as session:
        while True:
            try:
                async with session.get(url) as found:
                    if found.status == status:
                        return await found.text()
            except aiohttp.ClientConnectionError:  # it does not listen yet
                pass
            await asyncio.sleep(0.05)


async def test_readiness_follows_the_watches_and_a_process_that_hears_nothing_for_long_is_not_well(
    tmp_path: Path, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(manager, "_BEHIND", 0.5)
    monkeypatch.setattr(manager, "_DEAD", 3.0)
    cluster = ManagementCluster()
    async with served(cluster, tmp_path) as kubeconfig:
        options = Options(kubeconfig=kubeconfig, health_addr=f"127.0.0.1:{port}", diagnostics_address="0")
        async with asyncio.timeout(60), running(options):
            health, readiness = f"http://127.0.0.1:{port}/healthz", f"http://127.0.0.1:{port}/readyz"
            assert await answer(readiness, 200) == "ok"
            cluster.down = True
            cluster.changed.set()
            assert "[-]caches failed: kubeadmcontrolplanes were heard of" in await answer(readiness, 500)
            assert await answer(health, 200) == "ok"
            assert "[-]caches failed: kubeadmcontrolplanes were heard of" in await answer(health, 500)


async def test_a_process_whose_workers_have_ended_is_not_well(tmp_path: Path, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    async with served(ManagementCluster(), tmp_path) as kubeconfig:
        options = Options(kubeconfig=kubeconfig, health_addr=f"127.0.0.1:{port}", diagnostics_address="0")
        monkeypatch.setattr(Controller, "problem", lambda _: "2 of 100 workers have ended")
        async with asyncio.timeout(60), running(options):
            assert await answer(f"http://127.0.0.1:{port}/healthz", 500) == "[-]workers failed: 2 of 100 workers have ended\n"


async def test_as_many_connections_to_etcd_are_kept_as_there_are_descriptors_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = list[int]()

    def made(clock: Callable[[], float], *, limit: int) -> Pool:
        limits.append(limit)
        return Pool(clock, limit=limit)

    monkeypatch.setattr("quorate.clusterapi.connect.descriptors.raised", lambda: Descriptors(256 + 15 * 7))
    monkeypatch.setattr("quorate.clusterapi.connect.workloads.Pool", made)
    async with served(ManagementCluster(), tmp_path) as kubeconfig:
        options = Options(kubeconfig=kubeconfig, health_addr="0", diagnostics_address="0")
        async with asyncio.timeout(30), running(options):
            await asyncio.sleep(0)
    assert limits == [21]


async def test_the_feature_gates_reach_what_judges_specifications(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = list[Collection[str]]()

    class Recorded(Specifications):
        def __init__(self, gates: Collection[str]) -> None:
            given.append(gates)
            super().__init__(gates)

    monkeypatch.setattr(manager, "Specifications", Recorded)
    gates = frozenset({"MachineTaintPropagation"})
    async with served(ManagementCluster(), tmp_path) as kubeconfig:
        options = Options(kubeconfig=kubeconfig, feature_gates=gates, health_addr="0", diagnostics_address="0")
        async with asyncio.timeout(30), running(options):
            await asyncio.sleep(0)
    assert given == [gates]
