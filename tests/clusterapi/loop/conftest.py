"""A small world for the hands: a management API in memory, and a workload cluster that is a few lists. Both write what is done to them into one log."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator, Callable, Collection, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from random import Random
from typing import Any, cast

import msgspec
import pytest

from quorate.clusterapi.act.step import Actor
from quorate.clusterapi.connect.caches import Caches
from quorate.clusterapi.connect.clients import Clients
from quorate.clusterapi.connect.progress import Task
from quorate.clusterapi.connect.workloads import ClusterSecrets
from quorate.clusterapi.desired import objects as desired
from quorate.clusterapi.desired import remediation_record
from quorate.clusterapi.extensions.asking import Extensions
from quorate.clusterapi.extensions.registry import HOOKS_VERSION, Handler
from quorate.clusterapi.observe import wanted
from quorate.clusterapi.observe.observation import Observation
from quorate.clusterapi.observe.observer import Observer
from quorate.clusterapi.observe.rings import Rings
from quorate.clusterapi.observe.updates import ByExtensions
from quorate.clusterapi.types.cluster import Cluster
from quorate.clusterapi.types.kubeadm_control_plane import KubeadmControlPlane
from quorate.clusterapi.types.names import Annotation, Finalizer, Hook, Label
from quorate.clusterapi.types.references import ObjectReference
from quorate.clusterapi.types.resources import KUBEADM_CONTROL_PLANES
from quorate.core.health import Absent, Health, Unknown
from quorate.core.machines.steps import EnsureCertificates, WriteKubeconfig
from quorate.core.ring import Member, Ring
from quorate.etcd.client import Alarm
from quorate.kubernetes.controller import Request
from quorate.kubernetes.expectations import Expectations
from quorate.kubernetes.objects import Node, Pod
from quorate.kubernetes.resource import CRDS
from quorate.simulation.engine.patches import merge_patch
from quorate.workload.connection import Connectivity, Phase
from quorate.workload.membership import RingReading
from quorate.workload.nodes import is_control_plane
from quorate.workload.static_pods import Component

from .management import NAMESPACE, FakeApi, Json, fill

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
INFRASTRUCTURE = "infrastructure.cluster.x-k8s.io"
DEMO = Request(NAMESPACE, "demo")
INFRA_GROUP_VERSION = f"{INFRASTRUCTURE}/v1beta2"


@dataclass
class FakeEtcd:
    """The member on one node."""

    workload: FakeWorkload
    node: str

    async def move_leader(self, target_id: int) -> None:
        self._do(f"move_leader to {target_id} through {self.node}", "move_leader")
        self.workload.leader = target_id
        self.workload.after_move()

    async def remove_member(self, member_id: int) -> None:
        self._do(f"remove_member {member_id} through {self.node}", "remove_member")
        del self.workload.members[member_id]
        self.workload.after_removal()

    def _do(self, what: str, operation: str) -> None:
        if error := self.workload.trouble.get((operation, self.node)):
            self.workload.after_trouble()
            raise error
        self.workload.log.append(what)


@dataclass
class FakeWorkloadApi(FakeApi):
    """The workload cluster's API."""

    etcd_trouble: Exception | None = None

    async def get_raw(self, path: str) -> bytes:
        """`/readyz/etcd`, by which an external etcd is judged."""
        assert path == "/readyz/etcd"
        if self.etcd_trouble:
            raise self.etcd_trouble
        return b"ok"


