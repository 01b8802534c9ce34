"""What is seen of the control-plane Machines: each with its companions, its Node and the health of what runs there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import MAXYEAR, datetime, timedelta
from typing import Any

import msgspec

from quorate.clusterapi.api.bootstrap_schema import PUBLISHED
from quorate.clusterapi.connect.foreign import ForeignObject
from quorate.clusterapi.observe.observation import Outdated
from quorate.clusterapi.types.kubeadm_config import KubeadmConfig
from quorate.clusterapi.types.kubeadm_control_plane import KubeadmControlPlane
from quorate.clusterapi.types.machine import Machine
from quorate.clusterapi.types.names import Annotation, Hook, MachineCondition, MachineDeletingReason
from quorate.core.health import Absent, Finding, Unknown
from quorate.core.text import printable
from quorate.core.versions import Version, parse_or_none
from quorate.kubeadm.compare import Compare, Difference, differences
from quorate.kubeadm.config import Spec, etcd_is_managed, inner, is_join
from quorate.kubernetes.client import Client
from quorate.kubernetes.objects import Node, Pod
from quorate.workload.connection import Workload
from quorate.workload.nodes import find_newcomer, find_node, internal_addresses, labels_and_taints, taint_expected
from quorate.workload.static_pods import Component, component_health, node_missing, not_inspected, waiting_for_node

COMPONENTS = {
    MachineCondition.API_SERVER_POD_HEALTHY: Component.API_SERVER,
    MachineCondition.CONTROLLER_MANAGER_POD_HEALTHY: Component.CONTROLLER_MANAGER,
    MachineCondition.SCHEDULER_POD_HEALTHY: Component.SCHEDULER,
    MachineCondition.ETCD_POD_HEALTHY: Component.ETCD,
}


def components(*, etcd_managed: bool) -> Mapping[MachineCondition, Component]:
    """The static Pods that are looked at, by the condition that reports each."""
    return COMPONENTS if etcd_managed else {kind: component for kind, component in COMPONENTS.items() if component is not Component.ETCD}


def node_name(machine: Machine) -> str:
    """The name of its Node, where the Machine knows it."""
    return machine.status.node_ref.name if machine.status.node_ref else ""


def find(
    machine: Machine,
    infrastructure: ForeignObject | None,
    nodes: Sequence[Node] | Unknown,
    named: Mapping[str, Node | Absent | Unknown],
) -> Node | Absent | Unknown:
    """The Machine's Node: by name where the Machine knows it, otherwise, of `nodes`, by providerID, or by address, as soon as the Node exists."""
    if name := node_name(machine):
        return named[name]
    if isinstance(nodes, Unknown):
        return nodes
    return find_node(nodes, provider_id=provider_id(machine, infrastructure)) or _newcomer(nodes, machine) or Absent()


def told_apart(nodes: Mapping[str, Node | Absent | Unknown], provider_ids: Mapping[str, str]) -> dict[str, Node | Absent | Unknown]:
    """The Nodes by the names of their Machines, without those that have another providerID than their Machine.

    An address or a host's name that is used again gives a Node the name of one that is gone, whose Machine may still be there, or come back with a backup.
    Cluster API wants both to have the same providerID, letter by letter, and a Node's never changes; whether the one or the other has yet to get it says
    nothing. Where that does not tell Machines apart, as with a copy of one, each keeps the Node, and nobody can say whose member runs there (`ring.match`).
    """
    owners = {(node.metadata.name, provider_ids[name]): name for name, node in nodes.items() if isinstance(node, Node)}

    def judged(machine: str, node: Node | Absent | Unknown) -> Node | Absent | Unknown:
        its = node.spec.provider_id if isinstance(node, Node) else ""
        if not isinstance(node, Node) or not its or provider_ids[machine] in ("", its):
            return node
        owner = owners.get((node.metadata.name, its), "another host")
        return Unknown(printable(f"Node {node.metadata.name} is that of {owner}, by its providerID {its}"))

    return {machine: judged(machine, node) for machine, node in nodes.items()}


def _newcomer(nodes: Iterable[Node], machine: Machine) -> Node | None:
    created = machine.metadata.creation_timestamp
    if created is None:
        return None
    return find_newcomer(nodes, addresses=internal_addresses(machine.status.addresses), since=created)


def provider_id(machine: Machine, infrastructure: ForeignObject | None) -> str:
    """The Machine's providerID, from its infrastructure as soon as that has one."""
    return machine.spec.provider_id or (infrastructure.provider_id if infrastructure else "")


