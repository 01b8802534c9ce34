"""The two watches on a workload cluster: its control-plane Nodes, and the static Pods on them. Everything else there is asked for when it is needed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Generic, TypeVar

import msgspec

from quorate.kubernetes.errors import Unauthorized
from quorate.kubernetes.objects import Pod
from quorate.kubernetes.reflector import ListWatch, Reflector
from quorate.kubernetes.resource import NODES, PODS
from quorate.kubernetes.store import Store
from quorate.workload.nodes import CONTROL_PLANE, is_control_plane
from quorate.workload.static_pods import NAMESPACE

T = TypeVar("T")

_TIER, _CONTROL_PLANE_TIER = "tier", "control-plane"


class Watches:
    """Keeps the control-plane Nodes and Pods while `run` runs, and calls `on_change` for each change that comes after the first lists.

    `inactivity` is how many seconds a watch may be silent. `troubled` is set whenever something stands in the way of one of them, for others to clear;
    `unauthorized` once the server refuses the credentials.
    """

    def __init__(self, client: ListWatch, random: Random, on_change: Callable[[], None], *, inactivity: float) -> None:
        self.unauthorized = asyncio.Event()
        self.troubled = asyncio.Event()
        self.nodes = Reflector(
            client,
            NODES,
            Store(),
            random=random,
            label_selector=CONTROL_PLANE,
            handlers=(_Told(on_change),),
            client_side_selector=is_control_plane,
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
            inactivity=inactivity,
            on_error=self._failed,
        )

    async def run(self) -> None:
        """List and watch both until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.nodes.run())
            tasks.create_task(self.pods.run())

    async def synced(self) -> None:
        """Wait for the first lists of both."""
        await self.nodes.synced.wait()
        await self.pods.synced.wait()

    @property
    def heard_at(self) -> float:
        """Loop time of the server's last word; 0 before the first."""
        return max(self.nodes.last_event_at or 0.0, self.pods.last_event_at or 0.0)

    @property
    def last_error(self) -> Exception | None:
        """What stands in the way of one of them now."""
        return self.nodes.last_error or self.pods.last_error

    def _failed(self, error: Exception) -> None:
        if isinstance(error, Unauthorized):
            self.unauthorized.set()
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


def _without_version(obj: T) -> T:
    metadata = msgspec.structs.replace(obj.metadata, resource_version="")  # type: ignore[attr-defined]
    return msgspec.structs.replace(obj, metadata=metadata)  # type: ignore[type-var]


def _is_control_plane_pod(pod: Pod) -> bool:
    return pod.metadata.labels.get(_TIER) == _CONTROL_PLANE_TIER
