"""The health of a control plane's components by their static Pods `kube-system/<component>-<node>`. Pure.

Source: Cluster API's controlplane/kubeadm/pkg/workload_cluster_conditions.go for rules and reasons. A Pod of a phase that Kubernetes does not have is
InspectionFailed here; upstream then says nothing at all.
"""

from __future__ import annotations

from enum import StrEnum

from quorate.core.health import Absent, Finding, Health, Unknown
from quorate.kubernetes.objects import ContainerStatus, Node, Pod
from quorate.workload.nodes import condition, is_unreachable, readiness

NAMESPACE = "kube-system"


class Component(StrEnum):
    """A control plane's static Pods, as kubeadm names them. ETCD only where etcd is managed."""

    API_SERVER = "kube-apiserver"
    CONTROLLER_MANAGER = "kube-controller-manager"
    SCHEDULER = "kube-scheduler"
    ETCD = "etcd"

    def pod_name(self, node: str) -> str:
        """The name of its mirror Pod on a node."""
        return f"{self}-{node}"


class Reason(StrEnum):
    """Why a component is as healthy as it is, in the words of Cluster API's conditions. Only RUNNING is good."""

    RUNNING = "Running"
    PROVISIONING = "Provisioning"
    DOES_NOT_EXIST = "DoesNotExist"
    FAILED = "Failed"
    DELETING = "Deleting"
    INSPECTION_FAILED = "InspectionFailed"
    CONNECTION_DOWN = "ConnectionDown"


def component_health(component: Component, node: Node, pod: Pod | Absent | Unknown) -> Finding:
    """The component's health on a Node that exists, from its Pod: one that was read, one proven absent, or one that could not be read.

    What is known of Pods on a Node whose kubelet is silent is old, and therefore not used.
    """
    if is_unreachable(node):
        return _uninspected(f"Node {node.metadata.name} is unreachable")
    if readiness(node) == "Unknown":
        return _uninspected(f"Node {node.metadata.name} has the Ready condition Unknown, so what its Pods report may be old")
    match pod:
        case Absent():
            return _bad(Reason.DOES_NOT_EXIST, f"Pod {component.pod_name(node.metadata.name)} does not exist")
        case Unknown(reason):
            return _uninspected(f"Pod {component.pod_name(node.metadata.name)} could not be read: {reason}")
        case _:
            return pod_health(pod)


def pod_health(pod: Pod) -> Finding:
    """The health of a Pod by its phase, its conditions and its containers."""
    match pod.status.phase:
        case "Pending":
            return _pending(pod)
        case "Running":
            return _running(pod)
        case "Succeeded" | "Failed":
            return _bad(Reason.FAILED, "All containers have ended")
        case "Unknown":
            return _uninspected("The Pod reports the phase Unknown")
    return _uninspected(f"The Pod reports {pod.status.phase or 'no'} phase")


def machine_deleting() -> Finding:
    """Every component of a Machine that is being deleted."""
    return _bad(Reason.DELETING, "The Machine is being deleted")


def node_missing(name: str) -> Finding:
    """Every component of a Machine whose Node was there and is gone."""
    return _uninspected(f"Node {name} does not exist")


def waiting_for_node(provider_id: str, infrastructure: str) -> Finding:
    """Every component of a Machine that has no Node yet; `infrastructure` is the kind that has yet to report a providerID where that is empty."""
    awaited = f"a Node with providerID {provider_id} to exist" if provider_id else f"{infrastructure} to report its providerID"
    return _uninspected(f"Waiting for {awaited}")


def not_inspected(why: str) -> Finding:
    """Anything that could not be looked at, such as when the list of Nodes could not be read."""
    return _uninspected(why)


def connection_down(why: str) -> Finding:
    """Anything of a workload cluster that is not connected."""
    return Finding(Health.UNKNOWN, Reason.CONNECTION_DOWN, why)


def _pending(pod: Pod) -> Finding:
    for kind, awaited in (("PodScheduled", "to be scheduled"), ("Initialized", "for its init containers")):
        found = condition(pod.status.conditions, kind)
        if found is None or found.status != "True":
            return _bad(Reason.PROVISIONING, f"The Pod waits {awaited}")
    return _bad(Reason.PROVISIONING, "")


def _running(pod: Pod) -> Finding:
    ready = condition(pod.status.conditions, "Ready")
    if ready is not None and ready.status == "True":
        return Finding(Health.GOOD, Reason.RUNNING)
    containers = pod.status.container_statuses
    if waiting := [container.state.waiting.reason for container in containers if container.state.waiting]:
        # One container that failed before speaks for the whole Pod; without one, even an image that cannot be pulled is only "not yet".
        reason = Reason.FAILED if any(map(_failed_before, containers)) else Reason.PROVISIONING
        return _bad(reason, ", ".join(waiting))
    if terminated := [container.state.terminated.reason for container in containers if container.state.terminated]:
        return _bad(Reason.FAILED, ", ".join(terminated))
    return _bad(Reason.PROVISIONING, "The Pod runs but its startup or readiness probes have not succeeded")


def _failed_before(container: ContainerStatus) -> bool:
    last = container.last_state.terminated
    return last is not None and last.exit_code != 0


def _bad(reason: Reason, message: str) -> Finding:
    return Finding(Health.BAD, reason, message)


def _uninspected(message: str) -> Finding:
    return Finding(Health.UNKNOWN, Reason.INSPECTION_FAILED, message)
