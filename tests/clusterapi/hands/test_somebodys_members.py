"""Members that run on control-plane Nodes without a Machine: management objects were set back, or one Machine of an existing cluster was adopted (S17)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

import msgspec
import pytest

from quorate.clusterapi.refusal import Refused
from quorate.clusterapi.report import report
from quorate.clusterapi.upkeep import maintain
from quorate.core.control_plane import ControlPlane
from quorate.core.decide import Decision, decide
from quorate.core.health import Health, Unknown
from quorate.core.ring import Ring
from quorate.core.rules.strays import CONSENT, IS_NOBODYS
from quorate.core.steps import RemoveStray
from quorate.etcd import client as etcd
from quorate.etcd.errors import NoWay, Unreachable
from quorate.kubernetes.objects import Node
from quorate.workload.membership import RingReading, read_ring

from .conftest import FakeWorkload

if TYPE_CHECKING:
    from .conftest import World

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
KCPS = "kubeadmcontrolplanes"


@dataclass
class Answering(FakeWorkload):
    """A workload cluster whose ring is read by the production's own code: only who is asked answers, and `silent` do not."""

    silent: set[str] = field(default_factory=set)

    async def read_ring(self, nodes: Iterable[str]) -> RingReading | Unknown:
        self.asked = tuple(nodes)
        return await read_ring(cast("Any", self._lend), self.asked, lambda: NOON)

    @asynccontextmanager
    async def _lend(self, node: str) -> AsyncIterator[Any]:
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
    assert not isinstance(decision.step, RemoveStray)
    refusals = [check for check in decision.refusals if check.name == IS_NOBODYS]
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
    assert not isinstance(decision.step, RemoveStray)


async def test_one_goes_with_consent_which_is_cleared_then(five: World) -> None:
    five.api.change(KCPS, "demo", {"metadata": {"annotations": {CONSENT: "4"}}})
    _, decision = await later(five)
    assert decision.step == RemoveStray(4)
    del five.workload.members[4]
    await maintain(five.clients, await five.look())
    assert CONSENT not in five.annotations(KCPS, "demo")


async def test_consent_stays_until_the_last_of_its_members_has_gone(five: World) -> None:
    five.api.change(KCPS, "demo", {"metadata": {"annotations": {CONSENT: "4, 5, nonsense"}}})
    del five.workload.members[4]
    await maintain(five.clients, await five.look())
    assert CONSENT in five.annotations(KCPS, "demo")


async def test_one_that_is_silent_on_a_node_that_is_ready_stays(five: World) -> None:
    cast("Answering", five.workload).silent.add("cp-4")
    view, decision = await later(five)
    assert not isinstance(decision.step, RemoveStray)
    assert {stray.member.id: stray.member.health for stray in view.strays} == {4: Health.BAD, 5: Health.GOOD}


async def test_one_that_is_silent_on_a_node_that_is_not_ready_goes(five: World) -> None:
    cast("Answering", five.workload).silent.add("cp-4")
    not_ready(five, "cp-4")
    assert (await later(five))[1].step == RemoveStray(4)


async def test_one_that_is_well_on_a_node_that_is_not_ready_stays(five: World) -> None:
    not_ready(five, "cp-4")
    assert not isinstance((await later(five))[1].step, RemoveStray)


async def test_one_whose_node_is_gone_goes(five: World) -> None:
    five.workload.node_list[:] = [node for node in five.workload.node_list if node.metadata.name != "cp-4"]
    assert (await later(five))[1].step == RemoveStray(4)


async def test_the_last_look_asks_every_member_and_keeps_one_that_came_back(five: World) -> None:
    workload = cast("Answering", five.workload)
    workload.silent.add("cp-4")
    not_ready(five, "cp-4")
    _, decision = await later(five)
    assert decision.step == RemoveStray(4)
    observation = await five.look()
    workload.silent.clear()
    with pytest.raises(Refused, match="runs on Node cp-4"):
        await five.actor.perform(decision.step, observation)
    assert set(workload.asked) == {"cp-1", "cp-2", "cp-3", "cp-4", "cp-5"}
    assert 4 in workload.members