@dataclass
class FakeWorkload:
    """The workload cluster."""

    log: list[str]
    api: FakeWorkloadApi = field(default_factory=lambda: FakeWorkloadApi([]))
    cluster: str = f"{NAMESPACE}/demo"
    node_list: list[Node] = field(default_factory=list)
    pods: dict[str, Pod] = field(default_factory=dict)
    members: dict[int, Member] = field(default_factory=dict)
    answers: dict[str, int] = field(default_factory=dict)
    leader: int = 1
    kubeadm_config: bool | Unknown = False
    connectivity: Connectivity = field(default_factory=lambda: Connectivity(Phase.CONNECTED, NOON, last_success=NOON))
    ring_problem: str = ""
    disagreement: str = ""
    alarms: tuple[Alarm, ...] = ()
    before_read: Callable[[], None] = lambda: None
    after_move: Callable[[], None] = lambda: None
    after_removal: Callable[[], None] = lambda: None
    after_trouble: Callable[[], None] = lambda: None
    trouble: dict[tuple[str, str], Exception] = field(default_factory=dict)
    expected: frozenset[str] = frozenset()
    unread: set[str] = field(default_factory=set)  # Nodes that cannot be asked for by name
    named: list[str] = field(default_factory=list)  # Nodes that were asked for by name, and are not listed
    asked: tuple[str, ...] = ()  # the Nodes whose members were asked last

    @property
    def client(self) -> object:
        return self.api if self.connectivity.phase is Phase.CONNECTED else Unknown("not connected")

    def expect_soon(self, machines: Iterable[str]) -> None:
        self.expected = frozenset(machines)

    def nodes(self) -> tuple[Node, ...] | Unknown:
        if self.connectivity.phase is not Phase.CONNECTED:
            return Unknown(f"the workload cluster is not connected: {self.connectivity.reason}")
        return tuple(node for node in self.node_list if is_control_plane(node))

    def running(self, component: Component) -> frozenset[str] | Unknown:
        if self.connectivity.phase is not Phase.CONNECTED:
            return Unknown(f"the workload cluster is not connected: {self.connectivity.reason}")
        prefix = component.pod_name("")
        return frozenset(name.removeprefix(prefix) for name in self.pods if name.startswith(prefix))

    async def node(self, name: str) -> Node | Absent | Unknown:
        if name not in {node.metadata.name for node in self.node_list if is_control_plane(node)}:
            self.named.append(name)
        if name in self.unread:
            return Unknown("no answer in time")
        return next((node for node in self.node_list if node.metadata.name == name), Absent())

    def pod(self, component: Component, node: str) -> Pod | Absent:
        return self.pods.get(component.pod_name(node)) or Absent()

    async def kubeadm_config_exists(self) -> bool | Unknown:
        return self.kubeadm_config

    async def read_ring(self, nodes: Iterable[str]) -> RingReading | Unknown:
        self.before_read()
        self.asked = tuple(nodes)
        if self.ring_problem:
            return Unknown(self.ring_problem)
        through = next(iter(self.asked), "")
        ring = Ring(tuple(self.members.values()), self.leader)
        return RingReading(ring, 1, self.alarms, dict(self.answers), through, NOON, self.disagreement)

    @asynccontextmanager
    async def etcd(self, node: str) -> AsyncIterator[FakeEtcd]:
        yield FakeEtcd(self, node)


@dataclass
class FakeWorkloads:
    """The connections: one."""

    workload: FakeWorkload
    find: Callable[[str, str], ClusterSecrets]

    def begin(self, cluster: Cluster, on_change: Callable[[], None]) -> FakeWorkload:  # noqa: ARG002
        return self.workload

    def existing(self, cluster: Cluster) -> FakeWorkload:  # noqa: ARG002
        return self.workload

    def secrets(self, namespace: str, cluster: str) -> ClusterSecrets:
        return self.find(namespace, cluster)

    def end_unclaimed(self) -> list[str]:
        return []


