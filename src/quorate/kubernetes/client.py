"""The client: typed requests to one API server, each with a deadline, over one pool of connections."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, Generic, TypeVar, cast
from urllib.parse import urlencode, urlsplit

import aiohttp
import msgspec

from quorate.kubernetes.config import RestConfig
from quorate.kubernetes.errors import ApiError, ConnectionFailed, ServerError, Timeout, TooManyRequests, Unauthorized, from_status
from quorate.kubernetes.framing import values
from quorate.kubernetes.objects import ListMeta, Object, Status
from quorate.kubernetes.queue import TokenBucket
from quorate.kubernetes.resource import Resource
from quorate.kubernetes.tls import client_context

T = TypeVar("T")

TIMEOUT = 30.0
"""Seconds that one request may take, waiting for its turn and retries included, unless told otherwise."""
USER_AGENT = f"quorate/{version('quorate')}"

_JSON = "application/json"
_MERGE_PATCH = "application/merge-patch+json"
_JSON_PATCH = "application/json-patch+json"
_APPLY = "application/apply-patch+yaml"  # JSON is YAML
_IDEMPOTENT = frozenset({"GET", "PUT", "DELETE"})
_KEEPALIVE = 30.0  # seconds; an idle workload cluster should not keep a socket for long
_CHUNK = 1 << 16

OnRequest = Callable[[str, str, str], None]  # method, host, HTTP code ("<error>" where there was no answer)


@dataclass(frozen=True, slots=True)
class Listing(Generic[T]):
    """All objects that a list returned, over all its pages, and the resourceVersion to watch from."""

    items: list[T]
    resource_version: str


@dataclass(frozen=True, slots=True)
class WatchEvent(Generic[T]):
    """One event of a watch: ADDED, MODIFIED, DELETED or BOOKMARK."""

    type: str
    object: T


class _Page(Object):
    metadata: ListMeta = ListMeta()
    items: list[msgspec.Raw] = msgspec.field(default_factory=list)


class _RawEvent(Object):
    type: str
    object: msgspec.Raw


class _Kind(Object):
    kind: str = ""


_KINDS = msgspec.json.Decoder(_Kind)
_PAGES = msgspec.json.Decoder(_Page)
_EVENTS = msgspec.json.Decoder(_RawEvent)
_STATUSES = msgspec.json.Decoder(Status)


def connect(
    config: RestConfig,
    *,
    user_agent: str = USER_AGENT,
    qps: float = 100.0,
    burst: int = 200,
    timeout: float = TIMEOUT,
    on_request: OnRequest = lambda *_: None,
) -> Client:
    """A client for the server. Connects at its first request. Raises ValueError where the certificates are malformed. Close it when done."""
    return Client(config, user_agent=user_agent, bucket=TokenBucket(qps, burst), timeout=timeout, on_request=on_request)


class Client:
    """One API server as one identity. Every method raises an ApiError for an answer that is an error, and ConnectionFailed where there is none."""

    def __init__(self, config: RestConfig, *, user_agent: str, bucket: TokenBucket, timeout: float, on_request: OnRequest) -> None:
        self.config = config
        self._base = config.server.rstrip("/")
        self._host = urlsplit(config.server).netloc
        self._bucket = bucket
        self._timeout = timeout
        self._on_request = on_request
        self._headers = {"User-Agent": user_agent, "Accept": _JSON}
        self._decoders: dict[Any, msgspec.json.Decoder[Any]] = {}
        self._tls = client_context(authority=config.authority, certificate=config.certificate, key=config.key, insecure=config.insecure)
        self._identity: tuple[bytes, bytes] | None = None
        self._session: aiohttp.ClientSession | None = None

    async def get(self, resource: Resource[T], name: str, namespace: str = "") -> T:
        """One object."""
        return self._decode(resource, await self._request("GET", resource, namespace, name))

    async def list(
        self, resource: Resource[T], namespace: str = "", *, label_selector: str = "", field_selector: str = "", limit: int = 500
    ) -> Listing[T]:
        """All objects of the kind in a namespace ("" for all of them) that match, read `limit` at a time from one consistent state."""
        query = {"labelSelector": label_selector, "fieldSelector": field_selector, "limit": str(limit)}
        items: list[T] = []
        while True:
            page = _PAGES.decode(await self._request("GET", resource, namespace, query=query, verb="list"))
            decoder = self._decoder(resource.type)
            items += [decoder.decode(raw) for raw in page.items]
            if not page.metadata.continue_:
                return Listing(items, page.metadata.resource_version)
            query["continue"] = page.metadata.continue_

    async def create(self, resource: Resource[T], body: Mapping[str, Any], namespace: str = "", *, field_manager: str = "") -> T:
        """Create an object. Not repeated when the answer is lost: AlreadyExists may then be one's own doing."""
        return self._decode(resource, await self._request("POST", resource, namespace, body=body, query={"fieldManager": field_manager}))

    async def delete(
        self,
        resource: Resource[T],
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        resource_version: str = "",
        propagation: str = "Background",
    ) -> T | None:
        """Delete an object, if it still is the one with this uid and resourceVersion (where given).

        Returns the object as it is now where finalizers hold it, and None where the API answers with a Status.
        """
        preconditions = {key: value for key, value in (("uid", uid), ("resourceVersion", resource_version)) if value}
        options: dict[str, Any] = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": propagation}
        options |= {"preconditions": preconditions} if preconditions else {}
        answer = await self._request("DELETE", resource, namespace, name, body=options)
        return None if _KINDS.decode(answer).kind == "Status" else self._decode(resource, answer)

    async def merge_patch(
        self,
        resource: Resource[T],
        name: str,
        patch: Mapping[str, Any],
        namespace: str = "",
        *,
        subresource: str = "",
        field_manager: str = "",
    ) -> T:
        """Merge `patch` into the object (RFC 7386); with `metadata.resourceVersion` in it, only if nobody has changed it since."""
        query = {"fieldManager": field_manager}
        answer = await self._request("PATCH", resource, namespace, name, subresource, body=patch, content=_MERGE_PATCH, query=query)
        return self._decode(resource, answer)

    async def json_patch(
        self, resource: Resource[T], name: str, patch: Sequence[Mapping[str, Any]], namespace: str = "", *, subresource: str = ""
    ) -> T:
        """Apply the operations of a JSON patch (RFC 6902)."""
        return self._decode(resource, await self._request("PATCH", resource, namespace, name, subresource, body=patch, content=_JSON_PATCH))

    async def apply(
        self,
        resource: Resource[T],
        body: Mapping[str, Any],
        namespace: str = "",
        *,
        field_manager: str,
        force: bool = True,
        subresource: str = "",
    ) -> T:
        """Server-side apply: what `body` says becomes so and ours; what it said last time and no longer says is given up. Idempotent.

        With a uid in the metadata it never creates an object.
        """
        query = {"fieldManager": field_manager, "force": "true" if force else ""}
        name = body["metadata"]["name"]
        answer = await self._request("PATCH", resource, namespace, name, subresource, body=body, content=_APPLY, query=query, verb="apply")
        return self._decode(resource, answer)

    async def get_raw(self, path: str) -> bytes:
        """The answer to a GET of any path, such as `/readyz`."""
        return await self._send("GET", path, f"get {path}", None, _JSON)

    async def watch(
        self,
        resource: Resource[T],
        namespace: str = "",
        *,
        resource_version: str,
        label_selector: str = "",
        field_selector: str = "",
        timeout_seconds: int = 300,
        bookmarks: bool = True,
        inactivity: float = 70.0,
    ) -> AsyncGenerator[WatchEvent[T], None]:
        """What happens from a resourceVersion on, until the server ends the watch. Errors inside the stream are raised.

        `inactivity` seconds without a byte raise Timeout: the connection is then dead and TCP has not noticed.
        """
        query = {
            "watch": "true",
            "resourceVersion": resource_version,
            "labelSelector": label_selector,
            "fieldSelector": field_selector,
            "timeoutSeconds": str(timeout_seconds),
            "allowWatchBookmarks": "true" if bookmarks else "",
        }
        doing, decoder = f"watch {resource.plural}", self._decoder(resource.type)
        path = resource.path(namespace) + "?" + urlencode({key: value for key, value in query.items() if value})
        timeouts = aiohttp.ClientTimeout(total=None, sock_connect=self._timeout, sock_read=inactivity)
        with _translated(doing):
            async with (await self._open()).get(
                self._base + path, headers=await self._request_headers(), timeout=timeouts, **self._options()
            ) as answer:
                self._on_request("GET", self._host, str(answer.status))
                if answer.status >= 400:
                    raise self._error(answer, await answer.read(), doing)
                async for value in values(answer.content.iter_chunked(_CHUNK)):
                    event = _EVENTS.decode(value)
                    if event.type == "ERROR":
                        status = _STATUSES.decode(event.object)
                        raise from_status(status, status.code, doing=doing)
                    yield WatchEvent(event.type, decoder.decode(event.object))

    async def connect_websocket(self, path: str, protocols: tuple[str, ...]) -> aiohttp.ClientWebSocketResponse:
        """A WebSocket to a path, for the port-forward; pinged every 15 s. An HTTP answer instead is an ApiError."""
        doing = f"connect {path.partition('?')[0]}"
        with _translated(doing):
            try:
                session = await self._open()
                websocket: aiohttp.ClientWebSocketResponse = await session.ws_connect(
                    self._base + path,
                    protocols=protocols,
                    headers=await self._request_headers(),
                    heartbeat=15.0,
                    max_msg_size=0,
                    **self._options(),
                )
            except aiohttp.WSServerHandshakeError as error:
                raise from_status(Status(message=error.message), error.status, doing=doing) from error
            return websocket

    async def close(self) -> None:
        """Close all connections. Idempotent; a request after it opens new ones."""
        if self._session is not None:
            session, self._session = self._session, None
            await session.close()

    async def _request(
        self,
        method: str,
        resource: Resource[Any],
        namespace: str,
        name: str = "",
        subresource: str = "",
        *,
        body: Any = None,
        content: str = _JSON,
        query: Mapping[str, str] | None = None,
        verb: str = "",
    ) -> bytes:
        given = urlencode({key: value for key, value in (query or {}).items() if value})
        path = resource.path(namespace, name, subresource) + (f"?{given}" if given else "")
        what = "/".join(part for part in (resource.plural, subresource) if part)
        whose = "/".join(part for part in (namespace, name) if part)
        doing = f"{verb or _VERBS[method]} {what}{' ' + whose if whose else ''}"
        return await self._send(method, path, doing, None if body is None else msgspec.json.encode(body), content)

    async def _send(self, method: str, path: str, doing: str, body: bytes | None, content: str) -> bytes:
        """Send until it is answered or the deadline is over: lost connections once more, where that is harmless, and 429 and 503 when the server says."""
        idempotent = method in _IDEMPOTENT or content == _APPLY
        reconnects, refreshed = 1 if idempotent else 0, False
        deadline = asyncio.get_running_loop().time() + self._timeout
        with _translated(doing):
            async with asyncio.timeout_at(deadline):
                while True:
                    await asyncio.sleep(self._bucket.reserve(asyncio.get_running_loop().time()))
                    try:
                        return await self._once(method, path, doing, body, content)
                    except Unauthorized:
                        if refreshed or self.config.credentials is None:
                            raise
                        refreshed = True
                        self.config.credentials.reject()
                    except (TooManyRequests, ServerError) as error:
                        if error.retry_after is None or not (idempotent or isinstance(error, TooManyRequests)):
                            raise
                        if asyncio.get_running_loop().time() + error.retry_after >= deadline:
                            raise
                        await asyncio.sleep(error.retry_after)
                    except aiohttp.ClientConnectionError:
                        if not reconnects:
                            raise
                        reconnects -= 1

    async def _once(self, method: str, path: str, doing: str, body: bytes | None, content: str) -> bytes:
        session, headers = await self._open(), await self._request_headers()
        if body is not None:
            headers["Content-Type"] = content
        try:
            async with session.request(method, self._base + path, data=body, headers=headers, **self._options()) as answer:
                data = await answer.read()
        except BaseException:
            self._on_request(method, self._host, "<error>")
            raise
        self._on_request(method, self._host, str(answer.status))
        if answer.status >= 400:
            raise self._error(answer, data, doing)
        return data

    async def _open(self) -> aiohttp.ClientSession:
        await self._renew_identity()
        if self._session is None:
            connector = aiohttp.TCPConnector(ssl=self._tls, keepalive_timeout=_KEEPALIVE, limit=0)
            self._session = aiohttp.ClientSession(
                connector=connector, headers=self._headers, timeout=aiohttp.ClientTimeout(total=None), skip_auto_headers=("User-Agent",)
            )
        return self._session

    async def _renew_identity(self) -> None:
        """Start over with new connections when an exec plugin gave another certificate."""
        if self.config.credentials is None:
            return
        identity = await self.config.credentials.certificate()
        if identity is not None and identity != self._identity:
            self._identity = identity
            certificate, key = identity
            self._tls = client_context(authority=self.config.authority, certificate=certificate, key=key, insecure=self.config.insecure)
            await self.close()

    async def _request_headers(self) -> dict[str, str]:
        token = await self.config.credentials.token() if self.config.credentials else ""
        return {"Authorization": f"Bearer {token}"} if token else {}

    def _options(self) -> dict[str, Any]:
        options: dict[str, Any] = {}
        if self.config.proxy_url:
            options["proxy"] = self.config.proxy_url
        if self.config.tls_server_name:
            options["server_hostname"] = self.config.tls_server_name
        return options

    def _decoder(self, type_: type[T]) -> msgspec.json.Decoder[T]:
        if type_ not in self._decoders:
            self._decoders[type_] = msgspec.json.Decoder(type_)
        return cast("msgspec.json.Decoder[T]", self._decoders[type_])

    def _decode(self, resource: Resource[T], answer: bytes) -> T:
        return self._decoder(resource.type).decode(answer)

    @staticmethod
    def _error(answer: aiohttp.ClientResponse, data: bytes, doing: str) -> ApiError:
        try:
            status = _STATUSES.decode(data)
        except msgspec.DecodeError:
            status = Status(message=data[:200].decode(errors="replace"))
        seconds = answer.headers.get("Retry-After", "")
        return from_status(status, answer.status, doing=doing, retry_after=float(seconds) if seconds.isdigit() else None)


_VERBS = {"GET": "get", "POST": "create", "PATCH": "patch", "DELETE": "delete"}


@contextlib.contextmanager
def _translated(doing: str) -> Iterator[None]:
    """Turn what aiohttp raises into our errors, at this one place."""
    try:
        yield
    except aiohttp.ConnectionTimeoutError as error:
        raise ConnectionFailed(f"{doing}: no connection in time: {error}") from error
    except TimeoutError as error:
        raise Timeout(f"{doing}: no answer in time") from error
    except aiohttp.ClientError as error:
        raise ConnectionFailed(f"{doing}: {error}") from error
