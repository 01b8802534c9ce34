"""What the caches have yet to see: right before a write the API is asked itself, and what was decided for another world is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from quorate.clusterapi.act.refusal import Refused
from quorate.clusterapi.desired.objects import FOUNDED_BY
from quorate.clusterapi.types.names import Hook, Label
from quorate.core.health import Health, Unknown
from quorate.core.machines.decide import decide
from quorate.core.machines.steps import (
    CreateReplica,
    DeleteAll,
    DeleteReplica,
    EnsureCertificates,
    ReleaseHook,
    Remediate,
    RemoveMember,
    WriteKubeconfig,
)
from quorate.core.ring import Member
from quorate.etcd.errors import DeadlineExceeded, MemberNotFound
from quorate.workload.connection import Connectivity, Phase
from tests.clusterapi.loop.conftest import NOON

if TYPE_CHECKING:
    from quorate.clusterapi.observe.observation import Observation
    from quorate.core.machines.steps import Step
    from tests.clusterapi.loop.conftest import World

KCPS = "kubeadmcontrolplanes"
DELETED = {"metadata": {"deletionTimestamp": "2026-01-01T11:59:00Z"}}
ON_RECORD = {"status": {"initialization": {"controlPlaneInitialized": True}}}


async def step_of(world: World, observation: Observation) -> Step:
    """What is decided by what was observed."""
    assert observation.view is not None
    step = decide(observation.view, world.now).step
    assert step is not None
    return step


def leaving(world: World) -> list[str]:
    """The Machines that are being deleted, or are let go."""
    names = world.api.names("machines")
    return [name for name in names if "deletionTimestamp" in world.api.raw("machines", name)["metadata"] or not world.holds_hook(name)]


async def refused(world: World, observation: Observation, kind: type[Step], why: str) -> None:
    """The step of this kind is decided, and refused in these words before anything is made or destroyed."""
    step = await step_of(world, observation)
    assert isinstance(step, kind)
    before = (world.api.names("machines"), leaving(world), sorted(world.workload.members))
    with pytest.raises(Refused, match=why):
        await world.actor.perform(step, observation)
    assert (world.api.names("machines"), leaving(world), sorted(world.workload.members)) == before


def add_known(world: World, number: int) -> None:
    """A Machine whose Node core has seen."""
    world.add_machine(f"cp-{number}", member=number, status={"nodeRef": {"name": f"cp-{number}"}})


async def bearing_cas(world: World) -> World:
    """CAs and a kubeconfig are there, so that Machines are made next."""
    await world.actor.perform(EnsureCertificates(("ca", "sa", "proxy", "etcd")), await world.look())
    await world.actor.perform(WriteKubeconfig(rotate=False), await world.look())
    return world


async def test_nothing_is_deleted_once_a_restore_has_undone_the_deletion_of_the_control_plane(three: World) -> None:
    restore = three.backup()
    three.api.change(KCPS, "demo", DELETED)
    observation = await three.look()
    restore()
    await refused(three, observation, DeleteAll, "KubeadmControlPlane default/demo is no longer being deleted")


async def test_no_machine_is_made_for_a_control_plane_that_was_deleted_while_its_token_was_waited_for(three: World) -> None:
    three.api.change(KCPS, "demo", {"spec": {"replicas": 5}})
    await three.keep_up()
    three.workload.api.before["create"] = lambda: cast("None", three.api.change(KCPS, "demo", DELETED))
    await refused(three, await three.look(), CreateReplica, "default/demo was deleted after this was decided")


async def test_no_second_cluster_is_founded_beside_a_machine_that_the_cache_has_yet_to_see(empty: World) -> None:
    await bearing_cas(empty)
    await empty.sync()
    step, observation = CreateReplica("", initialize=True), await empty.look()
    await empty.actor.perform(step, observation)
    (founder,) = empty.api.names("machines")
    await empty.sync(but=("machines",))
    await refused(empty, await empty.observe(), CreateReplica, f"Machine default/{founder} exists: it has yet to be seen")


@pytest.mark.parametrize("behind", [(), ("machines",)], ids=["seen", "which the cache has yet to see"])
async def test_no_second_cluster_is_founded_beside_a_machine_without_the_name_of_its_cluster(empty: World, behind: tuple[str, ...]) -> None:
    """In its labels: its specification has it."""
    await bearing_cas(empty)
    await empty.sync()
    await empty.actor.perform(CreateReplica("", initialize=True), await empty.look())
    (founder,) = empty.api.names("machines")
    empty.api.change("machines", founder, {"metadata": {"labels": {Label.CLUSTER_NAME: None}}})
    await empty.sync(but=behind)
    observation = await empty.observe()
    if behind:
        await refused(empty, observation, CreateReplica, f"Machine default/{founder} exists: it has yet to be seen")
    else:
        assert observation.view is not None
        assert [replica.name for replica in observation.view.replicas] == [founder]


async def test_nor_beside_a_worker_that_became_a_node_and_has_lost_that_name(empty: World) -> None:
    await bearing_cas(empty)
    await empty.sync()
    empty.api.put("machines", {"metadata": {"name": "worker"}, "spec": {"clusterName": "demo"}, "status": {"nodeRef": {"name": "worker"}}})
    await empty.sync(but=("machines",))
    await refused(empty, await empty.observe(), CreateReplica, "worker joined it")


@pytest.mark.parametrize("named", [None, "another"])
async def test_a_machine_that_has_lost_the_name_of_its_cluster_leaves_as_any_other(three: World, named: str | None) -> None:
    three.api.change("machines", "cp-3", {"metadata": {"labels": {Label.CLUSTER_NAME: named}}})
    three.delete_machine("cp-3")
    observation = await three.look()
    await three.actor.perform(await step_of(three, observation), observation)
    assert leaving(three) == ["cp-3"]
    assert sorted(three.workload.members) == [1, 2]


async def test_no_sixth_machine_is_made_beside_a_fifth_that_the_cache_has_yet_to_see(three: World) -> None:
    three.api.change(KCPS, "demo", {"spec": {"replicas": 5}})
    three.add_machine("cp-4", member=4)
    await three.keep_up()
    three.add_machine("cp-5", member=5)
    await three.sync(but=("machines",))
    await refused(three, await three.observe(), CreateReplica, "Machine default/cp-5 exists: it has yet to be seen")


async def test_nothing_is_scaled_down_once_a_restore_took_machines_away(three: World) -> None:
    restore = three.backup()
    three.api.change(KCPS, "demo", {"spec": {"replicas": 5}})
    for number in (4, 5):
        add_known(three, number)
    await three.keep_up()
    restore()
    await three.sync(but=("machines",))
    await refused(three, await three.observe(), DeleteReplica, "Machine default/cp-4 is gone")


async def test_the_last_one_stays_whose_replacement_a_restore_took_away(three: World) -> None:
    for number in (2, 3):
        three.workload.node_list = [node for node in three.workload.node_list if node.metadata.name != f"cp-{number}"]
        del three.workload.members[number], three.api.objects["machines", "default", f"cp-{number}"]
    three.api.change(KCPS, "demo", {"spec": {"replicas": 1}})
    three.delete_machine("cp-1")
    restore = three.backup()
    add_known(three, 4)
    await three.sync()
    restore()
    await three.sync(but=("machines",))
    await refused(three, await three.observe(), RemoveMember, "Machine default/cp-4 is gone")


async def founding(world: World) -> World:
    """The Machine that founds the cluster runs, nothing is on record, and its API server does not answer."""
    await bearing_cas(world)
    world.add_machine("cp-1", member=1, metadata={"annotations": {FOUNDED_BY: "kcp-uid", Hook.PRE_TERMINATE: ""}})
    world.workload.connectivity = Connectivity(Phase.NEVER_CONNECTED, NOON, "dial tcp: i/o timeout")
    world.workload.kubeadm_config = Unknown("not connected")
    return world


@pytest.mark.parametrize(
    ("kind", "where"),
    [(DeleteReplica, KCPS), (DeleteReplica, "clusters"), (ReleaseHook, KCPS), (ReleaseHook, "clusters"), (Remediate, "clusters")],
)
async def test_the_first_machine_stays_once_it_is_on_record_that_it_founded_the_cluster(empty: World, kind: type[Step], where: str) -> None:
    await founding(empty)
    if kind is DeleteReplica:
        empty.api.change(KCPS, "demo", {"spec": {"version": "v1.34.5"}})
    elif kind is Remediate:
        empty.fail("cp-1")
    else:
        empty.delete_machine("cp-1")
    observation = await empty.look()
    empty.api.change(where, "demo", ON_RECORD)
    await refused(empty, observation, kind, "kubeadm has initialized the cluster meanwhile")


async def test_a_first_machine_that_never_comes_up_is_replaced_as_long_as_nothing_is_on_record(empty: World) -> None:
    await founding(empty)
    empty.api.change(KCPS, "demo", {"spec": {"version": "v1.34.5"}})
    observation = await empty.look()
    await empty.actor.perform(await step_of(empty, observation), observation)
    assert leaving(empty) == ["cp-1"]


@pytest.mark.parametrize("member", [5, 9], ids=["of a Machine", "of nobody"])
async def test_no_member_is_removed_once_it_was_paused_while_others_were_asked(three: World, member: int) -> None:
    for number in (4, 5):
        three.add_machine(f"cp-{number}", member=number)
    three.api.change(KCPS, "demo", {"spec": {"replicas": 5}})
    if member == 5:
        three.delete_machine("cp-5")
    else:
        three.workload.members[9] = Member(9, "gone", Health.BAD, peer_urls=("https://gone.test:2380",))
        await three.look()
        three.now = three.now.replace(minute=5)
    for name in ("cp-1", "cp-2"):
        three.workload.trouble["remove_member", name] = DeadlineExceeded(name, "no answer to Cluster/MemberRemove within 15 s")
    three.workload.leader = 3
    three.workload.after_trouble = lambda: cast("None", three.api.change("clusters", "demo", {"spec": {"paused": True}}))
    observation = await three.look()
    with pytest.raises(Refused, match="was paused after this was decided"):
        await three.actor.perform(await step_of(three, observation), observation)
    assert member in three.workload.members


@pytest.mark.parametrize("late", ["a Machine", "on record", "paused"])
async def test_no_ca_is_generated_beside_a_machine_that_may_have_been_given_another(empty: World, late: str) -> None:
    """Which the caches have yet to see: somebody deleted the Secrets meanwhile."""
    observation = await empty.look()
    if late == "a Machine":
        empty.add_machine("cp-1", node=False)
    elif late == "on record":
        empty.api.change(KCPS, "demo", ON_RECORD)
    else:
        empty.api.change("clusters", "demo", {"spec": {"paused": True}})
    with pytest.raises(Refused, match=r"may have been given CAs that were there|was initialized after|was paused after"):
        await empty.actor.perform(EnsureCertificates(("ca", "sa")), observation)
    assert not [name for name in empty.api.names("secrets") if name.startswith("demo-")]


async def test_no_machine_is_let_go_once_it_was_paused_while_its_member_left(three: World) -> None:
    three.delete_machine("cp-3")
    three.workload.after_removal = lambda: cast("None", three.api.change("clusters", "demo", {"spec": {"paused": True}}))
    observation = await three.look()
    with pytest.raises(Refused, match="was paused after this was decided"):
        await three.actor.perform(await step_of(three, observation), observation)
    assert 3 not in three.workload.members
    assert three.holds_hook("cp-3")


BACKUP = {"metadata": {"annotations": {f"{Hook.PRE_TERMINATE_PREFIX}/backup": ""}}}
"""A hook of somebody else's that comes while a Machine waits at ours already: what needs the member goes before us (from 1.31)."""


