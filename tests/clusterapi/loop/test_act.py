"""The hands: what each step writes, in which order, and when the last look refuses it."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext, suppress
from dataclasses import replace
from datetime import timedelta
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest
import structlog

from quorate.clusterapi.act import etcd_membership
from quorate.clusterapi.act import step as act
from quorate.clusterapi.act.machine_writes import release_hook
from quorate.clusterapi.act.permission import still_permitted
from quorate.clusterapi.act.refusal import Refused
from quorate.clusterapi.desired import intent
from quorate.clusterapi.types.names import Finalizer
from quorate.clusterapi.types.resources import INFRASTRUCTURE_GROUP
from quorate.core.health import Health, Unknown
from quorate.core.machines.state import Kubeconfig
from quorate.core.machines.steps import (
    EVERYTHING,
    AbandonCreation,
    AddFinalizer,
    CreateReplica,
    DeleteAll,
    DeleteReplica,
    EnsureCertificates,
    ReleaseHook,
    Remediate,
    RemoveFinalizer,
    RemoveMember,
    RemoveOrphan,
    Step,
    WriteKubeconfig,
)
from quorate.core.ring import Member
from quorate.etcd.errors import DeadlineExceeded, EtcdError, MemberNotFound, NoLeader, NotLeader, Unreachable
from quorate.etcd.errors import Refused as EtcdRefused
from quorate.kubernetes.controller import Request
from quorate.kubernetes.errors import Conflict, Forbidden
from quorate.pki import rotates_at

if TYPE_CHECKING:
    from quorate.clusterapi.observe.observation import Observation
    from quorate.kubernetes.resource import Resource
    from tests.clusterapi.loop.conftest import World

DEMO = Request("default", "demo")


def test_every_step_has_its_hand() -> None:
    assert act.HANDLERS.keys() == EVERYTHING


async def leaving(world: World, name: str) -> Observation:
    """What is seen once a Machine has been deleted, and waits at our hook."""
    world.delete_machine(name)
    return await world.look()


async def test_a_member_leaves_the_ring_before_its_machine_is_released(three: World) -> None:
    await three.actor.perform(RemoveMember("cp-2", 2), await leaving(three, "cp-2"))
    assert three.log == ["remove_member 2 through cp-1", "patch machines cp-2"]
    assert not three.holds_hook("cp-2")
    assert three.clients.expectations.pending(DEMO)


@pytest.mark.parametrize("writes", [2, 3])
async def test_a_machine_that_core_writes_to_as_its_member_leaves_is_looked_at_anew_and_let_go(
    three: World, monkeypatch: pytest.MonkeyPatch, writes: int
) -> None:
    """Its status, between our last look at it and our write: twice, or every time that we look."""
    observation = await leaving(three, "cp-2")
    left = [writes]

    async def release(*asked: Any) -> str:
        if left[0]:
            left[0] -= 1
            three.api.change("machines", "cp-2", {"status": {"phase": f"Deleting {left[0]}"}})
        return await release_hook(*asked)

    monkeypatch.setattr(etcd_membership, "release_hook", release)
    with pytest.raises(Conflict) if writes == 3 else nullcontext():
        await three.actor.perform(RemoveMember("cp-2", 2), observation)
    assert three.holds_hook("cp-2") is (writes == 3)


async def test_a_leader_passes_leadership_on_before_it_leaves(three: World) -> None:
    await three.actor.perform(RemoveMember("cp-1", 1), await leaving(three, "cp-1"))
    assert three.log == ["move_leader to 2 through cp-1", "remove_member 1 through cp-2", "patch machines cp-1"]


async def test_leadership_that_moved_after_the_observation_is_passed_on_too(three: World) -> None:
    observation = await leaving(three, "cp-2")
    three.workload.leader = 2
    await three.actor.perform(RemoveMember("cp-2", 2), observation)
    assert three.log[0] == "move_leader to 1 through cp-2"


async def test_leadership_goes_to_a_healthy_member_of_a_machine_that_stays(three: World) -> None:
    three.add_machine("cp-4", member=4)
    three.add_machine("cp-5", member=5)
    three.log.clear()
    three.lose(2)
    three.delete_machine("cp-3")
    await three.actor.perform(RemoveMember("cp-1", 1), await leaving(three, "cp-1"))
    assert three.log[0] == "move_leader to 4 through cp-1"


async def test_where_everybody_leaves_leadership_goes_to_one_that_has_yet_to_go(three: World) -> None:
    for name in ("cp-1", "cp-2", "cp-3"):
        three.delete_machine(name)
    await three.actor.perform(RemoveMember("cp-1", 1), await leaving(three, "cp-1"))
    assert three.log[0] == "move_leader to 2 through cp-1"


async def test_leadership_goes_to_one_up_to_date_before_a_newer_one_that_is_not_and_to_the_newest_of_these(three: World) -> None:
    for number in (2, 3):
        three.api.change("machines", f"cp-{number}", {"metadata": {"creationTimestamp": f"2026-01-01T0{number}:00:00Z"}})
    await three.actor.perform(DeleteReplica("cp-1"), await three.look())
    assert three.log[0] == "move_leader to 3 through cp-1"
    three.log.clear()
    three.workload.leader = 1
    three.api.change("machines", "cp-3", {"spec": {"version": "v1.33.0"}})
    await three.actor.perform(DeleteReplica("cp-1"), await three.look())
    assert three.log[0] == "move_leader to 2 through cp-1"


@pytest.mark.parametrize("error", [NotLeader("cp-1", "x"), Unreachable("cp-1", "x"), EtcdRefused("cp-1", "UNAVAILABLE", "x")])
async def test_a_failed_move_of_leadership_holds_nothing_up(three: World, error: EtcdError) -> None:
    three.workload.trouble["move_leader", "cp-1"] = error
    await three.actor.perform(RemoveMember("cp-1", 1), await leaving(three, "cp-1"))
    assert three.log == ["remove_member 1 through cp-2", "patch machines cp-1"]


async def test_a_leader_that_is_not_reached_is_asked_once_and_not_for_each_successor(three: World) -> None:
    three.workload.trouble["move_leader", "cp-1"] = Unreachable("cp-1", "x")
    with structlog.testing.capture_logs() as told:
        await three.actor.perform(RemoveMember("cp-1", 1), await leaving(three, "cp-1"))
    assert [entry["to"] for entry in told if entry["event"] == "leadership was not passed on"] == ["2"]


async def test_a_removal_that_would_break_quorum_by_now_is_refused_and_nothing_is_written(three: World) -> None:
    observation = await leaving(three, "cp-1")
    three.lose(3)
    with pytest.raises(Refused, match="quorum survives the removal: without cp-1"):
        await three.actor.perform(RemoveMember("cp-1", 1), observation)
    assert three.log == []


async def test_a_member_lost_while_leadership_moved_refuses_the_removal(three: World) -> None:
    observation = await leaving(three, "cp-1")
    reads: list[int] = []

    def before_read() -> None:
        reads.append(1)
        if len(reads) == 2:
            three.lose(3)

    three.workload.before_read = before_read
    with pytest.raises(Refused):
        await three.actor.perform(RemoveMember("cp-1", 1), observation)
    assert three.log == ["move_leader to 2 through cp-1"]


async def test_the_last_look_counts_a_machine_that_vanishes_as_lost_as_the_decision_does(three: World) -> None:
    for number in (4, 5):
        three.add_machine(f"cp-{number}", member=number)
    three.log.clear()
    three.delete_machine("cp-2")
    three.api.change("machines", "cp-2", {"metadata": {"annotations": None}})  # somebody took our hook away: it may end at any moment
    observation = await three.look()
    three.lose(3)
    with pytest.raises(Refused):
        await three.actor.perform(RemoveMember("cp-1", 1), observation)
    assert three.log == []


async def test_a_ring_that_cannot_be_read_at_the_instant_of_acting_refuses(three: World) -> None:
    observation = await three.look()
    three.workload.ring_problem = "no leader"
    for step in (RemoveMember("cp-2", 2), ReleaseHook("cp-2")):
        with pytest.raises(Refused, match="right before the step: no leader"):
            await three.actor.perform(step, observation)
    assert three.log == []


async def test_an_empty_ring_proves_nothing(three: World) -> None:
    observation = await leaving(three, "cp-2")
    three.workload.members.clear()
    with pytest.raises(Refused, match="listed no members"):
        await three.actor.perform(RemoveMember("cp-2", 2), observation)
    assert three.log == []


async def test_a_member_that_is_gone_already_is_not_removed_again(three: World) -> None:
    observation = await leaving(three, "cp-2")
    del three.workload.members[2]
    await three.actor.perform(RemoveMember("cp-2", 2), observation)
    assert three.log == ["patch machines cp-2"]


async def test_a_member_that_goes_between_the_look_and_the_removal_is_no_trouble(three: World) -> None:
    three.workload.trouble["remove_member", "cp-1"] = MemberNotFound("cp-1", "member not found")
    await three.actor.perform(RemoveMember("cp-2", 2), await leaving(three, "cp-2"))
    assert three.log == ["patch machines cp-2"]


@pytest.mark.parametrize("error", [Unreachable("cp-1", "x"), NoLeader("cp-1", "x"), DeadlineExceeded("cp-1", "x")])
async def test_a_member_that_does_not_take_the_removal_is_not_the_only_one_asked(three: World, error: EtcdError) -> None:
    three.workload.trouble["remove_member", "cp-1"] = error
    await three.actor.perform(RemoveMember("cp-2", 2), await leaving(three, "cp-2"))
    assert three.log == ["remove_member 2 through cp-3", "patch machines cp-2"]


async def test_a_removal_that_nobody_takes_keeps_the_hook(three: World) -> None:
    for node in ("cp-1", "cp-3"):
        three.workload.trouble["remove_member", node] = Unreachable(node, "refused")
    with pytest.raises(Refused, match="no other member could be asked: etcd on node cp-1: refused; etcd on node cp-3: refused"):
        await three.actor.perform(RemoveMember("cp-2", 2), await leaving(three, "cp-2"))
    assert three.holds_hook("cp-2")


async def test_a_removal_that_etcd_refuses_keeps_the_hook(three: World) -> None:
    three.workload.trouble["remove_member", "cp-1"] = EtcdRefused("cp-1", "UNAVAILABLE", "unhealthy cluster")
    with pytest.raises(EtcdRefused):
        await three.actor.perform(RemoveMember("cp-2", 2), await leaving(three, "cp-2"))
    assert three.log == []


async def test_a_machine_without_a_member_is_released(three: World) -> None:
    three.add_machine("cp-4", node=False)
    three.log.clear()
    await three.actor.perform(ReleaseHook("cp-4"), await leaving(three, "cp-4"))
    assert three.log == ["patch machines cp-4"]


async def test_a_machine_that_has_joined_since_is_not_released(three: World) -> None:
    three.add_machine("cp-4")
    three.log.clear()
    observation = await leaving(three, "cp-4")
    three.workload.members[4] = Member(4, "cp-4", three.workload.members[1].health, learner=True)
    with pytest.raises(Refused, match="cp-4 is no longer proven to have no etcd member: its member is 4"):
        await three.actor.perform(ReleaseHook("cp-4"), observation)
    assert three.log == []


async def test_before_initialization_a_machine_is_released_without_a_ring(empty: World) -> None:
    empty.add_machine("cp-1", node=False, metadata={"annotations": {"quorate.dev/founded-by": "kcp-uid"}})
    empty.workload.kubeadm_config = False
    empty.workload.ring_problem = "nobody there"
    await empty.actor.perform(ReleaseHook("cp-1"), await leaving(empty, "cp-1"))
    assert not empty.holds_hook("cp-1")


@pytest.mark.parametrize("step", [RemoveMember("cp-2", 2), ReleaseHook("cp-2")])
@pytest.mark.parametrize(
    ("restored", "why"),
    [
        (None, "is gone, though nobody let it go"),
        ({"uid": "another"}, "is not the one that this was decided for"),
        ({"deletionTimestamp": None}, "is no longer being deleted"),
    ],
    ids=["of before it was made", "of before it was made anew", "of before it was deleted"],
)
async def test_nothing_leaves_with_a_machine_that_a_backup_of_the_management_cluster_has_otherwise(
    three: World, step: RemoveMember | ReleaseHook, restored: dict[str, Any] | None, why: str
) -> None:
    observation = await about_to(step, three)
    if restored is None:
        del three.api.objects["machines", "default", "cp-2"]
    else:
        three.api.change("machines", "cp-2", {"metadata": restored})
    with pytest.raises(Refused, match=f"Machine default/cp-2 {why}"):
        await three.actor.perform(step, observation)
    assert not destroyed(three)


async def test_no_member_is_removed_of_a_machine_that_was_restored_while_another_member_was_asked(three: World) -> None:
    three.workload.trouble["remove_member", "cp-1"] = Unreachable("cp-1", "x")

    def restore() -> None:
        three.api.change("machines", "cp-2", {"metadata": {"deletionTimestamp": None}})

    three.workload.after_trouble = restore
    with pytest.raises(Refused, match="is no longer being deleted"):
        await three.actor.perform(RemoveMember("cp-2", 2), await leaving(three, "cp-2"))
    assert three.log == []


async def test_a_replica_is_deleted_as_it_was_seen_after_its_leadership_has_moved(three: World) -> None:
    metadata = three.api.raw("machines", "cp-1")["metadata"]
    await three.actor.perform(DeleteReplica("cp-1"), await three.look())
    assert three.log == ["move_leader to 2 through cp-1", "delete machines cp-1"]
    assert three.api.bodies[-1][1] == {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
    assert three.clients.expectations.pending(DEMO)
    await three.sync()
    assert not three.clients.expectations.pending(DEMO)  # the finalizer keeps the Machine, and the cache has seen that it is being deleted


async def test_a_machine_that_lost_our_hook_since_it_was_seen_is_not_deleted(three: World) -> None:
    observation = await three.look()
    three.api.change("machines", "cp-2", {"metadata": {"annotations": None}})
    with pytest.raises(Conflict):
        await three.actor.perform(DeleteReplica("cp-2"), observation)
    assert three.log == []


async def test_a_replica_is_not_deleted_beside_one_that_began_to_leave_since_it_was_judged(three: World) -> None:
    observation = await three.look()
    three.delete_machine("cp-3", at_hook=False)
    await three.sync()
    with pytest.raises(Refused, match="cp-3 began to leave after this was decided"):
        await three.actor.perform(DeleteReplica("cp-2"), observation)
    assert three.log == []
    await three.actor.perform(DeleteReplica("cp-2"), await three.look())  # who was leaving already was judged
    assert three.log == ["delete machines cp-2"]


OTHERWISE = {"spec": {"version": "v1.35.1"}}  # of the same generation, as a restored specification that was edited may be
PAUSED = {"metadata": {"annotations": {"cluster.x-k8s.io/paused": ""}}}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (OTHERWISE, "default/demo was changed after this was decided"),
        (PAUSED, "default/demo was paused after this was decided"),
        ({"metadata": {"uid": "restored"}}, "default/demo is not the one that this was decided for"),
    ],
)
async def test_a_replica_is_not_deleted_for_a_specification_that_is_not_asked_for_any_more(
    three: World, change: dict[str, Any], why: str
) -> None:
    observation = await three.look()
    three.api.change("kubeadmcontrolplanes", "demo", change)  # which the cache has yet to see
    with pytest.raises(Refused, match=why):
        await three.actor.perform(DeleteReplica("cp-1"), observation)
    assert three.log == []


@pytest.mark.parametrize("change", [OTHERWISE, PAUSED], ids=["changed", "paused"])
@pytest.mark.parametrize("step", [DeleteReplica("cp-1"), Remediate("cp-1", 0)], ids=lambda step: type(step).__name__)
async def test_what_happens_while_leadership_moves_keeps_the_machine(three: World, step: Step, change: dict[str, Any]) -> None:
    def happen() -> None:
        three.api.change("kubeadmcontrolplanes", "demo", change)

    three.workload.after_move = happen
    with pytest.raises(Refused, match="after this was decided"):
        await three.actor.perform(step, await three.look())
    assert not destroyed(three)


async def test_no_leadership_moves_for_a_member_of_what_is_paused(three: World) -> None:
    three.delete_machine("cp-1")
    observation = await three.look()
    three.api.change("clusters", "demo", {"spec": {"paused": True}})
    with pytest.raises(Refused, match="was paused"):
        await three.actor.perform(RemoveMember("cp-1", 1), observation)
    assert three.log == []


async def test_the_last_look_reads_the_control_plane_and_its_cluster_at_once(three: World, monkeypatch: pytest.MonkeyPatch) -> None:
    observation, both, read = await three.look(), asyncio.Barrier(2), three.api.get

    async def met(resource: Resource[Any], name: str, namespace: str = "") -> Any:
        await asyncio.wait_for(both.wait(), 5)
        return await read(resource, name, namespace)

    monkeypatch.setattr(three.api, "get", met)
    await still_permitted(three.clients, observation)


def destroyed(world: World) -> bool:
    """Whether anything was written that nobody can take back: a member or a Machine goes, or what was made for one."""
    return any(line.startswith(("remove_member", "delete", "patch machines")) for line in world.log)


DESTRUCTIVE = [
    pytest.param(step, id=type(step).__name__)
    for step in (
        DeleteReplica("cp-2"),
        RemoveMember("cp-2", 2),
        ReleaseHook("cp-2"),
        RemoveOrphan(9),
        Remediate("cp-2", 0),
        DeleteAll(("cp-2",)),
        AbandonCreation("cp-9"),
        CreateReplica("b", initialize=False),  # in the place of cp-9, which was begun as something else
    )
]


async def begin_a_creation(world: World) -> None:
    """A process dies once it has made what cp-9 is to have, and before cp-9."""
    begun = intent.Intent("cp-9", template=f"DevMachineTemplate.{INFRASTRUCTURE_GROUP}/small")
    world.api.change("kubeadmcontrolplanes", "demo", {"metadata": intent.patch("", begun)["metadata"]})
    world.api.trouble["apply", "machines"] = Conflict("it dies here")
    with pytest.raises(Conflict):
        await world.actor.perform(CreateReplica("", initialize=False), await world.look())
    del world.api.trouble["apply", "machines"]
    assert "cp-9" in world.api.names("devmachines")
    assert "cp-9" in world.api.names("kubeadmconfigs")
    world.log.clear()


async def about_to(step: Step, world: World) -> Observation:
    """The observation by which such a step may be taken."""
    if isinstance(step, RemoveOrphan):
        return await aged_orphan(world)
    if isinstance(step, (AbandonCreation, CreateReplica)):
        await begin_a_creation(world)
    if isinstance(step, ReleaseHook):
        del world.workload.members[2]
    if isinstance(step, (ReleaseHook, RemoveMember)):
        world.delete_machine(step.replica)
    return await world.look()


@pytest.mark.parametrize("step", DESTRUCTIVE)
async def test_what_is_destroyed_if_nothing_objects(three: World, step: Step) -> None:
    await three.actor.perform(step, await about_to(step, three))
    assert destroyed(three)


@pytest.mark.parametrize("step", DESTRUCTIVE)
@pytest.mark.parametrize(
    ("plural", "pause"),
    [("clusters", {"spec": {"paused": True}}), ("kubeadmcontrolplanes", {"metadata": {"annotations": {"cluster.x-k8s.io/paused": ""}}})],
    ids=["clusterctl move pauses the Cluster", "a user pauses the control plane"],
)
async def test_nothing_is_destroyed_once_somebody_has_paused_it(three: World, step: Step, plural: str, pause: dict[str, Any]) -> None:
    observation = await about_to(step, three)
    three.api.change(plural, "demo", pause)  # which the cache has yet to see
    with pytest.raises((Refused, Conflict)):
        await three.actor.perform(step, observation)
    assert not destroyed(three)


@pytest.mark.parametrize("step", DESTRUCTIVE)
@pytest.mark.parametrize(("change", "told"), [("gone", "gone"), ("another", "not the one")])
async def test_nothing_is_destroyed_for_a_cluster_that_is_gone_or_another(three: World, step: Step, change: str, told: str) -> None:
    observation = await about_to(step, three)
    del three.api.objects["clusters", "default", "demo"]
    if change == "another":
        three.api.put("clusters", {"metadata": {"name": "demo", "uid": "restored"}})
    with pytest.raises(Refused, match=f"Cluster default/demo is {told}"):
        await three.actor.perform(step, observation)
    assert not destroyed(three)


def lead_no_more(world: World) -> None:
    """This process was stopped, and is continued when another one leads."""
    world.leads = False


@pytest.mark.parametrize("step", DESTRUCTIVE)
async def test_nothing_is_destroyed_by_a_process_that_may_lead_no_more(three: World, step: Step) -> None:
    observation = await about_to(step, three)
    lead_no_more(three)
    with pytest.raises(Refused, match="may no longer lead"):
        await three.actor.perform(step, observation)
    assert three.log == []


@pytest.mark.parametrize("step", DESTRUCTIVE)
async def test_nothing_is_destroyed_by_a_process_that_was_stopped_while_it_looked_once_more(three: World, step: Step) -> None:
    observation = await about_to(step, three)
    three.api.before["get"] = lambda: lead_no_more(three)
    with pytest.raises(Refused, match="may no longer lead"):
        await three.actor.perform(step, observation)
    assert not destroyed(three)


@pytest.mark.parametrize("number", range(13))
@pytest.mark.parametrize("step", DESTRUCTIVE)
async def test_nothing_is_written_after_the_read_at_which_a_process_was_stopped(
    three: World, step: Step, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever it was: it goes on when another one leads."""
    observation, reads, meet = await about_to(step, three), count(), three.api._meet

    def stopped_at(verb: str, resource: Resource[Any]) -> None:
        if verb in ("get", "list") and next(reads) == number:
            lead_no_more(three)
            three.log.clear()
        meet(verb, resource)

    monkeypatch.setattr(three.api, "_meet", stopped_at)
    with suppress(Refused, ExceptionGroup):
        await three.actor.perform(step, observation)
    assert three.leads or three.log == []


