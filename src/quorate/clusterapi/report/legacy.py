"""What v1beta1 readers of a control plane still look at: `status.deprecated.v1beta1`, conditions with severities and counters.

Source: cluster-api, controlplane/kubeadm/reconcilers/kubeadmcontrolplane/status.go (updateV1Beta1Status) and util/conditions/deprecated/v1beta1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from quorate.clusterapi.report.components import orphan_nodes, ring_problems
from quorate.clusterapi.report.conditions import (
    FALSE,
    LEGACY_ORDER,
    TRUE,
    UNKNOWN,
    Condition,
    Ledger,
    by_type,
    legacy_as_dict,
    merge_conditions,
)
from quorate.clusterapi.report.facts import Access, Facts
from quorate.clusterapi.report.machines import COMPONENTS, MachineReport
from quorate.clusterapi.types.names import LegacyControlPlaneCondition, LegacyReason, MachineCondition, Severity
from quorate.core.health import Health
from quorate.core.machines.checks import TEMPLATE
from quorate.core.machines.steps import CreateReplica
from quorate.workload.nodes import readiness

SUMMARIZED = (
    LegacyControlPlaneCondition.MACHINES_CREATED,
    LegacyControlPlaneCondition.MACHINES_SPEC_UP_TO_DATE,
    LegacyControlPlaneCondition.RESIZED,
    LegacyControlPlaneCondition.MACHINES_READY,
    LegacyControlPlaneCondition.AVAILABLE,
    LegacyControlPlaneCondition.CERTIFICATES_AVAILABLE,
)
"""Conditions that Ready sums up; of equally bad ones the first speaks."""

_PRECEDENCE: tuple[tuple[str, str], ...] = (
    (FALSE, Severity.ERROR),
    (FALSE, Severity.WARNING),
    (FALSE, Severity.INFO),
    (TRUE, ""),
    (UNKNOWN, ""),
)
"""Worst first. Unknown comes last: in v1beta1 it says less than True."""


def deprecated(facts: Facts, machines: Sequence[MachineReport]) -> dict[str, Any]:
    """`status.deprecated.v1beta1`, whole."""
    existing = [legacy_as_dict(condition) for condition in facts.kcp.status.deprecated.v1beta1.conditions]
    ledger = Ledger(by_type(existing), facts.now)
    parts = (
        _machines_created(facts, ledger),
        _machines_spec_up_to_date(facts, ledger),
        _resized(facts, machines, ledger),
        _machines_ready(machines, ledger),
        _available(facts, ledger),
        _certificates_available(facts, ledger),
        _components_healthy(facts, machines, ledger),
        _etcd_cluster_healthy(facts, machines, ledger),
    )
    merged = by_type([*existing, *(condition for condition in parts if condition)])
    ready = _summary(merged, ledger)
    return {"conditions": merge_conditions(merged.values(), [ready] if ready else [], LEGACY_ORDER), **_counters(facts, machines)}


def _counters(facts: Facts, machines: Sequence[MachineReport]) -> dict[str, int]:
    """How many Machines are up to date, how many of their Nodes are ready, and how many Machines have none that is."""
    nodes = [machine.observed.node for machine in machines if machine.observed.node]
    ready = 0 if facts.deleting else sum(readiness(node) == TRUE for node in nodes)
    updated = sum(not machine.observed.outdated for machine in machines)
    return {"updatedReplicas": updated, "readyReplicas": ready, "unavailableReplicas": len(machines) - ready}


def _available(facts: Facts, ledger: Ledger) -> Condition:
    """A latch: once there was a control plane it is available for ever."""
    type_ = LegacyControlPlaneCondition.AVAILABLE
    if facts.observation.initialized or ledger.existing.get(type_, {}).get("status") == TRUE:
        return ledger.make_legacy(type_, TRUE)
    return ledger.make_legacy(type_, FALSE, LegacyReason.WAITING_FOR_KUBEADM_INIT, Severity.INFO)


def _certificates_available(facts: Facts, ledger: Ledger) -> Condition:
    type_, certificates = LegacyControlPlaneCondition.CERTIFICATES_AVAILABLE, facts.view.certificates
    if certificates.problem:
        return ledger.make_legacy(type_, FALSE, LegacyReason.CERTIFICATES_GENERATION_FAILED, Severity.WARNING, certificates.problem)
    if certificates.missing:
        severity = Severity.ERROR if facts.observation.initialized else Severity.WARNING
        message = f"Missing: {', '.join(sorted(certificates.missing))}"
        return ledger.make_legacy(type_, FALSE, LegacyReason.CERTIFICATES_GENERATION_FAILED, severity, message)
    return ledger.make_legacy(type_, TRUE)


def _machines_spec_up_to_date(facts: Facts, ledger: Ledger) -> Condition | None:
    """False during a rollout, True after one; a control plane that never had one does not carry it."""
    type_ = LegacyControlPlaneCondition.MACHINES_SPEC_UP_TO_DATE
    machines = facts.observation.machines
    outdated = sum(bool(machine.outdated) and not machine.deleting for machine in machines)
    if outdated:
        message = f"Rolling {outdated} replicas with outdated spec ({len(machines) - outdated} replicas up to date)"
        return ledger.make_legacy(type_, FALSE, LegacyReason.ROLLING_UPDATE_IN_PROGRESS, Severity.WARNING, message)
    return ledger.make_legacy(type_, TRUE) if type_ in ledger.existing else None


def _machines_created(facts: Facts, ledger: Ledger) -> Condition | None:
    """False when a Machine could not be made, True once there are enough."""
    type_ = LegacyControlPlaneCondition.MACHINES_CREATED
    if facts.error and isinstance(facts.decision.step, CreateReplica):
        reason = facts.creation_failed or LegacyReason.MACHINE_GENERATION_FAILED
        return ledger.make_legacy(type_, FALSE, reason, Severity.ERROR, facts.error)
    template = next((check for check in facts.decision.refusals if check.name == TEMPLATE), None)
    if template:
        return ledger.make_legacy(type_, FALSE, LegacyReason.INFRASTRUCTURE_TEMPLATE_CLONING_FAILED, Severity.ERROR, template.evidence)
    enough = len(facts.observation.machines) >= (facts.kcp.spec.replicas or 0)
    return ledger.make_legacy(type_, TRUE) if enough and not facts.deleting else None


def _resized(facts: Facts, machines: Sequence[MachineReport], ledger: Ledger) -> Condition | None:
    """False while the number of Machines is not the desired one; True again only when all of them are ready."""
    type_, current, desired = LegacyControlPlaneCondition.RESIZED, len(machines), facts.kcp.spec.replicas or 0
    if facts.deleting:
        workers = facts.view.deletion and facts.view.deletion.workers
        message = "Workers are to be deleted first" if workers else ""
        return ledger.make_legacy(type_, FALSE, LegacyReason.DELETING, Severity.INFO, message)
    if current < desired:
        message = f"Scaling up to {desired} replicas (actual {current})"
        return ledger.make_legacy(type_, FALSE, LegacyReason.SCALING_UP, Severity.WARNING, message)
    if current > desired:
        message = f"Scaling down to {desired} replicas (actual {current})"
        return ledger.make_legacy(type_, FALSE, LegacyReason.SCALING_DOWN, Severity.WARNING, message)
    ready = all(machine.status(MachineCondition.READY) == TRUE for machine in machines)
    return ledger.make_legacy(type_, TRUE) if ready else None


def _machines_ready(machines: Sequence[MachineReport], ledger: Ledger) -> Condition | None:
    """The worst Ready of the Machines; its reason says whose it is."""
    ready = {machine.name: machine.legacy["Ready"] for machine in machines if "Ready" in machine.legacy}
    if not ready:
        return None
    name, worst = min(ready.items(), key=lambda item: (_rank(item[1]), item[0]))
    reason = worst.get("reason", "")
    localized = reason if "@" in reason else f"{reason} @ Machine/{name}"
    return _as_bad_as(worst, LegacyControlPlaneCondition.MACHINES_READY, localized, ledger)


def _summary(conditions: Mapping[str, Condition], ledger: Ledger) -> Condition | None:
    """Ready: as bad as the worst of those it sums up."""
    summarized = [conditions[type_] for type_ in SUMMARIZED if type_ in conditions]
    worst = min(summarized, key=_rank, default=None)
    return _as_bad_as(worst, LegacyControlPlaneCondition.READY, worst.get("reason", ""), ledger) if worst else None


def _as_bad_as(worst: Condition, type_: str, reason: str, ledger: Ledger) -> Condition:
    if worst["status"] == TRUE:
        return ledger.make_legacy(type_, TRUE)
    return ledger.make_legacy(type_, worst["status"], reason, worst.get("severity", ""), worst.get("message", ""))


def _rank(condition: Condition) -> int:
    """How bad it is. Other writers' conditions may be False without a severity: those say as little as Unknown."""
    kind = condition["status"], condition.get("severity", "")
    return _PRECEDENCE.index(kind) if kind in _PRECEDENCE else _PRECEDENCE.index((UNKNOWN, ""))