async def test_no_member_leaves_before_a_hook_that_the_cache_has_yet_to_see(three: World) -> None:
    three.delete_machine("cp-3")
    observation = await three.look()
    three.api.change("machines", "cp-3", BACKUP)
    await refused(three, observation, RemoveMember, "the Machine has reached our hook: cp-3 waits for other hooks first: .*/backup")


async def test_no_machine_is_let_go_before_a_hook_that_came_while_its_member_left(three: World) -> None:
    three.delete_machine("cp-3")
    three.workload.after_removal = lambda: cast("None", three.api.change("machines", "cp-3", BACKUP))
    observation = await three.look()
    with pytest.raises(Refused, match="cp-3 waits for other hooks first"):
        await three.actor.perform(await step_of(three, observation), observation)
    assert three.holds_hook("cp-3")


async def test_a_hook_of_others_waits_for_nobody_on_a_machine_of_an_older_version(three: World) -> None:
    three.api.change("machines", "cp-3", {"spec": {"version": "v1.30.14"}})
    three.delete_machine("cp-3")
    observation = await three.look()
    three.api.change("machines", "cp-3", BACKUP)
    await three.actor.perform(await step_of(three, observation), observation)
    assert leaving(three) == ["cp-3"]


def the_first_of_five_has_a_ring_of_its_own(three: World) -> None:
    """It was down when the ring was read, and has been restored since; the fifth leaves."""
    for number in (4, 5):
        three.add_machine(f"cp-{number}", member=number)
    three.api.change(KCPS, "demo", {"spec": {"replicas": 5}})
    three.workload.leader = 2
    three.lose(1)
    three.delete_machine("cp-5")
    three.workload.trouble["remove_member", "cp-1"] = MemberNotFound("cp-1", "member not found")


