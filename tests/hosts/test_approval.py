"""What was approved bounds a run, on hosts that are observed by the real code: what comes into view later is not done where it destroys."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from quorate.core.hosts.approval import APPROVED, Approval
from quorate.core.hosts.forecast import forecast
from quorate.core.hosts.state import Cluster, RunOptions
from quorate.core.hosts.steps import RenewCertificates, Step, TakeSnapshot
from quorate.hosts.observe import Observation
from quorate.hosts.run.events import Ended, Outcome
from quorate.hosts.run.plan_file import moved_around
from quorate.hosts.run.session import Done, Parts, Session
from tests.hosts.observe.world import World, stand
from tests.hosts.probe.machine import NOW

RENEWAL = RunOptions(renew_certificates=True)


@dataclass
class Operator:
    """Renews the certificates of a cluster that is well; after the first host a member of nobody is in its ring, and silent."""

    world: World
    now: datetime = NOW
    steps: list[Step] = field(default_factory=list)

    async def observe(self, done: Done) -> Observation:
        observation = await self.world.observe(self.now)
        return replace(observation, cluster=done.told(replace(observation.cluster, options=RENEWAL)))

    async def carry_out(self, step: Step, _observation: Observation) -> None:
        if not self.steps:
            self.world.etcd_ring.add(9, "cp-9", "10.0.0.9", answers=False)
        self.steps.append(step)

    async def sleep(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    async def run(self, shown: Cluster, approval: Approval) -> Ended:
        def moved(cluster: Cluster, step: Step) -> tuple[str, ...]:
            return moved_around(shown, cluster, step)

        parts = Parts(
            observe=self.observe,
            carry_out=self.carry_out,
            emit=lambda _: None,
            now=lambda: self.now,
            sleep=self.sleep,
            approval=approval,
            moved=moved,
        )
        return await Session(parts, command="apply", by="jane@desk").run()


@pytest.mark.parametrize(("only", "also"), [(True, []), (False, [TakeSnapshot()])], ids=["kept", "shown"])
async def test_a_member_that_appears_after_the_approval_of_a_renewal_is_not_removed(
    tmp_path: Path, *, only: bool, also: list[Step]
) -> None:
    operator = Operator(stand(tmp_path))
    shown = (await operator.observe(Done())).cluster
    planned = [each.step for each in forecast(shown, NOW).steps]
    assert [type(step) for step in planned] == [RenewCertificates] * 3
    ended = await operator.run(shown, Approval.of(planned, only=only))
    assert (ended.outcome, operator.steps) == (Outcome.MOVED, [planned[0], *also])
    (because,) = ended.because
    assert (because.name, because.passed) == (APPROVED, False)
    assert "quorate plan" in because.remedy
    if not only:
        assert (
            "the plan lacks this step: remove etcd member 9 of cp-9, and is wanted now by the rule: remove lost members" in because.evidence
        )
        assert "orphans.cp-9: nothing then, orphanmember now" in because.evidence
