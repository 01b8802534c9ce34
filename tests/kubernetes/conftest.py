"""An API server in this process whose answers each test writes, clients that are closed again, and certificates for both."""

from __future__ import annotations

import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from quorate.kubernetes.client import Client, connect
from quorate.kubernetes.config import RestConfig
from quorate.pki import KeyAlgorithm, KeyPair, generate_ca
from quorate.pki.issue import issue_client, issue_server

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True)
class Seen:
    """One request as it arrived."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes
    user: str  # the common name of the client certificate

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class ApiServer:
    """Answers with what is in `replies`, in order; the last one again and again."""

    def __init__(self) -> None:
        self.seen: list[Seen] = []
        self.replies: list[Handler] = []
        self.url = ""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        peer = request.transport.get_extra_info("peercert") if request.transport else None
        subject = {key: value for part in (peer or {}).get("subject", ()) for key, value in part}
        body = await request.read()
        self.seen.append(Seen(request.method, request.path, dict(request.query), request.headers, body, subject.get("commonName", "")))
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        return await reply(request)


def reply(body: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Handler:
    """An answer: JSON, or text where `body` is one."""
    text = body if isinstance(body, str) else json.dumps(body)

    async def handler(_: web.Request) -> web.StreamResponse:
        return web.Response(text=text, status=status, headers=headers, content_type="application/json")

    return handler


def failure(code: int, reason: str = "", message: str = "", **details: Any) -> Handler:
    """The Status of a failed request."""
    return reply({"kind": "Status", "status": "Failure", "reason": reason, "message": message, "code": code, "details": details}, code)


async def hang_up(request: web.Request) -> web.StreamResponse:
    """Break the connection without an answer, as a server does with one it held idle for too long."""
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


def secret(name: str = "demo-ca", **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": "default", "resourceVersion": "7", **metadata},
        "data": {"tls.key": "aHVudGVyMg=="},
    }


class Fakes:
    """The helpers above, for tests that cannot import a conftest."""

    reply = staticmethod(reply)
    failure = staticmethod(failure)
    hang_up = staticmethod(hang_up)
    secret = staticmethod(secret)


@pytest.fixture(scope="session")
def fakes() -> type[Fakes]:
    return Fakes


@pytest.fixture
async def closing() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as stack:
        yield stack


Serve = Callable[..., Awaitable[ApiServer]]


@pytest.fixture
def serve(closing: AsyncExitStack) -> Serve:
    """Starts a server, with TLS where it is given a context, and stops it after the test."""

    async def start(context: ssl.SSLContext | None = None) -> ApiServer:
        server = ApiServer()
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", server.handle)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.05)
        await runner.setup()
        closing.push_async_callback(runner.cleanup)
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
        await site.start()
        _, port = runner.addresses[0]
        server.url = f"{'https' if context else 'http'}://127.0.0.1:{port}"
        return server

    return start


@pytest.fixture
async def api(serve: Serve) -> ApiServer:
    """A server without TLS."""
    return await serve()


Connected = Callable[..., Client]


@pytest.fixture
def connected(closing: AsyncExitStack) -> Connected:
    """Makes a client for a server or a RestConfig, and closes it after the test."""

    def make(server: ApiServer | RestConfig, *, config: Mapping[str, Any] | None = None, **options: Any) -> Client:
        base = server if isinstance(server, RestConfig) else RestConfig(server=server.url)
        client = connect(replace(base, **(config or {})), **options)
        closing.push_async_callback(client.close)
        return client

    return make


@pytest.fixture
def client(api: ApiServer, connected: Connected) -> Client:
    return connected(api, timeout=5.0)


class Certificates:
    """A CA and what it signs; each call makes a new pair."""

    def __init__(self) -> None:
        self._now = datetime.now(UTC)
        self.ca = generate_ca(KeyAlgorithm.ECDSA_P256, now=self._now)

    def user(self, name: str) -> KeyPair:
        return issue_client(self.ca, common_name=name, algorithm=KeyAlgorithm.ECDSA_P256, **self._validity())

    def server(self, *dns_names: str, ip_addresses: tuple[str, ...] = ()) -> KeyPair:
        names: dict[str, Any] = {"dns_names": dns_names, "ip_addresses": ip_addresses}
        return issue_server(self.ca, common_name="api", algorithm=KeyAlgorithm.ECDSA_P256, **names, **self._validity())

    def context(self, pair: KeyPair, folder: Path, *, verify: ssl.VerifyMode = ssl.CERT_NONE) -> ssl.SSLContext:
        """A server's side of TLS."""
        (folder / "server.pem").write_bytes(pair.certificate + pair.key)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "server.pem")
        context.load_verify_locations(cadata=self.ca.certificate.decode())
        context.verify_mode = verify
        return context

    def _validity(self) -> dict[str, Any]:
        return {"not_before": self._now - timedelta(minutes=5), "not_after": self._now + timedelta(days=1)}


@pytest.fixture(scope="session")
def certificates() -> Certificates:
    return Certificates()
