"""Stand-alone control-plane Machines: whose they are, what is in the way of adopting them, and what is written when they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from quorate.clusterapi.act.maintenance import maintain
from quorate.clusterapi.act.refusal import Refused
from quorate.clusterapi.types.names import Label
from quorate.core.machines.decide import decide
from quorate.core.machines.state import Adoptable
from quorate.core.machines.steps import AdoptReplicas
from quorate.kubernetes.errors import Conflict, ConnectionFailed
from quorate.kubernetes.resource import SECRETS

if TYPE_CHECKING:
    from tests.clusterapi.loop.conftest import World
    from tests.clusterapi.loop.management import Json

KCPS = "kubeadmcontrolplanes"
ADOPT = AdoptReplicas(("cp-1", "cp-2"))
OTHER = {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineSet", "name": "others", "uid": "other", "controller": True}


def controller(world: World, plural: str, name: str) -> Json | None:
    """The uid of the controller of an object, and all its owners' names."""
    owners = world.api.raw(plural, name)["metadata"].get("ownerReferences", [])
    return next((owner for owner in owners if owner.get("controller")), None)


@pytest.fixture
async def alone(empty: World) -> World:
    """Two control-plane Machines that were made by hand, and what belongs to them."""
    for name in ("cp-1", "cp-2"):
        empty.add_machine(name)
        cluster = {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": "demo", "uid": "cluster-uid"}
        labels = {Label.CLUSTER_NAME: "demo", Label.CONTROL_PLANE: ""}
        empty.api.change("machines", name, {"metadata": {"ownerReferences": [cluster], "annotations": None, "labels": labels}})
        config = empty.api.change("kubeadmconfigs", name, {"metadata": {"labels": None, "ownerReferences": None}})
        owner = {
            "apiVersion": "bootstrap.cluster.x-k8s.io/v1beta2",
            "kind": "KubeadmConfig",
            "name": name,
            "uid": config["metadata"]["uid"],
        }
        data = {
            "metadata": {"name": f"{name}-data", "labels": {Label.CLUSTER_NAME: "demo"}, "ownerReferences": [{**owner, "controller": True}]}
        }
        empty.api.put("secrets", data)
        empty.api.change("machines", name, {"spec": {"bootstrap": {"dataSecretName": f"{name}-data"}}})
        if name == "cp-1":
            empty.api.put("secrets", {**data, "metadata": {**data["metadata"], "name": "demo-ca"}})
    empty.api.put("secrets", {"metadata": {"name": "demo-sa", "labels": {Label.CLUSTER_NAME: "demo"}}})
    await empty.sync()
    empty.log.clear()
    return empty


async def adoptable(world: World) -> dict[str, str]:
    """What is in the way of each Machine that nobody owns."""
    view = (await world.look()).view
    assert view is not None
    assert view.foreign == ()
    assert view.replicas == ()
    return {machine.name: machine.problem for machine in view.adoptable}


async def test_machines_without_a_controller_can_be_adopted(alone: World) -> None:
    view = (await alone.look()).view
    assert view is not None
    assert view.adoptable == (Adoptable("cp-1"), Adoptable("cp-2"))


async def test_a_machine_is_of_the_control_plane_whatever_the_value_of_its_label(alone: World) -> None:
    """To all of Cluster API the label is what counts. Beside a Machine that was not counted a second cluster would be founded."""
    for name in ("cp-1", "cp-2"):
        alone.api.change("machines", name, {"metadata": {"labels": {Label.CONTROL_PLANE: "true"}}})
    view = (await alone.look()).view
    assert view is not None
    assert view.adoptable == (Adoptable("cp-1"), Adoptable("cp-2"))
    assert decide(view, alone.now).step == ADOPT


async def test_a_machine_of_ours_that_lost_its_label_is_ours_and_gets_it_back(three: World) -> None:
    three.api.change("machines", "cp-1", {"metadata": {"labels": {Label.CONTROL_PLANE: None}}})
    observation = await three.look()
    assert observation.view is not None
    assert [replica.name for replica in observation.view.replicas] == ["cp-1", "cp-2", "cp-3"]
    await maintain(three.clients, observation)
    assert three.api.raw("machines", "cp-1")["metadata"]["labels"][Label.CONTROL_PLANE] == ""


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"spec": {"version": "v1.35.0"}}, ""),
        ({"spec": {"version": "v1.33.9"}}, ""),
        ({"spec": {"version": ""}}, ""),
        (
            {"spec": {"version": "v1.36.0"}},
            "its version v1.36.0 is more than 1 minor version away from v1.34.4, which the control plane asks for",
        ),
        (
            {"spec": {"version": "v2.34.0"}},
            "its version v2.34.0 is more than 1 minor version away from v1.34.4, which the control plane asks for",
        ),
        ({"spec": {"version": "latest"}}, "its version 'latest' is not one"),
        ({"spec": {"bootstrap": {"configRef": None}}}, "its spec.bootstrap.configRef names nothing, not a KubeadmConfig"),
        ({"spec": {"bootstrap": {"configRef": {"kind": "Other"}}}}, "its spec.bootstrap.configRef names a Other, not a KubeadmConfig"),
        ({"spec": {"infrastructureRef": None}}, "its spec.infrastructureRef names nothing"),
        ({"metadata": {"deletionTimestamp": "2026-01-01T11:00:00Z"}}, "it is being deleted"),
    ],
)
async def test_what_is_in_the_way_of_an_adoption_is_named(alone: World, change: dict[str, Any], problem: str) -> None:
    alone.api.change("machines", "cp-2", change)
    assert await adoptable(alone) == {"cp-1": "", "cp-2": problem}


