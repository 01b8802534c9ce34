"""The health of the control plane as a whole: what its Machines tell of their components and etcd members, and what belongs to no Machine.

Source: cluster-api, controlplane/kubeadm/pkg/workload_cluster_conditions.go (aggregateConditionsFromMachinesToKCP and compareMachinesAndMembers).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from quorate.clusterapi.report.blockers import sentence
from quorate.clusterapi.report.conditions import FALSE, TRUE, UNKNOWN, Condition, machines_named
from quorate.clusterapi.report.facts import Access, Facts
from quorate.clusterapi.report.machines import COMPONENTS, MachineReport
from quorate.clusterapi.types.names import ClusterHealthReason, ControlPlaneCondition, MachineCondition
from quorate.core.health import Finding, Health, Unknown
from quorate.core.machines.rules.orphans import HAS_NO_OWNER, IS_OF_NO_NEWCOMER
from quorate.core.ring import Member, Ring

_EXTERNAL = {
    Health.GOOD: (TRUE, ClusterHealthReason.HEALTHY),
    Health.BAD: (FALSE, ClusterHealthReason.NOT_HEALTHY),
    Health.UNKNOWN: (UNKNOWN, ClusterHealthReason.HEALTH_UNKNOWN),
}


def components_healthy(facts: Facts, machines: Sequence[MachineReport]) -> Condition:
    """ControlPlaneComponentsHealthy."""
    types = (*COMPONENTS, *((MachineCondition.ETCD_POD_HEALTHY,) if facts.etcd_managed else ()))
    type_ = ControlPlaneCondition.CONTROL_PLANE_COMPONENTS_HEALTHY
    return _condition(facts, machines, type_, types, orphan_nodes(facts, machines), "control plane components")


def etcd_cluster_healthy(facts: Facts, machines: Sequence[MachineReport]) -> Condition:
    """EtcdClusterHealthy: as the members are or, where etcd is external and the API servers were asked for it, as they find it."""
    type_, external = ControlPlaneCondition.ETCD_CLUSTER_HEALTHY, facts.view.external_etcd
    if external is None:
        return _condition(facts, machines, type_, (MachineCondition.ETCD_MEMBER_HEALTHY,), ring_problems(facts), "etcd members")
    return _unless_told(facts, type_) or facts.ledger.make(type_, *_external_etcd(external))


def ring_problems(facts: Facts) -> list[str]:
    """Sentences about the ring as a whole: members without a Machine and why they may not go yet, alarms that are no member's, and members that disagree."""
    orphans = [f"etcd member {member.label} has no Machine" for member in orphan_members(facts)]
    uncertain = [sentence(check) for check in facts.decision.refusals if check.name in (HAS_NO_OWNER, IS_OF_NO_NEWCOMER)] if orphans else []
    return [*orphans, *uncertain, *facts.observation.alarms, *filter(None, [facts.view.membership_problem])]


def _external_etcd(found: Finding) -> tuple[str, ClusterHealthReason, str]:
    status, reason = _EXTERNAL[found.health]
    return status, reason, "" if found.health is Health.GOOD else found.message or found.reason


def orphan_nodes(facts: Facts, machines: Sequence[MachineReport]) -> list[str]:
    """Sentences about control-plane Nodes without a Machine; none as long as a Machine is waiting for its Node, which might be one of them."""
    if any(machine.provisioning and not machine.observed.deleting for machine in machines):
        return []
    known = {machine.observed.node.metadata.name for machine in machines if machine.observed.node}
    known |= {machine.observed.machine.status.node_ref.name for machine in machines if machine.observed.machine.status.node_ref}
    return [f"Node {name} has no Machine" for name in sorted({node.metadata.name for node in facts.observation.nodes} - known)]