@pytest.mark.parametrize("step", [DeleteReplica("cp-1"), RemoveMember("cp-1", 1), Remediate("cp-1", 0)])
async def test_nothing_is_destroyed_by_a_process_that_was_stopped_while_leadership_moved(three: World, step: Step) -> None:
    observation = await about_to(step, three)
    three.workload.after_move = lambda: lead_no_more(three)
    with pytest.raises(Refused, match="may no longer lead"):
        await three.actor.perform(step, observation)
    assert three.log[-1] == "move_leader to 2 through cp-1"


async def test_no_member_is_removed_by_a_process_that_was_stopped_while_another_member_was_asked(three: World) -> None:
    three.workload.trouble["remove_member", "cp-1"] = Unreachable("cp-1", "x")
    three.workload.after_trouble = lambda: lead_no_more(three)
    with pytest.raises(Refused, match="may no longer lead"):
        await three.actor.perform(RemoveMember("cp-2", 2), await leaving(three, "cp-2"))
    assert three.log == []


async def test_a_last_look_that_asks_nothing_lets_nothing_pass(three: World) -> None:
    with pytest.raises(Refused, match="no check was made right before the step"):
        await etcd_membership.pass_the_gate(three.clients, await three.look(), lambda _: ())


async def test_a_replica_of_a_control_plane_that_is_gone_is_not_deleted(three: World) -> None:
    observation = await three.look()
    del three.api.objects["kubeadmcontrolplanes", "default", "demo"]
    with pytest.raises(Refused, match="default/demo is gone"):
        await three.actor.perform(DeleteReplica("cp-1"), observation)
    assert three.log == []


