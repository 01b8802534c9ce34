"""Growing, shrinking and going: ScalingUp, ScalingDown and Deleting, with what holds them up.

What blocks comes from the decision's own refusals, so that the condition names exactly what the next step waits for.
Source: cluster-api, controlplane/kubeadm/reconcilers/kubeadmcontrolplane/status.go for types, reasons and the fifteen minutes.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from quorate.clusterapi.observe.observation import ObservedMachine
from quorate.clusterapi.report.blockers import because, blockers
from quorate.clusterapi.report.conditions import FALSE, TRUE, UNKNOWN, Condition, listed, machines_named
from quorate.clusterapi.report.facts import Facts
from quorate.clusterapi.types.names import (
    ControlPlaneCondition,
    DeletingReason,
    MachineCondition,
    MachineDeletingReason,
    ScalingDownReason,
    ScalingUpReason,
)
from quorate.core.machines import checks
from quorate.core.machines.rules.delete import MACHINES_STAY

STALE_DELETION = timedelta(minutes=15)
"""How long a Machine's deletion may take before it is mentioned."""
STALE_DRAIN = timedelta(minutes=5)
"""How long its drain may take before the likely causes are."""
SHOWN_WORKERS = 5

_DRAIN_CAUSES = {
    "cannot evict pod as it would violate the pod's disruption budget.": "PodDisruptionBudgets",
    "deletionTimestamp set, but still not removed from the Node": "Pods not terminating",
    "failed to evict Pod": "Pod eviction errors",
    "waiting for completion": "Pods not completed yet",
}
"""What the Machine controller's Deleting condition says while it drains, and what that hints at."""


def scaling_up(facts: Facts) -> Condition:
    """ScalingUp: there are fewer Machines than desired. One being deleted still counts; what holds up its replacement is told all the same."""
    type_, make = ControlPlaneCondition.SCALING_UP, facts.ledger.make
    if facts.kcp.spec.replicas is None:
        return make(type_, UNKNOWN, ScalingUpReason.WAITING_FOR_REPLICAS_SET, "Waiting for spec.replicas to be set")
    current, desired = _counts(facts)
    template = [f"* {_template(facts)} does not exist"] if facts.observation.template_missing else []
    lines = blockers(facts, not_counting={checks.TEMPLATE} if template else ()) + template
    if current < desired:
        return make(type_, TRUE, ScalingUpReason.SCALING_UP, because(f"Scaling up from {current} to {desired} replicas", lines))
    if len(facts.view.staying) < desired and lines:
        return make(type_, FALSE, ScalingUpReason.NOT_SCALING_UP, because("Replacing Machines that are being deleted", lines))
    message = because("Scaling up", template, would="would be") if template else ""
    return make(type_, FALSE, ScalingUpReason.NOT_SCALING_UP, message)


def scaling_down(facts: Facts) -> Condition:
    """ScalingDown: there are more Machines than desired, of which none is while the control plane is being deleted."""
    type_, make = ControlPlaneCondition.SCALING_DOWN, facts.ledger.make
    if facts.kcp.spec.replicas is None:
        return make(type_, UNKNOWN, ScalingDownReason.WAITING_FOR_REPLICAS_SET, "Waiting for spec.replicas to be set")
    current, desired = _counts(facts)
    if current <= desired:
        return make(type_, FALSE, ScalingDownReason.NOT_SCALING_DOWN)
    stale = stale_deletions(facts.observation.machines, facts.now)
    certificates = (
        () if facts.view.outdated else (checks.CERTIFICATES,)
    )  # whoever goes is replaced in a rollout, and only then do they matter
    lines = blockers(facts, not_counting=certificates) + ([f"* {stale}"] if stale else [])
    return make(type_, TRUE, ScalingDownReason.SCALING_DOWN, because(f"Scaling down from {current} to {desired} replicas", lines))


