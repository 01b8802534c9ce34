"""Prints the tables of rules as Markdown: `python -m quorate.core > docs/rules.md`."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable

from quorate.core.hosts import decide as decide_hosts
from quorate.core.machines import decide

_HEAD = """# The rules

quorate asks the rules in this order and takes the first step that no earlier rule blocks. Made from the code by `make rules`.
"""
_COLUMNS = """
| # | rule | module | what it says |
|---|---|---|---|
"""


def table() -> str:
    """The whole page."""
    return "".join(
        (
            _HEAD,
            "\n## Machines (`quorate manager`)\n",
            _COLUMNS,
            *_rows(decide.RULES),
            "\n## Existing hosts (`quorate apply`)\n",
            _COLUMNS,
            *_rows(decide_hosts.RULES),
        )
    )


def _rows(rules: Iterable[tuple[str, Callable[..., object]]]) -> list[str]:
    rows = []
    for number, (name, rule) in enumerate(rules, 1):
        sentence = " ".join((inspect.getdoc(rule) or "").split("\n\n")[0].split())
        rows.append(f"| {number} | {name} | `{rule.__module__.removeprefix('quorate.')}` | {sentence} |\n")
    return rows


if __name__ == "__main__":
    sys.stdout.write(table())
