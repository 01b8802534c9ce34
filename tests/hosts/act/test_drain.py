"""Nodes drained: who goes, who stays, and what is said of those that may not go."""

from __future__ import annotations

import asyncio

import pytest

from quorate.hosts.act.drain import drain
from quorate.hosts.act.failures import StepFailed
from tests.hosts.act.running import api_of, cluster, tools
from tests.hosts.act.world import World

DEFAULT = "/api/v1/namespaces/default/pods"


def left(world: World) -> list[str]:
    return world.api.below(DEFAULT)


def daemon() -> dict[str, object]:
    return {"ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "proxy", "uid": "owner", "controller": True}]}


async def test_what_can_run_elsewhere_goes_and_what_belongs_to_the_node_stays() -> None:
    world = cluster()
    api_of(world).pod("default", "web", "h1")
    api_of(world).pod("default", "elsewhere", "h2")
    api_of(world).pod("default", "proxy", "h1", **daemon())
    await drain(tools(world), "h1")
    assert left(world) == ["elsewhere", "proxy"]
    assert "etcd-h1" in world.api.below("/api/v1/namespaces/kube-system/pods")


async def test_pods_go_by_eviction_and_never_by_deletion() -> None:
    world = cluster()
    api_of(world).pod("default", "web", "h1")
    await drain(tools(world), "h1")
    assert world.api.log == [f"POST {DEFAULT}/web/eviction"]


async def test_a_pod_that_takes_its_time_is_waited_for_and_evicted_once() -> None:
    world = cluster()
    api_of(world).pod("default", "slow", "h1")
    api_of(world).lingering.add("slow")
    async with asyncio.TaskGroup() as group:
        draining = group.create_task(drain(tools(world), "h1"))
        while not any("slow is ending" in what for _, what in world.reports):  # noqa: ASYNC110 (the drain sets no Event here)
            await asyncio.sleep(0)
        assert not draining.done()
        api_of(world).end("default", "slow")
    assert world.api.log == [f"POST {DEFAULT}/slow/eviction"]


async def test_a_budget_that_allows_it_later_lets_the_pod_go() -> None:
    world = cluster()
    api_of(world).pod("default", "web", "h1")
    api_of(world).budgets["web"] = "The disruption budget web needs 1 healthy pods and has 1 currently"
    async with asyncio.TaskGroup() as group:
        group.create_task(drain(tools(world), "h1"))
        while len(world.api.log) < 2:  # noqa: ASYNC110
            await asyncio.sleep(0)
        api_of(world).budgets.clear()
    assert left(world) == []


async def test_after_its_time_the_drain_names_each_pod_and_its_budget() -> None:
    world = cluster()
    api_of(world).pod("default", "web", "h1")
    api_of(world).pod("default", "other", "h1")
    api_of(world).budgets["web"] = "The disruption budget web needs 1 healthy pods and has 1 currently"
    with pytest.raises(StepFailed) as failed:
        await drain(tools(world), "h1", deadline=30)
    assert "within 30 s" in failed.value.cause
    assert "Pod default/web" in failed.value.cause
    assert "disruption budget web needs 1" in failed.value.cause
    assert "PodDisruptionBudget" in failed.value.remedy
    assert left(world) == ["web"]


async def test_a_pod_that_nobody_makes_anew_is_named_before_it_goes() -> None:
    world = cluster()
    api_of(world).pod("default", "alone", "h1", ownerReferences=[])
    await drain(tools(world), "h1")
    assert ("h1", "default/alone has no controller: it does not come back") in world.reports


async def test_pods_that_have_ended_are_let_be() -> None:
    world = cluster()
    api_of(world).pod("default", "job", "h1")
    world.api.objects[f"{DEFAULT}/job"]["status"]["phase"] = "Succeeded"
    await drain(tools(world), "h1")
    assert left(world) == ["job"]


async def test_pods_of_a_node_that_somebody_has_deleted_are_not_waited_for_where_nobody_would_end_them() -> None:
    world = cluster()
    api_of(world).pod("default", "web", "gone")
    await drain(tools(world), "gone", while_ready=True)
    assert left(world) == ["web"]
