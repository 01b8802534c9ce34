"""The ways out of the process: one connection for each cluster, and errors that arrive as themselves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from random import Random
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from structlog.testing import capture_logs

from quorate.clusterapi import inspection
from quorate.clusterapi.connect.workloads import EtcdDialer, Workloads, network_setup
from quorate.clusterapi.inspection import NotAnswering, inspecting
from quorate.clusterapi.observe.rings import Rings
from quorate.clusterapi.types.cluster import Cluster
from quorate.core.health import Health, Unknown
from quorate.kubernetes.config import RestConfig
from quorate.kubernetes.controller import Request
from quorate.workload.membership import RingReading

from .conftest import DEMO, FakeWorkload, FakeWorkloadApi, kubeadm_control_plane

if TYPE_CHECKING:
    from quorate.clusterapi.observe.observation import Observation
    from tests.clusterapi.loop.conftest import World


def cluster(name: str, uid: str) -> Cluster:
    return msgspec.convert({"metadata": {"name": name, "namespace": "default", "uid": uid}}, Cluster)


CLUSTER, GONE = cluster("demo", "cluster-uid"), cluster("gone", "gone-uid")


def running(cluster: str = "demo") -> int:
    return sum(task.get_name() == f"workload default/{cluster}" for task in asyncio.all_tasks())


@pytest.fixture
async def workloads(empty: World) -> Workloads:
    """Real connections, of whose clusters none answers, to the observer of the world."""
    api: Any = empty.api
    clock = asyncio.get_running_loop().time
    setup = network_setup(EtcdDialer.IN_MEMORY, now=lambda: datetime(2026, 1, 1, tzinfo=UTC), random=Random(1), clock=clock)
    workloads = Workloads(empty.caches, api, setup)
    empty.clients = replace(empty.clients, workloads=workloads)
    empty.observer = replace(empty.observer, clients=empty.clients)
    return workloads


async def a_moment() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def seen(world: World) -> Observation | None:
    await world.sync()
    found = await world.observer.observe(DEMO)
    await a_moment()
    return found


def strip_the_finalizer(world: World) -> None:
    """Somebody takes our finalizer, and the object is gone between two passes."""
    del world.api.objects["kubeadmcontrolplanes", "default", "demo"]


def lose_the_owner(world: World) -> None:
    world.api.change("kubeadmcontrolplanes", "demo", {"metadata": {"ownerReferences": None}})


def delete_the_cluster(world: World) -> None:
    del world.api.objects["clusters", "default", "demo"]


@pytest.mark.parametrize("vanish", [strip_the_finalizer, lose_the_owner, delete_the_cluster])
async def test_a_connection_ends_with_what_it_was_for_however_that_went(
    empty: World, workloads: Workloads, vanish: Callable[[World], None]
) -> None:
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(workloads.run())
        await seen(empty)
        assert running() == 1
        vanish(empty)
        await seen(empty)
        assert running() == 0
        with pytest.raises(KeyError):
            workloads.existing(CLUSTER)
        task.cancel()


async def test_a_connection_that_another_control_plane_of_the_cluster_uses_stays(empty: World, workloads: Workloads) -> None:
    other = kubeadm_control_plane()
    other["metadata"] |= {"name": "other", "uid": "other-uid"}
    empty.api.put("kubeadmcontrolplanes", other)
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(workloads.run())
        await seen(empty)
        kept = workloads.existing(CLUSTER)
        strip_the_finalizer(empty)
        await seen(empty)
        assert workloads.existing(CLUSTER) is kept
        empty.queue.keys.clear()
        kept._on_change()
        assert empty.queue.keys == [Request("default", "other")]
        task.cancel()


async def test_a_cluster_that_was_made_anew_is_not_seen_through_the_connection_to_its_namesake(empty: World, workloads: Workloads) -> None:
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(workloads.run())
        await seen(empty)
        before = workloads.existing(CLUSTER)
        empty.api.change("clusters", "demo", {"metadata": {"uid": "new-uid"}})
        await seen(empty)
        assert workloads.existing(cluster("demo", "new-uid")) is not before
        assert running() == 1
        with pytest.raises(KeyError):
            workloads.existing(CLUSTER)
        task.cancel()


async def test_nor_by_what_was_read_through_that_a_moment_ago(three: World) -> None:
    await three.sync()
    rings = Rings(lambda: 0.0)
    before: Any = three.workload
    after: Any = FakeWorkload([], ring_problem="not connected")
    assert isinstance(await rings.read(before, ()), RingReading)
    assert await rings.read(after, ()) == Unknown("not connected")
    answering, failing = FakeWorkloadApi([]), FakeWorkloadApi([], etcd_trouble=TimeoutError())
    before.api, after.api = answering, failing
    assert (await rings.external(before)).health is Health.GOOD
    assert (await rings.external(after)).health is not Health.GOOD


async def test_a_connection_that_ended_and_is_asked_for_again_is_kept_once(workloads: Workloads) -> None:
    first = workloads.begin(GONE, lambda: None)
    assert workloads.end_unclaimed() == ["default/gone"]
    assert workloads.end_unclaimed() == []
    assert workloads.begin(GONE, lambda: None) is not first
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(workloads.run())
        await a_moment()
        assert running("gone") == 1
        assert workloads.end_unclaimed() == ["default/gone"]
        await a_moment()
        assert running("gone") == 0
        task.cancel()


async def test_more_connections_than_there_are_file_descriptors_for_are_told_of_once(empty: World) -> None:
    api: Any = empty.api
    clock = asyncio.get_running_loop().time
    setup = network_setup(EtcdDialer.IN_MEMORY, now=lambda: datetime(2026, 1, 1, tzinfo=UTC), random=Random(1), clock=clock, room=2)
    workloads = Workloads(empty.caches, api, setup)
    with capture_logs() as logged:
        for name in ("a", "b", "a", "c", "d"):
            workloads.begin(cluster(name, name), lambda: None)
    (said,) = logged
    assert (said["log_level"], said["room"]) == ("warning", 2)


async def test_an_api_that_does_not_answer_is_told_as_such_and_not_as_a_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspection, "SYNC_TIMEOUT", 0.05)
    with pytest.raises(NotAnswering, match=r"did not answer within 0\.05 s"):
        async with inspecting(RestConfig(server="http://127.0.0.1:1"), etcd_dialer=EtcdDialer.IN_MEMORY):
            pass
