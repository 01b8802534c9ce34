"""A run: observe, decide, act, and again, until there is nothing to do or nothing can be done; what it tells, and how it ends."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import pytest

from quorate.core.checks import failed, passed, unknown
from quorate.core.hosts.approval import Approval
from quorate.core.hosts.decide import Decision
from quorate.core.hosts.encryption import IDENTITY, SECRETS, Configuration, Encryption
from quorate.core.hosts.state import Cluster, Host, Kind
from quorate.core.hosts.steps import ChangeEncryption, Join, RenewCertificates, Step, TakeSnapshot, UpgradeControlPlane
from quorate.hosts.act.failures import StepFailed
from quorate.hosts.connect.ssh.errors import ConnectionCut
from quorate.hosts.run.events import Ended, Event, Observed, Outcome, Started, StepBegun, StepBroke, StepDone, Waiting
from quorate.hosts.run.session import ATTEMPTS, Done, Parts, Session
from quorate.hosts.run.wait_policy import LONGEST_WAIT, RESTARTING, SETTLING, TIMEOUT
from tests.core.hosts.conftest import V135, Build

BUILD = Build()
NOON = BUILD.noon
ANYTHING = Approval.of((), only=False)
NOTHING = Decision("nothing to do", None, (), None)


@dataclass(frozen=True, slots=True)
class Seen:
    cluster: Cluster


@dataclass
class World:
    """A world whose decisions are given in order, the last for ever; time passes only in sleeps and looks.

    `failing` is raised by a step each time it is carried out.
    """

    decisions: list[Decision]
    failing: dict[Step, list[Exception]] = field(default_factory=dict)
    now: datetime = NOON
    look: float = 0.0  # seconds that one takes
    events: list[Event] = field(default_factory=list)
    done: list[Step] = field(default_factory=list)
    told: list[Done] = field(default_factory=list)
    cluster: Cluster = field(default_factory=BUILD.three)
    hang: asyncio.Event | None = None
    settled: list[int] = field(default_factory=list)  # after how many steps
    approval: Approval = ANYTHING

    async def observe(self, done: Done) -> Seen:
        self.now += timedelta(seconds=self.look)
        self.told.append(done)
        return Seen(done.told(self.cluster))

    def decide(self, _cluster: Cluster, _now: datetime) -> Decision:
        return self.decisions.pop(0) if len(self.decisions) > 1 else self.decisions[0]

    async def carry_out(self, step: Step, _seen: Seen) -> None:
        if self.hang is not None:
            self.hang.set()
            await asyncio.Event().wait()
        if self.failing.get(step):
            raise self.failing[step].pop(0)
        self.done.append(step)

    async def settle(self, _seen: Seen) -> None:
        self.settled.append(len(self.done))

    async def sleep(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def session(self) -> Session[Seen]:
        parts = Parts(
            observe=self.observe,
            carry_out=self.carry_out,
            emit=self.events.append,
            now=lambda: self.now,
            sleep=self.sleep,
            approval=self.approval,
            decide=self.decide,
            settle=self.settle,
        )
        return Session(parts, command="apply", by="jane@desk")

    async def run(self) -> Ended:
        return await self.session().run()

    def kinds(self) -> list[str]:
        return [type(event).__name__ for event in self.events]


class Promising(World):
    """A world in which something is always about to change."""

    def decide(self, _cluster: Cluster, now: datetime) -> Decision:
        return refusal(wake_at=now + timedelta(seconds=30))


def step(wanted: Step) -> Decision:
    return Decision("a rule", wanted, (passed("quorum", "3 of 3"),), None)


def refusal(remedy: str = "Bring it back.", wake_at: datetime | None = None) -> Decision:
    return Decision("nothing to do", None, (passed("api", "answers"), failed("quorum", "1 of 3", remedy)), wake_at)


def cut() -> StepFailed:
    failure = StepFailed("cp-2", "the connection ended")
    failure.__cause__ = ConnectionCut("host cp-2", "the connection ended")
    return failure


async def test_steps_follow_each_other_with_a_look_after_each_until_there_is_nothing_to_do() -> None:
    world = World([step(Join("cp-2")), step(Join("cp-3")), NOTHING])
    ended = await world.run()
    assert (ended.outcome, ended.steps) == (Outcome.CONVERGED, 2)
    assert world.done == [Join("cp-2"), Join("cp-3")]
    assert world.kinds() == ["Started", "Observed", "StepBegun", "StepDone", "Observed", "StepBegun", "StepDone", "Observed", "Ended"]


@pytest.mark.parametrize(
    ("decisions", "settled"),
    [
        ([NOTHING], [0]),
        ([step(Join("cp-2")), NOTHING], [1]),
        ([step(Join("cp-2")), refusal()], [1]),
        ([refusal()], [0]),
    ],
)
async def test_what_steps_left_to_go_on_is_finished_once_at_the_end(decisions: list[Decision], settled: list[int]) -> None:
    world = World(decisions)
    await world.run()
    assert world.settled == settled


async def test_the_last_word_of_a_run_names_what_differs_all_the_same() -> None:
    cluster = replace(BUILD.three(), lasting_drift=("kube-proxy: it is missing",))
    assert (await World([NOTHING]).run()).message == "everything is as the manifest says"
    ended = await World([NOTHING], cluster=cluster).run()
    assert ended.message == "everything else is as the manifest says; this differs until you change it: cluster: kube-proxy: it is missing"


async def test_events_say_who_what_and_on_which_checks() -> None:
    world = World([step(Join("cp-2")), NOTHING])
    await world.run()
    assert isinstance(world.events[0], Started)
    assert (world.events[0].by, world.events[0].hosts) == ("jane@desk", ("cp-1", "cp-2", "cp-3"))
    assert isinstance(world.events[1], Observed)
    assert (world.events[1].tolerates, world.events[1].hosts["cp-1"]) == (1, "well")
    assert isinstance(world.events[2], StepBegun)
    assert (world.events[2].step, world.events[2].hosts) == ("join cp-2 as a control plane", ("cp-2",))
    assert [(check.name, check.passed) for check in world.events[2].checks] == [("quorum", True)]


async def test_what_somebody_has_to_resolve_ends_a_run_at_once() -> None:
    world = World([refusal()])
    ended = await world.run()
    assert (ended.outcome, world.now) == (Outcome.STALLED, NOON)
    assert [check.remedy for check in ended.because] == ["Bring it back."]


async def test_what_time_alone_may_resolve_is_waited_for_and_said_with_its_reason() -> None:
    world = World([refusal(remedy=""), refusal(remedy=""), NOTHING])
    ended = await world.run()
    assert ended.outcome is Outcome.CONVERGED
    waits = [event for event in world.events if isinstance(event, Waiting)]
    assert [wait.because[0].name for wait in waits] == ["quorum", "quorum"]


async def test_what_is_not_known_is_asked_again_before_a_run_ends() -> None:
    silent = Decision("nothing to do", None, (unknown("quorum", "no member answers", "Look at its logs."),), None)
    assert (await World([silent, silent, NOTHING]).run()).outcome is Outcome.CONVERGED


async def test_the_wait_ends() -> None:
    world = World([refusal(remedy="")])
    assert (await world.run()).outcome is Outcome.STALLED
    assert TIMEOUT <= world.now - NOON <= TIMEOUT + timedelta(seconds=5)


async def test_hosts_that_were_just_switched_on_are_waited_for_whatever_they_lack() -> None:
    three = BUILD.three()
    starting = replace(three, hosts=(*three.hosts[:2], replace(three.hosts[2], kind=Kind.BROKEN, just_booted=True)))
    assert (await World([refusal(), refusal(), NOTHING], cluster=starting).run()).outcome is Outcome.CONVERGED
    world = World([refusal()], cluster=starting)
    assert (await world.run()).outcome is Outcome.STALLED
    assert TIMEOUT <= world.now - NOON <= TIMEOUT + timedelta(seconds=5)


def restarting(host: Host) -> Host:
    return replace(host, kind=Kind.BROKEN, api_server_restarts=True)


@dataclass
class Restarting(World):
    """A world in which an API server runs and does not listen for so many seconds, and answers so many later."""

    for_seconds: float = 0.0
    comes_up_in: float = 0.0

    async def observe(self, done: Done) -> Seen:
        three, passed_by = BUILD.three(), (self.now - NOON).total_seconds()
        self.cluster = replace(three, hosts=(*three.hosts[:2], restarting(three.hosts[2]))) if passed_by < self.for_seconds else three
        self.decisions = [NOTHING] if passed_by >= self.for_seconds + self.comes_up_in else [refusal()]
        return await super().observe(done)


@pytest.mark.parametrize(("seconds", "more"), [(0.5, 10), (70, 15), (95, 10)])
async def test_an_api_server_that_was_asked_to_end_before_the_run_began_is_waited_for_until_the_next_one_answers(
    seconds: float, more: float
) -> None:
    world = Restarting([], for_seconds=seconds, comes_up_in=more)
    assert (await world.run()).outcome is Outcome.CONVERGED


@pytest.mark.parametrize(("seconds", "more"), [(1e6, 0), (70, 1e6)])
async def test_and_not_for_ever(seconds: float, more: float) -> None:
    world = Restarting([], for_seconds=seconds, comes_up_in=more)
    assert (await world.run()).outcome is Outcome.STALLED
    assert world.now - NOON <= min(timedelta(seconds=seconds), RESTARTING) + SETTLING + timedelta(seconds=5)


async def test_what_comes_up_one_thing_after_another_is_waited_for_each_time() -> None:
    silent = Decision("nothing to do", None, (unknown("quorum", "no member answers", "Look at its logs."),), None)
    starting = Decision("nothing to do", None, (failed("the API answers", "refused", "Look at its logs."),), None)
    assert (await World([silent, starting, starting, NOTHING]).run()).outcome is Outcome.CONVERGED
    world = World([silent, starting, silent, starting])
    assert (await world.run()).outcome is Outcome.STALLED
    assert SETTLING <= world.now - NOON <= TIMEOUT, "what was in the way before begins nothing anew"


async def test_after_a_step_what_was_restarted_may_answer_late() -> None:
    world = World([step(Join("cp-2")), refusal(), refusal(), NOTHING])
    assert (await world.run()).outcome is Outcome.CONVERGED
    world = World([step(Join("cp-2")), refusal()])
    assert (await world.run()).outcome is Outcome.STALLED
    assert world.now - NOON >= SETTLING


async def test_after_a_step_a_look_that_took_long_is_not_the_last_one() -> None:
    world = World([step(Join("cp-2")), refusal(), NOTHING], look=2 * SETTLING.total_seconds())
    assert (await world.run()).outcome is Outcome.CONVERGED


async def test_it_sleeps_exactly_until_time_changes_the_decision() -> None:
    world = World([refusal(wake_at=NOON + timedelta(seconds=5)), NOTHING])
    assert (await world.run()).outcome is Outcome.CONVERGED
    assert world.now == NOON + timedelta(seconds=5)


async def test_certificates_that_expire_in_a_month_keep_no_run_waiting() -> None:
    world = World([refusal(wake_at=NOON + timedelta(days=30))])
    assert (await world.run()).outcome is Outcome.STALLED
    assert world.now == NOON


async def test_a_decision_that_time_keeps_promising_to_change_is_not_waited_for_for_ever() -> None:
    world = Promising([NOTHING])
    assert (await world.run()).outcome is Outcome.STALLED
    assert world.now - NOON >= LONGEST_WAIT


async def test_a_step_that_fails_ends_the_run_with_the_way_out() -> None:
    world = World([step(Join("cp-2"))], failing={Join("cp-2"): [StepFailed("cp-2", "port 2380 is taken", "Free it")]})
    ended = await world.run()
    assert ended.outcome is Outcome.FAILED
    assert "cp-2: port 2380 is taken. Free it" in ended.message
    assert [event.remedy for event in world.events if isinstance(event, StepBroke)] == ["Free it"]


async def test_a_connection_that_is_cut_is_a_state_and_the_step_is_tried_once_more() -> None:
    world = World([step(Join("cp-2")), step(Join("cp-2")), NOTHING], failing={Join("cp-2"): [cut()]})
    ended = await world.run()
    assert (ended.outcome, world.done) == (Outcome.CONVERGED, [Join("cp-2")])
    world = World([step(Join("cp-2"))], failing={Join("cp-2"): [cut(), cut()]})
    assert (await world.run()).outcome is Outcome.FAILED


async def test_a_step_without_effect_is_not_repeated_for_ever() -> None:
    world = World([step(Join("cp-2"))])
    ended = await world.run()
    assert (ended.outcome, len(world.done)) == (Outcome.FAILED, ATTEMPTS)
    assert "wanted again by the rule: a rule" in ended.message


async def test_what_no_look_can_show_is_told_to_the_looks_that_follow() -> None:
    upgrade = UpgradeControlPlane("cp-1", V135, first=True)
    world = World([step(TakeSnapshot()), step(upgrade), step(RenewCertificates("cp-2")), NOTHING])
    await world.run()
    assert world.told == [Done(), Done(True), Done(True, ("cp-1",)), Done(True, ("cp-1",), ("cp-2",))]
    assert Done(True, ("cp-1",)).told(replace(BUILD.three(), snapshot_taken=False)).regenerated == ("cp-1",)


async def test_an_interrupted_run_says_that_the_same_command_goes_on() -> None:
    world = World([step(Join("cp-2"))], hang=asyncio.Event())
    assert world.hang is not None
    async with asyncio.TaskGroup() as group:
        running = group.create_task(world.run())
        await world.hang.wait()
        running.cancel()
    assert running.cancelled()
    last = world.events[-1]
    assert isinstance(last, Ended)
    assert last.outcome is Outcome.INTERRUPTED
    assert "run the same command again to continue" in last.message


async def test_an_error_of_our_own_ends_the_record_too() -> None:
    world = World([step(Join("cp-2"))], failing={Join("cp-2"): [KeyError("cp-9")]})
    with pytest.raises(KeyError):
        await world.run()
    assert isinstance(world.events[-1], Ended)
    assert world.events[-1].outcome is Outcome.FAILED
    assert not any(isinstance(event, StepDone) for event in world.events)


def test_who_ends_an_exchange_of_keys_that_was_cut_has_exchanged_them() -> None:
    one, both = (Configuration.made({SECRETS: providers}) for providers in (("b", IDENTITY), ("b", "a", IDENTITY)))
    last = ChangeEncryption("cp-2", one)
    at_rest = BUILD.cluster(BUILD.host(1, encryption=Encryption(one, flagged=True)), BUILD.host(2))
    cut = BUILD.cluster(BUILD.host(1, encryption=Encryption(one, flagged=True)), BUILD.host(2, encryption=Encryption(both, flagged=True)))
    assert (Done().after(last, at_rest).rotated, Done().after(last, cut).rotated) == (False, True)
