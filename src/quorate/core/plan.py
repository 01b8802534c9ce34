"""How any family's `decide` is played forward on a model of its world: the steps in order, each with the ring before and after it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from quorate.core.checks import Check
from quorate.core.health import Absent, Unknown
from quorate.core.opinion import Decision
from quorate.core.ring import Ring, Verdict

View_co = TypeVar("View_co", covariant=True)
AnyStep = TypeVar("AnyStep")
AnyStep_co = TypeVar("AnyStep_co", covariant=True)

MOST_STEPS = 1000
"""A plan that has not ended by then is reported as it is; seven replicas replaced one by one take about forty."""


@dataclass(frozen=True)  # without slots, as Decision
class Foreseen(Generic[AnyStep_co]):
    """One step of the plan, the rule behind it, the replica it makes (or "") and the ring's verdict before and after it; None: not known."""

    step: AnyStep_co
    rule: str
    makes: str
    before: Verdict | None
    after: Verdict | None


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """One step of a plan as it is told, of either family; the keys of `-o json`.

    `makes` is the machine that it makes (a placeholder, or empty), `hosts` the existing hosts that it is about (none: the cluster, or Machines). The ring is as
    the step and as the next one find it, in words (empty: not known, or none). `tolerates` is how many more voters may fail then; below zero: how many are
    missing; None: not known.
    """

    number: int
    step: str
    kind: str
    rule: str
    makes: str
    hosts: tuple[str, ...]
    ring_before: str
    ring_after: str
    tolerates: int | None


def told(
    number: int, foreseen: Foreseen[object], after: Verdict | None, ring: Callable[[Verdict], str], *, hosts: tuple[str, ...] = ()
) -> PlannedStep:
    """The step with its number, the verdict that the next one finds, and `ring` to put verdicts into words."""
    return PlannedStep(
        number=number,
        step=str(foreseen.step),
        kind=type(foreseen.step).__name__,
        rule=foreseen.rule,
        makes=foreseen.makes,
        hosts=hosts,
        ring_before=ring(foreseen.before) if foreseen.before else "",
        ring_after=ring(after) if after else "",
        tolerates=after.margin if after else None,
    )


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


def play(model: Model[AnyStep]) -> Iterator[Foreseen[AnyStep]]:
    """Steps until there is none and nothing more is on its way."""
    for _ in range(MOST_STEPS):
        decision = model.decide()
        if decision.step is not None:
            before = verdict(model.ring)
            makes = model.take(decision.step)
            yield Foreseen(decision.step, decision.rule, makes, before, verdict(model.ring))
            if model.is_last(decision.step):
                return
        elif not model.wait():
            return


def verdict(ring: Ring | Unknown | Absent) -> Verdict | None:
    """What the ring tolerates; None where it was not read."""
    return ring.now if isinstance(ring, Ring) and ring.members else None


def without(ring: Ring, member_id: int) -> Ring:
    """The ring after the member has left; where it led, its successor leads now."""
    leader = ring.leader if ring.leader != member_id else ring.successor.id if ring.successor else None
    return Ring(tuple(member for member in ring.members if member.id != member_id), leader)
