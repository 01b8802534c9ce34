"""The loop: how far one pass goes, what it reports, and when it comes back."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from random import Random
from typing import TYPE_CHECKING, Any, cast

import pytest

from quorate.clusterapi.act.creation import CreationFailed
from quorate.clusterapi.inputs import Inputs
from quorate.clusterapi.observe.observation import Connection
from quorate.clusterapi.pace import GATHER, LONGEST_PACE, PACE, SHARE, WORDING, Pace
from quorate.clusterapi.reconciler import INITIALIZING, RING_AT_REST, RING_ILL, RING_IN_MOTION, Reconciler
from quorate.clusterapi.report.publish import Publisher
from quorate.core.health import Health, Unknown
from quorate.etcd.client import Alarm
from quorate.kubernetes.controller import Request
from quorate.kubernetes.errors import Conflict, ConnectionFailed, Forbidden, Invalid, ServerError

if TYPE_CHECKING:
    from tests.clusterapi.loop.conftest import World

DEMO = Request("default", "demo")
KCPS = "kubeadmcontrolplanes"


@dataclass
class Recorder:
    """Keeps the events."""

    events: list[tuple[str, str]] = field(default_factory=list)

    def warning(self, about: object, reason: str, message: str) -> None:
        assert about
        self.events.append((reason, message))


@dataclass
class Clock:
    """Seconds, moved by hand."""

    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Loop:
    """A reconciler on a world, with its clock and the events it sent."""

    world: World
    clock: Clock = field(default_factory=Clock)
    recorder: Recorder = field(default_factory=Recorder)

    def __post_init__(self) -> None:
        world = self.world
        self.reconciler = Reconciler(
            clients=world.clients,
            observer=world.observer,
            actor=world.actor,
            publisher=Publisher(cast("Any", world.api), world.caches),
            recorder=cast("Any", self.recorder),
            clock=lambda: world.now,
            random=Random(1),
            grace=timedelta(minutes=5),
            pace=Pace(self.clock),
            inputs=Inputs(cast("Any", None), self.clock),
        )

    async def turn(self, *, sync: bool = True) -> float | None:
        """One pass, with caches that have caught up."""
        if sync:
            await self.world.sync()
        return (await self.reconciler.reconcile(DEMO)).requeue_after

    async def settled(self) -> float | None:
        """Passes until a report is made; when the next is wanted."""
        await self.turn()
        self.clock.now += WORDING
        return await self.turn()

    def conditions(self) -> dict[str, dict[str, Any]]:
        status = self.world.api.raw(KCPS, "demo").get("status", {})
        return {condition["type"]: condition for condition in status.get("conditions", [])}

    def legacy_conditions(self) -> list[dict[str, Any]]:
        status = self.world.api.raw(KCPS, "demo").get("status", {})
        found: list[dict[str, Any]] = status["deprecated"]["v1beta1"]["conditions"]
        return found


async def test_a_control_plane_that_is_not_there_is_forgotten(empty: World) -> None:
    del empty.api.objects[KCPS, "default", "demo"]
    empty.clients.expectations.expect_version(DEMO, empty.caches.kcps, "999999")
    assert await Loop(empty).turn() is None
    assert not empty.clients.expectations.pending(DEMO)


async def test_without_a_cluster_nothing_happens(empty: World) -> None:
    empty.api.change(KCPS, "demo", {"metadata": {"ownerReferences": None}})
    assert await Loop(empty).turn() is None
    assert empty.log == []


async def test_a_pass_stops_as_soon_as_the_caches_are_behind(empty: World) -> None:
    assert await Loop(empty).turn() is None
    assert sorted(empty.log) == [f"create secrets demo-{suffix}" for suffix in ("ca", "etcd", "proxy", "sa")]
    assert empty.clients.expectations.pending(DEMO)


async def test_steps_follow_each_other_in_one_pass_while_the_caches_keep_up(empty: World) -> None:
    loop = Loop(empty)
    original = empty.actor.perform

    async def perform(step: Any, observation: Any) -> None:
        await original(step, observation)
        await empty.sync()

    object.__setattr__(loop.reconciler, "actor", type("Quick", (), {"perform": staticmethod(perform)})())
    assert (await loop.turn()) is not None
    assert len(empty.api.names("secrets")) == 5
    assert len(empty.api.names("machines")) == 1


async def test_a_conflict_is_tried_again_soon_and_not_reported(empty: World) -> None:
    empty.api.change(KCPS, "demo", {"metadata": {"finalizers": None}})
    empty.api.trouble["patch", KCPS] = Conflict("changed")
    loop = Loop(empty)
    assert [await loop.turn() for _ in range(3)] == [0.05, 0.1, 0.2]
    assert loop.conditions() == {}
    del empty.api.trouble["patch", KCPS]
    await loop.turn()
    empty.api.change(KCPS, "demo", {"metadata": {"finalizers": None}})
    empty.api.trouble["patch", KCPS] = Conflict("changed")
    assert await loop.turn() == 0.05  # a step that succeeded starts the count over


async def test_conflicts_that_do_not_end_are_reported_and_tried_ever_less_often(three: World) -> None:
    three.api.change(KCPS, "demo", {"spec": {"replicas": 1}})
    three.api.trouble["delete", "machines"] = Conflict("cp-1 has changed")
    loop = Loop(three)
    waits = [await loop.turn() for _ in range(9)]
    assert waits[-3:] == [3.2, 5.0, 5.0]
    assert loop.conditions()["Stalled"]["message"] == "cp-1 has changed"


async def test_a_refusal_is_reported_and_tried_again(three: World) -> None:
    for number in (4, 5):
        three.add_machine(f"cp-{number}", member=number)
    three.delete_machine("cp-5")
    loop = Loop(three)
    await three.sync()
    await loop.reconciler.observer.observe(DEMO)  # a reading that is good for a moment
    for number in (2, 3, 4):
        three.lose(number)
    assert await loop.turn() == RING_IN_MOTION
    assert "quorum survives the removal" in loop.conditions()["Stalled"]["message"]
    assert three.holds_hook("cp-5")


async def test_a_failed_step_is_reported_and_raised(empty: World) -> None:
    loop = Loop(empty)
    empty.api.trouble["create", "secrets"] = Forbidden("create secrets: not allowed")
    with pytest.raises((Forbidden, ExceptionGroup)):
        await loop.turn()
    assert loop.conditions()["Stalled"]["message"] == "create secrets: not allowed"


async def test_a_kubeconfig_that_cannot_be_written_keeps_no_machine_from_leaving(three: World) -> None:
    three.now = datetime(2026, 9, 1, tzinfo=UTC)  # the kubeconfig is due
    three.api.trouble["patch", "secrets"] = Forbidden("patch secrets: not allowed")
    three.delete_machine("cp-3")
    loop = Loop(three)
    await loop.turn()
    assert not three.holds_hook("cp-3")
    assert 3 not in three.workload.members
    for _ in range(2):
        await loop.settled()
    assert loop.conditions()["Stalled"]["message"].startswith("it could not be written: patch secrets: not allowed")


async def test_a_single_failure_is_not_raised_as_a_group(three: World) -> None:
    three.api.change(KCPS, "demo", {"spec": {"replicas": 5}})
    three.api.trouble["apply", "devmachines"] = Invalid("size: too small")
    loop = Loop(three)
    with pytest.raises(CreationFailed, match="size: too small"):
        await loop.turn()
    created = next(c for c in loop.legacy_conditions() if c["type"] == "MachinesCreated")
    assert (created["status"], created["reason"], created["message"]) == ("False", "InfrastructureTemplateCloningFailed", "size: too small")


async def test_a_remediation_that_the_last_look_forbids_is_told_on_its_machine_in_that_very_pass(three: World) -> None:
    three.fail("cp-2")
    loop = Loop(three)
    await three.sync()
    await loop.reconciler.observer.observe(DEMO)  # a reading that is good for a moment
    three.lose(3)
    assert await loop.turn() == RING_IN_MOTION
    conditions = three.api.raw("machines", "cp-2")["status"]["conditions"]
    told = next(condition for condition in conditions if condition["type"] == "OwnerRemediated")
    assert told["reason"] == "CannotBeRemediated"
    assert told["message"] == "quorum survives the removal: without cp-2: 1 of 2 voters healthy, quorum 2: 1 short of quorum"


async def test_an_adoption_that_conflicts_is_tried_again_at_once_and_not_reported(empty: World) -> None:
    empty.add_machine("cp-1")
    empty.api.change("machines", "cp-1", {"metadata": {"ownerReferences": None}})
    loop = Loop(empty)
    empty.api.trouble["patch", "machines"] = Conflict("cp-1 has changed")
    assert [await loop.turn() for _ in range(2)] == [0.05, 0.1]
    assert loop.conditions() == {}
    del empty.api.trouble["patch", "machines"]
    await loop.turn()
    owners = empty.api.raw("machines", "cp-1")["metadata"]["ownerReferences"]
    assert [owner["kind"] for owner in owners if owner.get("controller")] == ["KubeadmControlPlane"]


async def test_maintenance_that_fails_is_reported_and_raised(three: World) -> None:
    three.api.trouble["apply", "machines"] = Forbidden("apply machines: not allowed")
    loop = Loop(three)
    await loop.turn()
    loop.clock.now += 1
    with pytest.raises((Forbidden, ExceptionGroup)):
        await loop.turn()
    assert loop.conditions()["Stalled"]["message"] == "apply machines: not allowed"


async def test_a_report_that_conflicts_is_made_anew(three: World) -> None:
    loop = Loop(three)
    await loop.turn()
    loop.clock.now += 1
    three.api.trouble["patch", "machines"] = Conflict("changed")
    assert await loop.turn() == 0.2
    three.api.trouble["patch", "machines"] = ConnectionFailed("refused")
    await loop.turn()
    loop.clock.now += WORDING
    with pytest.raises((ConnectionFailed, ExceptionGroup)):
        await loop.turn()


async def test_maintenance_that_conflicts_is_tried_again_and_the_report_is_made_all_the_same(three: World) -> None:
    loop = Loop(three)
    await loop.turn()
    loop.clock.now += 1
    three.api.trouble["apply", "machines"] = Conflict("gone")
    assert await loop.turn() == 0.2
    assert "Stalled" not in loop.conditions()
    assert loop.conditions()["Available"]


async def test_after_the_finalizer_nothing_is_reported(empty: World) -> None:
    empty.api.change(KCPS, "demo", {"metadata": {"deletionTimestamp": "2026-01-01T12:00:00Z"}})
    assert await Loop(empty).turn() is None
    assert empty.api.names(KCPS) == []


async def test_a_paused_control_plane_is_told_so_and_left_alone(three: World) -> None:
    three.api.change("clusters", "demo", {"spec": {"paused": True}})
    loop = Loop(three)
    await loop.settled()
    assert set(three.log) == {"patch kubeadmcontrolplanes demo/status"}
    assert loop.conditions()["Paused"]["status"] == "True"


def test_changes_are_gathered_and_reports_are_spread() -> None:
    clock = Clock()
    pace = Pace(clock)
    assert pace.too_early(DEMO) == pytest.approx(GATHER)
    clock.now += GATHER / 2
    assert pace.too_early(DEMO) == pytest.approx(GATHER / 2)  # a further change does not put it off
    clock.now += GATHER / 2 + 0.001
    assert pace.too_early(DEMO) == 0
    pace.begun(DEMO, wording=True)
    pace.written(DEMO)
    assert pace.too_early(DEMO) == pytest.approx(PACE)
    assert pace.too_early_for_wording(DEMO) == pytest.approx(WORDING)
    assert pace.too_early(Request("default", "other")) == pytest.approx(GATHER)
    clock.now += WORDING
    assert pace.too_early_for_wording(DEMO) == 0
    pace.begun(DEMO, wording=True)
    pace.forget(DEMO)
    assert pace.too_early(DEMO) == pytest.approx(GATHER)
    assert pace.too_early_for_wording(DEMO) == 0


@pytest.mark.parametrize(("took", "wait"), [(0.02, PACE - 0.02), (0.5, 0.5 / SHARE), (60.0, LONGEST_PACE)])
def test_the_slower_the_api_server_the_rarer_the_reports(took: float, wait: float) -> None:
    clock = Clock()
    pace = Pace(clock)
    assert pace.too_early(DEMO)  # and is reported at once all the same, because others wait
    pace.begun(DEMO, wording=True)
    clock.now += took
    pace.written(DEMO)
    assert pace.too_early(DEMO) == pytest.approx(wait)
    assert pace.too_early(Request("default", "other")) == pytest.approx(GATHER)


def test_news_after_news_does_not_put_off_the_wording() -> None:
    clock = Clock()
    pace = Pace(clock)
    pace.begun(DEMO, wording=True)
    for _ in range(2):
        clock.now += WORDING / 2
        pace.begun(DEMO, wording=False)
    assert pace.too_early_for_wording(DEMO) == 0


async def test_what_others_wait_for_is_reported_at_once(three: World) -> None:
    loop = Loop(three)
    await loop.settled()
    loop.reconciler.pace.begun(DEMO, wording=True)
    three.api.change(KCPS, "demo", {"status": {"initialization": None}})
    await loop.turn()
    assert three.api.raw(KCPS, "demo")["status"]["initialization"] == {"controlPlaneInitialized": True}


async def test_it_looks_again_at_what_cannot_be_watched_as_often_as_that_may_change(three: World) -> None:
    looks = Loop(three).reconciler._looks_again
    observation = await three.look()
    view = observation.view
    assert view is not None
    [rest] = looks(observation)
    assert 0.8 * RING_AT_REST <= rest <= 1.2 * RING_AT_REST
    unread = replace(observation, view=replace(view, ring=Unknown("no leader")))
    three.lose(2)
    ill = await three.look()
    down = replace(observation, connection=Connection(Health.BAD, "lost"))
    uninitialized = replace(observation, initialized=False)
    assert looks(unread) == [RING_IN_MOTION]
    assert looks(ill) == [RING_ILL]
    assert looks(uninitialized) == [INITIALIZING]
    for quiet in (down, replace(observation, view=replace(view, paused="x")), replace(observation, view=None)):
        assert looks(quiet) == []


async def test_it_looks_again_at_members_that_are_nobodys_or_disagree_as_at_ill_ones(three: World) -> None:
    looks = Loop(three).reconciler._looks_again
    three.workload.disagreement = "cp-1 lists others"
    assert looks(await three.look()) == [RING_ILL]
    three.workload.disagreement = ""
    three.workload.alarms = (Alarm(8, "NOSPACE"),)  # of one that was removed
    assert looks(await three.look()) == [RING_ILL]
    three.workload.alarms = ()
    three.workload.members[9] = replace(three.workload.members[1], id=9, name="gone", peer_urls=("https://gone.test:2380",))
    assert looks(await three.look()) == [RING_ILL]
    observation = await three.look()
    assert observation.view is not None
    young = tuple(replace(replica, created=three.now) for replica in observation.view.replicas)
    assert looks(replace(observation, view=replace(observation.view, replicas=young))) == [RING_IN_MOTION]


async def test_it_comes_back_at_the_moment_at_which_a_schedule_makes_machines_outdated(three: World) -> None:
    await three.keep_up()
    schedule = {"after": (three.now + timedelta(seconds=20)).strftime("%Y-%m-%dT%H:%M:%SZ")}
    three.api.change(KCPS, "demo", {"spec": {"rollout": schedule}})
    await three.keep_up()
    assert await Loop(three).settled() == 20


async def test_an_external_etcd_is_looked_at_rarely_unless_it_is_not_reached(three: World) -> None:
    looks = Loop(three).reconciler._looks_again
    external = {"clusterConfiguration": {"etcd": {"external": {"endpoints": ["https://e:2379"]}}}}
    three.api.change(KCPS, "demo", {"spec": {"kubeadmConfigSpec": external}})
    [rest] = looks(await three.look())
    assert 0.8 * RING_AT_REST <= rest <= 1.2 * RING_AT_REST
    three.workload.api.etcd_trouble = ServerError("get /readyz/etcd: etcd failed: reason withheld", code=500)
    assert looks(await three.look()) == [RING_ILL]


async def test_an_ill_member_is_looked_at_every_second_while_a_machine_is_young(three: World) -> None:
    three.lose(2)
    ill = await three.look()
    assert ill.view is not None
    young = replace(ill.view, replicas=tuple(replace(replica, created=three.now) for replica in ill.view.replicas))
    assert Loop(three).reconciler._looks_again(replace(ill, view=young)) == [RING_IN_MOTION]


async def test_a_learner_is_looked_at_every_second(three: World) -> None:
    three.workload.members[3] = replace(three.workload.members[3], learner=True)
    assert Loop(three).reconciler._looks_again(await three.look()) == [RING_IN_MOTION]
