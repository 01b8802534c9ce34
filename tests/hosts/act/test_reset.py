"""A host is reset only when the ring, read for it, has no member of it: etcd's data may be the only copy there is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from quorate.core.hosts.steps import Reset
from quorate.etcd.client import Member
from quorate.hosts.act.executor import Executor
from quorate.hosts.act.failures import StepFailed
from quorate.hosts.act.reset import clean
from quorate.hosts.probe.facts import HostFacts
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
    await Executor(tools_for(world)).carry_out(Reset("h3"), world.observed())


async def test_a_host_without_a_member_is_freed_of_everything(world: World) -> None:
    await reset(world)
    assert was_reset(world)
    assert world.hosts["h3"].files == {}


@pytest.mark.parametrize("learner", [True, False])
async def test_a_host_whose_member_came_into_the_ring_meanwhile_is_left_alone(world: World, *, learner: bool) -> None:
    decided = world.observed()
    world.members.append(Member(99, "", ("https://10.0.0.3:2380",), learner=learner))
    with pytest.raises(StepFailed, match="not reset, since etcd has its member"):
        await Executor(tools_for(world)).carry_out(Reset("h3"), decided)
    assert not was_reset(world)


async def test_a_host_that_has_taken_a_strangers_name_but_not_its_address_is_reset(world: World) -> None:
    world.members.append(Member(98, "h3", ("https://10.0.0.99:2380",)))
    await reset(world)
    assert was_reset(world)


async def test_a_ring_that_cannot_be_read_resets_nobody(world: World) -> None:
    decided = world.observed()
    world.unreachable = {"h1", "h2"}
    with pytest.raises(StepFailed, match="the ring cannot be read"):
        await Executor(tools_for(world)).carry_out(Reset("h3"), decided)
    assert not was_reset(world)


@pytest.mark.parametrize("address", ["10.0.0.2", "10.0.0.99"])
async def test_a_host_whose_own_data_are_those_of_a_member_elsewhere_is_left_alone(world: World, address: str) -> None:
    """Whatever the manifest says of its address: it says it wrongly."""
    decided = world.observed()
    if address == "10.0.0.99":
        world.members.append(Member(98, "h3", (f"https://{address}:2380",)))
    world.hosts["h3"].data_of = (98 if address == "10.0.0.99" else 12, 7)
    with pytest.raises(
        StepFailed, match=f"h3 is etcd member .* which the ring has at {address}.* but the manifest says that h3 is at 10.0.0.3"
    ):
        await Executor(tools_for(world)).carry_out(Reset("h3"), decided)
    assert not was_reset(world)


async def test_a_host_whose_own_etcd_answers_apart_from_the_ring_is_left_alone(world: World) -> None:
    world.apart["h3"] = 97
    with pytest.raises(StepFailed, match="its own etcd answers as member 61, which is not in the ring"):
        await reset(world)
    assert not was_reset(world)


async def test_a_host_whose_log_cannot_be_read_is_left_alone(world: World) -> None:
    world.hosts["h3"].data_of = (0, 0)
    with pytest.raises(StepFailed, match="whose the etcd data in /var/lib/etcd are is not known"):
        await reset(world)
    assert not was_reset(world)


async def test_nobody_is_reset_while_the_others_have_no_quorum_of_healthy_voters(world: World) -> None:
    world.members += [Member(96, "gone", ("https://10.0.0.96:2380",)), Member(97, "lost", ("https://10.0.0.97:2380",))]
    with pytest.raises(StepFailed, match="quorum survives the reset: 2 of 4 voters healthy"):
        await reset(world)
    assert not was_reset(world)


@pytest.mark.parametrize("folder", ["/data", "/srv/../etc", "/srv/$(x)/etcd", "srv/etcd", "/srv/e tcd"])
async def test_a_folder_that_nothing_should_be_deleted_from_is_refused(world: World, folder: str) -> None:
    world.hosts["h3"].data_folder = folder
    with pytest.raises(StepFailed, match="it is not known where its etcd data are"):
        await reset(world)
    assert not was_reset(world)


async def test_the_folder_that_is_emptied_is_the_hosts(world: World) -> None:
    world.hosts["h3"].data_folder = "/srv/data/etcd"
    await reset(world)
    assert any(script.startswith("data=/srv/data/etcd\n") for script in world.hosts["h3"].scripts)


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
        await Executor(tools_for(world)).carry_out(Reset("h3"), decided)
    assert (failed.value.where, failed.value.cause) == ("h3", "no answer")


async def test_whose_cluster_ends_is_freed_of_the_data_where_they_were_seen(world: World) -> None:
    """Its manifest of etcd was moved away, which alone says on the host that they are not where kubeadm puts them."""
    seen = world.observed()
    facts = seen.facts["h3"]
    assert isinstance(facts, HostFacts)
    await clean(tools_for(world), "h3", replace(seen, facts={**seen.facts, "h3": replace(facts, etcd_folder="/srv/data/etcd")}))
    assert world.hosts["h3"].probes[-1].startswith("folders=/srv/data/etcd\n")


async def test_the_data_of_another_ring_are_not_emptied_on_a_host_without_a_trace_of_this_cluster(world: World) -> None:
    """The ring of this cluster cannot say of another one's member that it left."""
    del world.hosts["h3"].files[KUBELET]
    world.hosts["h3"].data_of = (5, 0xABC)
    with pytest.raises(StepFailed, match="not known to be this cluster's: data of etcd cluster abc"):
        await reset(world)
    assert DATA in world.hosts["h3"].files
