"""What updates of a workload cluster have in common: the few requests they need, and the error that says why one cannot be made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypeVar

from quorate.kubernetes.resource import Resource

T = TypeVar("T")


class CannotUpdate(Exception):
    """Something in the workload cluster, or what is asked for, is not as an update needs it. The message names the object, the cause and the way out."""


class Api(Protocol):
    """What is needed of a client of the workload cluster. Each call has a deadline of its own. Nothing is ever replaced whole: writes are merge patches."""

    async def get(self, resource: Resource[T], name: str, namespace: str = "") -> T:
        """One object as it is now; raises NotFound."""
        ...

    async def create(self, resource: Resource[T], body: Mapping[str, Any], namespace: str = "") -> T:
        """Create an object; raises AlreadyExists."""
        ...

    async def merge_patch(self, resource: Resource[T], name: str, patch: Mapping[str, Any], namespace: str = "") -> T:
        """Merge a patch into an object; with `metadata.resourceVersion` in it raises Conflict where it has changed since."""
        ...
