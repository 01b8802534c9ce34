"""What the Machines say, told once for all of them: MachinesReady, MachinesUpToDate, RollingOut and Remediating.

UpToDate is known of every Machine from its first pass on, so that nothing has to be ignored for its first ten seconds as upstream does.
Source: cluster-api, controlplane/kubeadm/reconcilers/kubeadmcontrolplane/status.go.
"""

from __future__ import annotations

from collections.abc import Sequence

from quorate.clusterapi.report.blockers import blockers
from quorate.clusterapi.report.conditions import FALSE, TRUE, UNKNOWN, Condition, aggregate, machines_named
from quorate.clusterapi.report.facts import Facts
from quorate.clusterapi.report.machines import MachineReport
from quorate.clusterapi.report.remediation import under_way
from quorate.clusterapi.types.names import (
    ControlPlaneCondition,
    MachineCondition,
    MachinesReadyReason,
    MachinesUpToDateReason,
    RemediatingReason,
    RollingOutReason,
)


def machines_ready(facts: Facts, machines: Sequence[MachineReport]) -> Condition:
    """MachinesReady."""
    type_ = ControlPlaneCondition.MACHINES_READY
    if not machines:
        return facts.ledger.make(type_, TRUE, MachinesReadyReason.NO_REPLICAS)
    status, message = _aggregated(machines, MachineCondition.READY)
    reasons = {TRUE: MachinesReadyReason.READY, FALSE: MachinesReadyReason.NOT_READY, UNKNOWN: MachinesReadyReason.READY_UNKNOWN}
    return facts.ledger.make(type_, status, reasons[status], message)


def machines_up_to_date(facts: Facts, machines: Sequence[MachineReport]) -> Condition:
    """MachinesUpToDate; every Machine says of itself whether it is, so that Unknown does not occur."""
    type_ = ControlPlaneCondition.MACHINES_UP_TO_DATE
    if not machines:
        return facts.ledger.make(type_, TRUE, MachinesUpToDateReason.NO_REPLICAS)
    status, message = _aggregated(machines, MachineCondition.UP_TO_DATE)
    reason = MachinesUpToDateReason.UP_TO_DATE if status == TRUE else MachinesUpToDateReason.NOT_UP_TO_DATE
    return facts.ledger.make(type_, status, reason, message)


def rolling_out(facts: Facts, machines: Sequence[MachineReport]) -> Condition:
    """RollingOut: how many Machines are not up to date, and why, versions first.

    What holds up their replacement is told here only as long as there are as many Machines as desired: ScalingUp or ScalingDown tell it otherwise.
    """
    outdated = [
        machine.conditions[MachineCondition.UP_TO_DATE] for machine in machines if machine.status(MachineCondition.UP_TO_DATE) == FALSE
    ]
    if not outdated:
        return facts.ledger.make(ControlPlaneCondition.ROLLING_OUT, FALSE, RollingOutReason.NOT_ROLLING_OUT)
    reasons = {line for condition in outdated for line in condition["message"].split("\n")}
    lines = sorted(reasons, key=lambda line: (not line.startswith("* Version"), line))
    headline = f"Rolling out {len(outdated)} replica{'s' if len(outdated) > 1 else ''} not up to date"
    blocked = blockers(facts) if len(machines) == facts.kcp.spec.replicas else []
    told = "\n".join([headline, *lines, *(["Blocked because:", *blocked] if blocked else [])])
    return facts.ledger.make(ControlPlaneCondition.ROLLING_OUT, TRUE, RollingOutReason.ROLLING_OUT, told)


def remediating(facts: Facts, machines: Sequence[MachineReport]) -> Condition:
    """Remediating: Machines that failed their health check and are this control plane's to replace, until the replacement exists.

    Machines that somebody else is to repair are only named. Upstream takes the condition back as soon as the failed Machine is gone.
    """
    type_ = ControlPlaneCondition.REMEDIATING
    unhealthy = [machine for machine in machines if machine.status(MachineCondition.HEALTH_CHECK_SUCCEEDED) == FALSE]
    to_remediate = [machine for machine in unhealthy if machine.status(MachineCondition.OWNER_REMEDIATED) == FALSE]
    if facts.view.remediation_problem:
        return facts.ledger.make(type_, UNKNOWN, RemediatingReason.INTERNAL_ERROR, facts.view.remediation_problem)
    if to_remediate:
        _, message = _aggregated(to_remediate, MachineCondition.OWNER_REMEDIATED)
        return facts.ledger.make(type_, TRUE, RemediatingReason.REMEDIATING, message)
    record = under_way(facts)
    if record and not facts.deleting:
        return facts.ledger.make(
            type_, TRUE, RemediatingReason.REMEDIATING, f"The replacement of Machine {record.replica} does not exist yet"
        )
    verb = "is" if len(unhealthy) == 1 else "are"
    names = machines_named(machine.name for machine in unhealthy)
    message = f"{names} {verb} not healthy, and not this KubeadmControlPlane's to remediate" if unhealthy else ""
    return facts.ledger.make(type_, FALSE, RemediatingReason.NOT_REMEDIATING, message)


def _aggregated(machines: Sequence[MachineReport], type_: MachineCondition) -> tuple[str, str]:
    missing = {"status": UNKNOWN, "message": f"Condition {type_} not reported yet"}
    return aggregate({machine.name: machine.conditions.get(type_, missing) for machine in machines})
