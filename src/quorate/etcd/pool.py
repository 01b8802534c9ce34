"""Connections to etcd members, kept between the steps that use them: one for each cluster and node, for as long as it is well and wanted."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from weakref import WeakValueDictionary

import structlog

from quorate.etcd.client import EtcdClient
from quorate.etcd.dialers import Dialer
from quorate.etcd.errors import DeadlineExceeded, Unreachable
from quorate.etcd.grpc_client import GrpcClient
from quorate.etcd.tls import Credentials, client_context

IDLE_TIMEOUT = 300.0
"""Seconds without use after which a connection is closed: idle clusters then cost nothing here, and busy ones never dial twice."""
LIMIT = 512
"""Connections of one pool, over all clusters, unless it is told otherwise. One costs two file descriptors, through a port-forward four, and some 150 KiB."""

SHARE = 16
"""Of these, how many one cluster is lent at once: a ring has seven members at most, and who has thousands of control-plane Nodes keeps only itself waiting."""

_CLOSING_AT_ONCE = 16

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Access:
    """How the members of one cluster are reached, and as whom."""

    dialer: Dialer
    credentials: Credentials


Connect = Callable[[str, Dialer, ssl.SSLContext], EtcdClient]
"""Makes the client of a node's member. It connects at its first call, not here."""


@dataclass(slots=True)
class _Entry:
    key: tuple[str, str]
    client: EtcdClient
    access: Access
    last_used: float
    users: int = 0


class Pool:
    """Lends clients by cluster and node. `clock` is a monotonic time in seconds, the event loop's.

    A client is closed when a call through it could not be answered (Unreachable, DeadlineExceeded), when the cluster's access changes, when it was idle for
    `idle_timeout`, when its cluster goes, and, least recently used first, when there are more than `limit`. It is never closed under somebody's hands.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        *,
        connect: Connect = GrpcClient,
        limit: int = LIMIT,
        idle_timeout: float = IDLE_TIMEOUT,
    ) -> None:
        self._clock = clock
        self._connect = connect
        self._limit = limit
        self._idle_timeout = idle_timeout
        self._lent = asyncio.Semaphore(limit)
        self._shares: WeakValueDictionary[str, asyncio.Semaphore] = (
            WeakValueDictionary()
        )  # by cluster, as long as somebody is lent or waits
        self._entries: dict[tuple[str, str], _Entry] = {}
        self._doomed: list[EtcdClient] = []
        self._contexts: dict[str, tuple[Credentials, ssl.SSLContext]] = {}

    def __len__(self) -> int:
        return len(self._entries)

    @asynccontextmanager
    async def client(self, cluster: str, node: str, access: Access) -> AsyncIterator[EtcdClient]:
        """Lend the client of a node's member; several may use it at once.

        Hold one at a time: a task that waits for a second one while all are lent would wait for itself.
        Raises ValueError where the credentials are malformed.
        """
        share = self._shares.setdefault(cluster, asyncio.Semaphore(SHARE))
        async with share, self._lent:
            entry = await self._take(cluster, node, access)
            try:
                yield entry.client
            except (Unreachable, DeadlineExceeded):
                self._discard(entry)
                raise
            finally:
                await self._give_back(entry)

    async def forget(self, cluster: str) -> None:
        """Close the connections of a cluster that goes, or whose network changed; those in use are closed when they are given back."""
        self._contexts.pop(cluster, None)
        await self._drop([key for key in self._entries if key[0] == cluster])

    async def close_idle(self) -> None:
        """Close what has not been used for the idle time."""
        oldest = self._clock() - self._idle_timeout
        await self._drop([key for key, entry in self._entries.items() if not entry.users and entry.last_used <= oldest])

    async def run(self) -> None:
        """Close idle connections for as long as it runs: the owner's TaskGroup cancels it."""
        while True:
            await asyncio.sleep(self._idle_timeout / 2)
            await self.close_idle()

    async def aclose(self) -> None:
        """Close everything."""
        self._contexts.clear()
        await self._drop(list(self._entries))

    async def _take(self, cluster: str, node: str, access: Access) -> _Entry:
        key = cluster, node
        while (entry := self._entries.get(key)) is not None and entry.access != access:
            await self._drop([key])
        # From the look above to the booking of the user nothing is awaited, so nobody can close what is being lent.
        if entry is None:
            client = self._connect(node, access.dialer, self._context(cluster, access.credentials))
            entry = self._entries[key] = _Entry(key, client, access, self._clock())
        entry.users += 1
        return entry

    def _context(self, cluster: str, credentials: Credentials) -> ssl.SSLContext:
        known = self._contexts.get(cluster)
        if known is None or known[0] != credentials:
            known = self._contexts[cluster] = credentials, client_context(credentials)
        return known[1]

    async def _give_back(self, entry: _Entry) -> None:
        entry.users -= 1
        entry.last_used = self._clock()
        if self._entries.get(entry.key) is not entry and not entry.users:
            self._doomed.append(entry.client)
        await self._drop(self._excess())

    def _excess(self) -> list[tuple[str, str]]:
        # At most `limit` are lent at once, so there are always enough idle ones among those too many.
        too_many = len(self._entries) - self._limit
        if too_many <= 0:
            return []
        return [key for _, key in sorted((entry.last_used, key) for key, entry in self._entries.items() if not entry.users)[:too_many]]

    def _discard(self, entry: _Entry) -> None:
        """Take an entry out, so that nobody is lent it any more; whoever uses it last gives its client to be closed."""
        if self._entries.get(entry.key) is entry:
            del self._entries[entry.key]
            if not entry.users:
                self._doomed.append(entry.client)

    async def _drop(self, keys: list[tuple[str, str]]) -> None:
        for key in keys:
            self._discard(self._entries[key])
        # What a cancellation leaves in the list is closed by the next one who comes here.
        async with asyncio.TaskGroup() as closing:
            for _ in range(min(len(self._doomed), _CLOSING_AT_ONCE)):
                closing.create_task(self._close_doomed())

    async def _close_doomed(self) -> None:
        while self._doomed:
            try:
                await self._doomed.pop().close()
            except Exception as error:  # noqa: BLE001 - whoever comes here closes those of others, too, and the pool is everybody's
                _log.error("a connection to etcd could not be closed", exc_info=error)
