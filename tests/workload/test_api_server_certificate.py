"""An API server is asked for its certificate: over a real TLS handshake, directly and through a port-forward, and everything that can come between."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from quorate.etcd.dialers import Direct
from quorate.kubernetes.errors import ConnectionFailed, NotFound
from quorate.pki import KeyAlgorithm, generate_ca
from quorate.pki.issue import issue_server
from quorate.workload import api_server_certificate
from quorate.workload.api_server_certificate import certificate_expiry, expiry_through_port_forward, port_of
from quorate.workload.updates import CannotUpdate

START, EXPIRY = datetime(2020, 1, 1, tzinfo=UTC), datetime(2021, 2, 3, 4, 5, 6, tzinfo=UTC)

Serve = Callable[[str], Awaitable[int]]


@pytest.fixture
async def serve(tmp_path: Path) -> AsyncIterator[Serve]:
    """Starts a TLS server whose certificate, long expired, has this common name; the answer is its port."""
    ca = generate_ca(KeyAlgorithm.ECDSA_P256, now=START)
    async with contextlib.AsyncExitStack() as stack:

        async def start(common_name: str) -> int:
            pair = issue_server(
                ca, common_name=common_name, dns_names=["x"], algorithm=KeyAlgorithm.ECDSA_P256, not_before=START, not_after=EXPIRY
            )
            (tmp_path / "tls.pem").write_bytes(pair.certificate + pair.key)
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            context.load_cert_chain(tmp_path / "tls.pem")
            server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0, ssl=context)
            await stack.enter_async_context(server)
            port: int = server.sockets[0].getsockname()[1]
            return port

        yield start


class Loopback:
    """Connects to a port of this machine."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.connections: list[Direct] = []

    async def dial(self) -> Direct:
        stream = socket.create_connection(("127.0.0.1", self.port), timeout=5)
        stream.setblocking(False)
        self.connections.append(Direct(stream))
        return self.connections[-1]


async def test_a_certificate_tells_its_end_even_when_that_has_passed(serve: Serve) -> None:
    loopback = Loopback(await serve("kube-apiserver"))
    assert await certificate_expiry(loopback.dial, "cp-a", loopback.port) == EXPIRY
    assert [connection.socket.fileno() for connection in loopback.connections] == [-1]


async def test_the_certificate_of_somebody_else_is_no_answer(serve: Serve) -> None:
    port = await serve("some-proxy")
    with pytest.raises(CannotUpdate, match=f"port {port} on cp-a showed a certificate of some-proxy, not of kube-apiserver"):
        await certificate_expiry(Loopback(port).dial, "cp-a", port)


async def test_through_a_port_forward_the_pod_of_the_node_is_asked(serve: Serve) -> None:
    port = await serve("kube-apiserver")
    paths: list[str] = []

    async def bridge(request: web.Request) -> web.StreamResponse:
        paths.append(f"{request.path}?{request.query_string}")
        websocket = web.WebSocketResponse(protocols=("v4.channel.k8s.io",))
        await websocket.prepare(request)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for channel in (0, 1):
            await websocket.send_bytes(bytes((channel,)) + port.to_bytes(2, "little"))

        async def outward() -> None:
            while data := await reader.read(4096):
                await websocket.send_bytes(b"\0" + data)

        async with asyncio.TaskGroup() as tasks:
            task = tasks.create_task(outward())
            async for message in websocket:
                writer.write(message.data[1:])
            task.cancel()
        writer.close()
        return websocket

    async with _running(bridge) as url, aiohttp.ClientSession() as session:
        client = _Client(lambda path, protocols: session.ws_connect(url + path, protocols=protocols))
        assert await expiry_through_port_forward(client, "cp-a", port) == EXPIRY
    assert paths == [f"/api/v1/namespaces/kube-system/pods/kube-apiserver-cp-a/portforward?ports={port}"]


@pytest.mark.parametrize("error", [NotFound("pods not found", code=404), ConnectionFailed("no route")])
async def test_a_port_forward_that_is_refused_is_told_with_the_node(error: Exception) -> None:
    async def refuse(_: str, __: tuple[str, ...]) -> Any:
        raise error

    with pytest.raises(CannotUpdate, match=f"cp-a could not be asked.*{error}"):
        await expiry_through_port_forward(_Client(refuse), "cp-a", 6443)


async def test_what_speaks_no_tls_is_told() -> None:
    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(CannotUpdate, match="cp-a could not be asked"):
            await certificate_expiry(Loopback(port).dial, "cp-a", port)


async def test_what_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_server_certificate, "DEADLINE", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        loopback = Loopback(silent.getsockname()[1])
        with pytest.raises(CannotUpdate, match=r"did not show its certificate"):
            await certificate_expiry(loopback.dial, "cp-a", loopback.port)
    assert [connection.socket.fileno() for connection in loopback.connections] == [-1]


@pytest.mark.parametrize(
    ("spec", "port"),
    [
        ({}, 6443),
        ({"initConfiguration": {"localAPIEndpoint": {"bindPort": 443}}, "joinConfiguration": None}, 443),
        ({"joinConfiguration": {"controlPlane": {"localAPIEndpoint": {"bindPort": 8443}}}}, 8443),
        ({"joinConfiguration": {"controlPlane": {}}}, 6443),
    ],
)
def test_the_port_is_the_one_that_the_machine_was_told(spec: dict[str, Any], port: int) -> None:
    assert port_of(spec) == port


class _Client:
    def __init__(self, connect: Callable[[str, tuple[str, ...]], Awaitable[Any]]) -> None:
        self._connect = connect

    async def connect_websocket(self, path: str, protocols: tuple[str, ...]) -> Any:
        return await self._connect(path, protocols)


@contextlib.asynccontextmanager
async def _running(handler: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app, shutdown_timeout=1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()
