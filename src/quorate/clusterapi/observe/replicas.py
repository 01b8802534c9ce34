"""A Machine of ours as the decision knows it: a replica, with everything that was seen of it and the marks that its owner and others put on it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from quorate.clusterapi.desired import remediation_record
from quorate.clusterapi.desired.remediation_record import MalformedRecord
from quorate.clusterapi.observe import machines, updates
from quorate.clusterapi.observe.observation import ObservedMachine
from quorate.clusterapi.types.machine import Machine
from quorate.clusterapi.types.names import Annotation, MachineCondition
from quorate.core.health import Absent, Finding, Unknown
from quorate.core.machines.state import Answer, InPlace, Remediation, Replica, Update
from quorate.core.maintenance import Maintenance
from quorate.core.text import printable

STARTUP = timedelta(minutes=30)
"""From a Machine's creation until its Node is overdue: a host of metal may boot for 20, and kubeadm gives up 5 after that."""
JOINING = timedelta(minutes=10)
"""From a Machine's creation on, and from when this process first saw it, for how long kubeadm may be joining on a host that is not a Node yet: hosts boot in 5
as a rule, and it gives up after 5."""


def replica(
    observed: ObservedMachine,
    member: int | Absent | Unknown,
    coredns: Maintenance,
    *,
    etcd_managed: bool,
    joiner_left: bool,
    arrivals: Mapping[str, datetime],
    in_place: InPlace | None = None,
    now: datetime,
) -> Replica:
    """The replica; `member` is its etcd member as the ring tells it, `coredns` what there is to do for CoreDNS on its Node, `joiner_left` whether its member
    had yet to vote and was removed, `arrivals` since when this process has seen Machines and Nodes, by uid: what is dated by another clock, which may be behind
    ours, has come no earlier for whoever waits for kubeadm. `in_place` is what an extension says of it.

    `now` stands in for a creation time that the object does not have.
    """
    machine, metadata = observed.machine, observed.machine.metadata
    replaces, record_problem = _record(machine)
    created, node = metadata.creation_timestamp or now, observed.node.metadata if observed.node else None
    update = updates.update_of(machine)
    may_join = bool(machine.spec.bootstrap.data_secret_name) and not observed.had_node and not joiner_left
    return Replica(
        name=metadata.name,
        version=printable(machine.spec.version),
        created=created,
        member=member if etcd_managed else Absent(),
        node=node.name if node else None,
        node_created=max(node.creation_timestamp or arrivals[node.uid], arrivals[node.uid]) if node else None,
        failure_domain=printable(machine.spec.failure_domain),
        component_findings=_found(observed, *machines.components(etcd_managed=etcd_managed)),
        member_findings=_found(observed, MachineCondition.ETCD_MEMBER_HEALTHY),
        outdated=(*(way.message for way in observed.outdated), *_begun_in_vain(update, in_place)),
        outdated_from=observed.outdated_from,
        deleting_since=metadata.deletion_timestamp,
        holds_hook=machines.holds_hook(machine),
        waits_at_hook=machines.waits_at_hook(machine),
        other_hooks=machines.other_hooks(machine),
        delete_first=Annotation.DELETE_MACHINE in metadata.annotations,
        kubelet_version=_kubelet_version(observed),
        node_findings=_found(observed, MachineCondition.NODE_KUBEADM_LABELS_AND_TAINTS_SET),
        unhealthy=machines.is_to_be_remediated(machine),
        remediate_first=Annotation.REMEDIATE_MACHINE in metadata.annotations,
        replaces=replaces,
        record_problem=record_problem,
        update=update,
        in_place=in_place,
        expiry_known=_expiry_known(observed),
        coredns=coredns,
        had_node=observed.had_node,
        joins_until=max(created, arrivals[metadata.uid]) + JOINING if may_join else None,
        overdue=not observed.had_node and now - created >= STARTUP,
    )


def _begun_in_vain(update: Update | None, in_place: InPlace | None) -> tuple[str, ...]:
    """That an update in place was marked and cannot be finished: its objects may say what its host is not."""
    in_vain = update is not None and not update.started and in_place is not None and in_place.answer is Answer.NO
    return ("An update in place was begun and cannot be finished",) if in_vain else ()


def _found(observed: ObservedMachine, *kinds: MachineCondition) -> tuple[tuple[str, Finding], ...]:
    return tuple((str(kind), observed.findings[kind]) for kind in kinds if kind in observed.findings)


def _record(machine: Machine) -> tuple[Remediation | None, str]:
    try:
        return remediation_record.read(machine.metadata.annotations, Annotation.REMEDIATION_FOR), ""
    except MalformedRecord as error:
        return None, f"Machine {machine.metadata.name}: {error}"


def _kubelet_version(observed: ObservedMachine) -> str:
    """As the Node itself tells it; the Machine tells later, and still when the Node cannot be read."""
    told_by = observed.node or observed.machine
    return printable(told_by.status.node_info.kubelet_version) if told_by.status.node_info else ""


def _expiry_known(observed: ObservedMachine) -> bool:
    """Whether the expiry is recorded on the Machine or its KubeadmConfig. Without a KubeadmConfig there is no place to record it."""
    config = observed.config
    recorded = Annotation.CERTIFICATES_EXPIRY in observed.machine.metadata.annotations
    return recorded or config is None or Annotation.CERTIFICATES_EXPIRY in config.metadata.annotations
