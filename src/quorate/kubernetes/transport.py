"""What carries a request to one API server: connections, identity, its turn in the token bucket, deadlines, and what is sent again."""

from __future__ import annotations

import asyncio
import contextlib
import re
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit

import aiohttp
import msgspec
import structlog
from aiohttp.abc import AbstractResolver
from multidict import CIMultiDict
from yarl import URL

from quorate.kubernetes.config import ConfigError, Impersonation, RestConfig
from quorate.kubernetes.errors import ApiError, ConnectionFailed, ServerError, Timeout, TooManyRequests, TooMuch, Unauthorized, from_status
from quorate.kubernetes.objects import Status
from quorate.kubernetes.queue import TokenBucket
from quorate.kubernetes.share import CountedHandler, Share
from quorate.kubernetes.tasks import CancelledElsewhere, cancelled_by_request_alone
from quorate.tls import client_context

R = TypeVar("R")

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"  # JSON is YAML
_ANY = "*/*"  # of a port-forward: the kubelet, whom the API server passes the request to, answers one for JSON with 406

_KEEPALIVE = 30.0  # seconds; an idle workload cluster should not keep a socket for long
_LEAST_PAUSE = 0.1  # seconds before a repeat, whatever the server says: `Retry-After: 0` would otherwise spin
_CHUNK = 1 << 16
LARGEST = 64 << 20
"""Bytes of an answer that are read: a page of 500 Nodes has 10 MiB. Who sends more would fill the memory of whoever asks."""
_LARGEST_ERROR = 1 << 16
_IN_NAMES = "!#$&'*+-.^_`|~"  # of headers, beside letters and digits; % begins what is escaped
_CONTEXT = re.compile(" ssl:<[^>]*>")
"""What aiohttp says of a TLS context: where it is in memory, which would make every failure another one."""
LARGEST_FRAME = 1 << 20
"""Bytes of a WebSocket's frame: a kubelet sends 32 KiB at once."""
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What decoding raises for an answer that is not what it should be, or has more levels than a program can go down."""
_STATUSES = msgspec.json.Decoder(Status)

_log = structlog.get_logger(__name__)

OnRequest = Callable[[str, str, str], None]  # method, host, HTTP code ("<error>" where there was no answer)


def tcp_connector(resolver: AbstractResolver | None = None, share: Share | None = None) -> aiohttp.BaseConnector:
    """Connections straight to the server, kept while they are used. Its name is looked up by `resolver`, or by the event loop's threads; what it takes to
    understand what comes in is counted in `share`.
    """
    connector = aiohttp.TCPConnector(keepalive_timeout=_KEEPALIVE, limit=0, resolver=resolver)
    if share is not None:
        connector._factory = partial(CountedHandler, share, connector._loop)  # type: ignore[assignment]  # noqa: SLF001
    return connector


@dataclass(frozen=True, slots=True)
class Request:
    """One request. `doing` is the verb, the resource and whose it is, for error messages."""

    method: str
    path: str
    doing: str
    body: bytes | None = field(default=None, repr=False)
    content: str = JSON
    largest: int | None = None  # bytes of the answer that are read, where they are fewer than of others

    @property
    def idempotent(self) -> bool:
        """Whether sending it twice does no more than sending it once."""
        return self.method in ("GET", "DELETE") or self.content == APPLY


@dataclass(frozen=True, slots=True)
class _Identity:
    """Who a request is from: what the credentials said last."""

    token: str = field(default="", repr=False)
    pair: tuple[bytes, bytes] | None = field(default=None, repr=False)


class Transport:
    """One API server as one identity, over one pool of connections.

    Every method raises an ApiError for an answer that is an error, ConnectionFailed where there is none, and ConfigError where a token file or an exec
    plugin gives no credentials. Making one raises ValueError where the certificates are malformed.
    """

    def __init__(
        self,
        config: RestConfig,
        *,
        user_agent: str,
        bucket: TokenBucket,
        timeout: float,
        on_request: OnRequest,
        connector: Callable[[], aiohttp.BaseConnector] = tcp_connector,
        largest: int = LARGEST,
        share: Share,
    ) -> None:
        self._config = config
        self._base = config.server.rstrip("/")
        self._origin = URL(config.server).origin()
        self._host = urlsplit(config.server).netloc.rpartition("@")[2]
        self._bucket = bucket
        self._timeout = timeout
        self._on_request = on_request
        self._connector = connector
        self._largest = largest
        self._share = share
        self._headers = CIMultiDict([("User-Agent", user_agent), ("Accept", JSON), *_impersonating(config.impersonation)])
        self._pair: tuple[bytes, bytes] | None = None
        self._tls = self._new_context(None)
        self._session: aiohttp.ClientSession | None = None

    async def send(self, request: Request) -> bytes:
        """Send until there is an answer or the deadline is over.

        A lost connection is tried once more where that is harmless, and after a 429 or 5xx with Retry-After the request is repeated when the server says.
        """
        now = asyncio.get_running_loop().time
        reconnects = 1 if request.content == APPLY else 0  # aiohttp itself repeats a GET and a DELETE once
        with _translated(request.doing, self._timeout):
            async with asyncio.timeout(self._timeout) as deadline:
                while True:
                    try:
                        return await self._as_somebody(partial(self._once, request), deadline)
                    except (TooManyRequests, ServerError) as error:
                        pause = _pause(error, request)
                        if pause is None or now() + pause >= (deadline.when() or 0):
                            raise
                        await asyncio.sleep(pause)
                    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
                        if not reconnects or isinstance(error, aiohttp.ClientConnectorError):
                            raise
                        reconnects -= 1

    @contextlib.asynccontextmanager
    async def stream(self, path: str, doing: str, inactivity: float) -> AsyncIterator[AsyncIterator[bytes]]:
        """The answer to a GET, piece by piece and without an end of its own. `inactivity` seconds without a byte raise Timeout."""
        timeouts = aiohttp.ClientTimeout(total=None, connect=self._timeout, sock_read=inactivity)
        with _translated(doing, inactivity):
            async with await self._as_somebody(partial(self._answered, Request("GET", path, doing), timeout=timeouts)) as answer:
                yield self._spread(answer.content.iter_chunked(_CHUNK))

    async def _spread(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """The chunks, each when there is time for it; what the reader does with one, without awaiting anything, is counted."""
        async for chunk in chunks:
            began = self._share.begin()
            yield chunk
            self._share.end(began)
            if pause := self._share.wait():
                await asyncio.sleep(pause)

    async def websocket(self, path: str, doing: str, protocols: tuple[str, ...]) -> aiohttp.ClientWebSocketResponse:
        """A WebSocket, pinged every 15 s, of frames of at most 1 MiB. Pings of the server are for who reads it to answer, and to count. An HTTP answer
        instead is an ApiError.
        """
        with _translated(doing, self._timeout):
            async with asyncio.timeout(self._timeout) as deadline:
                return await self._as_somebody(partial(self._upgraded, path, doing, protocols), deadline)

    async def close(self) -> None:
        """Close all connections. Idempotent; a request after it opens new ones."""
        if self._session is not None:
            session, self._session = self._session, None
            await session.close()

    async def _once(self, request: Request, identity: _Identity) -> bytes:
        async with await self._answered(request, identity) as answer:
            largest = self._largest if request.largest is None else request.largest
            content = await self._content(answer, largest)
            if len(content) > largest:
                raise TooMuch(f"{request.doing}: the answer has more than {largest >> 20} MiB, which is read no further")
            return content

    async def _answered(self, request: Request, identity: _Identity, **options: Any) -> aiohttp.ClientResponse:
        """A good answer, whose body is still to be read."""
        headers = {"Content-Type": request.content} if request.body is not None else {}
        with self._counting(request.method) as count:
            answer = await self._open().request(
                request.method, self._base + request.path, data=request.body, **self._options(identity, headers), **options
            )
            count(answer.status)
        if answer.status >= 400:
            async with answer:
                raise _error(answer, await self._content(answer, _LARGEST_ERROR), request.doing)
        return answer

    async def _upgraded(self, path: str, doing: str, protocols: tuple[str, ...], identity: _Identity) -> aiohttp.ClientWebSocketResponse:
        with self._counting("GET") as count:
            try:
                websocket: aiohttp.ClientWebSocketResponse = await self._open().ws_connect(
                    self._base + path,
                    protocols=protocols,
                    heartbeat=15.0,
                    autoping=False,
                    max_msg_size=LARGEST_FRAME,
                    **self._options(identity, {"Accept": _ANY}),
                )
            except aiohttp.WSServerHandshakeError as error:
                count(error.status)
                raise from_status(Status(message=f"HTTP {error.status} instead of a WebSocket"), error.status, doing=doing) from error
            count(101)
        return websocket

    @contextlib.contextmanager
    def _counting(self, method: str) -> Iterator[Callable[[int], None]]:
        """Tell `on_request` of one request, once: the status that the block counts, or that there was no answer."""
        codes: list[int] = []
        try:
            yield codes.append
        finally:
            self._on_request(method, self._host, str(codes[0]) if codes else "<error>")

    async def _as_somebody(self, attempt: Callable[[_Identity], Awaitable[R]], deadline: asyncio.Timeout | None = None) -> R:
        """Attempt something, and once more where the server refuses the credentials, or its certificate is not trusted, and there are others.

        What it takes to have credentials made does not count towards the deadline: somebody may have to log in.
        """
        with _unhurried(deadline):
            identity = await self._identity()
        try:
            await self._turn()
            return await attempt(identity)
        except Unauthorized:
            with _unhurried(deadline):
                renewed = await self._renewed(identity)
            if renewed == identity and not self._reread():
                raise
        except aiohttp.ClientSSLError:
            renewed = identity
            if not self._reread():
                raise
        await self._turn()
        return await attempt(renewed)

    async def _content(self, answer: aiohttp.ClientResponse, most: int) -> bytes:
        """The body, or somewhat more than `most` bytes of one that goes on."""
        content = bytearray()
        async for piece in answer.content.iter_chunked(_CHUNK):
            content += piece
            if len(content) > most:
                break
            self._check_share()
        return bytes(content)

    async def _turn(self) -> None:
        """Wait for a turn."""
        self._check_share()
        await self._bucket.take()

    def _check_share(self) -> None:
        """Raise ClientError where the server has had its share of our time."""
        if pause := self._share.wait():
            raise aiohttp.ClientError(
                f"what it sends takes more than {self._share.part:.0%} of this process' time: it is asked again in {pause:.0f} s"
            )

    def _reread(self) -> bool:
        """Whether the files that the configuration came from have other certificates by now, which are taken from now on. Open connections stay."""
        if self._config.reread is None:
            return False
        try:
            found = self._config.reread()
            config = replace(self._config, ca=found.ca, certificate=found.certificate, key=found.key)
            if config == self._config:
                return False
            tls = self._made_context(config, config.certificate, config.key)
        except (ConfigError, ValueError) as error:  # half written, for one
            _log.warning("the kubeconfig could not be read again", server=self._host, error=str(error))
            return False
        self._config, self._tls, self._pair = config, tls, None
        return True

    async def _identity(self) -> _Identity:
        credentials = self._config.credentials
        return _Identity(await credentials.token(), await credentials.certificate()) if credentials else _Identity()

    async def _renewed(self, refused: _Identity) -> _Identity:
        """The identity after a refusal. Of many requests that were refused at once only the first has new credentials made."""
        if self._config.credentials is not None and await self._identity() == refused:
            self._config.credentials.reject()
        return await self._identity()

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=self._connector(),
                cookie_jar=aiohttp.DummyCookieJar(),
                headers=self._headers,
                timeout=aiohttp.ClientTimeout(total=None),
                middlewares=(self._stays,),
            )
        return self._session

    async def _stays(self, request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
        """Send it, unless it is to go to another server than ours: where the API server redirects to is its own, or a tenant's, to say."""
        if request.url.origin() != self._origin:
            raise aiohttp.ClientError(f"the server redirects to {request.url.origin()}, which is not followed")
        return await handler(request)

    def _options(self, identity: _Identity, headers: dict[str, str]) -> dict[str, Any]:
        if identity.token:
            headers["Authorization"] = f"Bearer {identity.token}"
        options: dict[str, Any] = {"headers": headers, "ssl": self._context(identity.pair)}
        if self._config.proxy_url:
            options["proxy"] = self._config.proxy_url
        if self._config.tls_server_name:
            options["server_hostname"] = self._config.tls_server_name
        return options

    def _context(self, pair: tuple[bytes, bytes] | None) -> ssl.SSLContext:
        """The TLS context for a certificate. Connections are pooled by context: those of an older certificate end by themselves, and cut nobody off."""
        if pair != self._pair:
            try:
                self._tls, self._pair = self._new_context(pair), pair
            except ValueError as error:
                raise ConfigError(f"the exec plugin for {self._host}: {error}") from error
        return self._tls

    def _new_context(self, pair: tuple[bytes, bytes] | None) -> ssl.SSLContext:
        certificate, key = pair or (self._config.certificate, self._config.key)
        return self._made_context(self._config, certificate, key)

    def _made_context(self, config: RestConfig, certificate: bytes, key: bytes) -> ssl.SSLContext:
        return client_context(ca=config.ca, certificate=certificate, key=key, insecure=config.insecure, counting=self._share.spending)


