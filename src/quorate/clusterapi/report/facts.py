"""Everything that one report is made from, and the few questions that several of its parts ask: what is managed, and can the workload cluster be asked."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from functools import cached_property

from quorate.clusterapi.observe.observation import Observation
from quorate.clusterapi.report.conditions import TRUE, Ledger, as_dict, by_type, timestamp, transition
from quorate.clusterapi.types.kubeadm_control_plane import KubeadmControlPlane
from quorate.clusterapi.types.names import ControlPlaneCondition, InitializedReason, LegacyReason
from quorate.core.health import Health
from quorate.core.machines.decide import Decision
from quorate.core.machines.rules.remediate import Verdict, verdicts
from quorate.core.machines.state import ControlPlane

WAITING_FOR_INFRASTRUCTURE = "Waiting for Cluster status.initialization.infrastructureProvisioned to be true"
WAITING_FOR_ENDPOINT = "Waiting for Cluster spec.controlPlaneEndpoint to be set"
WAITING_FOR_INITIALIZATION = "Waiting for the control plane to be initialized"
NEVER_CONNECTED = "No connection to the workload cluster has been made yet"


class Access(Enum):
    """What a report may say of the workload cluster."""

    NOT_INITIALIZED = "there is nothing to ask yet"
    ANSWERING = "it answers: what was seen is told"
    INTERRUPTED = "it does not answer, for no longer than the grace period: what was known last stays"
    LOST = "it has not answered for longer than the grace period: nothing is known"


@dataclass(frozen=True)  # without slots, for the properties that are worked out once
class Facts:
    """One pass over one control plane."""

    observation: Observation
    view: ControlPlane
    cluster: str
    decision: Decision
    error: str  # what went wrong in this pass; empty: nothing
    now: datetime
    grace: timedelta  # for which conditions outlive the connection they were learned through
    refused: bool = False  # the error is the answer of the last look before the step, which forbade it
    creation_failed: LegacyReason | None = None  # the error is of this part of a Machine's creation

    @property
    def kcp(self) -> KubeadmControlPlane:
        """The control plane's object."""
        return self.observation.kcp

    @property
    def etcd_managed(self) -> bool:
        """Whether etcd runs on the control plane's Machines."""
        return self.view.desired.etcd_managed

    @property
    def deleting(self) -> bool:
        """Whether the control plane itself is being deleted."""
        return self.kcp.metadata.deletion_timestamp is not None

    @cached_property
    def remediations(self) -> tuple[Verdict, ...]:
        """The verdict on each replica that failed its health check and is ours to replace; none in a control plane that goes."""
        return () if self.deleting else verdicts(self.view, self.now)

    @cached_property
    def ledger(self) -> Ledger:
        """What stamps the control plane's conditions."""
        existing = by_type(as_dict(condition) for condition in self.kcp.status.conditions)
        return Ledger(existing, self.now, self.kcp.metadata.generation)

    @cached_property
    def access(self) -> Access:
        """What may be said of the workload cluster now."""
        if not self.observation.initialized:
            return Access.NOT_INITIALIZED
        match self.observation.connection.health:
            case Health.GOOD:
                return Access.ANSWERING
            case Health.UNKNOWN:  # the first dial after a start is still to succeed or fail: not a reason to forget
                return Access.INTERRUPTED
        return Access.LOST if self.now >= self.grace_ends else Access.INTERRUPTED

    @property
    def grace_ends(self) -> datetime:
        """When the last known conditions have been kept for long enough: counted from the last answer, or from the initialization if that was later."""
        last = self.observation.connection.last_success
        return (max(last, self._initialized_at) if last else self._initialized_at) + self.grace

    @property
    def wake_at(self) -> datetime | None:
        """When time alone will end the grace period."""
        interrupted = self.access is Access.INTERRUPTED and self.observation.connection.health is Health.BAD
        return self.grace_ends if interrupted else None

    @property
    def waiting_for(self) -> str:
        """What has to happen before there is a workload cluster to ask."""
        if not self.view.infrastructure_ready:
            return WAITING_FOR_INFRASTRUCTURE
        return WAITING_FOR_INITIALIZATION if self.view.endpoint else WAITING_FOR_ENDPOINT

    @property
    def connection_lost(self) -> str:
        """Since when the workload cluster cannot be asked: a fact that does not change while it lasts."""
        last = self.observation.connection.last_success
        return f"The workload cluster answered last at {timestamp(last)}" if last else NEVER_CONNECTED

    @property
    def _initialized_at(self) -> datetime:
        """When the control plane was initialized: in this pass, where its condition does not say so yet."""
        return transition(self.ledger.make(ControlPlaneCondition.INITIALIZED, TRUE, InitializedReason.INITIALIZED))
