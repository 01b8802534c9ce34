"""Bridges a socket to a byte stream that is not one, with a task that carries bytes between them.

A socket is what gRPC and TLS take. `port_forward` bridges to a WebSocket of the API server; whoever has another way to a host bridges to that.
"""

from __future__ import annotations

import asyncio
import socket
from abc import ABC, abstractmethod

CHUNK = 64 * 1024
"""The most bytes that are carried at once."""


class Bridge(ABC):
    """Carries bytes until either side ends, then ends the other. Owns its task: whoever starts one closes it. It is a `quorate.etcd.dialers.Connection`.

    `failure` is why the stream ended, as far as the far side tells; the first reason, because those that come after it are its consequences.
    """

    def __init__(self, what: str, *, task: str, broken: type[Exception]) -> None:
        """Start to carry. `what` names the way in reasons, `task` is the task's name, and `broken` what the far side raises, beside OSError, when it breaks."""
        self.failure = ""
        self._what, self._broken = what, (OSError, broken)
        self.socket, self._theirs = socket.socketpair()
        self.socket.setblocking(False)
        self._theirs.setblocking(False)
        self._task = asyncio.get_running_loop().create_task(self._run(), name=task)

    @abstractmethod
    async def _send(self, data: bytes) -> None:
        """Send to the far side, and wait while it takes no more."""

    @abstractmethod
    async def _receive(self) -> str:
        """`_deliver` everything that arrives, until the far side ends; the reason why it did."""

    @abstractmethod
    async def _release(self) -> None:
        """Close the far side. Idempotent, and raises nothing."""

    async def aclose(self) -> None:
        """Stop, close the far side and both sockets. Idempotent."""
        self._task.cancel()
        await asyncio.wait({self._task})
        self.socket.close()
        await self._end()  # a task cancelled before its first step has released nothing

    async def _deliver(self, data: bytes) -> None:
        await asyncio.get_running_loop().sock_sendall(self._theirs, data)

    async def _run(self) -> None:
        try:
            async with asyncio.TaskGroup() as both:
                outward = both.create_task(self._carry_out())
                inward = both.create_task(self._carry_in())
                await asyncio.wait({outward, inward}, return_when=asyncio.FIRST_COMPLETED)
                outward.cancel()
                inward.cancel()
        finally:
            await self._end()

    async def _end(self) -> None:
        self._theirs.close()
        await self._release()

    async def _carry_out(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while data := await loop.sock_recv(self._theirs, CHUNK):
                await self._send(data)
        except self._broken as error:
            self._fail(f"{self._what} broke while sending: {error}")

    async def _carry_in(self) -> None:
        try:
            self._fail(await self._receive())
        except self._broken as error:
            self._fail(f"{self._what} broke while receiving: {error}")

    def _fail(self, reason: str) -> None:
        self.failure = self.failure or reason
