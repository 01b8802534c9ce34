"""Through every state that can be reached, to closure; and the shortest history of whatever should not be.

A model gives the states to start from, what can come next, and what is held against that. The search counts how much may still go wrong, and looks at each
state once, where that is the most: whatever can follow where less may go wrong can follow there as well. So all that is reached without a fault comes first,
breadth first, then what is reached with one, and so on: each state by a history of the fewest faults, and of the fewest moves among those.
"""

from __future__ import annotations

import heapq
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Generic, NamedTuple, Protocol, TypeVar

S = TypeVar("S", bound="Identified")


class Identified(Protocol):
    """A state."""

    @property
    def identity(self) -> bytes:
        """Equal for states that nobody could tell apart, whatever may still go wrong."""
        ...


class Way(Enum):
    """How one state leads to the next, which says what may depend on it."""

    ORDINARY = auto()  # nothing new goes wrong: what must come about in the end may go this way
    DEATH = auto()  # the engine dies on the way: always possible, and nothing may depend on it
    FAULT = auto()  # one of the few that a history has
    ASKED = auto()  # somebody does what a check asks for: nothing may depend on it but where the check is what is so
    ASKED_AT_LAST = auto()  # the same, and nothing goes wrong any more


@dataclass(frozen=True, slots=True)
class Next(Generic[S]):
    """One state that may come next."""

    label: str
    state: S
    way: Way = Way.ORDINARY


@dataclass(frozen=True, slots=True)
class Limits:
    """How much may go wrong in one history: so many faults, the last of several within so many moves of the one before, if that is limited."""

    faults: int
    within: float = math.inf


class Left(NamedTuple):
    """How much may still go wrong: so many faults, and one may come in so many further moves. What is more in their order allows whatever is less."""

    faults: int
    moves: float

    def after(self, way: Way, within: float) -> Left:
        """What is left after one more move."""
        if way is Way.FAULT:
            return Left(self.faults - 1, within if self.faults == 2 else math.inf)
        return Left(0, math.inf) if way is Way.ASKED_AT_LAST or not self.moves else Left(self.faults, self.moves - 1)


@dataclass(slots=True)
class Judged(Generic[S]):
    """What was found about one state: where it leads, the promises that the next pass from it breaks, whether all is as desired, and what is said where
    nothing is done."""

    nexts: list[Next[S]] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    converged: bool = False
    idle: bool = False  # the engine does nothing here
    said: tuple[str, ...] = ()  # why nothing is done, by the names of the checks
    untrue: tuple[str, ...] = ()  # those of them that are not so, or of which nobody has said what makes them so


class Model(Protocol[S]):
    """What is explored."""

    def starts(self) -> Iterator[tuple[str, S]]:
        """The first states, each with a sentence."""
        ...

    def judge(self, state: S, *, may_fail: bool) -> Judged[S]:
        """Everything about one state; with every fault, if one may come now."""
        ...


@dataclass(slots=True)
class Example:
    """What was found in so many states, and the shortest history that leads to one of them."""

    what: str
    history: list[str]
    states: int = 0


@dataclass(slots=True)
class Found:
    """What came of an exploration."""

    states: int = 0
    transitions: int = 0
    seconds: float = 0.0
    longest: int = 0  # moves of the longest of all shortest histories
    unfinished: str = ""  # why not everything was looked at; empty: it is closed
    left: int = 0  # the most faults that may still come in what was not looked at, where it is not closed
    violations: dict[str, Example] = field(default_factory=dict)  # by the name of the promise; of what is said, with the checks that say it
    waits: dict[tuple[str, ...], Example] = field(default_factory=dict)  # where somebody has to act: by what is said


def explore(model: Model[S], limits: Limits, *, seconds: float = 3600.0, violations: int = 100) -> Found:
    """Everything that can be reached. Ends early, and says so, after so many seconds, or so many states in which a promise is broken."""
    return _Search(model, limits, seconds, violations).run()


@dataclass(slots=True)
class _Reached:
    """How one state was reached: from which, by which move, after how many, and with how much left that may go wrong."""

    parent: int
    label: str
    depth: int
    left: Left


