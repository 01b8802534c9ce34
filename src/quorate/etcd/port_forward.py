"""One port-forward: the frames of a v4.channel.k8s.io WebSocket on one side, a socket on the other, and the task that carries bytes between them.

Source: k8s.io/kubelet/pkg/cri/streaming/portforward/websocket.go. A frame is one byte of channel and the payload; with one port, channel 0 is data and
channel 1 is error text. The first frame of each channel carries the port as two bytes, little-endian, and nothing else.
"""

from __future__ import annotations

import asyncio
import socket

import aiohttp

_DATA, _ERROR = 0, 1
_PORT_BYTES = 2
_CHUNK = 64 * 1024
_CLOSE_TIMEOUT = 1.0  # seconds that a closing WebSocket may take before its connection is simply dropped


class PortForward:
    """Carries bytes until either side ends, then ends the other. Owns its task: whoever starts one closes it."""

    def __init__(self, websocket: aiohttp.ClientWebSocketResponse, ours: socket.socket, theirs: socket.socket) -> None:
        self.socket = ours
        self.failure = ""
        self._websocket = websocket
        self._theirs = theirs
        self._task = asyncio.get_running_loop().create_task(self._run(), name="etcd port-forward")

    @classmethod
    def start(cls, websocket: aiohttp.ClientWebSocketResponse) -> PortForward:
        """Start carrying bytes for a WebSocket that is open, and own it from now on."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        theirs.setblocking(False)
        return cls(websocket, ours, theirs)

    async def aclose(self) -> None:
        """Stop, close the WebSocket and both sockets. Idempotent; the wait for the server's side of closing is at most 1 s."""
        self._task.cancel()
        await asyncio.wait({self._task})
        self.socket.close()
        await self._release()  # a task cancelled before its first step has released nothing

    async def _run(self) -> None:
        try:
            async with asyncio.TaskGroup() as both:
                outward = both.create_task(self._carry_out())
                inward = both.create_task(self._carry_in())
                await asyncio.wait({outward, inward}, return_when=asyncio.FIRST_COMPLETED)
                outward.cancel()
                inward.cancel()
        finally:
            await self._release()

    async def _release(self) -> None:
        self._theirs.close()
        try:
            async with asyncio.timeout(_CLOSE_TIMEOUT):
                await self._websocket.close()
        except (TimeoutError, aiohttp.ClientError, OSError):
            return  # the server is gone or does not answer: aiohttp has dropped the connection

    async def _carry_out(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while data := await loop.sock_recv(self._theirs, _CHUNK):
                await self._websocket.send_bytes(bytes((_DATA,)) + data)
        except (OSError, aiohttp.ClientError) as error:
            self._fail(f"port-forward broke while sending: {error}")

    async def _carry_in(self) -> None:
        loop = asyncio.get_running_loop()
        opened: set[int] = set()
        try:
            async for message in self._websocket:
                if message.type is not aiohttp.WSMsgType.BINARY or not message.data:
                    self._fail(f"port-forward sent a {message.type.name} frame that its protocol does not have")
                    return
                channel, payload = message.data[0], message.data[1:]
                if channel not in opened:
                    opened.add(channel)
                    payload = payload[_PORT_BYTES:]
                if channel == _ERROR and payload:
                    self._fail(payload.decode(errors="replace").strip())
                    return
                if channel == _DATA and payload:
                    await loop.sock_sendall(self._theirs, payload)
        except OSError as error:
            self._fail(f"port-forward broke while receiving: {error}")
        self._fail(self._ending())

    def _ending(self) -> str:
        error = self._websocket.exception()
        return f"port-forward closed by the API server ({error or f'code {self._websocket.close_code}'})"

    def _fail(self, reason: str) -> None:
        """Remember the first reason: those that come after it are its consequences."""
        self.failure = self.failure or reason
