"""Expectations: no decision about an object before the caches have seen what this process itself wrote for it.

Cluster API does the same since 1.13 (util/controller, consistency.go) and polls every 100 ms; here the store says when it has caught up.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from quorate.kubernetes.metadata import metadata_of
from quorate.kubernetes.objects import ObjectMeta
from quorate.kubernetes.store import newer_or_equal

K = TypeVar("K", bound=Hashable)


class Observed(Protocol):
    """The side of a store that expectations see. A store is compared by identity."""

    @property
    def last_resource_version(self) -> str:
        """The newest resourceVersion the store reflects."""

    def get(self, namespace: str, name: str) -> Any | None:
        """The object, or None."""

    def subscribe(self, callback: Callable[[], None]) -> None:
        """Call back after every change."""

    def unsubscribe(self, callback: Callable[[], None]) -> None:
        """Stop calling back."""


@dataclass(frozen=True, slots=True)
class _Expectation:
    """Met once `store` reflects `resource_version` (where one is known), or no longer holds `gone` (where one is given)."""

    store: Observed
    resource_version: str
    gone: ObjectMeta | None

    def met(self) -> bool:
        if self.resource_version and newer_or_equal(self.store.last_resource_version, self.resource_version):
            return True
        return self.gone is not None and not self._holds(self.gone)

    def _holds(self, meta: ObjectMeta) -> bool:
        found = self.store.get(meta.namespace, meta.name)
        return found is not None and metadata_of(found).uid == meta.uid


class Expectations(Generic[K]):
    """What the caches have yet to see, by the key of the object that must wait for it. `enqueue` is called with a key once all of its own are met."""

    def __init__(self, enqueue: Callable[[K], None]) -> None:
        self._enqueue = enqueue
        self._waiting: dict[K, list[_Expectation]] = {}

    def expect_version(self, key: K, store: Observed, resource_version: str) -> None:
        """Hold `key` until `store` reflects `resource_version`, the answer of a create or a patch."""
        self._expect(key, _Expectation(store, resource_version, None))

    def expect_deleted(self, key: K, store: Observed, deleted: Any, *, resource_version: str = "") -> None:
        """Hold `key` until `store` no longer holds the object `deleted` (by uid), or reflects `resource_version`, its version after the delete.

        Without the second, a finalizer that keeps the object would keep the key held: pass it whenever the delete answered with the object.
        """
        self._expect(key, _Expectation(store, resource_version, metadata_of(deleted)))

    def pending(self, key: K) -> bool:
        """Whether the caches are still behind something that was written for `key`."""
        return key in self._waiting

    def forget(self, key: K) -> None:
        """Drop what `key` waits for, without enqueuing it: the object itself is gone."""
        if key in self._waiting:
            self._keep(key, [])

    def _expect(self, key: K, expectation: _Expectation) -> None:
        if expectation.met():
            return  # the watch was faster than the answer
        self._waiting.setdefault(key, []).append(expectation)
        expectation.store.subscribe(self._check)

    def _check(self) -> None:
        for key, expectations in list(self._waiting.items()):
            left = [expectation for expectation in expectations if not expectation.met()]
            if len(left) < len(expectations):
                self._keep(key, left)
            if not left:
                self._enqueue(key)

    def _keep(self, key: K, left: list[_Expectation]) -> None:
        stores = [expectation.store for expectation in self._waiting[key]]
        if left:
            self._waiting[key] = left
        else:
            del self._waiting[key]
        still = {id(expectation.store) for expectations in self._waiting.values() for expectation in expectations}
        for store in stores:
            if id(store) not in still:
                store.unsubscribe(self._check)
