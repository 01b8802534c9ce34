"""The report of one pass, put together: the control plane's status, the conditions of its Machines, events, and when time alone will change any of them.

Source: cluster-api, controlplane/kubeadm/reconcilers/kubeadmcontrolplane/status.go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import msgspec

from quorate.clusterapi.observe.observation import Observation
from quorate.clusterapi.report import availability, components, lifecycle, rollup, scaling
from quorate.clusterapi.report.conditions import TRUE, Condition, as_dict, merge_conditions
from quorate.clusterapi.report.events import EventToSend, events
from quorate.clusterapi.report.facts import Facts
from quorate.clusterapi.report.legacy import deprecated
from quorate.clusterapi.report.machines import MachineConditions, MachineReport, report_machine
from quorate.clusterapi.report.remediation import last_remediation
from quorate.clusterapi.types.machine import Machine
from quorate.clusterapi.types.names import Label, LegacyReason, MachineCondition
from quorate.core.machines.decide import Decision
from quorate.core.versions import Version, parse_or_none

GRACE = timedelta(minutes=5)
"""How long conditions outlive the connection that they were learned through, unless told otherwise."""

Status = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Report:
    """What one pass writes and says."""

    status: Status  # of the KubeadmControlPlane, complete, with JSON names
    machine_conditions: Mapping[str, MachineConditions]  # by the Machine's name
    wake_at: datetime | None  # when time alone will change the report
    events: tuple[EventToSend, ...]


def report(
    observation: Observation,
    decision: Decision,
    *,
    error: str = "",
    refused: bool = False,
    creation_failed: LegacyReason | None = None,
    now: datetime,
    grace: timedelta = GRACE,
) -> Report:
    """What is to be written after a pass that observed this, decided that, and failed with `error` if that is not empty.

    `refused` says that the error is a refusal of the last look before the step, `creation_failed` of which part of a Machine's creation it is.
    Pure, and stable: reporting what was written from an earlier report changes nothing before `wake_at`. Raises ValueError for a control plane without
    a Cluster, of which nothing can be said. A paused one keeps its status as it is, apart from Paused.
    """
    if observation.view is None or observation.cluster is None:
        metadata = observation.kcp.metadata
        raise ValueError(
            f"KubeadmControlPlane {metadata.namespace}/{metadata.name} has no Cluster: there is nothing to report until one owns it"
        )
    facts = Facts(observation, observation.view, observation.cluster.metadata.name, decision, error, now, grace, refused, creation_failed)
    if facts.view.paused:
        return Report(_paused_status(facts), {}, None, ())
    machines = tuple(report_machine(facts, observed) for observed in observation.machines)
    conditions, wakes = _conditions(facts, machines)
    written = {machine.name: machine.ours for machine in machines}
    return Report(_status(facts, machines, conditions), written, min(wakes, default=None), events(facts))


def _paused_status(facts: Facts) -> Status:
    status: Status = msgspec.to_builtins(facts.kcp.status)
    existing = [as_dict(condition) for condition in facts.kcp.status.conditions]
    status["conditions"] = merge_conditions(existing, [lifecycle.paused(facts)])
    return status


def _conditions(facts: Facts, machines: Sequence[MachineReport]) -> tuple[list[Condition], list[datetime]]:
    """The control plane's own conditions, and when time alone will change one of them or of the Machines'."""
    initialized, certificates = lifecycle.initialized(facts), lifecycle.certificates_available(facts)
    available = availability.available(facts, machines, initialized, certificates)
    stalled = lifecycle.stalled(facts)
    conditions = [
        available,
        certificates,
        initialized,
        *([components.etcd_cluster_healthy(facts, machines)] if facts.etcd_managed or facts.view.external_etcd else []),
        components.components_healthy(facts, machines),
        rollup.rolling_out(facts, machines),
        rollup.remediating(facts, machines),
        scaling.scaling_down(facts),
        scaling.scaling_up(facts),
        rollup.machines_ready(facts, machines),
        rollup.machines_up_to_date(facts, machines),
        *([stalled] if stalled else []),
        lifecycle.paused(facts),
        scaling.deleting(facts),
    ]
    wakes = [*availability.wakes(facts, machines, initialized, available), *scaling.wakes(facts)]
    wakes += [at] if (at := lifecycle.stalls_at(stalled)) else []
    wakes += [verdict.wake_at for verdict in facts.remediations if verdict.wake_at and verdict.wake_at > facts.now]
    return conditions, wakes + ([facts.wake_at] if facts.wake_at else [])


def _status(facts: Facts, machines: Sequence[MachineReport], conditions: list[Condition]) -> Status:
    before = facts.kcp.status
    versions = _versions([machine.observed.machine for machine in machines])
    others = [as_dict(condition) for condition in before.conditions if condition.type != lifecycle.STALLED]
    optional = {
        "initialization": {"controlPlaneInitialized": True} if facts.observation.initialized else {},
        "versions": versions,
        "version": versions[0]["version"] if versions else before.version,
        "observedGeneration": before.observed_generation if facts.error else facts.kcp.metadata.generation,
        "lastRemediation": last_remediation(facts) or msgspec.to_builtins(before.last_remediation),
    }
    return {
        "conditions": merge_conditions(others, conditions),
        "selector": f"{Label.CLUSTER_NAME}={facts.cluster},{Label.CONTROL_PLANE}",
        "replicas": len(machines),
        "readyReplicas": _count(machines, MachineCondition.READY),
        "availableReplicas": _count(machines, MachineCondition.AVAILABLE),
        "upToDateReplicas": _count(machines, MachineCondition.UP_TO_DATE),
        **{name: value for name, value in optional.items() if value},
        "deprecated": {"v1beta1": deprecated(facts, machines)},
    }


def _count(machines: Sequence[MachineReport], type_: MachineCondition) -> int:
    return sum(machine.status(type_) == TRUE for machine in machines)


def _versions(machines: Sequence[Machine]) -> list[dict[str, Any]]:
    """How many Machines run each version, oldest first; what its kubelet says goes before what the Machine asks for."""
    texts = [(machine.status.node_info and machine.status.node_info.kubelet_version) or machine.spec.version for machine in machines]
    counts = Counter(text for text in texts if text)
    return [{"version": text, "replicas": counts[text]} for text in sorted(counts, key=_version_order)]


def _version_order(text: str) -> tuple[bool, Version, str, str]:
    """By precedence, then by build metadata; what is not a version comes last."""
    version = parse_or_none(text)
    return version is None, version or Version(0, 0, 0), version.build if version else "", text
