"""JSON of more levels than a program can go down: an API server stores 10,000 of them, wherever a field may hold anything.

Whoever may write one object of a kind could otherwise blind everybody to all objects of it: a list with one that cannot be read cannot be read.
"""

from __future__ import annotations

import re

MOST = 200
"""Levels that are read; no field that is read here lies deeper than twenty."""

_MARKS = re.compile(rb'"(?:[^"\\]|\\.)*+"|[\[{]+|[\]}]+')


def shallow(data: bytes) -> bytes:
    """The JSON with null for every value that lies deeper than MOST levels. What is no JSON stays as little."""
    kept, begin, depth = list[bytes](), 0, 0
    for mark in _MARKS.finditer(data):
        brackets = mark.group()
        if brackets[:1] in b"[{":
            if depth <= MOST < depth + len(brackets):
                kept += [data[begin : mark.start() + MOST - depth], b"null"]
            depth += len(brackets)
        elif brackets[:1] in b"]}":
            if depth > MOST >= depth - len(brackets):
                begin = mark.start() + depth - MOST
            depth -= len(brackets)
    return b"".join([*kept, data[begin:]]) if depth <= MOST else data
