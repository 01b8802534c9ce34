"""One local management cluster for all tests of this folder; for each test a namespace of its own, and managers that look at nothing else."""

from __future__ import annotations

import asyncio
import base64
import itertools
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest
import pytest_asyncio

from quorate import local
from quorate.clusterapi.types.names import Label
from quorate.kubernetes.client import Client
from quorate.kubernetes.errors import AlreadyExists, ApiError, ConnectionFailed, NotFound
from quorate.kubernetes.resource import Resource
from quorate.local import DemoCluster, LocalCluster, ports, processes
from quorate.local.commands import ManagerPorts
from quorate.local.manifests import KCP
from quorate.local.programs import PROGRAMS_FOLDER

T = TypeVar("T")
Object = dict[str, Any]

LOOK_AGAIN = 0.25  # seconds between two questions
TIMEOUT = 60.0  # seconds; core and CABPK try again to connect to a new workload cluster every 30
_NOT_IN_NAMES = re.compile("[^a-z0-9]+")
EXTENSION = "capi-test-extension"
_NEEDED = ("etcd", "kube-apiserver", "kube-controller-manager", "capi-core", "capi-cabpk", "capi-capd", EXTENSION)


def _kind(group: str, version: str, plural: str, kind: str, *, namespaced: bool = True) -> tuple[str, Resource[Object]]:
    return kind, Resource(group, version, plural, kind, dict, namespaced)


KINDS: dict[str, Resource[Object]] = dict(
    (
        _kind("", "v1", "namespaces", "Namespace", namespaced=False),
        _kind("", "v1", "secrets", "Secret"),
        _kind("coordination.k8s.io", "v1", "leases", "Lease"),
        _kind("runtime.cluster.x-k8s.io", "v1beta2", "extensionconfigs", "ExtensionConfig", namespaced=False),
        _kind("", "v1", "events", "Event"),
        _kind("cluster.x-k8s.io", "v1beta2", "clusters", "Cluster"),
        _kind("cluster.x-k8s.io", "v1beta2", "machines", "Machine"),
        _kind("cluster.x-k8s.io", "v1beta2", "machinehealthchecks", "MachineHealthCheck"),
        _kind("bootstrap.cluster.x-k8s.io", "v1beta2", "kubeadmconfigs", "KubeadmConfig"),
        _kind("controlplane.cluster.x-k8s.io", "v1beta2", "kubeadmcontrolplanes", "KubeadmControlPlane"),
        _kind("infrastructure.cluster.x-k8s.io", "v1beta2", "devclusters", "DevCluster"),
        _kind("infrastructure.cluster.x-k8s.io", "v1beta2", "devmachines", "DevMachine"),
        _kind("infrastructure.cluster.x-k8s.io", "v1beta2", "devmachinetemplates", "DevMachineTemplate"),
    )
)
"""The kinds the tests look at, as plain JSON: managedFields and everything else that the typed client leaves out."""

_PORTS_FROM = itertools.count(os.getpid() * 16, 32)
"""Where the next program looks for ports: one that was just started has not bound its own yet, and beside the cluster's they may be its neighbours."""


@dataclass
class Manager:
    """One `quorate manager` process, or upstream's, which serves webhooks on a port."""

    child: subprocess.Popen[bytes]
    log: Path
    webhook_port: int = 0

    @property
    def running(self) -> bool:
        return self.child.poll() is None

    def kill(self) -> None:
        """SIGKILL, and wait until it has ended. Idempotent."""
        self.child.kill()
        self.child.wait(10)

    def stop(self) -> int:
        """SIGTERM; the exit code. One that does not end within ten seconds is killed, and the test fails."""
        self.child.terminate()
        try:
            return self.child.wait(10)
        except subprocess.TimeoutExpired:
            self.kill()
            raise


