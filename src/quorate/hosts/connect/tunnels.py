"""Streams through hosts for those who speak HTTP or gRPC over them: tracked, and offered as an aiohttp connector and as an etcd dialer."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable

import aiohttp
from aiohttp import ClientRequest, ClientTimeout
from aiohttp.client_proto import ResponseHandler
from aiohttp.tracing import Trace

from quorate.hosts.connect.ssh.errors import SshError
from quorate.hosts.connect.ssh.host import Host
from quorate.hosts.connect.ssh.tunnel import Tunnel

_KEEPALIVE = 30.0  # seconds that an idle connection is kept; a session asks again and again

Dial = Callable[[], Awaitable[Tunnel]]


class Tunnels:
    """All streams of one session. What its users left behind is closed when the next one is opened, and all of them at the end."""

    def __init__(self) -> None:
        self._open: set[Tunnel] = set()

    async def open(self, host: Host, address: str, port: int) -> Tunnel:
        """A stream to a TCP address as seen from the host. Raises an SshError."""
        for tunnel in [tunnel for tunnel in self._open if tunnel.socket.fileno() < 0]:  # whoever used the socket has closed it
            await self._close(tunnel)
        tunnel = await host.forward(address, port)
        self._open.add(tunnel)
        return tunnel

    async def aclose(self) -> None:
        """Close every stream. Idempotent."""
        for tunnel in list(self._open):
            await self._close(tunnel)

    async def _close(self, tunnel: Tunnel) -> None:
        self._open.discard(tunnel)
        await tunnel.aclose()


class TunnelConnector(aiohttp.BaseConnector):
    """aiohttp's connections to one server, each over a stream that `dial` opens. Only for https, with a TLS context and a server name of the request's own.

    Overrides the hook of aiohttp 3 that its own connectors override: tests/hosts/test_library_contracts.py watches it.
    """

    def __init__(self, dial: Dial) -> None:
        super().__init__(keepalive_timeout=_KEEPALIVE, limit=0)
        self._dial = dial

    async def _create_connection(self, req: ClientRequest, traces: list[Trace], timeout: ClientTimeout) -> ResponseHandler:  # noqa: ARG002
        if not isinstance(req.ssl, ssl.SSLContext):
            raise TypeError("a tunnel is used with a TLS context of its own")
        try:
            tunnel = await self._dial()
        except SshError as error:
            raise aiohttp.ClientConnectionError(str(error)) from error
        try:
            _, protocol = await self._loop.create_connection(
                self._factory, sock=tunnel.socket, ssl=req.ssl, server_hostname=req.server_hostname or req.url.raw_host
            )
        except OSError as error:  # ssl.SSLError among them, which says more than that the stream has ended
            await tunnel.aclose()
            raise aiohttp.ClientConnectionError(str(error) if isinstance(error, ssl.SSLError) else tunnel.failure or str(error)) from error
        except BaseException:
            await tunnel.aclose()
            raise
        return protocol


class TunnelDialer:
    """An etcd dialer to one member, over streams that `dial` opens."""

    def __init__(self, dial: Dial) -> None:
        self._dial = dial

    async def dial(self, node: str) -> Tunnel:  # noqa: ARG002 (one dialer, one member)
        """Open the stream; raises OSError saying why not."""
        try:
            return await self._dial()
        except SshError as error:
            raise ConnectionError(str(error)) from error
