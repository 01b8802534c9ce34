"""Machines that are somebody else's by now, of which the cache of Machines has yet to hear: whoever had them before destroys nothing of theirs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from quorate.core.machines.steps import CreateReplica, RemoveMember
from tests.clusterapi.loop.test_last_look import refused

if TYPE_CHECKING:
    from quorate.clusterapi.observe.observation import Observation
    from tests.clusterapi.loop.conftest import World
    from tests.clusterapi.loop.management import Json

KCPS = "kubeadmcontrolplanes"
RENAMED = {"apiVersion": "controlplane.cluster.x-k8s.io/v1beta2", "kind": "KubeadmControlPlane", "name": "renamed", "uid": "renamed-uid"}
HANDED_OVER = [{**RENAMED, "controller": True, "blockOwnerDeletion": True}]
GIVEN_UP: list[Json] = []


def hand_over(world: World, name: str, owners: list[Json] = HANDED_OVER) -> None:
    """A Machine is given to another control plane of the Cluster, as somebody does who renames one; or to nobody."""
    world.api.change("machines", name, {"metadata": {"ownerReferences": owners}})


async def late(world: World) -> Observation:
    """What is observed while the watch of Machines is behind."""
    await world.sync(but=("machines",))
    return await world.observe()


@pytest.mark.parametrize(("owners", "whose"), [(HANDED_OVER, "somebody else's"), (GIVEN_UP, "nobody's")])
async def test_no_member_is_removed_of_a_machine_that_was_handed_over(three: World, owners: list[Json], whose: str) -> None:
    three.delete_machine("cp-3")
    await three.sync()
    hand_over(three, "cp-3", owners)
    await refused(three, await late(three), RemoveMember, f"Machine default/cp-3 is {whose} by now")
    assert three.holds_hook("cp-3")


async def test_nor_of_one_that_has_lost_its_label_as_well(three: World) -> None:
    """It is no control-plane Machine any more, for all that its labels and its owner say."""
    three.api.change("machines", "cp-3", {"metadata": {"labels": {"cluster.x-k8s.io/control-plane": None}}})
    three.delete_machine("cp-3")
    await three.sync()
    hand_over(three, "cp-3")
    await refused(three, await late(three), RemoveMember, "Machine default/cp-3 is somebody else's by now")


async def test_no_machine_is_made_beside_one_that_was_handed_over(three: World) -> None:
    three.api.change(KCPS, "demo", {"spec": {"replicas": 5}})
    await three.keep_up()
    hand_over(three, "cp-3")
    await refused(three, await late(three), CreateReplica, "Machine default/cp-3 is somebody else's by now")
