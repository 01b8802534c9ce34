"""The answer of whoever was told to do something and found, at the last look, that it must not."""

from __future__ import annotations


class Refused(Exception):
    """The last look before acting found that the step is not safe any more. Nothing that cannot be taken back was done."""
