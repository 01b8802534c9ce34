"""A host as the rest of quorate sees it: scripts, files to be read, and streams, over one SSH connection that is made again when it was cut."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Protocol, TypeVar

import asyncssh

from quorate.hosts.connect.ssh import files
from quorate.hosts.connect.ssh.dial import Timing
from quorate.hosts.connect.ssh.errors import ConnectionCut, NoSuchFile, ScriptFailed, TunnelRefused
from quorate.hosts.connect.ssh.kept import KeptConnection
from quorate.hosts.connect.ssh.scripts import Order, Outcome, execute
from quorate.hosts.connect.ssh.target import Target
from quorate.hosts.connect.ssh.tunnel import Tunnel

T = TypeVar("T")

FILE_DEADLINE = 30.0
"""Seconds for reading one file."""
_SESSIONS = 8
"""Scripts at once on one connection; sshd's MaxSessions is 10 by default. Tunnels are not counted by it."""


class Host(Protocol):
    """One host. Every method raises an SshError (errors.py), among them ConnectFailed where the connection has to be made anew and cannot be."""

    @property
    def name(self) -> str:
        """The host's name in the manifest."""
        ...

    async def run(self, script: str, *, stdin: bytes = b"", deadline: float, sudo: bool = True) -> Outcome:
        """Run a script by sh, as root where `sudo`, with `set -eu`. Any exit status is an outcome; `deadline` is seconds from its start.

        A script that was cut or cancelled is not repeated, and may run on until its deadline: scripts are to be idempotent.
        """
        ...

    async def read_file(self, path: str, *, sudo: bool = True) -> bytes:
        """The content of a file, at most 1 MiB. Raises NoSuchFile."""
        ...

    async def forward(self, address: str, port: int) -> Tunnel:
        """A stream to a TCP address as seen from the host. The caller closes it."""
        ...

    async def forward_socket(self, path: str) -> Tunnel:
        """A stream to a Unix socket on the host that the user may open. The caller closes it."""
        ...


class SshHost:
    """A Host over SSH."""

    def __init__(self, target: Target, connection: KeptConnection, timing: Timing) -> None:
        self.target = target
        self._connection = connection
        self._timing = timing
        self._sessions = asyncio.Semaphore(_SESSIONS)

    def __repr__(self) -> str:
        return f"<{self.target}>"

    @property
    def name(self) -> str:
        """The host's name in the manifest."""
        return self.target.name

    async def connect(self) -> None:
        """Make the connection unless it is there. Raises a ConnectFailed."""
        await self._connection.get()

    async def run(self, script: str, *, stdin: bytes = b"", deadline: float, sudo: bool = True) -> Outcome:
        """See Host. The root user needs no sudo and uses none."""
        order = Order(script, stdin, deadline, self._timing.grace, sudo and self.target.endpoint.user != "root")
        async with self._sessions:
            return await execute(await self._connection.get(), str(self.target), order)

    async def read_file(self, path: str, *, sudo: bool = True) -> bytes:
        """See Host."""
        outcome = await self.run(files.reading(path), deadline=FILE_DEADLINE, sudo=sudo)
        if outcome.exit_status == files.MISSING:
            raise NoSuchFile(str(self.target), f"there is no file {path}", exit_status=files.MISSING)
        self._succeeded(outcome, f"{path} cannot be read")
        return outcome.stdout

    async def forward(self, address: str, port: int) -> Tunnel:
        """See Host."""
        connection = await self._connection.get()
        return await self._tunnel(connection.open_connection(address, port, encoding=None), f"{address}:{port}")

    async def forward_socket(self, path: str) -> Tunnel:
        """See Host."""
        connection = await self._connection.get()
        return await self._tunnel(connection.open_unix_connection(path, encoding=None), path)

    async def _tunnel(self, opening: Awaitable[tuple[asyncssh.SSHReader[bytes], asyncssh.SSHWriter[bytes]]], to: str) -> Tunnel:
        try:
            async with asyncio.timeout(self._timing.connect):
                return Tunnel.start(*await opening)
        except asyncssh.ChannelOpenError as error:
            remedy = "Check that it listens there, and AllowTcpForwarding and AllowStreamLocalForwarding of sshd on the host"
            raise TunnelRefused(str(self.target), f"no stream to {to}: {error.reason}", remedy) from None
        except TimeoutError:
            raise TunnelRefused(str(self.target), f"no stream to {to} within {self._timing.connect:g} s") from None
        except (asyncssh.Error, OSError) as error:
            raise ConnectionCut(str(self.target), f"the connection ended while a stream to {to} was opened: {error}") from None

    def _succeeded(self, outcome: Outcome, failure: str) -> None:
        if outcome.exit_status:
            cause = f"{failure}: {outcome.last_words} (status {outcome.exit_status})"
            raise ScriptFailed(str(self.target), cause, exit_status=outcome.exit_status)
