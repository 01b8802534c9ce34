"""Prints the table of rules as Markdown: `python -m quorate.core > docs/rules.md`."""

from __future__ import annotations

import inspect
import sys

from quorate.core.decide import RULES

_HEAD = """# The rules

In order: the first step that no earlier rule bars is taken. Made from the code by `make rules`.

| # | rule | module | what it says |
|---|---|---|---|
"""


def table() -> str:
    """The whole page."""
    rows = []
    for number, (name, rule) in enumerate(RULES, 1):
        sentence = " ".join((inspect.getdoc(rule) or "").split("\n\n")[0].split())
        rows.append(f"| {number} | {name} | `{rule.__module__.removeprefix('quorate.')}` | {sentence} |\n")
    return _HEAD + "".join(rows)


if __name__ == "__main__":
    sys.stdout.write(table())
