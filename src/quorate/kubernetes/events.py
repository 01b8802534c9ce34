"""The event recorder: tells people what happened to an object, as core/v1 Events, without ever holding up or failing the work itself.

As in client-go (tools/record): the same event again raises the count of the one that exists. Unlike there, a repeat is written at most every five minutes,
because a stalled control plane would otherwise say the same thing on every pass; that write then carries the true count.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from random import Random
from typing import Any, Protocol

import structlog

from quorate.kubernetes.config import ConfigError
from quorate.kubernetes.errors import ApiError, ConnectionFailed, NotFound
from quorate.kubernetes.resource import EVENTS, Resource

_REMEMBERED = 4096  # distinct events, client-go's maxLruCacheEntries
_BACKLOG = 1000  # events waiting to be sent, client-go's queue length; more are dropped
_REPEAT_INTERVAL = 300.0  # seconds between two writes of one event
_DEADLINE = 10.0  # seconds for one write
_MESSAGE_LIMIT = 1024  # characters, the API server's own limit for an Event's note and message

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ObjectReference:
    """The object an event is about. `namespace` is "" for cluster-scoped kinds, whose events go to `default`."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str


class EventClient(Protocol):
    """What the recorder needs of a client."""

    async def create(self, resource: Resource[Any], body: Mapping[str, Any], namespace: str = "") -> Any:
        """Create one."""

    async def merge_patch(self, resource: Resource[Any], name: str, patch: Mapping[str, Any], namespace: str = "") -> Any:
        """Change one."""


@dataclass(frozen=True, slots=True)
class _Content:
    """What makes two events the same."""

    about: ObjectReference
    type: str
    reason: str
    message: str

    @property
    def namespace(self) -> str:
        return self.about.namespace or "default"


@dataclass(slots=True)
class _Record:
    """What was told of one content: how often it happened, and the Event that says so, once written."""

    first: datetime
    last: datetime
    count: int = 0
    name: str = ""
    sent_at: float | None = None  # loop time of the last try to write it
    queued: bool = False


class EventRecorder:
    """Records events as `component`. `run` must run, as a task of its owner, for anything to be sent; what it fails to send is logged and dropped."""

    def __init__(self, client: EventClient, component: str, *, instance: str, now: Callable[[], datetime], random: Random) -> None:
        self._client = client
        self._component, self._instance = component, instance
        self._now = now
        self._random = random
        self._records: OrderedDict[_Content, _Record] = OrderedDict()
        self._backlog: asyncio.Queue[tuple[_Content, _Record]] = asyncio.Queue(_BACKLOG)

    def normal(self, about: ObjectReference, reason: str, message: str) -> None:
        """Record that something went as it should. Returns at once; `reason` is one CamelCase word, `message` is cut at 1024 characters."""
        self._record(_Content(about, "Normal", reason, message[:_MESSAGE_LIMIT]))

    def warning(self, about: ObjectReference, reason: str, message: str) -> None:
        """Record that something is wrong. Returns at once; `reason` is one CamelCase word, `message` is cut at 1024 characters."""
        self._record(_Content(about, "Warning", reason, message[:_MESSAGE_LIMIT]))

    async def run(self) -> None:
        """Send what is recorded until cancelled; what is not sent by then is lost."""
        while True:
            await self._send(*await self._backlog.get())

    def _record(self, content: _Content) -> None:
        now = self._now()
        record = self._records.setdefault(content, _Record(first=now, last=now))
        self._records.move_to_end(content)
        record.count += 1
        record.last = now
        if len(self._records) > _REMEMBERED:
            self._records.popitem(last=False)
        if not record.queued and self._may_send(record):
            with suppress(asyncio.QueueFull):
                self._backlog.put_nowait((content, record))
                record.queued = True

    def _may_send(self, record: _Record) -> bool:
        return record.sent_at is None or _loop_time() - record.sent_at >= _REPEAT_INTERVAL

    async def _send(self, content: _Content, record: _Record) -> None:
        record.queued = False
        record.sent_at = _loop_time()
        try:
            async with asyncio.timeout(_DEADLINE):
                await self._write(content, record)
        except (ApiError, ConfigError, ConnectionFailed, OSError, TimeoutError) as error:
            _log.debug("event not sent", reason=content.reason, about=content.about.name, error=str(error))

    async def _write(self, content: _Content, record: _Record) -> None:
        if record.name:
            with suppress(NotFound):  # API servers keep events for an hour: then it is a new one
                patch = {"count": record.count, "lastTimestamp": _timestamp(record.last)}
                await self._client.merge_patch(EVENTS, record.name, patch, content.namespace)
                return
            record.first, record.count = record.last, 1
        name = self._new_name(content)
        await self._client.create(EVENTS, self._body(content, record, name), content.namespace)
        record.name = name

    def _new_name(self, content: _Content) -> str:
        return f"{content.about.name[:230]}.{self._random.getrandbits(64):016x}"  # 247 of at most 253 characters

    def _body(self, content: _Content, record: _Record, name: str) -> dict[str, Any]:
        about = content.about
        return {
            "apiVersion": EVENTS.api_version,
            "kind": EVENTS.kind,
            "metadata": {"name": name, "namespace": content.namespace},
            "involvedObject": {
                "apiVersion": about.api_version,
                "kind": about.kind,
                "namespace": about.namespace,
                "name": about.name,
                "uid": about.uid,
            },
            "type": content.type,
            "reason": content.reason,
            "message": content.message,
            "count": record.count,
            "firstTimestamp": _timestamp(record.first),
            "lastTimestamp": _timestamp(record.last),
            "source": {"component": self._component, "host": self._instance},
            "reportingComponent": self._component,
            "reportingInstance": self._instance,
        }


def _timestamp(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")  # metav1.Time, which is UTC in whole seconds


def _loop_time() -> float:
    return asyncio.get_running_loop().time()
