"""What is told of one Machine's remediation: the answer in OwnerRemediated, and which remediation was the last.

Whoever finds a Machine unhealthy sets HealthCheckSucceeded and OwnerRemediated to False; what becomes of it is written into the latter, and the latter is
taken away once the Machine is well again. Source: cluster-api, controlplane/kubeadm/reconcilers/kubeadmcontrolplane/remediation.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from quorate.clusterapi.observe.observation import ObservedMachine
from quorate.clusterapi.report.blockers import first_refusal, sentence
from quorate.clusterapi.report.conditions import FALSE, TRUE, Condition, timestamp
from quorate.clusterapi.report.facts import Facts
from quorate.clusterapi.types.names import LegacyReason, MachineCondition, OwnerRemediatedReason, Severity
from quorate.core.machines.state import Remediation
from quorate.core.machines.steps import Remediate

_EARLIEST = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Answer:
    """What OwnerRemediated says, which is False until the Machine is gone or well again; and its twin in v1beta1."""

    reason: OwnerRemediatedReason
    message: str
    legacy_reason: LegacyReason = LegacyReason.WAITING_FOR_REMEDIATION
    severity: Severity = Severity.WARNING


def answer(facts: Facts, observed: ObservedMachine, conditions: Mapping[str, Condition]) -> Answer | None:
    """What to say of a Machine with these conditions; None where nobody asks, or where what was said last stands."""
    if facts.deleting or not is_asked_for(conditions):
        return None
    record = under_way(facts)
    if observed.deleting:
        ours = record is not None and record.replica == observed.name
        return (
            Answer(OwnerRemediatedReason.MACHINE_DELETING, "The Machine is being deleted", LegacyReason.REMEDIATION_IN_PROGRESS)
            if ours
            else None
        )
    step = facts.decision.step
    if facts.error and isinstance(step, Remediate) and step.replica == observed.name:
        if facts.refused:
            return Answer(OwnerRemediatedReason.CANNOT_BE_REMEDIATED, facts.error)
        return Answer(OwnerRemediatedReason.INTERNAL_ERROR, facts.error, LegacyReason.REMEDIATION_FAILED, Severity.ERROR)
    return _refusal(facts, observed.name)


def is_asked_for(conditions: Mapping[str, Condition]) -> bool:
    """Whether a health check failed the Machine and left it to its owner."""
    return _status(conditions, MachineCondition.HEALTH_CHECK_SUCCEEDED) == _status(conditions, MachineCondition.OWNER_REMEDIATED) == FALSE


def withdrawn(observed: ObservedMachine, conditions: Mapping[str, Condition]) -> tuple[str, ...]:
    """The conditions, of one generation, that mean nothing any more: the Machine passes its health check again before anything was done."""
    well = _status(conditions, MachineCondition.HEALTH_CHECK_SUCCEEDED) == TRUE
    asked = _status(conditions, MachineCondition.OWNER_REMEDIATED) == FALSE
    return (str(MachineCondition.OWNER_REMEDIATED),) if well and asked and not observed.deleting else ()


def under_way(facts: Facts) -> Remediation | None:
    """The remediation that is recorded and has no replacement yet: upstream's record, made after the deletion, goes before our own."""
    return facts.view.remediating or facts.view.remediation_intended


def last_remediation(facts: Facts) -> dict[str, Any] | None:
    """The remediation that is recorded as under way, or else the newest of those that the Machines are replacements of, as the status holds it."""
    under_way = facts.view.remediating
    recorded = [under_way] if under_way else [replica.replaces for replica in facts.view.replicas if replica.replaces]
    newest = max(recorded, key=lambda record: (record.at or _EARLIEST, record.replica), default=None)
    if newest is None or newest.at is None:
        return None
    return {"machine": newest.replica, "time": timestamp(newest.at), "retryCount": newest.retries}


def _refusal(facts: Facts, name: str) -> Answer | None:
    """Why the Machine is not replaced now: its own verdict, or else what keeps everything from being done. None where the next step may be just that."""
    verdict = next((verdict for verdict in facts.remediations if verdict.replica == name), None)
    if verdict is not None and verdict.reason is not None and verdict.refusal is not None:
        return Answer(OwnerRemediatedReason(verdict.reason.value), sentence(verdict.refusal))
    reason = first_refusal(facts) if facts.decision.step is None else ""
    return Answer(OwnerRemediatedReason.REMEDIATION_DEFERRED, reason) if reason else None


def _status(conditions: Mapping[str, Condition], type_: MachineCondition) -> str:
    status: str = conditions.get(type_, {}).get("status", "")
    return status
