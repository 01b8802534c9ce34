"""Without any one of its guards quorate does harm, and the proof notices: a guard that could go unnoticed is no guard, or the proof is none."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.proof import guards
from tests.proof.guards import GUARDS, NOT_GUARDS, Guard
from tests.proof.mutation import first_victim
from tests.proof.oracle import INVARIANTS

ROOT = Path(__file__).parents[2]
OF_DECISIONS = [guard for guard in GUARDS if not guard.is_of_the_hands]
OF_THE_HANDS = [guard for guard in GUARDS if guard.is_of_the_hands]


@pytest.mark.parametrize("guard", OF_DECISIONS, ids=lambda guard: guard.name)
def test_without_the_guard_a_decision_breaks_its_invariant(guard: Guard) -> None:
    assert first_victim(guard) is not None, f"nothing notices that {', '.join(guard.places)} is gone"


@pytest.mark.parametrize("guard", OF_THE_HANDS, ids=lambda guard: guard.name)
def test_without_the_guard_the_test_of_the_hands_fails(guard: Guard) -> None:
    command = [sys.executable, "-m", "tests.proof.mutation", str(GUARDS.index(guard)), guard.breaks]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=50, check=False)
    assert run.returncode == pytest.ExitCode.TESTS_FAILED, run.stdout + run.stderr


def test_what_is_disabled_is_whole_again_afterwards() -> None:
    guard = next(guard for guard in GUARDS if guard.name == "a removal leaves a quorum")
    before = guards.importlib.import_module("quorate.core.checks").removal_keeps_quorum
    with guards.disabled(guard):
        assert guards.importlib.import_module("quorate.core.rules.strays").removal_keeps_quorum is not before
    assert guards.importlib.import_module("quorate.core.rules.strays").removal_keeps_quorum is before


def test_every_check_of_the_rules_is_a_guard_or_says_why_not() -> None:
    named = {place for guard in GUARDS for place in guard.places}
    assert not named & NOT_GUARDS.keys()
    answering = set(guards.answering_functions())
    assert answering - named - NOT_GUARDS.keys() == set(), "name these in tests/proof/guards.py"
    assert NOT_GUARDS.keys() - answering == set(), "these are gone"


def test_every_invariant_of_the_oracle_falls_with_some_guard() -> None:
    not_of_one_predicate = {"s8_nobody_goes_without_a_reason", "s8_a_surge_needs_a_reason"}  # the choice of the victim, and the count of replicas
    assert INVARIANTS.keys() - {guard.breaks for guard in GUARDS} == not_of_one_predicate


def test_the_committed_table_is_the_one_that_the_code_makes() -> None:
    assert (ROOT / "docs" / "guards.md").read_text() == guards.table(), "run `python -m tests.proof.guards > docs/guards.md` and commit the result"
