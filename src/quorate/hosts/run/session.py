"""One run on existing hosts: observe, decide, act, and observe again, until there is nothing to do or nothing can be done. What happens is told as events.

Nothing is kept between two rounds but how often somebody was silent, and what was done once and for all in this run, such as the snapshot. So a run that
was cut short anywhere is continued by the next one, which observes where it was. A step that the approved plan does not allow is not begun: the run ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Generic, Protocol, TypeVar

from quorate.core.checks import Check
from quorate.core.hosts.approval import Approval
from quorate.core.hosts.decide import Decision, decide
from quorate.core.hosts.state import Cluster
from quorate.core.hosts.steps import ChangeEncryption, RenewCertificates, Step, TakeSnapshot, UpgradeControlPlane, involved
from quorate.core.ring import in_words, verdict
from quorate.hosts.act.failures import StepFailed
from quorate.hosts.connect.ssh.errors import SshError
from quorate.hosts.run.events import (
    Ended,
    Event,
    Observed,
    Outcome,
    Started,
    StepBegun,
    StepBroke,
    StepDone,
    Waiting,
)
from quorate.hosts.run.overview import hosts_in_words, reached
from quorate.hosts.run.wait_policy import WaitPolicy

ATTEMPTS = 3
"""Times that one step is done and wanted again before the run says that it has no effect."""


class Observation(Protocol):
    """What was observed: `quorate.hosts.observe`."""

    @property
    def cluster(self) -> Cluster:
        """What is judged."""
        ...


Seen = TypeVar("Seen", bound=Observation)


@dataclass(frozen=True, slots=True)
class Done:
    """What this run has done that no observation can show."""

    snapshot_taken: bool = False
    regenerated: tuple[str, ...] = ()
    renewed: tuple[str, ...] = ()
    rotated: bool = False

    def after(self, step: Step, cluster: Cluster) -> Done:
        """With this step done too, in a cluster as it was before."""
        match step:
            case TakeSnapshot():
                return replace(self, snapshot_taken=True)
            case UpgradeControlPlane(host):
                return replace(self, regenerated=(*self.regenerated, host))
            case RenewCertificates(host):
                return replace(self, renewed=(*self.renewed, host))
            case ChangeEncryption() if step.exchanges_keys or cluster.exchanges_keys:
                return replace(self, rotated=True)
        return self

    def told(self, cluster: Cluster) -> Cluster:
        """What was observed, with this."""
        return replace(
            cluster, snapshot_taken=self.snapshot_taken, regenerated=self.regenerated, renewed=self.renewed, rotated=self.rotated
        )


async def _nothing(_seen: Observation) -> None:
    """Nothing goes on by itself."""


def _nothing_told(_now: Cluster, _step: Step) -> tuple[str, ...]:
    """Nobody remembers what was shown."""
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts(Generic[Seen]):
    """What a session works with. `observe` is told what this run has done; `carry_out` raises StepFailed; `emit` takes each event.

    `approval` is what somebody agreed to, `moved` says in what the world is another than the one that was shown, as far as a step is concerned.
    `decide` is the decision, `goal` says what there is when it wants nothing more. `settle` finishes what steps have left to go on by themselves, and never
    fails.
    """

    observe: Callable[[Done], Awaitable[Seen]]
    carry_out: Callable[[Step, Seen], Awaitable[None]]
    emit: Callable[[Event], None]
    now: Callable[[], datetime]
    sleep: Callable[[float], Awaitable[None]]
    approval: Approval
    moved: Callable[[Cluster, Step], tuple[str, ...]] = _nothing_told
    decide: Callable[[Cluster, datetime], Decision] = decide
    goal: Callable[[Cluster], str] = reached
    settle: Callable[[Seen], Awaitable[None]] = _nothing


class Session(Generic[Seen]):
    """One run of one command by somebody, `by` in words."""

    def __init__(self, parts: Parts[Seen], *, command: str, by: str) -> None:
        self._parts = parts
        self._command = command
        self._by = by
        self._steps = 0
        self._done = Done()
        self._wait_policy = WaitPolicy(parts.now())
        self._broken: set[Step] = set()
        self._last: Step | None = None
        self._repeated = 0

    async def run(self) -> Ended:
        """Work until the end and tell it. Cancelled, it says that the same command goes on from here, and is cancelled."""
        try:
            ended = await self._work()
        except asyncio.CancelledError:
            self._end(
                Outcome.INTERRUPTED, "what already runs on the hosts may run to its end; run the same command again to continue from there"
            )
            raise
        except Exception as error:
            self._end(Outcome.FAILED, str(error) or type(error).__name__)
            raise
        return ended

    async def _work(self) -> Ended:
        observation = await self._parts.observe(self._done)
        self._start(observation.cluster)
        while True:
            cluster = observation.cluster
            self._tell(cluster)
            decision = self._parts.decide(cluster, self._parts.now())
            if decision.step is not None:
                allowed = self._parts.approval.check(decision.step)
                if not allowed.passed:
                    await self._parts.settle(observation)
                    return self._plan_is_stale(decision.step, decision, allowed, cluster)
                if (ended := await self._take(decision.step, decision, observation)) is not None:
                    return ended
            elif not decision.refusals:
                await self._parts.settle(observation)
                return self._end(Outcome.CONVERGED, self._parts.goal(cluster))
            elif not await self._waited(decision, cluster):
                await self._parts.settle(observation)
                return self._stalled(decision)
            observation = await self._parts.observe(self._done)
            if decision.step is not None:
                self._wait_policy.renew(self._parts.now())

    async def _take(self, step: Step, decision: Decision, observation: Seen) -> Ended | None:
        """Carry out one step. The end, where it failed for good or has no effect."""
        parts = self._parts
        self._repeated = self._repeated + 1 if step == self._last else 1
        if self._repeated > ATTEMPTS:
            cause = f"to {step} was done {ATTEMPTS} times, and is wanted again by the rule: {decision.rule}"
            return self._end(Outcome.FAILED, cause, decision.refusals)
        self._steps, self._last = self._steps + 1, step
        hosts = involved(step)
        parts.emit(StepBegun(parts.now(), self._steps, str(step), decision.rule, hosts, decision.checks))
        try:
            await parts.carry_out(step, observation)
        except StepFailed as failure:
            parts.emit(StepBroke(parts.now(), self._steps, str(step), failure.where, failure.cause, failure.remedy))
            return self._after_failure(step, failure)
        self._done = self._done.after(step, observation.cluster)
        parts.emit(StepDone(parts.now(), self._steps, str(step)))
        return None

    def _after_failure(self, step: Step, failure: StepFailed) -> Ended | None:
        """A host that was lost in the middle is a state that the next look shows, once for each step. Everything else ends the run."""
        if isinstance(failure.__cause__, SshError) and step not in self._broken:
            self._broken.add(step)
            return None
        return self._end(Outcome.FAILED, f"to {step} failed: {failure}")

    async def _waited(self, decision: Decision, cluster: Cluster) -> bool:
        """Wait until it may be worth to look again. False: nothing is to be expected."""
        parts = self._parts
        now = parts.now()
        until = self._wait_policy.look_again(decision, now, cluster)
        if until is None:
            return False
        parts.emit(Waiting(now, decision.refusals, until))
        await parts.sleep(max((until - now).total_seconds(), 0.0))
        return True

    def _plan_is_stale(self, step: Step, decision: Decision, refused: Check, cluster: Cluster) -> Ended:
        wanted = f"{refused.evidence}, and is wanted now by the rule: {decision.rule}{f' ({decision.checks[-1].evidence})' if decision.checks else ''}"
        because = replace(refused, evidence="; ".join((wanted, *self._parts.moved(cluster, step))))
        return self._end(Outcome.MOVED, f"the cluster changed since the plan was approved, and this step was not in it: {step}", (because,))

    def _stalled(self, decision: Decision) -> Ended:
        done = f"after {self._steps} step{'' if self._steps == 1 else 's'} " if self._steps else ""
        return self._end(
            Outcome.STALLED,
            f"{done}nothing more can be done, since this check does not pass: {decision.refusals[0].name}",
            decision.refusals,
        )

    def _start(self, cluster: Cluster) -> None:
        names = tuple(host.name for host in cluster.hosts)
        self._parts.emit(Started(self._parts.now(), self._command, cluster.name, str(cluster.version), self._by, names))

    def _tell(self, cluster: Cluster) -> None:
        now = verdict(cluster.ring)
        self._parts.emit(Observed(self._parts.now(), in_words(cluster.ring), now.margin if now else None, hosts_in_words(cluster)))

    def _end(self, outcome: Outcome, message: str, because: tuple[Check, ...] = ()) -> Ended:
        ended = Ended(self._parts.now(), outcome, self._steps, message, because)
        self._parts.emit(ended)
        return ended
