"""Sets the labels, annotations and taints of Nodes, and cordons them for upgrades."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from quorate.core.hosts.steps import Uncordon, UpdateNodes
from quorate.hosts.act.concurrently import on_all
from quorate.hosts.act.failures import StepFailed
from quorate.hosts.act.tools import Observation, Tools
from quorate.hosts.manifest import Host
from quorate.hosts.render.marks import CORDONED, STATIC_WORKER
from quorate.kubernetes.client import Client
from quorate.kubernetes.errors import BadRequest, Conflict, Forbidden, Invalid, NotFound
from quorate.kubernetes.objects import Node, Taint
from quorate.kubernetes.resource import NODES
from quorate.workload.nodes import CONTROL_PLANE
from quorate.workload.updates import CannotUpdate

WRITE_DEADLINE = 60.0
"""Seconds for a write to succeed while API servers restart."""
_FINAL = (Forbidden, Invalid, BadRequest, NotFound, CannotUpdate)
Patch = dict[str, Any]


async def update_nodes(tools: Tools, step: UpdateNodes, observation: Observation) -> None:
    """Bring the Nodes of these hosts to what the manifest says, all at once. What it does not mention stays. Idempotent. Raises StepFailed."""
    controls = {host.name for host in observation.cluster.control_planes}

    async def one(name: str) -> None:
        host = observation.machines[name].host
        await change(
            tools, name, "its Node's metadata to be written", lambda node: metadata_patch(node, host, control_plane=name in controls)
        )

    await on_all(step.hosts, one, tools.report)


async def cordon(tools: Tools, name: str) -> None:
    """Keep new Pods away from the Node, and mark it as cordoned by us, unless somebody else has cordoned it: then it stays theirs. Idempotent."""
    await change(tools, name, "its Node to be cordoned", _cordoning)


async def uncordon(tools: Tools, step: Uncordon) -> None:
    """Let Pods return, where it was us who kept them away. Idempotent."""
    await change(tools, step.host, "its Node to be uncordoned", _uncordoning)


def metadata_patch(node: Node, host: Host, *, control_plane: bool) -> Patch:
    """A merge patch with the differences, empty where there are none. A key with `-` at its end is taken away, as kubectl writes it."""
    labels = {**host.labels, **({CONTROL_PLANE: ""} if control_plane else {})}
    annotations = {**host.annotations, **({} if control_plane else {STATIC_WORKER: "true"})}
    changes = {"labels": _differences(labels, node.metadata.labels), "annotations": _differences(annotations, node.metadata.annotations)}
    metadata = {key: value for key, value in changes.items() if value}
    taints = _taints(node.spec.taints, host)
    made: Patch = {"metadata": metadata} if metadata else {}
    return made if taints is None else {**made, "spec": {"taints": taints}}


async def change(tools: Tools, name: str, what: str, patch_of: Callable[[Node], Patch]) -> None:
    """Write what `patch_of` says of the Node as it is now, if that is anything, and only if nobody has changed it since. Raises StepFailed."""

    async def attempt(api: Client) -> None:
        node = await api.get(NODES, name)
        if patch := patch_of(node):
            metadata = {**patch.get("metadata", {}), "resourceVersion": node.metadata.resource_version}
            await api.merge_patch(NODES, name, {**patch, "metadata": metadata})

    await written(tools, name, what, attempt)


async def written(tools: Tools, where: str, what: str, attempt: Callable[[Client], Awaitable[None]]) -> None:
    """Attempt an idempotent write until an API server has taken it. What is refused for good is not tried again. Raises StepFailed."""

    async def ask() -> str:
        try:
            await attempt(await tools.access.api())
        except _FINAL as error:
            raise StepFailed(where, str(error)) from error
        except Conflict as error:
            return str(error)
        return ""

    await tools.waits.until(where, what, ask, deadline=WRITE_DEADLINE)


def _cordoning(node: Node) -> Patch:
    if node.spec.unschedulable:
        return {}
    return {"metadata": {"annotations": {CORDONED: "true"}}, "spec": {"unschedulable": True}}


def _uncordoning(node: Node) -> Patch:
    if CORDONED not in node.metadata.annotations:
        return {}
    return {"metadata": {"annotations": {CORDONED: None}}, "spec": {"unschedulable": None}}


def _differences(wanted: Mapping[str, str], found: Mapping[str, str]) -> dict[str, str | None]:
    made: dict[str, str | None] = {}
    for key, value in wanted.items():
        if key.endswith("-"):
            if key[:-1] in found:
                made[key[:-1]] = None
        elif found.get(key) != value:
            made[key] = value
    return made


def _taints(found: list[Taint], host: Host) -> list[dict[str, str]] | None:
    """The whole list, which a merge patch replaces as one; None where it is right. kubeadm's taint goes where the manifest leaves it out; others stay."""
    wanted = {(taint.key, taint.effect.value): taint.value for taint in host.taints or ()}
    kept = [taint for taint in found if taint.key != CONTROL_PLANE or (taint.key, taint.effect) in wanted]
    missing = set(wanted) - {
        (taint.key, taint.effect) for taint in kept if wanted.get((taint.key, taint.effect), taint.value) == taint.value
    }
    if not missing and len(kept) == len(found):
        return None
    staying = [
        _written(taint.key, taint.effect, taint.value, taint.time_added) for taint in kept if (taint.key, taint.effect) not in missing
    ]
    return [*staying, *(_written(key, effect, value) for (key, effect), value in wanted.items() if (key, effect) in missing)]


def _written(key: str, effect: str, value: str, time_added: str = "") -> dict[str, str]:
    taint = {"key": key, "effect": effect, "value": value, "timeAdded": time_added}
    return {name: text for name, text in taint.items() if text}