def _components_healthy(facts: Facts, machines: Sequence[MachineReport], ledger: Ledger) -> Condition | None:
    types = (*COMPONENTS, *((MachineCondition.ETCD_POD_HEALTHY,) if facts.etcd_managed else ()))
    reasons = LegacyReason.CONTROL_PLANE_COMPONENTS_UNHEALTHY, LegacyReason.CONTROL_PLANE_COMPONENTS_UNKNOWN
    if facts.access is not Access.ANSWERING:
        return None
    type_ = LegacyControlPlaneCondition.CONTROL_PLANE_COMPONENTS_HEALTHY
    return _aggregated(type_, machines, types, orphan_nodes(facts, machines), reasons, ledger)


def _etcd_cluster_healthy(facts: Facts, machines: Sequence[MachineReport], ledger: Ledger) -> Condition | None:
    """External etcd is healthy to v1beta1 readers unless its API servers say that it is not: that is what upstream has always told them."""
    type_, external = LegacyControlPlaneCondition.ETCD_CLUSTER_HEALTHY, facts.view.external_etcd
    if not facts.etcd_managed:
        if external is None or external.health is not Health.BAD:
            return ledger.make_legacy(type_, TRUE)
        message = external.message or external.reason
        return ledger.make_legacy(type_, FALSE, LegacyReason.ETCD_CLUSTER_UNHEALTHY, Severity.ERROR, message)
    if facts.access is not Access.ANSWERING:
        return None
    reasons = LegacyReason.ETCD_CLUSTER_UNHEALTHY, LegacyReason.ETCD_CLUSTER_UNKNOWN
    return _aggregated(type_, machines, (MachineCondition.ETCD_MEMBER_HEALTHY,), ring_problems(facts), reasons, ledger)


