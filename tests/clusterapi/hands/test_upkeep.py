"""What follows the specification in place: written once, and again only when it changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from quorate.clusterapi.types.names import CLUSTER_SECRET_TYPE, Hook, Label
from quorate.clusterapi.upkeep import maintain
from quorate.kubernetes.errors import Conflict

if TYPE_CHECKING:
    from tests.clusterapi.hands.conftest import World

KCPS = "kubeadmcontrolplanes"


async def upkeep(world: World) -> list[str]:
    """What one round writes."""
    world.log.clear()
    await maintain(world.clients, await world.look())
    return sorted(world.log)


async def test_everything_is_applied_once_after_a_start_and_not_again(three: World) -> None:
    written = await upkeep(three)
    assert [line for line in written if line.startswith("apply")] == [
        *(f"apply devmachines cp-{n} as capi-kubeadmcontrolplane-metadata" for n in (1, 2, 3)),
        *(f"apply kubeadmconfigs cp-{n} as capi-kubeadmcontrolplane-metadata" for n in (1, 2, 3)),
        *(f"apply machines cp-{n} as capi-kubeadmcontrolplane" for n in (1, 2, 3)),
    ]
    assert await upkeep(three) == []


async def test_changed_labels_reach_machines_and_companions(three: World) -> None:
    await upkeep(three)
    three.api.change(KCPS, "demo", {"spec": {"machineTemplate": {"metadata": {"labels": {"team": "b"}}}}})
    assert len(await upkeep(three)) == 9
    for plural in ("machines", "devmachines", "kubeadmconfigs"):
        assert three.api.raw(plural, "cp-2")["metadata"]["labels"]["team"] == "b"


async def test_a_version_change_touches_no_machine(three: World) -> None:
    await upkeep(three)
    three.api.change(KCPS, "demo", {"spec": {"version": "v1.35.0"}})
    assert await upkeep(three) == []


async def test_a_machine_that_is_being_deleted_gets_timeouts_and_nothing_else(three: World) -> None:
    await upkeep(three)
    three.delete_machine("cp-2")
    three.api.change("machines", "cp-2", {"metadata": {"annotations": {Hook.PRE_TERMINATE: None}}})
    template = {"metadata": {"labels": {"team": "b"}}, "spec": {"deletion": {"nodeDrainTimeoutSeconds": 5}}}
    three.api.change(KCPS, "demo", {"spec": {"machineTemplate": template}})
    written = await upkeep(three)
    assert [line for line in written if "cp-2" in line] == ["patch machines cp-2"]
    assert three.api.raw("machines", "cp-2")["spec"]["deletion"] == {"nodeDrainTimeoutSeconds": 5}
    assert not three.holds_hook("cp-2")
    assert await upkeep(three) == []


def lose(world: World, name: str) -> None:
    """A Machine and its companions are gone."""
    for plural in ("machines", "devmachines", "kubeadmconfigs"):
        del world.api.objects[plural, "default", name]


async def test_a_machine_that_has_gone_is_nobodys_trouble(three: World) -> None:
    observation = await three.look()
    lose(three, "cp-2")
    await maintain(three.clients, observation)
    assert not [line for line in three.log if "cp-2" in line]
    assert three.api.names("machines") == ["cp-1", "cp-3"]


async def test_a_machine_that_goes_just_before_it_is_written_is_not_made_again(three: World) -> None:
    observation = await three.look()
    three.api.before["apply"] = lambda: lose(three, "cp-1")
    with pytest.raises(
        ExceptionGroup
    ) as caught:  # the API answers an apply with the uid of nothing with a conflict; the reconciler knows it
        await maintain(three.clients, observation)
    assert caught.group_contains(Conflict)
    assert three.api.names("machines") == ["cp-2", "cp-3"]


async def test_secrets_that_cluster_api_made_become_ours_and_those_of_users_stay_theirs(three: World) -> None:
    theirs = [{"apiVersion": "v1", "kind": "Other", "name": "o", "uid": "1", "controller": True}]
    rest = [{"apiVersion": "v1", "kind": "Cluster", "name": "demo", "uid": "2"}]
    labels = {Label.CLUSTER_NAME: "demo"}
    three.api.put(
        "secrets", {"metadata": {"name": "demo-ca", "labels": labels, "ownerReferences": theirs + rest}, "type": CLUSTER_SECRET_TYPE}
    )
    three.api.put("secrets", {"metadata": {"name": "demo-etcd", "labels": labels}, "type": "Opaque"})
    await upkeep(three)
    owners = three.api.raw("secrets", "demo-ca")["metadata"]["ownerReferences"]
    assert [(owner["kind"], owner.get("controller")) for owner in owners] == [("Cluster", None), ("KubeadmControlPlane", True)]
    assert "ownerReferences" not in three.api.raw("secrets", "demo-etcd")["metadata"]
    assert await upkeep(three) == []


async def test_the_template_belongs_to_the_cluster_beside_its_other_owners(three: World) -> None:
    other = {"apiVersion": "v1", "kind": "Other", "name": "o", "uid": "1"}
    three.api.change("devmachinetemplates", "small", {"metadata": {"ownerReferences": [other]}})
    await upkeep(three)
    owners = three.api.raw("devmachinetemplates", "small")["metadata"]["ownerReferences"]
    assert [owner["uid"] for owner in owners] == ["1", "cluster-uid"]
    assert await upkeep(three) == []


async def test_owners_are_not_written_over_a_change(three: World) -> None:
    observation = await three.look()
    three.api.change("devmachinetemplates", "small", {"metadata": {"labels": {"a": "b"}}})
    with pytest.raises(ExceptionGroup) as caught:
        await maintain(three.clients, observation)
    assert caught.group_contains(Conflict)


async def test_an_intent_left_over_by_a_crash_is_cleared(three: World) -> None:
    three.api.change(KCPS, "demo", {"metadata": {"annotations": {"quorate.dev/creating": '{"name": "cp-1"}'}}})
    assert "patch kubeadmcontrolplanes demo" in await upkeep(three)
    assert "quorate.dev/creating" not in three.annotations(KCPS, "demo")