class _Search(Generic[S]):
    def __init__(self, model: Model[S], limits: Limits, seconds: float, violations: int) -> None:
        self.model, self.limits, self.seconds, self.enough = model, limits, seconds, violations
        self.found = Found()
        self.index: dict[bytes, int] = {}
        self.reached: list[_Reached] = []
        self.waiting: dict[int, S] = {}  # by number, what was reached and not looked at yet
        self.order: list[tuple[int, float, int, int]] = []  # a heap of what is left, depth and number: those first that have the most left
        self.back: list[list[int]] = []  # from which states one is reached while nothing new goes wrong
        self.asked: dict[int, list[int]] = {}  # from which states one is reached by what somebody was asked for
        self.asking: set[int] = set()
        self.untrue: dict[int, tuple[str, ...]] = {}
        self.good: list[int] = []
        self.idle: dict[int, tuple[str, ...]] = {}
        self.bad: set[int] = set()

    def run(self) -> Found:
        began = time.monotonic()
        for label, state in self.model.starts():
            self._reach(state, _Reached(-1, label, 0, Left(self.limits.faults, math.inf)))
        while self.waiting:
            if time.monotonic() - began > self.seconds:
                self.found.unfinished = f"{self.seconds:g} s were over with {len(self.waiting):,} states still to be looked at"
            elif len(self.bad) >= self.enough:
                self.found.unfinished = f"promises are broken in {len(self.bad)} states already"
            if self.found.unfinished:
                self.found.left = max(self.reached[number].left.faults for number in self.waiting)
                break
            *_, number = heapq.heappop(self.order)
            if number in self.waiting:  # it stands there again where a history was found that leaves more faults for it
                self._expand(number, self.waiting.pop(number))
        self.found.states, self.found.longest = len(self.reached), max((way.depth for way in self.reached), default=0)
        if not self.found.unfinished:
            self._look_for_stalls()
        self.found.seconds = time.monotonic() - began
        return self.found

    def _expand(self, number: int, state: S) -> None:
        here = self.reached[number]
        judged = self.model.judge(state, may_fail=here.left.faults > 0)
        if judged.converged:
            self.good.append(number)
        if judged.idle:
            self.idle[number] = judged.said
        if judged.untrue:
            self.untrue[number] = judged.untrue
        for how in judged.broken:
            self._violated(how.partition(":")[0], how, number)
        if judged.broken:
            self.bad.add(number)
            return
        for each in judged.nexts:
            self.found.transitions += 1
            left = here.left.after(each.way, self.limits.within)
            reached = self._reach(each.state, _Reached(number, each.label, here.depth + 1, left))
            if each.way in (Way.ASKED, Way.ASKED_AT_LAST):
                self.asked.setdefault(reached, []).append(number)
                self.asking.add(number)
            elif each.way is Way.ORDINARY:
                self.back[reached].append(number)

    def _reach(self, state: S, way: _Reached) -> int:
        number = self.index.setdefault(state.identity, len(self.reached))
        if number == len(self.reached):
            self.reached.append(way)
            self.back.append([])
        elif number in self.waiting and (way.left, -way.depth) > (self.reached[number].left, -self.reached[number].depth):
            self.reached[number] = way
        else:
            return number
        self.waiting[number] = state
        heapq.heappush(self.order, (-way.left.faults, -way.left.moves, way.depth, number))
        return number

    def _look_for_stalls(self) -> None:
        """States from which what is desired cannot be reached any more though nothing new goes wrong: something has to be said, in the end, that is true."""
        hopeful = self._leading_to(self.good)
        hopeless = set(range(len(self.reached))) - hopeful - self.bad
        speaking = [number for number in hopeless if self.idle.get(number)]
        explained = self._leading_to(speaking)
        for number in sorted(hopeless - explained):
            self._violated("liveness", "what is desired cannot be reached any more, and nothing says why", number)
        helped = self._leading_to(self.good, asked=True)
        for number in sorted(speaking):
            said = self.idle[number]
            example = self.found.waits.setdefault(said, Example("; ".join(said), self._history(number)))
            example.states += 1
            if number in self.untrue:
                untrue = "; ".join(self.untrue[number])
                self._violated(f"truth: {untrue}", f"what is said is not so: {untrue}", number)
            if number not in helped:
                how = "what is asked for does not help" if number in self.asking else "nothing is asked for that could be done"
                self._violated(f"remedy: {'; '.join(said)}", f"{how}: {'; '.join(said)}", number)

    def _violated(self, promise: str, how: str, number: int) -> None:
        if promise not in self.found.violations:
            self.found.violations[promise] = Example(how, self._history(number))
        self.found.violations[promise].states += 1

    def _leading_to(self, goals: list[int], *, asked: bool = False) -> set[int]:
        reached, waiting = set(goals), list(goals)
        while waiting:
            goal = waiting.pop()
            for number in [*self.back[goal], *(self.asked.get(goal, ()) if asked else ())]:
                if number not in reached:
                    reached.add(number)
                    waiting.append(number)
        return reached

    def _history(self, number: int) -> list[str]:
        told: list[str] = []
        while number >= 0:
            told.append(self.reached[number].label)
            number = self.reached[number].parent
        return told[::-1]
