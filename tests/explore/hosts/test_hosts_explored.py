"""Small explorations of existing hosts: those of which `make explore` does more."""

from __future__ import annotations

import pytest

from tests.explore.hosts.model import Hosts


@pytest.mark.parametrize(
    "model",
    [Hosts("three bare hosts", size=3, faults=0, bare=True), Hosts("one host that is well", size=1, faults=1)],
    ids=lambda model: model.name,
)
def test_no_history_breaks_a_promise_and_whoever_waits_says_why(model: Hosts) -> None:
    found = model.explored(600.0)
    assert (found.violations, found.unfinished) == ({}, "")
    assert all(found.waits)
