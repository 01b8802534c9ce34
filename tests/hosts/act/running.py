"""A cluster of three control planes and a worker that runs: its programs, containers, Nodes and Pods change as the steps' scripts would have it."""

from __future__ import annotations

import asyncio
import base64
import re
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from quorate.core.versions import Version
from quorate.hosts.act.tools import Tools
from quorate.hosts.connect.ssh.scripts import Outcome
from quorate.hosts.manifest import Manifest
from quorate.hosts.render.host_settings import RESTARTS_DUE
from quorate.kubernetes.errors import TooManyRequests
from quorate.kubernetes.transport import Request
from quorate.workload.static_pods import Component
from tests.hosts.act.api import Api, Json
from tests.hosts.act.world import ADMIN, DATA, ETCD, KUBELET, FakeHost, World, pki_files, tools_for
from tests.hosts.manifests import document, load

PODS = "/api/v1/namespaces/{}/pods/{}"
OLD, NEW = "v1.34.4", "v1.35.4"
_COMPONENT = re.compile(r"pod\.name\"==(etcd|kube-apiserver|kube-controller-manager|kube-scheduler)-")
_PLACED = re.compile(r"^printf %s '([^']*)' \| place (\S+) ", re.MULTILINE)
_CONTAINERS = "ctr -n k8s.io containers ls"
_PREVIOUS = re.compile(r"/etc/kubernetes/tmp/quorate/(\S+)\.before")


def manifest(*, folder: Path = Path("/nowhere"), **changes: Any) -> Manifest:
    """Three control planes and a worker, h1 to h4, at the new version. `folder` has the files that it names."""
    workers = {"hosts": [{"publicAddress": "192.0.2.4", "privateAddress": "10.0.0.4"}]}
    return load(document(staticWorkers=workers, versions__kubernetes=NEW.removeprefix("v"), **changes), folder=folder)


@dataclass
class RunningApi(Api):
    """The API of a cluster that runs: its lists, its watches of Pods, evictions, and the version of whoever is asked."""

    version: str = OLD
    stuck: bool = False  # API servers go on to tell the version that they had
    budgets: dict[str, str] = field(default_factory=dict)  # by Pod: why it may not be evicted
    lingering: set[str] = field(default_factory=set)  # Pods that take their time to end
    watchers: list[asyncio.Queue[Json]] = field(default_factory=list)

    async def send(self, request: Request) -> bytes:
        if request.path == "/version":
            return msgspec.json.encode({"gitVersion": self.version})
        return await super().send(request)

    @asynccontextmanager
    async def _events(self) -> AsyncIterator[AsyncIterator[bytes]]:
        queue: asyncio.Queue[Json] = asyncio.Queue()
        self.watchers.append(queue)

        async def lines() -> AsyncIterator[bytes]:
            while True:
                yield msgspec.json.encode(await queue.get()) + b"\n"

        yield lines()

    def stream(self, path: str, doing: str, inactivity: float) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:  # noqa: ARG002
        return self._events()

    def pod(self, namespace: str, name: str, node: str, **metadata: Any) -> None:
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": "owner", "controller": True}
        made = {"namespace": namespace, "uid": f"uid-{name}", "ownerReferences": [owner], **metadata}
        self.put(PODS.format(namespace, name), {"metadata": made, "spec": {"nodeName": node}, "status": {"phase": "Running"}})

    def end(self, namespace: str, name: str) -> None:
        """The Pod is gone, and whoever watches hears it."""
        gone = self.objects.pop(PODS.format(namespace, name))
        gone["metadata"]["resourceVersion"] = "2"
        for queue in self.watchers:
            queue.put_nowait({"type": "DELETED", "object": gone})

    def _answer(self, request: Request, path: str) -> Json:
        if path == "/api/v1/pods":
            node = request.path.partition("spec.nodeName%3D")[2].partition("&")[0]
            items = [pod for key, pod in self.objects.items() if "/pods/" in key and pod["spec"]["nodeName"] == node]
            return {"metadata": {"resourceVersion": "1"}, "items": items}
        if path.endswith("/eviction"):
            return self._evict(path.removesuffix("/eviction"))
        if path.endswith("/machinedeployments") and request.method == "GET":
            return {"metadata": {"resourceVersion": "1"}, "items": []}
        return super()._answer(request, path)

    def _evict(self, path: str) -> Json:
        _, _, _, _, namespace, _, name = path.split("/")
        if name in self.budgets:
            raise self._refusal(name)
        if name not in self.lingering:
            self.end(namespace, name)
        return {"kind": "Status", "status": "Success"}

    def _refusal(self, name: str) -> TooManyRequests:
        return TooManyRequests(f"create pods/eviction default/{name}: {self.budgets[name]}", code=429)