async def test_a_leader_without_a_node_is_not_dialled(three: World) -> None:
    observation = await three.look()
    three.workload.node_list.clear()
    homeless = replace(observation, nodes=(), machines=tuple(replace(machine, node=None) for machine in observation.machines))
    await three.actor.perform(DeleteReplica("cp-1"), homeless)
    assert three.log == ["delete machines cp-1"]


async def test_everything_goes_at_once_each_hook_before_its_machine(three: World) -> None:
    three.delete_machine("cp-3")
    await three.actor.perform(DeleteAll(("cp-1", "cp-2", "cp-3")), await three.look())
    assert sorted(three.log) == [
        "delete machines cp-1",
        "delete machines cp-2",
        "patch machines cp-1",
        "patch machines cp-2",
        "patch machines cp-3",
    ]
    for name in ("cp-1", "cp-2"):
        assert three.log.index(f"patch machines {name}") < three.log.index(f"delete machines {name}")
    await three.actor.perform(DeleteAll(("cp-1", "cp-2", "cp-3")), await three.look())  # a repeat is no trouble


async def test_the_finalizer_is_added_beside_those_of_others(empty: World) -> None:
    empty.api.change("kubeadmcontrolplanes", "demo", {"metadata": {"finalizers": ["theirs"]}})
    await empty.actor.perform(AddFinalizer(), await empty.look())
    assert empty.kcp.metadata.finalizers == ["theirs", Finalizer.KUBEADM_CONTROL_PLANE]
    assert empty.clients.expectations.pending(DEMO)


