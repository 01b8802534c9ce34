"""A host is reset only when the ring, read for it, has no member of it: etcd's data may be the only copy there is."""

from __future__ import annotations

import pytest

from quorate.core.in_place.steps import Reset
from quorate.etcd.client import Member
from quorate.hosts.act.failures import StepFailed
from quorate.hosts.act.hands import Hands
from tests.hosts.act.world import DATA, KUBELET, World, tools_for
from tests.hosts.manifests import document, load


@pytest.fixture
def world() -> World:
    """Three hosts; the first two are control planes, and the third is half joined."""
    made = World(load(document()))
    for name in ("h1", "h2"):
        made.serve(made.hosts[name])
    made.hosts["h3"].files |= {KUBELET: b"", DATA: b"data"}
    return made


def was_reset(world: World) -> bool:
    return "kubeadm reset" in world.hosts["h3"].ran


async def reset(world: World) -> None:
    await Hands(tools_for(world)).carry_out(Reset("h3"), world.observed())


async def test_a_host_without_a_member_is_freed_of_everything(world: World) -> None:
    await reset(world)
    assert was_reset(world)
    assert world.hosts["h3"].files == {}


@pytest.mark.parametrize("learner", [True, False])
async def test_a_host_whose_member_came_into_the_ring_meanwhile_is_left_alone(world: World, *, learner: bool) -> None:
    decided = world.observed()
    world.members.append(Member(99, "", ("https://10.0.0.3:2380",), learner=learner))
    with pytest.raises(StepFailed, match="not reset, since etcd has its member"):
        await Hands(tools_for(world)).carry_out(Reset("h3"), decided)
    assert not was_reset(world)


async def test_a_host_that_has_taken_a_strangers_name_but_not_its_address_is_reset(world: World) -> None:
    world.members.append(Member(99, "h3", ("https://10.0.0.99:2380",)))
    await reset(world)
    assert was_reset(world)


async def test_a_ring_that_cannot_be_read_resets_nobody(world: World) -> None:
    decided = world.observed()
    world.unreachable = {"h1", "h2"}
    with pytest.raises(StepFailed, match="the ring cannot be read"):
        await Hands(tools_for(world)).carry_out(Reset("h3"), decided)
    assert not was_reset(world)


async def test_data_of_a_cluster_that_nobody_else_has_is_not_deleted() -> None:
    world = World(load(document()))
    world.hosts["h3"].files |= {KUBELET: b"", DATA: b"the only copy"}
    with pytest.raises(StepFailed, match="no ring that it could be checked against"):
        await reset(world)
    assert not was_reset(world)


async def test_a_host_without_data_is_reset_where_there_is_no_cluster() -> None:
    world = World(load(document()))
    world.hosts["h3"].files[KUBELET] = b""
    await reset(world)
    assert was_reset(world)


async def test_a_host_that_cannot_be_reached_is_a_failed_step(world: World) -> None:
    decided = world.observed()
    world.unreachable = {"h3"}
    with pytest.raises(StepFailed) as failed:
        await Hands(tools_for(world)).carry_out(Reset("h3"), decided)
    assert (failed.value.where, failed.value.cause) == ("h3", "no answer")
