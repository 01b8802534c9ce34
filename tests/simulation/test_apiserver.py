"""The simulated API keeps the rules of a real one, as the production client meets them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from quorate.kubernetes.client import Client
from quorate.kubernetes.errors import AlreadyExists, Conflict, ConnectionFailed, Gone, Invalid, NotFound, Timeout
from quorate.kubernetes.resource import CONFIG_MAPS, Resource
from quorate.simulation.engine.apiserver import ApiServer
from quorate.simulation.engine.link import Fate, Link
from quorate.simulation.engine.objects import MACHINES

RAW: Resource[dict[str, Any]] = Resource("cluster.x-k8s.io", "v1beta2", "machines", "Machine", dict)


def machine(name: str = "a", **metadata: Any) -> dict[str, Any]:
    body = {"metadata": {"name": name, **metadata}, "spec": {"clusterName": "demo"}}
    return {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", **body}


async def test_an_object_is_created_once(client: Client) -> None:
    made = await client.create(RAW, machine(), "default")
    assert made["metadata"]["generation"] == 1
    with pytest.raises(AlreadyExists):
        await client.create(RAW, machine(), "default")


async def test_a_patch_of_another_version_is_a_conflict(client: Client) -> None:
    made = await client.create(RAW, machine(), "default")
    await client.merge_patch(RAW, "a", {"spec": {"version": "v1"}}, "default")
    stale = {"metadata": {"resourceVersion": made["metadata"]["resourceVersion"]}, "spec": {"version": "v2"}}
    with pytest.raises(Conflict):
        await client.merge_patch(RAW, "a", stale, "default")


async def test_a_patch_that_changes_nothing_leaves_the_version_alone(client: Client) -> None:
    made = await client.create(RAW, machine(), "default")
    again = await client.merge_patch(RAW, "a", {"spec": {"clusterName": "demo"}}, "default")
    assert again["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


async def test_the_generation_counts_specifications_alone(client: Client) -> None:
    await client.create(RAW, machine(), "default")
    labelled = await client.merge_patch(RAW, "a", {"metadata": {"labels": {"x": "y"}}}, "default")
    changed = await client.merge_patch(RAW, "a", {"spec": {"version": "v1"}}, "default")
    reported = await client.merge_patch(RAW, "a", {"status": {"phase": "Running"}}, "default", subresource="status")
    assert [obj["metadata"]["generation"] for obj in (labelled, changed, reported)] == [1, 2, 2]


async def test_status_is_written_through_its_subresource_alone(client: Client) -> None:
    await client.create(RAW, machine(), "default")
    through_main = await client.merge_patch(RAW, "a", {"status": {"phase": "Running"}}, "default")
    through_status = await client.merge_patch(
        RAW, "a", {"status": {"phase": "Running"}, "spec": {"version": "v9"}}, "default", subresource="status"
    )
    assert "status" not in through_main
    assert through_status["status"] == {"phase": "Running"}
    assert "version" not in through_status["spec"]


async def test_finalizers_hold_a_deleted_object_until_they_are_gone(client: Client) -> None:
    await client.create(RAW, machine(finalizers=["hold"]), "default")
    held = await client.delete(RAW, "a", "default")
    assert held is not None
    assert "deletionTimestamp" in held["metadata"]
    with pytest.raises(Invalid, match="no new finalizers"):
        await client.merge_patch(RAW, "a", {"metadata": {"finalizers": ["hold", "more"]}}, "default")
    await client.merge_patch(RAW, "a", {"metadata": {"finalizers": []}}, "default")
    with pytest.raises(NotFound):
        await client.get(RAW, "a", "default")


async def test_a_deletion_of_another_uid_is_a_conflict(client: Client) -> None:
    await client.create(RAW, machine(), "default")
    with pytest.raises(Conflict):
        await client.delete(RAW, "a", "default", uid="another")


async def test_applying_gives_up_what_is_said_no_more(client: Client) -> None:
    await client.apply(RAW, machine(labels={"mine": "1", "kept": "1"}), "default", field_manager="capi-one")
    await client.merge_patch(RAW, "a", {"metadata": {"labels": {"theirs": "1"}}}, "default", field_manager="two")
    left = await client.apply(RAW, machine(labels={"kept": "1"}), "default", field_manager="capi-one")
    assert left["metadata"]["labels"] == {"kept": "1", "theirs": "1"}


async def test_applying_keeps_what_another_manager_says_too(client: Client) -> None:
    await client.apply(RAW, machine(labels={"both": "1"}), "default", field_manager="capi-one")
    await client.apply(RAW, machine(labels={"both": "1"}), "default", field_manager="capi-two")
    left = await client.apply(RAW, machine(), "default", field_manager="capi-one")
    assert left["metadata"]["labels"] == {"both": "1"}


async def test_readiness_gates_are_merged_by_their_type(client: Client) -> None:
    one = machine() | {"spec": {"readinessGates": [{"conditionType": "A"}, {"conditionType": "B"}]}}
    await client.apply(RAW, one, "default", field_manager="capi-one")
    left = await client.apply(RAW, machine() | {"spec": {"readinessGates": [{"conditionType": "B"}]}}, "default", field_manager="capi-one")
    assert left["spec"]["readinessGates"] == [{"conditionType": "B"}]


async def test_applying_with_a_uid_creates_nothing(client: Client) -> None:
    with pytest.raises(Conflict, match="uid mismatch"):
        await client.apply(RAW, machine(uid="gone"), "default", field_manager="capi-one")


async def test_a_get_shows_managed_fields_and_a_list_does_not(client: Client) -> None:
    await client.apply(RAW, machine(labels={"mine": "1"}), "default", field_manager="capi-one")
    alone = await client.get(RAW, "a", "default")
    listed = (await client.list(RAW, "default")).items[0]
    assert alone["metadata"]["managedFields"][0]["fieldsV1"]["f:metadata"] == {"f:labels": {"f:mine": {}}}
    assert "managedFields" not in listed["metadata"]


async def test_lists_come_in_pages_and_by_label(client: Client) -> None:
    for number in range(7):
        await client.create(RAW, machine(f"m{number}", labels={"odd": str(number % 2)}), "default")
    assert len((await client.list(RAW, "default", limit=3)).items) == 7
    assert [m["metadata"]["name"] for m in (await client.list(RAW, label_selector="odd=1")).items] == ["m1", "m3", "m5"]
    assert len((await client.list(RAW, label_selector="!odd")).items) == 0


async def test_a_watch_that_begins_too_early_is_gone(client: Client, server: ApiServer) -> None:
    await client.create(RAW, machine(), "default")
    server.compact()
    with pytest.raises(Gone):
        async for _ in client.watch(RAW, resource_version="1"):
            pass


async def test_a_watch_tells_what_happened_in_order_and_ends_after_its_time(client: Client, server: ApiServer) -> None:
    begin = str(server.version)
    await client.create(RAW, machine(labels={"in": ""}), "default")
    for number in range(20):
        await client.merge_patch(RAW, "a", {"spec": {"version": str(number)}}, "default")
    await client.merge_patch(RAW, "a", {"metadata": {"labels": {"in": None}}}, "default")
    seen = [event async for event in client.watch(RAW, resource_version=begin, label_selector="in", timeout_seconds=30)]
    assert [event.type for event in seen] == ["ADDED", *["MODIFIED"] * 20, "DELETED"]
    assert [event.object["spec"].get("version") for event in seen[1:-1]] == [str(number) for number in range(20)]


async def test_a_silent_watch_is_found_dead(client: Client, link: Link) -> None:
    events = client.watch(RAW, resource_version="1", timeout_seconds=300, inactivity=70.0)
    waiting = anext(events)

    def silence() -> None:
        for watch in link.watches:
            watch.silence()

    asyncio.get_running_loop().call_later(1.0, silence)
    with pytest.raises(Timeout):
        await waiting


@pytest.mark.parametrize(("fate", "exists"), [(Fate.LOST, False), (Fate.UNANSWERED, True)])
async def test_a_request_is_lost_before_or_after_its_effect(
    client: Client, link: Link, server: ApiServer, fate: Fate, exists: bool
) -> None:
    link.fate = lambda _: fate
    with pytest.raises(ConnectionFailed):
        await client.create(RAW, machine(), "default")
    assert (server.find(MACHINES, "default", "a") is not None) is exists


async def test_what_is_not_served_is_not_found(client: Client) -> None:
    with pytest.raises(NotFound):
        await client.get(CONFIG_MAPS, "a", "default")
    with pytest.raises(NotFound, match="could not find the requested resource"):
        await client.list(Resource("cluster.x-k8s.io", "v1alpha1", "machines", "Machine", dict))


async def test_an_object_is_replaced_whole_and_by_whoever_has_read_it(client: Client) -> None:
    made = await client.create(RAW, machine(labels={"a": "b"}), "default")
    version = made["metadata"]["resourceVersion"]
    replaced = await client.replace(RAW, machine(resourceVersion=version) | {"spec": {"version": "v1"}}, "default")
    assert (replaced["spec"], replaced["metadata"].get("labels"), replaced["metadata"]["generation"]) == ({"version": "v1"}, None, 2)
    with pytest.raises(Conflict):
        await client.replace(RAW, machine(resourceVersion=version), "default")
    with pytest.raises(NotFound):
        await client.replace(RAW, machine("b"), "default")


async def test_what_is_only_tried_changes_nothing(client: Client, server: ApiServer) -> None:
    tried = await client.create(RAW, machine(), "default", dry_run=True)
    assert tried["metadata"]["uid"]
    assert server.find(MACHINES, "default", "a") is None
    await client.create(RAW, machine(), "default")
    version = server.version
    tried = await client.replace(RAW, machine() | {"spec": {"version": "v1"}}, "default", dry_run=True)
    assert tried["spec"] == {"version": "v1"}
    assert server.version == version
    assert server.get(MACHINES, "default", "a").spec == {"clusterName": "demo"}
