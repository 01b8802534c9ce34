"""What one rule thinks of a control plane."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from quorate.core.checks import Check
from quorate.core.control_plane import ControlPlane
from quorate.core.steps import Step


@dataclass(frozen=True, slots=True)
class Opinion:
    """A step that the rule wants, why or why not, what must not happen meanwhile, and when time alone would change its mind."""

    step: Step | None = None
    checks: tuple[Check, ...] = ()
    bars: frozenset[type[Step]] = frozenset()
    wake_at: datetime | None = None


NOTHING = Opinion()
"""The rule has nothing to say."""

Rule = Callable[[ControlPlane, datetime], Opinion]


def barring(bars: frozenset[type[Step]], *checks: Check) -> Opinion:
    """A refusal: these kinds of step must not happen as long as one of the checks does not pass."""
    return Opinion(checks=checks, bars=frozenset() if all(check.passed for check in checks) else bars)


def wanting(step: Step, *checks: Check) -> Opinion:
    """A wish: the step, as soon as every check passes."""
    return Opinion(step if all(check.passed for check in checks) else None, checks)
