"""The health and diagnostics servers, over real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from prometheus_client import CollectorRegistry

from quorate.kubernetes.health_server import DiagnosticsServer, HealthServer
from quorate.kubernetes.metrics import Metrics
from quorate.kubernetes.webserver import parse_address

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
    async with running(DiagnosticsServer(LOCAL, registry, insecure=True)) as url:
        status, text = await get(f"{url}/metrics")
    assert status == 200
    assert 'controller_runtime_max_concurrent_reconciles{controller="kubeadmcontrolplane"} 100.0' in text
    assert 'rest_client_requests_total{code="200",host="api.example.com",method="GET"} 1.0' in text


async def test_metrics_without_protection_must_be_asked_for() -> None:
    with pytest.raises(ValueError, match="pass --insecure-diagnostics"):
        DiagnosticsServer(LOCAL, CollectorRegistry(), insecure=False)


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
