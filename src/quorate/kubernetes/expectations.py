"""Expectations: no decision about an object before the caches have seen what this process itself wrote for it.

Cluster API does the same since 1.13 (util/controller, consistency.go) and polls every 100 ms; here the store says when it has caught up.
"""

from __future__ import annotations

import heapq
import itertools
from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from quorate.kubernetes.metadata import metadata_of
from quorate.kubernetes.objects import ObjectMeta
from quorate.kubernetes.store import number

K = TypeVar("K", bound=Hashable)


class Observed(Protocol):
    """The side of a store that expectations see. A store is compared by identity."""

    @property
    def last_resource_version(self) -> str:
        """The newest resourceVersion the store reflects."""

    @property
    def era(self) -> int:
        """How often its versions went back."""

    def get(self, namespace: str, name: str) -> Any | None:
        """The object, or None."""

    def subscribe(self, callback: Callable[[], None]) -> None:
        """Call back after every change."""

    def unsubscribe(self, callback: Callable[[], None]) -> None:
        """Stop calling back."""


@dataclass(frozen=True, slots=True)
class _Expectation(Generic[K]):
    """Of `key`: met once the store reflects the version numbered `version` (0: none will do), or no longer holds `gone` (where one is given)."""

    key: K
    version: int
    gone: ObjectMeta | None


class Expectations(Generic[K]):
    """What the caches have yet to see, by the key of the object that must wait for it. `enqueue` is called with a key once all of its own are met.

    What a store has yet to see is dropped when its versions go back: the API server's etcd was restored, and what was written may never come.
    """

    def __init__(self, enqueue: Callable[[K], None]) -> None:
        self._enqueue = enqueue
        self._waiting: Counter[K] = Counter()
        self._of_stores: dict[int, _OfStore[K]] = {}

    def expect_version(self, key: K, store: Observed, resource_version: str) -> None:
        """Hold `key` until `store` reflects `resource_version`, the answer of a create or a patch."""
        self._expect(store, _Expectation(key, number(resource_version), None))

    def expect_deleted(self, key: K, store: Observed, deleted: Any, *, resource_version: str = "") -> None:
        """Hold `key` until `store` no longer holds the object `deleted` (by uid), or reflects `resource_version`, its version after the delete.

        Without the second, a finalizer that keeps the object would keep the key held: pass it whenever the delete answered with the object.
        """
        self._expect(store, _Expectation(key, number(resource_version), metadata_of(deleted)))

    def pending(self, key: K) -> bool:
        """Whether the caches are still behind something that was written for `key`."""
        return key in self._waiting

    def forget(self, key: K) -> None:
        """Drop what `key` waits for, without enqueuing it: the object itself is gone."""
        if self._waiting.pop(key, 0):
            for each in list(self._of_stores.values()):
                each.forget(key)

    def _expect(self, store: Observed, expectation: _Expectation[K]) -> None:
        if id(store) not in self._of_stores:
            self._of_stores[id(store)] = _OfStore(store, self._met, lambda: self._of_stores.pop(id(store), None))
        if self._of_stores[id(store)].expect(expectation):
            self._waiting[expectation.key] += 1

    def _met(self, key: K) -> None:
        self._waiting[key] -= 1
        if not self._waiting[key]:
            del self._waiting[key]
            self._enqueue(key)


class _OfStore(Generic[K]):
    """What one store has yet to see. `met` is called for each expectation that is, and `idle` when there are none any more.

    Those of a version alone are kept in the order of their versions: an event costs what it meets, however many wait.
    """

    def __init__(self, store: Observed, met: Callable[[K], None], idle: Callable[[], object]) -> None:
        self._store = store
        self._met = met
        self._idle = idle
        self._era = store.era
        self._versions: list[tuple[int, int, _Expectation[K]]] = []
        self._deletions: list[_Expectation[K]] = []
        self._count = itertools.count()
        store.subscribe(self._check)

    def expect(self, expectation: _Expectation[K]) -> bool:
        """Take it on; whether it is not met already, the watch having been faster than the answer."""
        held = not self._is_met(expectation, number(self._store.last_resource_version))
        if held and expectation.gone is None:
            heapq.heappush(self._versions, (expectation.version, next(self._count), expectation))
        elif held:
            self._deletions.append(expectation)
        self._end_if_idle()
        return held

    def forget(self, key: K) -> None:
        """Drop what the key waits for here."""
        self._versions = [entry for entry in self._versions if entry[2].key != key]
        heapq.heapify(self._versions)
        self._deletions = [each for each in self._deletions if each.key != key]
        self._end_if_idle()

    def _check(self) -> None:
        reached = number(self._store.last_resource_version)
        met: list[_Expectation[K]] = []
        if self._era != self._store.era:
            met = [*(entry[2] for entry in self._versions), *self._deletions]
            self._era, self._versions, self._deletions = self._store.era, [], []
        while self._versions and self._versions[0][0] <= reached:
            met.append(heapq.heappop(self._versions)[2])
        met += [each for each in self._deletions if self._is_met(each, reached)]
        self._deletions = [each for each in self._deletions if not self._is_met(each, reached)]
        self._end_if_idle()
        for each in met:
            self._met(each.key)

    def _is_met(self, expectation: _Expectation[K], reached: int) -> bool:
        if expectation.version and reached >= expectation.version:
            return True
        if expectation.gone is None:
            return False
        found = self._store.get(expectation.gone.namespace, expectation.gone.name)
        return found is None or metadata_of(found).uid != expectation.gone.uid

    def _end_if_idle(self) -> None:
        if not self._versions and not self._deletions:
            self._store.unsubscribe(self._check)
            self._idle()
