"""Members that run on control-plane Nodes without a Machine: management objects were set back, or one Machine of an existing cluster was adopted (S17)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from time import thread_time
from typing import TYPE_CHECKING, Any, cast

import click
import msgspec
import pytest

from quorate.cli import lines
from quorate.cli.machines.status import status_of
from quorate.clusterapi.act.etcd_membership import read_afresh
from quorate.clusterapi.act.maintenance import maintain
from quorate.clusterapi.act.refusal import Refused
from quorate.clusterapi.inspection import Finding as Look
from quorate.clusterapi.observe.orphans import MOST_ASKED, control_plane_nodes
from quorate.clusterapi.report import report
from quorate.clusterapi.report.events import CONSENT_TAKEN_BACK
from quorate.clusterapi.types.names import Label
from quorate.core.health import Absent, Health, Unknown
from quorate.core.machines.decide import Decision, decide
from quorate.core.machines.rules.orphans import CONSENT, HAS_NO_OWNER, IS_OF_NO_NEWCOMER
from quorate.core.machines.state import ControlPlane
from quorate.core.machines.steps import AdoptReplicas, CreateReplica, ReleaseHook, RemoveMember, RemoveOrphan
from quorate.core.ring import Member, Ring
from quorate.etcd import client as etcd
from quorate.etcd.errors import NoWay, Unreachable
from quorate.kubernetes.errors import Conflict
from quorate.kubernetes.objects import Node
from quorate.workload.membership import RingReading, read_ring
from quorate.workload.static_pods import Component

from .conftest import FakeWorkload

if TYPE_CHECKING:
    from .conftest import World

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
KCPS = "kubeadmcontrolplanes"


@dataclass
class Answering(FakeWorkload):
    """A workload cluster whose ring is read by the production's own code: only who is asked answers, and `silent` do not."""

    silent: set[str] = field(default_factory=set)
    cut: set[str] = field(default_factory=set)  # Nodes whose kubelet does not answer

    async def read_ring(self, nodes: Iterable[str]) -> RingReading | Unknown:
        self.asked = tuple(nodes)
        return await read_ring(cast("Any", self._lend), self.asked, lambda: NOON)

    @asynccontextmanager
    async def _lend(self, node: str) -> AsyncIterator[Any]:
        if node in self.cut:
            raise NoWay(node, "port-forward refused with HTTP 500: error dialing backend")
        if node in self.silent:
            raise Unreachable(node, "connection refused")
        member = next((member for member in self.members.values() if member.name == node), None)
        if member is None or node not in {known.metadata.name for known in self.node_list}:
            raise NoWay(node, "there is no Node")
        yield _Member(self, member.id)


@dataclass
class _Member:
    workload: Answering
    id: int

    async def status(self) -> etcd.Status:
        return etcd.Status(member_id=self.id, leader=self.workload.leader, version="3.6.0", learner=False)

    async def members(self) -> etcd.MemberList:
        return etcd.MemberList(7, tuple(etcd.Member(m.id, m.name, m.peer_urls, (), m.learner) for m in self.workload.members.values()))

    async def alarms(self) -> tuple[etcd.Alarm, ...]:
        return ()


def answer(world: World) -> Answering:
    """From now on the members are asked one by one."""
    known = world.workload
    workload = Answering(
        world.log,
        node_list=known.node_list,
        pods=known.pods,
        members=known.members,
        leader=known.leader,
        kubeadm_config=True,
        connectivity=known.connectivity,
    )
    world.workload = workload
    world.workloads.workload = workload
    return workload


@pytest.fixture
async def five(three: World) -> World:
    """Five members that are well, the fifth leads; the management objects are of a time of three replicas. Long enough ago that nobody may be on the way."""
    for number in (4, 5):
        three.add_machine(f"cp-{number}", member=number)
        del three.api.objects["machines", "default", f"cp-{number}"]
    answer(three).leader = 5
    return three


