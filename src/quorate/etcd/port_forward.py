"""One port-forward: a socket of ours, bridged to a WebSocket by the frames of v4.channel.k8s.io.

Source: k8s.io/kubelet/pkg/cri/streaming/portforward/websocket.go. A frame is one byte of channel and the payload; with one port, channel 0 is data and
channel 1 is error text. The first frame of each channel carries the port as two bytes, little-endian, and nothing else.
"""

from __future__ import annotations

import asyncio

import aiohttp

from quorate.etcd.bridge import Bridge

_DATA, _ERROR = 0, 1
_PORT_BYTES = 2
_FRAMES, _FRAMES_A_SECOND = 1000, 100.0
"""That may come at once, and from then on. Three questions have a score of answers' frames, and one of two bytes takes 15 us: to read them without an end would
stop the process that all clusters share for a second at a time.
"""
_CLOSE_TIMEOUT = 1.0  # seconds that a closing WebSocket may take before its connection is simply dropped


class PortForward(Bridge):
    """A bridge to a WebSocket, which is to tell of pings too. Closing it waits at most 1 s for the server's side of closing."""

    def __init__(self, websocket: aiohttp.ClientWebSocketResponse) -> None:
        self._websocket = websocket
        self._room, self._room_at = float(_FRAMES), asyncio.get_running_loop().time()
        super().__init__("port-forward", task="etcd port-forward", broken=aiohttp.ClientError)

    @classmethod
    def start(cls, websocket: aiohttp.ClientWebSocketResponse) -> PortForward:
        """Start carrying bytes for a WebSocket that is open, and own it from now on."""
        return cls(websocket)

    async def _send(self, data: bytes) -> None:
        await self._websocket.send_bytes(bytes((_DATA,)) + data)

    async def _receive(self) -> str:
        opened: set[int] = set()
        async for message in self._websocket:
            if message.type is aiohttp.WSMsgType.ERROR:
                return f"port-forward broke while receiving: {message.data}"
            if not self._has_room():
                self._websocket._response.close()  # noqa: SLF001 - or its farewell would be looked for among all frames that are there
                return "port-forward sent more frames than any answer has"
            if message.type in (aiohttp.WSMsgType.PING, aiohttp.WSMsgType.PONG):
                await self._answer(message)
                continue
            if message.type is not aiohttp.WSMsgType.BINARY or not message.data:
                return f"port-forward sent a {message.type.name} frame that its protocol does not have"
            channel, payload = message.data[0], message.data[1:]
            if channel not in opened:
                opened.add(channel)
                payload = payload[_PORT_BYTES:]
            if channel == _ERROR and payload:
                return str(payload.decode(errors="replace").strip())
            if channel == _DATA and payload:
                await self._deliver(payload)
        error = self._websocket.exception()
        return f"port-forward closed by the API server ({error or f'code {self._websocket.close_code}'})"

    def _has_room(self) -> bool:
        """Whether one more frame is dealt with."""
        now = asyncio.get_running_loop().time()
        self._room = min(_FRAMES, self._room + (now - self._room_at) * _FRAMES_A_SECOND) - 1
        self._room_at = now
        return self._room >= 0

    async def _answer(self, message: aiohttp.WSMessage) -> None:
        if message.type is aiohttp.WSMsgType.PING:
            await self._websocket.pong(message.data)

    async def _release(self) -> None:
        try:
            async with asyncio.timeout(_CLOSE_TIMEOUT):
                await self._websocket.close()
        except (TimeoutError, aiohttp.ClientError, OSError):
            return  # the server is gone or does not answer: aiohttp has dropped the connection