@contextlib.contextmanager
def _unhurried(deadline: asyncio.Timeout | None) -> Iterator[None]:
    """Stop the clock of a deadline meanwhile."""
    due = deadline.when() if deadline else None
    if deadline is None or due is None:
        yield
        return
    now = asyncio.get_running_loop().time
    left = due - now()
    deadline.reschedule(None)
    try:
        yield
    finally:
        deadline.reschedule(now() + left)


def _impersonating(as_: Impersonation | None) -> Iterator[tuple[str, str]]:
    """The headers that say as whom. Source: client-go's transport/round_trippers.go."""
    if as_ is not None:
        yield "Impersonate-User", as_.user
        if as_.uid:
            yield "Impersonate-Uid", as_.uid
        yield from (("Impersonate-Group", group) for group in as_.groups)
        for key, texts in as_.extra.items():
            yield from ((f"Impersonate-Extra-{quote(key, safe=_IN_NAMES)}", text) for text in texts)


def _pause(error: ApiError, request: Request) -> float | None:
    """Seconds until the request may be sent again, None if it may not. Of a 429 nothing was carried out; after another error that is not certain."""
    if error.retry_after is None or not (request.idempotent or isinstance(error, TooManyRequests)):
        return None
    return max(error.retry_after, _LEAST_PAUSE)


