"""The documentation's tables of rules are made from the code, and are not stale."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from quorate.core.__main__ import table
from quorate.core.hosts import decide as decide_hosts
from quorate.core.machines import decide
from quorate.core.takeover import decide as decide_takeover

PAGE = Path(__file__).parents[2] / "docs" / "rules.md"


def test_the_committed_table_is_the_one_that_the_code_makes() -> None:
    assert PAGE.read_text() == table(), "run `make rules` and commit the result"


@pytest.mark.parametrize("rules", [decide.RULES, decide_hosts.RULES, decide_takeover.RULES], ids=["Machines", "existing hosts", "takeover"])
def test_every_rule_has_a_name_of_its_own_and_says_what_it_does(rules: tuple[tuple[str, Callable[..., object]], ...]) -> None:
    assert len({name for name, _ in rules}) == len(rules)
    assert all((rule.__doc__ or "").strip() for _, rule in rules)
