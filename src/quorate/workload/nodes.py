"""What a Node tells of a control-plane machine: whose it is, whether its kubelet is heard, and whether kubeadm marked it as it should. Pure.

Source: Cluster API's controlplane/kubeadm/pkg/workload_cluster_conditions.go for the rules.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from quorate.core.health import Finding, Health
from quorate.kubernetes.objects import Condition, Node, NodeAddress

CONTROL_PLANE = "node-role.kubernetes.io/control-plane"
"""Key of the label, whatever its value, and of the NoSchedule taint that kubeadm puts on control-plane Nodes."""
UNREACHABLE = "node.kubernetes.io/unreachable"
"""Taint (NoExecute) that the node controller puts on a Node whose kubelet is not heard of."""
UNINITIALIZED = "node.cloudprovider.kubernetes.io/uninitialized"
"""Taint on a Node that a cloud provider has yet to look at and to give its providerID."""

SET = "Set"
NOT_SET = "NotSet"
DELETING = "Deleting"
INSPECTION_FAILED = "InspectionFailed"


def condition(conditions: Iterable[Condition], kind: str) -> Condition | None:
    """The condition of this type, or None."""
    return next((candidate for candidate in conditions if candidate.type == kind), None)


def readiness(node: Node) -> str:
    """The status of the Node's Ready condition: "True", "False", "Unknown", or "" where it has none yet."""
    ready = condition(node.status.conditions, "Ready")
    return ready.status if ready else ""


def is_unreachable(node: Node) -> bool:
    """Whether the node controller has given the kubelet up: then what the API tells of the Node's Pods is old."""
    return any(taint.key == UNREACHABLE and taint.effect == "NoExecute" for taint in node.spec.taints)


def is_control_plane(node: Node) -> bool:
    """Whether the Node carries the control-plane label."""
    return CONTROL_PLANE in node.metadata.labels


def find_node(nodes: Iterable[Node], *, name: str = "", provider_id: str = "") -> Node | None:
    """The Node of a machine: the one of this name (its nodeRef) if known, else the only one with its providerID. None where there is none, or several.

    Needs no nodeRef: as soon as the Node exists it is found, before another controller has written the reference.
    """
    if name:
        return next((node for node in nodes if node.metadata.name == name), None)
    found = [node for node in nodes if provider_id and node.spec.provider_id == provider_id]
    return found[0] if len(found) == 1 else None


def find_newcomer(nodes: Iterable[Node], *, addresses: Collection[str], since: datetime) -> Node | None:
    """The Node of a machine made at `since`, by its internal addresses, while nobody has given the Node a providerID. None where there is none, or several.

    Some infrastructure providers write the providerID to the Node themselves, once they have a connection that they look for every 30 s. Never an older Node,
    which may be what is left of a machine that had the address before, nor one that waits for its cloud provider.
    """
    found = [node for node in nodes if _is_newcomer(node, since) and not internal_addresses(node.status.addresses).isdisjoint(addresses)]
    return found[0] if len(found) == 1 else None


def internal_addresses(addresses: Iterable[NodeAddress]) -> set[str]:
    """Those by which the machines of a cluster reach each other."""
    return {each.address for each in addresses if each.type == "InternalIP"}


def _is_newcomer(node: Node, since: datetime) -> bool:
    created = node.metadata.creation_timestamp
    waits = any(taint.key == UNINITIALIZED for taint in node.spec.taints)
    return created is not None and created >= since and not node.spec.provider_id and not waits


def taint_expected(machine_taints: Sequence[Mapping[str, Any]], node_registration: Mapping[str, Any] | None) -> bool:
    """Whether the Node must carry the control-plane taint.

    `machine_taints` is the Machine's spec.taints. `node_registration` is that section of its KubeadmConfig, from the join or the init configuration, whichever
    it was made with; None where there is no KubeadmConfig. Taints that are not given are kubeadm's default, which is this one; an empty list is none.
    """
    if any(_is_control_plane_taint(taint) for taint in machine_taints):
        return True
    if node_registration is None:
        return False
    taints = node_registration.get("taints")
    return taints is None or any(_is_control_plane_taint(taint) for taint in taints)


def _is_control_plane_taint(taint: Mapping[str, Any]) -> bool:
    return taint.get("key") == CONTROL_PLANE and taint.get("effect") == "NoSchedule"


def labels_and_taints(node: Node, *, taint_expected: bool) -> Finding:
    """Whether kubeadm has marked the Node as a control plane: Set, or NotSet with everything that is missing."""
    missing = [] if is_control_plane(node) else [f"the label {CONTROL_PLANE}"]
    if taint_expected and not any(taint.key == CONTROL_PLANE and taint.effect == "NoSchedule" for taint in node.spec.taints):
        missing.append(f"the taint {CONTROL_PLANE}:NoSchedule")
    if missing:
        return Finding(Health.BAD, NOT_SET, f"Node {node.metadata.name} lacks {' and '.join(missing)}")
    return Finding(Health.GOOD, SET)
