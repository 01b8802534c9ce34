"""The newest state of what this process wrote itself, until the caches have it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, TypeVar

from quorate.kubernetes.metadata import metadata_of
from quorate.kubernetes.objects import ObjectMeta
from quorate.kubernetes.store import number

T = TypeVar("T")

RETENTION = 60.0
"""Seconds for which the caches may not have heard of a write. A watch tells of it within one; later than this, the API server's etcd was restored to a time
before the write, and nobody will. A status that is compared with an old one after all is refused by its resourceVersion, and made anew."""


@dataclass(frozen=True, slots=True)
class _Written:
    item: Any
    at: float  # loop time


class Newest:
    """What the API answered to writes, by uid: a status is never compared with one from before our own write.

    As a handler of the caches that hold these objects it forgets each write as its object leaves, as they have it, and when their versions go back, since the
    API server's etcd was restored and what was written may be no more. Where a restore comes before the watch told of a write, no version goes back: it is
    forgotten after RETENTION.
    """

    def __init__(self) -> None:
        self._written: dict[str, _Written] = {}

    def __len__(self) -> int:
        return len(self._written)

    def remember(self, item: Any) -> None:
        """The API answered a write with `item`."""
        self._written[metadata_of(item).uid] = _Written(item, _now())

    def of(self, cached: T) -> T:
        """The newer of what the cache has and what was written."""
        metadata = metadata_of(cached)
        written = self._written.get(metadata.uid)
        if written is None:
            return cached
        if _version(written.item) > number(metadata.resource_version) and _now() < written.at + RETENTION:
            return written.item  # type: ignore[no-any-return]
        del self._written[metadata.uid]
        return cached

    def on_add(self, obj: Any, *, initial: bool) -> None:
        """Nothing was written to it by this process, or the answer to its creation is still to come."""

    def on_update(self, old: Any, new: Any) -> None:
        """The caches have another state of it."""
        written = self._written.get(metadata_of(new).uid)
        if written is not None and (_version(new) >= _version(written.item) or _version(new) < _version(old)):
            self._forget(metadata_of(new))

    def on_delete(self, obj: Any, *, final_state_unknown: bool) -> None:  # noqa: ARG002 (the handler's signature)
        """The object is gone."""
        self._forget(metadata_of(obj))

    def _forget(self, metadata: ObjectMeta) -> None:
        self._written.pop(metadata.uid, None)


def _now() -> float:
    return asyncio.get_running_loop().time()


def _version(item: Any) -> int:
    return number(metadata_of(item).resource_version)
