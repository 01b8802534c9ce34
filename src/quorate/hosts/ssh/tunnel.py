"""One stream through a host: a direct-tcpip or Unix socket channel on one side, a socket on the other, and the task that carries bytes between them.

A socket is what etcd's dialers and TLS take. Needs AllowTcpForwarding (or AllowStreamLocalForwarding) of sshd on the host.
"""

from __future__ import annotations

import asyncio
import socket

import asyncssh

_CHUNK = 64 * 1024


class Tunnel:
    """Carries bytes until either side ends, then ends the other. Owns its task: whoever starts one closes it. It is a `quorate.etcd.dialers.Connection`."""

    def __init__(
        self, reader: asyncssh.SSHReader[bytes], writer: asyncssh.SSHWriter[bytes], ours: socket.socket, theirs: socket.socket
    ) -> None:
        self.socket = ours
        self.failure = ""
        self._reader, self._writer = reader, writer
        self._theirs = theirs
        self._task = asyncio.get_running_loop().create_task(self._run(), name="ssh tunnel")

    @classmethod
    def start(cls, reader: asyncssh.SSHReader[bytes], writer: asyncssh.SSHWriter[bytes]) -> Tunnel:
        """Start carrying bytes for a channel that is open, and own it from now on."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        theirs.setblocking(False)
        return cls(reader, writer, ours, theirs)

    async def aclose(self) -> None:
        """Stop, and close the channel and both sockets. Idempotent."""
        self._task.cancel()
        await asyncio.wait({self._task})
        self.socket.close()
        self._release()  # a task cancelled before its first step has released nothing

    async def _run(self) -> None:
        try:
            async with asyncio.TaskGroup() as both:
                outward = both.create_task(self._carry_out())
                inward = both.create_task(self._carry_in())
                await asyncio.wait({outward, inward}, return_when=asyncio.FIRST_COMPLETED)
                outward.cancel()
                inward.cancel()
        finally:
            self._release()

    def _release(self) -> None:
        self._theirs.close()
        self._writer.close()

    async def _carry_out(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while data := await loop.sock_recv(self._theirs, _CHUNK):
                self._writer.write(data)
                await self._writer.drain()
        except (OSError, asyncssh.Error) as error:
            self._fail(f"the tunnel broke while sending: {error}")

    async def _carry_in(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while data := await self._reader.read(_CHUNK):
                await loop.sock_sendall(self._theirs, data)
        except (OSError, asyncssh.Error) as error:
            self._fail(f"the tunnel broke while receiving: {error}")
        self._fail("the other side closed the tunnel")

    def _fail(self, reason: str) -> None:
        """Remember the first reason: those that come after it are its consequences."""
        self.failure = self.failure or reason
