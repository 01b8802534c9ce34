"""Named checks: one question each, its answer, the evidence, and what would change it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Outcome(Enum):
    """A check's answer. UNKNOWN is as good as FAIL to every step that destroys."""

    PASS = "pass"  # noqa: S105 (an answer, not a password)
    FAIL = "fail"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Check:
    """One named question with its answer and the evidence for it, in words an operator can act on.

    `remedy` says what somebody would have to do; it is empty where time alone, or a step already under way, changes the answer.
    """

    name: str
    outcome: Outcome
    evidence: str
    remedy: str = ""

    @property
    def passed(self) -> bool:
        """Whether the answer is a plain yes."""
        return self.outcome is Outcome.PASS


def passed(name: str, evidence: str) -> Check:
    """A yes."""
    return Check(name, Outcome.PASS, evidence)


def failed(name: str, evidence: str, remedy: str = "") -> Check:
    """A no."""
    return Check(name, Outcome.FAIL, evidence, remedy)


def unknown(name: str, evidence: str, remedy: str = "") -> Check:
    """Nobody could tell."""
    return Check(name, Outcome.UNKNOWN, evidence, remedy)
