"""The events of one pass: what failed, and what holds a change up. Who sends them counts repeats instead of sending them again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import assert_never

from quorate.clusterapi.observe.observation import is_coming_up
from quorate.clusterapi.observe.orphans import consents, members_of_machines
from quorate.clusterapi.report.facts import Facts
from quorate.clusterapi.types.names import EventReason
from quorate.core.machines.checks import COMPONENTS_HEALTHY, MEMBERS_HEALTHY
from quorate.core.machines.rules.orphans import CONSENT
from quorate.core.machines.steps import (
    AbandonCreation,
    AddFinalizer,
    AdoptReplicas,
    AskExtension,
    CreateReplica,
    DeleteAll,
    DeleteReplica,
    EnsureCertificates,
    ForgetRemediation,
    MoveCoreDNS,
    PrepareWorkload,
    RecordExpiries,
    RecordRemediation,
    ReleaseHook,
    Remediate,
    RemoveFinalizer,
    RemoveMember,
    RemoveOrphan,
    Step,
    UpdateAddons,
    UpdateInPlace,
    WriteKubeconfig,
)

WARNING = "Warning"

FAILED_REMEDIATION = "FailedRemediation"
FAILED_IN_PLACE_UPDATE = "FailedInPlaceUpdate"
FAILED_MEMBER_REMOVAL = "FailedMemberRemoval"
FAILED_WORKLOAD_UPDATE = "FailedWorkloadUpdate"
UNKNOWN_FIELDS = "UnknownFields"
CONSENT_TAKEN_BACK = "ConsentTakenBack"
"""Reasons of our own, where upstream has none and writes to its log."""


@dataclass(frozen=True, slots=True)
class EventToSend:
    """An event about the control plane: `type` is Normal or Warning."""

    type: str
    reason: str
    message: str


def events(facts: Facts) -> tuple[EventToSend, ...]:
    """The step that failed, if one did; what holds up a change; what of the workload cluster cannot be kept up to date."""
    return tuple(EventToSend(WARNING, str(reason), message) for reason, message in _found(facts))


def _found(facts: Facts) -> Iterator[tuple[str, str]]:
    if facts.error and (reason := _failed(facts.decision.step)):
        yield reason, facts.error
    ills = [check.evidence for check in facts.decision.refusals if check.name in (COMPONENTS_HEALTHY, MEMBERS_HEALTHY)]
    if ills and facts.decision.step is None and not _somebody_comes_up(facts):
        yield EventReason.CONTROL_PLANE_UNHEALTHY, "; ".join(dict.fromkeys(ills))
    view = facts.view
    if view.deletion is None:
        for machine in view.adoptable:
            if machine.problem:
                yield EventReason.ADOPTION_FAILED, f"Machine {machine.name} cannot be adopted: {machine.problem}"
        for maintenance in (view.preparation, view.addons, view.expiries):
            if maintenance.problem:
                yield FAILED_WORKLOAD_UPDATE, maintenance.problem
        yield from _unknown_fields(facts)
        yield from _consents(facts)


def _unknown_fields(facts: Facts) -> Iterator[tuple[str, str]]:
    """Fields that differ and replace nothing. The message does not change while Machines come and go, so that repeats are counted."""
    fields = sorted({path for machine in facts.observation.machines for path in machine.unknown_fields})
    if fields:
        differ = f"KubeadmConfigs differ in {', '.join(fields)}, which quorate or the installed bootstrap provider does not know"
        yield UNKNOWN_FIELDS, f"{differ}: no Machine is replaced for that. Bring both to releases that know the same fields"


def _consents(facts: Facts) -> Iterator[tuple[str, str]]:
    """Members that a Machine has, which the annotation names: it is for those that belong to none."""
    machines = members_of_machines(facts.view)
    for member in sorted(consents(facts.observation.kcp) & machines.keys()):
        has = f"{CONSENT} names etcd member {member:x}, which belongs to Machine {machines[member]}"
        yield CONSENT_TAKEN_BACK, f"{has}: quorate removes it from the annotation. Delete the Machine if the member is to leave"


def _somebody_comes_up(facts: Facts) -> bool:
    """Whether a Machine is young enough for its components to be expected soon: that is progress, not an ill control plane."""
    return any(is_coming_up(replica.created, facts.now) for replica in facts.view.staying)


def _failed(step: Step | None) -> str | None:
    """The reason of the event for a step that failed; None: there is none."""
    match step:
        case CreateReplica(initialize=initialize):
            return EventReason.FAILED_INITIALIZATION if initialize else EventReason.FAILED_SCALE_UP
        case DeleteReplica():
            return EventReason.FAILED_SCALE_DOWN
        case Remediate():
            return FAILED_REMEDIATION
        case UpdateInPlace():
            return FAILED_IN_PLACE_UPDATE
        case RemoveOrphan():
            return FAILED_MEMBER_REMOVAL
        case AdoptReplicas():
            return EventReason.ADOPTION_FAILED
        case DeleteAll():
            return EventReason.FAILED_DELETE
        case RemoveMember() | ReleaseHook() | AbandonCreation() | EnsureCertificates() | WriteKubeconfig() | None:
            return None  # the conditions tell
        case PrepareWorkload() | UpdateAddons() | RecordExpiries() | MoveCoreDNS() | AskExtension():
            return None  # what the workload cluster, or the extension, answers is kept, and not raised
        case AddFinalizer() | RemoveFinalizer() | RecordRemediation() | ForgetRemediation():
            return None  # one write, which is repeated
    assert_never(step)
