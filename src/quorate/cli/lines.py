"""Checks, findings and etcd members as every view shows them, in text and in `-o json`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from quorate.core.checks import Check
    from quorate.core.health import Absent, Unknown
    from quorate.core.ring import Ring

RESOLVES_BY_ITSELF = "resolves by itself"


@dataclass(frozen=True, slots=True)
class CheckLine:
    """One check: `outcome` is pass, fail or unknown; `remedy` what would change it, empty where it passes."""

    name: str
    outcome: str
    evidence: str
    remedy: str


@dataclass(frozen=True, slots=True)
class MemberLine:
    """One etcd member; `evidence` is why its health is what it is."""

    id: str  # hexadecimal, as etcdctl prints it
    name: str
    role: str  # leader, voter, learner
    health: str
    evidence: str


@dataclass(frozen=True, slots=True)
class FindingLine:
    """The health of one part of a machine."""

    name: str
    health: str
    message: str


def check_line(check: Check) -> CheckLine:
    """One check as it is shown."""
    remedy = "" if check.passed else check.remedy or RESOLVES_BY_ITSELF
    return CheckLine(check.name, check.outcome.value, check.evidence, remedy)


def verdict(ring: Ring | Unknown) -> str:
    """The ring's verdict with its numbers, or why it is not known."""
    from quorate.core.health import Unknown

    return f"unknown: {ring.reason}" if isinstance(ring, Unknown) else str(ring.now)


def member_lines(ring: Ring | Unknown | Absent) -> tuple[MemberLine, ...]:
    """The members of a ring as they are shown; none where it is not known."""
    from quorate.core.ring import Ring

    if not isinstance(ring, Ring):
        return ()
    return tuple(
        MemberLine(
            id=f"{member.id:x}",
            name=member.name,
            role=ring.role(member),
            health=member.health.value,
            evidence=member.evidence or ("" if member.name else "never started"),
        )
        for member in ring.members
    )


_COLOURS = {"pass": "green", "good": "green", "fail": "red", "bad": "red", "unknown": "yellow"}


def checks_text(checks: tuple[CheckLine, ...]) -> list[str]:
    """Checks under their heading, each that does not pass with what would change it."""
    lines = ["Checks"]
    for check in checks:
        lines.append(f"  {word(check.outcome)} {check.name}: {check.evidence}")
        if check.remedy:
            lines.append(f"          -> {check.remedy}")
    return lines


def members_text(members: tuple[MemberLine, ...]) -> list[str]:
    """A line for each member."""
    lines = []
    for member in members:
        evidence = f": {member.evidence}" if member.evidence else ""
        lines.append(f"  {word(member.health)} {member.name or '(no name)'} {member.role} {member.id}{evidence}")
    return lines


def word(word: str) -> str:
    """A verdict in a column of its own, coloured for whoever sees colours."""
    return click.style(f"{word:<7}", fg=_COLOURS[word])