def _error(answer: aiohttp.ClientResponse, data: bytes, doing: str) -> ApiError:
    try:
        status = _STATUSES.decode(data)
    except UNREADABLE:
        status = Status(message=f"HTTP {answer.status}: {_in_a_line(data)}".rstrip(": "))
    seconds = answer.headers.get("Retry-After", "")
    return from_status(status, answer.status, doing=doing, retry_after=float(seconds) if seconds.isdecimal() else None)


@contextlib.contextmanager
def _translated(doing: str, seconds: float) -> Iterator[None]:
    """Turn what aiohttp raises into our errors, at this one place."""
    try:
        with cancelled_by_request_alone():
            yield
    except CancelledElsewhere as error:
        raise ConnectionFailed(f"{doing}: the connection was closed meanwhile") from error
    except aiohttp.ConnectionTimeoutError as error:
        raise ConnectionFailed(f"{doing}: no connection in time: {error}") from error
    except TimeoutError as error:
        raise Timeout(f"{doing}: no answer within {seconds:g} s") from error
    except aiohttp.ClientError as error:
        raise ConnectionFailed(f"{doing}: {said(error)}") from error
    except UnicodeError as error:  # which the look-up of a name with an empty label, or one of over 63 characters, ends in
        raise ConnectionFailed(f"{doing}: the server's name cannot be looked up: {error.__cause__ or error}") from error


def said(error: Exception) -> str:
    """What an error of aiohttp says: the same each time that the same is wrong."""
    return _CONTEXT.sub("", str(error)) or type(error).__name__


def _in_a_line(body: bytes) -> str:
    """What an answer says that is no Status, shortened. Of an API server's checks of itself, a line each, those that passed are left out."""
    return " ".join(line for line in body.decode(errors="replace").splitlines() if not line.startswith("[+]"))[:200].strip()
