"""Since when a member has been nobody's, or a Machine is there."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from quorate.clusterapi.observe.sightings import Sightings
from quorate.kubernetes.controller import Request

DEMO, NOON = Request("default", "demo"), datetime(2026, 1, 1, 12, tzinfo=UTC)
ORPHAN = 7


def since(sightings: Sightings[int], now: datetime) -> datetime:
    return sightings.of(DEMO, (ORPHAN,), now)[ORPHAN]


def test_a_member_is_nobodys_since_it_was_first_seen_so() -> None:
    sightings = Sightings[int]()
    since(sightings, NOON)
    assert since(sightings, NOON + timedelta(minutes=3)) == NOON


def test_one_that_was_somebodys_in_between_starts_anew() -> None:
    sightings = Sightings[int]()
    since(sightings, NOON)
    sightings.of(DEMO, (), NOON + timedelta(minutes=1))
    assert since(sightings, NOON + timedelta(minutes=3)) == NOON + timedelta(minutes=3)


def test_a_clock_that_was_ahead_keeps_nobody_waiting_for_as_long_as_it_was_wrong() -> None:
    sightings = Sightings[int]()
    since(sightings, NOON + timedelta(hours=2))
    assert since(sightings, NOON) == NOON
    assert since(sightings, NOON + timedelta(minutes=2)) == NOON
