"""Small explorations of control planes of Machines: those of which `make explore` does more."""

from __future__ import annotations

import pytest

from tests.explore.machines.model import Machines


@pytest.mark.parametrize("size", [0, 1, 3])
def test_where_nothing_goes_wrong_everything_comes_about(size: int) -> None:
    """Every interleaving of its passes, its deaths after each write and what the other controllers do."""
    found = Machines("", size=size, backup_of=None, faults=0).explored(600.0)
    assert (found.violations, found.waits, found.unfinished) == ({}, {}, "")
