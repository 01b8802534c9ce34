"""What webhooks cost: the same requests to quorate's server and to upstream's, in turns, and a list that the API server has one of them convert.

The API server keeps what it has converted: only the first list of a version asks, an object at a time. So it is told anew whom to ask before each.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from quorate.clusterapi.api import crd, webhooks
from quorate.clusterapi.api.conversion.converter import NEW, OLD
from quorate.clusterapi.types.resources import CONTROL_PLANE_GROUP
from quorate.kubernetes.errors import NotFound
from quorate.kubernetes.resource import Resource
from quorate.local import manifests
from tests.differential.reviews import CONTROL_PLANE, control_plane, with_more
from tests.differential.servers import Server, Servers

Object = dict[str, Any]

LISTED = 500  # control planes in the list, as many as kubectl asks for at once
_LISTS = 5
_LOOK_AGAIN = 0.02  # seconds
_DEFINITIONS: Resource[Object] = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", dict, False
)
_CONTROL_PLANES: Resource[Object] = Resource(CONTROL_PLANE_GROUP, "v1beta2", "kubeadmcontrolplanes", CONTROL_PLANE, dict)
_NAMESPACE = "listed"


@dataclass
class Costs:
    """Milliseconds by what was asked for, of upstream's server and of quorate's."""

    upstream: dict[str, list[float]] = field(default_factory=dict)
    quorate: dict[str, list[float]] = field(default_factory=dict)

    def ratio(self, what: str) -> float:
        """How many times upstream's 99th percentile ours is; of a list, the median."""
        return self._figure(self.quorate[what]) / self._figure(self.upstream[what])

    def _figure(self, times: Sequence[float]) -> float:
        return percentile(times, 99) if len(times) > 100 else statistics.median(times)

    def __str__(self) -> str:
        lines = ["| | upstream p50 | p99 | quorate p50 | p99 | ratio |", "|---|---|---|---|---|---|"]
        for what, theirs in self.upstream.items():
            figures = [f"{percentile(times, part):.1f}" for times in (theirs, self.quorate[what]) for part in (50, 99)]
            lines.append(f"| {what} | {' | '.join(figures)} | {self.ratio(what):.2f} |")
        return "\n".join(lines)


def percentile(times: Sequence[float], part: int) -> float:
    """Of this part in a hundred of the times none is longer."""
    ordered = sorted(times)
    return ordered[min(len(ordered) - 1, round(part / 100 * (len(ordered) - 1)))]


async def measure(servers: Servers, *, count: int) -> Costs:
    """Ask each server so many times for each thing, in turns, after a tenth of that to warm up; then have each convert the list."""
    costs, obj = Costs(), with_more(control_plane("object"))
    (old,) = await servers.upstream.convert([obj], OLD)
    creation, change = (
        {"operation": "CREATE", "object": obj},
        {"operation": "UPDATE", "oldObject": obj, "object": obj | {"spec": obj["spec"] | {"replicas": 5}}},
    )
    asked: dict[str, Callable[[Server], Awaitable[object]]] = {
        "default": lambda server: server.review(webhooks.DEFAULT.path, creation),
        "validate a creation": lambda server: server.review(webhooks.VALIDATE.path, creation),
        "validate an update": lambda server: server.review(webhooks.VALIDATE.path, change),
        "convert one to v1beta1": lambda server: server.convert([obj], OLD),
        "convert one to v1beta2": lambda server: server.convert([old], NEW),
        "convert 100 to v1beta1": lambda server: server.convert([obj] * 100, OLD),
    }
    for what, ask in asked.items():
        times = count // 10 if "100" in what else count
        for _ in range(times // 10):
            await asyncio.gather(ask(servers.upstream), ask(servers.quorate))
        for _ in range(times):
            costs.upstream.setdefault(what, []).append(await _milliseconds(ask, servers.upstream))
            costs.quorate.setdefault(what, []).append(await _milliseconds(ask, servers.quorate))
    await _lists(servers, costs)
    return costs


async def _milliseconds(ask: Callable[[Server], Awaitable[object]], server: Server) -> float:
    began = time.perf_counter()
    await ask(server)
    return (time.perf_counter() - began) * 1000


async def _lists(servers: Servers, costs: Costs) -> None:
    """The first list in v1beta1 after the API server was told whom to ask, for which each object is converted, and the one after it."""
    namespace: Resource[Object] = Resource("", "v1", "namespaces", "Namespace", dict, namespaced=False)
    await servers.client.create(namespace, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": _NAMESPACE}})
    for number in range(LISTED):
        obj = with_more(control_plane(f"listed-{number}"))
        metadata = {"name": f"listed-{number}", "namespace": _NAMESPACE, "annotations": {"cluster.x-k8s.io/paused": ""}}
        await servers.client.create(_CONTROL_PLANES, obj | {"metadata": metadata}, _NAMESPACE)
    for turn in range(_LISTS):
        for server in (servers.upstream, servers.quorate) if turn % 2 else (servers.quorate, servers.upstream):
            found = costs.upstream if server is servers.upstream else costs.quorate
            found.setdefault(f"first list of {LISTED} as v1beta1", []).append(await _first_list(servers, server))
            found.setdefault(f"list of {LISTED} as v1beta1", []).append(await _list(servers))


async def _first_list(servers: Servers, server: Server) -> float:
    """From the moment at which the API server is told to ask this one until it has listed: it serves nothing in v1beta1 before, and has converted nothing."""
    (definition,) = [each for each in crd.DEFINITIONS if each.resource.kind == CONTROL_PLANE]
    without = crd.custom_resource_definition(definition)["spec"] | {"conversion": {"strategy": "None", "webhook": None}}
    wanted = crd.custom_resource_definition(definition, webhooks.conversion())
    local = manifests.manifest_set([wanted], webhook_port=server.port, ca=servers.ca.read_bytes())
    await servers.client.merge_patch(_DEFINITIONS, definition.name, {"spec": without})
    await _until(servers, served=False)
    began = time.perf_counter()
    await servers.client.merge_patch(_DEFINITIONS, definition.name, {"spec": local.kinds[0]["spec"]})
    await _until(servers, served=True)
    return (time.perf_counter() - began) * 1000


async def _until(servers: Servers, *, served: bool) -> None:
    while await _is_listed(servers) != served:  # noqa: ASYNC110 (the API server tells nobody when it serves another definition)
        await asyncio.sleep(_LOOK_AGAIN)


async def _is_listed(servers: Servers) -> bool:
    try:
        await _list(servers)
    except NotFound:
        return False
    return True


async def _list(servers: Servers) -> float:
    began = time.perf_counter()
    await servers.client.get_raw(f"/apis/{OLD}/namespaces/{_NAMESPACE}/kubeadmcontrolplanes?limit={LISTED}")
    return (time.perf_counter() - began) * 1000
