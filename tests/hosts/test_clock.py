"""What a run counts, such as probes that found somebody silent, it counts by a clock that nobody sets and that does not stop while its machine sleeps."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from quorate.cli.hosts import access as hosts_access
from quorate.hosts.run import clock
from tests.hosts.observe.world import World, stand
from tests.hosts.probe.machine import NOW


@dataclass
class Desk:
    """The operator's machine: what its clock shows, and how long it has been up."""

    shows: datetime = NOW
    up: float = 1000.0

    def passes(self, seconds: float) -> None:
        """Time passes, whether the machine is awake or not."""
        self.shows += timedelta(seconds=seconds)
        self.up += seconds

    def is_set(self, seconds: float) -> None:
        """NTP, or a person, sets its clock."""
        self.shows += timedelta(seconds=seconds)


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    """The clocks of commands on hosts are this machine's."""
    made = Desk()
    monkeypatch.setattr(clock, "wall", lambda: made.shows)
    monkeypatch.setattr(clock, "since_boot", lambda: made.up)
    hosts_access._clock.cache_clear()
    yield made
    hosts_access._clock.cache_clear()


async def probes(world: World) -> int:
    """How many probes that count have found cp-2's member silent."""
    missed = dict((await world.cluster(hosts_access.now())).members_missed_probes)
    return missed[2].count


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Three hosts, and cp-2 with its member is silent."""
    made = stand(tmp_path)
    made.unreachable = {"cp-2"}
    made.etcd_ring.members[1].answers = False
    return made


async def test_a_clock_that_is_put_forward_makes_no_probe_count_early(desk: Desk, world: World) -> None:
    assert await probes(world) == 1
    desk.passes(1)
    desk.is_set(300)
    assert await probes(world) == 1
    desk.passes(4)
    assert await probes(world) == 2


async def test_a_clock_that_is_put_back_keeps_no_probe_from_counting(desk: Desk, world: World) -> None:
    assert await probes(world) == 1
    desk.is_set(-3600)
    desk.passes(5)
    assert await probes(world) == 2


async def test_what_passes_while_the_machine_sleeps_counts(desk: Desk, world: World) -> None:
    assert await probes(world) == 1
    desk.passes(3600)
    assert await probes(world) == 2


def test_it_begins_with_what_the_operators_clock_shows_and_goes_on_with_the_seconds_since_boot() -> None:
    assert abs(hosts_access.now() - clock.wall()) < timedelta(minutes=5)
    if hasattr(time, "CLOCK_BOOTTIME"):
        assert clock.since_boot() == pytest.approx(time.clock_gettime(time.CLOCK_BOOTTIME), abs=5)
