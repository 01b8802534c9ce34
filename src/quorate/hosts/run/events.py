"""What happens in a run on existing hosts, as a stream of frozen values: displays fold them, records keep them as JSON lines, `explain --run` reads them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, TypeAlias

import msgspec

from quorate.core.checks import Check
from quorate.core.text import printable_lines


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

_KINDS: dict[str, type[Event]] = {
    kind.__name__: kind for kind in (Started, Observed, StepBegun, Progress, StepDone, StepBroke, Waiting, Ended)
}


def encode(event: Event) -> str:
    """One JSON line, the kind of event under `event`."""
    return msgspec.json.encode({"event": type(event).__name__, **msgspec.to_builtins(event)}).decode()


def decode(lines: Iterable[str]) -> list[Event]:
    """The events of JSON lines, each text of them printable. Raises ValueError for a line that is none, naming its number; a last line that was cut short is
    left out.
    """
    written = [(number, line) for number, line in enumerate(lines, start=1) if line.strip()]
    events: list[Event] = []
    for number, line in written:
        try:
            data: dict[str, Any] = msgspec.json.decode(line, type=dict[str, Any])
            kind = _KINDS[data.pop("event")]
            events.append(msgspec.convert(_shown(data), kind))
        except (msgspec.MsgspecError, KeyError) as error:
            if number == written[-1][0] and not line.endswith("}"):
                break  # whoever wrote it was ended while writing
            raise ValueError(f"line {number} is no event of a run: {error}") from error
    return events


def _shown(value: Any) -> Any:
    """With every text in it printable, line by line: a record that came from elsewhere may hold anything."""
    match value:
        case str():
            return printable_lines(value)
        case list():
            return [_shown(each) for each in value]
        case dict():
            return {_shown(key): _shown(each) for key, each in value.items()}
    return value
