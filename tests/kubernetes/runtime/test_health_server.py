"""The health and diagnostics servers, over real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import aiohttp
import pytest
from prometheus_client import CollectorRegistry

from quorate.kubernetes.authentication_filter import Answer
from quorate.kubernetes.health_server import DiagnosticsServer, HealthServer, Protection
from quorate.kubernetes.metrics import Metrics
from quorate.kubernetes.webserver import parse_address
from quorate.tls import client_context, server_context

LOCAL = "127.0.0.1:0"


@asynccontextmanager
async def running(server: HealthServer | DiagnosticsServer) -> AsyncIterator[str]:
    async with asyncio.TaskGroup() as group:
        task = group.create_task(server.run())
        await server.state.started.wait()
        yield f"http://127.0.0.1:{server.state.port}"
        task.cancel()


async def get(url: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        return answer.status, await answer.text()


async def test_healthy_is_200_ok_and_what_fails_is_named() -> None:
    trouble = {"webhook": "", "caches": ""}
    server = HealthServer(LOCAL, live={}, ready={"webhook": lambda: trouble["webhook"], "caches": lambda: trouble["caches"]})
    async with running(server) as url:
        assert await get(f"{url}/healthz") == (200, "ok")
        assert await get(f"{url}/readyz") == (200, "ok")
        trouble["caches"] = "machines not listed yet"
        assert await get(f"{url}/readyz") == (500, "[-]caches failed: machines not listed yet\n")
        assert await get(f"{url}/healthz") == (200, "ok")
        assert (await get(f"{url}/other"))[0] == 404
    assert not server.state.started.is_set()


async def test_metrics_are_served_from_the_registry_given() -> None:
    registry = CollectorRegistry()
    metrics = Metrics(registry)
    metrics.controller("kubeadmcontrolplane", 100)
    metrics.request("GET", "api.example.com", "200")
    async with running(DiagnosticsServer(LOCAL, registry, None)) as url:
        status, text = await get(f"{url}/metrics")
    assert status == 200
    assert 'controller_runtime_max_concurrent_reconciles{controller="kubeadmcontrolplane"} 100.0' in text
    assert 'rest_client_requests_total{code="200",host="api.example.com",method="GET"} 1.0' in text


class Doorman:
    """Knows one token, and remembers what was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, str]] = []
        self.closed = False

    async def judge(self, authorization: str, method: str, path: str) -> Answer:
        self.asked.append((authorization, method, path))
        return Answer(200) if authorization == "Bearer good" else Answer(401, "Unauthorized")

    async def close(self) -> None:
        self.closed = True


async def test_protected_metrics_are_served_over_tls_to_those_who_may_read_them(certificates: Any) -> None:
    pair, doorman = certificates.server(ip_addresses=("127.0.0.1",)), Doorman()
    server = DiagnosticsServer(LOCAL, CollectorRegistry(), Protection(server_context(pair.certificate, pair.key), cast("Any", doorman)))
    trusting = client_context(ca=certificates.ca.certificate)
    async with running(server) as plain, aiohttp.ClientSession() as session:
        url = plain.replace("http", "https") + "/metrics"
        async with session.get(url, ssl=trusting) as answer:
            assert (answer.status, await answer.text()) == (401, "Unauthorized")
        async with session.get(url, ssl=trusting, headers={"Authorization": "Bearer good"}) as answer:
            assert answer.status == 200
        with pytest.raises(aiohttp.ClientError):
            await get(f"{plain}/metrics")
    assert doorman.asked == [("", "GET", "/metrics"), ("Bearer good", "GET", "/metrics")]
    assert doorman.closed


async def test_a_taken_port_is_an_error_that_names_it() -> None:
    async with running(HealthServer(LOCAL, live={}, ready={})) as url:
        port = url.rpartition(":")[2]
        with pytest.raises(OSError, match=port):
            await HealthServer(f"127.0.0.1:{port}", live={}, ready={}).run()


@pytest.mark.parametrize(
    ("address", "expected"),
    [(":9440", (None, 9440)), ("127.0.0.1:80", ("127.0.0.1", 80)), ("[::1]:0", ("::1", 0)), ("localhost:8443", ("localhost", 8443))],
)
def test_addresses_are_read_as_go_programs_read_them(address: str, expected: tuple[str | None, int]) -> None:
    assert parse_address(address) == expected


@pytest.mark.parametrize("address", ["", "9440", "host", ":http", ":", ":70000", ":-1"])
def test_what_is_no_address_is_refused_by_name(address: str) -> None:
    with pytest.raises(ValueError, match="is not an address"):
        HealthServer(address, live={}, ready={})