@dataclass
class Stage:
    """One test's namespace in the local management cluster, and the managers that act in it."""

    stack: LocalCluster
    namespace: str
    logs: Path
    managers: list[Manager] = field(default_factory=list)
    paused: list[Object] = field(default_factory=list)  # clusters of other tests

    @property
    def client(self) -> Client:
        """As administrator."""
        return self.stack.client

    def sibling(self, suffix: str) -> Stage:
        """Another namespace of the same test, whose managers end with this one's."""
        return Stage(self.stack, f"{self.namespace}-{suffix}", self.logs, self.managers)

    async def open(self) -> Stage:
        """Make the namespace."""
        await self.client.create(KINDS["Namespace"], {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}})
        return self

    async def close(self) -> None:
        """End the managers, and let the clusters of other tests go on."""
        for manager in self.managers:
            manager.kill()
        with suppress(NotFound):
            await self.client.delete(KINDS["ExtensionConfig"], self.namespace)
        while self.paused:
            await self._pause(self.paused.pop(), None)

    async def _pause(self, cluster: Object, paused: bool | None) -> None:
        meta = cluster["metadata"]
        await self.client.merge_patch(KINDS["Cluster"], meta["name"], {"spec": {"paused": paused}}, meta["namespace"])

    def start_manager(self, *arguments: str, kubeconfig: Path | None = None, everywhere: bool = False) -> Manager:
        """A manager for this namespace, or with `everywhere` for all of them."""
        log = self.logs / f"manager-{len(self.managers)}.log"
        where = () if everywhere else (f"--namespace={self.namespace}",)
        servers = ("--health-addr=0", "--diagnostics-address=0", "--webhook-port=0")
        command = (
            sys.executable,
            "-m",
            "quorate",
            "manager",
            f"--kubeconfig={kubeconfig or self.stack.kubeconfig}",
            "--etcd-dialer=in-memory",
        )
        child = processes.spawn((*command, *servers, *where, *arguments), log=log, environment=_environment(), bound_to_parent=True)
        self.managers.append(Manager(child, log))
        return self.managers[-1]

    def start_webhooks(self, gates: str) -> Manager:
        """A manager for this namespace that serves webhooks, which nobody is told to ask."""
        (port,) = ports.choose(1, start=next(_PORTS_FROM))
        serving = f"--webhook-cert-dir={self.stack.folder.pki / 'serving'}"
        manager = self.start_manager(f"--webhook-port={port}", serving, f"--feature-gates={gates}")
        manager.webhook_port = port
        return manager

    async def start_upstream(self, gates: str = KCP.feature_gates) -> Manager:
        """Upstream's provider, in place of ours; it serves webhooks that nobody is told to ask. The clusters of other tests are paused until this one's end.

        Restricted to one namespace, as ours is, it does not work (it casts its informers to a type that those of one namespace do not have), nor by a label
        (its filter drops the event of a new connection, which has none).
        """
        await self.pause_others()
        served = ManagerPorts(*ports.choose(3, start=next(_PORTS_FROM)))
        command = (
            PROGRAMS_FOLDER / KCP.program,
            f"--kubeconfig={self.stack.kubeconfig}",
            *served.flags,
            f"--webhook-cert-dir={self.stack.folder.pki / 'serving'}",
            f"--feature-gates={gates}",
        )
        log = self.logs / f"manager-{len(self.managers)}.log"
        child = processes.spawn(tuple(map(str, command)), log=log, environment=_environment(), bound_to_parent=True)
        self.managers.append(Manager(child, log, served.webhook))
        return self.managers[-1]

    async def start_extension(self) -> Manager:
        """Cluster API's test extension for this namespace, once core has discovered it: it takes its 15 to 20 s for each update, and does nothing."""
        served = ManagerPorts(*ports.choose(3, start=next(_PORTS_FROM)))
        serving = self.stack.folder.pki / "serving"
        command = (PROGRAMS_FOLDER / EXTENSION, f"--kubeconfig={self.stack.kubeconfig}", *served.flags, f"--webhook-cert-dir={serving}")
        log = self.logs / f"extension-{len(self.managers)}.log"
        child = processes.spawn(tuple(map(str, command)), log=log, environment=_environment(), bound_to_parent=True)
        self.managers.append(Manager(child, log, served.webhook))
        await self.client.create(KINDS["ExtensionConfig"], self._extension_config(served.webhook))
        await self.until("the extension is discovered", self._discovered)
        return self.managers[-1]

    def _extension_config(self, port: int) -> Object:
        client = {
            "url": f"https://{ports.LOOPBACK}:{port}",
            "caBundle": base64.b64encode((self.stack.folder.pki / "ca.crt").read_bytes()).decode(),
        }
        only = {"matchLabels": {"kubernetes.io/metadata.name": self.namespace}}
        spec = {"clientConfig": client, "namespaceSelector": only}
        resource = KINDS["ExtensionConfig"]
        return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": self.namespace}, "spec": spec}

    async def _discovered(self) -> bool:
        found = await self.client.get(KINDS["ExtensionConfig"], self.namespace)
        return conditions_of(found).get("Discovered", {}).get("status") == "True"

    async def pause_others(self, *allowed: Stage) -> None:
        """Pause every cluster but this one's, and those that are allowed, until this one's end."""
        spaces = {self.namespace, *(each.namespace for each in allowed)}
        for cluster in (await self.client.list(KINDS["Cluster"])).items:
            if cluster["metadata"]["namespace"] not in spaces and not cluster["spec"].get("paused"):
                await self._pause(cluster, True)
                self.paused.append(cluster)

    def cluster(self, replicas: int = 1, **changes: Any) -> DemoCluster:
        """A cluster named after the namespace, of machines that take no time."""
        return DemoCluster(name=self.namespace, namespace=self.namespace, replicas=replicas, phase_seconds=0, **changes)

    async def create(self, *objects: Object) -> None:
        """Create objects one after the other."""
        for item in objects:
            await self.client.create(KINDS[item["kind"]], item, self.namespace)

    async def all_of(self, kind: str) -> list[Object]:
        """All objects of a kind in the namespace."""
        return (await self.client.list(KINDS[kind], self.namespace)).items

    async def names(self, kind: str) -> set[str]:
        """Their names."""
        return {item["metadata"]["name"] for item in await self.all_of(kind)}

    async def machines(self) -> list[Object]:
        """The control-plane Machines, those being deleted included."""
        return (await self.client.list(KINDS["Machine"], self.namespace, label_selector=Label.CONTROL_PLANE)).items

    async def control_plane(self) -> Object:
        """The KubeadmControlPlane."""
        return await self.client.get(KINDS["KubeadmControlPlane"], self.namespace, self.namespace)

    async def patch(self, kind: str, patch: Object, *, subresource: str = "") -> Object:
        """Merge a patch into the object of this kind that is named after the namespace."""
        return await self.client.merge_patch(KINDS[kind], self.namespace, patch, self.namespace, subresource=subresource)

    async def scale(self, replicas: int) -> None:
        """Scale through the subresource, as `kubectl scale` does."""
        await self.patch("KubeadmControlPlane", {"spec": {"replicas": replicas}}, subresource="scale")

    async def delete(self, kind: str, name: str = "") -> None:
        """Delete an object; without a name the one named after the namespace."""
        await self.client.delete(KINDS[kind], name or self.namespace, self.namespace)

    async def condition(self, type_: str, kind: str = "KubeadmControlPlane", name: str = "") -> Object:
        """A condition; an empty one where the object has none of this type (yet)."""
        item = await self.client.get(KINDS[kind], name or self.namespace, self.namespace)
        return conditions_of(item).get(type_, {"status": "", "reason": "", "message": ""})

    async def until_condition(self, type_: str, status: str, text: str = "", *, timeout: float = TIMEOUT) -> Object:
        """Wait for a condition of the KubeadmControlPlane whose message holds `text`."""

        async def answer() -> Object | None:
            found = await self.condition(type_)
            return found if found["status"] == status and text in found["message"] else None

        return await self.until(f"{type_} is {status} with {text!r}", answer, timeout=timeout)

    async def until_up(self) -> None:
        """Wait until the first Machine serves: seen by our own connection, half a minute before core has made its own and calls the Machine ready."""
        for type_ in ("Initialized", "EtcdClusterHealthy", "ControlPlaneComponentsHealthy"):
            await self.until_condition(type_, "True")

    async def until_ready(self, replicas: int, *, timeout: float = TIMEOUT) -> Object:
        """Wait until exactly so many Machines exist and all are ready and available; returns the KubeadmControlPlane."""

        async def answer() -> Object | None:
            found = await self.control_plane()
            status = found.get("status", {})
            counts = {status.get(count) for count in ("replicas", "readyReplicas", "availableReplicas", "upToDateReplicas")}
            settled = status.get("observedGeneration") == found["metadata"]["generation"]
            return found if settled and counts == {replicas} and len(await self.machines()) == replicas else None

        return await self.until(f"{replicas} replicas are ready", answer, timeout=timeout)

    async def until(self, what: str, question: Callable[[], Awaitable[T | None]], *, timeout: float = TIMEOUT) -> T:
        """Ask until the answer is neither None nor false, and return it. What is not there, or does not answer, is asked for again."""
        try:
            async with asyncio.timeout(timeout):
                while True:
                    try:
                        if answer := await question():
                            return answer
                    except (NotFound, ConnectionFailed):
                        pass
                    await asyncio.sleep(LOOK_AGAIN)
        except TimeoutError:
            pytest.fail(f"not within {timeout:.0f} s: {what}\n{await self._told()}")

    async def stays(self, what: str, question: Callable[[], Awaitable[bool]], *, seconds: float = 2.0) -> None:
        """Check again and again, for so many seconds, that the answer stays yes."""
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while loop.time() < end:
            assert await question(), f"{what}\n{await self._told()}"
            await asyncio.sleep(LOOK_AGAIN)

    async def _told(self) -> str:
        """What the control plane says of itself, and the end of each manager's log."""
        lines = []
        try:
            found = await self.control_plane()
            lines += [f"  {type_}: {c['status']} {c['reason']} {c.get('message', '')}" for type_, c in conditions_of(found).items()]
            lines += [
                f"  Machine {machine['metadata']['name']}: {machine.get('status', {}).get('phase')}" for machine in await self.machines()
            ]
        except (ApiError, ConnectionFailed) as error:
            lines.append(f"  {error}")
        for manager in self.managers[-2:]:
            tail = manager.log.read_text(errors="replace").splitlines()[-15:]
            lines += [f"{manager.log} (running: {manager.running})", *(f"  {line[:400]}" for line in tail)]
        return "\n".join(lines)


