"""An API server for steps: objects by path, behind the real client. Enough of REST for Secrets, ConfigMaps, Nodes and certificate requests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import msgspec

from quorate.kubernetes.client import Client
from quorate.kubernetes.config import RestConfig
from quorate.kubernetes.errors import AlreadyExists, ApiError, Conflict, ConnectionFailed, NotFound
from quorate.kubernetes.transport import Request
from quorate.simulation.engine.patches import merge_patch

Json = dict[str, Any]


@dataclass
class Api:
    """`objects` by their path without a query; `log` has each write as `METHOD path`. `down` refuses every connection, `failing` every request to a path.

    `now` is its clock.
    """

    objects: dict[str, Json] = field(default_factory=dict)
    log: list[str] = field(default_factory=list)
    down: bool = False
    failing: dict[str, ApiError] = field(default_factory=dict)
    now: str = "2026-03-01T12:00:00Z"

    @property
    def client(self) -> Client:
        """A client of it."""
        return Client(RestConfig(server="https://api"), self)

    def put(self, path: str, obj: Json) -> None:
        """An object that is there, named as its path says."""
        metadata = {"uid": "uid", "resourceVersion": "1", **obj.get("metadata", {}), "name": path.rpartition("/")[2]}
        self.objects[path] = {**obj, "metadata": metadata}

    def below(self, path: str) -> list[str]:
        """The names of the objects in a collection."""
        return [key.removeprefix(f"{path}/") for key in self.objects if key.startswith(f"{path}/")]

    async def send(self, request: Request) -> bytes:
        """See quorate.kubernetes.client.Carrier."""
        path = request.path.partition("?")[0]
        if self.down:
            raise ConnectionFailed(f"{request.doing}: connection refused")
        if path in self.failing:
            raise self.failing[path]
        if path == "/readyz":
            return b"ok"
        if request.method != "GET" and "dryRun=" not in request.path:
            self.log.append(f"{request.method} {path}")
        return msgspec.json.encode(self._answer(request, path))

    def stream(self, path: str, doing: str, inactivity: float) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Never: no step watches here."""
        raise NotImplementedError

    async def websocket(self, path: str, doing: str, protocols: tuple[str, ...]) -> aiohttp.ClientWebSocketResponse:
        """Never."""
        raise NotImplementedError

    async def close(self) -> None:
        """Nothing is kept open."""

    def _answer(self, request: Request, path: str) -> Json:
        body = msgspec.json.decode(request.body or b"{}")
        if "dryRun=All" in request.path:
            return {**body, "metadata": {**body["metadata"], "creationTimestamp": self.now}}
        if request.method == "POST":
            path = f"{path}/{body['metadata']['name']}"
            if path in self.objects:
                raise AlreadyExists(f"{request.doing}: it exists", code=409)
            self.put(path, body)
        elif (
            request.method == "GET"
            and path not in self.objects
            and path.rpartition("/")[2] in ("nodes", "secrets", "certificatesigningrequests")
        ):
            return {"metadata": {"resourceVersion": "1"}, "items": [self.objects[f"{path}/{name}"] for name in self.below(path)]}
        target = path.removesuffix("/approval")
        if target not in self.objects:
            raise NotFound(f"{request.doing}: not found", code=404)
        if request.method == "DELETE":
            found = self.objects[target]["metadata"]
            if any(found.get(key) != value for key, value in body.get("preconditions", {}).items()):
                raise Conflict(f"{request.doing}: it has changed", code=409)
            del self.objects[target]
            return {"kind": "Status", "apiVersion": "v1", "status": "Success"}
        if request.method == "PATCH":
            self.objects[target] = merge_patch(self.objects[target], body)
        return self.objects[target]
