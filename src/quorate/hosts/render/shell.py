"""Quotes values for scripts: the only way that a value gets into one."""

from __future__ import annotations

import shlex


def quoted(value: str) -> str:
    """The value as one word of sh, whatever it holds. Raises ValueError for NUL, which no word can have, and for a line break, which nothing has that scripts
    name.
    """
    if "\0" in value or "\n" in value:
        raise ValueError(f"{value!r} cannot be a word of a script: it has more than one line, or a NUL")
    return shlex.quote(value)