def with_one_machine_of_five(three: World) -> None:
    """Five members, each on its Node; a backup of the management cluster from the very beginning knows one Machine."""
    for number in (4, 5):
        three.add_machine(f"cp-{number}", member=number)
    for number in (2, 3, 4, 5):
        del three.api.objects["machines", "default", f"cp-{number}"]
    answer(three)


def made_by_hand(world: World, name: str) -> None:
    """A Machine of which no control plane knows yet, as its owner made it."""
    cluster = {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": "demo", "uid": "cluster-uid"}
    labels = {Label.CLUSTER_NAME: "demo", Label.CONTROL_PLANE: ""}
    world.api.change("machines", name, {"metadata": {"ownerReferences": [cluster], "annotations": None, "labels": labels}})
    world.api.change("kubeadmconfigs", name, {"metadata": {"labels": None, "ownerReferences": None}})


async def texts(world: World) -> tuple[str, str]:
    """What a reader is told in the end: by `quorate explain`, and by the conditions."""
    _, decision = await later(world)
    observation = await world.observe()
    said = click.unstyle(lines.explanation(status_of(Look(observation, decision), world.now), world.now))
    return said, str(report(observation, decision, now=world.now).status["conditions"])


async def later(world: World) -> tuple[ControlPlane, Decision]:
    """What is decided once members have been seen as nobody's for a while."""
    await world.look()
    world.now += timedelta(minutes=5)
    view = (await world.look()).view
    assert view is not None
    return view, decide(view, world.now)


def not_ready(world: World, name: str) -> None:
    nodes = world.workload.node_list
    raw = next(msgspec.to_builtins(node) for node in nodes if node.metadata.name == name)
    raw["status"]["conditions"][0]["status"] = "Unknown"
    nodes[:] = [node for node in nodes if node.metadata.name != name] + [msgspec.convert(raw, Node)]


async def test_healthy_voters_whose_nodes_live_stay_and_are_named(five: World) -> None:
    view, decision = await later(five)
    assert not isinstance(decision.step, RemoveOrphan)
    refusals = [check for check in decision.refusals if check.name == HAS_NO_OWNER]
    assert [check.evidence.partition(",")[0] for check in refusals] == ["cp-4 (4) runs on Node cp-4", "cp-5 (5) runs on Node cp-5"]
    assert f"{CONSENT}=4" in refusals[0].remedy
    assert isinstance(view.ring, Ring)
    assert str(view.ring.now) == "5 of 5 voters healthy, quorum 3: tolerates 2 more"
    assert "cp-4 (4) runs on Node cp-4" in str(report(await five.observe(), decision, now=five.now).status["conditions"])


async def test_where_one_machine_is_left_of_three_that_are_well_all_count(three: World) -> None:
    for name in ("cp-2", "cp-3"):
        del three.api.objects["machines", "default", name]
    answer(three)
    view, decision = await later(three)
    assert isinstance(view.ring, Ring)
    assert str(view.ring.now) == "3 of 3 voters healthy, quorum 2: tolerates 1 more"
    assert not isinstance(decision.step, RemoveOrphan)


@pytest.mark.parametrize("coming", [False, True], ids=["as it is", "while a Machine is on its way"])
async def test_nobody_reads_of_a_lost_quorum_where_one_machine_is_left_of_five_that_are_well(three: World, coming: bool) -> None:
    with_one_machine_of_five(three)
    if coming:
        three.add_machine("cp-9", node=False)
    explained, conditions = await texts(three)
    assert "etcd      5 of 5 voters healthy, quorum 3: tolerates 2 more" in explained
    assert all(f"  good    cp-{number} " in explained for number in (1, 2, 3, 4, 5))
    assert "etcd members is healthy" not in conditions
    assert all(
        f"cp-{number} ({number}) runs on Node cp-{number}, which is there and belongs to no Machine" in conditions
        for number in (2, 3, 4, 5)
    )


async def test_the_conditions_count_members_without_machines_as_they_answer(three: World) -> None:
    with_one_machine_of_five(three)
    three.add_machine("cp-9", node=False)
    cast("Answering", three.workload).silent |= {"cp-3", "cp-4", "cp-5"}
    explained, conditions = await texts(three)
    assert "2 of 5 voters healthy, quorum 3: 1 short of quorum" in explained
    assert "2 of 5 etcd members are healthy, at least 3 are required for quorum" in conditions


@pytest.mark.parametrize("replicas", [1, 3])
async def test_the_others_stay_where_one_machine_of_their_cluster_is_adopted(three: World, replicas: int) -> None:
    """Somebody made a Cluster and one Machine for a control plane of three that runs already, and a KubeadmControlPlane that takes it over."""
    for name in ("cp-2", "cp-3"):
        del three.api.objects["machines", "default", name]
    made_by_hand(three, "cp-1")
    three.api.change(KCPS, "demo", {"spec": {"replicas": replicas}, "status": {"initialization": None}})
    answer(three).leader = 3
    observation = await three.look()
    assert observation.view is not None
    adopts = decide(observation.view, three.now).step
    assert adopts == AdoptReplicas(("cp-1",))
    await three.actor.perform(adopts, observation)
    for _ in range(20):  # whatever is to be done now, until nothing is left but to wait
        await maintain(three.clients, await three.look())
        view, decision = await later(three)
        if decision.step is None or isinstance(decision.step, CreateReplica):
            break
        await three.actor.perform(decision.step, await three.observe())
    assert [replica.name for replica in view.replicas] == ["cp-1"]
    assert decision.step is None if replicas == 1 else isinstance(decision.step, CreateReplica)
    assert {orphan.member.id: (orphan.node, orphan.member.health) for orphan in view.orphans} == {
        2: ("cp-2", Health.GOOD),
        3: ("cp-3", Health.GOOD),
    }
    assert sorted(three.workload.members) == [1, 2, 3]
    explained, conditions = await texts(three)
    assert "etcd      3 of 3 voters healthy, quorum 2: tolerates 1 more" in explained
    for number in (2, 3):
        named = f"cp-{number} ({number}) runs on Node cp-{number}, which is there and belongs to no Machine"
        assert named in explained
        assert named in conditions
        assert f"Node cp-{number} has no Machine" in conditions


async def test_one_goes_with_consent_which_is_cleared_then(five: World) -> None:
    await maintain(five.clients, await five.look())
    five.api.change(KCPS, "demo", {"metadata": {"annotations": {CONSENT: "4"}}})
    _, decision = await later(five)
    assert decision.step == RemoveOrphan(4)
    del five.workload.members[4]
    await maintain(five.clients, await five.look())
    assert CONSENT not in five.annotations(KCPS, "demo")


async def test_one_that_leads_hands_leadership_over_before_it_goes(five: World) -> None:
    five.api.change(KCPS, "demo", {"metadata": {"annotations": {CONSENT: "4"}}})
    five.workload.leader = 4
    _, decision = await later(five)
    five.log.clear()
    await five.actor.perform(RemoveOrphan(4), await five.observe())
    assert decision.step == RemoveOrphan(4)
    assert five.log[0].startswith("move_leader to ")
    assert five.log[0].endswith(" through cp-4")
    assert five.log[1].startswith("remove_member 4 through ")


async def test_one_stays_whose_consent_was_taken_back_before_the_cache_had_heard_of_it(five: World) -> None:
    five.api.change(KCPS, "demo", {"metadata": {"annotations": {CONSENT: "4"}}})
    _, decision = await later(five)
    observation = await five.observe()
    assert decision.step == RemoveOrphan(4)
    five.api.change(KCPS, "demo", {"metadata": {"annotations": {CONSENT: None}}})
    with pytest.raises(Refused, match="the consent to remove member 4 was taken back"):
        await five.actor.perform(decision.step, observation)
    assert 4 in five.workload.members


async def test_a_consent_that_was_given_after_the_look_is_not_cleared(three: World) -> None:
    three.api.change(KCPS, "demo", {"metadata": {"annotations": {CONSENT: "9"}}})
    observation = await three.look()
    three.api.change(KCPS, "demo", {"metadata": {"annotations": {CONSENT: "a"}}})
    with pytest.raises(ExceptionGroup, match="not everything") as errors:
        await maintain(three.clients, observation)
    assert {type(error) for error in errors.value.exceptions} == {Conflict}
    assert three.annotations(KCPS, "demo")[CONSENT] == "a"


async def test_consent_stays_until_the_last_of_its_members_has_gone(five: World) -> None:
    await maintain(five.clients, await five.look())
    five.api.change(KCPS, "demo", {"metadata": {"annotations": {CONSENT: "4, 5, nonsense"}}})
    del five.workload.members[4]
    await maintain(five.clients, await five.look())
    assert five.annotations(KCPS, "demo")[CONSENT] == "5"


async def test_a_consent_to_the_removal_of_a_machines_member_is_taken_back_and_said(five: World) -> None:
    """It would act months later, when the Node of that Machine is lost for a while."""
    await maintain(five.clients, await five.look())
    five.api.change(KCPS, "demo", {"metadata": {"annotations": {CONSENT: "3,4"}}})
    observation = await five.look()
    assert observation.view is not None
    decision = decide(observation.view, five.now)
    said = [event for event in report(observation, decision, now=five.now).events if event.reason == CONSENT_TAKEN_BACK]
    await maintain(five.clients, observation)
    assert five.annotations(KCPS, "demo")[CONSENT] == "4"
    assert len(said) == 1
    assert "member 3, which belongs to Machine cp-3" in said[0].message


async def test_one_that_is_silent_on_a_node_that_is_ready_stays(five: World) -> None:
    cast("Answering", five.workload).silent.add("cp-4")
    view, decision = await later(five)
    assert not isinstance(decision.step, RemoveOrphan)
    assert {orphan.member.id: orphan.member.health for orphan in view.orphans} == {4: Health.BAD, 5: Health.GOOD}


async def test_one_that_is_silent_on_a_node_that_is_not_ready_goes(five: World) -> None:
    cast("Answering", five.workload).silent.add("cp-4")
    not_ready(five, "cp-4")
    assert (await later(five))[1].step == RemoveOrphan(4)


async def test_one_that_is_well_on_a_node_that_is_not_ready_stays(five: World) -> None:
    not_ready(five, "cp-4")
    assert not isinstance((await later(five))[1].step, RemoveOrphan)


async def test_one_whose_kubelet_alone_is_stopped_stays(five: World) -> None:
    """It votes and is well; it is asked by way of that kubelet, and the Node is not ready for want of it."""
    cast("Answering", five.workload).cut.add("cp-4")
    not_ready(five, "cp-4")
    view, decision = await later(five)
    assert decision.step != RemoveOrphan(4)
    assert {orphan.member.id: orphan.member.health for orphan in view.orphans}[4] is Health.UNKNOWN


async def test_one_whose_node_is_gone_goes(five: World) -> None:
    five.workload.node_list[:] = [node for node in five.workload.node_list if node.metadata.name != "cp-4"]
    assert (await later(five))[1].step == RemoveOrphan(4)


async def test_the_last_look_asks_every_member_and_keeps_one_that_came_back(five: World) -> None:
    workload = cast("Answering", five.workload)
    workload.silent.add("cp-4")
    not_ready(five, "cp-4")
    _, decision = await later(five)
    assert decision.step == RemoveOrphan(4)
    observation = await five.look()
    workload.silent.clear()
    with pytest.raises(Refused, match="runs on Node cp-4"):
        await five.actor.perform(decision.step, observation)
    assert set(workload.asked) == {"cp-1", "cp-2", "cp-3", "cp-4", "cp-5"}
    assert 4 in workload.members


def unlabel(world: World, name: str, *, etcd_pod: bool = True) -> None:
    """A Node whose kubeadm died before it marked it, or whose label a user took off."""
    nodes = world.workload.node_list
    raw = next(msgspec.to_builtins(node) for node in nodes if node.metadata.name == name)
    raw["metadata"]["labels"], raw["spec"]["taints"] = {}, []
    nodes[:] = [node for node in nodes if node.metadata.name != name] + [msgspec.convert(raw, Node)]
    if not etcd_pod:
        del world.workload.pods[Component.ETCD.pod_name(name)]


@pytest.mark.parametrize("etcd_pod", [True, False], ids=["with its static Pod", "whose static Pod is not shown"])
async def test_one_whose_node_lacks_the_label_is_asked_counted_and_stays(five: World, etcd_pod: bool) -> None:
    unlabel(five, "cp-4", etcd_pod=etcd_pod)
    view, decision = await later(five)
    assert not isinstance(decision.step, RemoveOrphan)
    assert {orphan.member.id: (orphan.node, orphan.member.health) for orphan in view.orphans}[4] == ("cp-4", Health.GOOD)
    assert isinstance(view.ring, Ring)
    assert str(view.ring.now) == "5 of 5 voters healthy, quorum 3: tolerates 2 more"
    conditions = str(report(await five.observe(), decision, now=five.now).status["conditions"])
    assert f"annotate the KubeadmControlPlane with {CONSENT}=4" in conditions
    assert "Node cp-4 has no Machine" in conditions


async def test_the_last_look_asks_for_a_node_that_no_list_has(five: World) -> None:
    workload = cast("Answering", five.workload)
    workload.silent.add("cp-4")
    gone = next(node for node in workload.node_list if node.metadata.name == "cp-4")
    workload.node_list.remove(gone)
    _, decision = await later(five)
    assert decision.step == RemoveOrphan(4)
    observation = await five.look()
    workload.node_list.append(gone)
    unlabel(five, "cp-4")
    with pytest.raises(Refused, match="runs on Node cp-4"):
        await five.actor.perform(decision.step, observation)
    assert 4 in workload.members


@pytest.mark.parametrize("last_look", [False, True], ids=["when it is decided", "when it is done"])
async def test_one_of_which_nobody_can_tell_whether_it_has_a_node_stays(five: World, last_look: bool) -> None:
    five.workload.node_list[:] = [node for node in five.workload.node_list if node.metadata.name != "cp-4"]
    del five.workload.pods[Component.ETCD.pod_name("cp-4")]
    if not last_look:
        five.workload.unread.add("cp-4")
    _, decision = await later(five)
    if last_look:
        assert decision.step == RemoveOrphan(4)
        observation = await five.look()
        five.workload.unread.add("cp-4")
        with pytest.raises(Refused, match="cannot tell whether cp-4 runs on a Node: no answer in time"):
            await five.actor.perform(decision.step, observation)
    assert not last_look or 4 in five.workload.members
    assert last_look or not isinstance(decision.step, RemoveOrphan)


async def test_a_machine_whose_node_lacks_the_label_has_its_node_and_is_named(three: World) -> None:
    answer(three)
    unlabel(three, "cp-3")
    view, decision = await later(three)
    assert not view.orphans
    assert decision.step is None
    told = {c["type"]: c for c in report(await three.observe(), decision, now=three.now).machine_conditions["cp-3"].conditions}
    assert told["NodeKubeadmLabelsAndTaintsSet"]["status"] == "False"
    assert (
        "Node cp-3 lacks the label node-role.kubernetes.io/control-plane and the taint" in told["NodeKubeadmLabelsAndTaintsSet"]["message"]
    )


async def test_the_node_of_a_machine_that_nobody_has_told_its_node_is_found_without_the_label(three: World) -> None:
    """By its providerID: until Cluster API's Machine controller has written `nodeRef`."""
    assert "nodeRef" not in three.api.raw("machines", "cp-3").get("status", {})
    unlabel(three, "cp-3")
    assert {machine.name: machine.node is not None for machine in (await three.look()).machines}["cp-3"]


async def test_who_consents_helps_a_machine_without_a_host_that_others_members_may_be_of(five: World) -> None:
    """A backup has a Machine whose host is gone, and not those of two that are there: nobody but a person can tell whose members they are."""
    five.add_machine("cp-9", node=False)
    _, decision = await later(five)
    assert not isinstance(decision.step, RemoveOrphan)
    five.delete_machine("cp-9")
    five.workload.leader = 1
    cast("Answering", five.workload).silent.add("cp-5")
    _, decision = await later(five)
    assert decision.step is None
    conditions = str(report(await five.observe(), decision, now=five.now).status["conditions"])
    assert "cannot tell which member is cp-9's: member cp-4 is an orphan so far and may be its own" in conditions
    assert f"annotate the KubeadmControlPlane with {CONSENT}=4" in conditions
    for member in (4, 5):
        five.api.change(KCPS, "demo", {"metadata": {"annotations": {CONSENT: str(member)}}})
        assert (await later(five))[1].step == RemoveOrphan(member)
        del five.workload.members[member]
    assert (await later(five))[1].step == ReleaseHook("cp-9")


async def test_who_consents_helps_beside_a_machine_that_is_on_its_way(five: World) -> None:
    five.add_machine("cp-9", node=False)
    five.api.change(KCPS, "demo", {"metadata": {"annotations": {CONSENT: "4"}}})
    assert (await later(five))[1].step == RemoveOrphan(4)


async def test_the_learner_of_a_host_that_took_long_to_boot_is_given_the_time_to_start(three: World) -> None:
    made = (NOON - timedelta(minutes=20)).strftime("%Y-%m-%dT%H:%M:%SZ")
    three.add_machine("cp-4", metadata={"creationTimestamp": made})
    node = three.workload.node_list[-1]
    three.workload.node_list[-1] = msgspec.structs.replace(
        node, metadata=msgspec.structs.replace(node.metadata, creation_timestamp=NOON - timedelta(minutes=1))
    )
    three.workload.members[4] = Member(4, "", Health.BAD, learner=True, peer_urls=("https://10.0.0.4:2380",), evidence="never started")
    three.now = NOON
    await three.look()
    three.now = NOON + timedelta(minutes=3)
    observation = await three.look()
    assert observation.view is not None
    decision = decide(observation.view, three.now)
    assert decision.step != RemoveOrphan(4)
    assert [check.evidence for check in decision.refusals if check.name == IS_OF_NO_NEWCOMER] == [
        "4 (never started) may be the member of cp-4"
    ]
    three.now = NOON + timedelta(minutes=10)
    observation = await three.look()
    assert observation.view is not None
    assert decide(observation.view, three.now).step == RemoveOrphan(4)


async def test_a_node_that_has_the_name_of_one_that_is_gone_is_that_of_the_machine_with_its_provider_id(three: World) -> None:
    three.delete_machine("cp-3")
    del three.workload.members[3]
    three.workload.node_list = [node for node in three.workload.node_list if node.metadata.name != "cp-3"]
    three.add_machine("cp-4", node=False)
    for name in ("cp-3", "cp-4"):
        three.api.change("machines", name, {"status": {"nodeRef": {"name": "ip-10-0-0-5"}}})
    three.add_node("ip-10-0-0-5", provider_id="test:///cp-4")
    three.workload.members[4] = Member(4, "ip-10-0-0-5", Health.GOOD, peer_urls=("https://10.0.0.5:2380",))
    three.workload.answers = {"cp-1": 1, "cp-2": 2, "ip-10-0-0-5": 4}
    view = (await three.look()).view
    assert view is not None
    assert {replica.name: (replica.node, replica.member) for replica in view.replicas} == {
        "cp-1": ("cp-1", 1),
        "cp-2": ("cp-2", 2),
        "cp-3": (None, Absent()),
        "cp-4": ("ip-10-0-0-5", 4),
    }


async def test_a_copy_of_a_machine_is_not_let_go_and_the_member_of_neither_is_removed(three: World) -> None:
    three.api.change("machines", "cp-1", {"status": {"nodeRef": {"name": "cp-1"}}})
    raw = three.api.raw("machines", "cp-1")
    metadata = {key: value for key, value in raw["metadata"].items() if key not in ("uid", "resourceVersion")}
    three.api.put("machines", raw | {"metadata": metadata | {"name": "a-copy"}})
    three.workload.answers = {"cp-1": 1, "cp-2": 2, "cp-3": 3}
    for leaving in ((), ("a-copy",), ("cp-1",)):
        for name in leaving:
            three.delete_machine(name)
        observation = await three.look()
        assert observation.view is not None
        members = {replica.name: replica.member for replica in observation.view.replicas if replica.name in ("a-copy", "cp-1")}
        assert {str(member) for member in members.values()} == {str(members["cp-1"])}
        assert isinstance(members["cp-1"], Unknown)
        assert members["cp-1"].reason == "Node cp-1 is that of a-copy and cp-1"
        assert not observation.view.orphans
        decision = decide(observation.view, NOON + timedelta(hours=1))
        assert not isinstance(decision.step, ReleaseHook | RemoveOrphan | RemoveMember)
        assert getattr(decision.step, "replica", "") not in members


async def test_a_consent_of_256_kib_holds_nobody_up_and_its_first_ids_count(three: World) -> None:
    for number in range(4, 100):
        three.workload.members[number] = Member(number, f"m{number}", Health.UNKNOWN, peer_urls=(f"https://10.9.{number}.1:2380",))
    three.api.change(KCPS, "demo", {"metadata": {"annotations": {CONSENT: "4, 0x5,nobody," + "1," * 127_000 + "6"}}})
    await three.sync()
    started = thread_time()
    observation = await three.observe()
    await read_afresh(three.clients, observation)
    assert thread_time() - started < 0.5
    assert observation.view is not None
    assert {orphan.member.id for orphan in observation.view.orphans if orphan.consented} == {4, 5}


async def test_of_a_hundred_members_of_nobody_the_nodes_of_a_few_are_asked_for_and_the_others_stay(three: World) -> None:
    """Each may have 2 MiB, and a look is taken every second."""
    for number in range(4, 101):
        three.workload.members[number] = Member(number, f"m{number:03}", Health.BAD, peer_urls=(f"https://10.9.{number}.1:2380",))
    view, decision = await later(three)
    assert len(three.workload.named) == 2 * MOST_ASKED  # in two looks
    unknown = {orphan.member.id for orphan in view.orphans if isinstance(orphan.node, Unknown)}
    assert unknown == set(range(4 + MOST_ASKED, 101))
    assert Unknown("97 Nodes would have to be read by name, and at most 20 are") in {orphan.node for orphan in view.orphans}
    assert not isinstance(decision.step, RemoveOrphan)


async def test_of_thousands_of_pods_of_etcd_on_nodes_without_the_label_none_is_asked_for(three: World) -> None:
    pod = three.workload.pods["etcd-cp-1"]
    three.workload.pods |= {f"etcd-x{number}": pod for number in range(2500)}
    assert await control_plane_nodes(cast("Any", three.workload)) == Unknown(
        "2500 Nodes without the label of a control plane run etcd, and no more than 20 are asked for"
    )
    await three.look()
    assert len(three.workload.named) <= MOST_ASKED


async def test_of_hundreds_of_machines_whose_nodes_lack_the_label_the_nodes_of_a_few_are_asked_for(three: World) -> None:
    for number in range(4, 301):
        three.add_machine(f"m-{number}", node=False, status={"nodeRef": {"name": f"m-{number}"}})
    view = (await three.look()).view
    assert len(three.workload.named) == MOST_ASKED
    assert view is not None
    assert {replica.name for replica in view.replicas if isinstance(replica.member, int)} == {"cp-1", "cp-2", "cp-3"}
