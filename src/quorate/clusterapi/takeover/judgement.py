"""What would become of a control plane under the other provider: what the manager's own decision says of it, beside what its status says is going on. Pure."""

from __future__ import annotations

from datetime import datetime

from quorate.clusterapi.inspection import Finding
from quorate.clusterapi.types.kubeadm_control_plane import KubeadmControlPlane
from quorate.clusterapi.types.names import ControlPlaneCondition
from quorate.core.machines.forecast import forecast
from quorate.core.machines.steps import (
    AbandonCreation,
    AdoptReplicas,
    CreateReplica,
    DeleteAll,
    DeleteReplica,
    ReleaseHook,
    Remediate,
    RemoveMember,
    RemoveOrphan,
    Step,
)
from quorate.core.takeover.state import ControlPlane, Prospect
from quorate.core.text import printable

ON_MACHINES: frozenset[type[Step]] = frozenset(
    {AbandonCreation, AdoptReplicas, CreateReplica, DeleteAll, DeleteReplica, ReleaseHook, Remediate, RemoveMember, RemoveOrphan}
)
"""Steps that make, take or replace a Machine or a member of etcd; no other does anything that its users could notice."""
_MOVING = (
    ControlPlaneCondition.ROLLING_OUT,
    ControlPlaneCondition.REMEDIATING,
    ControlPlaneCondition.SCALING_UP,
    ControlPlaneCondition.SCALING_DOWN,
    ControlPlaneCondition.DELETING,
)


def prospect(finding: Finding, now: datetime) -> ControlPlane:
    """What quorate would do to a control plane that another provider answers for now."""
    metadata = finding.observation.kcp.metadata
    kind, evidence = _prospect(finding, now)
    return ControlPlane(name=f"{metadata.namespace}/{metadata.name}", prospect=kind, evidence=printable(evidence))


def _prospect(finding: Finding, now: datetime) -> tuple[Prospect, str]:
    view, decision = finding.observation.view, finding.decision
    if view is None or decision is None:
        return Prospect.AT_REST, "no Cluster owns it yet"
    if view.paused:
        return Prospect.AT_REST, f"paused by {view.paused}"
    foreseen = forecast(view, now)
    steps = [each.step for each in foreseen.steps if type(each.step) in ON_MACHINES]
    going_on = "; ".join(moving(finding.observation.kcp))
    if steps:
        what = f"quorate would {steps[0]}{f', and {len(steps) - 1} more steps' if len(steps) > 1 else ''}"
        return (Prospect.IN_MOTION, f"{going_on}; {what}") if going_on else (Prospect.OTHERWISE, f"nothing goes on, and {what}")
    if going_on:
        return Prospect.IN_MOTION, going_on
    if foreseen.refusals:
        first = foreseen.refusals[0]
        return Prospect.UNCLEAR, f"{first.name}: {first.evidence}"
    others = "; ".join(dict.fromkeys(str(each.step) for each in foreseen.steps))
    return Prospect.AT_REST, f"nothing to do{f' to its Machines; then: {others}' if others else ''}"


def moving(kcp: KubeadmControlPlane) -> list[str]:
    """What the status says is going on, or that somebody has changed the specification since it was written."""
    found = [
        f"{each.type} ({each.message.splitlines()[0] if each.message else each.reason})"
        for each in kcp.status.conditions
        if each.type in _MOVING and each.status == "True"
    ]
    if (kcp.status.observed_generation or 0) < kcp.metadata.generation:
        found.append(f"generation {kcp.metadata.generation} is not observed yet")
    return found


def unreported(kcp: KubeadmControlPlane, *, reported: bool) -> str:
    """In what the status is not yet what the provider says that answers for it; "" where it is. `reported`: quorate would write what is there."""
    if (kcp.status.observed_generation or 0) < kcp.metadata.generation:
        return f"its generation {kcp.metadata.generation} is not observed"
    return "" if reported or moving(kcp) else "its conditions are not those of the provider that leads now"
