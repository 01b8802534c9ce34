"""Virtual time for the connection's schedules (seconds to minutes), and a workload cluster that is nothing but lists of objects."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pytest

from quorate.kubernetes.client import Listing, WatchEvent
from quorate.kubernetes.config import RestConfig
from quorate.kubernetes.errors import NotFound
from quorate.kubernetes.objects import ConfigMap, Node, NodeSpec, ObjectMeta, Pod, PodStatus
from quorate.kubernetes.resource import Resource
from quorate.kubernetes.share import Share
from quorate.simulation.engine.clock import VirtualTimeLoop
from quorate.workload.nodes import CONTROL_PLANE

T = TypeVar("T")


def pytest_asyncio_loop_factories(config: pytest.Config, item: pytest.Item) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:  # noqa: ARG001
    return {"virtual": VirtualTimeLoop} if item.path.name == "test_connection.py" else {"real": asyncio.new_event_loop}


def make_node(name: str, *, version: str = "1", provider_id: str = "", labelled: bool = True) -> Node:
    labels = {CONTROL_PLANE: ""} if labelled else {}
    metadata = ObjectMeta(name=name, uid=f"uid-{name}", resource_version=version, labels=labels)
    return Node(metadata=metadata, spec=NodeSpec(provider_id=provider_id))


def make_pod(name: str, *, version: str = "1", phase: str = "Running", tier: str = "control-plane") -> Pod:
    metadata = ObjectMeta(name=name, namespace="kube-system", uid=f"uid-{name}", resource_version=version, labels={"tier": tier})
    return Pod(metadata=metadata, status=PodStatus(phase=phase))


@dataclass
class FakeCluster:
    """A workload cluster behind every client made for it. What is set in `trouble` by "probe", "list", "watch" or "get" is raised there; "hang" waits."""

    objects: dict[str, list[Any]] = field(default_factory=lambda: {"nodes": [], "pods": [], "configmaps": []})
    trouble: dict[str, Exception] = field(default_factory=dict)
    hang: set[str] = field(default_factory=set)
    probes: list[float] = field(default_factory=list)
    watches: dict[str, asyncio.Queue[Any]] = field(default_factory=dict)
    clients: list[FakeClient] = field(default_factory=list)
    configs: list[RestConfig] = field(default_factory=list)
    shares: list[Share] = field(default_factory=list)
    getting: int = 0

    def connect(self, config: RestConfig, share: Share) -> FakeClient:
        self.configs.append(config)
        self.shares.append(share)
        self.clients.append(FakeClient(self))
        return self.clients[-1]

    async def meet(self, what: str) -> None:
        if what in self.hang:
            await asyncio.Event().wait()
        if what in self.trouble:
            raise self.trouble[what]

    def send(self, plural: str, type_: str, obj: Any) -> None:
        self.watches[plural].put_nowait(WatchEvent(type_, obj))

    def break_watch(self, plural: str, error: BaseException) -> None:
        self.watches[plural].put_nowait(error)


@dataclass
class FakeClient:
    """A client of the fake cluster."""

    cluster: FakeCluster
    closed: int = 0

    async def get(self, resource: Resource[T], name: str, namespace: str = "") -> T:
        self.cluster.getting += 1
        try:
            await self.cluster.meet("get")
        finally:
            self.cluster.getting -= 1
        for obj in self.cluster.objects[resource.plural]:
            if (obj.metadata.namespace, obj.metadata.name) == (namespace, name):
                return obj  # type: ignore[no-any-return]
        raise NotFound(f"get {resource.plural} {name}: not found", code=404)

    async def list(
        self,
        resource: Resource[T],
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 500,
        keep: Callable[[T], T | None] = lambda item: item,
    ) -> Listing[T]:
        assert (namespace, label_selector, field_selector, limit) in (
            ("", CONTROL_PLANE, "", 500),
            ("kube-system", "tier=control-plane", "", 500),
        )
        await self.cluster.meet("list")
        return Listing([kept for item in self.cluster.objects[resource.plural] if (kept := keep(item)) is not None], "10")

    async def watch(self, resource: Resource[T], namespace: str = "", **options: Any) -> AsyncGenerator[WatchEvent[T], None]:  # noqa: ARG002
        queue = self.cluster.watches[resource.plural] = asyncio.Queue()
        await asyncio.sleep(0.01)
        await self.cluster.meet("watch")
        while True:
            event = await queue.get()
            if isinstance(event, BaseException):
                raise event
            yield event

    async def get_raw(self, path: str) -> bytes:
        assert path == "/"
        self.cluster.probes.append(asyncio.get_running_loop().time())
        await self.cluster.meet("probe")
        return b"{}"

    async def close(self) -> None:
        self.closed += 1


@pytest.fixture
def cluster() -> FakeCluster:
    fake = FakeCluster()
    fake.objects["nodes"] = [make_node("cp-a", provider_id="x://a"), make_node("worker", labelled=False)]
    fake.objects["pods"] = [make_pod("kube-apiserver-cp-a"), make_pod("coredns-1", tier="")]
    return fake


@pytest.fixture
def kubeadm_config() -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name="kubeadm-config", namespace="kube-system"))


@pytest.fixture
def node_of() -> Callable[..., Node]:
    return make_node


@pytest.fixture
def pod_of() -> Callable[..., Pod]:
    return make_pod