def orphan_members(facts: Facts) -> list[Member]:
    """Members of the ring that are no Machine's, by name. None while a Machine's own member is not known: it could be any of them."""
    ring, replicas = facts.observation.ring, facts.view.replicas
    if not isinstance(ring, Ring) or any(isinstance(replica.member, Unknown) for replica in replicas):
        return []
    matched = {replica.member for replica in replicas}
    return sorted((member for member in ring.members if member.id not in matched), key=lambda member: (member.name, member.id))


def _condition(
    facts: Facts,
    machines: Sequence[MachineReport],
    type_: ControlPlaneCondition,
    types: Sequence[MachineCondition],
    orphans: list[str],
    noun: str,
) -> Condition:
    return _unless_told(facts, type_) or facts.ledger.make(type_, *_aggregated(machines, types, orphans, noun))


def _unless_told(facts: Facts, type_: ControlPlaneCondition) -> Condition | None:
    """The condition where the workload cluster tells nothing now; None where it does."""
    ledger = facts.ledger
    match facts.access:
        case Access.NOT_INITIALIZED:
            return ledger.make(type_, UNKNOWN, ClusterHealthReason.INSPECTION_FAILED, facts.waiting_for)
        case Access.INTERRUPTED if type_ in ledger.existing:
            return ledger.existing[type_]
        case Access.INTERRUPTED | Access.LOST:
            return ledger.make(type_, UNKNOWN, ClusterHealthReason.CONNECTION_DOWN, facts.connection_lost)
    workload = facts.view.workload
    if workload.health is not Health.GOOD:
        return ledger.make(type_, UNKNOWN, ClusterHealthReason.INSPECTION_FAILED, workload.message or workload.reason)
    return None


def _aggregated(
    machines: Sequence[MachineReport], types: Sequence[MachineCondition], orphans: list[str], noun: str
) -> tuple[str, ClusterHealthReason, str]:
    """Status, reason and message. Unknown is no news of a Machine whose infrastructure is not there yet."""
    told = {machine.name: [machine.conditions[type_] for type_ in types if type_ in machine.conditions] for machine in machines}
    waiting = {machine.name for machine in machines if not machine.observed.machine.spec.provider_id}
    issues = {name: [c for c in conditions if _is_issue(c, waiting=name in waiting)] for name, conditions in told.items()}
    statuses = {condition["status"] for conditions in issues.values() for condition in conditions}
    message = "\n".join([*_grouped(told, issues), *(f"* {orphan}" for orphan in orphans)])
    if orphans or FALSE in statuses:
        return FALSE, ClusterHealthReason.NOT_HEALTHY, message
    if UNKNOWN in statuses:
        return UNKNOWN, ClusterHealthReason.HEALTH_UNKNOWN, message
    if any(told.values()):
        return TRUE, ClusterHealthReason.HEALTHY, ""
    return UNKNOWN, ClusterHealthReason.HEALTH_UNKNOWN, f"No Machine tells the status of its {noun} yet"


def _is_issue(condition: Condition, *, waiting: bool) -> bool:
    return condition["status"] == FALSE or (condition["status"] == UNKNOWN and not waiting)


def _grouped(told: Mapping[str, list[Condition]], issues: Mapping[str, list[Condition]]) -> list[str]:
    """One bullet for Machines with the same issues, the most frequent first."""
    groups: dict[str, list[str]] = defaultdict(list)
    for name in sorted(issues):
        if issues[name]:
            groups[_issue_lines(told[name], issues[name])].append(name)
    ordered = sorted(groups.items(), key=lambda group: (-len(group[1]), group[1]))
    return [f"* {machines_named(names)}:\n{lines}" for lines, names in ordered]


def _issue_lines(told: list[Condition], issues: list[Condition]) -> str:
    """The issues of one Machine, in one line where everything about it says the same."""
    if len(told) > 1 and len({condition["message"] for condition in told}) == 1:
        return f"  * Control plane components: {_message(issues[0])}"
    return "\n".join(f"  * {condition['type']}: {_message(condition)}" for condition in issues)


def _message(condition: Condition) -> str:
    return condition["message"] or f"the condition is {condition['status']}"
