"""The documentation's table of rules is made from the code, and is not stale."""

from __future__ import annotations

from pathlib import Path

from quorate.core.__main__ import table
from quorate.core.decide import RULES

PAGE = Path(__file__).parents[2] / "docs" / "rules.md"


def test_the_committed_table_is_the_one_that_the_code_makes() -> None:
    assert PAGE.read_text() == table(), "run `make rules` and commit the result"


def test_every_rule_has_a_name_of_its_own_and_says_what_it_does() -> None:
    assert len({name for name, _ in RULES}) == len(RULES)
    assert all((rule.__doc__ or "").strip() for _, rule in RULES)
