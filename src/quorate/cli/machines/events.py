"""What a display is told: events, each complete in itself, derived from one look after the other. They are also what `-o json` prints and a replay reads."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from quorate.core.text import printable
from quorate.event_lines import EventLines

if TYPE_CHECKING:
    from quorate.clusterapi.inspection import Finding
    from quorate.clusterapi.observe.observation import Observation, ObservedMachine
    from quorate.core.machines.steps import Step


@dataclass(frozen=True, slots=True)
class ControlPlaneSeen:
    """The control plane as a whole, new or changed."""

    at: datetime = field(compare=False)
    name: str
    version: str
    desired: int
    replicas: int
    ready: int
    available: int
    up_to_date: int
    etcd: str  # in one phrase
    next: str  # the next step, or what it waits for; empty: nothing left to do
    standing: str  # converged, progressing, stalled

    @property
    def settled(self) -> bool:
        """Whether every count is the desired one."""
        return {self.replicas, self.ready, self.available, self.up_to_date} == {self.desired}


@dataclass(frozen=True, slots=True)
class ControlPlaneGone:
    """The control plane does not exist any more."""

    at: datetime = field(compare=False)
    name: str


@dataclass(frozen=True, slots=True)
class MachineSeen:
    """One machine, new or changed."""

    at: datetime = field(compare=False)
    name: str
    version: str
    created: datetime
    node: str  # empty: none yet
    role: str  # leader, voter, learner, or empty
    health: str  # good, starting, leaving, bad, unknown
    waits_for: str  # empty: ready
    deleting: bool
    fate: str  # why it goes or came, in words; empty: it stays


@dataclass(frozen=True, slots=True)
class MachineGone:
    """A machine does not exist any more."""

    at: datetime = field(compare=False)
    name: str


@dataclass(frozen=True, slots=True)
class StepSeen:
    """A step that was decided: whoever leads takes it now."""

    at: datetime = field(compare=False)
    text: str
    rule: str


Event = ControlPlaneSeen | ControlPlaneGone | MachineSeen | MachineGone | StepSeen

LINES: EventLines[Event] = EventLines(
    ControlPlaneSeen, ControlPlaneGone, MachineSeen, MachineGone, StepSeen, source="`quorate run -o json`"
)


@dataclass(frozen=True, slots=True)
class Sight:
    """Everything that one look showed, as the events that would tell it to somebody who knew nothing."""

    control_plane: ControlPlaneSeen
    machines: tuple[MachineSeen, ...]
    step: StepSeen | None
    wanted: Step | None = None  # that is this step


def sight(finding: Finding, at: datetime) -> Sight:
    """What a look at a control plane showed."""
    from quorate.cli import describe, lines, views

    observation, decision = finding.observation, finding.decision
    counts = describe.counts(observation.kcp)
    control_plane = ControlPlaneSeen(
        at=at,
        name=observation.kcp.metadata.name,
        version=printable(observation.kcp.spec.version),
        desired=counts.desired,
        replicas=counts.current,
        ready=counts.ready,
        available=counts.available,
        up_to_date=counts.up_to_date,
        etcd=lines.phrase(views.etcd(observation.ring)),
        next=describe.next_step(finding),
        standing=describe.standing(finding).value,
    )
    machines = tuple(_machine(observation, machine, at) for machine in observation.machines)
    wanted = decision.step if decision else None
    return Sight(control_plane, machines, StepSeen(at, str(wanted), decision.rule) if decision and wanted else None, wanted)


def _machine(observation: Observation, machine: ObservedMachine, at: datetime) -> MachineSeen:
    from quorate.cli import describe

    return MachineSeen(
        at=at,
        name=machine.name,
        version=printable(machine.machine.spec.version),
        created=machine.machine.metadata.creation_timestamp or at,
        node=machine.node.metadata.name if machine.node else "",
        role=describe.role(observation, machine),
        health=describe.condition(machine, at),
        waits_for=describe.waits_for(observation, machine),
        deleting=machine.deleting,
        fate=describe.fate(observation, machine),
    )


def changes(before: Sight | None, after: Sight | None, at: datetime) -> list[Event]:
    """The events that lead from one look to the next; None where there was no control plane."""
    if after is None:
        gone: list[Event] = [MachineGone(at, machine.name) for machine in before.machines] if before else []
        return [*gone, ControlPlaneGone(at, before.control_plane.name)] if before else []
    known = {machine.name: machine for machine in before.machines} if before else {}
    present = {machine.name for machine in after.machines}
    events: list[Event] = [machine for machine in after.machines if known.get(machine.name) != machine]
    events += [MachineGone(at, name) for name in known if name not in present]
    if after.step and (before is None or (before.step != after.step and not _goes_on(before, after))):
        events.append(after.step)
    if before is None or before.control_plane != after.control_plane:
        events.append(after.control_plane)
    return events


def _goes_on(before: Sight, after: Sight) -> bool:
    """Whether the step is what is left of the one before: whoever looks while it is taken would be told of it once for each part that is done."""
    from quorate.core.machines.steps import is_left_of

    return before.wanted is not None and after.wanted is not None and is_left_of(after.wanted, before.wanted)