def findings(
    workload: Workload[Client],
    machine: Machine,
    config: KubeadmConfig | None,
    infrastructure: ForeignObject | None,
    node: Node | Absent | Unknown,
    *,
    etcd_managed: bool,
) -> dict[str, Finding]:
    """The health of the Machine's components and the marks on its Node, by condition type."""
    looked_at = components(etcd_managed=etcd_managed)
    if isinstance(node, Node):
        expected = taint_expected(msgspec.to_builtins(machine.spec.taints), _node_registration(config))
        found = {str(kind): component_health(what, node, workload.pod(what, node.metadata.name)) for kind, what in looked_at.items()}
        return found | {MachineCondition.NODE_KUBEADM_LABELS_AND_TAINTS_SET: labels_and_taints(node, taint_expected=expected)}
    kinds = (*looked_at, MachineCondition.NODE_KUBEADM_LABELS_AND_TAINTS_SET)
    return {str(kind): _without_node(machine, infrastructure, node) for kind in kinds}


def has_etcd(workload: Workload[Client], config: KubeadmConfig | None, node: Node | Absent | Unknown) -> bool | None:
    """Whether a Machine has an etcd member of its own: as it was made, or as the Pod on its Node shows. None: neither tells.

    A configuration by which it joined need not say what etcd there is.
    """
    etcd = inner(config.spec, "clusterConfiguration").get("etcd") if config else None
    if config is not None and (etcd or not is_join(config.spec)):
        return etcd_is_managed(config.spec)
    return True if isinstance(node, Node) and isinstance(workload.pod(Component.ETCD, node.metadata.name), Pod) else None


def _without_node(machine: Machine, infrastructure: ForeignObject | None, node: Absent | Unknown) -> Finding:
    if isinstance(node, Unknown):
        return not_inspected(node.reason)
    if machine.status.node_ref and machine.status.node_ref.name:
        return node_missing(machine.status.node_ref.name)
    kind = machine.spec.infrastructure_ref.kind if machine.spec.infrastructure_ref else "the infrastructure machine"
    return waiting_for_node(provider_id(machine, infrastructure), kind)


def _node_registration(config: KubeadmConfig | None) -> Mapping[str, Any] | None:
    """That section of the KubeadmConfig which the machine was made with; None where there is no KubeadmConfig."""
    if config is None:
        return None
    joins = "joinConfiguration" in config.spec and "controlPlane" in config.spec["joinConfiguration"]
    section: Mapping[str, Any] = config.spec.get("joinConfiguration" if joins else "initConfiguration") or {}
    return section.get("nodeRegistration") or {}


def _compare_published(desired: Spec, current: Spec, version: Version) -> tuple[Difference, ...]:
    return differences(desired, current, version, PUBLISHED)


def outdated(
    kcp: KubeadmControlPlane,
    machine: Machine,
    config: KubeadmConfig | None,
    infrastructure: ForeignObject | None,
    now: datetime,
    compare: Compare = _compare_published,
) -> tuple[Outdated, ...]:
    """In which ways the Machine differs from what is desired. What cannot be read counts as equal: API trouble must not roll machines."""
    ways = (
        _expiring(kcp, machine, now),
        _rolled_after(kcp, machine, now),
        _version(kcp, machine),
        _configuration(kcp, config, compare),
        _infrastructure(kcp, infrastructure),
    )
    return tuple(way for way in ways if way is not None)


def outdated_from(kcp: KubeadmControlPlane, machine: Machine, now: datetime) -> datetime | None:
    """The next moment at which time alone makes the Machine differ from what is desired; None where there is none ahead."""
    before, expiry = _before(kcp), machine.status.certificates_expiry_date
    after, created = _after(kcp), machine.metadata.creation_timestamp
    moments = [expiry - before] if before and expiry and expiry - now > before else []
    moments += [after] if after and created and created < after and now < after else []
    return min(moments, default=None)


def _before(kcp: KubeadmControlPlane) -> timedelta | None:
    """How long before its certificate's end a Machine is replaced; at most what a timedelta holds, 2.7 million years: the field admits more."""
    days = kcp.spec.rollout.before.certificates_expiry_days
    return timedelta(days=min(days, timedelta.max.days)) if days else None


def _after(kcp: KubeadmControlPlane) -> datetime | None:
    """When `rollout.after` comes, in full seconds, as creation times are: what is made in the rest of its second would be too old as it is made."""
    after = kcp.spec.rollout.after
    if after is None or not after.microsecond or after.year == MAXYEAR:  # whose last second has none after it
        return after
    return after.replace(microsecond=0) + timedelta(seconds=1)


