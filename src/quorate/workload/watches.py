"""The two watches on a workload cluster: its control-plane Nodes, and the static Pods on them. Everything else there is asked for when it is needed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Generic, TypeVar

import msgspec

from quorate.core.text import printable
from quorate.kubernetes.errors import TooMuch, Unauthorized
from quorate.kubernetes.objects import Node, ObjectMeta, Pod
from quorate.kubernetes.reflector import ListWatch, Reflector
from quorate.kubernetes.resource import NODES, PODS
from quorate.kubernetes.store import Store
from quorate.kubernetes.tasks import lasting
from quorate.workload.nodes import CONTROL_PLANE, is_control_plane
from quorate.workload.static_pods import NAMESPACE

T = TypeVar("T")

_TIER, _CONTROL_PLANE_TIER = "tier", "control-plane"

# What one cluster may have of the memory that all share. Of a Node or Pod 1 to 3 KiB are read, and a control plane has five Nodes with four Pods each.
_MOST_NODES, _MOST_PODS = 500, 2500
_LARGEST = 16 << 10  # bytes of one, as JSON


class Watches:
    """Keeps the control-plane Nodes and Pods while `run` runs, and calls `on_change` for each change that comes after the first lists.

    `inactivity` is how many seconds a watch may be silent. `troubled` is set whenever something stands in the way of one of them, for others to clear;
    `over` once nothing more can come of this connection, since the server refuses the credentials or has more than is kept, and `last_error` says which.
    """

    def __init__(self, client: ListWatch, random: Random, on_change: Callable[[], None], *, inactivity: float) -> None:
        self.over = asyncio.Event()
        self.troubled = asyncio.Event()
        self.nodes = Reflector(
            client,
            NODES,
            Store(),
            random=random,
            label_selector=CONTROL_PLANE,
            handlers=(_Told(on_change),),
            client_side_selector=is_control_plane,
            keep=kept_node,
            most=_MOST_NODES,
            inactivity=inactivity,
            on_error=self._failed,
        )
        self.pods = Reflector(
            client,
            PODS,
            Store(),
            random=random,
            namespace=NAMESPACE,
            label_selector=f"{_TIER}={_CONTROL_PLANE_TIER}",
            handlers=(_Told(on_change),),
            client_side_selector=_is_control_plane_pod,
            keep=_pod,
            most=_MOST_PODS,
            inactivity=inactivity,
            on_error=self._failed,
        )

    async def run(self) -> None:
        """List and watch both until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(lasting("the watch of nodes", self.nodes.run()))
            tasks.create_task(lasting("the watch of pods", self.pods.run()))

    async def synced(self) -> None:
        """Wait for the first lists of both."""
        await self.nodes.synced.wait()
        await self.pods.synced.wait()

    @property
    def heard_at(self) -> float:
        """Loop time of the server's last word; 0 before the first."""
        return max(self.nodes.last_event_at or 0.0, self.pods.last_event_at or 0.0)

    def outdated(self, since: float, *, failing_since: float) -> Exception | None:
        """Why one of them has not been heard since one loop time, where it fails since another: what is known of its objects is that old."""
        late = [
            each
            for each in (self.nodes, self.pods)
            if (each.last_event_at or 0.0) <= since and each.failing_since is not None and each.failing_since <= failing_since
        ]
        return next((each.last_error for each in late if each.last_error), None)

    @property
    def last_error(self) -> Exception | None:
        """What stands in the way of one of them now."""
        return self.nodes.last_error or self.pods.last_error

    def _failed(self, error: Exception) -> None:
        if isinstance(error, Unauthorized | TooMuch):
            self.over.set()
        self.troubled.set()


class _Told(Generic[T]):
    """The handler that tells of every change that is more than a new resourceVersion. The first list is told of once, by connecting."""

    def __init__(self, on_change: Callable[[], None]) -> None:
        self._on_change = on_change

    def on_add(self, obj: T, *, initial: bool) -> None:  # noqa: ARG002 (Handler's signature)
        if not initial:
            self._on_change()

    def on_update(self, old: T, new: T) -> None:
        if _without_version(old) != _without_version(new):
            self._on_change()

    def on_delete(self, obj: T, *, final_state_unknown: bool) -> None:  # noqa: ARG002 (Handler's signature)
        self._on_change()


def kept_node(node: Node) -> Node:
    """The Node with what is read of it. Raises TooMuch."""
    conditions = [msgspec.structs.replace(each, message="") for each in node.status.conditions]
    status = msgspec.structs.replace(node.status, conditions=conditions)
    return _small(msgspec.structs.replace(node, metadata=_metadata(node.metadata, CONTROL_PLANE), status=status), "Node")


def _pod(pod: Pod) -> Pod:
    """The Pod with what is read of it."""
    status = msgspec.structs.replace(pod.status, init_container_statuses=[])
    return _small(msgspec.structs.replace(pod, metadata=_metadata(pod.metadata, _TIER), status=status), "Pod")


def _metadata(metadata: ObjectMeta, label: str) -> ObjectMeta:
    labels = {key: value for key, value in metadata.labels.items() if key == label}
    return msgspec.structs.replace(metadata, labels=labels, annotations={}, finalizers=[], owner_references=[])


def _small(obj: T, kind: str) -> T:
    size, name = len(msgspec.json.encode(obj)), printable(obj.metadata.name, most=253)  # type: ignore[attr-defined]
    if size > _LARGEST:
        raise TooMuch(
            f"{kind} {name} has {size >> 10} KiB of conditions, taints, addresses and the like, and no more than {_LARGEST >> 10} are kept"
        )
    return obj


def _without_version(obj: T) -> T:
    metadata = msgspec.structs.replace(obj.metadata, resource_version="")  # type: ignore[attr-defined]
    return msgspec.structs.replace(obj, metadata=metadata)  # type: ignore[type-var]


def _is_control_plane_pod(pod: Pod) -> bool:
    return pod.metadata.labels.get(_TIER) == _CONTROL_PLANE_TIER
