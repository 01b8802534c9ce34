"""Members that leave: behind the gate of a ring read for it, through one that stays, leadership moved before; and Nodes of hosts that are gone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from quorate.core.checks import failed, passed
from quorate.core.health import Absent, Finding, Health
from quorate.core.hosts.state import MissedProbes, Node
from quorate.core.hosts.steps import DeleteNode, RemoveMember, Step
from quorate.core.ring import Ring
from quorate.etcd.errors import Refused
from quorate.hosts.act.executor import Executor
from quorate.hosts.act.failures import StepFailed
from quorate.hosts.act.rings import require
from quorate.kubernetes.client import Client
from tests.hosts.act.running import api_of, cluster, tools
from tests.hosts.act.world import FakeEtcd, World
from tests.hosts.probe.machine import NOW


def id_of(world: World, name: str) -> int:
    return next(member.id for member in world.members if member.name == name)


def names(world: World) -> set[str]:
    return {member.name for member in world.members}


async def done(world: World, step: Step) -> World:
    await Executor(tools(world)).carry_out(step, world.observed())
    return world


async def test_a_member_leaves_a_ring_that_bears_it() -> None:
    world = cluster()
    await done(world, RemoveMember(id_of(world, "h3"), "h3"))
    assert names(world) == {"h1", "h2"}


async def test_to_remove_it_again_changes_nothing() -> None:
    world = cluster()
    step = RemoveMember(id_of(world, "h3"), "h3")
    await done(world, step)
    await done(world, step)
    assert names(world) == {"h1", "h2"}


async def test_a_leader_hands_over_before_it_leaves_and_another_removes_it() -> None:
    world = cluster()
    await done(world, RemoveMember(id_of(world, "h1"), "h1"))
    assert names(world) == {"h2", "h3"}
    assert any("handing etcd's leadership to" in what for _, what in world.reports)


async def test_a_leader_whose_host_was_taken_out_of_the_manifest_hands_over_too() -> None:
    world = cluster()
    leader = id_of(world, "h3")
    world.members.sort(key=lambda member: member.id != leader)
    world.take_out("h3")
    await done(world, RemoveMember(leader, "h3"))
    assert names(world) == {"h1", "h2"}
    assert not any("leadership stays" in what for _, what in world.reports)


async def test_a_silent_member_is_removed_although_its_host_is_gone() -> None:
    world = cluster()
    world.unreachable.add("h3")
    await done(world, RemoveMember(id_of(world, "h3"), "h3"))
    assert names(world) == {"h1", "h2"}


async def test_a_member_that_answers_again_is_not_removed_as_a_dead_one() -> None:
    world = cluster()
    dead = id_of(world, "h3")
    seen = world.observed()
    silent = replace(seen, cluster=replace(seen.cluster, members_missed_probes=((dead, MissedProbes(3, NOW)),)))
    with pytest.raises(StepFailed, match="h3 answers again"):
        await Executor(tools(world)).carry_out(RemoveMember(dead, "h3"), silent)
    assert names(world) == {"h1", "h2", "h3"}
    world.unreachable.add("h3")
    await Executor(tools(world)).carry_out(RemoveMember(dead, "h3"), silent)
    assert names(world) == {"h1", "h2"}


async def test_a_learner_that_was_made_a_voter_meanwhile_is_not_removed_as_one_that_was_given_up() -> None:
    world = cluster()
    seen = world.observed()
    learner = id_of(world, "h3")
    ring = seen.cluster.ring
    assert isinstance(ring, Ring)
    then = Ring(tuple(replace(member, learner=member.id == learner) for member in ring.members), ring.leader)
    with pytest.raises(StepFailed, match="h3 votes now"):
        await Executor(tools(world)).carry_out(RemoveMember(learner, "h3"), replace(seen, cluster=replace(seen.cluster, ring=then)))
    assert names(world) == {"h1", "h2", "h3"}


async def test_no_member_leaves_when_no_host_of_the_manifest_holds_the_data_any_more() -> None:
    world = cluster()
    seen = world.observed()
    hosts = tuple(replace(host, member=Absent()) if host.name != "h3" else host for host in seen.cluster.hosts)
    with pytest.raises(StepFailed, match="a host of the manifest holds the data"):
        await Executor(tools(world)).carry_out(
            RemoveMember(id_of(world, "h3"), "h3"), replace(seen, cluster=replace(seen.cluster, hosts=hosts))
        )
    assert names(world) == {"h1", "h2", "h3"}


async def test_no_member_that_is_well_leaves_while_another_is_silent() -> None:
    world = cluster()
    world.unreachable.add("h3")
    with pytest.raises(StepFailed, match="quorum survives the removal"):
        await done(world, RemoveMember(id_of(world, "h2"), "h2"))
    assert names(world) == {"h1", "h2", "h3"}


async def test_a_removal_that_etcd_refuses_for_now_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    world, refusals = cluster(), [Refused("h1", "UNAVAILABLE", "unhealthy cluster")]
    removing = FakeEtcd.remove_member

    async def refusing(self: FakeEtcd, member_id: int) -> None:
        if refusals:
            raise refusals.pop()
        await removing(self, member_id)

    monkeypatch.setattr(FakeEtcd, "remove_member", refusing)
    await done(world, RemoveMember(id_of(world, "h3"), "h3"))
    assert names(world) == {"h1", "h2"}


async def test_a_node_goes_when_its_member_has_left() -> None:
    world = cluster()
    with pytest.raises(StepFailed, match="etcd has its member h3"):
        await done(world, DeleteNode("h3"))
    await done(world, RemoveMember(id_of(world, "h3"), "h3"))
    await done(world, DeleteNode("h3"))
    await done(world, DeleteNode("h3"))
    assert "h3" not in world.api.below("/api/v1/nodes")


def running_on(world: World, node: str) -> list[str]:
    api_of(world).pod("default", "web", node)
    api_of(world).put(f"/api/v1/nodes/{node}", {"status": {"conditions": [{"type": "Ready", "status": "True"}]}})
    world.api.log.clear()
    return world.api.log


async def test_the_pods_of_a_node_that_is_to_be_drained_are_evicted_before_it_goes() -> None:
    world = cluster()
    log = running_on(world, "gone")
    await done(world, DeleteNode("gone", drain=True))
    await done(world, DeleteNode("gone", drain=True))
    assert log == ["PATCH /api/v1/nodes/gone", "POST /api/v1/namespaces/default/pods/web/eviction", "DELETE /api/v1/nodes/gone"]


async def test_a_pod_that_may_not_leave_keeps_the_node_and_is_named() -> None:
    world = cluster()
    running_on(world, "gone")
    api_of(world).budgets["web"] = "The disruption budget web needs 1 healthy pods and has 1 currently"
    with pytest.raises(StepFailed, match="disruption budget web needs 1"):
        await done(world, DeleteNode("gone", drain=True))
    assert "gone" in world.api.below("/api/v1/nodes")


async def test_pods_of_a_machine_that_is_gone_meanwhile_are_not_waited_for() -> None:
    world = cluster()
    running_on(world, "gone")
    api_of(world).lingering.add("web")
    api_of(world).objects["/api/v1/nodes/gone"]["status"]["conditions"][0]["status"] = "Unknown"
    await done(world, DeleteNode("gone", drain=True))
    assert "gone" not in world.api.below("/api/v1/nodes")
    assert any("not waited for" in what for _, what in world.reports)


async def test_a_node_of_no_host_goes_unless_a_member_has_its_name() -> None:
    world = cluster()
    world.api.put("/api/v1/nodes/gone", {})
    await done(world, DeleteNode("gone"))
    assert "gone" not in world.api.below("/api/v1/nodes")


def with_node(world: World, name: str, *, ready: str, address: str = "10.0.0.77", **spec: Any) -> None:
    """The Node as the API has it now."""
    status = {"conditions": [{"type": "Ready", "status": ready}], "addresses": [{"type": "InternalIP", "address": address}]}
    world.api.put(f"/api/v1/nodes/{name}", {"spec": spec, "status": status})


def deciding(world: World, name: str, health: Health, *, lost: bool = True) -> Any:
    """What was observed when it was decided that the Node goes."""
    seen = world.observed()
    others = (Node(name, Finding(health, "NodeReady")),)
    return replace(seen, cluster=replace(seen.cluster, other_nodes=others, lost_nodes=(name,) if lost else ()))


def test_a_last_look_that_asks_nothing_lets_nothing_pass() -> None:
    with pytest.raises(StepFailed, match="h1: not done, since no check was made right before the step"):
        require("h1", ())
    require("h1", iter((passed("it is safe", "as it was"),)))
    with pytest.raises(StepFailed, match="h1: not done, since it is safe: no more"):
        require("h1", iter((passed("it is safe", "as it was"), failed("it is safe", "no more", "Look again."))))


async def test_a_node_that_is_ready_again_when_it_is_to_go_stays() -> None:
    world = cluster()
    with_node(world, "gone", ready="True")
    with pytest.raises(StepFailed, match="was not ready when that was decided, and is ready now"):
        await Executor(tools(world)).carry_out(DeleteNode("gone"), deciding(world, "gone", Health.UNKNOWN))
    assert "gone" in world.api.below("/api/v1/nodes")
    await Executor(tools(world)).carry_out(DeleteNode("gone"), deciding(world, "gone", Health.GOOD))
    assert "gone" not in world.api.below("/api/v1/nodes")


@pytest.mark.parametrize("drain", [False, True])
async def test_a_node_that_has_the_address_of_its_host_when_it_is_to_go_as_another_machines_stays(drain: bool) -> None:
    world = cluster()
    with_node(world, "h4", ready="True", address=world.hosts["h4"].address)
    world.api.log.clear()
    with pytest.raises(StepFailed, match="has an address of host h4 now"):
        await Executor(tools(world)).carry_out(DeleteNode("h4", drain=drain), deciding(world, "h4", Health.GOOD))
    assert world.api.log == [], "nor is it cordoned"


async def test_a_node_that_was_uncordoned_while_it_was_drained_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    world = cluster()
    with_node(world, "gone", ready="True")

    async def uncordoned(_tools: object, name: str, **_: object) -> None:
        world.api.objects[f"/api/v1/nodes/{name}"]["spec"] = {}

    monkeypatch.setattr("quorate.hosts.act.ring.drain", uncordoned)
    with pytest.raises(StepFailed, match="was uncordoned since it was drained"):
        await Executor(tools(world)).carry_out(DeleteNode("gone", drain=True), deciding(world, "gone", Health.GOOD))
    assert "gone" in world.api.below("/api/v1/nodes")


async def test_a_node_that_changes_between_the_read_and_its_deletion_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    world = cluster()
    with_node(world, "gone", ready="Unknown")
    deleting = Client.delete

    async def late(self: Client, *arguments: Any, **named: Any) -> Any:
        if named["resource_version"] == "1":
            with_node(world, "gone", ready="True")
            world.api.objects["/api/v1/nodes/gone"]["metadata"]["resourceVersion"] = "2"
        return await deleting(self, *arguments, **named)

    monkeypatch.setattr(Client, "delete", late)
    with pytest.raises(StepFailed, match="is ready now"):
        await Executor(tools(world)).carry_out(DeleteNode("gone"), deciding(world, "gone", Health.UNKNOWN))
    assert "gone" in world.api.below("/api/v1/nodes")
