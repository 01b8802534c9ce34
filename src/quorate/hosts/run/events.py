"""What happens in a run on existing hosts, as a stream of frozen values: displays fold them, records keep them as JSON lines, `explain --run` reads them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import TypeAlias

from quorate.core.checks import Check
from quorate.event_lines import EventLines


class Outcome(StrEnum):
    """How a run ended."""

    CONVERGED = "converged"
    STALLED = "stalled"
    MOVED = "moved"  # what it came to was not in the plan that was approved
    FAILED = "failed"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True)
class Started:
    """A run began: of which command, for which cluster, by whom, and on which hosts."""

    at: datetime = field(compare=False)
    command: str
    cluster: str
    version: str
    by: str
    hosts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Observed:
    """The cluster was looked at: its ring in words, how many more voters may fail (None: not known), and what each host is, in words, by its name."""

    at: datetime = field(compare=False)
    ring: str
    tolerates: int | None
    hosts: dict[str, str]


@dataclass(frozen=True, slots=True)
class StepBegun:
    """A step was decided on, by which rule and on which checks, and is carried out on these hosts; none where it is about the cluster."""

    at: datetime = field(compare=False)
    number: int
    step: str
    rule: str
    hosts: tuple[str, ...]
    checks: tuple[Check, ...]


@dataclass(frozen=True, slots=True)
class Progress:
    """What is done on a host now, or waited for."""

    at: datetime = field(compare=False)
    host: str
    what: str


@dataclass(frozen=True, slots=True)
class StepDone:
    """A step was carried out."""

    at: datetime = field(compare=False)
    number: int
    step: str


@dataclass(frozen=True, slots=True)
class StepBroke:
    """A step failed: where, why, and the way out."""

    at: datetime = field(compare=False)
    number: int
    step: str
    where: str
    cause: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Waiting:
    """Nothing can be done now, because of these checks. It is looked again at `until` at the latest."""

    at: datetime = field(compare=False)
    because: tuple[Check, ...]
    until: datetime = field(compare=False)


@dataclass(frozen=True, slots=True)
class Ended:
    """A run ended, and after how many steps. `because` is what stands in the way of more, `message` what a person needs to know."""

    at: datetime = field(compare=False)
    outcome: Outcome
    steps: int
    message: str
    because: tuple[Check, ...] = ()


Event: TypeAlias = Started | Observed | StepBegun | Progress | StepDone | StepBroke | Waiting | Ended

LINES: EventLines[Event] = EventLines(Started, Observed, StepBegun, Progress, StepDone, StepBroke, Waiting, Ended, source="a run")
