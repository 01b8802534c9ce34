"""A run stays within what the operator approved (S14): it destroys nothing that was not shown, and from a saved plan it takes no other step at all.

A step is the same step where its kind, its host (or Node) and its etcd member are. When it comes, how often, and beside which others is no part of that: a
step that failed is done again, and one for three hosts may come back for the one that was left. Neither is how it is done: a Node that was to be drained
first may have nobody any more to drain it. An initialization that was approved may be continued; approval to continue one is none to begin another.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from quorate.core.checks import Check, failed, passed
from quorate.core.hosts.steps import DESTROYS, Initialize, RemoveMember, Step, involved

APPROVED = "the step is in the plan that was approved"
_REMEDY = "Run the command again to see the new plan; replace a saved plan with `quorate plan --out`."


@dataclass(frozen=True, slots=True)
class Identity:
    """What makes a step the same as one that was shown: its kind, the host or Node that it is about (empty: the cluster), the member that it removes."""

    kind: str
    host: str
    member: int | None = None


@dataclass(frozen=True, slots=True)
class Approval:
    """The steps that somebody was shown and agreed to. `only`: no other step at all; else none that destroys."""

    shown: frozenset[Identity]
    only: bool

    @classmethod
    def of(cls, steps: Iterable[Step], *, only: bool) -> Self:
        """Of a plan's steps."""
        return cls(frozenset(identity for step in steps for identity in (*identities(step), *_included(step))), only)

    def check(self, step: Step) -> Check:
        """May this step be done? A no means that the world is another than the one that the plan was made for."""
        if not self.only and type(step) not in DESTROYS:
            return passed(APPROVED, f"exempt: to {step} destroys nothing")
        if identities(step) <= self.shown:
            return passed(APPROVED, f"to {step} was shown")
        return failed(APPROVED, f"the plan lacks this step: {step}", _REMEDY)


def identities(step: Step) -> frozenset[Identity]:
    """One for each host that the step is about; one without a host where it is about the cluster."""
    kind = type(step).__name__
    if isinstance(step, Initialize) and step.resume:
        kind = f"{kind}.resume"
    member = step.member if isinstance(step, RemoveMember) else None
    return frozenset(Identity(kind, host, member) for host in involved(step) or ("",))


def _included(step: Step) -> frozenset[Identity]:
    """What whoever approves of the step approves of as well."""
    return identities(Initialize(step.host, resume=True)) if isinstance(step, Initialize) else frozenset()
