"""The error of a step whose final check found that it must not be taken."""

from __future__ import annotations


class Refused(Exception):
    """The last look before acting found that the step is not safe any more. Nothing that cannot be taken back was done."""
