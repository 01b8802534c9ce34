"""Replacing a Machine that failed: its records, the order of its writes, and a crash at any of them."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.clusterapi.act import creation
from quorate.clusterapi.act.creation import CreationFailed
from quorate.clusterapi.act.maintenance import maintain
from quorate.clusterapi.act.refusal import Refused
from quorate.clusterapi.desired import remediation_record
from quorate.clusterapi.desired.remediation_record import INTENT, MalformedRecord
from quorate.clusterapi.types.names import Annotation
from quorate.core.health import Health
from quorate.core.machines.decide import decide
from quorate.core.machines.rules.remediate import keep_the_records, remediate
from quorate.core.machines.state import ControlPlane, Remediation
from quorate.core.machines.steps import CreateReplica, ForgetRemediation, RecordRemediation, Remediate, Step
from quorate.core.ring import Member
from quorate.kubernetes.errors import Conflict, ConnectionFailed

if TYPE_CHECKING:
    from tests.clusterapi.loop.conftest import World

KCPS = "kubeadmcontrolplanes"
UPSTREAMS = Annotation.REMEDIATION_IN_PROGRESS
REPLACE = Remediate("cp-2", 0)
RECORD = '{"machine":"cp-2","timestamp":"2026-01-01T12:00:00Z","retryCount":0}'
WRITES = 3


async def view(world: World) -> ControlPlane:
    found = (await world.look()).view
    assert found is not None
    return found


async def next_step(world: World) -> Step | None:
    """What the rules of remediation want."""
    now = await view(world)
    return keep_the_records(now, world.now).step or remediate(now, world.now).step


def gone(world: World, name: str) -> None:
    """A Machine has ended, and its member with it."""
    del world.api.objects["machines", "default", name]
    world.workload.members = {number: member for number, member in world.workload.members.items() if member.name != name}


async def test_a_record_is_written_before_the_delete_and_upstreams_after_it(three: World) -> None:
    await three.actor.perform(REPLACE, await three.look())
    assert three.log == [f"patch {KCPS} demo", "delete machines cp-2", f"patch {KCPS} demo"]
    first, _, last = (body["metadata"]["annotations"] if "metadata" in body else {} for _, body in three.api.bodies)
    assert first == {INTENT: RECORD}
    assert last == {INTENT: None, UPSTREAMS: RECORD}
    assert three.remediating() == {UPSTREAMS: RECORD}


async def test_nobody_is_replaced_beside_one_that_began_to_leave_since_that_was_judged(three: World) -> None:
    observation = await three.look()
    three.delete_machine("cp-3", at_hook=False)
    await three.sync()
    with pytest.raises(Refused, match="cp-3 began to leave after this was decided"):
        await three.actor.perform(REPLACE, observation)
    assert three.log == [f"patch {KCPS} demo"]  # the record of what was about to be done


async def test_leadership_leaves_before_the_machine_does_and_goes_to_one_that_no_health_check_failed(three: World) -> None:
    three.fail("cp-2")
    await three.actor.perform(Remediate("cp-1", 1), await three.look())
    assert three.log == [f"patch {KCPS} demo", "move_leader to 3 through cp-1", "delete machines cp-1", f"patch {KCPS} demo"]
    assert '"retryCount":1' in three.remediating()[UPSTREAMS]


async def test_what_the_ring_cannot_do_without_by_now_is_not_deleted_and_the_record_is_forgotten(three: World) -> None:
    three.fail("cp-2")
    observation = await three.look()
    three.lose(3)
    with pytest.raises(Refused, match="quorum survives the removal: without cp-2"):
        await three.actor.perform(REPLACE, observation)
    assert three.remediating() == {INTENT: RECORD}
    assert await next_step(three) is None
    three.api.change("machines", "cp-2", {"status": {"conditions": []}})  # it recovers
    assert await next_step(three) == ForgetRemediation()
    await three.actor.perform(ForgetRemediation(), await three.look())
    assert three.remediating() == {}


async def test_before_initialization_no_ring_is_asked(empty: World) -> None:
    empty.add_machine("cp-2", node=False, metadata={"annotations": {"quorate.dev/founded-by": "kcp-uid"}})
    empty.workload.ring_problem = "nobody there"
    await empty.actor.perform(REPLACE, await empty.look())
    assert empty.log[-3:] == [f"patch {KCPS} demo", "delete machines cp-2", f"patch {KCPS} demo"]


async def test_with_external_etcd_a_machine_is_replaced_as_long_as_another_serves(three: World) -> None:
    external = {"clusterConfiguration": {"etcd": {"external": {"endpoints": ["https://e:2379"]}}}}
    three.api.change(KCPS, "demo", {"spec": {"kubeadmConfigSpec": external}})
    three.workload.ring_problem = "there is none"
    three.fail("cp-2")
    assert await next_step(three) == REPLACE
    await three.actor.perform(REPLACE, await three.look())
    assert three.log[1] == "delete machines cp-2"


async def test_a_control_plane_or_a_machine_that_changed_since_it_was_judged_is_left_alone(three: World) -> None:
    observation = await three.look()
    three.api.change("machines", "cp-2", {"metadata": {"annotations": {"somebody": "was here"}}})
    with pytest.raises(Conflict):
        await three.actor.perform(REPLACE, observation)
    assert "deletionTimestamp" not in three.api.raw("machines", "cp-2")["metadata"]
    observation = await three.look()
    three.api.change(KCPS, "demo", {"spec": {"replicas": 5}})
    three.log.clear()
    with pytest.raises(Conflict):
        await three.actor.perform(REPLACE, observation)
    assert three.log == []


@pytest.mark.parametrize("number", range(WRITES))
@pytest.mark.parametrize("failure", [lambda: ConnectionFailed("the answer was lost"), CancelledError], ids=["lost answer", "crash"])
@pytest.mark.parametrize("lasting", [False, True], ids=["machine ends at once", "machine stays for a while"])
async def test_after_a_crash_at_any_write_the_rules_and_hands_end_where_they_would_have(
    three: World, number: int, failure: Callable[[], BaseException], *, lasting: bool
) -> None:
    three.fail("cp-2")
    three.api.fail_at, three.api.failure = number, failure
    with pytest.raises((ConnectionFailed, CancelledError)):
        await three.actor.perform(REPLACE, await three.look())
    assert [name for name in three.api.names("machines") if "deletionTimestamp" in three.api.raw("machines", name)["metadata"]] == (
        [] if number == 0 else ["cp-2"]
    )
    if number > 0 and not lasting:
        gone(three, "cp-2")
    steps: list[Step] = []
    while (step := await next_step(three)) is not None:
        steps.append(step)
        await three.actor.perform(step, await three.look())
        assert len(steps) < 3
    assert steps == [[REPLACE], [RecordRemediation()], []][number]
    assert three.remediating() == {UPSTREAMS: RECORD}
    assert three.log.count("delete machines cp-2") == 1


def others_do_their_part(world: World) -> None:
    """The Machine controller ends what nobody holds any more, and kubeadm joins what is new."""
    for name in world.api.names("machines"):
        metadata = world.api.raw("machines", name)["metadata"]
        if "deletionTimestamp" in metadata:
            if not world.holds_hook(name):
                gone(world, name)
            elif not world.api.raw("machines", name).get("status", {}).get("conditions", [{}])[0].get("reason"):
                world.delete_machine(name)
        elif not any(node.metadata.name == name for node in world.workload.node_list):
            world.api.change("devmachines", name, {"spec": {"providerID": f"test:///{name}"}})
            world.api.change("kubeadmconfigs", name, {"metadata": {"annotations": {Annotation.CERTIFICATES_EXPIRY: "x"}}})
            world.add_node(name)
            world.workload.members[9] = Member(9, name, Health.GOOD)


async def live(world: World) -> list[Step]:
    """What the whole table of rules and the hands do until nothing is left to do; whatever goes wrong is tried again."""
    taken: list[Step] = []
    for _ in range(30):
        observation = await world.look()
        assert observation.view is not None
        step = decide(observation.view, world.now).step
        if step is None:
            return taken
        with suppress(ConnectionFailed, CreationFailed, ExceptionGroup):
            await world.actor.perform(step, observation)
            taken.append(step)
        others_do_their_part(world)
    raise AssertionError(f"no end: {taken[-3:]}")


@pytest.mark.parametrize("number", [*range(11), 99], ids=lambda number: "no crash" if number == 99 else f"write {number}")
async def test_a_remediation_ends_with_one_replacement_wherever_an_answer_is_lost(three: World, number: int) -> None:
    three.fail("cp-2")
    three.api.writes, three.api.fail_at = 0, number
    await live(three)
    assert three.api.fail_at == (99 if number == 99 else None)
    (name,) = set(three.api.names("machines")) - {"cp-1", "cp-3"}
    assert three.annotations("machines", name)[Annotation.REMEDIATION_FOR] == RECORD
    assert three.remediating() == {}
    assert sorted(member.name for member in three.workload.members.values()) == sorted(["cp-1", "cp-3", name])
    for plural in ("devmachines", "kubeadmconfigs"):
        assert set(three.api.names(plural)) == {"cp-1", "cp-2", "cp-3", name}  # cp-2's go with their owner
    assert three.log.count("remove_member 2 through cp-1") == 1


async def test_the_replacement_carries_the_record_and_the_control_plane_gives_it_up_in_the_same_write_as_the_intent(three: World) -> None:
    await three.actor.perform(REPLACE, await three.look())
    gone(three, "cp-2")
    three.log.clear()
    three.api.bodies.clear()
    await three.actor.perform(CreateReplica("", initialize=False), await three.look())
    (name,) = set(three.api.names("machines")) - {"cp-1", "cp-3"}
    assert three.annotations("machines", name)[Annotation.REMEDIATION_FOR] == RECORD
    assert three.remediating() == {}
    assert three.log.count(f"patch {KCPS} demo") == 2
    replaced = (await view(three)).replica(name).replaces
    assert replaced == Remediation("cp-2", datetime(2026, 1, 1, 12, tzinfo=UTC), 0)


async def test_the_record_of_a_replacement_outlives_the_maintenance_of_its_machine(three: World) -> None:
    three.api.change("machines", "cp-1", {"metadata": {"annotations": {Annotation.REMEDIATION_FOR: RECORD}}})
    await maintain(three.clients, await three.look())
    applied = next(body for line, body in three.api.bodies if line.startswith("apply machines cp-1"))
    assert applied["metadata"]["annotations"][Annotation.REMEDIATION_FOR] == RECORD


@pytest.mark.parametrize("number", range(7))
async def test_after_a_crash_at_any_write_of_the_replacement_there_is_one_and_no_record_is_left(three: World, number: int) -> None:
    await three.actor.perform(REPLACE, await three.look())
    gone(three, "cp-2")
    step = CreateReplica("", initialize=False)
    observation = await three.look()
    three.api.writes, three.api.fail_at = 0, number
    with pytest.raises((ConnectionFailed, CreationFailed, ExceptionGroup)):
        await three.actor.perform(step, observation)
    if len(three.api.names("machines")) < 3:
        await three.actor.perform(step, await three.look())
    await creation.settle(three.clients, await three.look())
    while (again := await next_step(three)) is not None:
        await three.actor.perform(again, await three.look())
    (name,) = set(three.api.names("machines")) - {"cp-1", "cp-3"}
    assert three.annotations("machines", name)[Annotation.REMEDIATION_FOR] == RECORD
    assert three.remediating() == {}
    assert "quorate.dev/creating" not in three.annotations(KCPS, "demo")


async def test_a_newer_record_is_not_cleared_with_an_older_one(three: World) -> None:
    three.api.change(KCPS, "demo", {"metadata": {"annotations": {UPSTREAMS: RECORD, "quorate.dev/creating": '{"name":"cp-1"}'}}})
    three.api.change("machines", "cp-1", {"metadata": {"annotations": {Annotation.REMEDIATION_FOR: RECORD}}})
    observation = await three.look()
    newer = RECORD.replace("cp-2", "cp-3")
    three.api.change(KCPS, "demo", {"metadata": {"annotations": {UPSTREAMS: newer}}})
    with pytest.raises(Conflict):
        await creation.settle(three.clients, observation)
    await creation.settle(three.clients, await three.look())
    assert three.remediating() == {UPSTREAMS: newer}


async def test_a_record_that_nobody_can_read_is_not_passed_on(three: World) -> None:
    three.api.change(KCPS, "demo", {"metadata": {"annotations": {UPSTREAMS: "{"}}})
    await three.actor.perform(CreateReplica("", initialize=False), await three.look())
    (name,) = set(three.api.names("machines")) - {"cp-1", "cp-2", "cp-3"}
    assert Annotation.REMEDIATION_FOR not in three.annotations("machines", name)


@pytest.mark.parametrize("step", [RecordRemediation(), ForgetRemediation()])
async def test_records_are_not_written_over_a_change(three: World, step: Step) -> None:
    three.api.change(KCPS, "demo", {"metadata": {"annotations": {INTENT: RECORD}}})
    observation = await three.look()
    three.api.change(KCPS, "demo", {"metadata": {"annotations": {UPSTREAMS: RECORD}}})
    with pytest.raises(Conflict):
        await three.actor.perform(step, observation)


async def test_without_an_intent_there_is_nothing_to_finish(three: World) -> None:
    await three.actor.perform(RecordRemediation(), await three.look())
    assert three.log == []


async def test_a_member_that_never_started_may_go_with_its_machine(three: World) -> None:
    three.add_machine("cp-4", node=False)
    three.workload.members[4] = Member(4, "", Health.BAD, peer_urls=("https://10.0.0.4:2380",))
    three.fail("cp-4")
    three.log.clear()
    assert await next_step(three) == Remediate("cp-4", 0)
    await three.actor.perform(Remediate("cp-4", 0), await three.look())
    assert three.log == [f"patch {KCPS} demo", "delete machines cp-4", f"patch {KCPS} demo"]


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MOMENTS = st.none() | st.integers(0, 4_000_000_000).map(lambda seconds: EPOCH + timedelta(seconds=seconds))


@given(st.from_regex(r"[a-z0-9][-a-z0-9.]{0,62}", fullmatch=True), MOMENTS, st.integers(0, 2**31 - 1))
def test_a_record_is_read_as_it_was_written(name: str, at: datetime | None, retries: int) -> None:
    record = Remediation(name, at, retries)
    assert remediation_record.read({"key": remediation_record.encode(record)}, "key") == record


def test_a_record_is_written_byte_for_byte_as_upstream_writes_it() -> None:
    at = datetime(2026, 1, 1, 13, 0, 0, 999999, tzinfo=timezone(timedelta(hours=1)))
    assert remediation_record.encode(Remediation("cp-2", at)) == RECORD
    assert remediation_record.encode(Remediation("cp-2", None, 3)) == '{"machine":"cp-2","timestamp":null,"retryCount":3}'


@pytest.mark.parametrize("timestamp", ["null", '"0001-01-01T00:00:00Z"'])
def test_a_zero_time_is_none(timestamp: str) -> None:
    assert remediation_record.read({"key": f'{{"machine":"m","timestamp":{timestamp}}}'}, "key") == Remediation("m", None, 0)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"machine":3}',
        '{"timestamp":"2026-01-01T00:00:00"}',
        '{"timestamp":"9999-12-31T23:59:59-23:00"}',
        '{"retryCount":"1"}',
        '{"timestamp":"9999-12-31T23:59:59Z"}',
        f'{{"x":{"[" * 5000}{"]" * 5000}}}',
    ],
)
def test_what_is_no_record_is_named_with_its_annotation(text: str) -> None:
    with pytest.raises(MalformedRecord, match="annotation key is not a record of a remediation: "):
        remediation_record.read({"key": text}, "key")


def test_no_record_is_none() -> None:
    assert remediation_record.read({}, "key") is None
