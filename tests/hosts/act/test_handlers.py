"""Which function carries out which step on hosts; that each does its own is seen wherever a step is carried out."""

from __future__ import annotations

from quorate.core.hosts.steps import EVERYTHING
from quorate.hosts.act.executor import HANDLERS


def test_every_step_on_hosts_has_the_function_that_carries_it_out() -> None:
    assert HANDLERS.keys() == EVERYTHING
