"""Rows of seats that are permutations of each other are one state, and rows with more in flight than the exhaustive check goes through are no worse.

Worlds are drawn by a generator with a fixed seed: thousands in the time in which a strategy that can shrink them draws a hundred. What fails is shown by the
smallest of all that do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from random import Random
from typing import Any, TypeVar

from quorate.core.checks import Outcome
from quorate.core.machines.decide import decide
from quorate.core.machines.state import ControlPlane
from quorate.core.ring import Ring
from tests.proof.families import CIRCUMSTANCES, WANTED, judge
from tests.proof.worlds import MOST, NOW, ORPHANS, ROLES, STATES, Seat, World, fits

T = TypeVar("T")

WORLDS = 5000
"""For each property."""
SEATS = [seat for state in STATES for role in (*ROLES, *ORPHANS) if fits(seat := (state, role))]
GOOD_SEATS = [("good", "stays"), ("good", "old"), ("good", "at the hook"), ("good", "marked")]
NOTHING: Mapping[str, Any] = {}


def any_worlds() -> Iterator[tuple[World, Random]]:
    """Any rows at all, each with what else is to be drawn for it."""
    random = Random(0)
    for _ in range(WORLDS):
        yield _any_world(random), random


def _any_world(random: Random) -> World:
    """Most seats of it are good ones, so that something may be done, and half of the time nothing else is special."""
    seats = tuple(_any_seat(random) for _ in range(random.randint(0, MOST)))
    changes = random.choice([NOTHING, random.choice(CIRCUMSTANCES)])
    wanted = random.choice([NOTHING, random.choice(WANTED)])
    return World(seats, random.choice([1, 3, 5]), random.randint(0, 1), _any_leader(random), changes, wanted)


def _any_seat(random: Random) -> Seat:
    return random.choice(random.choice([GOOD_SEATS, GOOD_SEATS, SEATS]))


def _any_leader(random: Random) -> int | None:
    return random.choice([None, random.randrange(MOST)])


def assert_in_every_world(holds: Callable[[World, Random], bool]) -> None:
    broken = [world for world, random in any_worlds() if not holds(world, random)]
    assert not broken, f"not in {len(broken)} of {WORLDS} worlds; the smallest: {min(map(str, broken), key=len)}"


Answer = tuple[str, str, datetime | None, Counter[tuple[str, Outcome]]]


def answer(plane: ControlPlane) -> Answer:
    """All of a decision but the wording of its evidence."""
    decision = decide(plane, NOW)
    return decision.rule, str(decision.step), decision.wake_at, Counter((check.name, check.outcome) for check in decision.checks)


def test_the_order_in_which_replicas_members_and_orphans_are_listed_changes_nothing() -> None:
    def holds(world: World, random: Random) -> bool:
        plane = world.control_plane()
        ring = plane.ring
        if isinstance(ring, Ring):
            ring = Ring(_in_any_order(random, ring.members), ring.leader)
        replicas, orphans = _in_any_order(random, plane.replicas), _in_any_order(random, plane.orphans)
        turned = replace(plane, ring=ring, replicas=replicas, orphans=orphans)
        return plane.deletion is not None or answer(turned) == answer(plane)  # DeleteAll names the replicas as they come

    assert_in_every_world(holds)


def _in_any_order(random: Random, there: tuple[T, ...]) -> tuple[T, ...]:
    return tuple(random.sample(there, len(there)))


def test_who_leads_changes_nothing_in_what_is_decided() -> None:
    def holds(world: World, random: Random) -> bool:
        return answer(replace(world, leader=_any_leader(random)).control_plane()) == answer(world.control_plane())

    assert_in_every_world(holds)


def test_the_oracle_agrees_whoever_is_the_oldest_and_whatever_else_is_in_flight() -> None:
    def holds(world: World, random: Random) -> bool:
        return judge(replace(world, seats=_in_any_order(random, world.seats))) is None

    assert_in_every_world(holds)
