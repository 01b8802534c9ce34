"""What follows the specification in the workload cluster: looked at once for each wish, tried again after a pause, and never in the way of anything else."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
import structlog

from quorate.clusterapi.act import addons
from quorate.clusterapi.act.addons import PERSISTENCE
from quorate.clusterapi.act.refusal import Refused
from quorate.clusterapi.connect.clients import Clients
from quorate.clusterapi.connect.progress import FIRST_RETRY, LONGEST_RETRY, Progress, Task
from quorate.clusterapi.observe import wanted
from quorate.clusterapi.observe.observation import Connection, Observation, ObservedMachine
from quorate.clusterapi.types.cluster import Cluster
from quorate.clusterapi.types.kubeadm_config import KubeadmConfig
from quorate.clusterapi.types.kubeadm_control_plane import KubeadmControlPlane
from quorate.clusterapi.types.machine import Machine
from quorate.clusterapi.types.names import Annotation, Hook
from quorate.core.health import Absent, Finding, Health, Unknown
from quorate.core.machines.state import ControlPlane, Desired, Replica
from quorate.core.maintenance import Maintenance
from quorate.core.versions import Version
from quorate.kubernetes.controller import Request
from quorate.kubernetes.errors import ConnectionFailed, NotFound, ServerError
from quorate.kubernetes.expectations import Expectations
from quorate.kubernetes.objects import Node, ObjectMeta
from quorate.workload.updates import CannotUpdate
from tests.workload.cluster_api import ClusterApi, Json, config_map
from tests.workload.test_coredns_pods import pod

from .management import FakeApi

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
EXPIRY = datetime(2027, 1, 2, 3, 4, 5, tzinfo=UTC)
DEMO = Request("default", "demo")
KUBEADM = "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\nkubernetesVersion: v1.34.4\n"


def _kcp(version: str = "v1.35.4", annotations: dict[str, str] | None = None, uid: str = "u", **cluster: Any) -> KubeadmControlPlane:
    body = {
        "metadata": {"name": "demo", "namespace": "default", "uid": uid, "annotations": annotations or {}},
        "spec": {
            "version": version,
            "replicas": 3,
            "kubeadmConfigSpec": {"clusterConfiguration": cluster},
            "machineTemplate": {"spec": {"infrastructureRef": {"apiGroup": "x", "kind": "T", "name": "t"}}},
        },
    }
    return msgspec.convert(body, KubeadmControlPlane)


def _template(name: str, image: str) -> Json:
    return {
        "metadata": {"name": name, "namespace": "kube-system"},
        "spec": {"template": {"spec": {"containers": [{"name": name, "image": image}]}}},
    }


@dataclass
class World:
    """Both APIs, and the way to the API servers."""

    management: FakeApi = field(default_factory=lambda: FakeApi([]))
    workload: ClusterApi = field(default_factory=ClusterApi)
    connected: bool = True
    certificates: dict[str, Exception] = field(default_factory=dict)  # what goes wrong with the API server of a node
    asked: list[tuple[str, int]] = field(default_factory=list)
    together: asyncio.Barrier | None = None  # at which all that are asked wait for each other
    progress: Progress = field(default_factory=Progress)
    refused: str = ""  # why nothing may be written any more

    @property
    def clients(self) -> Clients:
        client = self.workload if self.connected else Unknown("the workload cluster is not connected")
        connection = SimpleNamespace(client=client, certificate_expiry=self.certificate_expiry)
        workloads = SimpleNamespace(existing=lambda *_: connection)
        caches = SimpleNamespace(configs=SimpleNamespace(resource_version="1", reflects=lambda _: True))
        expectations = SimpleNamespace(expect_version=lambda *_: None)
        return Clients(
            cast("Any", self.management),
            cast("Any", caches),
            cast("Any", workloads),
            cast("Expectations[Request]", expectations),
            self.progress,
        )

    async def certificate_expiry(self, node: str, port: int) -> datetime:
        self.asked.append((node, port))
        if self.together is not None:
            await self.together.wait()
        if error := self.certificates.get(node):
            raise error
        return EXPIRY

    def set_up(self) -> None:
        self.workload.put("configmaps", config_map("kubeadm-config", {"ClusterConfiguration": KUBEADM}))
        self.workload.put("configmaps", config_map("coredns", {"Corefile": ". {\n}\n"}))
        self.workload.put("deployments", _template("coredns", "registry.k8s.io/coredns/coredns:v1.12.1"))
        self.workload.put("daemonsets", _template("kube-proxy", "registry.k8s.io/kube-proxy:v1.34.4"))

    def image(self, plural: str, name: str) -> str:
        image: str = self.workload.objects[plural, name]["spec"]["template"]["spec"]["containers"][0]["image"]
        return image


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    world = World()
    world.set_up()

    async def permitted(*_: object) -> None:
        if world.refused:
            raise Refused(world.refused)

    monkeypatch.setattr(addons, "still_asked_for", permitted)  # which is asked of the management cluster, and tested there
    return world


def _machine(name: str) -> ObservedMachine:
    config = {
        "metadata": {"name": name, "namespace": "default", "uid": f"c-{name}"},
        "spec": {"initConfiguration": {"localAPIEndpoint": {"bindPort": 7443}}},
    }
    body = {"metadata": {"name": name, "namespace": "default"}, "spec": {"clusterName": "demo", "bootstrap": {}}}
    node = Node(metadata=ObjectMeta(name=f"node-{name}"))
    return ObservedMachine(msgspec.convert(body, Machine), msgspec.convert(config, KubeadmConfig), node=node)


def _observation(kcp: KubeadmControlPlane, *unrecorded: str) -> Observation:
    cluster = msgspec.convert({"metadata": {"name": "demo", "namespace": "default"}, "spec": {}}, Cluster)
    replicas = tuple(Replica(name, "v1.35.4", NOON, Absent(), expiry_known=False) for name in unrecorded)
    view = ControlPlane(
        "demo", Desired(3, Version.parse(kcp.spec.version)), replicas, Unknown(""), initialized=True, workload=Finding(Health.GOOD, "")
    )
    return Observation(
        kcp, cluster, tuple(map(_machine, unrecorded)), Connection(Health.GOOD, ""), Unknown(""), initialized=True, view=view
    )


# Preparation.


async def test_the_workload_is_prepared_once_for_a_specification_and_again_for_the_next(world: World) -> None:
    kcp = _kcp()
    assert wanted.preparation(world.clients, kcp) == Maintenance(pending=True)
    await addons.prepare(world.clients, _observation(kcp), NOON)
    bindings = [f"create clusterrolebindings kubeadm:{name}" for name in ("cluster-admins", "apiserver-kubelet-client")]
    assert world.workload.written == [*bindings, "patch configmaps kubeadm-config"]
    assert wanted.preparation(world.clients, kcp) == Maintenance()
    assert wanted.preparation(world.clients, _kcp("v1.35.5")).pending
    assert wanted.preparation(world.clients, _kcp(imageRepository="x")).pending


async def test_nothing_is_written_for_a_specification_that_is_not_asked_for_any_more(world: World) -> None:
    """Another process has done what is asked for by now, and remembers that it has."""
    world.refused = "KubeadmControlPlane default/demo was changed after this was decided"
    kcp = _kcp()
    for bring in (addons.prepare, addons.update):
        with pytest.raises(Refused, match="was changed after this was decided"):
            await bring(world.clients, _observation(kcp), NOON)
    assert world.workload.written == []
    assert wanted.preparation(world.clients, kcp).pending


async def test_after_a_start_it_is_read_once_more_and_not_written(world: World) -> None:
    await addons.prepare(world.clients, _observation(_kcp()), NOON)
    await addons.update(world.clients, _observation(_kcp()), NOON)
    writes = list(world.workload.written)
    world.progress = Progress()
    assert wanted.preparation(world.clients, _kcp()).pending
    assert wanted.addons(world.clients, _kcp()).pending
    await addons.prepare(world.clients, _observation(_kcp()), NOON)
    await addons.update(world.clients, _observation(_kcp()), NOON)
    assert world.workload.written == writes
    assert wanted.preparation(world.clients, _kcp()) == wanted.addons(world.clients, _kcp()) == Maintenance()


async def test_a_control_plane_of_the_same_name_that_came_later_is_another_one(world: World) -> None:
    await addons.prepare(world.clients, _observation(_kcp()), NOON)
    assert wanted.preparation(world.clients, _kcp(uid="later")).pending


async def test_a_failure_is_kept_with_its_next_attempt_and_not_raised(world: World) -> None:
    world.workload.trouble["configmaps"] = ServerError("get configmaps: broken")
    await addons.prepare(world.clients, _observation(_kcp()), NOON)
    assert wanted.preparation(world.clients, _kcp()) == Maintenance(True, "get configmaps: broken", NOON + timedelta(seconds=5))
    await addons.prepare(world.clients, _observation(_kcp()), NOON)
    assert wanted.preparation(world.clients, _kcp()).retry_at == NOON + timedelta(seconds=10)
    world.workload.trouble.clear()
    await addons.prepare(world.clients, _observation(_kcp()), NOON)
    assert wanted.preparation(world.clients, _kcp()) == Maintenance()


async def test_a_changed_specification_is_tried_at_once(world: World) -> None:
    world.workload.trouble["configmaps"] = ServerError("broken")
    await addons.prepare(world.clients, _observation(_kcp()), NOON)
    assert wanted.preparation(world.clients, _kcp("v1.35.5")) == Maintenance(pending=True)


async def test_without_a_connection_there_is_a_problem_and_no_attempt(world: World) -> None:
    world.connected = False
    await addons.prepare(world.clients, _observation(_kcp()), NOON)
    assert wanted.preparation(world.clients, _kcp()).problem == "the workload cluster is not connected"
    assert not world.workload.written


# kube-proxy and CoreDNS.


async def test_kube_proxy_and_coredns_follow(world: World) -> None:
    kcp = _kcp(imageRepository="example.org", dns={"imageTag": "v1.13.1"})
    await addons.update(world.clients, _observation(kcp), NOON)
    assert world.image("daemonsets", "kube-proxy") == "example.org/kube-proxy:v1.35.4"
    assert world.image("deployments", "coredns") == "example.org/coredns:v1.13.1"
    assert wanted.addons(world.clients, kcp) == Maintenance()


@pytest.mark.parametrize(
    ("annotation", "kube_proxy", "coredns"),
    [
        (Annotation.SKIP_KUBE_PROXY, "registry.k8s.io/kube-proxy:v1.34.4", "registry.k8s.io/coredns/coredns:v1.13.1"),
        (Annotation.SKIP_COREDNS, "registry.k8s.io/kube-proxy:v1.35.4", "registry.k8s.io/coredns/coredns:v1.12.1"),
    ],
)
async def test_an_annotation_keeps_us_off_one_of_them(world: World, annotation: str, kube_proxy: str, coredns: str) -> None:
    kcp = _kcp(annotations={annotation: ""}, dns={"imageTag": "v1.13.1"})
    await addons.update(world.clients, _observation(kcp), NOON)
    assert world.image("daemonsets", "kube-proxy") == kube_proxy
    assert world.image("deployments", "coredns") == coredns
    assert wanted.addons(world.clients, _kcp(dns={"imageTag": "v1.13.1"})).pending


async def test_without_a_cluster_configuration_coredns_is_left_alone(world: World) -> None:
    await addons.update(world.clients, _observation(_kcp()), NOON)
    assert world.image("deployments", "coredns") == "registry.k8s.io/coredns/coredns:v1.12.1"


async def test_neither_waits_for_the_other_and_the_problem_names_which(world: World) -> None:
    kcp = _kcp(dns={"imageTag": "v1.9.4"})
    await addons.update(world.clients, _observation(kcp), NOON)
    assert world.image("daemonsets", "kube-proxy") == "registry.k8s.io/kube-proxy:v1.35.4"
    known = wanted.addons(world.clients, kcp)
    assert known.problem.startswith("CoreDNS: CoreDNS cannot go back from v1.12.1 to v1.9.4")
    assert known.retry_at == NOON + FIRST_RETRY


async def test_labels_and_replicas_are_no_reason_to_look_at_add_ons_again(world: World) -> None:
    await addons.update(world.clients, _observation(_kcp(dns={"imageTag": "v1.13.1"})), NOON)
    assert not wanted.addons(world.clients, _kcp(dns={"imageTag": "v1.13.1"}, apiServer={"certSANs": ["a"]})).pending


# CoreDNS on the Node of the Machine that goes next.


def _leaver(**annotations: str) -> Machine:
    made = NOON - timedelta(hours=1)
    metadata = ObjectMeta(name="cp-1", namespace="default", uid="m-1", annotations=annotations, creation_timestamp=made)
    return msgspec.structs.replace(_machine("cp-1").machine, metadata=metadata)


async def _move_coredns(world: World, now: datetime = NOON) -> Maintenance:
    """Two Pods run elsewhere, and those that a test has put on the Node of cp-1; the newest Machine was made at noon. Says what is then left to do."""
    for elsewhere in ("dns-8", "dns-9"):
        world.workload.put("pods", pod(elsewhere, "node-cp-2"))
    world.workload.objects["deployments", "coredns"]["spec"]["replicas"] = 2
    seen = _observation(_kcp(), "cp-1", "cp-2")
    newest = replace(
        seen.machines[1],
        machine=msgspec.structs.replace(_machine("cp-2").machine, metadata=ObjectMeta(name="cp-2", creation_timestamp=NOON)),
    )
    leaver = replace(seen.machines[0], machine=_leaver())
    await addons.move_coredns(world.clients, replace(seen, machines=(leaver, newest)), "cp-1", now)
    return wanted.coredns(world.clients, _kcp(), leaver.machine)


@pytest.fixture
def dns(world: World) -> World:
    """A world in which one Pod of CoreDNS runs on the Node of cp-1."""
    world.workload.put("pods", pod("dns-1", "node-cp-1"))
    return world


async def test_coredns_is_moved_off_a_node_and_looked_for_once_more(dns: World) -> None:
    with structlog.testing.capture_logs() as told:
        left = await _move_coredns(dns)
    assert (left.pending, left.retry_at) == (True, NOON + FIRST_RETRY)
    assert left.problem.startswith("one of 1 Pods of CoreDNS on Node node-cp-1 was evicted")
    assert not told, "nothing has failed"
    assert await _move_coredns(dns, NOON + FIRST_RETRY) == Maintenance()
    assert dns.workload.written == ["evict dns-1"]


async def test_while_a_machine_joins_coredns_is_looked_at_every_ten_seconds_and_later_more_and_more_rarely(dns: World) -> None:
    looked, pauses = NOON, []
    while looked < NOON + PERSISTENCE * 2:
        dns.workload.put("pods", pod("dns-1", "node-cp-1"))  # it is always there again
        again = (await _move_coredns(dns, looked)).retry_at
        assert again is not None
        pauses.append((again - looked).total_seconds())
        looked = again
    assert pauses == [5] + [10] * 12 + [300]


async def test_coredns_that_came_back_is_moved_again_but_not_for_ever(dns: World) -> None:
    dns.workload.put("pods", pod("dns-2", "node-cp-1", minutes=-1))  # made a minute after noon
    assert (await _move_coredns(dns, NOON + timedelta(seconds=90))).problem.startswith("one of 2")
    assert (await _move_coredns(dns, NOON + timedelta(seconds=100))).problem.startswith("one of 1")
    assert dns.workload.written == ["evict dns-1", "evict dns-2"]
    dns.workload.put("pods", pod("dns-3", "node-cp-1", minutes=-2))
    assert await _move_coredns(dns, NOON + PERSISTENCE) == Maintenance()
    assert dns.workload.written == ["evict dns-1", "evict dns-2"]


async def test_coredns_is_left_to_the_drain_where_there_are_rules_for_that(dns: World) -> None:
    dns.management.put("machinedrainrules", {"metadata": {"name": "dns-last"}})
    assert await _move_coredns(dns) == Maintenance()
    assert not dns.workload.written


async def test_a_core_without_drain_rules_has_none(dns: World) -> None:
    dns.management.trouble["list", "machinedrainrules"] = NotFound("the server could not find the requested resource")
    await _move_coredns(dns)
    assert dns.workload.written == ["evict dns-1"]


async def test_where_coredns_cannot_be_moved_another_attempt_follows(world: World) -> None:
    world.workload.trouble["pods"] = ServerError("list pods: broken")
    assert await _move_coredns(world) == Maintenance(True, "list pods: broken", NOON + FIRST_RETRY)


@pytest.mark.parametrize("mark", [Annotation.EXCLUDE_NODE_DRAINING, f"{Hook.PRE_DRAIN_PREFIX}/backup"])
def test_coredns_is_left_to_a_drain_in_which_somebody_else_has_a_say(world: World, mark: str) -> None:
    assert wanted.coredns(world.clients, _kcp(), _leaver(**{mark: ""})) == Maintenance()


def test_coredns_that_its_owner_keeps_to_himself_is_left_alone(world: World) -> None:
    assert wanted.coredns(world.clients, _kcp(annotations={Annotation.SKIP_COREDNS: ""}), _leaver()) == Maintenance()


# What an onlooker sees.


async def test_an_onlooker_sees_what_would_be_written_and_writes_nothing(world: World) -> None:
    kcp = _kcp(dns={"imageTag": "v1.13.1"})
    assert await addons.foreseen(world.clients, _observation(kcp), NOON) == (Maintenance(pending=True), Maintenance(pending=True))
    assert not world.workload.writes
    await addons.prepare(world.clients, _observation(kcp), NOON)
    assert await addons.foreseen(world.clients, _observation(kcp), NOON) == (Maintenance(), Maintenance(pending=True))
    await addons.update(world.clients, _observation(kcp), NOON)
    assert await addons.foreseen(world.clients, _observation(kcp), NOON) == (Maintenance(), Maintenance())


async def test_an_onlooker_sees_what_the_manager_fails_at(world: World) -> None:
    _, seen = await addons.foreseen(world.clients, _observation(_kcp(dns={"imageTag": "v1.9.4"})), NOON)
    assert seen.problem.startswith("CoreDNS: CoreDNS cannot go back")
    assert seen.retry_at == NOON + LONGEST_RETRY


@pytest.mark.parametrize("change", [{"initialized": False}, {"connection": Connection(Health.BAD, "lost")}])
async def test_an_onlooker_asks_nothing_of_a_cluster_that_cannot_answer(world: World, change: dict[str, Any]) -> None:
    assert await addons.foreseen(world.clients, replace(_observation(_kcp()), **change), NOON) == (Maintenance(), Maintenance())
    assert not world.workload.reads


# Certificate expiries.


async def test_the_expiry_is_recorded_on_the_kubeadm_config_of_each(world: World) -> None:
    for name in ("a", "b"):
        world.management.put("kubeadmconfigs", {"metadata": {"name": name, "uid": f"c-{name}"}})
    kcp = _kcp()
    await addons.record_expiries(world.clients, _observation(kcp, "a", "b"), ("a", "b"), NOON)
    for name in ("a", "b"):
        assert world.management.raw("kubeadmconfigs", name)["metadata"]["annotations"] == {
            Annotation.CERTIFICATES_EXPIRY: "2027-01-02T03:04:05Z"
        }
    assert sorted(world.asked) == [("node-a", 7443), ("node-b", 7443)]
    assert wanted.expiries(world.clients, kcp, ()) == Maintenance()


async def test_one_that_cannot_be_asked_keeps_nobody_else_from_being_recorded(world: World) -> None:
    for name in ("a", "b"):
        world.management.put("kubeadmconfigs", {"metadata": {"name": name, "uid": f"c-{name}"}})
    world.certificates["node-a"] = CannotUpdate("the API server on node-a is silent")
    kcp = _kcp()
    await addons.record_expiries(world.clients, _observation(kcp, "a", "b"), ("a", "b"), NOON)
    assert "annotations" in world.management.raw("kubeadmconfigs", "b")["metadata"]
    assert wanted.expiries(world.clients, kcp, ["a"]) == Maintenance(True, "a: the API server on node-a is silent", NOON + FIRST_RETRY)
    assert wanted.expiries(world.clients, kcp, ["a", "c"]) == Maintenance(pending=True)


async def test_all_are_asked_at_the_same_time(world: World) -> None:
    world.together = asyncio.Barrier(3)
    async with asyncio.timeout(5):
        await addons.record_expiries(world.clients, _observation(_kcp(), "a", "b", "c"), ("a", "b", "c"), NOON)
    assert len(world.asked) == 3


async def test_a_kubeadm_config_that_has_gone_is_nobodys_trouble(world: World) -> None:
    await addons.record_expiries(world.clients, _observation(_kcp(), "a"), ("a",), NOON)
    assert not wanted.expiries(world.clients, _kcp(), ["a"]).problem


@pytest.mark.parametrize("error", [ConnectionFailed("cut"), TimeoutError(), NotFound("x")])
async def test_whatever_the_network_does_is_a_problem_and_no_exception(world: World, error: Exception) -> None:
    world.certificates["node-a"] = error
    await addons.record_expiries(world.clients, _observation(_kcp(), "a"), ("a",), NOON)
    assert wanted.expiries(world.clients, _kcp(), ["a"]).problem == f"a: {str(error) or 'TimeoutError'}"


# What is remembered.


def test_pauses_double_from_five_seconds_to_five_minutes() -> None:
    progress = Progress()
    pauses = []
    for _ in range(20):
        progress.failed(DEMO, Task.ADDONS, b"x", "why", NOON)
        pauses.append(cast("datetime", progress.of(DEMO, Task.ADDONS, b"x").retry_at) - NOON)
    assert pauses[:4] == [timedelta(seconds=seconds) for seconds in (5, 10, 20, 40)]
    assert pauses[-1] == LONGEST_RETRY
    assert pauses == sorted(pauses)


@pytest.mark.parametrize("task", Task)
def test_what_failed_after_it_had_been_done_is_to_be_done_again(task: Task) -> None:
    progress = Progress()
    progress.succeeded(DEMO, task, b"x")
    progress.failed(DEMO, task, b"y", "why", NOON)
    assert progress.of(DEMO, task, b"x") == Maintenance(pending=True)
    assert all(progress.of(DEMO, other, b"x").problem == "" for other in Task)


def test_what_is_forgotten_is_looked_at_again() -> None:
    progress = Progress()
    progress.succeeded(DEMO, Task.ADDONS, b"x")
    progress.failed(DEMO, Task.EXPIRIES, b"x", "why", NOON)
    progress.forget(DEMO)
    assert all(progress.of(DEMO, task, b"x") == Maintenance(pending=True) for task in Task)
