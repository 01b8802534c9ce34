"""Handlers: what turns a change of one object into keys of a work queue.

The rules are controller-runtime's (pkg/handler): an update enqueues what the old object maps to and what the new one maps to, so that an object that changes
hands wakes both owners; predicates see both; objects of the first list go to the back of the queue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from quorate.kubernetes.controller import Request
from quorate.kubernetes.metadata import metadata_of
from quorate.kubernetes.queue import LOW_PRIORITY

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)

Predicate = Callable[[T | None, T | None], bool]  # (old, new): old is None for an added object, new for a deleted one
Mapper = Callable[[T], Iterable[Request]]


class Handler(Protocol[T_contra]):
    """Told of every change in a store, after the store has it. Calls must not block and should not raise: an exception ends the process."""

    def on_add(self, obj: T_contra, *, initial: bool) -> None:
        """`obj` is new to the store; `initial` while the reflector fills it for the first time."""

    def on_update(self, old: T_contra, new: T_contra) -> None:
        """`new` replaced `old`, which has another resourceVersion and the same uid."""

    def on_delete(self, obj: T_contra, *, final_state_unknown: bool) -> None:
        """`obj` is gone. With `final_state_unknown` nobody saw it go, and `obj` is what was known of it last."""


class Adder(Protocol):
    """The side of a work queue that handlers see."""

    def add(self, key: Request, *, priority: int = 0) -> None:
        """Have `key` handled soon."""


@dataclass(frozen=True, slots=True)
class Enqueue(Generic[T]):
    """The handler that adds to `queue` what `mapper` makes of the changed object, if every predicate agrees."""

    queue: Adder
    mapper: Mapper[T]
    predicates: Sequence[Predicate[T]] = ()

    def on_add(self, obj: T, *, initial: bool) -> None:
        """See Handler."""
        self._enqueue(None, obj, priority=LOW_PRIORITY if initial else 0)

    def on_update(self, old: T, new: T) -> None:
        """See Handler."""
        self._enqueue(old, new)

    def on_delete(self, obj: T, *, final_state_unknown: bool) -> None:  # noqa: ARG002 - the key is the same either way
        """See Handler."""
        self._enqueue(obj, None)

    def _enqueue(self, old: T | None, new: T | None, *, priority: int = 0) -> None:
        if not all(predicate(old, new) for predicate in self.predicates):
            return
        requests = dict.fromkeys(request for obj in (old, new) if obj is not None for request in self.mapper(obj))
        for request in requests:
            self.queue.add(request, priority=priority)


def enqueue_mapped(queue: Adder, mapper: Mapper[T], *, predicates: Sequence[Predicate[T]] = ()) -> Enqueue[T]:
    """A handler that enqueues what `mapper` makes of the object."""
    return Enqueue(queue, mapper, predicates)


def enqueue_self(queue: Adder, *, predicates: Sequence[Predicate[Any]] = ()) -> Enqueue[Any]:
    """A handler that enqueues the object itself."""

    def itself(obj: Any) -> Iterable[Request]:
        meta = metadata_of(obj)
        return (Request(meta.namespace, meta.name),)

    return Enqueue(queue, itself, predicates)


def enqueue_owner(
    queue: Adder, group: str, kind: str, *, controller_only: bool = True, predicates: Sequence[Predicate[Any]] = ()
) -> Enqueue[Any]:
    """A handler that enqueues the owners of this group and kind, in the object's namespace.

    The version is ignored: an ownerReference keeps the one it was written with. `controller_only` takes only the owner marked `controller: true`.
    """

    def owners(obj: Any) -> Iterable[Request]:
        meta = metadata_of(obj)
        return [
            Request(meta.namespace, owner.name)
            for owner in meta.owner_references
            if owner.kind == kind and group_of(owner.api_version) == group and (owner.controller or not controller_only)
        ]

    return Enqueue(queue, owners, predicates)


def group_of(api_version: str) -> str:
    """The group of an apiVersion; "" for the core group's `v1`."""
    return api_version.rpartition("/")[0]
