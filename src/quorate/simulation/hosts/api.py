"""The API of the cluster on the site, as the production's client asks it: what the site keeps of each object, as the whole object, and back.

Only what steps ask for is served; whatever else is asked is an error of this file, and raises AssertionError. Of Pods there is none: those of a Node that is
drained have left when they are listed.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import msgspec

from quorate.hosts.render.marks import CORDONED, STATIC_WORKER
from quorate.kubernetes.errors import ConnectionFailed
from quorate.kubernetes.resource import NODES, SECRETS
from quorate.kubernetes.transport import Request
from quorate.simulation.engine.patches import merge_patch
from quorate.simulation.hosts import kube_system, material
from quorate.simulation.hosts.acts import Action
from quorate.simulation.hosts.kube_system import DONE, Json, check_version, exists, missing
from quorate.simulation.hosts.machines import Machine
from quorate.simulation.hosts.reach import Reach
from quorate.simulation.hosts.site import Node, Site
from quorate.simulation.hosts.written import LABEL
from quorate.workload.nodes import CONTROL_PLANE
from quorate.workload.static_pods import NAMESPACE

_NODES = NODES.path()
_TOKENS = SECRETS.path(NAMESPACE)
_REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
_PODS = "/api/v1/pods"
_SECRETS = SECRETS.path()
_SECRET = f"{SECRETS.path(material.NAMESPACE)}/"
_REWRITTEN = (1.0, 10.0)
"""Seconds for all Secrets that are stored alike to be written anew."""
_DRAINED = (1.0, 20.0)
"""Seconds for Pods to leave."""


class Api:
    """What carries requests to the API server of one machine (`Carrier`). A write passes the fence at the instant at which it takes effect."""

    def __init__(self, reach: Reach, machine: Machine) -> None:
        self._reach, self._machine = reach, machine

    @property
    def _site(self) -> Site:
        return self._reach.site

    async def send(self, request: Request) -> bytes:
        """See quorate.kubernetes.client.Carrier."""
        path, _, query = request.path.partition("?")
        await self._reach.travels()
        if path == _PODS:
            await self._reach.takes(*_DRAINED)
        self._check(request)
        if request.method != "GET":
            self._reach.fence.permit()
        if path.startswith(_SECRET):
            await self._write_some(request)
        answer = self._answer(request, path, dry="dryRun=All" in query)
        self._site.settle()
        await self._reach.travels()
        return msgspec.json.encode(answer)

    @asynccontextmanager
    async def stream(self, path: str, doing: str, inactivity: float) -> AsyncIterator[AsyncIterator[bytes]]:  # noqa: ARG002
        """Nothing that is watched here ever changes."""
        yield _silence()

    async def websocket(self, path: str, doing: str, protocols: tuple[str, ...]) -> aiohttp.ClientWebSocketResponse:
        """Never."""
        raise NotImplementedError

    async def close(self) -> None:
        """Nothing is kept open."""

    def _check(self, request: Request) -> None:
        if not self._reach.asks_api_of(self._machine):
            raise ConnectionFailed(f"{request.doing}: it does not answer")

    def _answer(self, request: Request, path: str, *, dry: bool) -> Json:
        objects, method = self._site.objects, request.method
        body: Json = msgspec.json.decode(request.body or b"{}")
        name = path.rpartition("/")[2]
        if method == "GET" and path in ("/readyz", _REQUESTS, _PODS):
            return {"metadata": {"resourceVersion": "1"}, "items": []}
        if path.startswith(f"{_NODES}/"):
            return self._node(request, name, body)
        if path == _TOKENS and method == "POST":
            return self._new_token(body, dry=dry)
        if path.startswith(f"{_TOKENS}/bootstrap-token-") and method == "DELETE":
            self._site.tokens.discard(name.removeprefix("bootstrap-token-"))
            return DONE
        if path == _SECRETS and method == "GET":
            named = [
                {"metadata": {"name": each, "namespace": material.NAMESPACE, "uid": each}} for each in map(material.name_of, objects.stored)
            ]
            return {"metadata": {"resourceVersion": "1"}, "items": named}
        if path.startswith(_SECRET) and method == "PATCH":
            return self._write_the_rest(request, name)
        if path == "/version":
            return {"gitVersion": str(self._machine.api_version)}
        if (found := kube_system.answer(self._site, request, path, body)) is not None:
            return found
        raise AssertionError(f"no object here is {path}, for {method}")

    async def _write_some(self, request: Request) -> None:
        """All Secrets that are stored alike are one here; while they are written some are stored otherwise already."""
        self._site.store({self._machine.api_providers.secrets[0]})
        await self._reach.takes(*_REWRITTEN)
        self._check(request)
        self._reach.fence.permit()

    def _write_the_rest(self, request: Request, name: str) -> Json:
        objects = self._site.objects
        found = next((each for each in objects.stored if material.name_of(each) == name), None)
        exists(request, found is not None)
        objects.stored = tuple(each for each in objects.stored if each != found)
        self._site.store({self._machine.api_providers.secrets[0]})
        return {"metadata": {"name": name, "namespace": material.NAMESPACE}}

    def _new_token(self, body: Json, *, dry: bool) -> Json:
        if not dry:
            self._site.tokens.add(body["metadata"]["name"].removeprefix("bootstrap-token-"))
        return body | {"metadata": body["metadata"] | {"creationTimestamp": self._site.world.now()}}

    def _node(self, request: Request, name: str, body: Json) -> Json:
        node = self._site.objects.nodes.get(name)
        if node is None:
            raise missing(request)
        found = _shown(self._site, node)
        check_version(request, found, body.get("preconditions" if request.method == "DELETE" else "metadata") or {})
        if request.method == "DELETE":
            self._reach.tells(Action.DELETE_NODE, node=name)
            del self._site.objects.nodes[name]
            return DONE
        if request.method == "PATCH":
            _change(node, merge_patch(found, body))
            return _shown(self._site, node)
        return found


def _shown(site: Site, node: Node) -> Json:
    """The Node. Its version is its content: one that is again as it was has not changed."""
    labels = ({CONTROL_PLANE: ""} if node.control_plane else {}) | ({LABEL: str(node.labels)} if node.labels else {})
    annotations = ({STATIC_WORKER: "true"} if node.static_worker else {}) | ({CORDONED: "true"} if node.cordoned_by_us else {})
    made: Json = {
        "metadata": {"name": node.name, "uid": f"{node.name} at {node.address}", "labels": labels, "annotations": annotations},
        "spec": {"unschedulable": node.unschedulable},
        "status": {
            "addresses": [{"type": "InternalIP", "address": node.address}],
            "conditions": [{"type": "Ready", "status": "True" if site.is_ready(node) else "Unknown"}],
            "nodeInfo": {"kubeletVersion": str(node.kubelet or "")},
        },
    }
    made["metadata"]["resourceVersion"] = hashlib.blake2b(msgspec.json.encode(made), digest_size=8).hexdigest()
    return made


def _change(node: Node, made: Json) -> None:
    labels, annotations = made["metadata"].get("labels") or {}, made["metadata"].get("annotations") or {}
    node.control_plane, node.labels = CONTROL_PLANE in labels, int(labels.get(LABEL, 0))
    node.static_worker, node.cordoned_by_us = STATIC_WORKER in annotations, CORDONED in annotations
    node.unschedulable = bool(made["spec"].get("unschedulable"))


async def _silence() -> AsyncIterator[bytes]:
    await asyncio.get_running_loop().create_future()
    yield b""