@dataclass
class FakeExtension:
    """An extension that can make everything of what there is, but for the objects in `leaves`."""

    log: list[str]
    asked: list[Json] = field(default_factory=list)
    leaves: set[str] = field(default_factory=set)  # machine, infrastructureMachine, bootstrapConfig
    failure: str = ""  # what it says when it fails
    trouble: Exception | None = None  # raised instead of an answer
    before_answer: Callable[[], None] = lambda: None

    async def call(self, handler: Handler, body: bytes) -> bytes:
        request: Json = msgspec.json.decode(body)
        self.log.append(f"ask {handler.name} about {request['current']['machine']['metadata']['name']}")
        self.asked.append(request)
        self.before_answer()
        if self.trouble:
            raise self.trouble
        if self.failure:
            return msgspec.json.encode({"status": "Failure", "message": self.failure})
        patches = {f"{name}Patch": self._patch(request, name) for name in ("machine", "infrastructureMachine", "bootstrapConfig")}
        return msgspec.json.encode({"status": "Success", **{name: patch for name, patch in patches.items() if patch}})

    def _patch(self, request: Json, name: str) -> Json | None:
        operations = [{"op": "replace", "path": "/spec", "value": request["desired"][name]["spec"]}]
        return None if name in self.leaves else {"patchType": "JSONPatch", "patch": msgspec.json.encode(operations)}


class Queue:
    """Where changes go."""

    def __init__(self) -> None:
        self.keys: list[Request] = []

    def add(self, key: Request, *, priority: int = 0) -> None:  # noqa: ARG002
        self.keys.append(key)