@pytest.mark.parametrize("step", [AddFinalizer(), RemoveFinalizer()])
async def test_finalizers_are_not_written_over_a_change(empty: World, step: Any) -> None:
    observation = await empty.look()
    empty.api.change("kubeadmcontrolplanes", "demo", {"metadata": {"finalizers": ["theirs"]}})
    with pytest.raises(Conflict):
        await empty.actor.perform(step, observation)
    assert empty.kcp.metadata.finalizers == ["theirs"]


async def test_removing_the_finalizer_of_an_object_that_goes_meanwhile_is_no_failure(empty: World) -> None:
    observation = await empty.look()
    empty.api.before["patch"] = lambda: empty.api.objects.__delitem__(("kubeadmcontrolplanes", "default", "demo"))
    await empty.actor.perform(RemoveFinalizer(), observation)
    with pytest.raises(Refused, match="KubeadmControlPlane default/demo is gone"):
        await empty.actor.perform(RemoveFinalizer(), observation)


async def test_only_the_certificates_asked_for_are_made_and_an_existing_secret_stays(empty: World) -> None:
    empty.api.put("secrets", {"metadata": {"name": "demo-etcd"}, "data": {"tls.crt": "bWluZQ=="}})
    await empty.actor.perform(EnsureCertificates(("ca", "etcd")), await empty.look())
    assert empty.api.names("secrets") == ["demo-ca", "demo-etcd"]
    assert empty.api.raw("secrets", "demo-etcd")["data"] == {"tls.crt": "bWluZQ=="}
    made = empty.api.raw("secrets", "demo-ca")
    assert (made["type"], sorted(made["data"])) == ("cluster.x-k8s.io/secret", ["tls.crt", "tls.key"])
    assert made["metadata"]["labels"] == {"cluster.x-k8s.io/cluster-name": "demo"}
    assert made["metadata"]["ownerReferences"][0]["controller"] is True
    assert empty.clients.expectations.pending(DEMO)


