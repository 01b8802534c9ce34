"""Control planes to report on: everything is well unless a test says otherwise."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from quorate.clusterapi.observe.observation import Connection, Observation, ObservedMachine, Outdated
from quorate.clusterapi.report import Report
from quorate.clusterapi.report.conditions import as_dict, legacy_as_dict
from quorate.clusterapi.report.machines import COMPONENTS, machine_types
from quorate.clusterapi.types.cluster import Cluster
from quorate.clusterapi.types.kubeadm_control_plane import KubeadmControlPlane
from quorate.clusterapi.types.machine import Machine
from quorate.clusterapi.types.names import MachineCondition
from quorate.core.health import Absent, Finding, Health, Unknown
from quorate.core.machines.decide import Decision
from quorate.core.machines.state import Certificates, ControlPlane, Deletion, Desired, Replica
from quorate.core.ring import Member, Ring
from quorate.core.versions import Version
from quorate.kubernetes.objects import Condition, Node

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
GOOD_REASONS = {MachineCondition.ETCD_MEMBER_HEALTHY: "Healthy", MachineCondition.NODE_KUBEADM_LABELS_AND_TAINTS_SET: "Set"}

Conditions = Mapping[str, tuple[str, str, datetime]]
"""By type: status, message and the time of the last transition."""


@pytest.fixture
def noon() -> datetime:
    return NOON


@pytest.fixture
def idle() -> Decision:
    """Nothing to do."""
    return Decision("nothing to do", None, (), None)


def conditions(given: Conditions) -> list[Condition]:
    return [
        Condition(type=type_, status=status, reason="Given", message=message, last_transition_time=since)
        for type_, (status, message, since) in given.items()
    ]


@pytest.fixture
def machine() -> Callable[..., ObservedMachine]:
    """Builds a Machine that has been well for an hour; `findings` replace what is seen of it, `told` and `legacy` add conditions that it has."""

    def build(
        name: str,
        *,
        node: bool = True,
        provider_id: str | None = None,
        deleted: datetime | None = None,
        findings: Mapping[str, Finding] | None = None,
        told: Conditions | None = None,
        outdated: Sequence[str] = (),
        annotations: Mapping[str, str] | None = None,
        legacy: Mapping[str, str] | None = None,
        **status: Any,
    ) -> ObservedMachine:
        metadata = {"name": name, "namespace": "default", "uid": name, "generation": 2, "annotations": dict(annotations or {})}
        spec = {"version": "v1.34.4", "providerID": f"test:///{name}" if provider_id is None else provider_id}
        given = {"Ready": ("True", "", NOON - HOUR), "Available": ("True", "", NOON - HOUR), **(told or {})}
        times = {"creation_timestamp": NOON - HOUR, "deletion_timestamp": deleted}
        twins = [{"type": type_, "status": value, "lastTransitionTime": NOON} for type_, value in (legacy or {}).items()]
        status["deprecated"] = {"v1beta1": {"conditions": twins}}
        bare = msgspec.convert({"metadata": metadata, "spec": spec, "status": status}, Machine)
        made = msgspec.structs.replace(
            bare,
            metadata=msgspec.structs.replace(bare.metadata, **times),
            status=msgspec.structs.replace(bare.status, conditions=conditions(given)),
        )
        well: dict[str, Finding] = {
            type_: Finding(Health.GOOD, GOOD_REASONS.get(type_, "Running")) for type_ in machine_types(etcd_managed=True)
        }
        its_node = msgspec.convert(
            {
                "metadata": {"name": name, "creationTimestamp": "2026-01-01T11:00:00Z"},
                "status": {"conditions": [{"type": "Ready", "status": "True"}]},
            },
            Node,
        )
        waiting = {type_: Finding(Health.UNKNOWN, "InspectionFailed", "Waiting for a Node") for type_ in well}
        return ObservedMachine(
            made,
            node=its_node if node else None,
            findings={**(well if node else waiting), **(findings or {})},
            outdated=tuple(Outdated(message) for message in outdated),
        )

    return build


@pytest.fixture
def observe(machine: Callable[..., ObservedMachine]) -> Callable[..., Observation]:
    """Builds what is observed of an initialized control plane with these Machines (three healthy ones unless given), each with its member."""

    def build(
        *machines: ObservedMachine,
        empty: bool = False,
        replicas: int | None = 3,
        initialized: bool = True,
        told: Conditions | None = None,
        members: Sequence[Member] | None = None,
        ring: Ring | Unknown | None = None,
        etcd_managed: bool = True,
        connection: Connection | None = None,
        deleted: datetime | None = None,
        workers: Sequence[str] = (),
        certificates: Certificates | None = None,
        annotations: Mapping[str, str] | None = None,
        nodes: Sequence[Node] | None = None,
        status: Mapping[str, Any] | None = None,
        view: Mapping[str, Any] | None = None,
        marks: Mapping[str, Mapping[str, Any]] | None = None,
        **observation: Any,
    ) -> Observation:
        machines = machines or (() if empty else (machine("cp-0"), machine("cp-1"), machine("cp-2")))
        given = {"Initialized": ("True", "", NOON - HOUR)} if initialized else {}
        kcp = _kcp(replicas, deleted, annotations or {}, {**given, **(told or {})}, status or {})
        if members is None:
            members = [Member(number, m.name, Health.GOOD) for number, m in enumerate(machines, 1) if m.node]
        by_name = {member.name: member.id for member in members}
        seen = ring if ring is not None else Ring(tuple(members), leader=1)
        pure = ControlPlane(
            name="demo",
            desired=Desired(replicas or 0, Version.parse("v1.34.4"), etcd_managed=etcd_managed),
            replicas=tuple(replace(_replica(m, by_name.get(m.name, Absent())), **(marks or {}).get(m.name, {})) for m in machines),
            ring=seen,
            initialized=initialized,
            workload=Finding(Health.GOOD, "Connected"),
            endpoint="10.0.0.1:6443",
            certificates=certificates or Certificates(),
            deletion=Deletion(deleted, tuple(workers)) if deleted else None,
        )
        return Observation(
            kcp=kcp,
            cluster=msgspec.convert({"metadata": {"name": "demo", "namespace": "default"}}, Cluster),
            machines=machines,
            connection=connection or Connection(Health.GOOD, "", NOON),
            ring=seen,
            nodes=tuple(nodes) if nodes is not None else tuple(m.node for m in machines if m.node),
            initialized=initialized,
            view=replace(pure, **(view or {})),
            **observation,
        )

    return build


def _kcp(
    replicas: int | None, deleted: datetime | None, annotations: Mapping[str, str], told: Conditions, status: Mapping[str, Any]
) -> KubeadmControlPlane:
    reference = {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DevMachineTemplate", "name": "demo"}
    spec = {"version": "v1.34.4", "replicas": replicas, "machineTemplate": {"spec": {"infrastructureRef": reference}}}
    metadata = {"name": "demo", "namespace": "default", "generation": 7, "annotations": dict(annotations)}
    kcp = msgspec.convert({"metadata": metadata, "spec": spec, "status": status}, KubeadmControlPlane)
    return msgspec.structs.replace(
        kcp,
        metadata=msgspec.structs.replace(kcp.metadata, deletion_timestamp=deleted),
        status=msgspec.structs.replace(kcp.status, conditions=[*kcp.status.conditions, *conditions(told)]),
    )


def _replica(observed: ObservedMachine, member: int | Absent | Unknown) -> Replica:
    metadata = observed.machine.metadata
    return Replica(
        name=observed.name,
        version=observed.machine.spec.version,
        created=metadata.creation_timestamp or NOON,
        member=member,
        node=observed.node.metadata.name if observed.node else None,
        outdated=tuple(way.message for way in observed.outdated),
        component_findings=tuple((str(kind), observed.findings[kind]) for kind in COMPONENTS if kind in observed.findings),
        deleting_since=metadata.deletion_timestamp,
        unhealthy={"HealthCheckSucceeded", "OwnerRemediated"}
        <= {c.type for c in observed.machine.status.conditions if c.status == "False"},
    )


@pytest.fixture
def apply() -> Callable[[Observation, Report], Observation]:
    """Writes a report to what was observed, as the API server would keep it."""

    def build(observation: Observation, report: Report) -> Observation:
        kcp = msgspec.convert({"metadata": {"name": "x"}, "spec": _SPEC, "status": report.status}, KubeadmControlPlane)
        machines = tuple(_with_conditions(observed, report) for observed in observation.machines)
        return replace(observation, kcp=msgspec.structs.replace(observation.kcp, status=kcp.status), machines=machines)

    return build


_SPEC = {"version": "v1", "machineTemplate": {"spec": {"infrastructureRef": {"apiGroup": "a", "kind": "b", "name": "c"}}}}


def _with_conditions(observed: ObservedMachine, report: Report) -> ObservedMachine:
    written = report.machine_conditions.get(observed.name)
    if written is None:
        return observed
    status = observed.machine.status
    present = written.over(map(as_dict, status.conditions))
    legacy = written.legacy_over(map(legacy_as_dict, status.deprecated.v1beta1.conditions))
    document = {
        "metadata": {"name": "x"},
        "status": {"conditions": present, "deprecated": {"v1beta1": {"conditions": legacy}}},
    }
    new = msgspec.convert(document, Machine).status
    return replace(
        observed,
        machine=msgspec.structs.replace(
            observed.machine, status=msgspec.structs.replace(status, conditions=new.conditions, deprecated=new.deprecated)
        ),
    )