async def test_a_member_is_not_gone_by_the_word_of_one_that_did_not_agree(three: World) -> None:
    the_first_of_five_has_a_ring_of_its_own(three)
    observation = await three.look()
    await three.actor.perform(await step_of(three, observation), observation)
    assert sorted(three.workload.members) == [1, 2, 3, 4]
    assert not three.holds_hook("cp-5")


async def test_where_only_one_that_did_not_agree_calls_a_member_gone_nothing_is_let_go(three: World) -> None:
    the_first_of_five_has_a_ring_of_its_own(three)
    for name in ("cp-2", "cp-3", "cp-4"):
        three.workload.trouble["remove_member", name] = DeadlineExceeded(name, "no answer")
    await refused(three, await three.look(), RemoveMember, "no other member could be asked: .*member not found")


async def test_no_look_before_a_write_reads_the_machines_of_other_clusters(empty: World) -> None:
    """There may be a thousand in the namespace, and each of them looks."""
    for number in range(3):
        labels = {Label.CLUSTER_NAME: f"other-{number}", Label.CONTROL_PLANE: ""}
        empty.api.put("machines", {"metadata": {"name": f"other-{number}", "labels": labels}, "spec": {"clusterName": f"other-{number}"}})
    await empty.sync()
    await empty.actor.perform(CreateReplica("", initialize=True), await empty.look())
    assert len(empty.api.names("machines")) == 4
    assert not {name for name in empty.api.listed["machines"] if name.startswith("other-")}
