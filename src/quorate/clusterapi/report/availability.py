"""Available: does the control plane serve, and does etcd keep its quorum?

While it is available, what is partly broken is mentioned only after ten seconds, so that a flake leaves no trace.
Source: cluster-api, controlplane/kubeadm/reconcilers/kubeadmcontrolplane/status.go (setAvailableCondition).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from quorate.clusterapi.report.components import orphan_members
from quorate.clusterapi.report.conditions import FALSE, TRUE, UNKNOWN, Condition, transition
from quorate.clusterapi.report.facts import Facts
from quorate.clusterapi.report.machines import COMPONENTS, ETCD, MachineReport
from quorate.clusterapi.types.names import AvailableReason, ControlPlaneCondition, MachineCondition
from quorate.core.health import Absent, Health
from quorate.core.ring import Ring

FLAKE = timedelta(seconds=10)
"""For how long something must be wrong to be mentioned while the control plane is available."""
SETTLING = timedelta(minutes=2)
"""For how long etcd may take to be readable after initialization, and a new Node to get its member."""


@dataclass(frozen=True, slots=True)
class Tally:
    """How many of a kind work, how many do not, and how many have not been broken for long enough to be mentioned."""

    working: int = 0
    broken: int = 0
    recent: int = 0
    surfaces_at: datetime | None = None  # when the first of the recent ones will be mentioned

    @property
    def apparently_working(self) -> int:
        """Those that work, as far as is told while the control plane is available."""
        return self.working + self.recent


def available(facts: Facts, machines: Sequence[MachineReport], initialized: Condition, certificates: Condition) -> Condition:
    """The condition, from the two others that it depends on."""
    status, reason, message = _judge(facts, machines, initialized, certificates)
    return facts.ledger.make(ControlPlaneCondition.AVAILABLE, status, reason, message)


def wakes(facts: Facts, machines: Sequence[MachineReport], initialized: Condition, condition: Condition) -> list[datetime]:
    """When time alone can change `condition`, which is what `available` made of the same facts."""
    if not facts.observation.initialized:
        return []
    ring = _ring(facts)
    if facts.etcd_managed and ring is None:
        ends = transition(initialized) + SETTLING
        return [ends] if ends > facts.now else []
    tallies = [_components(facts, machines), _members(facts, machines, ring)] if condition["status"] == TRUE else []
    return [tally.surfaces_at for tally in tallies if tally.surfaces_at] + _members_due(facts, machines)


def _judge(
    facts: Facts, machines: Sequence[MachineReport], initialized: Condition, certificates: Condition
) -> tuple[str, AvailableReason, str]:
    if not facts.observation.initialized:
        return FALSE, AvailableReason.NOT_AVAILABLE, "The control plane is not initialized yet"
    ring = _ring(facts)
    if facts.etcd_managed and ring is None:
        if facts.now < transition(initialized) + SETTLING:
            return FALSE, AvailableReason.NOT_AVAILABLE, "Waiting for etcd to list its members"
        return UNKNOWN, AvailableReason.INSPECTION_FAILED, "The etcd members could not be read"
    if facts.etcd_managed and not _members_match(facts, machines):
        return FALSE, AvailableReason.NOT_AVAILABLE, "The etcd members do not match the Machines and their Nodes"
    components, members = _components(facts, machines), _members(facts, machines, ring)
    problems = _problems(facts, components, members, ring, certificates)
    if problems:
        return FALSE, AvailableReason.NOT_AVAILABLE, "\n".join(problems)
    return TRUE, AvailableReason.AVAILABLE, "\n".join(_partial_failures(machines, components, members, ring))


def _problems(facts: Facts, components: Tally, members: Tally, ring: Ring | None, certificates: Condition) -> list[str]:
    """What makes the control plane unavailable."""
    problems = []
    if facts.deleting:
        problems.append("* The control plane is being deleted")
    if certificates["status"] != TRUE:
        problems.append("* The cluster's certificates are not available")
    if ring is not None and members.working < _quorum(ring):
        problems.append(_members_line(ring, members.working))
    if not components.working:
        problems.append("* No Machine has all its control plane components healthy, at least 1 is required")
    return problems


def _partial_failures(machines: Sequence[MachineReport], components: Tally, members: Tally, ring: Ring | None) -> list[str]:
    lines = []
    if ring is not None and members.broken:
        lines.append(_members_line(ring, members.apparently_working))
    if components.broken:
        healthy = components.apparently_working
        verb = "has" if healthy == 1 else "have"
        lines.append(f"* {healthy} of {len(machines)} Machines {verb} healthy control plane components, at least 1 is required")
    return lines


def _members_line(ring: Ring, healthy: int) -> str:
    count, verb = (healthy or "None", "is" if healthy <= 1 else "are")
    beside = f" {len(ring.unsettled)} not voting yet," if ring.unsettled else ""
    return f"* {count} of {len(ring.members)} etcd members {verb} healthy,{beside} at least {_quorum(ring)} are required for quorum"


def _ring(facts: Facts) -> Ring | None:
    """The ring of managed etcd, if it was read: a running etcd always has a member."""
    ring = facts.observation.ring
    return ring if facts.etcd_managed and isinstance(ring, Ring) and ring.members else None


def _quorum(ring: Ring) -> int:
    """A member without a name is about to start: for a moment it is better not counted as a voter that failed."""
    return (len(ring.members) - len(ring.unsettled)) // 2 + 1


def _members_match(facts: Facts, machines: Sequence[MachineReport]) -> bool:
    """A Machine without a member counts once its Node had time to get one; a member without a Machine, when no Machine is on its way."""
    orphan = orphan_members(facts) and not any(machine.provisioning for machine in machines)
    return not (facts.observation.unmatched or orphan)


def _members_due(facts: Facts, machines: Sequence[MachineReport]) -> list[datetime]:
    """When Nodes that have no member yet will have had their time to get one."""
    if not facts.etcd_managed:
        return []
    missing = {replica.name for replica in facts.view.replicas if isinstance(replica.member, Absent)}
    created = [
        machine.observed.node.metadata.creation_timestamp
        for machine in machines
        if machine.name in missing and machine.observed.node and not machine.observed.deleting
    ]
    return [moment + SETTLING for moment in created if moment and moment + SETTLING > facts.now]


def _components(facts: Facts, machines: Sequence[MachineReport]) -> Tally:
    """Control planes that serve. With managed etcd everything on a Machine counts, because its API server talks to its own etcd member alone.

    Machines whose infrastructure is not there yet are left out.
    """
    types = (*COMPONENTS, *(ETCD if facts.etcd_managed else ()))
    return _tally(facts, [(machine, types) for machine in machines if machine.observed.machine.spec.provider_id])


def _members(facts: Facts, machines: Sequence[MachineReport], ring: Ring | None) -> Tally:
    """Members of the ring that work. One of no Machine counts as what it said itself where its Node is there and it is well: a backup of the management
    cluster, or an adoption, knows fewer Machines than run. Any other is that of the only Machine on its way, if there is exactly one, and broken otherwise.
    """
    if ring is None:
        return Tally()
    well = {
        orphan.member.id
        for orphan in facts.view.orphans
        if isinstance(orphan.node, str) and orphan.node and orphan.member.health is Health.GOOD
    }
    owners = {replica.member: replica.name for replica in facts.view.replicas if isinstance(replica.member, int)}
    by_name = {machine.name: machine for machine in machines}
    coming = [machine for machine in machines if machine.provisioning and machine.name not in owners.values()]
    unclaimed = coming if len(coming) == 1 else []
    named = [member for member in ring.members if member.name and member.id not in well]
    matched: list[MachineReport] = []
    for member in named:
        if owner := by_name.get(owners.get(member.id, "")):
            matched.append(owner)
        elif unclaimed:
            matched.append(unclaimed.pop())
    tally = _tally(facts, [(machine, (MachineCondition.ETCD_MEMBER_HEALTHY,)) for machine in matched])
    others = len(ring.members) - len(named)  # that are well, or have yet to start
    return Tally(tally.working + others, tally.broken + len(named) - len(matched), tally.recent, tally.surfaces_at)


def _tally(facts: Facts, asked: Sequence[tuple[MachineReport, Sequence[MachineCondition]]]) -> Tally:
    """What works of the Machines, each asked for some of its conditions."""
    failing = [(machine, types) for machine, types in asked if not all(machine.works(type_) for type_ in types)]
    surfacing = [_surfaces_at(machine, types) for machine, types in failing]
    broken = sum(moment is not None and moment <= facts.now for moment in surfacing)
    ahead = [moment for moment in surfacing if moment is not None and moment > facts.now]
    return Tally(len(asked) - len(failing), broken, len(failing) - broken, min(ahead, default=None))


def _surfaces_at(machine: MachineReport, types: Sequence[MachineCondition]) -> datetime | None:
    """When a failing Machine is worth a mention; never where its conditions are absent, since nobody can tell for how long."""
    bad = [machine.conditions[type_] for type_ in types if machine.status(type_) not in ("", TRUE)]
    return min(transition(condition) for condition in bad) + FLAKE if bad else None
