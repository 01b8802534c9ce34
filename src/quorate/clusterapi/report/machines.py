"""The conditions that a control-plane provider writes on its Machines: up to date or not, each component's health, and the v1beta1 twins.

Source: cluster-api, controlplane/kubeadm/reconcilers/kubeadmcontrolplane (reconcileControlPlaneAndMachinesConditions) for when what is known is kept,
controlplane/kubeadm/pkg/workload_cluster_conditions.go for reasons. What is absent during an outage is filled in for each Machine by itself, not only when
the control plane lacks the condition too, so that a Machine made meanwhile is not left without.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from quorate.clusterapi.observe.observation import ObservedMachine
from quorate.clusterapi.observe.updates import update_of
from quorate.clusterapi.report import remediation
from quorate.clusterapi.report.conditions import (
    FALSE,
    LEGACY_ORDER,
    TRUE,
    UNKNOWN,
    Condition,
    Ledger,
    as_dict,
    by_type,
    legacy_as_dict,
    merge_conditions,
    merged_by_type,
)
from quorate.clusterapi.report.facts import Access, Facts
from quorate.clusterapi.types.names import (
    EtcdMemberReason,
    LegacyReason,
    MachineCondition,
    PodHealthReason,
    Severity,
    UpdatableInPlaceReason,
    UpToDateReason,
)
from quorate.core.health import Finding, Health, Unknown
from quorate.core.machines.state import Answer
from quorate.core.text import printable

COMPONENTS = (
    MachineCondition.API_SERVER_POD_HEALTHY,
    MachineCondition.CONTROLLER_MANAGER_POD_HEALTHY,
    MachineCondition.SCHEDULER_POD_HEALTHY,
)
"""Conditions of the components that every control-plane Machine runs."""

ETCD = (MachineCondition.ETCD_POD_HEALTHY, MachineCondition.ETCD_MEMBER_HEALTHY)
"""Conditions of the Machines where etcd runs on them."""

_STATUS = {Health.GOOD: TRUE, Health.BAD: FALSE, Health.UNKNOWN: UNKNOWN}

_LEGACY_POD: Mapping[str, tuple[str, str, str]] = {
    PodHealthReason.RUNNING: (TRUE, "", ""),
    PodHealthReason.PROVISIONING: (FALSE, LegacyReason.POD_PROVISIONING, Severity.INFO),
    PodHealthReason.DOES_NOT_EXIST: (FALSE, LegacyReason.POD_MISSING, Severity.ERROR),
    PodHealthReason.FAILED: (FALSE, LegacyReason.POD_FAILED, Severity.ERROR),
    PodHealthReason.INSPECTION_FAILED: (UNKNOWN, LegacyReason.POD_INSPECTION_FAILED, ""),
    PodHealthReason.DELETING: (FALSE, LegacyReason.DELETING, Severity.INFO),
}
_LEGACY_MEMBER: Mapping[str, tuple[str, str, str]] = {
    EtcdMemberReason.HEALTHY: (TRUE, "", ""),
    EtcdMemberReason.NOT_HEALTHY: (FALSE, LegacyReason.ETCD_MEMBER_UNHEALTHY, Severity.ERROR),
    EtcdMemberReason.INSPECTION_FAILED: (UNKNOWN, LegacyReason.MEMBER_INSPECTION_FAILED, ""),
    EtcdMemberReason.DELETING: (FALSE, LegacyReason.DELETING, Severity.INFO),
}
_LEGACY_TWINS: Mapping[str, Mapping[str, tuple[str, str, str]]] = {
    **dict.fromkeys((*COMPONENTS, MachineCondition.ETCD_POD_HEALTHY), _LEGACY_POD),
    MachineCondition.ETCD_MEMBER_HEALTHY: _LEGACY_MEMBER,
}
"""By type and reason: status, reason and severity in v1beta1."""


@dataclass(frozen=True, slots=True)
class MachineConditions:
    """What is written on one Machine: the conditions that are ours, in both generations, and the types that are taken away. Everybody else's stay."""

    uid: str  # of the Machine that it was made for: another may have its name by now
    conditions: tuple[Condition, ...]
    legacy: tuple[Condition, ...]
    withdrawn: tuple[str, ...] = ()
    legacy_withdrawn: tuple[str, ...] = ()

    def over(self, existing: Iterable[Condition]) -> list[Condition]:
        """The conditions to write on a Machine that has these."""
        return merge_conditions(existing, self.conditions, without=self.withdrawn)

    def legacy_over(self, existing: Iterable[Condition]) -> list[Condition]:
        """The v1beta1 conditions to write on a Machine that has these."""
        return merge_conditions(existing, self.legacy, LEGACY_ORDER, without=self.legacy_withdrawn)


