"""What carries a process's requests to a simulated API server: everything above it is the code that runs in production."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from contextvars import Context

import aiohttp

from quorate.kubernetes.errors import ApiError, ConnectionFailed, Timeout, from_status
from quorate.kubernetes.objects import Status
from quorate.kubernetes.transport import Request
from quorate.simulation.engine import rest
from quorate.simulation.engine.apiserver import ApiServer, Failure
from quorate.simulation.engine.link import Fate, Link
from quorate.simulation.engine.objects import parse_selector
from quorate.simulation.engine.watching import Watch

_STORAGE_TIMEOUT = 7.0  # seconds after which etcd gives up finding a majority
_READINESS_TIMEOUT = 2.0  # seconds after which an API server's own check of its etcd fails
_LATE = (30.0, 90.0)  # seconds after which a delayed request takes effect all the same


class SimulatedTransport:
    """One process's way to one API server.

    `backend` names who serves a connection, or raises ConnectionFailed; `check` raises a Failure where storage fails.
    """

    def __init__(
        self,
        server: ApiServer,
        link: Link,
        who: str,
        *,
        timeout: float,
        backend: Callable[[], str] = lambda: "",
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self._server, self._link, self._who, self._timeout = server, link, who, timeout
        self._backend, self._check = backend, check

    async def send(self, request: Request) -> bytes:
        """See quorate.kubernetes.transport.Transport."""
        await self._travel(request.doing)
        fate = self._link.fate(request.doing) if rest.is_write(request) else Fate.ANSWERED
        if fate is Fate.LOST:
            raise ConnectionFailed(f"{request.doing}: connection reset before the request arrived")
        if fate is Fate.LATE:
            asyncio.get_running_loop().call_later(self._link.random.uniform(*_LATE), self._late, request, context=Context())
            await asyncio.sleep(self._timeout)
            raise Timeout(f"{request.doing}: no answer within {self._timeout:g} s")
        answer = await self._answer(request)
        if fate is Fate.FATAL:
            self._link.fatal()
            await asyncio.get_running_loop().create_future()  # the process ends here
        if fate is Fate.UNANSWERED:
            raise ConnectionFailed(f"{request.doing}: connection reset before the answer came")
        await self._travel(request.doing)
        if isinstance(answer, ApiError):
            raise answer
        return answer

    @asynccontextmanager
    async def stream(self, path: str, doing: str, inactivity: float) -> AsyncIterator[AsyncIterator[bytes]]:
        """See quorate.kubernetes.transport.Transport."""
        await self._travel(doing)
        try:
            target = rest.parse(path)
            kind = rest.kind_of(self._server, target)
            self._check()
            watch = Watch(
                self._server, kind, target.namespace, parse_selector(target.option("labelSelector")), self._link.event_delay, inactivity
            )
            backend = self._backend()
            watch.begin(int(target.option("resourceVersion") or 0), float(target.option("timeoutSeconds") or 300))
        except Failure as failure:
            raise _error(failure, doing) from failure
        self._link.watches[watch] = backend
        self._server.subscribe(watch.tell)
        try:
            yield watch.chunks()
        finally:
            watch.close()
            self._server.unsubscribe(watch.tell)
            self._link.watches.pop(watch, None)

    async def websocket(self, path: str, doing: str, protocols: tuple[str, ...]) -> aiohttp.ClientWebSocketResponse:  # noqa: ARG002
        """Never: etcd has a way of its own here."""
        raise ConnectionFailed(f"{doing}: WebSockets are not simulated")

    async def close(self) -> None:
        """Nothing is kept open."""

    async def _travel(self, doing: str) -> None:
        await asyncio.sleep(self._link.delay())
        if self._link.cut:
            await self._stuck(doing)

    async def _stuck(self, doing: str) -> None:
        """On a way that is cut a request is refused soon, or is never heard of again."""
        if self._link.random.random() < 0.5:
            raise ConnectionFailed(f"{doing}: no route to host")
        await asyncio.sleep(self._timeout)
        raise Timeout(f"{doing}: no answer within {self._timeout:g} s")

    async def _answer(self, request: Request) -> bytes | ApiError:
        self._backend()
        if request.path in ("/", "/readyz", "/livez"):
            return b"ok"
        if request.path == "/readyz/etcd":
            return await self._ask_etcd(request)
        try:
            self._check()
        except Failure as failure:
            await asyncio.sleep(_STORAGE_TIMEOUT)
            return _error(failure, request.doing)
        try:
            return rest.answer(self._server, request, self._who)
        except Failure as failure:
            return _error(failure, request.doing)

    async def _ask_etcd(self, request: Request) -> bytes | ApiError:
        try:
            self._check()
        except Failure as failure:
            await asyncio.sleep(_READINESS_TIMEOUT)
            return _error(failure, request.doing)
        return b"ok"

    def _late(self, request: Request) -> None:
        self._link.late = True
        try:
            self._backend()
            self._check()
            rest.answer(self._server, request, self._who)
        except (Failure, ConnectionFailed):
            return
        finally:
            self._link.late = False


def _error(failure: Failure, doing: str) -> ApiError:
    return from_status(Status(reason=failure.reason, message=failure.message, code=failure.code), failure.code, doing=doing)
