"""Without any one of its guards quorate does harm, and the proof notices: a guard that could go unnoticed is no guard, or the proof is none."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from quorate.core import quorum
from quorate.core.machines.rules import orphans
from tests.proof.guard import Guard
from tests.proof.guards import GUARDS, NOT_GUARDS, answering_functions, disabled, table
from tests.proof.mutation import first_victim
from tests.proof.oracle import INVARIANTS

ROOT = Path(__file__).parents[2]
OF_DECISIONS = [guard for guard in GUARDS if not guard.is_of_the_hands]
OF_THE_HANDS = [guard for guard in GUARDS if guard.is_of_the_hands]


@pytest.mark.parametrize("guard", OF_DECISIONS, ids=lambda guard: guard.name)
def test_without_the_guard_a_decision_breaks_its_invariant(guard: Guard) -> None:
    assert first_victim(guard) is not None, f"nothing notices that {', '.join(guard.places)} is gone"


@pytest.mark.timeout(120)
@pytest.mark.parametrize("guard", OF_THE_HANDS, ids=lambda guard: guard.name)
def test_without_the_guard_the_test_of_the_hands_fails(guard: Guard) -> None:
    command = [sys.executable, "-m", "tests.proof.mutation", str(GUARDS.index(guard)), guard.breaks]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=110, check=False)
    assert run.returncode == pytest.ExitCode.TESTS_FAILED, run.stdout + run.stderr


def test_what_is_disabled_is_disabled_for_everybody_and_whole_again_afterwards() -> None:
    predicate = quorum.removal_keeps_quorum
    with disabled(next(guard for guard in GUARDS if guard.name == "a removal leaves a quorum")):
        assert quorum.removal_keeps_quorum is vars(orphans)["removal_keeps_quorum"] is not predicate
    assert quorum.removal_keeps_quorum is vars(orphans)["removal_keeps_quorum"] is predicate


def test_every_check_of_the_rules_is_a_guard_or_says_why_not() -> None:
    named = {place for guard in GUARDS for place in guard.places}
    assert not named & NOT_GUARDS.keys()
    answering = set(answering_functions())
    assert answering - named - NOT_GUARDS.keys() == set(), "name these in tests/proof/guards.py"
    assert NOT_GUARDS.keys() - answering == set(), "these are gone"


def test_every_invariant_of_the_oracle_falls_with_some_guard() -> None:
    not_of_one_predicate = {"s8_a_surge_needs_a_reason"}  # the rules begin by asking how many stay
    assert INVARIANTS.keys() - {guard.breaks for guard in GUARDS} == not_of_one_predicate


def test_the_committed_table_is_the_one_that_the_code_makes() -> None:
    assert (ROOT / "docs" / "guards.md").read_text() == table(), "run `python -m tests.proof.guards > docs/guards.md` and commit the result"
