"""The status as a whole: counters, versions, what is latched, what is rolled up, Paused, Stalled and events."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from quorate.clusterapi.observation import Observation, ObservedMachine
from quorate.clusterapi.report import EventToSend, Report, report
from quorate.core import checks
from quorate.core.checks import failed
from quorate.core.control_plane import Certificates
from quorate.core.decide import Decision
from quorate.core.steps import CreateReplica, DeleteAll, DeleteReplica, EnsureCertificates, RemoveMember, Step

Build = Callable[..., Observation]
BuildMachine = Callable[..., ObservedMachine]
IN_PROGRESS = "controlplane.cluster.x-k8s.io/remediation-in-progress"
REMEDIATION_FOR = "controlplane.cluster.x-k8s.io/remediation-for"


def condition(answer: Report, type_: str) -> dict[str, Any]:
    return next((c for c in answer.status["conditions"] if c["type"] == type_), {})


def brief(answer: Report, type_: str) -> tuple[str, str, str]:
    found = condition(answer, type_)
    return found["status"], found["reason"], found["message"]


def test_a_healthy_control_plane_whole(observe: Build, idle: Decision, noon: datetime) -> None:
    status = report(observe(), idle, now=noon).status
    assert [(c["type"], c["status"]) for c in status["conditions"]] == [
        ("Available", "True"),
        ("CertificatesAvailable", "True"),
        ("Initialized", "True"),
        ("EtcdClusterHealthy", "True"),
        ("ControlPlaneComponentsHealthy", "True"),
        ("RollingOut", "False"),
        ("Remediating", "False"),
        ("ScalingDown", "False"),
        ("ScalingUp", "False"),
        ("MachinesReady", "True"),
        ("MachinesUpToDate", "True"),
        ("Paused", "False"),
        ("Deleting", "False"),
    ]
    assert {c["observedGeneration"] for c in status["conditions"]} == {7}
    del status["conditions"], status["deprecated"]
    assert status == {
        "selector": "cluster.x-k8s.io/cluster-name=demo,cluster.x-k8s.io/control-plane",
        "replicas": 3,
        "readyReplicas": 3,
        "availableReplicas": 3,
        "upToDateReplicas": 3,
        "initialization": {"controlPlaneInitialized": True},
        "versions": [{"version": "v1.34.4", "replicas": 3}],
        "version": "v1.34.4",
        "observedGeneration": 7,
    }


def test_replicas_are_counted_by_their_conditions(observe: Build, machine: BuildMachine, idle: Decision, noon: datetime) -> None:
    unready = machine("cp-0", told={"Ready": ("False", "", noon), "Available": ("Unknown", "", noon)})
    status = report(observe(unready, machine("cp-1", outdated=["old"]), machine("cp-2")), idle, now=noon).status
    counts = [status[name] for name in ("replicas", "readyReplicas", "availableReplicas", "upToDateReplicas")]
    assert counts == [3, 2, 2, 2]


def test_without_machines_the_last_version_stays(observe: Build, idle: Decision, noon: datetime) -> None:
    kept = report(observe(empty=True, status={"version": "v1.30.0", "versions": [{"version": "v1.30.0"}]}), idle, now=noon).status
    assert kept["version"] == "v1.30.0"
    assert "versions" not in kept
    assert kept["replicas"] == 0


def test_versions_are_ordered_as_versions_and_kubelets_know_better(
    observe: Build, machine: BuildMachine, idle: Decision, noon: datetime
) -> None:
    kubelets = ["v1.9.0", "v1.34.4+b", "v1.34.4+a", "nonsense", "v1.34.4-rc.1", ""]
    machines = [machine(f"cp-{n}", nodeInfo={"kubeletVersion": kubelet}) for n, kubelet in enumerate(kubelets)]
    status = report(observe(*machines), idle, now=noon).status
    ordered = ["v1.9.0", "v1.34.4-rc.1", "v1.34.4", "v1.34.4+a", "v1.34.4+b", "nonsense"]
    assert [entry["version"] for entry in status["versions"]] == ordered
    assert status["version"] == "v1.9.0"


def test_initialized_is_what_was_observed(observe: Build, idle: Decision, noon: datetime) -> None:
    before = report(observe(initialized=False), idle, now=noon)
    assert brief(before, "Initialized") == ("False", "NotInitialized", "")
    assert "initialization" not in before.status
    after = report(observe(), idle, now=noon)
    assert brief(after, "Initialized") == ("True", "Initialized", "")


def test_certificates(observe: Build, idle: Decision, noon: datetime) -> None:
    assert brief(report(observe(), idle, now=noon), "CertificatesAvailable") == ("True", "Available", "")
    missing = report(observe(certificates=Certificates(missing=("sa", "ca"))), idle, now=noon)
    assert brief(missing, "CertificatesAvailable") == ("False", "NotAvailable", "Missing: ca, sa")
    unreadable = report(observe(certificates=Certificates(problem="Secret demo-ca has no key")), idle, now=noon)
    assert brief(unreadable, "CertificatesAvailable") == ("Unknown", "InternalError", "Secret demo-ca has no key")


# Rolled up from the Machines.


def test_rolling_out_names_versions_first_and_each_reason_once(
    observe: Build, machine: BuildMachine, idle: Decision, noon: datetime
) -> None:
    first = machine("cp-0", outdated=["KubeadmConfig is not up-to-date", "Version v1.33.0, v1.34.4 required"])
    second = machine("cp-1", outdated=["KubeadmConfig is not up-to-date", "DevMachine is not up-to-date"])
    answer = report(observe(first, second, machine("cp-2")), idle, now=noon)
    message = (
        "Rolling out 2 replicas not up to date\n* Version v1.33.0, v1.34.4 required\n"
        "* DevMachine is not up-to-date\n* KubeadmConfig is not up-to-date"
    )
    assert brief(answer, "RollingOut") == ("True", "RollingOut", message)
    assert brief(answer, "MachinesUpToDate")[:2] == ("False", "NotUpToDate")


def test_without_machines_all_are_ready_and_up_to_date(observe: Build, idle: Decision, noon: datetime) -> None:
    answer = report(observe(empty=True), idle, now=noon)
    assert brief(answer, "MachinesReady") == ("True", "NoReplicas", "")
    assert brief(answer, "MachinesUpToDate") == ("True", "NoReplicas", "")
    assert brief(answer, "RollingOut") == ("False", "NotRollingOut", "")


def test_machines_ready_tells_who_is_not(observe: Build, machine: BuildMachine, idle: Decision, noon: datetime) -> None:
    unready = machine("cp-0", told={"Ready": ("False", "* NodeHealthy: gone", noon)})
    silent = machine("cp-1")
    silent.machine.status.conditions.clear()
    assert brief(report(observe(unready, silent), idle, now=noon), "MachinesReady") == (
        "False",
        "NotReady",
        "* Machine cp-0:\n  * NodeHealthy: gone\n* Machine cp-1: Condition Ready not reported yet",
    )
    assert brief(report(observe(silent), idle, now=noon), "MachinesReady")[:2] == ("Unknown", "ReadyUnknown")


def test_a_young_machine_is_known_to_be_up_to_date_at_once(observe: Build, machine: BuildMachine, idle: Decision, noon: datetime) -> None:
    answer = report(observe(machine("cp-0"), machine("cp-new", node=False)), idle, now=noon)
    assert brief(answer, "MachinesUpToDate") == ("True", "UpToDate", "")


def test_remediating(observe: Build, machine: BuildMachine, idle: Decision, noon: datetime) -> None:
    ill = {"HealthCheckSucceeded": ("False", "", noon)}
    ours = machine("cp-0", told={**ill, "OwnerRemediated": ("False", "waiting", noon)})
    others = [machine(name, told=ill) for name in ("cp-2", "cp-1")]
    assert brief(report(observe(), idle, now=noon), "Remediating") == ("False", "NotRemediating", "")
    assert brief(report(observe(ours, *others), idle, now=noon), "Remediating") == ("True", "Remediating", "* Machine cp-0: waiting")
    one, two = (brief(report(observe(*others[:count]), idle, now=noon), "Remediating") for count in (1, 2))
    assert one == ("False", "NotRemediating", "Machine cp-2 is not healthy, and not this KubeadmControlPlane's to remediate")
    assert two[2] == "Machines cp-1, cp-2 are not healthy, and not this KubeadmControlPlane's to remediate"


# The last remediation.


def remediated(name: str, hour: int) -> str:
    return f'{{"machine":"{name}","timestamp":"2026-01-01T{hour:02}:00:00Z","retryCount":{hour}}}'


def test_no_remediation(observe: Build, idle: Decision, noon: datetime) -> None:
    assert "lastRemediation" not in report(observe(), idle, now=noon).status


def test_the_newest_remediation_of_the_machines_counts(observe: Build, machine: BuildMachine, idle: Decision, noon: datetime) -> None:
    machines = [machine(f"cp-{hour}", annotations={REMEDIATION_FOR: remediated(f"old-{hour}", hour)}) for hour in (3, 9, 5)]
    status = report(observe(*machines), idle, now=noon).status
    assert status["lastRemediation"] == {"machine": "old-9", "time": "2026-01-01T09:00:00Z", "retryCount": 9}


def test_a_remediation_under_way_counts_before_all_others(observe: Build, machine: BuildMachine, idle: Decision, noon: datetime) -> None:
    done = machine("cp-0", annotations={REMEDIATION_FOR: remediated("old", 3)})
    status = report(observe(done, annotations={IN_PROGRESS: remediated("now", 4)}), idle, now=noon).status
    assert status["lastRemediation"]["machine"] == "now"


@pytest.mark.parametrize("text", ["{", "{}", '{"machine":"a","timestamp":"2026-01-01T00:00:00"}'])
def test_a_remediation_that_cannot_be_read_leaves_the_last_one(observe: Build, idle: Decision, noon: datetime, text: str) -> None:
    last = {"machine": "old", "time": "2026-01-01T03:00:00Z", "retryCount": 0}
    status = report(observe(annotations={IN_PROGRESS: text}, status={"lastRemediation": last}), idle, now=noon).status
    assert status["lastRemediation"] == last


# Errors, stalls, pauses.


def test_an_error_keeps_the_generation_and_stalls(observe: Build, idle: Decision, noon: datetime) -> None:
    answer = report(observe(status={"observedGeneration": 6}), idle, error="etcd: no leader", now=noon)
    assert answer.status["observedGeneration"] == 6
    assert brief(answer, "Stalled") == ("True", "ReconcileError", "etcd: no leader")
    assert "observedGeneration" not in report(observe(), idle, error="etcd: no leader", now=noon).status


def test_stalled_says_what_somebody_has_to_do(observe: Build, noon: datetime) -> None:
    asks = (
        failed("all control-plane Machines are ours", "not controlled: cp-9", "Delete these Machines."),
        failed("the topology's version has arrived", "waiting"),
        failed("another check", "bad too", "Mend it."),
    )
    answer = report(observe(), Decision("nothing to do", None, asks, None), now=noon)
    message = "not controlled: cp-9. Delete these Machines.\nbad too. Mend it."
    assert brief(answer, "Stalled") == ("True", "AllControlPlaneMachinesAreOurs", message)


def test_nothing_is_stalled_while_there_is_a_step_or_time_will_tell(observe: Build, noon: datetime) -> None:
    told = {"Stalled": ("True", "of old", noon)}
    asks = (failed("a check", "bad", "Mend it."),)
    busy = Decision("scale up", CreateReplica("", initialize=False), asks, None)
    assert condition(report(observe(told=told), busy, now=noon), "Stalled") == {}
    waiting = Decision("nothing to do", None, (failed("a check", "not yet"),), None)
    assert condition(report(observe(told=told), waiting, now=noon), "Stalled") == {}


def test_the_reason_is_the_checks_name_in_camel_case(observe: Build, noon: datetime) -> None:
    asks = (failed("the cluster's infrastructure is provisioned", "no", "Provision it."),)
    answer = report(observe(), Decision("nothing to do", None, asks, None), now=noon)
    assert condition(answer, "Stalled")["reason"] == "TheClustersInfrastructureIsProvisioned"


def test_a_pause_changes_paused_and_nothing_else(observe: Build, idle: Decision, noon: datetime) -> None:
    told = {"Available": ("False", "as it was", noon), "Stalled": ("True", "as it was", noon)}
    status = {"replicas": 9, "observedGeneration": 3, "deprecated": {"v1beta1": {"readyReplicas": 0}}}
    paused = observe(told=told, status=status, view={"paused": "Cluster spec.paused"})
    answer = report(paused, idle, error="x", now=noon)
    assert brief(answer, "Paused") == ("True", "Paused", "Paused by Cluster spec.paused")
    assert condition(answer, "Available")["message"] == condition(answer, "Stalled")["message"] == "as it was"
    assert {name: answer.status[name] for name in status} == status
    assert (answer.machine_conditions, answer.wake_at, answer.events) == ({}, None, ())


def test_others_conditions_stay(observe: Build, idle: Decision, noon: datetime) -> None:
    answer = report(observe(told={"example.com/Audited": ("True", "by us", noon)}), idle, now=noon)
    assert condition(answer, "example.com/Audited")["message"] == "by us"


def test_a_control_plane_without_a_cluster_cannot_be_reported(observe: Build, idle: Decision, noon: datetime) -> None:
    seen = observe()
    orphan = Observation(seen.kcp, None, (), seen.connection, seen.ring)
    with pytest.raises(ValueError, match="KubeadmControlPlane default/demo has no Cluster"):
        report(orphan, idle, now=noon)


# Events.


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        (CreateReplica("", initialize=True), "FailedInitialization"),
        (CreateReplica("", initialize=False), "FailedScaleUp"),
        (DeleteReplica("cp-0"), "FailedScaleDown"),
        (DeleteAll(("cp-0",)), "FailedDelete"),
        (RemoveMember("cp-0", 1), None),
        (EnsureCertificates(("ca",)), None),
        (None, None),
    ],
)
def test_a_failed_step_is_an_event(observe: Build, noon: datetime, step: Step | None, reason: str | None) -> None:
    answer = report(observe(), Decision("rule", step, (), None), error="no", now=noon)
    assert answer.events == ((EventToSend("Warning", reason, "no"),) if reason else ())
    assert report(observe(), Decision("rule", step, (), None), now=noon).events == ()


def test_an_ill_control_plane_that_blocks_is_an_event(observe: Build, noon: datetime) -> None:
    ills = (failed(checks.COMPONENTS_HEALTHY, "cp-1 is ill"), failed(checks.MEMBERS_HEALTHY, "member cp-1 is ill"))
    answer = report(observe(), Decision("nothing to do", None, ills, None), now=noon)
    assert answer.events == (EventToSend("Warning", "ControlPlaneUnhealthy", "cp-1 is ill; member cp-1 is ill"),)
    assert report(observe(), Decision("rule", DeleteReplica("cp-1"), ills, None), now=noon).events == ()


def test_time_zones_do_not_show(observe: Build, idle: Decision, noon: datetime) -> None:
    elsewhere = noon.astimezone(tz=None) + timedelta(0)
    assert report(observe(), idle, now=elsewhere) == report(observe(), idle, now=noon)
