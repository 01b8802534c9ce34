"""The store: the last known state of the objects of one kind, with indexes. A reflector writes it, everybody else reads.

Reads return the stored objects themselves, which therefore must never be changed (Structs of ours are frozen; for dicts it is the reader's duty).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from quorate.kubernetes.metadata import metadata_of

T = TypeVar("T")

Index = Callable[[T], Iterable[str]]
Key = tuple[str, str]  # namespace ("" for cluster-scoped kinds), name

_MOST_DIGITS = 100  # of a resourceVersion; Python refuses to make a number of thousands


@dataclass(frozen=True, slots=True)
class Change(Generic[T]):
    """One object before and after: `old` is None when it was added, `new` when it went away."""

    old: T | None
    new: T | None


class Store(Generic[T]):
    """Objects by namespace and name, and by the values of named indexes.

    `indexes` maps a name to a function from an object to its values.

    `era` counts how often the versions went back: what was known of a version of an era before says nothing any more.
    """

    def __init__(self, *, indexes: Mapping[str, Index[T]] | None = None) -> None:
        self._functions = dict(indexes or {})
        self._objects: dict[Key, T] = {}
        self._indexes: dict[str, dict[str, dict[Key, T]]] = {name: {} for name in self._functions}
        self._subscribers: dict[Callable[[], None], None] = {}
        self._last_resource_version = ""
        self.era = 0

    def __len__(self) -> int:
        return len(self._objects)

    @property
    def last_resource_version(self) -> str:
        """The newest resourceVersion this store is known to reflect, from an object, a bookmark or a list; "" before the first list."""
        return self._last_resource_version

    def get(self, namespace: str, name: str) -> T | None:
        """The object, or None where none is known."""
        return self._objects.get((namespace, name))

    def by_index(self, index: str, value: str) -> list[T]:
        """The objects for which the index function gave `value`. Raises KeyError for an index the store was not made with."""
        return list(self._indexes[index].get(value, {}).values())

    def items(self) -> list[T]:
        """All objects, in no particular order."""
        return list(self._objects.values())

    def put(self, item: T) -> Change[T]:
        """Store `item` and return what it replaced."""
        change = self._put(item)
        self.observe(metadata_of(item).resource_version)
        return change

    def remove(self, item: T) -> Change[T]:
        """Forget the object of that name, and return it as it was stored last; its resourceVersion counts as observed."""
        meta = metadata_of(item)
        change = self._remove((meta.namespace, meta.name))
        self.observe(meta.resource_version)
        return change

    def replace(self, items: Iterable[T], resource_version: str) -> list[Change[T]]:
        """Make the store hold exactly `items`, the whole of a list at `resource_version`, and return what changed.

        Objects whose resourceVersion is the stored one are no change. An object that was deleted and made anew in the meantime is two changes: what is
        true of a dead object must not be carried over to another of its name.
        """
        listed = {(meta.namespace, meta.name): item for item in items for meta in (metadata_of(item),)}
        gone = [key for key, old in self._objects.items() if key not in listed or metadata_of(listed[key]).uid != metadata_of(old).uid]
        changes = [self._remove(key) for key in gone]
        changes += [self._put(item) for key, item in listed.items() if self._differs(key, item)]
        if not newer_or_equal(resource_version, self._last_resource_version):
            self.era += 1  # after a restore of etcd the versions start again lower
        self._last_resource_version = resource_version
        self._notify()
        return changes

    def observe(self, resource_version: str) -> None:
        """Record that everything up to `resource_version` is reflected, and tell the subscribers; older versions and "" change nothing but still tell."""
        if newer_or_equal(resource_version, self._last_resource_version):
            self._last_resource_version = resource_version
        self._notify()

    def subscribe(self, callback: Callable[[], None]) -> None:
        """Call `callback` after every change of an object or of `last_resource_version`, until `unsubscribe`. Idempotent."""
        self._subscribers[callback] = None

    def unsubscribe(self, callback: Callable[[], None]) -> None:
        """Stop calling `callback`. Idempotent."""
        self._subscribers.pop(callback, None)

    def _differs(self, key: Key, item: T) -> bool:
        old = self._objects.get(key)
        return old is None or metadata_of(old).resource_version != metadata_of(item).resource_version

    def _put(self, item: T) -> Change[T]:
        meta = metadata_of(item)
        change = self._remove((meta.namespace, meta.name))
        self._objects[meta.namespace, meta.name] = item
        for values, value in self._values(item):
            values.setdefault(value, {})[meta.namespace, meta.name] = item
        return Change(change.old, item)

    def _remove(self, key: Key) -> Change[T]:
        old = self._objects.pop(key, None)
        if old is not None:
            for values, value in self._values(old):
                del values[value][key]
                if not values[value]:
                    del values[value]
        return Change(old, None)

    def _values(self, item: T) -> Iterable[tuple[dict[str, dict[Key, T]], str]]:
        return [(self._indexes[name], value) for name, function in self._functions.items() for value in set(function(item))]

    def _notify(self) -> None:
        for callback in list(self._subscribers):
            callback()


def newer_or_equal(resource_version: str, other: str) -> bool:
    """Whether `resource_version` is at least `other`. Compared as numbers, which KEP-5504 makes part of the API's contract; "" is older than any.

    So is what is no number: a server that keeps to no contract ends nothing of ours.
    """
    return number(resource_version) >= number(other)


def number(resource_version: str) -> int:
    """A resourceVersion as a number; 0 for what is none."""
    is_one = resource_version.isascii() and resource_version.isdecimal() and len(resource_version) <= _MOST_DIGITS
    return int(resource_version) if is_one else 0
