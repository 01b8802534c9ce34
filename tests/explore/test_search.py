"""The search itself: it closes, finds the shortest history of what is broken, and tells where what is desired cannot be reached any more."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import pytest

from tests.explore.search import Judged, Limits, Next, Way, explore


@dataclass(frozen=True)
class Number:
    value: int

    @property
    def identity(self) -> bytes:
        return str(self.value).encode()


@dataclass(frozen=True)
class Numbers:
    """From 1 on, doubled or one more, up to ten. `last` are those from which nothing recovers, and what they say, `asked` where
    somebody leads who follows that."""

    forbidden: int = 0
    desired: int = 10
    last: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    asked: Mapping[int, int] = field(default_factory=dict)

    def starts(self) -> Iterator[tuple[str, Number]]:
        yield "one", Number(1)

    def judge(self, state: Number, *, may_fail: bool) -> Judged[Number]:
        assert not may_fail
        value = state.value
        broken = [f"never {value}: it is {value}"] if value == self.forbidden else []
        ways = () if value in self.last else (("doubled", 2 * value), ("one more", value + 1))
        nexts = [Next(label, Number(after)) for label, after in ways if after <= 10]
        nexts += [Next("as asked", Number(self.asked[value]), Way.ASKED)] if value in self.asked else []
        return Judged(nexts, broken, converged=value == self.desired, idle=not ways or value == 10, said=self.last.get(value, ()))


def test_everything_is_reached_once() -> None:
    found = explore(Numbers(), Limits(0))
    assert (found.states, found.unfinished, found.violations, found.waits) == (10, "", {}, {})
    assert found.longest == 4  # moves to nine: doubled three times, and one more


def test_a_broken_promise_is_told_by_the_shortest_history_and_nothing_comes_after_it() -> None:
    found = explore(Numbers(forbidden=8), Limits(0))
    example = found.violations["never 8"]
    assert example.history == ["one", "doubled", "doubled", "doubled"]
    assert found.states == 9  # nine comes after eight alone, ten after five as well


def test_a_wait_that_says_why_is_told_and_one_without_a_word_is_broken() -> None:
    last = {10: ("ten is the end",), 7: ("seven too",)}
    spoken = explore(Numbers(desired=5, last=last, asked={10: 5, 7: 5}), Limits(0))
    assert {said: example.states for said, example in spoken.waits.items()} == {("ten is the end",): 1, ("seven too",): 1}
    assert spoken.violations == {}
    silent = explore(Numbers(desired=5, last={10: (), 7: ("seven too",)}, asked={7: 5}), Limits(0))
    assert silent.violations["liveness"].states == 3  # 8, 9 and 10; 6 can still come to 7, which says it


@pytest.mark.parametrize("asked", [{}, {10: 9}])
def test_a_wait_that_asks_for_nothing_or_for_what_does_not_help_is_broken(asked: dict[int, int]) -> None:
    found = explore(Numbers(desired=5, last={10: ("ten is the end",), 7: ("seven too",)}, asked={7: 5, **asked}), Limits(0))
    assert {promise: example.states for promise, example in found.violations.items()} == {"remedy: ten is the end": 1}
    assert found.violations["remedy: ten is the end"].what.startswith("what is asked for" if asked else "nothing is asked for")


@dataclass(frozen=True)
class Steps:
    """From 0 on one more, up to 5; by a fault two less, or from 0 to 4."""

    def starts(self) -> Iterator[tuple[str, Number]]:
        yield "none", Number(0)

    def judge(self, state: Number, *, may_fail: bool) -> Judged[Number]:
        value = state.value
        nexts = [Next("one more", Number(value + 1))] if value < 5 else []
        if may_fail:
            nexts.append(Next("a fault", Number(value - 2 if value else 4), Way.FAULT))
        return Judged(nexts, [f"never -3: more {'may' if may_fail else 'cannot'} go wrong"] if value == -3 else [], converged=value == 5)


def test_each_state_is_looked_at_once_by_a_history_of_the_fewest_faults() -> None:
    """4 is reached by a fault at once, and without one by four moves, which leaves both faults to come there."""
    found = explore(Steps(), Limits(2))
    assert (found.states, found.transitions, found.longest) == (8, 11 + 2, 5)  # 0 to 5 without a fault, -1 by one, and -3 by two
    assert found.violations["never -3"].history == ["none", "one more", "a fault", "a fault"]
    assert found.violations["never -3"].what == "never -3: more cannot go wrong"


@dataclass(frozen=True)
class History:
    """A state that is nothing but how it was reached."""

    text: str

    @property
    def identity(self) -> bytes:
        return self.text.encode()


class Histories:
    """Up to four moves, each of which is one of what a fault is (f), or of what comes about anyway (m)."""

    def starts(self) -> Iterator[tuple[str, History]]:
        yield "none", History("")

    def judge(self, state: History, *, may_fail: bool) -> Judged[History]:
        nexts = [Next("m", History(f"{state.text}m"))] + ([Next("f", History(f"{state.text}f"), Way.FAULT)] if may_fail else [])
        return Judged(nexts if len(state.text) < 4 else [], [f"never {state.text}"] if len(state.text) == 4 else [], converged=True)


@pytest.mark.parametrize(
    ("limits", "reached"),
    [
        (Limits(1), {"mmmm", "fmmm", "mfmm", "mmfm", "mmmf"}),
        (Limits(2, within=0), {"mmmm", "fmmm", "mfmm", "mmfm", "mmmf", "ffmm", "mffm", "mmff"}),
        (Limits(2, within=1), {"mmmm", "fmmm", "mfmm", "mmfm", "mmmf", "ffmm", "mffm", "mmff", "fmfm", "mfmf"}),
        (
            Limits(3, within=0),
            {"mmmm", "fmmm", "mfmm", "mmfm", "mmmf"} | {"ffmm", "fmfm", "fmmf", "mffm", "mfmf", "mmff"} | {"fffm", "fmff", "mfff"},
        ),
    ],
    ids=["one fault", "two at once", "two with one move between", "two, and a third at once"],
)
def test_the_last_of_several_faults_comes_within_so_many_moves_of_the_one_before(limits: Limits, reached: set[str]) -> None:
    found = explore(Histories(), limits)
    assert {promise.removeprefix("never ") for promise in found.violations} == reached


def test_a_search_that_is_cut_short_says_so() -> None:
    found = explore(Numbers(forbidden=3), Limits(0), violations=1)
    assert found.unfinished == "promises are broken in 1 states already"
    assert explore(Numbers(), Limits(0), seconds=-1.0).unfinished.startswith("-1 s were over")
