"""The reflector: keeps a store equal to what the API server has, by one list and then one watch after another, and tells handlers what changed.

The rules are client-go's (tools/cache/reflector.go), but for one: after two watches of which nothing was heard, silent or failed, it lists again, and after one
that the server did not even accept. A server whose etcd was restored has lower versions; it accepts a watch from a version that has yet to come, and stays
silent.

The list is a consistent read, never one at resourceVersion "0": a process that comes back must not see an older world than the one it acted in; API servers
since 1.31 answer it from their watch cache all the same (KEP-2340).

Some servers are less than a whole API server: Cluster API's in-memory workload API ignores selectors for live watch events, sends nothing, not even headers,
until something happens, and closes a watch after 120 s. For those there are `client_side_selector` and a longer `inactivity`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from random import Random
from typing import Generic, Protocol, TypeVar

import msgspec
import structlog

from quorate.kubernetes.client import Listing, WatchEvent
from quorate.kubernetes.config import ConfigError
from quorate.kubernetes.errors import ApiError, ConnectionFailed, Gone, TooMuch
from quorate.kubernetes.handlers import Handler
from quorate.kubernetes.metadata import metadata_of
from quorate.kubernetes.queue import Backoff
from quorate.kubernetes.resource import Resource
from quorate.kubernetes.store import Change, Store

T = TypeVar("T")

# What a server, the network or an object of a shape we do not know can do to a list or a watch. Anything else is a fault of ours and ends the process.
TROUBLE = (ApiError, ConfigError, ConnectionFailed, OSError, TimeoutError, msgspec.MsgspecError)

_WATCH_SECONDS = (
    300.0,
    600.0,
)  # spread, so that the watches of many kinds and replicas do not all come back at once; client-go's minimum is 300
_INACTIVITY = 70.0  # API servers send a bookmark a minute; silence for longer is a dead connection that TCP has not noticed
_PROVEN = 10.0  # seconds after which a watch that was accepted has shown that the server serves it, even if nothing happened
_MOST_WITHOUT_A_WORD = 2  # watches, one after the other, after which the next is from a new list
_TOLD_AT = 6  # failures in a row, in 6 to 13 s: from then on whoever relies on the store acts on what is old, or waits, and somebody has to be told why

_log = structlog.get_logger(__name__)


class ListWatch(Protocol):
    """What a reflector needs of a client."""

    async def list(
        self,
        resource: Resource[T],
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 500,
        keep: Callable[[T], T | None] = lambda item: item,
    ) -> Listing[T]:
        """What `keep` makes of all objects of a kind, page by page; None for nothing."""

    def watch(
        self,
        resource: Resource[T],
        namespace: str = "",
        *,
        resource_version: str,
        label_selector: str = "",
        field_selector: str = "",
        timeout_seconds: int = 300,
        bookmarks: bool = True,
        inactivity: float = _INACTIVITY,
        on_open: Callable[[], None] = lambda: None,
    ) -> AsyncGenerator[WatchEvent[T], None]:
        """What happens to them from a resourceVersion on. Errors inside the stream are raised, 410 as Gone. `on_open` is called when the server accepts it."""


class Reflector(Generic[T]):
    """Keeps `store` equal to the objects of `resource` in `namespace` ("" for all) that match the selectors, while `run` runs.

    `handlers` are told of each change after the store has it. `client_side_selector` filters again here, for servers that do not; an object that stops
    matching is a delete. `keep` makes of each what is stored, and may raise TooMuch; of more than `most` objects that match none more are stored, which is
    TooMuch too. `inactivity` (seconds) is how long a watch may be silent. `on_error` hears of every failure; each is retried after 0.2 s to 30 s.

    `healthy` is False from a failure until the server has answered again, and before the first list; `failing_since` is the loop time of that failure, None
    without one. `last_event_at` is the loop time of its last word: a list, the headers of a watch, an event, or the end of a watch that it made itself. A
    connection that is only not known to be dead says nothing.
    """

    def __init__(
        self,
        client: ListWatch,
        resource: Resource[T],
        store: Store[T],
        *,
        random: Random,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        handlers: Sequence[Handler[T]] = (),
        client_side_selector: Callable[[T], bool] = lambda _: True,
        keep: Callable[[T], T] = lambda item: item,
        most: int | None = None,
        inactivity: float = _INACTIVITY,
        on_error: Callable[[Exception], None] = lambda _: None,
    ) -> None:
        self.resource = resource
        self.store = store
        self.synced = asyncio.Event()
        self.healthy = False
        self.last_event_at: float | None = None
        self.failing_since: float | None = None
        self.last_error: Exception | None = None
        self._client = client
        self._random = random
        self._backoff = Backoff(0.2, 30.0, random, jitter=0.5)
        self._failures = 0
        self._namespace, self._label_selector, self._field_selector = namespace, label_selector, field_selector
        self._handlers = tuple(handlers)
        self._matches = client_side_selector
        self._keep, self._most = keep, most
        self._inactivity = inactivity
        self._on_error = on_error
        self._must_list = True
        self._without_a_word = 0  # watches since the last list or event

    async def run(self) -> None:
        """List and watch until cancelled. Trouble with the server is retried for ever; an exception from a handler or an index is raised."""
        while True:
            try:
                if self._must_list:
                    await self._list()
                await self._watch()
            except TROUBLE as error:
                self._must_list = self._must_list or isinstance(error, Gone)
                await self._failed(error)

    def problem(self, timeout: float) -> str:
        """Why the store may be behind, in words, for probes; "" while the server answers, or where it has not for at most `timeout` seconds."""
        if self.healthy:
            return ""
        if self.last_event_at is None:
            return f"{self.resource.plural} are not listed yet"
        silence = self._now() - self.last_event_at
        return f"{self.resource.plural} were heard of {silence:.0f} s ago: {self.last_error}" if silence > timeout else ""

    async def _list(self) -> None:
        listing = await self._client.list(
            self.resource, self._namespace, label_selector=self._label_selector, field_selector=self._field_selector, keep=self._kept
        )
        self._refuse_more(len(listing.items))
        changes = self.store.replace(listing.items, listing.resource_version)
        self._must_list, self._without_a_word = False, 0
        self._heard()
        for change in changes:
            self._tell(change, final_state_unknown=True)
        self.synced.set()

    async def _watch(self) -> None:
        started, opened = self._now(), list[float]()

        def on_open() -> None:
            opened.append(self._now())
            self._heard()

        self._without_a_word += 1
        self._must_list = self._without_a_word >= _MOST_WITHOUT_A_WORD
        events = self._client.watch(
            self.resource,
            self._namespace,
            resource_version=self.store.last_resource_version,
            label_selector=self._label_selector,
            field_selector=self._field_selector,
            timeout_seconds=round(self._random.uniform(*_WATCH_SECONDS)),
            inactivity=self._inactivity,
            on_open=on_open,
        )
        try:
            async with aclosing(events):
                async for event in events:
                    self._worded()
                    self._apply(event)
        finally:
            if not opened:
                self._must_list = True
            elif self._now() - opened[0] >= _PROVEN:
                self._failures = 0
        if self._without_a_word and self._now() - started < 1:
            raise ConnectionFailed(f"the server closed the watch of {self.resource.plural} at once")
        self._heard()

    def _apply(self, event: WatchEvent[T]) -> None:
        if event.type == "BOOKMARK":
            self.store.observe(metadata_of(event.object).resource_version)
        elif event.type != "DELETED" and self._matches(event.object):
            self._put(event.object)
        else:
            self._tell(self.store.remove(event.object))

    def _kept(self, item: T) -> T | None:
        return self._keep(item) if self._matches(item) else None

    def _put(self, item: T) -> None:
        meta = metadata_of(item)
        known = self.store.get(meta.namespace, meta.name)
        if known is not None and metadata_of(known).uid != meta.uid:  # its deletion got lost, and the two must not pass for one object
            self._tell(self.store.remove(known), final_state_unknown=True)
        elif known is not None and metadata_of(known).resource_version == meta.resource_version:
            return  # some servers begin each watch with everything there is
        if known is None:
            self._refuse_more(len(self.store) + 1)
        self._tell(self.store.put(self._keep(item)))

    def _refuse_more(self, found: int) -> None:
        if self._most is not None and found > self._most:
            raise TooMuch(
                f"there are {found} {self.resource.plural} {self._label_selector}".rstrip() + f", and no more than {self._most} are kept"
            )

    def _tell(self, change: Change[T], *, final_state_unknown: bool = False) -> None:
        old, new = change.old, change.new
        for handler in self._handlers:
            if new is not None and old is not None:
                handler.on_update(old, new)
            elif new is not None:
                handler.on_add(new, initial=not self.synced.is_set())
            elif old is not None:
                handler.on_delete(old, final_state_unknown=final_state_unknown)

    def _heard(self) -> None:
        self.healthy, self.failing_since = True, None
        self.last_error = None
        self.last_event_at = self._now()

    def _worded(self) -> None:
        """An event has come: the server serves this watch, and from this version on."""
        self._failures = self._without_a_word = 0
        self._must_list = False
        self._heard()

    async def _failed(self, error: Exception) -> None:
        self.healthy = False
        self.failing_since = self._now() if self.failing_since is None else self.failing_since
        self.last_error = error
        self._on_error(error)
        delay = self._backoff.delay(self._failures)
        self._failures += 1
        tell = _log.warning if self._failures == _TOLD_AT else _log.debug
        tell("list or watch failed", resource=self.resource.plural, error=str(error), retry_in_seconds=round(delay, 3))
        await asyncio.sleep(delay)

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()
