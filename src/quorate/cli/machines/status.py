"""What is said of a control plane of Machines. Pure."""

from __future__ import annotations

from datetime import datetime

from quorate.cli import describe, views
from quorate.clusterapi.inspection import Finding
from quorate.clusterapi.observe.observation import Observation, ObservedMachine
from quorate.core.checks import failed
from quorate.core.health import Health, Unknown
from quorate.core.machines.checks import ways_to_nodes
from quorate.core.machines.forecast import Forecast, forecast
from quorate.core.machines.state import Answer
from quorate.core.machines.steps import involved
from quorate.core.text import printable, together
from quorate.kubernetes.objects import Node

_STATES = {"good": "well", "bad": "ill"}


def status_of(finding: Finding, now: datetime, foreseen: Forecast | None = None) -> views.Status:
    """What is said of one look, and of the plan for it."""
    observation, kcp = finding.observation, finding.observation.kcp
    if foreseen is None and observation.view is not None:
        foreseen = forecast(observation.view, now)
    steps = views.steps(foreseen.steps, involved) if foreseen else ()
    decision = views.decision(finding.decision) if finding.decision else _no_cluster(kcp.metadata.name)
    refusals = finding.decision.refusals if finding.decision else decision.checks
    return views.Status(
        mode=views.Mode.MACHINES,
        namespace=kcp.metadata.namespace,
        name=kcp.metadata.name,
        cluster=observation.cluster.metadata.name if observation.cluster else "",
        version=printable(kcp.spec.version),
        running=printable(kcp.status.versions[0].version) if kcp.status.versions else "",
        standing=describe.standing(finding),
        replicas=describe.counts(kcp),
        api=observation.connection.message,
        locked_by="",
        etcd=etcd_of(observation),
        next=describe.next_step(finding),
        decision=decision,
        in_the_way=refusals,
        machines=tuple(_machine(observation, machine, now, steps) for machine in observation.machines),
        lost_nodes=observation.lost_nodes,
        differs=(),
        lasting=(),
    )


def etcd_of(observation: Observation) -> views.Etcd:
    """The ring as it is shown."""
    return views.etcd(observation.ring, observation.orphans, observation.alarms)


def _no_cluster(name: str) -> views.Decision:
    remedy = f"Create a Cluster whose spec.controlPlaneRef names {name}; Cluster API's core controller then makes it the owner."
    check = failed("a Cluster owns the control plane", "no owner reference names a Cluster that exists", remedy)
    return views.Decision("wait for a Cluster", "", None, (check,))


def _machine(observation: Observation, machine: ObservedMachine, now: datetime, steps: tuple[views.Step, ...]) -> views.Machine:
    found, state = sorted(machine.findings.items()), describe.condition(machine, now)
    role, health = _etcd(observation, machine)
    api_server = machine.findings.get("APIServerPodHealthy")
    return views.Machine(
        name=machine.name,
        role="control plane",
        state=_STATES.get(state, state),
        health=describe.health(machine),
        version=printable(machine.machine.spec.version),
        kubelet=printable(machine.node.status.node_info.kubelet_version) if machine.node else "",
        node=machine.node.metadata.name if machine.node else "",
        node_state=_node_state(machine.node) if machine.node else "",
        api_server=api_server.health.value if api_server else "",
        etcd_role=role,
        etcd_health=health,
        wrong=tuple(together((part.message or part.reason, str(name)) for name, part in found if part.health is not Health.GOOD)),
        findings=tuple(views.Finding(str(name), part.health, part.reason, part.message) for name, part in found),
        differs=(
            *(": ".join(filter(None, (way.message, "; ".join(way.details)))) for way in machine.outdated),
            *_in_place(observation, machine),
        ),
        lasting=(),
        steps=tuple(step.step for step in steps if machine.name in step.machines),
        waits_for=describe.waits_for(observation, machine),
        fate=describe.fate(observation, machine),
        remedy=_way_to_its_node(observation, machine.name),
        not_compared=machine.unknown_fields,
    )


def _in_place(observation: Observation, machine: ObservedMachine) -> tuple[str, ...]:
    """Who changes that in place, or why nobody does; nothing where it is not known that anybody could."""
    replicas = observation.view.replicas if observation.view else ()
    answer = next((replica.in_place for replica in replicas if replica.name == machine.name), None)
    if answer is None or answer.answer is Answer.UNASKED:
        return ()
    words = {Answer.YES: f"{answer.extension} changes that in place", Answer.NO: f"replaced, and not updated in place: {answer.reason}"}
    return (words.get(answer.answer, f"waits for {answer.extension}, which may change that in place: {answer.reason}"),)


def _etcd(observation: Observation, machine: ObservedMachine) -> tuple[str, str]:
    """The role and the health of its member."""
    member = describe.member(observation, machine)
    if isinstance(member, Unknown):
        return "unknown", "unknown"
    return (describe.role(observation, machine), member.health.value) if member else ("", "")


def _way_to_its_node(observation: Observation, name: str) -> str:
    view = observation.view
    return ways_to_nodes(view, (replica for replica in view.replicas if replica.name == name)) if view else ""


def _node_state(node: Node) -> str:
    conditions = {each.type: each.status for each in node.status.conditions}
    word = {"True": "ready", "False": "not ready"}.get(conditions.get("Ready", ""), "unknown")
    pressures = [name for name, status in conditions.items() if name.endswith("Pressure") and status == "True"]
    return ", ".join((word, *(["cordoned"] if node.spec.unschedulable else []), *map(printable, pressures)))
