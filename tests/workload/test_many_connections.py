"""Many workload clusters of one process, over real connections with TLS."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from random import Random
from typing import Any

import pytest
from aiohttp import web
from structlog.testing import capture_logs

from quorate.clusterapi.connect.workloads import EtcdDialer, network_setup
from quorate.kubernetes.client import Client
from quorate.kubernetes.errors import ConnectionFailed
from quorate.kubernetes.inline_kubeconfig import read
from quorate.kubernetes.share import Share
from quorate.pki import KeyAlgorithm, admin_kubeconfig, generate_ca
from quorate.workload.connection import Phase, Setup, Workload
from quorate.workload.turns import Turns
from tests.https import served
from tests.workload.given_kubeconfig import GivenKubeconfig

NOW = datetime.now(UTC)


class Clusters:
    """One server that is the API server of every cluster: none has anything in it. It is asked whether it is there by `busy` clusters now."""

    def __init__(self) -> None:
        self.ca = generate_ca(KeyAlgorithm.ECDSA_P256, now=NOW)
        self.busy = self.most_busy = 0

    def kubeconfig(self, port: int, host: str = "127.0.0.1") -> bytes:
        return admin_kubeconfig("blue", f"https://{host}:{port}", self.ca, KeyAlgorithm.ECDSA_P256, now=NOW)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if "watch" in request.query:
            stream = web.StreamResponse()
            await stream.prepare(request)
            await asyncio.sleep(3600)
        if request.path == "/":
            self.busy += 1
            self.most_busy = max(self.busy, self.most_busy)
            await asyncio.sleep(0.1)
            self.busy -= 1
        return web.json_response({"metadata": {"resourceVersion": "1"}, "items": []})

    def served(self, *dns_names: str) -> AbstractAsyncContextManager[int]:
        """Serve them all at one port, under these names."""
        return served(self.ca, self.handle, *dns_names)


@contextmanager
def black_hole() -> Iterator[int]:
    """A port that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0), backlog=100) as server:
        yield server.getsockname()[1]


@pytest.fixture
def clusters() -> Clusters:
    return Clusters()


@pytest.fixture
async def setup() -> Setup[Client]:
    clock = asyncio.get_running_loop().time
    return network_setup(EtcdDialer.PORT_FORWARD, now=lambda: datetime.now(UTC), random=Random(1), clock=clock)


class Connections:
    """Connections to clusters, made when they run, and a way to wait for changes in any of them."""

    def __init__(self, setup: Setup[Client], kubeconfigs: Iterable[bytes]) -> None:
        self._changed = asyncio.Event()
        self.all = [Workload(f"default/{n}", GivenKubeconfig(each), setup, self._changed.set) for n, each in enumerate(kubeconfigs)]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(each.run()) for each in self.all]
            try:
                yield
            finally:
                for task in running:
                    task.cancel()

    async def connected(self, number: int) -> None:
        """Wait until so many are connected."""
        while sum(each.connectivity.phase is Phase.CONNECTED for each in self.all) < number:
            self._changed.clear()
            await self._changed.wait()


async def test_a_cluster_that_had_its_share_of_our_time_is_asked_no_more_for_now(clusters: Clusters, setup: Setup[Client]) -> None:
    share = Share(0.02, 1.0)
    assert share.wait() == 0
    share.end(share.begin() - 2.0)
    client = setup.connect(read(clusters.kubeconfig(6443), source="test").rest_config({}), share)
    with pytest.raises(ConnectionFailed, match="get /: what it sends takes more than 2% of this process' time: it is asked again in 50 s"):
        await client.get_raw("/")
    await client.close()


async def test_of_many_clusters_only_some_are_connected_at_once(clusters: Clusters, setup: Setup[Client]) -> None:
    async with clusters.served() as port, asyncio.timeout(60):
        connections = Connections(replace(setup, turns=Turns(8, 60.0)), [clusters.kubeconfig(port)] * 40)
        async with connections.running():
            await connections.connected(40)
    assert clusters.most_busy == 8


async def test_clusters_that_never_answer_keep_nobody_waiting(clusters: Clusters, setup: Setup[Client]) -> None:
    with black_hole() as nowhere:
        async with clusters.served() as port, asyncio.timeout(60):
            kubeconfigs = [clusters.kubeconfig(nowhere)] * 8 + [clusters.kubeconfig(port)]
            connections = Connections(replace(setup, turns=Turns(4, 0.2)), kubeconfigs)
            async with connections.running():
                await connections.connected(1)
                assert all(
                    each.connectivity.consecutive_failures == 0 for each in connections.all
                )  # the first attempts are still under way


@pytest.mark.parametrize("host", ["api..example.com", f"{'a' * 64}.example.com", "."])
async def test_a_name_that_cannot_be_looked_up_is_the_trouble_of_its_cluster_alone(
    clusters: Clusters, setup: Setup[Client], host: str
) -> None:
    with capture_logs() as logged:
        async with clusters.served() as port, asyncio.timeout(60):
            connections = Connections(setup, [clusters.kubeconfig(port, host), clusters.kubeconfig(port)])
            async with connections.running():
                await connections.connected(1)
                reason = connections.all[0].connectivity.reason
    assert reason == "get /: the server's name cannot be looked up: label empty or too long"
    assert not [entry for entry in logged if entry["log_level"] == "error"]


class SilentNames:
    """The names of hosts, by somebody whose servers are silent about all of `hung-*.test`, until they are `released`."""

    def __init__(self) -> None:
        self.released = threading.Event()
        self.asked: list[str] = []

    def getaddrinfo(self, host: str, port: int, **_: Any) -> list[Any]:
        self.asked.append(host)
        if host.startswith("hung-"):
            self.released.wait(60)
            raise socket.gaierror(socket.EAI_AGAIN, "try again")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]


async def test_names_that_nobody_tells_keep_no_other_waiting(
    clusters: Clusters, setup: Setup[Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    names = SilentNames()
    monkeypatch.setattr(socket, "getaddrinfo", names.getaddrinfo)
    try:
        async with clusters.served("answers.test") as port, asyncio.timeout(60):
            hung = Connections(setup, [clusters.kubeconfig(port, f"hung-{n}.test") for n in range(30)])
            answering = Connections(setup, [clusters.kubeconfig(port, "answers.test")])
            async with hung.running():
                while not all(each.connectivity.consecutive_failures for each in hung.all):  # noqa: ASYNC110 (nobody tells of a failed attempt)
                    await asyncio.sleep(0.1)
                async with answering.running():
                    await answering.connected(1)
                assert not names.released.is_set()
                assert len(names.asked) == len(set(names.asked))  # whoever tries again waits for the answer that is still to come
    finally:
        names.released.set()


async def test_a_refused_connection_is_the_same_trouble_each_time(clusters: Clusters, setup: Setup[Client]) -> None:
    """Whatever differs is another condition, which is written, and wakes everybody who watches."""
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        port = nobody.getsockname()[1]
        connections = Connections(setup, [clusters.kubeconfig(port)] * 2)
        async with connections.running():
            for _ in range(1000):
                if all(each.connectivity.consecutive_failures for each in connections.all):
                    break
                await asyncio.sleep(0.05)
            reasons = {each.connectivity.reason for each in connections.all}
    assert reasons == {f"get /: Cannot connect to host 127.0.0.1:{port} [Connect call failed ('127.0.0.1', {port})]"}