def deleting(facts: Facts) -> Condition:
    """Deleting: how far taking the control plane down has come."""
    type_, make = ControlPlaneCondition.DELETING, facts.ledger.make
    if not facts.deleting:
        return make(type_, FALSE, DeletingReason.NOT_DELETING)
    if facts.error:
        return make(type_, TRUE, DeletingReason.INTERNAL_ERROR, facts.error)
    deletion = facts.view.deletion
    if deletion and deletion.keeps_machines:
        return make(type_, TRUE, DeletingReason.WAITING_FOR_MACHINE_DELETION, f"Waiting: {MACHINES_STAY}")
    if deletion and (workers := deletion.workers):
        return make(type_, TRUE, DeletingReason.WAITING_FOR_WORKERS_DELETION, f"Still there: {listed(workers, SHOWN_WORKERS)}")
    if machines := facts.observation.machines:
        stale = stale_deletions(machines, facts.now)
        message = f"{len(machines)} Machine{'s' if len(machines) > 1 else ''} being deleted" + (f"\n* {stale}" if stale else "")
        return make(type_, TRUE, DeletingReason.WAITING_FOR_MACHINE_DELETION, message)
    return make(type_, TRUE, DeletingReason.DELETION_COMPLETED)


def stale_deletions(machines: Sequence[ObservedMachine], now: datetime) -> str:
    """A sentence about the Machines that have been in deletion for too long, with the likely causes; empty where there is none."""
    stale = [machine for machine in machines if _is_stale(machine, now)]
    if not stale:
        return ""
    causes = [
        cause for hint, cause in _DRAIN_CAUSES.items() if any(hint in _drain_message(machine, now) for machine in stale)
    ]  # in the order of the table
    verb = "is" if len(stale) == 1 else "are"
    because = f", probably because of {', '.join(causes)}" if causes else ""
    return f"{machines_named(machine.name for machine in stale)} {verb} in deletion for more than 15m{because}"


def wakes(facts: Facts) -> list[datetime]:
    """When deletions become stale that are told of: while the control plane shrinks or goes."""
    current, desired = _counts(facts)
    if current <= desired:
        return []
    moments = [moment for machine in facts.observation.machines for moment in _stale_at(machine)]
    return [moment for moment in moments if moment > facts.now]


def _counts(facts: Facts) -> tuple[int, int]:
    """How many Machines there are, and how many are to be."""
    return len(facts.observation.machines), 0 if facts.deleting else facts.kcp.spec.replicas or 0


def _template(facts: Facts) -> str:
    reference = facts.kcp.spec.machine_template.spec.infrastructure_ref
    return f"{reference.kind} {reference.name}"


def _is_stale(machine: ObservedMachine, now: datetime) -> bool:
    since = machine.machine.metadata.deletion_timestamp
    return since is not None and since + STALE_DELETION <= now


def _drain_message(machine: ObservedMachine, now: datetime) -> str:
    """What the Machine's own Deleting condition says, once the drain has taken long enough to ask why."""
    started = _drain_started(machine)
    if started is None or started + STALE_DRAIN > now:
        return ""
    conditions = machine.machine.status.conditions
    return next((condition.message for condition in conditions if condition.type == MachineCondition.DELETING), "")


def _drain_started(machine: ObservedMachine) -> datetime | None:
    """When the drain began that the Machine waits for now."""
    deletion = machine.machine.status.deletion
    draining = any(
        condition.type == MachineCondition.DELETING and condition.status == TRUE and condition.reason == MachineDeletingReason.DRAINING_NODE
        for condition in machine.machine.status.conditions
    )
    return deletion.node_drain_start_time if deletion and draining else None


def _stale_at(machine: ObservedMachine) -> list[datetime]:
    since, drained_from = machine.machine.metadata.deletion_timestamp, _drain_started(machine)
    return [moment + delay for moment, delay in ((since, STALE_DELETION), (drained_from, STALE_DRAIN)) if moment]
