"""Text in columns, each as wide as its widest cell."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def lines(headings: Sequence[str], rows: Iterable[Sequence[str]], *, indent: str = "  ") -> list[str]:
    """The headings and the rows, two spaces between columns; without rows, nothing."""
    table = [tuple(headings), *map(tuple, rows)]
    if len(table) == 1:
        return []
    widths = [max(len(row[column]) for row in table) for column in range(len(headings))]
    return [(indent + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))).rstrip() for row in table]
