"""The plan of every scenario is the committed text, the same that real hosts are held to, and what then happens is what it said."""

from __future__ import annotations

import re

import click
import pytest

from quorate.cli import lines
from quorate.cli.hosts.plan import plan_of
from quorate.core.hosts.state import Cluster
from quorate.core.hosts.steps import Step
from quorate.hosts.run.events import Outcome
from tests.e2e.site import PLANS, plan_in, planned
from tests.simulation.hosts_scenes import CONVERGING, STALLING, Scene, stage

MEMBER = re.compile(r"\betcd member [0-9a-f]+\b")


def text(scene: Scene, cluster: Cluster) -> str:
    return click.unstyle(lines.plan(plan_of(cluster, scene.operations.world.now())))


def told(steps: list[Step]) -> list[str]:
    return [MEMBER.sub("etcd member ID", str(step)) for step in steps]


@pytest.mark.parametrize("name", CONVERGING)
async def test_what_happens_is_the_plan_that_is_committed(name: str) -> None:
    async with stage() as scene:
        await CONVERGING[name](scene)
        plan = plan_in(text(scene, await scene.seen()))
        assert plan == (PLANS / f"{name}.txt").read_text()
        run = scene.run()
        ended = await run.end()
        assert ended is not None
        assert ended.outcome is Outcome.CONVERGED, ended
        assert told(run.steps) == planned(plan)
        scene.options = type(scene.options)()
        again = scene.run()
        await again.end()
        assert again.steps == []


@pytest.mark.parametrize("name", STALLING)
async def test_what_cannot_be_done_is_said_beforehand_as_afterwards(name: str) -> None:
    async with stage() as scene:
        await STALLING[name](scene)
        plan = text(scene, await scene.seen())
        committed = (PLANS / f"{name}.txt").read_text()
        assert planned(plan) == planned(committed)
        run = scene.run()
        ended = await run.end()
        assert ended is not None
        assert ended.outcome is Outcome.STALLED, ended
        assert told(run.steps) == planned(plan)
        missing = [check.name for check in ended.because if f"  {check.name}: " not in committed]
        assert missing == []


def test_every_committed_plan_is_that_of_a_scenario() -> None:
    assert {path.stem for path in PLANS.glob("*.txt")} == CONVERGING.keys() | STALLING.keys()