@dataclass(frozen=True, slots=True)
class MachineReport:
    """One Machine with all its conditions, ours as they are now to be."""

    observed: ObservedMachine
    conditions: Mapping[str, Condition]
    legacy: Mapping[str, Condition]
    ours: MachineConditions

    @property
    def name(self) -> str:
        """The Machine's name."""
        return self.observed.name

    @property
    def provisioning(self) -> bool:
        """Whether it has no Node yet, nor ever had one."""
        return not self.observed.had_node

    def status(self, type_: str) -> str:
        """The status of its condition of this type; empty where it has none."""
        status: str = self.conditions.get(type_, {}).get("status", "")
        return status

    def works(self, type_: str) -> bool:
        """Whether that part of it is well: by its condition or, because that says Deleting from the first moment, by what is seen while it still serves."""
        finding = self.observed.findings.get(type_)
        seen = self.observed.deleting and finding is not None and finding.health is Health.GOOD
        return seen or self.status(type_) == TRUE


def machine_types(*, etcd_managed: bool) -> tuple[MachineCondition, ...]:
    """The types that tell of a Machine's Node, Pods and etcd member."""
    return (MachineCondition.NODE_KUBEADM_LABELS_AND_TAINTS_SET, *COMPONENTS, *(ETCD if etcd_managed else ()))


def report_machine(facts: Facts, observed: ObservedMachine) -> MachineReport:
    """The Machine's conditions after this pass."""
    machine = observed.machine
    existing = [as_dict(condition) for condition in machine.status.conditions]
    existing_legacy = [legacy_as_dict(condition) for condition in machine.status.deprecated.v1beta1.conditions]
    ledger = Ledger(by_type(existing), facts.now, machine.metadata.generation)
    legacy_ledger = Ledger(by_type(existing_legacy), facts.now)
    types = machine_types(etcd_managed=facts.etcd_managed)
    ours = [up_to_date(observed, ledger), *(_condition(facts, observed, ledger, type_) for type_ in types)]
    legacy = _legacy(facts, observed, ours, legacy_ledger)
    ours += updatable_in_place(facts, observed, ledger)
    if said := remediation.answer(facts, observed, ledger.existing):
        type_ = MachineCondition.OWNER_REMEDIATED
        ours.append(ledger.make(type_, FALSE, said.reason, said.message))
        legacy.append(legacy_ledger.make_legacy(type_, FALSE, said.legacy_reason, said.severity, said.message))
    written = MachineConditions(
        uid=machine.metadata.uid,
        conditions=tuple(merge_conditions((), ours)),
        legacy=tuple(merge_conditions((), legacy, LEGACY_ORDER)),
        withdrawn=(*remediation.withdrawn(observed, ledger.existing), *_no_longer_asked(ours, ledger)),
        legacy_withdrawn=remediation.withdrawn(observed, legacy_ledger.existing),
    )
    return MachineReport(
        observed,
        merged_by_type(existing, ours, without=written.withdrawn),
        merged_by_type(existing_legacy, legacy, without=written.legacy_withdrawn),
        written,
    )


def up_to_date(observed: ObservedMachine, ledger: Ledger) -> Condition:
    """Whether the Machine is as the control plane wants it, and has become so: a Machine updated in place is not before its kubelet says so."""
    type_, machine = MachineCondition.UP_TO_DATE, observed.machine
    if observed.outdated:
        lines = "\n".join(f"* {way.message}" for way in observed.outdated)
        return ledger.make(type_, FALSE, UpToDateReason.NOT_UP_TO_DATE, lines)
    if update_of(machine):
        updating = ledger.existing.get(MachineCondition.UPDATING, {})
        told = updating.get("message") if updating.get("status") == TRUE else ""
        return ledger.make(type_, FALSE, UpToDateReason.UPDATING, f"* {told or 'The Machine is being updated in place'}")
    kubelet = machine.status.node_info.kubelet_version if machine.status.node_info else ""
    if kubelet and kubelet != machine.spec.version:
        return ledger.make(
            type_, FALSE, UpToDateReason.UPDATING, printable(f"* The kubelet runs {kubelet}, {machine.spec.version} required")
        )
    return ledger.make(type_, TRUE, UpToDateReason.UP_TO_DATE)


