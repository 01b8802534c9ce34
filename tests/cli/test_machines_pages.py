"""`quorate get`, `plan` and `explain` of Machines in words: golden texts of what a person reads of one life in the simulation, as the observer saw it.

`python -m tests.cli.test_machines_pages` writes them anew; read the difference before it is committed.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

import click
import pytest

from quorate.cli import lines
from quorate.cli.machines import get
from quorate.cli.machines.edits import edit
from quorate.cli.machines.plan import plan_of
from quorate.cli.machines.status import status_of
from quorate.clusterapi.inspection import Finding, Inspector
from quorate.clusterapi.observe.observer import Edit
from quorate.kubernetes.controller import Request
from quorate.simulation.engine.world import NAMESPACE
from quorate.simulation.machines.cluster_objects import NAME, Wanted
from quorate.simulation.machines.kubelet import forget_node
from quorate.simulation.machines.scenarios import Stage, play

GOLDEN = Path(__file__).with_name("golden") / "machines"
OLD = 1200.0
"""Seconds after which a Machine that is not well is not called young any more."""
_MACHINE = re.compile(rf"\b{NAME}-[a-z0-9]{{5}}\b")
NAMES = sorted(path.stem for path in GOLDEN.glob("*.txt"))


def explained(finding: Finding, stage: Stage) -> str:
    return lines.explanation(status_of(finding, stage.world.now()), stage.world.now())


def planned(finding: Finding, stage: Stage) -> str:
    return lines.plan(plan_of(finding, stage.world.now()))


def listed(finding: Finding, stage: Stage) -> str:
    return get.render([get.summary_of(finding)], "table", stage.world.now())


PAGES: dict[str, Callable[[Finding, Stage], str]] = {"explain": explained, "plan": planned, "get": listed}


@cache
def pages() -> dict[str, str]:
    """Every page, by its name: a control plane that comes up, is upgraded, has a failed Machine replaced meanwhile, and then loses its quorum; and one of which
    somebody has deleted a Node.
    """
    found: dict[str, str] = {}

    async def life(stage: Stage) -> None:
        stage.environment.start()
        await stage.until(lambda: len(stage.names) == 2, "a second machine is made")
        await _print(stage, found, "coming-up", "get", "explain")
        await stage.settled()
        stage.environment.health_check.worker.stopped = True
        await _print(stage, found, "well", "get", "explain", "plan")
        await _print(stage, found, "upgrade", "plan", change=edit(NAME, None, ("version=v1.34.3",)))
        stage.environment.edit({"version": "v1.34.3"})
        await stage.until(lambda: len(stage.names) == 4, "the first of the new version is made")
        await _print(stage, found, "upgrading", "get", "explain")
        await stage.settled()
        await stage.passes(OLD)
        failed = stage.followers(1)[0]
        stage.destroy(failed)
        await stage.passes(60.0)
        await _print(stage, found, "one-silent", "get", "explain", "plan")
        stage.mark(failed)
        await stage.until(lambda: stage.machine(failed) is None, "the failed one goes")
        await stage.settled()
        await stage.passes(OLD)
        for name in stage.followers(2):
            stage.destroy(name)
        await stage.passes(300.0)
        await _print(stage, found, "quorum-lost", "get", "explain", "plan")
        await _print(stage, found, "quorum-lost-upgrade", "plan", change=edit(NAME, None, ("version=v1.34.4",)))

    async def without_a_node(stage: Stage) -> None:
        await stage.up()
        await stage.passes(OLD)
        forget_node(stage.environment.cluster, stage.followers(1)[0], "somebody")
        await stage.passes(60.0)
        await _print(stage, found, "deleted-node", "explain", "plan")

    for scene in (life, without_a_node):
        played = play(scene, Wanted(replicas=3))
        assert not played.violations, played
    return found


async def _print(stage: Stage, found: dict[str, str], moment: str, *kinds: str, change: Edit | None = None) -> None:
    parts = stage.process.parts
    inspector = Inspector(parts.reconciler.observer, parts.caches, asyncio.Queue(), stage.world.now)
    finding = await inspector.look(Request(NAMESPACE, NAME), change)
    assert finding is not None
    found |= {f"{kind}-{moment}": _readable(click.unstyle(PAGES[kind](finding, stage))) for kind in kinds}


def _readable(text: str) -> str:
    """Machines are lettered in the order in which the page names them: their drawn names are not what the page is about."""
    letters: dict[str, str] = {}
    return _MACHINE.sub(lambda name: letters.setdefault(name[0], f"{NAME}-{chr(ord('a') + len(letters)) * 5}"), text)


@pytest.mark.parametrize("name", NAMES)
def test_a_person_reads(name: str) -> None:
    assert pages()[name] == (GOLDEN / f"{name}.txt").read_text()


def test_every_page_is_compared() -> None:
    assert set(pages()) == set(NAMES)


if __name__ == "__main__":
    for page, text in pages().items():
        (GOLDEN / f"{page}.txt").write_text(text)
