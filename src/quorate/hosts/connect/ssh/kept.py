"""A connection that is made when it is first wanted, kept while it lives, and made again after a cut."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import asyncssh

from quorate.hosts.connect.ssh.errors import ConnectFailed

_CLOSE_TIMEOUT = 2.0  # seconds for the other side to take leave, before the connection is simply dropped


class KeptConnection:
    """One connection for everybody who wants it. Those who ask while it is being made share the outcome, so that a wrong key is tried once, not by each."""

    def __init__(self, open_: Callable[[], Awaitable[asyncssh.SSHClientConnection]]) -> None:
        self._open = open_
        self._making = asyncio.Lock()
        self._connection: asyncssh.SSHClientConnection | None = None
        self._attempts = 0  # that have ended
        self._failure: ConnectFailed | None = None

    async def get(self) -> asyncssh.SSHClientConnection:
        """The connection. Raises a ConnectFailed; the next call then tries again."""
        attempts_seen = self._attempts
        async with self._making:
            if self._connection is not None and not self._connection.is_closed():
                return self._connection
            if self._failure is not None and self._attempts > attempts_seen:
                raise self._failure
            try:
                self._failure, self._connection = None, await self._open()
            except ConnectFailed as failure:
                self._failure = failure
                raise
            finally:
                self._attempts += 1
            return self._connection

    async def aclose(self) -> None:
        """Close it, at most 2 s. Idempotent; a `get` afterwards connects anew."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        connection.close()
        try:
            async with asyncio.timeout(_CLOSE_TIMEOUT):
                await connection.wait_closed()
        except TimeoutError:
            connection.abort()
