"""Looks for a state in which the absence of a guard shows; `python -m tests.proof.mutation NUMBER TEST` runs one test without the guard of that number."""

from __future__ import annotations

import sys
from functools import cache
from random import Random

import pytest

from quorate.core.machines.decide import decide
from tests.proof.families import FAMILIES
from tests.proof.guard import Guard
from tests.proof.guards import GUARDS, disabled
from tests.proof.oracle import INVARIANTS
from tests.proof.worlds import NOW, World

ENOUGH = 4
"""Seats: every guard shows in a world of so many."""


@cache
def searched() -> tuple[World, ...]:
    """The states in which the absence of a guard is looked for, shuffled the same way each time: most guards show in one of a thousand."""
    worlds = [world for family in FAMILIES.values() for world in family() if len(world.seats) <= ENOUGH]
    Random(0).shuffle(worlds)
    return tuple(worlds)


def first_victim(guard: Guard) -> World | None:
    """The first state in which the decision breaks the invariant that the guard is there for, once the guard is disabled. None: nothing notices."""
    breaks = INVARIANTS[guard.breaks]
    with disabled(guard):
        for world in searched():
            plane = world.control_plane()
            step = decide(plane, NOW).step
            if step is not None and next(breaks(plane, step, NOW), None) is not None:
                return world
    return None


if __name__ == "__main__":
    with disabled(GUARDS[int(sys.argv[1])]):
        sys.exit(pytest.main(["-q", "-p", "no:xdist", "-p", "no:cacheprovider", sys.argv[2]]))
