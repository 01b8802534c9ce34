"""Ways to an etcd member: straight to an address, or through the API server's port-forward. Each ends in a connected socket, before any TLS."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Protocol

import aiohttp

from quorate.etcd.port_forward import PortForward

CLIENT_PORT = 2379
PROTOCOL = "v4.channel.k8s.io"
"""The streaming protocol of one WebSocket with numbered channels: in every kubelet since 1.6, and to stay (KEP-4006, non-goal 1)."""


class Connection(Protocol):
    """A byte stream to a member. The user of the socket closes the socket; `aclose` ends whatever else the dialler started for it."""

    @property
    def socket(self) -> socket.socket:
        """Connected and non-blocking."""
        ...

    @property
    def failure(self) -> str:
        """Why the stream ended, where the way itself knows; empty otherwise."""
        ...

    async def aclose(self) -> None:
        """Release what the way holds. Idempotent."""
        ...


class Dialer(Protocol):
    """A way to the members of one cluster. The caller sets the deadline, by cancelling."""

    async def dial(self, node: str) -> Connection:
        """Connect to the member on `node`; raises OSError saying why not."""
        ...


@dataclass(frozen=True, slots=True)
class Direct:
    """A plain TCP connection: nothing beside the socket to release."""

    socket: socket.socket
    failure: str = ""

    async def aclose(self) -> None:
        """Close the socket, for whoever never came to use it."""
        self.socket.close()


class DirectDialer:
    """Dials the address that is known for each node."""

    def __init__(self, addresses: Mapping[str, tuple[str, int]]) -> None:
        self._addresses = addresses

    async def dial(self, node: str) -> Direct:
        """Connect by TCP; a node without an address is an OSError too."""
        if node not in self._addresses:
            raise OSError(f"no address is known for node {node}")
        return Direct(await _connect(*self._addresses[node]))


class InMemoryDialer:
    """Dials the members of Cluster API's in-memory provider: all of them answer at the API server's endpoint and are told apart by TLS server name."""

    def __init__(self, host: str, port: int) -> None:
        self._endpoint = host, port

    async def dial(self, node: str) -> Direct:  # noqa: ARG002 (the name goes into TLS, which comes later)
        """Connect to the endpoint, whichever the node."""
        return Direct(await _connect(*self._endpoint))


async def _connect(host: str, port: int) -> socket.socket:
    loop = asyncio.get_running_loop()
    failures: list[str] = []
    try:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except UnicodeError as error:  # an empty label, or one of over 63 characters
        raise OSError(f"{host}: {error.__cause__ or error}") from error
    for family, kind, protocol, _, address in found:
        stream = socket.socket(family, kind, protocol)
        stream.setblocking(False)
        try:
            await loop.sock_connect(stream, address)
        except OSError as error:
            stream.close()
            failures.append(os.strerror(error.errno) if error.errno else str(error))
        except BaseException:
            stream.close()
            raise
        else:
            return stream
    raise OSError(f"{host}:{port}: {'; '.join(failures) or 'no address'}")


class UpgradeRefused(Exception):
    """The API server answered the port-forward with an HTTP error instead of a WebSocket."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"port-forward refused with HTTP {status}: {message}")
        self.status = status


class WayEnds(ConnectionRefusedError):
    """The way ends before the member: the API server does not answer, has no such Pod (its kubelet may not have told it of the Pod yet, as after a join), or
    does not reach the kubelet, which may be stopped alone. None of that says anything of the member.
    """


OpenWebSocket = Callable[[str, tuple[str, ...]], Awaitable[aiohttp.ClientWebSocketResponse]]
"""Opens a WebSocket to a path of the API server, offering sub-protocols. Raises UpgradeRefused for an HTTP answer, OSError for transport trouble."""

_RETRY_SERVER_ERRORS_FOR = 3.0  # seconds: a kubelet that has just started its Pod answers 500 for a moment
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 0.8
_OPENED_WITHIN = 4.0  # seconds: an API server waits longer for a kubelet that nothing is heard of, and whoever asks a member gives it 5


class PortForwardDialer:
    """Dials through the API server and the kubelet to the static Pod `etcd-<node>` in kube-system: one WebSocket is one TCP stream.

    Needs the verbs `get` and, from Kubernetes 1.35, `create` on pods/portforward.
    """

    def __init__(self, open_websocket: OpenWebSocket) -> None:
        self._open_websocket = open_websocket

    async def dial(self, node: str) -> PortForward:
        """Open the stream, within 4 s. HTTP 5xx is tried again for 3 s with pauses of 0.1 to 0.8 s; any other refusal is final. Raises WayEnds: what fails
        behind the kubelet, such as etcd's port that refuses, is the stream's failure.
        """
        try:
            async with asyncio.timeout(_OPENED_WITHIN):
                return await self._open(node)
        except TimeoutError as error:
            raise WayEnds(f"the API server opened no port-forward within {_OPENED_WITHIN:g} s") from error

    async def _open(self, node: str) -> PortForward:
        path = f"/api/v1/namespaces/kube-system/pods/etcd-{node}/portforward?ports={CLIENT_PORT}"
        loop = asyncio.get_running_loop()
        give_up = loop.time() + _RETRY_SERVER_ERRORS_FOR
        pause = _FIRST_PAUSE
        while True:
            try:
                return PortForward.start(await self._open_websocket(path, (PROTOCOL,)))
            except UpgradeRefused as refusal:
                if refusal.status == HTTPStatus.NOT_FOUND:
                    raise WayEnds(f"there is no Pod kube-system/etcd-{node} to reach it through") from refusal
                if refusal.status < 500 or loop.time() + pause > give_up:
                    raise WayEnds(str(refusal)) from refusal
            except OSError as error:
                raise WayEnds(str(error)) from error
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)