def _expiring(kcp: KubeadmControlPlane, machine: Machine, now: datetime) -> Outdated | None:
    before, expiry = _before(kcp), machine.status.certificates_expiry_date
    if before is None or expiry is None or expiry - now > before:
        return None
    return Outdated(
        "Certificates will expire soon",
        (f"API server certificate expires {expiry:%Y-%m-%dT%H:%M:%SZ}, rollout.before is {before.days} days",),
        by_time=True,
    )


def _rolled_after(kcp: KubeadmControlPlane, machine: Machine, now: datetime) -> Outdated | None:
    after, created = _after(kcp), machine.metadata.creation_timestamp
    if after is None or created is None or not created < after <= now:
        return None
    return Outdated("KubeadmControlPlane spec.rollout.after expired", (f"created {created:%Y-%m-%dT%H:%M:%SZ}",), by_time=True)


def _version(kcp: KubeadmControlPlane, machine: Machine) -> Outdated | None:
    if machine.spec.version == kcp.spec.version:
        return None
    return Outdated(printable(f"Version {machine.spec.version}, {kcp.spec.version} required"))


def _configuration(kcp: KubeadmControlPlane, config: KubeadmConfig | None, compare: Compare) -> Outdated | None:
    found = [difference for difference in differences_of(kcp, config, compare) if difference.known]
    return Outdated("KubeadmConfig is not up-to-date", tuple(printable(str(each)) for each in found)) if found else None


def unknown_fields(kcp: KubeadmControlPlane, config: KubeadmConfig | None, compare: Compare) -> tuple[str, ...]:
    """The fields in which the Machine's KubeadmConfig differs too, and which quorate or the bootstrap provider does not know: they replace nothing."""
    return tuple(printable(difference.path) for difference in differences_of(kcp, config, compare) if not difference.known)


def differences_of(kcp: KubeadmControlPlane, config: KubeadmConfig | None, compare: Compare) -> tuple[Difference, ...]:
    """How a Machine's KubeadmConfig differs from what is desired. One that is not there, and a version that cannot be read, differ in nothing."""
    version = parse_or_none(kcp.spec.version)
    return () if config is None or version is None else compare(kcp.spec.kubeadm_config_spec, config.spec, version)


def _infrastructure(kcp: KubeadmControlPlane, infrastructure: ForeignObject | None) -> Outdated | None:
    if infrastructure is None:
        return None
    wanted = kcp.spec.machine_template.spec.infrastructure_ref
    annotations = infrastructure.metadata.annotations
    name, group_kind = annotations.get(Annotation.CLONED_FROM_NAME), annotations.get(Annotation.CLONED_FROM_GROUP_KIND)
    if name is None or group_kind is None or (name, group_kind) == (wanted.name, wanted.group_kind):
        return None
    return Outdated(printable(f"{infrastructure.kind} is not up-to-date"), (printable(f"cloned from {name}, now {wanted.name}"),))


def holds_hook(machine: Machine) -> bool:
    """Whether our pre-terminate hook is still on the Machine."""
    return Hook.PRE_TERMINATE in machine.metadata.annotations


def other_hooks(machine: Machine) -> tuple[str, ...]:
    """The pre-terminate hooks of others."""
    prefix = f"{Hook.PRE_TERMINATE_PREFIX}/"
    return tuple(sorted(key for key in machine.metadata.annotations if key.startswith(prefix) and key != Hook.PRE_TERMINATE))


def waits_at_hook(machine: Machine) -> bool:
    """Whether the Machine controller has drained the Node and waits for pre-terminate hooks."""
    return any(
        condition.type == MachineCondition.DELETING
        and condition.status == "True"
        and condition.reason == MachineDeletingReason.WAITING_FOR_PRE_TERMINATE_HOOK
        for condition in machine.status.conditions
    )


def is_torn_down(machine: Machine, infrastructure: ForeignObject | None) -> bool:
    """Whether its host is on its way out or gone, so that whoever asks something of it only waits: 2 to 5 s for one that was just cut off."""
    if machine.metadata.deletion_timestamp is None:
        return False
    return infrastructure is None or infrastructure.metadata.deletion_timestamp is not None


def is_to_be_remediated(machine: Machine) -> bool:
    """Whether a health check failed the Machine and left it to its owner to replace it."""
    failed = {condition.type for condition in machine.status.conditions if condition.status == "False"}
    return {MachineCondition.HEALTH_CHECK_SUCCEEDED, MachineCondition.OWNER_REMEDIATED} <= failed


def oldest_first(machines: Iterable[Machine]) -> Sequence[Machine]:
    """By creation, then by name."""
    return sorted(machines, key=lambda machine: (str(machine.metadata.creation_timestamp), machine.metadata.name))