@dataclass
class RunningHost(FakeHost):
    """A host in the cluster: the versions of what is installed and of what runs, and each component's container by a number."""

    kubelet: str = OLD
    components: str = OLD
    containers: dict[str, int] = field(default_factory=lambda: {str(component): 1 for component in Component})
    drifting: set[str] = field(default_factory=set)  # components whose manifest differs from what kubeadm would write
    broken: set[str] = field(default_factory=set)  # components that do not start with a new manifest
    lingering: set[str] = field(default_factory=set)  # components whose container outlives the kubelet that ran it
    down: set[str] = field(default_factory=set)  # components that do not run
    due: tuple[str, ...] = ()  # what its settings have yet to restart
    silent: list[str] = field(default_factory=list)  # containers that were ended by force when they were silent

    @property
    def kubelet_version(self) -> Version:
        return Version.parse(self.kubelet)

    def _run(self, script: str, stdin: bytes, *, halfway: bool) -> Outcome:
        if (failure := self.world.failures.get(self.name)) and failure[0] in script:
            return Outcome(1, b"", failure[1].encode())
        for marker, effect in (
            (RESTARTS_DUE, self._settings),
            ("kubeadm upgrade apply", self._upgrade),
            ("kubeadm upgrade node --config", self._upgrade if self.control_plane else self._nothing),
            ("kubeadm init phase", self._generate),
            ("kubeadm certs renew", self._renewed),
            ("systemctl restart kubelet", self._restart_kubelet),
            ("apt-mark hold", self._installed),
            ("--signal SIGKILL", self._end_the_silent),
            ("tasks kill", self._kill),
            (_CONTAINERS, self._containers),
            (".containers; echo changed", self._changed),
            (".before", self._settle),
        ):
            if marker in script:
                self.files |= {path.strip("'"): base64.b64decode(content) for content, path in _PLACED.findall(script)}
                if halfway and marker == "kubeadm upgrade apply":
                    return Outcome(0, b"", b"")
                return Outcome(0, effect(script), b"")
        return super()._run(script, stdin, halfway=halfway)

    @property
    def control_plane(self) -> bool:
        return self.world.manifest_host(self.name) in self.world.manifest.control_plane.hosts

    def report(self) -> None:
        """Tell the API of the Node and, of a control plane, its static Pods."""
        node = self.world.api.objects.get(f"/api/v1/nodes/{self.name}", {})
        status = {"conditions": [{"type": "Ready", "status": "True"}], "nodeInfo": {"kubeletVersion": self.kubelet}}
        self.world.api.put(f"/api/v1/nodes/{self.name}", {**node, "status": status})
        for component in Component if self.control_plane else ():
            ready = "False" if component in self.broken else "True"
            self.world.api.put(
                PODS.format("kube-system", component.pod_name(self.name)),
                {
                    "metadata": {"namespace": "kube-system", "annotations": {"kubernetes.io/config.mirror": "hash"}},
                    "spec": {"nodeName": self.name},
                    "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]},
                },
            )

    def _settings(self, script: str) -> bytes:
        if script.startswith("rm -f"):
            self.due = ()
            return self._note("is well again")
        return "".join(f"due {what}\n" for what in self.due).encode()

    def _note(self, what: str) -> bytes:
        self.ran.append(what)
        return b""

    def _nothing(self, _: str) -> bytes:
        return self._note("kubeadm upgrade node")

    def _installed(self, script: str) -> bytes:
        wanted = re.findall(r"^want (\S+) (\S+)", script, re.MULTILINE)
        self.files |= {f"/usr/bin/{name}": f"v{version.strip(chr(39))}".encode() for name, version in wanted}
        return self._note(f"install {' '.join(name for name, _ in wanted)}")

    def _upgrade(self, script: str) -> bytes:
        assert self.files.get("/usr/bin/kubeadm") == NEW.encode(), "kubeadm has to be of the new version"
        if self.components != NEW:
            self.containers = {name: number + 1 for name, number in self.containers.items()}
        self.components = NEW
        if not api_of(self.world).stuck:
            api_of(self.world).version = NEW
        self.report()
        return self._note("kubeadm upgrade apply" if "upgrade apply" in script else "kubeadm upgrade node")

    def _restart_kubelet(self, script: str) -> bytes:
        if "kubelet-config" in script:
            return self._note("kubelet configuration")
        self.kubelet = self.files.get("/usr/bin/kubelet", self.kubelet.encode()).decode()
        self.report()
        if "systemctl stop kubelet" not in script:
            return self._note("restart kubelet")
        self.containers = {name: number + (name not in self.lingering) for name, number in self.containers.items()}
        return self._note("restart kubelet and static Pods")

    def _renewed(self, script: str) -> bytes:
        return self._note(f"renew {re.findall(r'certs renew ([a-z.-]+) >>', script)[0]}")

    def _kill(self, script: str) -> bytes:
        component = _COMPONENT.findall(script)[0]
        self.containers[component] += 1
        return self._note(f"end {component}")

    def _end_the_silent(self, script: str) -> bytes:
        self.silent += re.findall(r"for id in (\S+); do\n", script)
        return b""

    def _containers(self, script: str) -> bytes:
        component = _COMPONENT.findall(script)[0]
        return b"" if component in self.down else f"{self.containers[component]}\n".encode()

    def _generate(self, script: str) -> bytes:
        if "init phase preflight" in script:
            return self._note("pull images")
        if "init phase certs" in script:
            return b""
        component = _PREVIOUS.findall(script)[0]
        if component in self.drifting:
            self.drifting.discard(component)
            restarted = [component, str(Component.API_SERVER)] if component == Component.ETCD else [component]
            self.files[f"{component}.before"] = " ".join(str(self.containers[each]) for each in restarted).encode()
            for each in restarted:
                self.containers[each] += 1
            self.report()
            return self._note(f"new manifest of {component}")
        return b""

    def _changed(self, script: str) -> bytes:
        before = self.files.get(f"{_PREVIOUS.findall(script)[0]}.before")
        return b"" if before is None else before + b"\nchanged\n"

    def _settle(self, script: str) -> bytes:
        component = _PREVIOUS.findall(script)[0]
        self.files.pop(f"{component}.before", None)
        if "mv -f" in script:
            self.broken.discard(component)
            return self._note(f"old manifest of {component}")
        return b""


def cluster(made: Manifest | None = None, *, cut: tuple[int, str] | None = None) -> World:
    """A world in which the cluster runs. `cut` counts from its first call on."""
    world = World(made or manifest())
    world.api = RunningApi()
    world.hosts = {name: RunningHost(name, host.address, world) for name, host in world.hosts.items()}
    for host in world.hosts.values():
        if isinstance(host, RunningHost) and host.control_plane:
            host.files |= {**pki_files(), ADMIN: b"admin", KUBELET: b"kubelet", ETCD: b"etcd", DATA: b"data"}
            world.serve(host)
        else:
            host.files[KUBELET] = b"kubelet"
        host.packages = True
        running(world, host.name).report()
    world.cut = cut
    return world


def running(world: World, name: str) -> RunningHost:
    host = world.hosts[name]
    assert isinstance(host, RunningHost)
    return host


def api_of(world: World) -> RunningApi:
    assert isinstance(world.api, RunningApi)
    return world.api


def tools(world: World) -> Tools:
    return tools_for(world)
