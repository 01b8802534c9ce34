"""Without any one of its guards a decision about hosts does harm, and the oracle notices."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from random import Random
from typing import Any
from unittest import mock

import pytest

from quorate.core.checks import passed
from quorate.core.in_place import decide as table
from quorate.core.in_place.cluster import Cluster
from quorate.core.opinion import NOTHING

from .conftest import Build
from .oracle import objections
from .worlds import everything

YES = passed("disabled", "by the test")

# Each predicate, or several that stand behind each other, with what it answers when it is disabled.
GUARDS: dict[str, dict[str, object]] = {
    "a removal leaves a quorum": {"gates:removal": YES},
    "an addition leaves a quorum": {"gates:addition": YES},
    "others have quorum during a restart": {"gates:restart": YES},
    "a host of the manifest holds the data": {"rules.facts:holds_the_data": YES},
    "a dead member was silent for three probes": {"rules.members:_dead": YES},
    "a stray is no host's member": {"rules.members:_matches_nobody": YES},
    "no more hosts leave than was said": {"rules.departures:as_many_as_said": YES},
    "a host that is reset has left the ring": {"rules.leftovers:_out_of_the_ring": YES, "gates:reset": YES},
    "a reset leaves a quorum": {"gates:reset": YES},
    "no host that cannot be asked holds the cluster": {"rules.found:_nothing_hidden": (), "rules.guard:refuse_what_is_unknown": NOTHING},
    "no host has traces of a cluster": {"rules.found:_no_traces": YES, "rules.guard:refuse_what_does_not_fit": NOTHING},
    "versions do not change while a host has yet to join": {"rules.join:repair_at_the_running_version": NOTHING},
    "a snapshot comes first": {"rules.snapshot:after_a_snapshot": "as it is"},
    "repair comes first": {"rules.repair:repair_comes_first": NOTHING},
    "there is a quorum": {"rules.guard:keep_the_quorum": NOTHING, "gates:restart": YES},
}


@cache
def searched() -> tuple[Cluster, ...]:
    """The states in which the absence of a guard is looked for, shuffled the same way each time."""
    worlds = [cluster for hosts in (1, 2, 3) for cluster in everything(Build(), hosts)]
    Random(0).shuffle(worlds)
    return tuple(worlds)


@contextmanager
def disabled(guard: str) -> Iterator[None]:
    """No module of the rules asks this guard any more."""
    with ExitStack() as stack:
        for place, answer in GUARDS[guard].items():
            module, _, name = place.partition(":")
            _disable(stack, vars(importlib.import_module(f"quorate.core.in_place.{module}"))[name], answer)
        yield


def _disable(stack: ExitStack, function: Callable[..., Any], answer: object) -> None:
    def instead(*arguments: Any, **_named: Any) -> Any:
        return arguments[1] if answer == "as it is" else answer

    for module in [loaded for key, loaded in sys.modules.items() if key.startswith("quorate.core.in_place")]:
        for key in [key for key, value in vars(module).items() if value is function]:
            stack.enter_context(mock.patch.object(module, key, instead))
    rules = tuple((name, instead if rule is function else rule) for name, rule in table.RULES)
    stack.enter_context(mock.patch.object(table, "RULES", rules))


@pytest.mark.parametrize("guard", GUARDS)
def test_without_the_guard_a_decision_does_what_the_oracle_forbids(build: Build, guard: str) -> None:
    with disabled(guard):
        for cluster in searched():
            step = table.decide(cluster, build.noon).step
            if step is not None and next(objections(cluster, step), None) is not None:
                return
    pytest.fail(f"nothing notices that {', '.join(GUARDS[guard])} is gone")
