"""What was found of a control plane, in words: steps, what is waited for, roles, health. Pure; every command says the same thing the same way."""

from __future__ import annotations

from datetime import datetime

from quorate.cli.views import LEAVING, STARTING, Replicas, Standing, coming
from quorate.clusterapi.inspection import Finding
from quorate.clusterapi.observe.observation import Observation, ObservedMachine, is_coming_up
from quorate.clusterapi.report.lifecycle import STALLED, cannot_pass, needing_somebody
from quorate.clusterapi.types.kubeadm_control_plane import KubeadmControlPlane
from quorate.core.health import Absent, Health, Unknown, worst
from quorate.core.machines.rules.placement import choose_victim
from quorate.core.machines.state import ControlPlane, Replica
from quorate.core.ring import Member, Ring
from quorate.kubernetes.objects import Condition


def counts(kcp: KubeadmControlPlane) -> Replicas:
    """The counts of a control plane; what its status does not say yet is 0."""
    status, desired = kcp.status, 1 if kcp.spec.replicas is None else kcp.spec.replicas
    return Replicas(
        desired, status.replicas or 0, status.ready_replicas or 0, status.available_replicas or 0, status.up_to_date_replicas or 0
    )


def standing(finding: Finding) -> Standing:
    """Converged, on the way there, or stalled, by which the manager means what cannot pass by itself or has lasted for minutes."""
    decision, kcp = finding.decision, finding.observation.kcp
    if decision is None or cannot_pass(decision) or (needing_somebody(decision) and _is_called_stalled(kcp)):
        return Standing.STALLED
    return Standing.PROGRESSING if decision.step is not None or next_step(finding) else Standing.CONVERGED


def _is_called_stalled(kcp: KubeadmControlPlane) -> bool:
    return any(condition.type == STALLED and condition.status == "True" for condition in kcp.status.conditions)


def next_step(finding: Finding) -> str:
    """The step that comes next, or what it waits for; empty where nothing is left to do, and every Machine is well."""
    decision, observation = finding.decision, finding.observation
    if decision is None:
        return "waits for a Cluster that owns it"
    if said := coming(decision):
        return said
    for machine in observation.machines:
        if reason := waits_for(observation, machine):
            return f"waits until {machine.name} is {'gone' if machine.deleting else 'well'}: {reason}"
    return "" if counts(observation.kcp).settled else "waits until the Machines are ready and available"


def role(observation: Observation, machine: ObservedMachine) -> str:
    """What the machine's member is in the ring: leader, voter, learner; empty where it has none or nobody could tell."""
    found = member(observation, machine)
    return observation.ring.role(found) if isinstance(found, Member) and isinstance(observation.ring, Ring) else ""


def member(observation: Observation, machine: ObservedMachine) -> Member | Unknown | None:
    """The machine's member of the ring; None: it has none."""
    replica = _replica(observation, machine)
    match observation.ring, replica.member if replica else Absent():
        case _, Absent():
            return None
        case Ring() as ring, int(found):
            return ring.member(found)
        case (Unknown() as unknown, _) | (_, Unknown() as unknown):
            return unknown
    raise AssertionError(f"no such ring: {observation.ring!r}")


def _replica(observation: Observation, machine: ObservedMachine) -> Replica | None:
    replicas = observation.view.replicas if observation.view else ()
    return next((replica for replica in replicas if replica.name == machine.name), None)


def health(machine: ObservedMachine) -> Health:
    """The worst of what was found of the machine's components, member and Node; UNKNOWN where nothing was."""
    return worst([finding.health for finding in machine.findings.values()])


def condition(machine: ObservedMachine, now: datetime) -> str:
    """The machine's health in one word for a person: what has just been made or is being taken away is not ill for that."""
    found, created = health(machine), machine.machine.metadata.creation_timestamp
    if found is Health.GOOD or created is None:
        return found.value
    if machine.deleting:
        return LEAVING
    return STARTING if is_coming_up(created, now) else found.value


def waits_for(observation: Observation, machine: ObservedMachine) -> str:
    """What stands between the machine and being ready, or gone; empty where nothing does."""
    if machine.deleting:
        return _waits_to_go(observation, machine)
    begun = machine.machine.status.initialization
    if not begun.bootstrap_data_secret_created and not machine.machine.spec.bootstrap.data_secret_name:
        return "bootstrap data"
    if not begun.infrastructure_provisioned and machine.node is None:
        return "infrastructure"
    if not machine.had_node:
        return "kubeadm join" if observation.initialized else "kubeadm init"
    if ills := _ills(machine):
        return ills
    return _unready(machine.machine.status.conditions)


def _waits_to_go(observation: Observation, machine: ObservedMachine) -> str:
    replica = _replica(observation, machine)
    if replica is None or not replica.holds_hook:
        return "its infrastructure to go"
    if not replica.waits_at_hook:
        return "drain and volumes"
    return "its etcd member to leave" if isinstance(replica.member, int) else "quorate to let it go"


def fate(observation: Observation, machine: ObservedMachine) -> str:
    """Why the machine goes, is going to, or came in the place of another; empty for one that stays and belongs there."""
    view, replica = observation.view, _replica(observation, machine)
    if view is None or replica is None or view.deletion:
        return ""
    records = [record.replica for record in (view.remediation_intended, view.remediating) if record]
    if replica.name in records:
        return "replaced because it failed its health check"
    if replica.deleting_since:
        return "replaced because it is outdated" if replica.outdated else ""
    if replica.unhealthy:
        return "failed its health check, to be replaced"
    if replica.outdated:
        return "outdated, to be replaced"
    if replica is _surplus(view):
        return "surplus, to be deleted"
    if replica.replaces and waits_for(observation, machine):
        return f"in place of {replica.replaces.replica}, which failed its health check"
    return ""


def _surplus(view: ControlPlane) -> Replica | None:
    """The replica that goes next because there are more than desired."""
    return choose_victim(view) if len(view.staying) > max(view.desired.replicas, 1) else None


def _ills(machine: ObservedMachine) -> str:
    ill = [(name, found) for name, found in sorted(machine.findings.items()) if found.health is not Health.GOOD]
    if not ill:
        return ""
    name, found = ill[0]
    rest = f" and {len(ill) - 1} more" if len(ill) > 1 else ""
    return f"{name}: {found.message or found.reason}{rest}"


def _unready(conditions: list[Condition]) -> str:
    """The first of Ready and Available that does not hold, with the core controller's own words for it."""
    known = {condition.type: condition for condition in conditions}
    for kind in ("Ready", "Available"):
        condition = known.get(kind)
        if condition is None:
            return f"condition {kind}"
        if condition.status != "True":
            return f"{kind}: {_first_item(condition.message) or condition.reason}"
    return ""


def _first_item(message: str) -> str:
    """The first item of a condition's list of them, on one line: `* A: x` or `* A:` with its own first item, and how many more there are."""
    lines = [line for line in message.splitlines() if line.strip()]
    if not lines:
        return ""
    more = sum(line.startswith("* ") for line in lines[1:])
    nested = f" {lines[1].strip().removeprefix('* ')}" if lines[0].endswith(":") and len(lines) > 1 else ""
    return lines[0].removeprefix("* ") + nested + (f" and {more} more" if more else "")
