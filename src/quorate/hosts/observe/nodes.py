"""Nodes as they matter to hosts: how each is, in what its metadata differs from the manifest, and which belong to no host any more. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from quorate.core.health import Finding, Health
from quorate.core.hosts.state import Node
from quorate.core.text import printable
from quorate.core.versions import parse_or_none
from quorate.hosts.manifest import Host
from quorate.hosts.render.marks import CORDONED, STATIC_WORKER
from quorate.kubernetes import objects
from quorate.workload.nodes import CONTROL_PLANE, condition, is_control_plane, is_unreachable

_INTERNAL = "InternalIP"
_PRESSURES = ("DiskPressure", "MemoryPressure", "PIDPressure")
_MACHINES = ("machine.k8s.io/machine", "cluster.x-k8s.io/machine", "machine-controller/owned-by")
"""How machine-controller and Cluster API mark the Nodes of their machines."""
_OF_KUBEADM = (CONTROL_PLANE, "node.kubernetes.io/exclude-from-external-load-balancers")


def seen(node: objects.Node) -> Node:
    """The Node as the decision sees it."""
    ready, machine = condition(node.status.conditions, "Ready"), _machine(node)
    return Node(
        name=node.metadata.name,
        ready=_ready(node, ready),
        kubelet=parse_or_none(node.status.node_info.kubelet_version),
        unschedulable=node.spec.unschedulable,
        cordoned_by_us=CORDONED in node.metadata.annotations,
        pressures=tuple(each.type for each in node.status.conditions if each.type in _PRESSURES and each.status == "True"),
        control_plane=is_control_plane(node),
        static_worker=STATIC_WORKER in node.metadata.annotations,
        machine=machine,
        kept_by=machine or printable(node.spec.provider_id),
        ready_since=ready.last_transition_time if ready else node.metadata.creation_timestamp,
    )


def _machine(node: objects.Node) -> str:
    """Whose Node it is by its marks, empty where it has none."""
    owner = next((f"{each.kind} {each.name}" for each in node.metadata.owner_references), "")
    marks = {**node.metadata.labels, **node.metadata.annotations}
    machine = next((f"Machine {marks[name]}" for name in _MACHINES if marks.get(name)), "")
    return printable(owner or machine)


def is_of_another_machine(node: objects.Node, host: Host) -> bool:
    """Whether all of the Node's addresses are others than the host's. That alone says little: a cloud provider may know better than the manifest."""
    return bool(_addresses(node)) and not is_at(node, host)


def is_at(node: objects.Node, host: Host) -> bool:
    """Whether one of the Node's addresses is the host's."""
    return not _addresses(node).isdisjoint({host.private_address, host.public_address, *host.ipv6_addresses})


def _addresses(node: objects.Node) -> set[str]:
    return {address.address for address in node.status.addresses if address.type == _INTERNAL}


def metadata_drift(node: objects.Node, host: Host, *, control_plane: bool) -> tuple[str, ...]:
    """How labels, annotations and taints differ from the manifest. Those that it does not mention are left alone, except the control-plane taint."""
    metadata = _metadata_drift(host, node.metadata.labels, node.metadata.annotations, control_plane=control_plane)
    return (*metadata, *_taint_drift(node, host))


def new_node_drift(host: Host, *, control_plane: bool) -> tuple[str, ...]:
    """The same of a Node that kubeadm has just made of the host, with the manifest's taints.

    Source: kubeadm 1.34, cmd/kubeadm/app/phases/markcontrolplane, for the labels.
    """
    return tuple(_metadata_drift(host, dict.fromkeys(_OF_KUBEADM, "") if control_plane else {}, {}, control_plane=control_plane))


def lost_nodes(nodes: tuple[objects.Node, ...], hosts: Collection[str]) -> tuple[str, ...]:
    """Nodes of control planes, and of static workers that we joined, that no host of the manifest is."""
    return tuple(
        node.metadata.name
        for node in nodes
        if node.metadata.name not in hosts and (is_control_plane(node) or STATIC_WORKER in node.metadata.annotations)
    )


def _ready(node: objects.Node, ready: objects.Condition | None) -> Finding:
    if ready is None:
        return Finding(Health.UNKNOWN, "NodeReady", "the Node has no Ready condition yet")
    if ready.status == "True" and not is_unreachable(node):
        return Finding(Health.GOOD, "NodeReady", "the Node is Ready")
    health = Health.UNKNOWN if ready.status == "Unknown" else Health.BAD
    return Finding(health, "NodeReady", ": ".join(filter(None, (f"Ready is {ready.status}", ready.message or ready.reason))))


def _metadata_drift(host: Host, labels: Mapping[str, str], annotations: Mapping[str, str], *, control_plane: bool) -> Iterator[str]:
    yield from _map_drift("label", {**host.labels, **({CONTROL_PLANE: ""} if control_plane else {})}, labels)
    yield from _map_drift("annotation", {**host.annotations, **({} if control_plane else {STATIC_WORKER: "true"})}, annotations)


def _map_drift(what: str, wanted: Mapping[str, str], found: Mapping[str, str]) -> Iterator[str]:
    """A key with `-` at its end must not be there, as kubectl writes it."""
    for key, value in sorted(wanted.items()):
        if key.endswith("-"):
            if key[:-1] in found:
                yield f"{what} {key[:-1]} is set, and the manifest removes it"
        elif found.get(key) != value:
            yield f"{what} {key} is {found.get(key)!r} instead of {value!r}" if key in found else f"{what} {key} is missing"


def _taint_drift(node: objects.Node, host: Host) -> Iterator[str]:
    found = {(taint.key, taint.effect, taint.value) for taint in node.spec.taints}
    wanted = {(taint.key, taint.effect.value, taint.value) for taint in host.taints or ()}
    for key, effect, value in sorted(wanted - found):
        yield f"taint {key}{f'={value}' if value else ''}:{effect} is missing"
    if any(key == CONTROL_PLANE for key, _, _ in found) and not any(key == CONTROL_PLANE for key, _, _ in wanted):
        yield f"taint {CONTROL_PLANE} is set, and the manifest leaves it out"
