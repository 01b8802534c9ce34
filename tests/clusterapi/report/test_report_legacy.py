"""What v1beta1 readers see: latches, severities and counters."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import msgspec
import pytest

from quorate.clusterapi.observe.observation import Connection, Observation, ObservedMachine
from quorate.clusterapi.report import Report, report
from quorate.clusterapi.types.conditions import LegacyCondition
from quorate.clusterapi.types.names import LegacyReason
from quorate.core.checks import failed as refusal
from quorate.core.health import Finding, Health, Unknown
from quorate.core.machines.checks import TEMPLATE
from quorate.core.machines.decide import Decision
from quorate.core.machines.state import Certificates
from quorate.core.machines.steps import CreateReplica

Build = Callable[..., Observation]
BuildMachine = Callable[..., ObservedMachine]
Told = tuple[str, str, str]


def legacy(answer: Report) -> dict[str, Any]:
    found: dict[str, Any] = answer.status["deprecated"]["v1beta1"]
    return found


def told(answer: Report, type_: str) -> Told | None:
    """Status, reason and severity."""
    found = next((c for c in legacy(answer)["conditions"] if c["type"] == type_), None)
    return found and (found["status"], found.get("reason", ""), found.get("severity", ""))


def before(*conditions: tuple[str, str]) -> dict[str, Any]:
    since = "2026-01-01T11:00:00Z"
    given = [{"type": type_, "status": status, "lastTransitionTime": since} for type_, status in conditions]
    return {"deprecated": {"v1beta1": {"conditions": given}}}


def saying(observed: ObservedMachine, *ready: LegacyCondition) -> ObservedMachine:
    deprecated = msgspec.structs.replace(
        observed.machine.status.deprecated,
        v1beta1=msgspec.structs.replace(observed.machine.status.deprecated.v1beta1, conditions=list(ready)),
    )
    status = msgspec.structs.replace(observed.machine.status, deprecated=deprecated)
    fields = {name: getattr(observed, name) for name in observed.__slots__}
    return ObservedMachine(**(fields | {"machine": msgspec.structs.replace(observed.machine, status=status)}))


def test_a_healthy_control_plane(observe: Build, idle: Decision, noon: datetime) -> None:
    answer = report(observe(), idle, now=noon)
    assert [(c["type"], c["status"]) for c in legacy(answer)["conditions"]] == [
        ("Ready", "True"),
        ("Available", "True"),
        ("CertificatesAvailable", "True"),
        ("ControlPlaneComponentsHealthy", "True"),
        ("EtcdClusterHealthy", "True"),
        ("MachinesCreated", "True"),
        ("Resized", "True"),
    ]
    assert [legacy(answer)[name] for name in ("updatedReplicas", "readyReplicas", "unavailableReplicas")] == [3, 3, 0]


def test_available_is_a_latch(observe: Build, idle: Decision, noon: datetime) -> None:
    waiting = report(observe(initialized=False), idle, now=noon)
    assert told(waiting, "Available") == ("False", "WaitingForKubeadmInit", "Info")
    latched = report(observe(initialized=False, status=before(("Available", "True"))), idle, now=noon)
    assert told(latched, "Available") == ("True", "", "")


@pytest.mark.parametrize(
    ("certificates", "initialized", "severity"),
    [
        (Certificates(problem="cannot read"), True, "Warning"),
        (Certificates(missing=("ca",)), True, "Error"),
        (Certificates(missing=("ca",)), False, "Warning"),
    ],
)
def test_certificates(observe: Build, idle: Decision, noon: datetime, certificates: Certificates, initialized: bool, severity: str) -> None:
    answer = report(observe(certificates=certificates, initialized=initialized), idle, now=noon)
    assert told(answer, "CertificatesAvailable") == ("False", "CertificatesGenerationFailed", severity)


def test_spec_up_to_date_is_true_only_after_a_rollout(observe: Build, machine: BuildMachine, idle: Decision, noon: datetime) -> None:
    rolling = report(observe(machine("cp-0", outdated=["old"]), machine("cp-1")), idle, now=noon)
    assert told(rolling, "MachinesSpecUpToDate") == ("False", "RollingUpdateInProgress", "Warning")
    assert legacy(rolling)["updatedReplicas"] == 1
    assert told(report(observe(), idle, now=noon), "MachinesSpecUpToDate") is None
    leaving = report(observe(machine("cp-0", outdated=["old"], deleted=noon), machine("cp-1")), idle, now=noon)
    assert told(leaving, "MachinesSpecUpToDate") is None
    done = report(observe(status=before(("MachinesSpecUpToDate", "False"))), idle, now=noon)
    assert told(done, "MachinesSpecUpToDate") == ("True", "", "")


def test_machines_created(observe: Build, idle: Decision, noon: datetime) -> None:
    creating = Decision("scale up", CreateReplica("", initialize=False), (), None)
    failed = report(observe(replicas=5), creating, error="quota", now=noon)
    assert told(failed, "MachinesCreated") == ("False", "MachineGenerationFailed", "Error")
    assert told(failed, "Ready") == ("False", "MachineGenerationFailed", "Error")
    for part in (LegacyReason.INFRASTRUCTURE_TEMPLATE_CLONING_FAILED, LegacyReason.BOOTSTRAP_TEMPLATE_CLONING_FAILED):
        cloning = report(observe(replicas=5), creating, error="quota", creation_failed=part, now=noon)
        assert told(cloning, "MachinesCreated") == ("False", part, "Error")
    refused = Decision("nothing to do", None, (refusal(TEMPLATE, "DevMachineTemplate demo does not exist"),), None)
    without_template = report(observe(replicas=5), refused, now=noon)
    assert told(without_template, "MachinesCreated") == ("False", "InfrastructureTemplateCloningFailed", "Error")
    assert told(report(observe(replicas=5), idle, now=noon), "MachinesCreated") is None
    assert told(report(observe(deleted=noon), idle, now=noon), "MachinesCreated") is None
    not_ready = observe(connection=Connection(Health.BAD, "down", noon), ring=Unknown("down"))
    assert told(report(not_ready, idle, now=noon), "MachinesCreated") == ("True", "", "")


def test_resized(observe: Build, machine: BuildMachine, idle: Decision, noon: datetime) -> None:
    assert told(report(observe(replicas=5), idle, now=noon), "Resized") == ("False", "ScalingUp", "Warning")
    assert told(report(observe(replicas=1), idle, now=noon), "Resized") == ("False", "ScalingDown", "Warning")
    unready = machine("cp-0", told={"Ready": ("False", "", noon)})
    assert told(report(observe(unready, replicas=1), idle, now=noon), "Resized") is None
    still = report(observe(unready, replicas=1, status=before(("Resized", "False"))), idle, now=noon)
    assert told(still, "Resized") == ("False", "", "")
    assert told(report(observe(deleted=noon), idle, now=noon), "Resized") == ("False", "Deleting", "Info")


def test_machines_ready_is_the_worst_with_its_source(observe: Build, machine: BuildMachine, idle: Decision, noon: datetime) -> None:
    warning, error, bare = (
        LegacyCondition(type="Ready", status="False", severity=severity, reason=reason, last_transition_time=noon)
        for severity, reason in (("Warning", "Slow"), ("Error", "Dead @ DevMachine/x"), ("", "NoSeverity"))
    )
    machines = [saying(machine("cp-1"), warning), saying(machine("cp-0"), warning), saying(machine("cp-2"), bare)]
    answer = report(observe(*machines), idle, now=noon)
    assert told(answer, "MachinesReady") == ("False", "Slow @ Machine/cp-0", "Warning")
    assert told(answer, "Ready") == ("False", "Slow @ Machine/cp-0", "Warning")
    worse = report(observe(*machines[:2], saying(machine("cp-2"), error)), idle, now=noon)
    assert told(worse, "MachinesReady") == ("False", "Dead @ DevMachine/x", "Error")
    assert told(report(observe(), idle, now=noon), "MachinesReady") is None


@pytest.mark.parametrize(
    ("finding", "expected"),
    [
        (Finding(Health.BAD, "Failed"), ("False", "ControlPlaneComponentsUnhealthy", "Error")),
        (Finding(Health.BAD, "Provisioning"), ("False", "ControlPlaneComponentsUnhealthy", "Info")),
        (Finding(Health.UNKNOWN, "InspectionFailed"), ("True", "", "")),
    ],
)
def test_components_say_the_worst_of_the_machines_and_unknown_is_least(
    observe: Build, machine: BuildMachine, idle: Decision, noon: datetime, finding: Finding, expected: Told
) -> None:
    ill = machine("cp-0", findings={"SchedulerPodHealthy": finding})
    assert told(report(observe(ill, machine("cp-1")), idle, now=noon), "ControlPlaneComponentsHealthy") == expected


def test_etcd_that_nobody_knows_is_unknown(observe: Build, machine: BuildMachine, idle: Decision, noon: datetime) -> None:
    blind = machine("cp-0", findings={"EtcdMemberHealthy": Finding(Health.UNKNOWN, "InspectionFailed")})
    answer = report(observe(blind), idle, now=noon)
    assert told(answer, "EtcdClusterHealthy") == ("Unknown", "EtcdClusterUnknown", "")


def test_external_etcd_is_healthy_to_v1beta1_readers_unless_it_is_known_to_be_ill(observe: Build, idle: Decision, noon: datetime) -> None:
    ill = Finding(Health.BAD, "NotHealthy", "API server cp-0 cannot reach etcd")
    answer = report(observe(etcd_managed=False, view={"external_etcd": ill}), idle, now=noon)
    assert told(answer, "EtcdClusterHealthy") == ("False", "EtcdClusterUnhealthy", "Error")
    assert told(report(observe(etcd_managed=False, initialized=False), idle, now=noon), "EtcdClusterHealthy") == ("True", "", "")


def test_health_stays_as_it_was_without_a_connection(observe: Build, idle: Decision, noon: datetime) -> None:
    lost = observe(connection=Connection(Health.BAD, "down", noon), status=before(("EtcdClusterHealthy", "False")))
    assert told(report(lost, idle, now=noon), "EtcdClusterHealthy") == ("False", "", "")


def test_ready_nodes_are_not_counted_while_deleting(observe: Build, machine: BuildMachine, idle: Decision, noon: datetime) -> None:
    gone = report(observe(deleted=noon), idle, now=noon)
    assert [legacy(gone)[name] for name in ("readyReplicas", "unavailableReplicas")] == [0, 3]
    some = report(observe(machine("cp-0"), machine("cp-1", node=False)), idle, now=noon)
    assert [legacy(some)[name] for name in ("readyReplicas", "unavailableReplicas")] == [1, 1]


# Upstream's cases of the status as a whole: what all readers of v1beta1 and v1beta2 count.


@pytest.mark.parametrize(
    ("ready", "counted", "resized"),
    [
        pytest.param((), {"replicas": 0, "readyReplicas": 0, "availableReplicas": 0}, ("False", "ScalingUp", "Warning"), id="no machines"),
        pytest.param((False,) * 3, {"replicas": 3, "readyReplicas": 0, "availableReplicas": 0}, None, id="all machines not ready"),
        pytest.param((True,) * 3, {"replicas": 3, "readyReplicas": 3, "availableReplicas": 3}, ("True", "", ""), id="all machines ready"),
        pytest.param((True, False, True), {"replicas": 3, "readyReplicas": 2, "availableReplicas": 2}, None, id="mixed readiness"),
    ],
)
def test_the_status_counts_what_is_ready(
    observe: Build,
    machine: BuildMachine,
    idle: Decision,
    noon: datetime,
    ready: tuple[bool, ...],
    counted: dict[str, int],
    resized: Told | None,
) -> None:
    states = {True: "True", False: "False"}
    machines = [machine(f"cp-{n}", told=dict.fromkeys(("Ready", "Available"), (states[well], "", noon))) for n, well in enumerate(ready)]
    answer = report(observe(*machines, empty=not machines), idle, now=noon)
    assert {name: answer.status[name] for name in counted} == counted
    assert told(answer, "Resized") == resized
    assert told(answer, "MachinesCreated") == (("True", "", "") if machines else None)
    assert told(answer, "Available") == ("True", "", "")
