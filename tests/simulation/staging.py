"""Scenarios: a scene in the simulated world, and beside it a rule that is wrong on purpose, with which the very same scene must not end well."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

from quorate.clusterapi import reconciler
from quorate.core.machines.decide import Decision, decide
from quorate.core.machines.steps import Step
from quorate.simulation.machines.cluster_objects import Wanted
from quorate.simulation.machines.scenarios import Played, Scene, play
from tests.proof.guard import Guard, Instead
from tests.proof.guards import disabled

THREE, ONE, FIVE = Wanted(replicas=3), Wanted(replicas=1), Wanted(replicas=5)


@dataclass(frozen=True, slots=True)
class Scenario:
    """`wrong` has, by `module:function` or `module:Class.method` below `quorate`, what takes its place; `rule` is that in words.

    `breaks` is what the scene then violates: an invariant, "liveness" (what must come never comes), or "scene" (the scene sees what must not be).
    """

    name: str
    scene: Scene
    rule: str
    wrong: Mapping[str, Instead]
    breaks: str
    wanted: Wanted = THREE

    def with_our_rules(self) -> Played:
        """Play it."""
        return play(self.scene, self.wanted)

    def with_the_wrong_rule(self) -> Played:
        """Play it with the wrong rule in force."""
        with ruled_by(self.wrong):
            return play(self.scene, self.wanted)


@contextmanager
def ruled_by(wrong: Mapping[str, Instead]) -> Iterator[None]:
    """As long as this lasts, these functions and methods are what they are replaced with, wherever quorate has loaded them."""
    methods = {place: instead for place, instead in wrong.items() if _is_a_method(place)}
    others = {place: instead for place, instead in wrong.items() if place not in methods}
    with ExitStack() as stack:
        stack.enter_context(disabled(Guard("wrong on purpose", others, "")))
        for place, instead in methods.items():
            owner, name = _owner(place)
            stack.enter_context(mock.patch.object(owner, name, instead(vars(owner)[name])))
        yield


def _owner(place: str) -> tuple[Any, str]:
    module, _, path = place.partition(":")
    owner, _, name = path.rpartition(".")
    return getattr(importlib.import_module(f"quorate.{module}"), owner), name


def _is_a_method(place: str) -> bool:
    if "." not in place.partition(":")[2]:
        return False
    owner, name = _owner(place)
    return not isinstance(vars(owner)[name], property)


@contextmanager
def between_decision_and_act(kind: type[Step], happens: Callable[[], None]) -> Iterator[None]:
    """Once, when a step of this kind was decided on and nothing of it is done yet, `happens` happens."""
    pending = [happens]

    def decide_and_wait(*arguments: Any) -> Decision:
        decision = decide(*arguments)
        if isinstance(decision.step, kind) and pending:
            pending.pop()()
        return decision

    with mock.patch.object(reconciler, "decide", decide_and_wait):
        yield
