"""How a `decide` is played forward on a model of its cluster: the steps in order, each with the ring before and after it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeVar

from quorate.core.checks import Check
from quorate.core.health import Absent, Unknown
from quorate.core.proposal import Decision
from quorate.core.ring import Ring, Verdict, verdict

View_co = TypeVar("View_co", covariant=True)
AnyStep = TypeVar("AnyStep")
AnyStep_co = TypeVar("AnyStep_co", covariant=True)

MOST_STEPS = 1000
"""A plan that has not ended by then is reported as it is; seven replicas replaced one by one take about forty."""


@dataclass(frozen=True)  # without slots, as Decision
class Foreseen(Generic[AnyStep_co]):
    """One step of the plan, the rule behind it, the replica it makes (or ""), and the ring's verdict as it and as the next one find it; None: not known."""

    step: AnyStep_co
    rule: str
    makes: str
    before: Verdict | None
    after: Verdict | None


@dataclass(frozen=True)
class Forecast(Generic[View_co, AnyStep_co]):
    """The steps in order, how it ends, and what stands in the way of more: no refusals and `converged` when the goal is reached."""

    steps: tuple[Foreseen[AnyStep_co], ...]
    end: View_co
    converged: bool
    refusals: tuple[Check, ...]


class Model(Protocol[AnyStep]):
    """A world in which every step succeeds."""

    @property
    def ring(self) -> Ring | Unknown | Absent:
        """The ring as the plan leaves it."""
        ...

    def decide(self) -> Decision[AnyStep]:
        """What would be done next."""
        ...

    def take(self, step: AnyStep) -> str:
        """The step succeeds; the name of the replica that it makes, or ""."""
        ...

    def is_last(self, step: AnyStep) -> bool:
        """Whether nothing can be foreseen after this step."""
        ...

    def wait(self) -> bool:
        """What is on its way arrives. False: nothing is."""
        ...


def play(model: Model[AnyStep]) -> tuple[Foreseen[AnyStep], ...]:
    """Steps until there is none and nothing more is on its way."""
    steps: list[Foreseen[AnyStep]] = []
    for _ in range(MOST_STEPS):
        decision = model.decide()
        if decision.step is not None:
            before = verdict(model.ring)
            steps.append(Foreseen(decision.step, decision.rule, model.take(decision.step), before, None))
            if model.is_last(decision.step):
                break
        elif not model.wait():
            break
    found_next = (*(step.before for step in steps[1:]), verdict(model.ring))
    return tuple(replace(step, after=after) for step, after in zip(steps, found_next, strict=False))


def without(ring: Ring, member_id: int) -> Ring:
    """The ring after the member has left; where it led, its successor leads now."""
    leader = ring.leader if ring.leader != member_id else ring.successor.id if ring.successor else None
    return Ring(tuple(member for member in ring.members if member.id != member_id), leader)
