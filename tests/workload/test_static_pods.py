"""A component's health from its static Pod, case by case."""

from __future__ import annotations

import pytest

from quorate.core.health import Absent, Health, Unknown
from quorate.kubernetes.objects import (
    Condition,
    ContainerState,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
    Node,
    NodeSpec,
    NodeStatus,
    ObjectMeta,
    Pod,
    PodStatus,
    Taint,
)
from quorate.workload.static_pods import (
    Component,
    Reason,
    component_health,
    connection_down,
    machine_deleting,
    node_missing,
    pod_health,
    waiting_for_node,
)

GOOD, BAD, UNKNOWN = Health


def node(*, ready: str | None = "True", taints: tuple[Taint, ...] = ()) -> Node:
    conditions = [Condition(type="Ready", status=ready)] if ready else []
    return Node(metadata=ObjectMeta(name="cp-a"), spec=NodeSpec(taints=list(taints)), status=NodeStatus(conditions=conditions))


def pod(phase: str, *containers: ContainerStatus, **conditions: str) -> Pod:
    listed = [Condition(type=kind, status=status) for kind, status in conditions.items()]
    return Pod(metadata=ObjectMeta(name="x"), status=PodStatus(phase=phase, conditions=listed, container_statuses=list(containers)))


def waiting(reason: str) -> ContainerStatus:
    return ContainerStatus(state=ContainerState(waiting=ContainerStateWaiting(reason=reason)))


def terminated(reason: str) -> ContainerStatus:
    return ContainerStatus(state=ContainerState(terminated=ContainerStateTerminated(reason=reason)))


def ended_before(exit_code: int, reason: str = "") -> ContainerStatus:
    last = ContainerState(terminated=ContainerStateTerminated(exit_code=exit_code))
    return ContainerStatus(state=ContainerState(waiting=ContainerStateWaiting(reason=reason) if reason else None), last_state=last)


RUNNING = pod("Running", Ready="True")


@pytest.mark.parametrize(
    ("pod", "health", "reason", "message"),
    [
        (RUNNING, GOOD, Reason.RUNNING, ""),
        (pod("Pending"), BAD, Reason.PROVISIONING, "The Pod waits to be scheduled"),
        (pod("Pending", PodScheduled="False", Initialized="True"), BAD, Reason.PROVISIONING, "The Pod waits to be scheduled"),
        (pod("Pending", PodScheduled="True"), BAD, Reason.PROVISIONING, "The Pod waits for its init containers"),
        (pod("Pending", PodScheduled="True", Initialized="True"), BAD, Reason.PROVISIONING, ""),
        (pod("Running", waiting("ErrImagePull")), BAD, Reason.PROVISIONING, "ErrImagePull"),
        (pod("Running", waiting("A"), waiting("B"), Ready="False"), BAD, Reason.PROVISIONING, "A, B"),
        (pod("Running", ended_before(1, "CrashLoopBackOff")), BAD, Reason.FAILED, "CrashLoopBackOff"),
        (pod("Running", ended_before(0, "ContainerCreating")), BAD, Reason.PROVISIONING, "ContainerCreating"),
        (pod("Running", waiting("ContainerCreating"), ended_before(137)), BAD, Reason.FAILED, "ContainerCreating"),
        (pod("Running", terminated("Error"), terminated("OOMKilled")), BAD, Reason.FAILED, "Error, OOMKilled"),
        (pod("Running", terminated("Error"), waiting("Backoff")), BAD, Reason.PROVISIONING, "Backoff"),
        (pod("Running", ended_before(1)), BAD, Reason.PROVISIONING, "The Pod runs but its startup or readiness probes have not succeeded"),
        (pod("Succeeded", Ready="True"), BAD, Reason.FAILED, "All containers have ended"),
        (pod("Failed"), BAD, Reason.FAILED, "All containers have ended"),
        (pod("Unknown"), UNKNOWN, Reason.INSPECTION_FAILED, "The Pod reports the phase Unknown"),
        (pod(""), UNKNOWN, Reason.INSPECTION_FAILED, "The Pod reports no phase"),
    ],
)
def test_a_pod_has_the_health_of_its_phase_conditions_and_containers(pod: Pod, health: Health, reason: Reason, message: str) -> None:
    finding = pod_health(pod)
    assert (finding.health, finding.reason, finding.message) == (health, reason, message)


def test_a_pod_that_does_not_exist_is_named() -> None:
    finding = component_health(Component.API_SERVER, node(), Absent())
    assert (finding.health, finding.reason) == (BAD, "DoesNotExist")
    assert "kube-apiserver-cp-a" in finding.message


def test_a_pod_that_could_not_be_read_is_unknown_with_the_reason() -> None:
    finding = component_health(Component.ETCD, node(), Unknown("HTTP 500"))
    assert (finding.health, finding.reason) == (UNKNOWN, "InspectionFailed")
    assert "etcd-cp-a" in finding.message
    assert "HTTP 500" in finding.message


def test_what_a_silent_kubelet_reported_is_not_judged() -> None:
    assert component_health(Component.ETCD, node(ready="Unknown"), RUNNING).health is UNKNOWN
    assert component_health(Component.ETCD, node(ready="Unknown"), Absent()).health is UNKNOWN


@pytest.mark.parametrize("ready", ["True", "False", None])
def test_any_other_readiness_of_the_node_is_no_reason_to_doubt(ready: str | None) -> None:
    assert component_health(Component.ETCD, node(ready=ready), RUNNING).health is GOOD


def test_an_unreachable_node_is_not_judged_unless_the_taint_only_stops_scheduling() -> None:
    evicting = Taint(key="node.kubernetes.io/unreachable", effect="NoExecute")
    unscheduling = Taint(key="node.kubernetes.io/unreachable", effect="NoSchedule")
    assert component_health(Component.ETCD, node(taints=(evicting,)), RUNNING).health is UNKNOWN
    assert component_health(Component.ETCD, node(taints=(unscheduling,)), RUNNING).health is GOOD


def test_machines_without_a_node_to_look_at_have_findings_too() -> None:
    assert (machine_deleting().health, machine_deleting().reason) == (BAD, "Deleting")
    assert (node_missing("cp-a").health, node_missing("cp-a").reason) == (UNKNOWN, "InspectionFailed")
    assert waiting_for_node("aws://1", "AWSMachine").message == "Waiting for a Node with providerID aws://1 to exist"
    assert waiting_for_node("", "AWSMachine").message == "Waiting for AWSMachine to report its providerID"
    assert (connection_down("why").health, connection_down("why").reason) == (UNKNOWN, "ConnectionDown")