async def test_a_control_plane_that_is_being_deleted_adopts_nothing(alone: World) -> None:
    alone.api.change(KCPS, "demo", {"metadata": {"deletionTimestamp": "2026-01-01T12:00:00Z"}})
    assert await adoptable(alone) == {}


async def test_an_adopted_machine_brings_the_secrets_of_its_configuration_but_not_its_bootstrap_data(alone: World) -> None:
    await alone.actor.perform(ADOPT, await alone.look())
    for name in ("cp-1", "cp-2"):
        owner = controller(alone, "machines", name)
        assert owner is not None
        assert (owner["kind"], owner["uid"], owner["blockOwnerDeletion"]) == ("KubeadmControlPlane", "kcp-uid", True)
        assert [other["kind"] for other in alone.api.raw("machines", name)["metadata"]["ownerReferences"]] == [
            "Cluster",
            "KubeadmControlPlane",
        ]
        kept = controller(alone, "secrets", f"{name}-data")
        assert kept is not None
        assert kept["kind"] == "KubeadmConfig"
    ca = alone.api.raw("secrets", "demo-ca")["metadata"]["ownerReferences"]
    assert [(owner["kind"], owner["controller"]) for owner in ca] == [("KubeadmControlPlane", True)]
    assert controller(alone, "secrets", "demo-sa") is None
    for name in ("cp-1", "cp-2"):
        assert alone.log.index(f"apply kubeadmconfigs {name} as capi-kubeadmcontrolplane-metadata") < alone.log.index(
            f"patch machines {name}"
        )


async def test_adopted_machines_are_replicas_with_their_configuration_and_get_our_hook_from_maintenance(alone: World) -> None:
    await alone.actor.perform(ADOPT, await alone.look())
    observation = await alone.look()
    assert observation.view is not None
    assert [(replica.name, replica.holds_hook, replica.outdated) for replica in observation.view.replicas] == [
        ("cp-1", False, ()),
        ("cp-2", False, ()),
    ]
    assert all(machine.config is not None for machine in observation.machines)
    await maintain(alone.clients, observation)
    assert alone.holds_hook("cp-1")
    assert alone.holds_hook("cp-2")