def conditions_of(item: Object) -> dict[str, Object]:
    """An object's conditions by type; a message that is not there is empty."""
    return {condition["type"]: {"message": "", **condition} for condition in item.get("status", {}).get("conditions", [])}


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in ("KUBECONFIG", "POD_NAME", "POD_NAMESPACE", "POD_UID")}


@contextmanager
def _shown(config: pytest.Config) -> Iterator[Callable[[str], None]]:
    """Says a line on the terminal though pytest captures output: whoever waits minutes for another stack is told so."""
    capture = config.pluginmanager.getplugin("capturemanager")
    reporter = config.pluginmanager.getplugin("terminalreporter")

    def say(line: str) -> None:
        with ExitStack() as closing:
            if capture is not None:
                closing.enter_context(capture.global_and_fixture_disabled())
            if reporter is not None:
                reporter.write_line(line)

    yield say


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def stack(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[LocalCluster]:
    """The local management cluster with quorate's kinds and nobody who answers for them."""
    missing = [name for name in _NEEDED if not (PROGRAMS_FOLDER / name).exists()]
    if missing:
        pytest.skip(f"not built: {', '.join(missing)}; `make programs` builds them into {PROGRAMS_FOLDER.name}/")
    with _shown(request.config) as say:
        async with local.running(tmp_path_factory.mktemp("local") / "stack", "none", local.Options(say=say)) as cluster:
            yield cluster


@dataclass
class Nursery:
    """Control planes of three with a MachineHealthCheck, made ahead while tests wait for something else: each takes most of a minute, spent in waiting."""

    stack: LocalCluster
    logs: Path
    ready: asyncio.Queue[Stage] = field(default_factory=lambda: asyncio.Queue(maxsize=2))

    async def run(self, wanted: int) -> None:
        """Make so many, never more than three ahead of whoever takes them. They are handed over at rest and without a manager."""
        for number in range(1, wanted + 1):
            made = await Stage(self.stack, f"three-{number}", self.logs).open()
            manager = made.start_manager()
            try:
                demo = made.cluster(3)
                for item in (*demo.objects(), demo.health_check()):
                    await made.until(f"{item['kind']} is created", partial(_created, made, item))
                await made.until_ready(3, timeout=240)
                manager.stop()
            finally:
                manager.kill()
            await self.ready.put(made)


async def _created(stage: Stage, item: Object) -> bool:
    """Create an object; the API server may restart meanwhile, for another test."""
    with suppress(AlreadyExists):
        await stage.create(item)
    return True


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def nursery(stack: LocalCluster, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Nursery]:
    """As many control planes as the tests of this run take; where two processes share the tests, each stands by for all of them."""
    made = Nursery(stack, tmp_path_factory.mktemp("nursery"))
    wanted = sum(getattr(item, "fixturenames", []).count(name) for item in request.session.items for name in ("three", "another_three"))
    task = asyncio.get_running_loop().create_task(
        made.run(wanted)
    )  # ended below; a fixture may not keep a task group open across its yield
    yield made
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest_asyncio.fixture(loop_scope="session")
async def three(nursery: Nursery, tmp_path: Path) -> AsyncIterator[Stage]:
    """A control plane of three that is at rest, in a namespace of its own, with a MachineHealthCheck and without a manager."""
    async with _taken(nursery, tmp_path) as made:
        yield made


@pytest_asyncio.fixture(loop_scope="session")
async def another_three(nursery: Nursery, tmp_path: Path) -> AsyncIterator[Stage]:
    """A second one."""
    async with _taken(nursery, tmp_path) as made:
        yield made


@asynccontextmanager
async def _taken(nursery: Nursery, logs: Path) -> AsyncIterator[Stage]:
    async with asyncio.timeout(300):
        made = await nursery.ready.get()
    made.logs, made.managers = logs, []
    try:
        yield made
    finally:
        await made.close()


@pytest_asyncio.fixture(loop_scope="session")
async def stage(stack: LocalCluster, request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Stage]:
    """This test's namespace, named after the test; its managers are ended with it. What they made goes with the stack."""
    name = _NOT_IN_NAMES.sub("-", request.node.name.removeprefix("test_"))[:30].strip("-")
    opened = await Stage(stack, name, tmp_path).open()
    try:
        yield opened
    finally:
        await opened.close()


@pytest.fixture
def manager(stage: Stage) -> Manager:
    """A manager for this test's namespace."""
    return stage.start_manager()