class World:
    """Everything around the hands. `sync` is the only time at which the caches learn anything. `watch_filter` is as in `Caches`; `in_place`: with the feature
    gate InPlaceUpdates on, and an extension that can do everything.
    """

    def __init__(self, watch_filter: str = "", *, in_place: bool = False) -> None:
        self.log: list[str] = []
        self.now = NOON
        self.leads = True
        self.api, self.workload, self.queue = FakeApi(self.log), FakeWorkload(self.log), Queue()
        client = cast("Any", self.api)
        self.caches = Caches(client, self.queue, Random(1), watch_filter=watch_filter, in_place_updates=in_place)
        self.workloads = FakeWorkloads(self.workload, lambda namespace, cluster: ClusterSecrets(self.caches, client, namespace, cluster))
        self.clients = Clients(client, self.caches, cast("Any", self.workloads), Expectations(self.queue.add), leads=lambda: self.leads)
        self.rings = Rings(lambda: 0.0)
        self.extension = FakeExtension(self.log)
        extensions = Extensions(self.clients, self.extension) if in_place else None
        updates = ByExtensions(extensions) if extensions else None
        self.observer = Observer(self.clients, lambda: self.now, self.queue.add, self.rings, updates=updates)
        self.actor = Actor(self.clients, Random(7), lambda: self.now, extensions)

    async def set_up(self) -> None:
        for kind in ("DevMachineTemplate", "DevMachine"):
            name = f"{kind.lower()}s.{INFRASTRUCTURE}"
            definition = {
                "metadata": {"name": name, "namespace": "", "labels": {Label.CONTRACT: "v1beta1_v1beta2"}},
                "spec": {"names": {"kind": kind}},
            }
            self.api.put(CRDS.plural, definition)
        self.api.put(
            "clusters",
            {
                "metadata": {"name": "demo", "uid": "cluster-uid"},
                "spec": {"controlPlaneEndpoint": {"host": "10.0.0.1", "port": 6443}},
                "status": {"initialization": {"infrastructureProvisioned": True}},
            },
        )
        template = {"metadata": {"labels": {"from": "template"}, "annotations": {"note": "x"}}, "spec": {"size": 4}}
        identity = {"apiVersion": INFRA_GROUP_VERSION, "kind": "DevMachineTemplate"}
        self.api.put("devmachinetemplates", {**identity, "metadata": {"name": "small"}, "spec": {"template": template}})
        self.api.put("kubeadmcontrolplanes", kubeadm_control_plane())
        await self.sync()

    async def sync(self, *, but: Collection[str] = ()) -> None:
        """The caches see everything but the objects of these kinds, whose watches are behind."""
        await fill(self.caches, self.api, INFRASTRUCTURE, but=but)

    def backup(self) -> Callable[[], None]:
        """A backup of the management cluster as it is now, which the call restores."""
        objects, version = copy.deepcopy(self.api.objects), self.api.version

        def restore() -> None:
            self.api.objects, self.api.version = copy.deepcopy(objects), version

        return restore

    async def observe(self) -> Observation:
        """A fresh observation of what the caches have."""
        self.rings.forget(self.workload.cluster)
        observation = await self.observer.observe(DEMO)
        assert observation is not None
        return observation

    async def look(self) -> Observation:
        """What is there now, caches and all."""
        await self.sync()
        return await self.observe()

    @property
    def kcp(self) -> KubeadmControlPlane:
        return msgspec.convert(self.api.raw("kubeadmcontrolplanes", "demo"), KubeadmControlPlane)

    def add_machine(self, name: str, *, member: int | None = None, node: bool = True, metadata: Json | None = None, **parts: Any) -> Json:
        """A Machine with its companions, and, unless told otherwise, a Node; `member` is the id of its etcd member."""
        kcp = self.kcp
        expiry = {"metadata": {"annotations": {Annotation.CERTIFICATES_EXPIRY: "2027-01-01T00:00:00Z"}}}
        config = self.api.put("kubeadmconfigs", merge_patch(desired.config(kcp, name, initialize=False), expiry))
        kind = {"apiVersion": INFRA_GROUP_VERSION, "kind": "DevMachine"}
        infrastructure = {**kind, "metadata": {"name": name}, "spec": {"providerID": f"test:///{name}"}}
        self.api.put("devmachines", merge_patch(infrastructure, {"metadata": {"labels": {Label.CLUSTER_NAME: "demo"}}}))
        self.api.change("kubeadmconfigs", config["metadata"]["name"], {"metadata": {"labels": desired.machine_labels(kcp, "demo")}})
        body = desired.new_machine(
            kcp,
            "demo",
            name,
            failure_domain="",
            config=ObjectReference(api_group="bootstrap.cluster.x-k8s.io", kind="KubeadmConfig", name=name),
            infrastructure=ObjectReference(api_group=INFRASTRUCTURE, kind="DevMachine", name=name),
        )
        made = self.api.put(
            "machines", merge_patch(merge_patch(body, {"metadata": {"finalizers": ["machine"], **(metadata or {})}}), parts)
        )
        if node:
            self.add_node(name)
        if member is not None:
            self.workload.members[member] = Member(member, name, Health.GOOD, peer_urls=(f"https://{name}.test:2380",))
        return made

    def add_node(self, name: str, *, provider_id: str | None = None, addresses: Iterable[str] = ()) -> Node:
        raw = {
            "metadata": {
                "name": name,
                "uid": f"node-{name}",
                "creationTimestamp": "2026-01-01T11:30:00Z",
                "labels": {"node-role.kubernetes.io/control-plane": ""},
            },
            "spec": {
                "providerID": f"test:///{name}" if provider_id is None else provider_id,
                "taints": [{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}],
            },
            "status": {
                "conditions": [{"type": "Ready", "status": "True"}],
                "addresses": [{"type": "InternalIP", "address": address} for address in addresses],
            },
        }
        node = msgspec.convert(raw, Node)
        self.workload.node_list.append(node)
        ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        for component in Component:
            pod = {"metadata": {"name": component.pod_name(name), "namespace": "kube-system"}, "status": ready}
            self.workload.pods[component.pod_name(name)] = msgspec.convert(pod, Pod)
        return node

    def delete_machine(self, name: str, *, at_hook: bool = True) -> None:
        """A Machine is being deleted and waits at our hook."""
        waiting = {"type": "Deleting", "status": "True", "reason": "WaitingForPreTerminateHook"}
        patch = {"metadata": {"deletionTimestamp": "2026-01-01T11:50:00Z"}} | ({"status": {"conditions": [waiting]}} if at_hook else {})
        self.api.change("machines", name, patch)

    def lose(self, member: int, health: Health = Health.BAD) -> None:
        """A member falls ill."""
        self.workload.members[member] = replace(self.workload.members[member], health=health)

    async def keep_up(self) -> None:
        """What follows the specification in the workload cluster was brought up to date, as far as this process knows."""
        kcp = (await self.look()).kcp
        self.clients.progress.succeeded(DEMO, Task.PREPARATION, wanted.preparation_wanted(kcp))
        self.clients.progress.succeeded(DEMO, Task.ADDONS, wanted.addons_wanted(kcp))

    def remediating(self) -> dict[str, str]:
        """The records of a remediation on the control plane."""
        keys = (remediation_record.INTENT, Annotation.REMEDIATION_IN_PROGRESS)
        return {key: value for key, value in self.annotations("kubeadmcontrolplanes", "demo").items() if key in keys}

    def fail(self, name: str) -> None:
        """A health check fails a Machine and leaves it to its owner."""
        failed = [{"type": kind, "status": "False"} for kind in ("HealthCheckSucceeded", "OwnerRemediated")]
        self.api.change("machines", name, {"status": {"conditions": failed}})

    def annotations(self, plural: str, name: str) -> Json:
        found: Json = self.api.raw(plural, name)["metadata"].get("annotations", {})
        return found

    def holds_hook(self, name: str) -> bool:
        return Hook.PRE_TERMINATE in self.annotations("machines", name)