async def test_a_kubeconfig_is_written_once_and_keeps_its_server_when_it_is_renewed(empty: World) -> None:
    await empty.actor.perform(EnsureCertificates(("ca",)), await empty.look())
    await empty.actor.perform(WriteKubeconfig(rotate=False), await empty.look())
    await empty.sync()
    secret = empty.caches.secrets.get("default", "demo-kubeconfig")
    assert secret is not None
    first = secret.data["value"]
    assert b"https://10.0.0.1:6443" in first

    empty.api.change("clusters", "demo", {"spec": {"controlPlaneEndpoint": {"host": "10.9.9.9"}}})
    empty.now = rotates_at(first)
    await empty.actor.perform(WriteKubeconfig(rotate=True), await empty.look())
    assert empty.clients.expectations.pending(DEMO)  # or the cache's old one would be renewed again
    await empty.sync()
    secret = empty.caches.secrets.get("default", "demo-kubeconfig")
    assert secret is not None
    assert b"https://10.0.0.1:6443" in secret.data["value"]
    assert rotates_at(secret.data["value"]) > rotates_at(first)


@pytest.mark.parametrize(
    "supplied", [{"metadata": {"ownerReferences": None}}, {"type": "Opaque"}], ids=["without an owner", "of another type"]
)
async def test_a_kubeconfig_that_its_user_has_put_in_the_place_of_ours_is_not_renewed(three: World, supplied: dict[str, Any]) -> None:
    observation = await three.look()
    three.api.change("secrets", "demo-kubeconfig", supplied)
    with pytest.raises(Refused, match="Secret default/demo-kubeconfig was supplied by the user"):
        await three.actor.perform(WriteKubeconfig(rotate=True), observation)
    assert three.log == []
    view = (await three.look()).view
    assert view is not None
    assert view.kubeconfig.write_problem == ""


