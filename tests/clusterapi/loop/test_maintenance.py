"""What follows the specification in place: written once, and again only when it changes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from quorate.clusterapi.act.maintenance import maintain
from quorate.clusterapi.types.names import CLUSTER_SECRET_TYPE, Hook, Label
from quorate.kubernetes.errors import Conflict, Forbidden

if TYPE_CHECKING:
    from tests.clusterapi.loop.conftest import World

KCPS = "kubeadmcontrolplanes"


async def maintenance(world: World) -> list[str]:
    """What one round writes."""
    world.log.clear()
    await maintain(world.clients, await world.look())
    return sorted(world.log)


async def test_everything_is_applied_once_after_a_start_and_not_again(three: World) -> None:
    written = await maintenance(three)
    assert [line for line in written if line.startswith("apply")] == [
        *(f"apply devmachines cp-{n} as capi-kubeadmcontrolplane-metadata" for n in (1, 2, 3)),
        *(f"apply kubeadmconfigs cp-{n} as capi-kubeadmcontrolplane-metadata" for n in (1, 2, 3)),
        *(f"apply machines cp-{n} as capi-kubeadmcontrolplane" for n in (1, 2, 3)),
    ]
    assert await maintenance(three) == []


async def test_changed_labels_reach_machines_and_companions(three: World) -> None:
    await maintenance(three)
    three.api.change(KCPS, "demo", {"spec": {"machineTemplate": {"metadata": {"labels": {"team": "b"}}}}})
    assert len(await maintenance(three)) == 9
    for plural in ("machines", "devmachines", "kubeadmconfigs"):
        assert three.api.raw(plural, "cp-2")["metadata"]["labels"]["team"] == "b"


async def test_a_version_change_touches_no_machine(three: World) -> None:
    await maintenance(three)
    three.api.change(KCPS, "demo", {"spec": {"version": "v1.35.0"}})
    assert await maintenance(three) == []


async def test_a_machine_that_is_being_deleted_gets_timeouts_and_nothing_else(three: World) -> None:
    await maintenance(three)
    three.delete_machine("cp-2")
    three.api.change("machines", "cp-2", {"metadata": {"annotations": {Hook.PRE_TERMINATE: None}}})
    template = {"metadata": {"labels": {"team": "b"}}, "spec": {"deletion": {"nodeDrainTimeoutSeconds": 5}}}
    three.api.change(KCPS, "demo", {"spec": {"machineTemplate": template}})
    written = await maintenance(three)
    assert [line for line in written if "cp-2" in line] == ["patch machines cp-2"]
    assert three.api.raw("machines", "cp-2")["spec"]["deletion"] == {"nodeDrainTimeoutSeconds": 5}
    assert not three.holds_hook("cp-2")
    assert await maintenance(three) == []


async def test_a_machine_that_has_the_name_of_one_that_was_leaving_keeps_its_own_timeouts(three: World) -> None:
    three.delete_machine("cp-2")
    three.api.change(KCPS, "demo", {"spec": {"machineTemplate": {"spec": {"deletion": {"nodeDrainTimeoutSeconds": 5}}}}})
    observation = await three.look()
    three.api.change("machines", "cp-2", {"metadata": {"uid": "restored"}})
    with pytest.raises(ExceptionGroup) as caught:
        await maintain(three.clients, observation)
    assert caught.group_contains(Conflict)
    assert "nodeDrainTimeoutSeconds" not in three.api.raw("machines", "cp-2")["spec"].get("deletion", {})


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
    await maintenance(three)
    owners = three.api.raw("secrets", "demo-ca")["metadata"]["ownerReferences"]
    assert [(owner["kind"], owner.get("controller")) for owner in owners] == [("Cluster", None), ("KubeadmControlPlane", True)]
    assert "ownerReferences" not in three.api.raw("secrets", "demo-etcd")["metadata"]
    assert await maintenance(three) == []


OLDER_OWNER: dict[str, Any] = {
    "apiVersion": "controlplane.cluster.x-k8s.io/v1beta1",
    "kind": "KubeadmControlPlane",
    "name": "demo",
    "uid": "kcp-uid",
    "controller": True,
}


async def test_references_to_owners_by_an_older_version_are_brought_up_to_date(three: World) -> None:
    older = [OLDER_OWNER, {"apiVersion": "v1", "kind": "Other", "name": "o", "uid": "1"}]
    names = ["demo-ca", "demo-etcd", "demo-proxy", "demo-sa", "demo-kubeconfig"]
    for name in names:
        three.api.change("secrets", name, {"metadata": {"ownerReferences": older}})
    cluster = {
        "apiVersion": "cluster.x-k8s.io/v1alpha4",
        "kind": "Cluster",
        "name": "demo",
        "uid": "cluster-uid",
        "blockOwnerDeletion": True,
    }
    three.api.change("devmachinetemplates", "small", {"metadata": {"ownerReferences": [cluster]}})
    await maintenance(three)
    for name in names:
        assert three.api.raw("secrets", name)["metadata"]["ownerReferences"] == [
            older[1],
            older[0] | {"apiVersion": "controlplane.cluster.x-k8s.io/v1beta2", "blockOwnerDeletion": True},
        ]
    (owner,) = three.api.raw("devmachinetemplates", "small")["metadata"]["ownerReferences"]
    assert owner == cluster | {"apiVersion": "cluster.x-k8s.io/v1beta2"}
    assert await maintenance(three) == []


@pytest.mark.parametrize("owner", [OLDER_OWNER, {key: value for key, value in OLDER_OWNER.items() if key != "controller"}])
async def test_a_secret_of_another_type_that_names_us_keeps_naming_us_as_it_did(three: World, owner: dict[str, Any]) -> None:
    """Early releases of Cluster API gave the CAs that they made no type; users give theirs none, and may have them go with the control plane."""
    three.api.change("secrets", "demo-ca", {"type": "Opaque", "metadata": {"ownerReferences": [owner]}})
    await maintenance(three)
    (now,) = three.api.raw("secrets", "demo-ca")["metadata"]["ownerReferences"]
    assert (now["apiVersion"], now.get("controller")) == ("controlplane.cluster.x-k8s.io/v1beta2", owner.get("controller"))
    assert await maintenance(three) == []


async def test_the_reference_of_a_machine_to_its_owner_is_brought_up_to_date(three: World) -> None:
    three.api.change("machines", "cp-1", {"metadata": {"ownerReferences": [OLDER_OWNER]}})
    await maintenance(three)
    (body,) = [body for what, body in three.api.bodies if what.startswith("apply machines cp-1")]
    assert [owner["apiVersion"] for owner in body["metadata"]["ownerReferences"]] == ["controlplane.cluster.x-k8s.io/v1beta2"]


async def test_the_template_belongs_to_the_cluster_beside_its_other_owners(three: World) -> None:
    other = {"apiVersion": "v1", "kind": "Other", "name": "o", "uid": "1"}
    three.api.change("devmachinetemplates", "small", {"metadata": {"ownerReferences": [other]}})
    await maintenance(three)
    owners = three.api.raw("devmachinetemplates", "small")["metadata"]["ownerReferences"]
    assert [owner["uid"] for owner in owners] == ["1", "cluster-uid"]
    assert await maintenance(three) == []


async def test_owners_are_not_written_over_a_change(three: World) -> None:
    observation = await three.look()
    three.api.change("devmachinetemplates", "small", {"metadata": {"labels": {"a": "b"}}})
    with pytest.raises(ExceptionGroup) as caught:
        await maintain(three.clients, observation)
    assert caught.group_contains(Conflict)


async def test_an_intent_left_over_by_a_crash_is_cleared(three: World) -> None:
    three.api.change(KCPS, "demo", {"metadata": {"annotations": {"quorate.dev/creating": '{"name": "cp-1"}'}}})
    assert "patch kubeadmcontrolplanes demo" in await maintenance(three)
    assert "quorate.dev/creating" not in three.annotations(KCPS, "demo")


async def test_a_machine_with_bootstrap_data_of_its_own_keeps_no_other_from_its_hook(three: World) -> None:
    made_by_hand = three.api.raw("machines", "cp-1")
    made_by_hand["spec"]["bootstrap"] = {"dataSecretName": "cp-1"}
    for name in ("cp-1", "cp-3"):
        three.api.change("machines", name, {"metadata": {"annotations": {Hook.PRE_TERMINATE: None}}})
    await maintain(three.clients, await three.look())
    assert three.holds_hook("cp-1")
    assert three.holds_hook("cp-3")
    assert three.api.raw("machines", "cp-1")["spec"]["bootstrap"] == {"dataSecretName": "cp-1"}


async def test_what_cannot_be_written_keeps_nothing_else_from_being_brought_up_to_date(
    three: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_once = three.api.apply

    async def apply(resource: Any, body: Any, *where: Any, **how: Any) -> Any:
        await asyncio.sleep(0.02 if body["metadata"]["name"] == "cp-3" else 0)
        return await at_once(resource, body, *where, **how)

    monkeypatch.setattr(three.api, "apply", apply)
    for name in ("cp-1", "cp-3"):
        three.api.change("machines", name, {"metadata": {"annotations": {Hook.PRE_TERMINATE: None}}})
    three.api.trouble["apply", "kubeadmconfigs"] = Forbidden("kubeadmconfigs: not allowed")
    with pytest.raises(ExceptionGroup) as errors:
        await maintain(three.clients, await three.look())
    assert {str(error) for error in errors.value.exceptions} == {"kubeadmconfigs: not allowed"}
    assert three.holds_hook("cp-1")
    assert three.holds_hook("cp-3")
