"""Drains a Node by evictions, which respect PodDisruptionBudgets. Static Pods and Pods of DaemonSets stay.

Source: the behaviour of `kubectl drain --ignore-daemonsets --delete-emptydir-data --force`, as KubeOne drains: a host is upgraded whatever runs on it. Pods
that nobody makes anew are named before they go.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from random import Random
from typing import Any

from quorate.core.health import Health
from quorate.hosts.act.failures import StepFailed
from quorate.hosts.act.tools import Tools
from quorate.hosts.observe.nodes import seen
from quorate.kubernetes.client import Client
from quorate.kubernetes.errors import ApiError, ConnectionFailed, NotFound
from quorate.kubernetes.eviction import evict
from quorate.kubernetes.reflector import Reflector
from quorate.kubernetes.resource import NODES, Resource
from quorate.kubernetes.store import Store
from quorate.kubernetes.tasks import sole

DEADLINE = 300.0
"""Seconds for all Pods of a Node to be gone. What is blocked for longer needs somebody who decides."""
PODS: Resource[dict[str, Any]] = Resource("", "v1", "pods", "Pod", dict)
"""Pods with their specification."""

_MIRROR = "kubernetes.io/config.mirror"
_ASK_AGAIN = 5.0  # seconds, as kubectl: what a budget allows changes with Pods on other Nodes, which are not watched here
_ENDED = ("Succeeded", "Failed")


async def drain(tools: Tools, node: str, *, deadline: float = DEADLINE, while_ready: bool = False) -> None:
    """Evict every Pod that can run elsewhere, and wait until they are gone, each within its own grace period. The Node is cordoned already. Idempotent.

    `while_ready`: the wait is over, too, when the Node is not ready any more: its machine is gone, and nobody would end its Pods.

    Raises StepFailed after `deadline` seconds, naming the Pods that are left and what keeps each, its PodDisruptionBudget too.
    """
    api = await tools.access.api()
    store: Store[dict[str, Any]] = Store()
    random = Random(int.from_bytes(tools.random_bytes(8), "big"))  # noqa: S311 (it spreads watches)
    reflector = Reflector(api, PODS, store, random=random, field_selector=f"spec.nodeName={node}")
    evictions = _Evictions(tools, node, api, reflector, while_ready=while_ready)
    async with asyncio.TaskGroup() as group:
        watching = group.create_task(reflector.run())
        failure = await _failure(tools, node, evictions, deadline)
        watching.cancel()
    if failure is not None:  # raised outside of the TaskGroup, which would wrap it
        raise failure


async def _failure(tools: Tools, node: str, evictions: _Evictions, deadline: float) -> StepFailed | None:
    remedy = "Let the PodDisruptionBudget allow a disruption, or move these Pods; then run the same command again. The Node stays cordoned until then"
    try:
        await tools.waits.until(node, "its Pods to leave", evictions.remaining, deadline=deadline, remedy=remedy)
    except StepFailed as failure:
        return failure
    return None


class _Evictions:
    """The Pods of one Node, evicted as far as their budgets allow."""

    def __init__(self, tools: Tools, node: str, api: Client, reflector: Reflector[dict[str, Any]], *, while_ready: bool) -> None:
        self._tools = tools
        self._node = node
        self._api = api
        self._reflector = reflector
        self._while_ready = while_ready
        self._changed = asyncio.Event()
        self._accepted: set[str] = set()  # uids of those that are on their way
        self._blocked: dict[str, str] = {}  # by uid: what keeps them
        reflector.store.subscribe(self._changed.set)

    async def remaining(self) -> str:
        """Evict who can be, wait for something to change, and say who is left and why; an empty text says that nobody is."""
        await self._reflector.synced.wait()
        self._changed.clear()
        pods = [pod for pod in self._reflector.store.items() if leaves(pod)]
        if not pods or (self._while_ready and not await self._is_ready()):
            return ""
        try:
            async with asyncio.TaskGroup() as group:
                for pod in pods:
                    if not _is_going(pod) and _uid(pod) not in self._accepted:
                        group.create_task(self._evict(pod))
        except BaseExceptionGroup as errors:
            raise sole(errors) from None
        await self._change_or_pause()
        return "; ".join(sorted(self._told(pod) for pod in self._reflector.store.items() if leaves(pod)))

    async def _is_ready(self) -> bool:
        with suppress(NotFound):
            if seen(await self._api.get(NODES, self._node)).ready.health is Health.GOOD:
                return True
        self._tools.report(self._node, "its Node is not ready any more: its Pods are not waited for")
        return False

    async def _change_or_pause(self) -> None:
        async with asyncio.TaskGroup() as group:
            waiting = {group.create_task(self._changed.wait()), group.create_task(self._tools.waits.pause(_ASK_AGAIN))}
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for task in waiting:
                task.cancel()

    async def _evict(self, pod: dict[str, Any]) -> None:
        metadata = pod["metadata"]
        if not _has_controller(pod) and metadata["uid"] not in self._blocked:
            self._tools.report(self._node, f"{_label(pod)} has no controller: it does not come back")
        try:
            await evict(self._api, metadata["namespace"], metadata["name"], metadata["uid"])
        except (ApiError, ConnectionFailed) as error:
            self._blocked[metadata["uid"]] = str(error).partition(": ")[2] or str(error)
        else:
            self._accepted.add(metadata["uid"])
            self._blocked.pop(metadata["uid"], None)

    def _told(self, pod: dict[str, Any]) -> str:
        if reason := self._blocked.get(_uid(pod), ""):
            return f"Pod {_label(pod)}: {reason}"
        return f"Pod {_label(pod)} is ending"


def leaves(pod: dict[str, Any]) -> bool:
    """Whether the Pod is one that goes when its Node is drained. What has ended holds nothing, and may be looked at yet."""
    if _MIRROR in pod["metadata"].get("annotations", {}) or pod.get("status", {}).get("phase") in _ENDED:
        return False
    return not any(owner.get("controller") and owner["kind"] == "DaemonSet" for owner in pod["metadata"].get("ownerReferences", ()))


def _has_controller(pod: dict[str, Any]) -> bool:
    return any(owner.get("controller") for owner in pod["metadata"].get("ownerReferences", ()))


def _is_going(pod: dict[str, Any]) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def _uid(pod: dict[str, Any]) -> str:
    return str(pod["metadata"]["uid"])


def _label(pod: dict[str, Any]) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