async def test_a_kubeconfig_that_cannot_be_written_is_remembered_until_it_can(empty: World) -> None:
    async def kubeconfig() -> Kubeconfig:
        view = (await empty.look()).view
        assert view is not None
        return view.kubeconfig

    await empty.actor.perform(EnsureCertificates(("ca",)), await empty.look())
    empty.api.trouble["create", "secrets"] = Forbidden("create secrets: not allowed")
    pauses = []
    for _ in range(3):
        await empty.actor.perform(WriteKubeconfig(rotate=False), await empty.look())
        told = await kubeconfig()
        assert (told.exists, told.write_problem) == (False, "create secrets: not allowed")
        assert told.retry_at is not None
        pauses.append((told.retry_at - empty.now).total_seconds())
    assert pauses == [5, 10, 20]
    del empty.api.trouble["create", "secrets"]
    await empty.actor.perform(WriteKubeconfig(rotate=False), await empty.look())
    written = await kubeconfig()
    assert (written.exists, written.write_problem, written.retry_at) == (True, "", None)


async def test_a_ca_without_its_key_is_a_reason_that_no_kubeconfig_can_be_written(empty: World) -> None:
    await empty.actor.perform(EnsureCertificates(("ca",)), await empty.look())
    empty.api.change("secrets", "demo-ca", {"data": {"tls.key": None}})
    await empty.actor.perform(WriteKubeconfig(rotate=False), await empty.look())
    view = (await empty.look()).view
    assert view is not None
    assert "tls.key" in view.kubeconfig.write_problem


