"""The client: typed requests to one API server, each with a deadline, over one pool of connections."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Hashable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from typing import Any, Generic, Protocol, TypeVar, cast
from urllib.parse import urlencode

import aiohttp
import msgspec

from quorate.kubernetes import depth, moments
from quorate.kubernetes.config import RestConfig
from quorate.kubernetes.errors import BadRequest, ConnectionFailed, ServerError, TooMuch, from_status
from quorate.kubernetes.framing import TooLong, values
from quorate.kubernetes.objects import ListMeta, Object, ObjectMeta, Status
from quorate.kubernetes.queue import TokenBucket
from quorate.kubernetes.resource import Resource
from quorate.kubernetes.share import Share
from quorate.kubernetes.transport import (
    APPLY,
    JSON,
    JSON_PATCH,
    LARGEST,
    MERGE_PATCH,
    UNREADABLE,
    OnRequest,
    Request,
    Transport,
    tcp_connector,
)

T = TypeVar("T")

TIMEOUT = 30.0
"""Seconds that one request may take, waiting for its turn and retries included, unless told otherwise."""
USER_AGENT = f"quorate/{version('quorate')}"
LARGEST_LIST = 16 * LARGEST
"""Bytes of all pages of a list, unless told otherwise: of a list that is paged, too, the end is the server's to say."""

_MOST_MOMENTS = 5  # that cannot be held, in an object of one tenant's, who hides nothing but their own: each has it decoded anew
_AT_A_TIME = 50  # objects of a page that are decoded before others have their turn: 10 ms of objects of 20 KB
_MOST_PAGES = 1000  # of a list: those that are kept have half a million objects
_SMALLER = 8  # times, where a page is too large: 500 objects of 1.5 MiB, the most that etcd takes, are, and 62 are not


@dataclass(frozen=True, slots=True)
class Listing(Generic[T]):
    """All objects that a list returned, over all its pages, and the resourceVersion to watch from."""

    items: list[T]
    resource_version: str


@dataclass(frozen=True, slots=True)
class WatchEvent(Generic[T]):
    """One event of a watch: ADDED, MODIFIED, DELETED or BOOKMARK. A bookmark's object, whatever the kind, has an attribute `metadata` and nothing else."""

    type: str
    object: T


class _Page(Object):
    metadata: ListMeta = ListMeta()
    items: list[msgspec.Raw]  # an API server with nothing to list says [], never null: what lacks them is no list, and not an empty one


class _RawEvent(Object):
    type: str
    object: msgspec.Raw


class _Kind(Object):
    kind: str = ""


class _Bookmark(Object):
    metadata: ObjectMeta


_VERBS = {"GET": "get", "POST": "create", "PATCH": "patch", "DELETE": "delete"}