def kubeadm_control_plane() -> Json:
    reference = {"apiGroup": INFRASTRUCTURE, "kind": "DevMachineTemplate", "name": "small"}
    cluster = {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": "demo", "uid": "cluster-uid"}
    return {
        "apiVersion": KUBEADM_CONTROL_PLANES.api_version,
        "kind": "KubeadmControlPlane",
        "metadata": {
            "name": "demo",
            "uid": "kcp-uid",
            "finalizers": [Finalizer.KUBEADM_CONTROL_PLANE],
            "annotations": {},
            "ownerReferences": [cluster],
        },
        "spec": {
            "replicas": 3,
            "version": "v1.34.4",
            "machineTemplate": {
                "metadata": {"labels": {"team": "a"}, "annotations": {"cost": "b"}},
                "spec": {"infrastructureRef": reference},
            },
            "kubeadmConfigSpec": {"clusterConfiguration": {"encryptionAlgorithm": "ECDSA-P256"}},
            "rollout": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}},
        },
    }


@pytest.fixture
async def empty() -> World:
    """A Cluster and a control plane without Machines."""
    world = World()
    await world.set_up()
    return world


@pytest.fixture
async def three(empty: World) -> World:
    """An initialized control plane of three, all well; member 1 leads."""
    return await _filled(empty)


@pytest.fixture
async def updatable() -> World:
    """The same with the feature gate InPlaceUpdates on, and an extension for the namespace."""
    world = World(in_place=True)
    await world.set_up()
    world.api.put("namespaces", {"metadata": {"name": NAMESPACE, "namespace": ""}})
    handlers = [
        {"name": f"{hook.lower()}.ext", "requestHook": {"apiVersion": HOOKS_VERSION, "hook": hook}}
        for hook in ("CanUpdateMachine", "UpdateMachine")
    ]
    client = {"url": "https://ext.test", "caBundle": "Y2E="}
    discovered = {"type": "Discovered", "status": "True", "observedGeneration": 1}
    world.api.put(
        "extensionconfigs",
        {
            "metadata": {"name": "ext", "namespace": ""},
            "spec": {"clientConfig": client, "namespaceSelector": {}},
            "status": {"handlers": handlers, "conditions": [discovered]},
        },
    )
    return await _filled(world)


async def _filled(empty: World) -> World:
    await empty.actor.perform(EnsureCertificates(("ca", "sa", "proxy", "etcd")), await empty.look())
    await empty.actor.perform(WriteKubeconfig(rotate=False), await empty.look())
    for number in (1, 2, 3):
        empty.add_machine(f"cp-{number}", member=number)
    empty.workload.kubeadm_config = True
    empty.api.change("kubeadmcontrolplanes", "demo", {"status": {"initialization": {"controlPlaneInitialized": True}}})
    await empty.keep_up()
    empty.log.clear()
    empty.api.bodies.clear()
    empty.api.writes = 0
    return empty
