"""A manifest with addresses of others: nothing is done with it, and whoever goes by its addresses alone breaks what is promised."""

from __future__ import annotations

from dataclasses import replace

import pytest

from quorate.core.health import Absent
from quorate.core.hosts.rules.guard import HOSTS_FIT
from quorate.hosts.observe.membership import _Matching
from quorate.hosts.run.events import Outcome
from quorate.simulation.hosts.acts import Act
from quorate.simulation.hosts.invariants import INVARIANTS
from tests.simulation.hosts_scenes import THREE, Scene, stage


def claim(scene: Scene, **claims: str) -> None:
    """The manifest says that these hosts are at these addresses; SSH finds them all the same."""
    for name, address in claims.items():
        entry = scene.manifest.entry(name)
        assert entry is not None
        scene.operations.manifest = scene.manifest.with_entry(replace(entry, claim=address))


async def test_with_wrong_addresses_nothing_is_done_and_with_the_right_ones_nothing_is_to_be_done() -> None:
    async with stage() as scene:
        await scene.applied(*THREE)
        claim(scene, cp2="10.9.9.2", cp3="10.9.9.3")
        run = scene.run()
        ended = await run.end()
        assert ended is not None
        assert (ended.outcome, run.steps) == (Outcome.STALLED, [])
        told = "; ".join(check.evidence for check in ended.because if check.name == HOSTS_FIT)
        for name in ("cp2", "cp3"):
            assert f"the ring has at {scene.machine(name).address}, but the manifest says that {name} is at 10.9.9.{name[-1]}" in told
        claim(scene, cp2="", cp3="")
        run = scene.run()
        ended = await run.end()
        assert ended is not None
        assert (ended.outcome, run.steps) == (Outcome.CONVERGED, [])


async def test_by_the_manifests_addresses_alone_nodes_of_healthy_voters_are_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Matching, "_own", lambda *_: None)
    monkeypatch.setattr(_Matching, "_none", lambda *_: Absent())
    monkeypatch.setattr(_Matching, "_elsewhere", lambda *_: iter(()))
    broken: set[str] = set()
    async with stage() as scene:
        site = scene.operations.site

        def judge(act: Act) -> None:
            broken.update(invariant.__name__ for invariant in INVARIANTS if invariant(site, act))

        await scene.applied(*THREE)
        claim(scene, cp2="10.9.9.2", cp3="10.9.9.3")
        scene.operations.witnesses.append(judge)
        await scene.run().end()
    assert broken
