"""A control plane or a Cluster that was deleted and made anew under the same name between two looks: nothing of the one before is its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from quorate.clusterapi.act.maintenance import maintain
from quorate.clusterapi.desired import intent
from quorate.clusterapi.observe import initialization
from quorate.kubernetes.errors import Conflict

from .conftest import kubeadm_control_plane

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.clusterapi.loop.conftest import World

KCPS = "kubeadmcontrolplanes"
BEGUN = '{"name":"cp-1"}'


def make_anew(world: World) -> None:
    """The control plane is another one by now, which has begun to make its first Machine."""
    new = kubeadm_control_plane()
    new["metadata"] |= {"uid": "new-uid", "annotations": {intent.ANNOTATION: BEGUN}}
    world.api.put(KCPS, new)


def make_the_cluster_anew(world: World) -> None:
    world.api.put("clusters", {"metadata": {"name": "demo", "uid": "new-cluster-uid"}})


async def test_what_is_recorded_of_a_control_plane_is_not_recorded_of_its_namesake(three: World) -> None:
    """That its cluster is initialized, and that what it began is done."""
    three.api.change(KCPS, "demo", {"metadata": {"annotations": {intent.ANNOTATION: BEGUN}}})
    observation = await three.look()
    make_anew(three)
    with pytest.raises(ExceptionGroup) as caught:
        await maintain(three.clients, observation)
    assert caught.group_contains(Conflict)
    annotations = three.annotations(KCPS, "demo")
    assert initialization.ANNOTATION not in annotations
    assert annotations[intent.ANNOTATION] == BEGUN


@pytest.mark.parametrize("change", [make_anew, make_the_cluster_anew])
async def test_nothing_is_given_to_an_owner_that_is_gone(three: World, change: Callable[[World], None]) -> None:
    """The garbage collector would delete it: the cluster's CAs, or the template that Machines are made from."""
    for suffix in ("ca", "etcd"):
        three.api.change("secrets", f"demo-{suffix}", {"metadata": {"ownerReferences": None}})
    observation = await three.look()
    change(three)
    three.log.clear()
    try:
        await maintain(three.clients, observation)
    except* Conflict:
        pass
    assert [line for line in three.log if line.startswith(("patch secrets", "patch devmachinetemplates"))] == []


async def test_a_machine_gets_no_time_limits_of_its_namesake(three: World) -> None:
    three.delete_machine("cp-2")
    three.api.change(KCPS, "demo", {"spec": {"machineTemplate": {"spec": {"deletion": {"nodeDrainTimeoutSeconds": 5}}}}})
    observation = await three.look()
    three.api.change("machines", "cp-2", {"metadata": {"uid": "new-uid"}})
    with pytest.raises(ExceptionGroup) as caught:
        await maintain(three.clients, observation)
    assert caught.group_contains(Conflict)
    assert "deletion" not in three.api.raw("machines", "cp-2")["spec"]
