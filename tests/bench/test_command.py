"""Runs come in the promised order, phases are read as Go durations, and raw numbers survive being written."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from tests.bench import results
from tests.bench.command import bench, plans
from tests.bench.measure import settled
from tests.bench.results import Provider, Results, Run, Step
from tests.bench.waiting import Waiting

UPSTREAM, QUORATE = Provider.UPSTREAM, Provider.QUORATE


def test_upstream_goes_first_and_only_the_first_run_of_each_has_an_idle_time() -> None:
    found = [(plan.phase_seconds, plan.number, plan.provider, plan.idle) for plan in plans([2.0, 0.0], 2, 600.0)]
    assert found[:4] == [(2.0, 1, UPSTREAM, 600.0), (2.0, 1, QUORATE, 600.0), (2.0, 2, UPSTREAM, 0.0), (2.0, 2, QUORATE, 0.0)]
    assert [idle for phase, _, _, idle in found if phase == 0.0] == [0.0] * 4


def test_a_phase_that_is_no_duration_is_refused_by_name() -> None:
    answer = CliRunner().invoke(bench, ["--phases", "2s,soon"])
    assert answer.exit_code == 2
    assert "'soon' is not a duration" in answer.output


def test_a_control_plane_is_settled_only_by_a_status_about_its_newest_spec() -> None:
    status = {"replicas": 3, "availableReplicas": 3, "upToDateReplicas": 3, "observedGeneration": 2}
    assert settled({"metadata": {"generation": 2}, "status": status}, 3)
    assert not settled({"metadata": {"generation": 3}, "status": status}, 3)
    assert not settled({"metadata": {"generation": 2}, "status": {**status, "availableReplicas": 2}}, 3)
    assert not settled({"metadata": {"generation": 1}}, 3)


def test_raw_numbers_are_read_back_as_they_were_written(tmp_path: Path) -> None:
    step = Step("create 3", 61.5, 1.02, 80 << 20, {"patch": 3}, 0, Waiting(1.0, 2.0, 2.5))
    kept = Results("2026-01-01T12:00:00+00:00", "0.1.0", "3.11.9", 2, [Run(QUORATE, 2.0, 1, 0.25, [step], [0.1])])
    results.write(tmp_path / "new" / "bench.json", kept)
    assert results.read(tmp_path / "new" / "bench.json") == kept
