"""A server of HTTPS on loopback, for tests that stand in for an API server."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

from aiohttp import web

from quorate.pki import KeyAlgorithm, KeyPair, issue_server
from quorate.tls import server_context

Handle = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def served(ca: KeyPair, handle: Handle, *dns_names: str, wants_certificates: bool = False) -> AsyncIterator[int]:
    """The port at which `handle` answers every request, with a certificate of the CA for these names, or for the address where none is given;
    `wants_certificates`: only to whom the CA knows.
    """
    now = datetime.now(UTC)
    pair = issue_server(
        ca,
        common_name="kube-apiserver",
        dns_names=dns_names,
        ip_addresses=() if dns_names else ("127.0.0.1",),
        algorithm=KeyAlgorithm.ECDSA_P256,
        not_before=now - timedelta(minutes=5),
        not_after=now + timedelta(days=1),
    )
    context = server_context(pair.certificate, pair.key)
    if wants_certificates:
        context.load_verify_locations(cadata=ca.certificate.decode())
        context.verify_mode = ssl.CERT_REQUIRED
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.05)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()
