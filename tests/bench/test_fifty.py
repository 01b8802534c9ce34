"""Fifty clusters at once come up, are upgraded and deleted, and quorate's log tells of no error. `make fleet`: about ten minutes on two cores."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench.fleet import FleetPlan, run
from tests.bench.results import Provider

CLUSTERS = 50


@pytest.mark.fleet
@pytest.mark.timeout(7200)
async def test_fifty_clusters_live_and_die_without_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def say(line: str) -> None:
        with capsys.disabled():
            print(line)  # noqa: T201 (whoever waits for minutes sees how far it is)

    done = await run(FleetPlan(Provider.QUORATE, CLUSTERS, 1, idle=60.0, phase_seconds=2.0), tmp_path / "fleet", say)
    assert done.errors == 0
    assert {step.name for step in done.steps} == {"create", "upgrade", "idle", "delete"}
