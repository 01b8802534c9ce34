"""The table takes medians, judges against blocks, and leaves blank what was not measured."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.bench import table
from tests.bench.measure import CREATE, SCALE_DOWN, STEPS
from tests.bench.results import Idle, Provider, Run, Step
from tests.bench.table import Bar, Row
from tests.bench.waiting import Waiting


def run(
    provider: Provider, seconds: float, *, writes: int = 10, number: int = 1, reactions: list[float] | None = None, idle: Idle | None = None
) -> Run:
    steps = [Step(name, seconds, 0.5, 80 << 20, {"patch": writes, "get": 7}, 0, Waiting(1.0, 2.0, 2.5)) for name in STEPS]
    return Run(provider, 2.0, number, 0.1, steps, reactions or [], idle)


def row(label: str, runs: list[Run]) -> Row:
    return next(each for each in table.rows(runs, 2.0) if each.label == label)


def test_the_95th_percentile_of_a_hundred_is_the_95th() -> None:
    assert table.percentile([float(n) for n in range(100, 0, -1)], 0.95) == 95


def test_a_percentile_of_nothing_is_nothing() -> None:
    assert table.percentile([], 0.95) is None


@given(st.lists(st.floats(0, 1e3), min_size=1), st.floats(0.01, 1))
def test_a_percentile_is_the_least_value_that_enough_do_not_exceed(values: list[float], share: float) -> None:
    found = table.percentile(values, share)
    assert found in values
    assert sum(value <= found for value in values) >= share * len(values)
    assert sum(value < found for value in values) < share * len(values)


def test_a_figure_is_the_median_of_the_runs_and_the_ratio_that_of_the_medians() -> None:
    runs = [run(Provider.UPSTREAM, seconds) for seconds in (60, 100, 70)] + [run(Provider.QUORATE, seconds) for seconds in (90, 35, 10)]
    found = row(f"{CREATE}, s", runs)
    assert (found.upstream, found.quorate, found.ratio) == (70, 35, 0.5)
    assert found.met is True


def test_a_bar_that_is_just_reached_is_met_and_one_beyond_is_not() -> None:
    assert row(f"{SCALE_DOWN}, s", [run(Provider.UPSTREAM, 100), run(Provider.QUORATE, 75)]).met is True
    assert row(f"{SCALE_DOWN}, s", [run(Provider.UPSTREAM, 100), run(Provider.QUORATE, 75.1)]).met is False


def test_a_provider_that_was_not_measured_leaves_blanks_and_no_verdict() -> None:
    found = row(f"{CREATE}, s", [run(Provider.UPSTREAM, 70)])
    assert found.cells() == (f"{CREATE}, s", "70.0", "", "", "0.9 x", "")


def test_a_bar_of_zero_is_met_by_nothing_but_zero() -> None:
    assert Row("", 3, 0, Bar(0, absolute=True)).met is True
    assert Row("", 3, 1, Bar(0, absolute=True)).met is False


def test_writes_are_summed_over_the_steps_and_reads_listed_apart() -> None:
    runs = [run(Provider.UPSTREAM, 1, writes=100), run(Provider.QUORATE, 1, writes=45)]
    found = row("writes, all steps", runs)
    assert (found.upstream, found.quorate, found.met) == (100 * len(STEPS), 45 * len(STEPS), True)
    assert row("  get requests", runs).quorate == 7 * len(STEPS)


def test_reactions_of_all_runs_are_pooled_and_shown_in_milliseconds() -> None:
    runs = [run(Provider.QUORATE, 1, reactions=[0.1, 0.2]), run(Provider.QUORATE, 1, number=2, reactions=[0.9])]
    assert row("reaction ms, median", runs).quorate == pytest.approx(200)
    assert row("reaction ms, 95th percentile", runs).quorate == pytest.approx(900)


def test_the_idle_bar_on_cpu_is_for_ten_minutes_only() -> None:
    for seconds, met in ((600.0, False), (5.0, None)):
        runs = [run(Provider.QUORATE, 1, idle=Idle(seconds, 0.6, {"patch": 0}, 3))]
        writes, leases, cpu = table.idle_rows(runs)
        assert (writes.met, leases.quorate, cpu.met) == (True, 3, met)


def test_without_an_idle_time_there_are_no_idle_rows() -> None:
    assert table.idle_rows([run(Provider.QUORATE, 1)]) == []


def test_the_plain_table_has_its_columns_aligned() -> None:
    lines = table.render([run(Provider.UPSTREAM, 70), run(Provider.QUORATE, 7)]).splitlines()
    assert lines[0] == "Machines of 2 s a phase, medians of 1"
    column = lines[1].index("quorate") + len("quorate")
    assert [line[column - 3 : column] for line in lines if line.startswith(CREATE)] == ["7.0"]


def test_every_row_of_the_markdown_table_has_as_many_cells_as_the_heading() -> None:
    lines = [
        line
        for line in table.render([run(Provider.UPSTREAM, 70), run(Provider.QUORATE, 7)], markdown=True).splitlines()
        if line.startswith("|")
    ]
    assert {line.count("|") for line in lines} == {len(table.HEADINGS) + 1}