_IN_PLACE = {
    Answer.YES: (TRUE, UpdatableInPlaceReason.UPDATABLE),
    Answer.NO: (FALSE, UpdatableInPlaceReason.NOT_UPDATABLE),
    Answer.UNKNOWN: (UNKNOWN, UpdatableInPlaceReason.NOT_ANSWERED),
}


def updatable_in_place(facts: Facts, observed: ObservedMachine, ledger: Ledger) -> list[Condition]:
    """Of a Machine that is to be updated: what an extension says of that, as `extension: reason`. There is no such condition where none was asked."""
    view = next((replica for replica in facts.view.replicas if replica.name == observed.name), None)
    in_place = view.in_place if view else None
    if in_place is None or in_place.answer is Answer.UNASKED:
        return []
    status, reason = _IN_PLACE[in_place.answer]
    message = ": ".join(filter(None, [in_place.extension, in_place.reason or "can update all of it"]))
    return [ledger.make(MachineCondition.UPDATABLE_IN_PLACE, status, reason, message)]


def _no_longer_asked(ours: list[Condition], ledger: Ledger) -> tuple[str, ...]:
    """UpdatableInPlace, where it is there and nothing is to be said of it any more."""
    type_ = MachineCondition.UPDATABLE_IN_PLACE
    return (type_,) if type_ in ledger.existing and all(each["type"] != type_ for each in ours) else ()


def _condition(facts: Facts, observed: ObservedMachine, ledger: Ledger, type_: MachineCondition) -> Condition:
    match facts.access:
        case Access.NOT_INITIALIZED:
            return ledger.make(type_, UNKNOWN, PodHealthReason.INSPECTION_FAILED, facts.waiting_for)
        case Access.INTERRUPTED if type_ in ledger.existing:
            return ledger.existing[type_]
        case Access.INTERRUPTED | Access.LOST:
            return ledger.make(type_, UNKNOWN, PodHealthReason.CONNECTION_DOWN, facts.connection_lost)
    finding = _finding(facts, observed, type_)
    return ledger.make(type_, _STATUS[finding.health], finding.reason, finding.message)


def _finding(facts: Facts, observed: ObservedMachine, type_: MachineCondition) -> Finding:
    """What is told of one part of a Machine. Of one that is being deleted only the Node counts, for as long as there is one."""
    about_node = type_ is MachineCondition.NODE_KUBEADM_LABELS_AND_TAINTS_SET
    if observed.deleting and not (about_node and observed.node):
        return Finding(Health.BAD, PodHealthReason.DELETING, "The Machine is being deleted")
    return observed.findings.get(type_) or Finding(Health.UNKNOWN, PodHealthReason.INSPECTION_FAILED, _why_not_inspected(facts, type_))


def _why_not_inspected(facts: Facts, type_: MachineCondition) -> str:
    ring, workload = facts.observation.ring, facts.view.workload
    if type_ is MachineCondition.ETCD_MEMBER_HEALTHY and isinstance(ring, Unknown):
        return f"The etcd members could not be read: {ring.reason}"
    if workload.health is not Health.GOOD:
        return f"The workload cluster could not be inspected: {workload.message or workload.reason}"
    return "Not inspected yet"


def _legacy(facts: Facts, observed: ObservedMachine, ours: list[Condition], ledger: Ledger) -> list[Condition]:
    """The v1beta1 twins. Without a connection they stay as they were, and before there is a Node they say nothing, as upstream has it."""
    if facts.access is not Access.ANSWERING or not (observed.had_node or observed.deleting):
        return []
    return [twin for condition in ours if (twin := _legacy_twin(condition, ledger))]


def _legacy_twin(condition: Condition, ledger: Ledger) -> Condition | None:
    """The condition in v1beta1; None where that has no such type or reason."""
    twins = _LEGACY_TWINS.get(condition["type"], {})
    if condition["reason"] not in twins:
        return None
    status, reason, severity = twins[condition["reason"]]
    return ledger.make_legacy(condition["type"], status, reason, severity, "" if status == TRUE else condition["message"])
