"""What updates of a workload cluster have in common: the few requests they need, and the error that says why one cannot be made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypeVar

import msgspec

from quorate.kubernetes.objects import Object
from quorate.kubernetes.resource import Resource

T = TypeVar("T")


class CannotUpdate(Exception):
    """Something in the workload cluster, or what is asked for, is not as an update needs it. The message names the object, the cause and the way out."""


class _Metadata(Object):
    resource_version: str


class _Container(Object):
    name: str
    image: str = ""


class _Item(Object):
    key: str


class _ConfigMapSource(Object):
    name: str = ""
    items: list[_Item] | None = None


class _Volume(Object):
    name: str
    config_map: _ConfigMapSource | None = None


class _PodSpec(Object):
    containers: list[_Container]
    volumes: list[_Volume] | None = None


class _PodTemplate(Object):
    spec: _PodSpec


class _WorkloadSpec(Object):
    template: _PodTemplate
    replicas: int = 1


class _Workload(Object):
    metadata: _Metadata
    spec: _WorkloadSpec


def checked(workload: Mapping[str, Any], what: str) -> None:
    """Raise CannotUpdate for a Deployment or DaemonSet whose fields are not what its API says, as far as they are looked at here."""
    try:
        msgspec.convert(workload, _Workload)
    except (msgspec.ValidationError, RecursionError) as error:
        raise CannotUpdate(f"{what} cannot be read: {error}") from None


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
