"""Three-valued facts: good, bad, and unknown with a reason."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Health(Enum):
    """What is known of a thing's health. UNKNOWN is never read as GOOD, and never, alone, as a reason to destroy."""

    GOOD = "good"
    BAD = "bad"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Unknown:
    """A fact that could not be learned, and why; `remedy` where somebody would have to do something before it can be."""

    reason: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Absent:
    """Proven: the thing asked for is not there."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing's health with its evidence: `reason` in one CamelCase word as conditions carry it, `message` for a reader."""

    health: Health
    reason: str
    message: str = ""


def worst(healths: list[Health]) -> Health:
    """The worst of several: BAD before UNKNOWN before GOOD; UNKNOWN of nothing."""
    for health in (Health.BAD, Health.UNKNOWN, Health.GOOD):
        if health in healths:
            return health
    return Health.UNKNOWN
