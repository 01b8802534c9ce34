"""What operators do to the site, told at the instant at which it takes effect, with what they could know: what an invariant judges."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from quorate.core.hosts.state import RunOptions
from quorate.core.hosts.steps import Step, TakeSnapshot
from quorate.core.versions import Version
from quorate.simulation.hosts.machines import Machine
from quorate.simulation.hosts.site import Manifest


class Action(StrEnum):
    """The kinds of act that can do harm."""

    BEGIN = "begins a step"
    SCRIPT = "runs a script"
    FOUND = "founds a ring"
    ADD = "adds a member"
    REMOVE = "removes a member"
    PUT_DOWN = "takes an etcd member down"
    END_API_SERVER = "ends an API server"
    ERASE = "erases a disk"
    START = "starts a kubelet"
    JOIN_WORKER = "joins a worker"
    KUBELET = "exchanges a kubelet"
    UPGRADE = "upgrades a control plane"
    DELETE_NODE = "deletes a Node"
    KEYS = "changes the keys"


@dataclass(slots=True, eq=False)
class Actor:
    """One run of an operator: the manifest that it read when it began, and what it did and learned since."""

    name: str
    manifest: Manifest
    options: RunOptions = RunOptions()  # noqa: RUF009 (frozen)
    step: Step = TakeSnapshot()  # noqa: RUF009 (frozen); that is carried out
    snapshot_taken: bool = False
    observed: float = 0.0  # when the observation that the step was decided on was begun
    since: float = 0.0  # when the last reading of the ring was begun: it can know nothing that was true only before
    status_asked: float = 0.0  # when it asked a member for its status last, with which each reading of the ring begins
    cut_off: set[Machine] = field(default_factory=set)  # that it does not reach, though others may
    unasked: float = float("-inf")  # when it asked for the Lease last and reached no API server

    def act(self, action: Action, machine: Machine | None = None, *, member: int | None = None, node: str = "") -> Act:
        """What it does now."""
        return Act(action, self, self.since, self.observed, self.step, machine, member, node)


@dataclass(frozen=True, slots=True)
class Act:
    """One act. `since` is when the reading that it rests on was begun, and `observed` the observation on which its step was decided; the condition of an
    invariant must have held at some instant since.
    """

    action: Action
    actor: Actor
    since: float
    observed: float
    step: Step
    machine: Machine | None = None
    member: int | None = None
    node: str = ""
    version: Version | None = None

    @property
    def host(self) -> str:
        """Where; empty where that is no host."""
        return self.machine.name if self.machine is not None else ""


Witness = Callable[[Act], None]
"""Is told of every act, right before it takes effect."""
