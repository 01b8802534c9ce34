"""A runtime extension that updates hosts in place: what it says that it can, how the provider calls it, and what it does to a host when core does.

As Cluster API's test extension it takes its time and is asked again and again; unlike that it does something: the static Pods of the host stop for a while, one
after the other as kubeadm has it, and the kubelet comes back at the new version. It knows no state but the host's, so that it may be asked by anybody.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

import msgspec

from quorate.clusterapi.extensions.caller import CallFailed
from quorate.clusterapi.extensions.registry import HOOKS_VERSION, Handler
from quorate.simulation.engine.apiserver import ApiServer
from quorate.simulation.engine.link import Link
from quorate.simulation.engine.objects import EXTENSION_CONFIGS, NAMESPACES, Json
from quorate.simulation.engine.world import NAMESPACE, World
from quorate.simulation.machines.cluster_objects import USER
from quorate.simulation.machines.hosts import Host, State
from quorate.simulation.machines.kubelet import Kubelets
from quorate.workload.static_pods import Component

CONFIGURATION, VERSION, INFRASTRUCTURE = "bootstrapConfig", "machine", "infrastructureMachine"
NAME = "updater"
_LATENCY = (0.01, 0.5)
_RETRY = 5.0
_PART = (1.0, 6.0)  # seconds for which a static Pod is down
_PAUSE = (0.5, 4.0)


def install(server: ApiServer) -> None:
    """Its ExtensionConfig, as core has discovered it, and the namespace that it is for."""
    server.create(NAMESPACES, {"metadata": {"name": NAMESPACE}}, who=USER)
    handlers = [
        {"name": f"{hook.lower()}.{NAME}", "requestHook": {"apiVersion": HOOKS_VERSION, "hook": hook}}
        for hook in ("CanUpdateMachine", "UpdateMachine")
    ]
    spec = {"clientConfig": {"url": "https://updater.test", "caBundle": "Y2E="}, "namespaceSelector": {}}
    made = server.create(EXTENSION_CONFIGS, {"metadata": {"name": NAME}, "spec": spec}, who=USER)
    discovered = {"type": "Discovered", "status": "True", "reason": "Discovered", "observedGeneration": made.metadata["generation"]}
    status = {"status": {"handlers": handlers, "conditions": [discovered]}}
    server.merge_patch(EXTENSION_CONFIGS, "", NAME, status, who="core", subresource="status")


class Extension:
    """The extension. `covers` are the parts that it can update; while `down` nobody reaches it, and while `fails` it says that it failed."""

    def __init__(self, world: World, kubelets: Kubelets, covers: frozenset[str]) -> None:
        self._world, self._kubelets = world, kubelets
        self._random: Random = world.random("extension")
        self._work: dict[str, _Work] = {}  # by uid of the Machine
        self.covers = covers
        self.down = self.fails = False
        self.asked = 0
        self.on_restart: list[Callable[[Host], None]] = []

    def can_update(self, request: Json) -> Json:
        """The answer to CanUpdateMachine."""
        self.asked += 1
        if self.fails:
            return {"status": "Failure", "message": "the updater is out of disk space"}
        patches: Json = {}
        for part in sorted(self.covers):
            operations = [{"op": "replace", "path": "/spec", "value": request["desired"][part]["spec"]}]
            patches[f"{part}Patch"] = {"patchType": "JSONPatch", "patch": msgspec.json.encode(operations)}
        return {"status": "Success", **patches}

    def update(self, uid: str, host: Host | None, version: str, asked: str) -> float | None:
        """One call of UpdateMachine: the seconds until the next one, or None once the host is as it is asked to be. Raises CallFailed."""
        if self.down or self.fails:
            raise CallFailed("the updater is not there")
        work = self._work.get(uid)
        if work is None or work.asked != asked:
            if host is None or not host.alive:
                raise CallFailed("the host does not answer")
            work = self._work[uid] = _Work(asked, host)
            self._restart(work, list(host.components), version)
        return None if work.done else _RETRY

    def _restart(self, work: _Work, left: list[Component], version: str) -> None:
        """Have the next static Pod stop and start again; at last the kubelet is the new one."""
        host = work.host
        if not host.alive:
            return
        if not left:
            host.version = version
            work.done = True
            self._kubelets.poke(host)
            return
        component, *rest = left

        def begin() -> None:
            if host.components.get(component) is State.RUNNING:
                for callback in self.on_restart:
                    callback(host)
                self._set(host, component, State.STARTING)
            self._world.after(self._random.uniform(*_PART), end)

        def end() -> None:
            if host.components.get(component) is State.STARTING:
                self._set(host, component, State.RUNNING)
            self._restart(work, rest, version)

        self._world.after(self._random.uniform(*_PAUSE), begin)

    def _set(self, host: Host, component: Component, state: State) -> None:
        host.components[component] = state
        self._kubelets.poke(host)


@dataclass(slots=True)
class _Work:
    asked: str  # what the host is to be, by the generations of its objects
    host: Host
    done: bool = False


@dataclass(frozen=True, slots=True)
class Calls:
    """The provider's way to the extension, which goes with the process."""

    world: World
    extension: Extension
    link: Link
    random: Random

    async def call(self, handler: Handler, body: bytes) -> bytes:
        """See `quorate.clusterapi.extensions.caller`."""
        await asyncio.sleep(self.random.uniform(*_LATENCY))
        if self.link.cut or self.extension.down:
            await asyncio.sleep(handler.timeout)
            raise CallFailed(f"no answer within {handler.timeout} s")
        request: dict[str, Any] = msgspec.json.decode(body)
        return msgspec.json.encode(self.extension.can_update(request))