@pytest.mark.parametrize("number", range(5))
async def test_after_a_crash_at_any_write_a_repeat_adopts_the_rest(alone: World, number: int) -> None:
    observation = await alone.look()
    alone.api.writes, alone.api.fail_at = 0, number
    with pytest.raises((ConnectionFailed, ExceptionGroup)):
        await alone.actor.perform(ADOPT, observation)
    again = await alone.look()
    assert again.view is not None
    if again.view.adoptable:
        await alone.actor.perform(AdoptReplicas(tuple(machine.name for machine in again.view.adoptable)), again)
    assert await adoptable_names(alone) == []
    owner = controller(alone, "secrets", "demo-ca")
    assert owner is not None
    assert owner["uid"] == "kcp-uid"


async def adoptable_names(world: World) -> list[str]:
    view = (await world.look()).view
    assert view is not None
    return [machine.name for machine in view.adoptable]


@pytest.mark.parametrize(
    ("kind", "change", "why"),
    [
        (KCPS, {"metadata": {"deletionTimestamp": "2026-01-01T12:00:00Z"}}, "KubeadmControlPlane default/demo was deleted after"),
        (KCPS, {"metadata": {"uid": "another"}}, "KubeadmControlPlane default/demo is not the one that this was decided for"),
        (KCPS, {"metadata": {"annotations": {"cluster.x-k8s.io/paused": ""}}}, "KubeadmControlPlane default/demo was paused"),
        ("clusters", {"spec": {"paused": True}}, "KubeadmControlPlane default/demo was paused"),
        (
            "clusters",
            {"spec": {"controlPlaneRef": {"apiGroup": "controlplane.cluster.x-k8s.io", "kind": "KubeadmControlPlane", "name": "other"}}},
            "is no longer the one that its Cluster names",
        ),
    ],
)
async def test_a_control_plane_that_has_just_gone_or_was_paused_adopts_nothing_whatever_the_cache_says(
    alone: World, kind: str, change: dict[str, Any], why: str
) -> None:
    observation = await alone.look()
    alone.api.change(kind, "demo", change)
    with pytest.raises(Refused, match=why):
        await alone.actor.perform(ADOPT, observation)
    assert alone.log == []


async def test_a_machine_that_somebody_else_took_meanwhile_is_theirs(alone: World) -> None:
    observation = await alone.look()
    alone.api.before["apply"] = lambda: take(alone)
    with pytest.raises(ExceptionGroup) as caught:
        await alone.actor.perform(AdoptReplicas(("cp-1",)), observation)
    assert caught.group_contains(Conflict)
    assert controller(alone, "machines", "cp-1") == OTHER


async def test_a_machine_that_somebody_else_took_before_the_cache_had_heard_of_it_is_theirs(alone: World) -> None:
    observation = await alone.look()
    take(alone)
    with pytest.raises(Refused, match="Machine default/cp-1 is somebody else's by now"):
        await alone.actor.perform(AdoptReplicas(("cp-1",)), observation)
    assert controller(alone, "machines", "cp-1") == OTHER
    assert alone.log == []


def take(world: World) -> None:
    """Somebody else becomes the controller of the Machine."""
    world.api.change("machines", "cp-1", {"metadata": {"ownerReferences": [OTHER]}})


async def test_a_machine_without_its_configuration_is_not_adopted(alone: World) -> None:
    del alone.api.objects["kubeadmconfigs", "default", "cp-1"]
    with pytest.raises(ExceptionGroup) as caught:
        await alone.actor.perform(AdoptReplicas(("cp-1",)), await alone.look())
    assert caught.group_contains(Refused, match="Machine cp-1 cannot be adopted: its KubeadmConfig default/cp-1 does not exist")
    assert controller(alone, "machines", "cp-1") is None
    assert alone.log == []


async def test_a_secret_that_changed_meanwhile_is_not_written_over(alone: World) -> None:
    observation = await alone.look()
    alone.api.change(SECRETS.plural, "demo-ca", {"metadata": {"labels": {"x": "y"}}})
    with pytest.raises(ExceptionGroup) as caught:
        await alone.actor.perform(AdoptReplicas(("cp-1",)), observation)
    assert caught.group_contains(Conflict)
    assert controller(alone, "machines", "cp-1") is None
