"""CoreDNS leaves a Node one Pod at a time, never with the last that answers, and does not go round in circles."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from quorate.kubernetes.errors import TooManyRequests
from quorate.workload.coredns_pods import move_away

from .cluster_api import ClusterApi, Json, workload_of

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def pod(name: str, node: str, *, minutes: int = 60, label: str = "kube-dns", ready: str = "True", **metadata: str) -> Json:
    """One made so many minutes before noon."""
    created = f"{NOON - timedelta(minutes=minutes):%Y-%m-%dT%H:%M:%SZ}"
    metadata = {"name": name, "namespace": "kube-system", "uid": f"uid-{name}", "creationTimestamp": created, **metadata}
    status = {"conditions": [{"type": "Ready", "status": ready}]}
    return {"metadata": {**metadata, "labels": {"k8s-app": label}}, "spec": {"nodeName": node}, "status": status}


def cluster(*pods: Json, replicas: int = 2) -> ClusterApi:
    api = ClusterApi()
    deployment = workload_of("coredns", "registry.k8s.io/coredns/coredns:v1.12.1")
    deployment["spec"]["replicas"] = replicas
    deployment["status"] = {"availableReplicas": replicas}
    api.put("deployments", deployment)
    for one in pods:
        api.put("pods", one)
    return api


async def test_the_pod_on_the_node_is_evicted_and_nobody_else() -> None:
    api = cluster(pod("dns-1", "n1"), pod("dns-2", "n2"), pod("other", "n1", label="other"))
    left = await move_away(api, "n1", NOON)
    assert left == "one of 1 Pods of CoreDNS on Node n1 was evicted: waiting to see where the scheduler puts its successor"
    api.put("pods", pod("dns-3", "n3"))
    assert await move_away(api, "n1", NOON) == ""
    assert api.written == ["evict dns-1"]


@pytest.mark.parametrize(
    "successor", [None, pod("dns-3", "", ready="False"), pod("dns-3", "n3", ready="False")], ids=["none", "pending", "starting"]
)
async def test_it_is_looked_at_again_until_the_successor_runs_whatever_the_deployment_says_of_it(successor: Json | None) -> None:
    api = cluster(pod("dns-2", "n2"), *([successor] if successor else []))
    assert await move_away(api, "n1", NOON) == "1 of 2 Pods of Deployment kube-system/coredns are ready: the others come first"
    api.put("pods", pod("dns-3", "n1"))
    await move_away(api, "n1", NOON)
    assert api.written == ["evict dns-3"]


async def test_of_two_on_one_node_the_second_waits_until_the_first_runs_elsewhere() -> None:
    api = cluster(pod("dns-2", "n1"), pod("dns-1", "n1"))
    assert (await move_away(api, "n1", NOON)).startswith("one of 2 Pods of CoreDNS on Node n1 was evicted")
    assert (await move_away(api, "n1", NOON)).startswith("1 of 2 Pods of Deployment kube-system/coredns are ready")
    assert api.written == ["evict dns-1"]
    api.put("pods", pod("dns-3", "n2"))
    await move_away(api, "n1", NOON)
    assert api.written == ["evict dns-1", "evict dns-2"]


async def test_the_only_one_that_answers_is_left_to_the_drain() -> None:
    api = cluster(pod("dns-1", "n1"), replicas=1)
    await move_away(api, "n1", NOON)
    assert not api.writes


async def test_one_that_came_back_for_want_of_another_node_stays() -> None:
    api = cluster(pod("dns-1", "n1", minutes=0), pod("dns-2", "n2"))
    await move_away(api, "n1", NOON)
    assert not api.writes


async def test_one_that_is_ending_is_not_evicted_again() -> None:
    api = cluster(pod("dns-1", "n1", deletionTimestamp="2026-01-01T12:00:00Z"), pod("dns-2", "n2"))
    await move_away(api, "n1", NOON)
    assert not api.writes


async def test_what_a_budget_refuses_is_told() -> None:
    api = cluster(pod("dns-1", "n1"), pod("dns-2", "n2"))
    api.trouble["evictions"] = TooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.")
    with pytest.raises(TooManyRequests):
        await move_away(api, "n1", NOON)


async def test_pods_of_no_deployment_are_not_ours() -> None:
    api = cluster(pod("dns-1", "n1"), pod("dns-2", "n2"))
    del api.objects["deployments", "coredns"]
    await move_away(api, "n1", NOON)
    assert not api.writes
