"""What the bench measures, as it is kept in JSON: one record for a run, with its steps."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

import msgspec

from tests.bench.audit import Agent
from tests.bench.waiting import Waiting


class Provider(StrEnum):
    """Whose control-plane provider runs, in the words of the local cluster and in the order of measuring."""

    UPSTREAM = "upstream"
    QUORATE = "quorate"

    @property
    def agent(self) -> Agent:
        """How it is told apart in the audit log."""
        return Agent[self.name]


class Step(msgspec.Struct, frozen=True):
    """One step of one run: what it took, and what the provider used for it. Requests are the provider's own, by verb, Leases apart."""

    name: str
    seconds: float
    cpu_seconds: float
    peak_resident: int  # bytes, VmHWM: the most since the provider was started, not since the step began
    requests: dict[str, int]
    lease_writes: int
    waiting: Waiting


class Idle(msgspec.Struct, frozen=True):
    """A time in which nobody asked for anything, with one cluster of three machines."""

    seconds: float
    cpu_seconds: float
    requests: dict[str, int]
    lease_writes: int


class Run(msgspec.Struct, frozen=True):
    """All steps of one provider on one fresh local management cluster."""

    provider: Provider
    phase_seconds: float
    number: int  # from 1
    load_before: float  # the machine's load average of a minute: above some tenths something else was running
    steps: list[Step]
    reactions: list[float]  # seconds, of all steps
    idle: Idle | None = None
    trace: list[float] = []  # seconds from a provider's last input to each step it took, by its own log; none where it keeps none

    def step(self, name: str) -> Step:
        """The step of this name; raises KeyError where the run has none."""
        return {step.name: step for step in self.steps}[name]


class Results(msgspec.Struct, frozen=True):
    """Everything one bench measured, in the order of measuring."""

    started: str  # RFC 3339
    version: str  # of quorate
    python: str
    cores: int
    runs: list[Run]


def write(path: Path, results: Results) -> None:
    """Keep the results, replacing what the file held."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    partial.write_bytes(msgspec.json.format(msgspec.json.encode(results), indent=1) + b"\n")
    partial.replace(path)


def read(path: Path) -> Results:
    """What `write` kept."""
    return msgspec.json.decode(path.read_bytes(), type=Results)
