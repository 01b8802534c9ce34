"""One stream through a host: a socket of ours, bridged to a direct-tcpip or Unix socket channel.

Needs AllowTcpForwarding (or AllowStreamLocalForwarding) of sshd on the host.
"""

from __future__ import annotations

import asyncssh

from quorate.etcd.bridge import CHUNK, Bridge


class Tunnel(Bridge):
    """A bridge to a channel."""

    def __init__(self, reader: asyncssh.SSHReader[bytes], writer: asyncssh.SSHWriter[bytes]) -> None:
        self._reader, self._writer = reader, writer
        super().__init__("the tunnel", task="ssh tunnel", broken=asyncssh.Error)

    @classmethod
    def start(cls, reader: asyncssh.SSHReader[bytes], writer: asyncssh.SSHWriter[bytes]) -> Tunnel:
        """Start carrying bytes for a channel that is open, and own it from now on."""
        return cls(reader, writer)

    async def _send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def _receive(self) -> str:
        while data := await self._reader.read(CHUNK):
            await self._deliver(data)
        return "the other side closed the tunnel"

    async def _release(self) -> None:
        self._writer.close()
