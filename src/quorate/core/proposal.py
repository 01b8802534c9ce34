"""Proposals of rules, and how they become one decision: the same for Machines and hosts, whatever their state and steps.

Each rule of a table gives its proposal, a pure function of what was observed and the time: a step it wants, the checks behind it, the kinds of step that
must not happen meanwhile, and when time alone would change its mind. `judge` takes them in order: the first step that no earlier proposal blocks wins.
A rule that refuses therefore stops what would be unsafe beside it, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, Never, TypeVar

from quorate.core.checks import Check

View = TypeVar("View")
AnyStep = TypeVar("AnyStep")
AnyStep_co = TypeVar("AnyStep_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Proposal(Generic[AnyStep_co]):
    """A step that the rule wants, why or why not, what must not happen meanwhile, and when time alone would change its mind.

    A step that only prepares another one, such as a snapshot before it, is not taken where that kind of step is blocked.
    """

    step: AnyStep_co | None = None
    checks: tuple[Check, ...] = ()
    blocks: frozenset[type[AnyStep_co]] = frozenset()
    wake_at: datetime | None = None
    prepares: type[AnyStep_co] | None = None


NOTHING: Proposal[Never] = Proposal()
"""The rule has nothing to say."""

NO_RULE = "nothing to do"
"""The rule of a decision about which no rule had anything to say."""

Rule = Callable[[View, datetime], Proposal[AnyStep]]


@dataclass(frozen=True)  # without slots: an alias such as Decision[Step] could not make one then (CPython 46414)
class Decision(Generic[AnyStep_co]):
    """What to do next, which rule said so, and everything that was asked on the way.

    Without a step, `rule` is the one that stops everything, or else the first that refuses something; NO_RULE where none does.
    """

    rule: str
    step: AnyStep_co | None
    checks: tuple[Check, ...]  # of every rule that spoke up to this one, so that a stall always has its reason
    wake_at: datetime | None  # when time alone could change the answer

    @property
    def refusals(self) -> tuple[Check, ...]:
        """The checks that did not pass, each once: several rules may ask the same."""
        return tuple(dict.fromkeys(check for check in self.checks if not check.passed))


def blocking(blocks: frozenset[type[AnyStep]], *checks: Check) -> Proposal[AnyStep]:
    """A refusal: these kinds of step must not happen as long as one of the checks does not pass."""
    return Proposal(checks=checks, blocks=frozenset() if all(check.passed for check in checks) else blocks)


def wanting(step: AnyStep, *checks: Check) -> Proposal[AnyStep]:
    """A wish: the step, as soon as every check passes."""
    return Proposal(step if all(check.passed for check in checks) else None, checks)


def judge(
    rules: tuple[tuple[str, Rule[View, AnyStep]], ...], everything: frozenset[type[AnyStep]], view: View, now: datetime
) -> Decision[AnyStep]:
    """The decision of a table of rules, of which `everything` is every kind of step. Pure; total where the rules are."""
    blocked: frozenset[type[AnyStep]] = frozenset()
    checks: tuple[Check, ...] = ()
    refuses = ""
    wake: list[datetime] = []
    for name, rule in rules:
        proposal = rule(view, now)
        checks += proposal.checks
        refuses = refuses or ("" if all(check.passed for check in proposal.checks) else name)
        wake += [proposal.wake_at] if proposal.wake_at else []
        if proposal.step is not None and not blocked & {type(proposal.step), proposal.prepares}:
            return Decision(name, proposal.step, checks, min(wake, default=None))
        blocked |= proposal.blocks
        if blocked >= everything:  # nothing later could win, and its refusals would only hide this one
            return Decision(name, None, checks, min(wake, default=None))
    return Decision(refuses or NO_RULE, None, checks, min(wake, default=None))
