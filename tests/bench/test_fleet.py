"""The bench of many clusters: its order, its table, and what it counts as an error."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench.fleet import CREATE, IDLE, STEPS, UPGRADE, FleetRun, FleetStep, errors_in
from tests.bench.fleet_command import fleet_plans, render, rows
from tests.bench.results import Provider
from tests.bench.table import Row

UPSTREAM, QUORATE = Provider.UPSTREAM, Provider.QUORATE


def run(provider: Provider, seconds: float, *, clusters: int = 10, number: int = 1, mebibytes: int = 100) -> FleetRun:
    steps = [FleetStep(name, seconds, seconds / 10, seconds / 2, 100) for name in STEPS]
    return FleetRun(provider, clusters, number, steps, mebibytes << 20, 0, [0.1, 0.2] if provider is QUORATE else [])


def row(label: str, runs: list[FleetRun]) -> Row:
    return next(each for each in rows(runs) if each.label.strip() == label)


def test_upstream_goes_first_with_each_number_of_clusters() -> None:
    found = [(plan.clusters, plan.number, plan.provider) for plan in fleet_plans((10, 30), 2, 1.0, 2.0)]
    assert found[:4] == [(10, 1, UPSTREAM), (10, 1, QUORATE), (10, 2, UPSTREAM), (10, 2, QUORATE)]
    assert [clusters for clusters, *_ in found[4:]] == [30] * 4


def test_the_blocks_differ_by_the_number_of_clusters() -> None:
    ten = [run(UPSTREAM, 100), run(QUORATE, 84)]
    assert row(f"{CREATE}, s", ten).met is True
    assert row(f"{UPGRADE}, s", ten).met is False
    assert row("peak memory MiB", ten).met is None
    thirty = [run(UPSTREAM, 100, clusters=30, mebibytes=181), run(QUORATE, 100, clusters=30, mebibytes=110)]
    assert row(f"{UPGRADE}, s", thirty).met is True
    assert row("peak memory MiB", thirty).met is False


def test_the_idle_time_is_left_out_of_sums_and_has_a_bar_of_its_own() -> None:
    runs = [run(UPSTREAM, 100), run(QUORATE, 100)]
    assert row("provider CPU s, all but idle", runs).upstream == pytest.approx(30)
    assert row(f"{IDLE}: provider CPU s", runs).met is True


def test_each_number_of_clusters_has_a_table() -> None:
    text = render([run(UPSTREAM, 1), run(QUORATE, 1), run(UPSTREAM, 1, clusters=30), run(QUORATE, 1, clusters=30)])
    assert "10 clusters of 3 at once" in text
    assert "30 clusters of 3 at once" in text


def test_errors_are_counted_in_logs_of_both_kinds(tmp_path: Path) -> None:
    log = tmp_path / "manager.log"
    log.write_text('I1121 07:00:00 fine\nE1121 07:00:00 bad\n{"level": "error", "msg": "bad"}\n{"level":"info","msg":"fine"}\n')
    assert errors_in(log) == 2