async def test_a_kubeconfig_that_has_just_changed_is_looked_at_again_and_no_problem(three: World) -> None:
    three.api.trouble["patch", "secrets"] = Conflict("changed")
    with pytest.raises(Conflict):
        await three.actor.perform(WriteKubeconfig(rotate=True), await three.look())
    view = (await three.look()).view
    assert view is not None
    assert view.kubeconfig.write_problem == ""


async def test_a_kubeconfig_without_its_ca_says_what_is_missing(empty: World) -> None:
    with pytest.raises(LookupError, match="Secret default/demo-ca is not there yet"):
        await empty.actor.perform(WriteKubeconfig(rotate=False), await empty.look())


async def test_a_replica_is_not_deleted_once_the_ring_cannot_do_without_it(three: World) -> None:
    observation = await three.look()
    three.lose(3)
    with pytest.raises(Refused, match="quorum survives the removal"):
        await three.actor.perform(DeleteReplica("cp-1"), observation)
    assert three.log == []


async def test_a_replica_without_a_known_member_is_not_deleted_unseen(three: World) -> None:
    three.add_machine("cp-4", node=False)
    three.log.clear()
    observation = await three.look()
    three.workload.members[4] = Member(4, "", Health.BAD)  # it has added a member and not started it, or somebody else has
    with pytest.raises(Refused, match="cannot tell which member is cp-4's"):
        await three.actor.perform(DeleteReplica("cp-4"), observation)
    del three.workload.members[4]
    three.workload.ring_problem = "no leader"
    with pytest.raises(Refused, match="right before the step: no leader"):
        await three.actor.perform(DeleteReplica("cp-4"), observation)
    assert three.log == []
    three.workload.ring_problem = ""
    await three.actor.perform(DeleteReplica("cp-4"), observation)
    assert three.log == ["delete machines cp-4"]


async def test_a_replica_that_joined_since_it_was_seen_is_deleted_only_if_the_ring_can_do_without_it(three: World) -> None:
    del three.workload.members[2]
    observation = await three.look()
    three.workload.members[2] = Member(2, "cp-2", Health.GOOD)
    three.lose(3)
    with pytest.raises(Refused, match="without cp-2: 1 of 2 voters healthy"):
        await three.actor.perform(DeleteReplica("cp-2"), observation)
    assert three.log == []