def connect(
    config: RestConfig,
    *,
    user_agent: str = USER_AGENT,
    qps: float = 100.0,
    burst: int = 200,
    timeout: float = TIMEOUT,
    on_request: OnRequest = lambda *_: None,
    connector: Callable[[], aiohttp.BaseConnector] = tcp_connector,
    largest: int = LARGEST,
    largest_list: int = LARGEST_LIST,
    largest_object: int | None = None,
    most_values: int | None = None,
    most_objects: int | None = None,
    share: Share | None = None,
) -> Client:
    """A client for the server. Connects at its first request. Raises ValueError where the certificates are malformed. Close it when done.

    `connector` makes the pool of connections, where the way to the server is another than TCP from here. `largest` are the bytes of one answer that are read,
    `largest_list` those of all pages of a list, `largest_object` those of an answer about one object. `most_values` are the values of an answer that are
    decoded, by the commas between them, and `most_objects` the objects of a list. `share` is what the server may have of our time.
    """
    share = share or Share()
    transport = Transport(
        config,
        user_agent=user_agent,
        bucket=TokenBucket(qps, burst),
        timeout=timeout,
        on_request=on_request,
        connector=connector,
        largest=largest,
        share=share,
    )
    return Client(config, transport, Bounds(largest_list, most_values, most_objects, largest_object), share)


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much of an answer is read, by bytes of all pages of a list, values in one answer, objects of a list, and bytes about one object; None: as many as
    there are.
    """

    list_bytes: int = LARGEST_LIST
    values: int | None = None
    objects: int | None = None
    object_bytes: int | None = None


class Carrier(Protocol):
    """What carries requests to one API server and raises its errors: `quorate.kubernetes.transport.Transport` says how each call behaves."""

    async def send(self, request: Request) -> bytes:
        """The answer to one request."""
        ...

    def stream(self, path: str, doing: str, inactivity: float) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """The answer to a GET, piece by piece."""
        ...

    async def websocket(self, path: str, doing: str, protocols: tuple[str, ...]) -> aiohttp.ClientWebSocketResponse:
        """A WebSocket."""
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...


@dataclass(frozen=True, slots=True)
class _Guarded:
    """A carrier that asks before it sends what may change something."""

    carrier: Carrier
    permit: Callable[[], Awaitable[None]]

    async def send(self, request: Request) -> bytes:
        if request.method != "GET":
            await self.permit()
        return await self.carrier.send(request)

    def stream(self, path: str, doing: str, inactivity: float) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return self.carrier.stream(path, doing, inactivity)

    async def websocket(self, path: str, doing: str, protocols: tuple[str, ...]) -> aiohttp.ClientWebSocketResponse:
        await self.permit()
        return await self.carrier.websocket(path, doing, protocols)

    async def close(self) -> None:
        await self.carrier.close()


class Client:
    """One API server as one identity.

    Every method raises an ApiError for an answer that is an error or not what it should be, ConnectionFailed where there is none, and ConfigError where a
    token file or an exec plugin gives no credentials.
    """

    def __init__(self, config: RestConfig, transport: Carrier, bounds: Bounds = Bounds(), share: Share | None = None) -> None:
        self.config = config
        self._share = share or Share()
        self._transport = transport
        self._bounds = bounds

    def guarded(self, permit: Callable[[], Awaitable[None]]) -> Client:
        """A client with the same connections that awaits `permit` right before every request which is no GET; what that raises is raised, and nothing sent."""
        return Client(self.config, _Guarded(self._transport, permit), self._bounds, self._share)

    async def get(self, resource: Resource[T], name: str, namespace: str = "") -> T:
        """One object."""
        return await self._object("GET", resource, name, namespace)

    async def list(
        self,
        resource: Resource[T],
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 500,
        resource_version: str | None = None,
        keep: Callable[[T], T | None] = lambda item: item,
    ) -> Listing[T]:
        """All objects of the kind in a namespace ("" for all of them) that match, read `limit` at a time from one consistent state.

        That state is the newest, or with `resource_version` one at least as new: "0" takes whatever the server has at hand. Where so many are larger than an
        answer may be, fewer are read at a time: whoever may write large objects would otherwise hide everybody's from everybody. `keep` makes of each what is
        returned, None for nothing, before the next page is read: of all pages no more than that is in memory at once.
        """
        query = {"labelSelector": label_selector, "fieldSelector": field_selector}
        first, doing = {"resourceVersion": resource_version or ""}, _doing("list", resource, namespace)
        items: list[T] = []
        size = 0
        for _ in range(_MOST_PAGES):
            page_query = query | {"limit": str(limit)} | first
            try:
                answer = await self._transport.send(Request("GET", resource.path(namespace) + _encoded(page_query), doing))
            except TooMuch:
                if limit == 1:
                    raise
                limit = max(1, limit // _SMALLER)
                continue
            size += len(answer)
            if size > self._bounds.list_bytes:
                raise TooMuch(f"{doing}: the list has more than {self._bounds.list_bytes >> 20} MiB, which is read no further")
            with self._share.spending():
                page = self._decode(_Page, answer, doing, of_many=True)
            if self._bounds.objects is not None and (found := len(items) + len(page.items)) > self._bounds.objects:
                raise TooMuch(f"{doing}: the list has {found} objects or more, and of more than {self._bounds.objects} none are read")
            for start in range(0, len(page.items), _AT_A_TIME):
                with self._share.spending():
                    some = (keep(self._decode(resource.type, raw, doing)) for raw in page.items[start : start + _AT_A_TIME])
                    items += [item for item in some if item is not None]
                await asyncio.sleep(0)
            if not page.metadata.continue_:
                return Listing(items, page.metadata.resource_version)
            first = {"continue": page.metadata.continue_}  # which has the resourceVersion in it: the server takes one or the other
        raise TooMuch(f"{doing}: the list has more than {_MOST_PAGES} pages, {len(items)} objects on them, and is read no further")

    async def create(
        self, resource: Resource[T], body: Mapping[str, Any], namespace: str = "", *, field_manager: str = "", dry_run: bool = False
    ) -> T:
        """Create an object. Not repeated when the answer is lost: AlreadyExists may then be one's own doing. `dry_run`: as it would be, and nothing is kept."""
        doing = _doing("create", resource, namespace)
        path = resource.path(namespace) + _encoded({"fieldManager": field_manager, "dryRun": "All" if dry_run else ""})
        return self._decode(resource.type, await self._transport.send(Request("POST", path, doing, msgspec.json.encode(body))), doing)

    async def create_subresource(
        self, resource: Resource[T], name: str, subresource: str, body: Mapping[str, Any], namespace: str = ""
    ) -> None:
        """Create what a subresource stands for, such as the eviction of a Pod. Not repeated when the answer is lost."""
        doing = _doing("create", resource, namespace, name, subresource)
        path = _object_path(resource, name, namespace, subresource, doing)
        await self._transport.send(Request("POST", path, doing, msgspec.json.encode(body)))

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
        doing = _doing("delete", resource, namespace, name)
        request = Request("DELETE", _object_path(resource, name, namespace, "", doing), doing, msgspec.json.encode(options))
        answer = await self._transport.send(request)
        return None if self._decode(_Kind, answer, doing).kind == "Status" else self._decode(resource.type, answer, doing)

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
        return await self._object("PATCH", resource, name, namespace, subresource, body=patch, content=MERGE_PATCH, query=query)

    async def json_patch(
        self,
        resource: Resource[T],
        name: str,
        patch: Sequence[Mapping[str, Any]],
        namespace: str = "",
        *,
        subresource: str = "",
        field_manager: str = "",
    ) -> T:
        """Apply the operations of a JSON patch (RFC 6902)."""
        query = {"fieldManager": field_manager}
        return await self._object("PATCH", resource, name, namespace, subresource, body=patch, content=JSON_PATCH, query=query)

    async def apply(
        self,
        resource: Resource[T],
        body: Mapping[str, Any],
        namespace: str = "",
        *,
        field_manager: str,
        force: bool = True,
        subresource: str = "",
        dry_run: bool = False,
    ) -> T:
        """Server-side apply: what `body` says becomes so and ours; what it said last time and no longer says is given up. Idempotent.

        With a uid in the metadata it never creates an object. `dry_run`: the object as it would be, and nothing is kept.
        """
        query = {"fieldManager": field_manager, "force": "true" if force else "", "dryRun": "All" if dry_run else ""}
        return await self._object(
            "PATCH", resource, body["metadata"]["name"], namespace, subresource, body=body, content=APPLY, query=query
        )

    async def get_raw(self, path: str) -> bytes:
        """The answer to a GET of any path, such as `/readyz`."""
        return await self._transport.send(Request("GET", path, f"get {path}", largest=self._bounds.object_bytes))

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
        on_open: Callable[[], None] = lambda: None,
    ) -> AsyncGenerator[WatchEvent[T], None]:
        """What happens from a resourceVersion on, until the server ends the watch. Errors inside the stream are raised.

        `on_open` is called once the server has accepted the watch: from then on silence means that nothing happens. `inactivity` seconds without a byte raise
        Timeout: the connection is then dead and TCP has not noticed.
        """
        query = {
            "watch": "true",
            "resourceVersion": resource_version,
            "labelSelector": label_selector,
            "fieldSelector": field_selector,
            "timeoutSeconds": str(timeout_seconds),
            "allowWatchBookmarks": "true" if bookmarks else "",
        }
        doing = _doing("watch", resource, namespace)
        async with self._transport.stream(resource.path(namespace) + _encoded(query), doing, inactivity) as chunks:
            on_open()
            try:
                async for value in values(chunks):
                    yield self._event(resource, value, doing)
            except TooLong as error:
                raise ConnectionFailed(f"{doing}: {error}") from error

    async def connect_websocket(self, path: str, protocols: tuple[str, ...]) -> aiohttp.ClientWebSocketResponse:
        """A WebSocket to a path, for the port-forward; pinged every 15 s. An HTTP answer instead is an ApiError."""
        return await self._transport.websocket(path, f"connect {path.partition('?')[0]}", protocols)

    async def close(self) -> None:
        """Close all connections. Idempotent; a request after it opens new ones."""
        await self._transport.close()

    async def _object(
        self,
        method: str,
        resource: Resource[T],
        name: str,
        namespace: str,
        subresource: str = "",
        *,
        body: Any = None,
        content: str = JSON,
        query: Mapping[str, str] | None = None,
    ) -> T:
        """Send a request that concerns one object and is answered with it."""
        doing = _doing(_VERBS[method], resource, namespace, name, subresource)
        path = _object_path(resource, name, namespace, subresource, doing) + _encoded(query or {})
        request = Request(method, path, doing, None if body is None else msgspec.json.encode(body), content, self._bounds.object_bytes)
        answer = await self._transport.send(request)
        with self._share.spending():
            return self._decode(resource.type, answer, doing)

    def _event(self, resource: Resource[T], value: bytes, doing: str) -> WatchEvent[T]:
        event = self._decode(_RawEvent, value, doing, of_many=True)
        if event.type == "ERROR":
            status = self._decode(Status, event.object, doing)
            raise from_status(status, status.code, doing=doing)
        if (
            event.type == "BOOKMARK"
        ):  # of its other fields some are missing that every object has, or null, such as a definition's spec.versions
            return WatchEvent(event.type, cast("T", self._decode(_Bookmark, event.object, doing)))
        return WatchEvent(event.type, self._decode(resource.type, event.object, doing))

    def _decode(self, type_: type[T], data: bytes | msgspec.Raw, doing: str, *, of_many: bool = False) -> T:
        """The answer as this type. `of_many`: it has objects of many, and what one of them has too deep for anybody to read is left out."""
        most = self._bounds.values
        if most is not None and isinstance(data, bytes) and data.count(b",") > most:
            raise ServerError(f"{doing}: the answer has more than {most} values, which take too long to read")
        decoder: msgspec.json.Decoder[T] = _decoder(cast("Hashable", type_))
        try:
            try:
                return moments.readable(data, decoder, moments.MOST if most is None else _MOST_MOMENTS)
            except RecursionError:
                if not of_many or most is not None:  # where values are counted, all of them are of one tenant
                    raise
                return moments.readable(depth.shallow(bytes(data)), decoder)
        except UNREADABLE as error:
            raise ServerError(f"{doing}: the answer cannot be read: {error}") from error


@cache
def _decoder(type_: Hashable) -> msgspec.json.Decoder[Any]:
    """One of each type for the whole process: those of a workload cluster take 20 ms to make."""
    return msgspec.json.Decoder(type_)


def _doing(verb: str, resource: Resource[Any], namespace: str, name: str = "", subresource: str = "") -> str:
    """What an error message begins with: the verb and the resource as RBAC names them, and whose it is."""
    what = "/".join(part for part in (resource.plural, subresource) if part)
    whose = "/".join(part for part in (namespace, name) if part)
    return f"{verb} {what} {whose}".rstrip()


def _object_path(resource: Resource[Any], name: str, namespace: str, subresource: str, doing: str) -> str:
    """The path of one object. Without a name it would be that of all of them, and a DELETE would delete them."""
    if not name:
        raise BadRequest(f"{doing}: the object has no name")
    return resource.path(namespace, name, subresource)


def _encoded(query: Mapping[str, str]) -> str:
    given = urlencode({key: value for key, value in query.items() if value})
    return f"?{given}" if given else ""
