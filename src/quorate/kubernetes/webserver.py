"""A small HTTP server on one address, as the webhook, health and diagnostics servers share it."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web


def parse_address(address: str) -> tuple[str | None, int]:
    """Host and port of an address as Go programs take it: `:9440` is every interface, `[::1]:0` any free port. Raises ValueError naming the address."""
    host, separator, port = address.rpartition(":")
    if not separator or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ValueError(f"{address!r} is not an address such as :9440 or 127.0.0.1:9440")
    return host.removeprefix("[").removesuffix("]") or None, int(port)


@asynccontextmanager
async def serving(application: web.Application, address: str, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """Serve `application` on `address` while the context is open; gives the port. Raises OSError, naming the address, when it is taken.

    At the end, running requests get two seconds: probes and admission calls are short, and the process is leaving.
    """
    host, port = parse_address(address)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=2.0)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port, ssl_context=tls)
        await site.start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


class Running:
    """The state of a server: `started` is set, and `port` is right, while it listens."""

    def __init__(self) -> None:
        self.started = asyncio.Event()
        self.port = 0

    @asynccontextmanager
    async def listening(self, application: web.Application, address: str, tls: ssl.SSLContext | None = None) -> AsyncIterator[None]:
        """As `serving`, and keep the state meanwhile."""
        async with serving(application, address, tls) as self.port:
            self.started.set()
            try:
                yield
            finally:
                self.started.clear()