async def test_with_external_etcd_or_before_initialization_no_ring_is_asked(three: World) -> None:
    three.workload.ring_problem = "there is none"
    external = {"clusterConfiguration": {"etcd": {"external": {"endpoints": ["https://e:2379"]}}}}
    three.api.change("kubeadmcontrolplanes", "demo", {"spec": {"kubeadmConfigSpec": external}})
    await three.actor.perform(DeleteReplica("cp-2"), await three.look())
    await three.actor.perform(ReleaseHook("cp-2"), await leaving(three, "cp-2"))
    assert three.log == ["delete machines cp-2", "patch machines cp-2"]


async def test_the_first_machine_is_not_deleted_once_kubeadm_has_finished_on_it(empty: World) -> None:
    empty.add_machine("cp-1", node=False, metadata={"annotations": {"quorate.dev/founded-by": "kcp-uid"}})
    observation = await empty.look()
    empty.workload.kubeadm_config = True
    with pytest.raises(Refused, match="kubeadm has initialized the cluster meanwhile"):
        await empty.actor.perform(DeleteReplica("cp-1"), observation)
    assert empty.log == []
    empty.workload.kubeadm_config = Unknown("no answer")
    await empty.actor.perform(DeleteReplica("cp-1"), observation)
    assert empty.log == ["delete machines cp-1"]


@pytest.mark.parametrize("step", [DeleteReplica("cp-2"), RemoveMember("cp-2", 2), ReleaseHook("cp-2")])
async def test_nothing_leaves_a_ring_whose_members_disagree(three: World, step: Step) -> None:
    observation = await three.look()
    three.workload.disagreement = "the member on cp-3 lists 3 in cluster 2"
    with pytest.raises(Refused, match="disagree about who they are: the member on cp-3"):
        await three.actor.perform(step, observation)
    assert three.log == []


async def test_a_member_that_became_anothers_is_not_removed(three: World) -> None:
    observation = await leaving(three, "cp-2")
    three.workload.members[7] = replace(three.workload.members.pop(2), id=7)  # it has joined anew, under the same name
    with pytest.raises(Refused, match="member 2 is not cp-2's any more: its member is 7"):
        await three.actor.perform(RemoveMember("cp-2", 2), observation)
    assert three.log == []
    assert three.holds_hook("cp-2")


async def test_nobody_leaves_whom_no_healthy_replica_could_stand_in_for(three: World) -> None:
    for name in ("cp-1", "cp-3"):
        del three.workload.pods[f"kube-apiserver-{name}"]
    with pytest.raises(Refused, match="another control plane serves"):
        await three.actor.perform(RemoveMember("cp-2", 2), await leaving(three, "cp-2"))
    assert three.log == []


ORPHAN = Member(9, "gone", Health.BAD, peer_urls=("https://gone.test:2380",))
AGED = timedelta(minutes=2)


async def aged_orphan(world: World) -> Observation:
    """A member that has been nobody's for long enough."""
    world.workload.members[9] = ORPHAN
    await world.look()
    world.now += AGED
    return await world.look()


async def test_an_orphan_is_removed_through_the_member_of_a_machine_and_a_repeat_is_no_trouble(three: World) -> None:
    observation = await aged_orphan(three)
    await three.actor.perform(RemoveOrphan(9), observation)
    await three.actor.perform(RemoveOrphan(9), observation)
    assert three.log == ["remove_member 9 through cp-1"]


async def test_an_orphan_that_turns_out_to_be_a_machines_is_not_removed(three: World) -> None:
    observation = await aged_orphan(three)
    three.workload.members[9] = replace(ORPHAN, name="cp-2")
    del three.workload.members[2]
    with pytest.raises(Refused, match="member 9 now belongs to a Machine"):
        await three.actor.perform(RemoveOrphan(9), observation)
    assert three.log == []


async def test_an_orphan_that_the_ring_cannot_do_without_by_now_is_not_removed(three: World) -> None:
    three.workload.members[9] = ORPHAN
    observation = await aged_orphan(three)
    three.workload.members[9] = replace(ORPHAN, health=Health.GOOD)
    for number in (1, 2):
        three.lose(number)
    with pytest.raises(Refused, match="quorum survives the removal"):
        await three.actor.perform(RemoveOrphan(9), observation)
    assert three.log == []


async def test_an_orphan_is_not_removed_before_its_time_whoever_says_so(three: World) -> None:
    three.workload.members[9] = ORPHAN
    with pytest.raises(Refused, match="an orphan for long enough"):
        await three.actor.perform(RemoveOrphan(9), await three.look())
    assert three.log == []
