"""Machines that are somebody else's by now, of which the cache of Machines has yet to hear: whoever had them before destroys nothing of theirs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from quorate.clusterapi.act.maintenance import maintain
from quorate.clusterapi.types.names import Finalizer, Label
from quorate.core.machines.decide import decide
from quorate.core.machines.steps import CreateReplica, DeleteAll, RemoveFinalizer, RemoveMember
from quorate.kubernetes.errors import Conflict
from tests.clusterapi.loop.test_last_look import DELETED, leaving, refused, step_of

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


@pytest.mark.parametrize(("owners", "whose"), [(HANDED_OVER, "somebody else's"), (GIVEN_UP, "without an owner")])
async def test_no_member_is_removed_of_a_machine_that_was_handed_over(three: World, owners: list[Json], whose: str) -> None:
    three.delete_machine("cp-3")
    await three.sync()
    hand_over(three, "cp-3", owners)
    await refused(three, await late(three), RemoveMember, f"Machine default/cp-3 is {whose} by now")
    assert three.holds_hook("cp-3")


async def test_nor_of_one_that_has_lost_its_label_as_well(three: World) -> None:
    """It is no control-plane Machine any more, for all that its labels and its owner say."""
    three.api.change("machines", "cp-3", {"metadata": {"labels": {Label.CONTROL_PLANE: None}}})
    three.delete_machine("cp-3")
    await three.sync()
    hand_over(three, "cp-3")
    await refused(three, await late(three), RemoveMember, "Machine default/cp-3 is somebody else's by now")


async def test_no_machine_is_made_beside_one_that_was_handed_over(three: World) -> None:
    three.api.change(KCPS, "demo", {"spec": {"replicas": 5}})
    await three.keep_up()
    hand_over(three, "cp-3")
    await refused(three, await late(three), CreateReplica, "Machine default/cp-3 is somebody else's by now")


async def test_a_control_plane_that_goes_takes_no_machines_along_that_were_handed_over(three: World) -> None:
    for name in ("cp-1", "cp-2", "cp-3"):
        hand_over(three, name)
    three.api.change(KCPS, "demo", DELETED)
    await refused(three, await late(three), DeleteAll, "Machine default/cp-1 is somebody else's by now")


@pytest.mark.parametrize("verb", ["patch", "delete"])
async def test_nor_one_that_is_handed_over_while_the_others_go(three: World, verb: str) -> None:
    three.api.change(KCPS, "demo", DELETED)
    observation = await three.look()
    three.api.before[verb] = lambda: hand_over(three, "cp-1")
    with pytest.raises(ExceptionGroup) as caught:
        await three.actor.perform(await step_of(three, observation), observation)
    assert caught.group_contains(Conflict)
    assert "deletionTimestamp" not in three.api.raw("machines", "cp-1")["metadata"]


async def test_what_others_have_beside_one_that_goes_is_no_matter(three: World) -> None:
    """The Machines of another control plane, and nobody's, that were not seen."""
    three.api.change(KCPS, "demo", DELETED)
    await three.sync()
    for name, owners in (("theirs", HANDED_OVER), ("nobodys", GIVEN_UP)):
        three.add_machine(name)
        hand_over(three, name, owners)
    observation = await late(three)
    await three.actor.perform(await step_of(three, observation), observation)
    assert leaving(three) == ["cp-1", "cp-2", "cp-3"]


@pytest.mark.parametrize("labels", [{}, {Label.CLUSTER_NAME: None}], ids=["labelled", "without the name of its Cluster"])
async def test_the_finalizer_stays_while_there_is_a_machine_that_the_cache_has_yet_to_see(empty: World, labels: Json) -> None:
    """Else it waits at our hook for ever: nobody is left to let it go."""
    await empty.sync()
    empty.add_machine("cp-1", node=False)
    empty.api.change("machines", "cp-1", {"metadata": {"labels": labels}})
    empty.api.change(KCPS, "demo", DELETED)
    await refused(empty, await late(empty), RemoveFinalizer, "Machine default/cp-1 exists: it has yet to be seen")
    assert empty.api.names(KCPS) == ["demo"]


@pytest.mark.parametrize("plural", ["machines", "machinepools"])
async def test_a_control_plane_stays_while_there_are_workers_that_the_cache_has_yet_to_see(three: World, plural: str) -> None:
    three.api.change(KCPS, "demo", DELETED)
    await three.sync()
    three.api.put(plural, {"metadata": {"name": "worker-1", "labels": {Label.CLUSTER_NAME: "demo"}}, "spec": {"clusterName": "demo"}})
    await three.sync(but=(plural,))
    kind = "Machine" if plural == "machines" else "MachinePool"
    await refused(three, await three.observe(), DeleteAll, f"{kind} default/worker-1 exists, and workers go before their control plane")


KEPT = {"metadata": {**DELETED["metadata"], "finalizers": [Finalizer.KUBEADM_CONTROL_PLANE, Finalizer.ORPHAN]}}
"""`kubectl delete kcp demo --cascade=orphan`."""


async def test_machines_that_their_owner_wants_to_keep_stay_with_all_that_is_theirs(three: World) -> None:
    """The garbage collector takes the owner off all of it, and its finalizer off the control plane after that. What got its owner back would go with it."""
    three.api.change(KCPS, "demo", KEPT)
    three.api.change("secrets", "demo-ca", {"metadata": {"ownerReferences": []}})
    observation = await three.look()
    assert observation.view is not None
    assert decide(observation.view, three.now).step is None
    await maintain(three.clients, observation)
    assert three.log == []


async def test_they_stay_when_the_cache_has_yet_to_hear_that_they_are_to_be_kept(three: World) -> None:
    three.api.change(KCPS, "demo", DELETED)
    observation = await three.look()
    three.api.change(KCPS, "demo", KEPT)
    await refused(three, observation, DeleteAll, "was deleted with --cascade=orphan after this was decided: its Machines stay")


async def test_once_they_are_nobodys_the_control_plane_goes_and_waits_for_no_workers(three: World) -> None:
    three.api.put("machines", {"metadata": {"name": "worker-1"}, "spec": {"clusterName": "demo"}})
    for name in ("cp-1", "cp-2", "cp-3"):
        hand_over(three, name, GIVEN_UP)
    three.api.change(KCPS, "demo", DELETED)
    observation = await three.look()
    step = await step_of(three, observation)
    assert isinstance(step, RemoveFinalizer)
    await three.actor.perform(step, observation)
    assert three.api.names(KCPS) == []
    assert leaving(three) == ["worker-1"]  # which never had our hook
    assert all("deletionTimestamp" not in three.api.raw("machines", name)["metadata"] for name in three.api.names("machines"))
