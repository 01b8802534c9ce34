"""A name or an address that a host had before is another one's now, and that one's member cannot be asked for a moment: it is its own all the same."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import msgspec
import pytest

from quorate.clusterapi.act.refusal import Refused
from quorate.clusterapi.observe.ring import match
from quorate.core.health import Absent, Health, Unknown
from quorate.core.machines.decide import decide
from quorate.core.machines.steps import RemoveMember
from quorate.core.ring import Member, Ring
from quorate.kubernetes.objects import Node
from quorate.workload.membership import RingReading

from .test_somebodys_members import Answering, answer

if TYPE_CHECKING:
    from .conftest import World

ADDRESS = "10.0.0.7"


def node(name: str, *addresses: str, ready: str = "True") -> Node:
    status = {
        "conditions": [{"type": "Ready", "status": ready}],
        "addresses": [{"type": "InternalIP", "address": address} for address in addresses],
    }
    return msgspec.convert({"metadata": {"name": name}, "status": status}, Node)


def reading(*members: Member, answers: dict[str, int] | None = None) -> RingReading:
    return RingReading(Ring(members, 1), 1, (), answers or {}, "n", None)  # type: ignore[arg-type]


def silent(number: int, name: str, address: str) -> Member:
    return Member(number, name, Health.UNKNOWN, peer_urls=(f"https://{address}:2380",))


def used_again(world: World, *, old: str, new: str, member: int) -> Answering:
    """The Node of `old` has the address still by which `new` joined; the kubelet of `new` does not answer for a moment, and its member votes."""
    workload = answer(world)
    for name in (old, new):
        workload.node_list[:] = [node for node in workload.node_list if node.metadata.name != name]
        world.add_node(name, addresses=(ADDRESS,))
    workload.members[member] = Member(member, new, Health.GOOD, peer_urls=(f"https://{ADDRESS}:2380",))
    workload.silent.add(old)
    workload.cut.add(new)
    return workload


async def test_one_whose_address_another_node_had_before_is_not_proven_without_a_member(three: World) -> None:
    used_again(three, old="cp-1", new="cp-3", member=3).leader = 2
    view = (await three.look()).view
    assert view is not None
    assert {replica.name: replica.member for replica in view.replicas} == {"cp-1": 1, "cp-2": 2, "cp-3": 3}


async def test_one_whose_address_another_node_had_before_is_not_let_go_with_the_quorum(three: World) -> None:
    """cp-1 is down; cp-2 and cp-3 are the quorum."""
    used_again(three, old="cp-1", new="cp-3", member=3).leader = 2
    three.delete_machine("cp-3")
    observation = await three.look()
    assert observation.view is not None
    step = decide(observation.view, three.now).step
    if step is not None:  # the last look has to refuse it
        with pytest.raises(Refused):
            await three.actor.perform(step, observation)
    assert three.holds_hook("cp-3")


async def test_its_member_is_not_removed_with_the_machine_that_had_the_address_before(three: World) -> None:
    for number in (4, 5):
        three.add_machine(f"cp-{number}", member=number)
    three.api.change("kubeadmcontrolplanes", "demo", {"spec": {"replicas": 5}})
    workload = used_again(three, old="cp-2", new="cp-1", member=1)
    three.api.change("machines", "cp-2", {"metadata": {"creationTimestamp": "2026-01-01T10:00:00Z"}})
    workload.leader = 3
    three.delete_machine("cp-2")
    await three.look()
    three.now += timedelta(minutes=5)
    observation = await three.look()
    assert observation.view is not None
    assert decide(observation.view, three.now).step == RemoveMember("cp-2", 2)


def test_a_silent_member_that_has_the_address_of_two_is_neithers_to_lose() -> None:
    machines: dict[str, Node | None] = {"a": node("node-a", ADDRESS), "b": node("node-b", ADDRESS), "c": node("node-c", "10.0.0.3")}
    found = match(reading(silent(5, "", ADDRESS)), machines)
    assert {found.of["a"], found.of["b"]} == {found.of["a"]}
    assert isinstance(found.of["a"], Unknown)
    assert found.of["a"].reason == "member 5 (never started) has the address of the Nodes node-a and node-b"
    assert [orphan.id for orphan in found.orphans] == [5]
    assert found.contested == {5: ("a", "b")}


def test_one_that_a_silent_member_fits_is_not_proven_without_though_another_has_its_name() -> None:
    machines: dict[str, Node | None] = {"a": node("node-a", ADDRESS), "b": node("node-b", ADDRESS)}
    found = match(reading(silent(5, "node-b", ADDRESS)), machines)
    assert found.of["b"] == 5
    assert isinstance(found.of["a"], Unknown)
    assert found.of["a"].reason == "member node-b has its address and may be its own"
    assert match(reading(silent(5, "node-b", ADDRESS), answers={"node-b": 5}), machines).of == {"a": Absent(), "b": 5}


@pytest.mark.parametrize("answers", [{}, {"node-z": 5}], ids=["by its name", "by its answer"])
@pytest.mark.parametrize("machine", [node("node-a", ADDRESS), None], ids=["with the address", "without a Node"])
def test_the_member_of_a_node_without_a_machine_is_no_machines(machine: Node | None, answers: dict[str, int]) -> None:
    nobodys = node("node-z", ADDRESS)
    name = "a" if machine else "node-z"
    found = match(reading(silent(5, "node-z", ADDRESS), answers=answers), {name: machine}, {"node-z": nobodys})
    assert [orphan.id for orphan in found.orphans] == [5]
    assert found.of[name] == Absent() if machine and answers else isinstance(found.of[name], Unknown)
    assert found.homes == {5: nobodys}


def test_a_silent_member_that_has_the_address_of_a_machine_and_of_a_node_without_one_may_be_of_either() -> None:
    nobodys = node("node-z", ADDRESS)
    found = match(reading(silent(5, "", ADDRESS)), {"a": node("node-a", ADDRESS)}, {"node-z": nobodys})
    assert isinstance(found.of["a"], Unknown)
    assert found.contested == {5: ("a",)}
    assert found.homes == {5: nobodys}


def test_of_nodes_without_a_machine_that_have_its_address_a_silent_member_lives_on_the_one_that_is_ready() -> None:
    others: dict[str, Node | Unknown] = {"old": node("old", ADDRESS, ready="Unknown"), "new": node("new", ADDRESS)}
    assert match(reading(silent(5, "", ADDRESS)), {}, others).homes == {5: others["new"]}


@pytest.mark.parametrize("told", [True, False], ids=["core has told the Machine its Node", "core has not"])
async def test_the_member_on_the_node_of_another_host_is_not_removed_with_the_machine_that_had_its_name(three: World, told: bool) -> None:
    """A backup has the Machine of the host that had the name before: another providerID makes another host (S17)."""
    three.workload.node_list[:] = [node for node in three.workload.node_list if node.metadata.name != "cp-3"]
    three.add_node("cp-3", provider_id="test:///the-host-that-has-the-name-now")
    three.workload.answers = {f"cp-{number}": number for number in (1, 2, 3)}
    if told:
        three.api.change("machines", "cp-3", {"status": {"nodeRef": {"name": "cp-3"}}})
    three.delete_machine("cp-3")
    observation = await three.look()
    assert observation.view is not None
    assert [(orphan.member.id, orphan.node) for orphan in observation.view.orphans] == [(3, "cp-3")]
    step = decide(observation.view, three.now).step
    assert not isinstance(step, RemoveMember)
    if step is not None:
        await three.actor.perform(step, observation)
    assert 3 in three.workload.members


@pytest.mark.parametrize("ours", ["", "test:///cp-3"], ids=["the Machine", "the Node"])
async def test_one_of_which_either_has_no_provider_id_yet_keeps_its_node(three: World, ours: str) -> None:
    three.workload.node_list[:] = [node for node in three.workload.node_list if node.metadata.name != "cp-3"]
    three.add_node("cp-3", provider_id="" if ours else "test:///late")
    three.api.change("machines", "cp-3", {"status": {"nodeRef": {"name": "cp-3"}}})
    three.api.change("devmachines", "cp-3", {"spec": {"providerID": ours}})
    view = (await three.look()).view
    assert view is not None
    assert (view.replica("cp-3").node, view.replica("cp-3").member) == ("cp-3", 3)
