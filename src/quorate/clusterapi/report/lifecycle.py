"""Where the control plane stands in its life: Initialized, CertificatesAvailable, Paused, and Stalled where somebody has to act.

Stalled is not one of Cluster API's conditions but of kstatus (kubernetes-sigs/cli-utils): tools that wait for an object stop waiting when it is True.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from quorate.clusterapi.report.blockers import sentence
from quorate.clusterapi.report.conditions import FALSE, TRUE, UNKNOWN, Condition
from quorate.clusterapi.report.facts import Facts
from quorate.clusterapi.types.names import CertificatesAvailableReason, ControlPlaneCondition, InitializedReason, PausedReason
from quorate.core import quorum
from quorate.core.checks import Check, Outcome
from quorate.core.machines import checks
from quorate.core.machines.decide import Decision
from quorate.core.machines.rules.certificates import KUBECONFIG
from quorate.core.machines.rules.guard import WORKLOAD_ANSWERS
from quorate.core.machines.rules.in_place import NO_UPDATE
from quorate.core.machines.rules.loss import NOBODY_COMING_UP
from quorate.core.machines.rules.maintenance import ADDONS, EXPIRIES, PREPARED
from quorate.core.machines.rules.orphans import AGREEMENT
from quorate.core.machines.rules.remove import ANOTHER_HOLDS_THE_DATA

STALLED = "Stalled"
RECONCILE_ERROR = "ReconcileError"

GRACE_PERIOD = timedelta(minutes=2)
"""For how long what may pass by itself is not called Stalled: an election is over in seconds, the restart of an API server in half a minute."""

_PASSING = frozenset(
    {
        *(quorum.QUORUM_SURVIVES_REMOVAL, quorum.QUORUM_SURVIVES_ADDITION, checks.COMPONENTS_SURVIVE, checks.COMPONENTS_HEALTHY),
        *(AGREEMENT, ANOTHER_HOLDS_THE_DATA, NOBODY_COMING_UP, KUBECONFIG, WORKLOAD_ANSWERS, PREPARED, ADDONS, EXPIRIES),
        *(checks.TEMPLATE, checks.CERTIFICATES, quorum.QUORUM_SURVIVES_RESTART, NO_UPDATE),
    }
)
"""Checks of what members, components, Nodes and API servers answer now, which may be another answer in a moment; and of objects that users apply beside the
control plane: their tools send one document after the other, and give up at the first that has stalled.
"""


def initialized(facts: Facts) -> Condition:
    """Initialized: never taken back, because what was observed includes what the status said already."""
    if facts.observation.initialized:
        return facts.ledger.make(ControlPlaneCondition.INITIALIZED, TRUE, InitializedReason.INITIALIZED)
    return facts.ledger.make(ControlPlaneCondition.INITIALIZED, FALSE, InitializedReason.NOT_INITIALIZED)


def certificates_available(facts: Facts) -> Condition:
    """CertificatesAvailable."""
    type_, certificates = ControlPlaneCondition.CERTIFICATES_AVAILABLE, facts.view.certificates
    if certificates.problem:
        return facts.ledger.make(type_, UNKNOWN, CertificatesAvailableReason.INTERNAL_ERROR, certificates.problem)
    if certificates.missing:
        message = f"Missing: {', '.join(sorted(certificates.missing))}"
        return facts.ledger.make(type_, FALSE, CertificatesAvailableReason.NOT_AVAILABLE, message)
    return facts.ledger.make(type_, TRUE, CertificatesAvailableReason.AVAILABLE)


def paused(facts: Facts) -> Condition:
    """Paused, and by what."""
    if facts.view.paused:
        return facts.ledger.make(ControlPlaneCondition.PAUSED, TRUE, PausedReason.PAUSED, f"Paused by {facts.view.paused}")
    return facts.ledger.make(ControlPlaneCondition.PAUSED, FALSE, PausedReason.NOT_PAUSED)


def stalled(facts: Facts) -> Condition | None:
    """Stalled, while nothing can happen until somebody acts; otherwise there is no such condition.

    False while what is wrong may pass by itself, as an election does, and True once it has lasted for minutes; its last transition tells since when.
    """
    needing = needing_somebody(facts.decision)
    lines = [*([facts.error] if facts.error else []), *(sentence(check) for check in needing)]
    if not lines:
        return None
    reason = RECONCILE_ERROR if facts.error else _camel_case(needing[0].name)
    lasting = cannot_pass(facts.decision) or _has_lasted(facts)
    return facts.ledger.make(STALLED, TRUE if lasting else FALSE, reason, "\n".join(dict.fromkeys(lines)))


def stalls_at(stalled: Condition | None) -> datetime | None:
    """When time alone will make Stalled True."""
    return _since(stalled) + GRACE_PERIOD if stalled and stalled["status"] == FALSE else None


def _has_lasted(facts: Facts) -> bool:
    before = facts.ledger.existing.get(STALLED)
    return before is not None and (before["status"] == TRUE or facts.now >= _since(before) + GRACE_PERIOD)


def _since(condition: Condition) -> datetime:
    return datetime.fromisoformat(condition["lastTransitionTime"])


def _may_pass(check: Check) -> bool:
    return check.outcome is Outcome.UNKNOWN or check.name in _PASSING


def needing_somebody(decision: Decision) -> list[Check]:
    """Refusals that nothing here changes. Maintenance that failed is among them: it is tried again, but what is wrong lies in the workload cluster."""
    if decision.step is not None:
        return []
    return [check for check in decision.refusals if check.remedy or check.name in (PREPARED, ADDONS, EXPIRIES)]


def cannot_pass(decision: Decision) -> bool:
    """Whether somebody is needed whatever time brings."""
    return any(not _may_pass(check) for check in needing_somebody(decision))


def _camel_case(name: str) -> str:
    """`the topology's version has arrived` as a reason: TheTopologysVersionHasArrived."""
    return "".join(word[0].upper() + word[1:] for word in re.findall(r"[A-Za-z0-9]+", name.replace("'", "")))