def _aggregated(
    type_: str,
    machines: Sequence[MachineReport],
    types: Sequence[MachineCondition],
    orphans: list[str],
    reasons: tuple[LegacyReason, LegacyReason],
    ledger: Ledger,
) -> Condition | None:
    """The worst that any Machine says of any of these types; `reasons` for False and for Unknown. None where no Machine says anything."""
    unhealthy, unknown = reasons
    told = {machine.name: [machine.legacy[t] for t in types if t in machine.legacy] for machine in machines}
    ranks = {name: min(map(_rank, conditions)) for name, conditions in told.items() if conditions}
    worst = min(ranks.values(), default=None)
    names = ", ".join(sorted(name for name, rank in ranks.items() if rank == worst))
    if orphans:
        errors = [f"Machines with error conditions: {names}"] if worst == 0 else []
        return ledger.make_legacy(type_, FALSE, unhealthy, Severity.ERROR, "; ".join([*orphans, *errors]))
    if worst is None:
        return None
    status, severity = _PRECEDENCE[worst]
    if status == TRUE:
        return ledger.make_legacy(type_, TRUE)
    reason, said = (unhealthy, f"{severity.lower()} conditions") if status == FALSE else (unknown, "unknown status")
    return ledger.make_legacy(type_, status, reason, severity, f"Machines with {said}: {names}")
