"""Rows of seats that are permutations of each other are one state, and rows with more in flight than the exhaustive check goes through are no worse."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from quorate.core.checks import Outcome
from quorate.core.machines.decide import decide
from quorate.core.machines.state import ControlPlane
from quorate.core.ring import Ring
from tests.proof.families import CIRCUMSTANCES, WANTED, judge
from tests.proof.worlds import MOST, NOW, ORPHANS, ROLES, STATES, World, fits

SEATS = st.tuples(st.sampled_from(list(STATES)), st.sampled_from([*ROLES, *ORPHANS])).filter(fits)
GOOD_SEATS = st.sampled_from([("good", "stays"), ("good", "old"), ("good", "at the hook"), ("good", "marked")])


@st.composite
def any_world(draw: st.DrawFn) -> World:
    """Any row at all, most seats of it good ones, so that something may be done."""
    seats = draw(st.lists(st.one_of(GOOD_SEATS, GOOD_SEATS, SEATS), max_size=MOST))
    leader = draw(st.one_of(st.none(), st.integers(0, MOST - 1)))
    changes: Mapping[str, Any] = draw(st.sampled_from([{}] * len(CIRCUMSTANCES) + list(CIRCUMSTANCES)))
    wanted: Mapping[str, Any] = draw(st.sampled_from([{}] * len(WANTED) + list(WANTED)))
    return World(tuple(seats), draw(st.sampled_from([1, 3, 5])), draw(st.integers(0, 1)), leader, changes, wanted)


Answer = tuple[str, str, datetime | None, Counter[tuple[str, Outcome]]]


def answer(plane: ControlPlane) -> Answer:
    """All of a decision but the wording of its evidence."""
    decision = decide(plane, NOW)
    return decision.rule, str(decision.step), decision.wake_at, Counter((check.name, check.outcome) for check in decision.checks)


@settings(max_examples=1500)
@given(any_world(), st.randoms(use_true_random=False))
def test_the_order_in_which_replicas_members_and_orphans_are_listed_changes_nothing(world: World, order: random.Random) -> None:
    plane = world.control_plane()
    assume(plane.deletion is None)  # DeleteAll names the replicas as they come
    ring = plane.ring
    if isinstance(ring, Ring):
        ring = Ring(tuple(order.sample(ring.members, len(ring.members))), ring.leader)
    replicas = tuple(order.sample(plane.replicas, len(plane.replicas)))
    orphans = tuple(order.sample(plane.orphans, len(plane.orphans)))
    assert answer(replace(plane, ring=ring, replicas=replicas, orphans=orphans)) == answer(plane)


@settings(max_examples=1500)
@given(any_world(), st.one_of(st.none(), st.integers(0, MOST - 1)))
def test_who_leads_changes_nothing_in_what_is_decided(world: World, leader: int | None) -> None:
    assert answer(replace(world, leader=leader).control_plane()) == answer(world.control_plane())


@settings(max_examples=1500)
@given(any_world(), st.randoms(use_true_random=False))
def test_the_oracle_agrees_whoever_is_the_oldest_and_whatever_else_is_in_flight(world: World, order: random.Random) -> None:
    seats = tuple(order.sample(world.seats, len(world.seats)))
    assert judge(replace(world, seats=seats)) is None
