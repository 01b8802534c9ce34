"""What was made for a Machine that is gone goes too, and nothing else does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from quorate.clusterapi.act.creation import CreationFailed
from quorate.clusterapi.act.maintenance import maintain
from quorate.clusterapi.act.refusal import Refused
from quorate.clusterapi.desired import intent
from quorate.clusterapi.types.names import FieldManager, Label
from quorate.core.machines.steps import AbandonCreation, CreateReplica
from quorate.kubernetes.errors import Conflict

if TYPE_CHECKING:
    from quorate.kubernetes.resource import Resource
    from tests.clusterapi.loop.conftest import World

FIRST_PART = FieldManager.KUBEADM_CONTROL_PLANE
COMPANIONS = ("devmachines", "kubeadmconfigs")
OWNER = {"apiVersion": "controlplane.cluster.x-k8s.io/v1beta2", "kind": "KubeadmControlPlane", "name": "demo", "uid": "kcp-uid"}
LABELS = {Label.CLUSTER_NAME: "demo", Label.CONTROL_PLANE: ""}


@pytest.fixture
async def orphaned(three: World) -> World:
    """A control plane with what was made for cp-9, whose Machine is gone."""
    await maintain(three.clients, await three.look())
    for plural in COMPANIONS:
        metadata = {"name": "cp-9", "labels": LABELS, "ownerReferences": [OWNER]}
        kind = {"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "DevMachine"} if plural == "devmachines" else {}
        three.api.put(plural, {**kind, "metadata": metadata, "spec": {}})
    three.log.clear()
    return three


def change(world: World, patch: dict[str, object]) -> None:
    for plural in COMPANIONS:
        world.api.change(plural, "cp-9", {"metadata": patch})


async def deleted(world: World) -> list[str]:
    """What one round of maintenance deletes."""
    world.log.clear()
    await maintain(world.clients, await world.look())
    return sorted(line for line in world.log if line.startswith("delete"))


async def test_what_was_made_for_a_machine_that_is_gone_is_deleted_as_it_was_seen(orphaned: World) -> None:
    seen = {plural: orphaned.api.raw(plural, "cp-9")["metadata"] for plural in COMPANIONS}
    assert await deleted(orphaned) == ["delete devmachines cp-9", "delete kubeadmconfigs cp-9"]
    bodies = dict(orphaned.api.bodies)
    for plural, metadata in seen.items():
        assert bodies[f"delete {plural} cp-9"] == {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
    assert await deleted(orphaned) == []


async def test_what_a_request_makes_that_arrives_after_its_creation_was_given_up_goes(empty: World) -> None:
    """Nobody writes the rest of its labels: those of the Cluster come by a second request, which was never sent."""
    empty.api.fail_at = 5  # the Machine's
    with pytest.raises(CreationFailed):
        await empty.actor.perform(CreateReplica("", initialize=True), await empty.look())
    (name,) = empty.api.names("machines")
    del empty.api.objects["machines", "default", name]
    late = {plural: body for plural in COMPANIONS for said, body in empty.api.bodies if said == f"apply {plural} {name} as {FIRST_PART}"}
    await empty.actor.perform(AbandonCreation(name), await empty.look())
    assert [empty.api.names(plural) for plural in COMPANIONS] == [[], []]
    for plural, body in late.items():
        empty.api.put(plural, body)
    assert await deleted(empty) == [f"delete devmachines {name}", f"delete kubeadmconfigs {name}"]


async def test_nothing_left_over_is_deleted_once_somebody_has_paused_the_cluster(orphaned: World) -> None:
    observation = await orphaned.look()
    orphaned.api.change("clusters", "demo", {"spec": {"paused": True}})  # which the cache has yet to see
    await maintain(orphaned.clients, observation)
    assert orphaned.log == []
    orphaned.api.change("clusters", "demo", {"spec": {"paused": False}})
    assert await deleted(orphaned) == ["delete devmachines cp-9", "delete kubeadmconfigs cp-9"]


async def test_nothing_left_over_is_deleted_by_a_process_that_was_stopped_once_no_machine_was_found(
    orphaned: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another one leads when it goes on, and may be making that Machine anew."""
    find = orphaned.api._find

    def stopped(resource: Resource[Any], name: str, namespace: str) -> dict[str, Any]:
        orphaned.leads = (resource.plural, name) != ("machines", "cp-9")
        return find(resource, name, namespace)

    monkeypatch.setattr(orphaned.api, "_find", stopped)
    observation = await orphaned.look()
    with pytest.raises(ExceptionGroup) as caught:
        await maintain(orphaned.clients, observation)
    assert caught.group_contains(Refused, match="may no longer lead")
    assert orphaned.log == []


async def test_what_a_machine_took_over_is_left_to_the_machine_controller(orphaned: World) -> None:
    machine = {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "name": "cp-9", "uid": "m"}
    change(orphaned, {"ownerReferences": [OWNER, machine]})
    assert await deleted(orphaned) == []


@pytest.mark.parametrize(
    "patch",
    [
        {"ownerReferences": [OWNER | {"uid": "another"}]},
        {"ownerReferences": []},
        {"labels": {Label.CONTROL_PLANE: None}},
        {"labels": {Label.CLUSTER_NAME: "another"}},
        {"deletionTimestamp": "2026-01-01T12:00:00Z"},
    ],
    ids=["of another control plane", "of nobody", "not of a control plane", "of another cluster", "going already"],
)
async def test_what_is_not_ours_or_goes_already_is_left_alone(orphaned: World, patch: dict[str, object]) -> None:
    change(orphaned, patch)
    assert await deleted(orphaned) == []


async def test_what_a_machine_of_another_name_uses_stays(orphaned: World) -> None:
    references = {"bootstrap": {"configRef": {"name": "cp-9"}}, "infrastructureRef": {"name": "cp-9"}}
    orphaned.api.change("machines", "cp-3", {"spec": references})
    assert await deleted(orphaned) == []


async def test_a_machine_that_the_cache_has_not_seen_yet_keeps_what_is_its_own(orphaned: World) -> None:
    observation = await orphaned.look()
    orphaned.add_machine("cp-9")
    orphaned.log.clear()
    await maintain(orphaned.clients, observation)
    assert not [line for line in orphaned.log if line.startswith("delete")]


async def test_a_creation_that_the_cache_has_not_seen_yet_keeps_what_it_made(orphaned: World) -> None:
    observation = await orphaned.look()
    recorded = intent.patch("", intent.Intent("cp-9"))["metadata"]["annotations"]
    orphaned.api.change("kubeadmcontrolplanes", "demo", {"metadata": {"annotations": recorded}})
    await maintain(orphaned.clients, observation)
    assert not [line for line in orphaned.log if line.startswith("delete")]


async def test_what_has_changed_since_it_was_seen_is_looked_at_again(orphaned: World) -> None:
    observation = await orphaned.look()
    change(orphaned, {"annotations": {"a": "b"}})
    with pytest.raises(ExceptionGroup) as caught:
        await maintain(orphaned.clients, observation)
    assert caught.group_contains(Conflict)
    assert {plural: "cp-9" in orphaned.api.names(plural) for plural in COMPANIONS} == dict.fromkeys(COMPANIONS, True)
