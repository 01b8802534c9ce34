"""The status as a whole: counters, versions, what is latched, what is rolled up, Paused, Stalled and events."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from quorate.clusterapi.observe.observation import Observation, ObservedMachine
from quorate.clusterapi.report import EventToSend, Report, report
from quorate.core.checks import Check, failed, unknown
from quorate.core.health import Health
from quorate.core.machines import checks
from quorate.core.machines.checks import CERTIFICATES
from quorate.core.machines.decide import Decision
from quorate.core.machines.rules.guard import WORKLOAD_ANSWERS
from quorate.core.machines.rules.loss import NOBODY_COMING_UP
from quorate.core.machines.rules.maintenance import ADDONS, EXPIRIES, PREPARED
from quorate.core.machines.rules.orphans import IS_OF_NO_NEWCOMER
from quorate.core.machines.state import Adoptable, Certificates, Remediation
from quorate.core.machines.steps import (
    AdoptReplicas,
    CreateReplica,
    DeleteAll,
    DeleteReplica,
    EnsureCertificates,
    Remediate,
    RemoveMember,
    RemoveOrphan,
    Step,
)
from quorate.core.maintenance import Maintenance
from quorate.core.quorum import QUORUM_SURVIVES_REMOVAL
from quorate.core.ring import Member

Build = Callable[..., Observation]
BuildMachine = Callable[..., ObservedMachine]


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


def test_what_holds_up_a_rollout_is_told_once(observe: Build, machine: BuildMachine, noon: datetime) -> None:
    old = machine("cp-0", outdated=["DevMachine is not up-to-date"])
    refused = Decision("nothing to do", None, (failed(checks.MEMBERS_HEALTHY, "cp-1: no answer"),), None)
    headline = "Rolling out 1 replica not up to date\n* DevMachine is not up-to-date"
    held = report(observe(old, machine("cp-1"), machine("cp-2")), refused, now=noon)
    assert brief(held, "RollingOut")[2] == f"{headline}\nBlocked because:\n* cp-1: no answer"
    with_surge = report(observe(old, machine("cp-1"), machine("cp-2"), machine("cp-3")), refused, now=noon)
    assert brief(with_surge, "RollingOut")[2] == headline
    assert brief(with_surge, "ScalingDown")[2] == "Scaling down from 4 to 3 replicas is blocked because:\n* cp-1: no answer"


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


def test_remediating_lasts_until_the_replacement_exists(observe: Build, idle: Decision, noon: datetime) -> None:
    for record in ("remediation_intended", "remediating"):
        answer = report(observe(view={record: remediated("cp-9", 4)}), idle, now=noon)
        assert brief(answer, "Remediating") == ("True", "Remediating", "The replacement of Machine cp-9 does not exist yet")


def test_nothing_is_replaced_in_a_control_plane_that_goes(observe: Build, idle: Decision, noon: datetime) -> None:
    answer = report(observe(view={"remediating": remediated("cp-9", 4)}, deleted=noon), idle, now=noon)
    assert brief(answer, "Remediating") == ("False", "NotRemediating", "")


def test_a_record_that_cannot_be_read_is_named(observe: Build, idle: Decision, noon: datetime) -> None:
    answer = report(observe(view={"remediation_problem": "annotation x is no JSON"}), idle, now=noon)
    assert brief(answer, "Remediating") == ("Unknown", "InternalError", "annotation x is no JSON")


# The last remediation.


def remediated(name: str, hour: int) -> Remediation:
    return Remediation(name, datetime(2026, 1, 1, hour, tzinfo=UTC), hour)


def test_no_remediation(observe: Build, idle: Decision, noon: datetime) -> None:
    assert "lastRemediation" not in report(observe(), idle, now=noon).status


def test_the_newest_remediation_of_the_machines_counts(observe: Build, machine: BuildMachine, idle: Decision, noon: datetime) -> None:
    machines = [machine(f"cp-{hour}") for hour in (3, 9, 5)]
    marks = {f"cp-{hour}": {"replaces": remediated(f"old-{hour}", hour)} for hour in (3, 9, 5)}
    status = report(observe(*machines, marks=marks), idle, now=noon).status
    assert status["lastRemediation"] == {"machine": "old-9", "time": "2026-01-01T09:00:00Z", "retryCount": 9}


def test_a_remediation_under_way_counts_before_all_others(observe: Build, idle: Decision, noon: datetime) -> None:
    seen = observe(marks={"cp-0": {"replaces": remediated("old", 5)}}, view={"remediating": remediated("now", 4)})
    assert report(seen, idle, now=noon).status["lastRemediation"]["machine"] == "now"


@pytest.mark.parametrize("view", [{"remediation_problem": "no JSON"}, {"remediating": Remediation("a", None)}, {}])
def test_a_remediation_that_cannot_be_read_leaves_the_last_one(
    observe: Build, idle: Decision, noon: datetime, view: dict[str, Any]
) -> None:
    last = {"machine": "old", "time": "2026-01-01T03:00:00Z", "retryCount": 0}
    status = report(observe(view=view, status={"lastRemediation": last}), idle, now=noon).status
    assert status["lastRemediation"] == last


# Errors, stalls, pauses.


def test_an_error_keeps_the_generation_and_stalls_once_it_has_lasted_for_minutes(observe: Build, idle: Decision, noon: datetime) -> None:
    answer = report(observe(status={"observedGeneration": 6}), idle, error="etcd: no leader", now=noon)
    assert answer.status["observedGeneration"] == 6
    assert brief(answer, "Stalled") == ("False", "ReconcileError", "etcd: no leader")
    assert answer.wake_at == noon + timedelta(minutes=2)
    told = {"Stalled": ("False", "etcd: no leader", noon)}
    early = report(observe(told=told), idle, error="etcd: no leader", now=noon + timedelta(minutes=1))
    assert (brief(early, "Stalled")[0], early.wake_at) == ("False", noon + timedelta(minutes=2))
    late = report(observe(told=told), idle, error="etcd: no leader", now=noon + timedelta(minutes=2))
    assert brief(late, "Stalled")[0] == "True"
    lasting = {"Stalled": ("True", "etcd: no leader", noon)}
    assert brief(report(observe(told=lasting), idle, error="etcd: no leader", now=noon), "Stalled")[0] == "True"
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


@pytest.mark.parametrize(
    "check",
    [
        failed(QUORUM_SURVIVES_REMOVAL, "etcd cannot commit a change", "Bring the failed members back."),
        failed(WORKLOAD_ANSWERS, "connection refused", "Restore access to the workload cluster's API server."),
        unknown(CERTIFICATES, "Secret demo-ca could not be read", "Correct or delete the Secret."),
        failed(CERTIFICATES, "not supplied yet: etcd", "Create the Secrets."),
        failed(checks.TEMPLATE, "DevMachineTemplate default/small does not exist", "Create the template."),
        failed(checks.COMPONENTS_HEALTHY, "cp-1 has no Node any more", "Restart the kubelet of cp-1."),
        failed(NOBODY_COMING_UP, "cp-1 has no Node yet", "Restart the kubelet of cp-1."),
    ],
)
def test_what_an_election_a_restart_or_the_next_document_ends_is_no_stall_before_it_has_lasted_for_minutes(
    observe: Build, noon: datetime, check: Check
) -> None:
    decision = Decision("nothing to do", None, (check,), None)
    assert brief(report(observe(), decision, now=noon), "Stalled")[0] == "False"
    told = {"Stalled": ("False", "of before", noon)}
    assert brief(report(observe(told=told), decision, now=noon + timedelta(minutes=2)), "Stalled")[0] == "True"
    beside = Decision("nothing to do", None, (check, failed("the specification is valid", "even", "Correct it.")), None)
    assert brief(report(observe(), beside, now=noon), "Stalled")[0] == "True"


@pytest.mark.parametrize("name", [PREPARED, ADDONS, EXPIRIES])
def test_maintenance_of_the_workload_cluster_that_fails_is_a_stall_though_it_is_tried_again(
    observe: Build, noon: datetime, name: str
) -> None:
    asks = (failed(name, "the last attempt failed: CoreDNS v1.99.0 is not known"),)
    told = {"Stalled": ("False", "of before", noon - timedelta(minutes=2))}
    status, reason, message = brief(report(observe(told=told), Decision("nothing to do", None, asks, None), now=noon), "Stalled")
    assert (status, message) == ("True", "the last attempt failed: CoreDNS v1.99.0 is not known")
    assert reason.isalnum()


def test_an_orphan_member_says_whose_it_may_be(observe: Build, noon: datetime) -> None:
    members = [Member(number, f"cp-{number}", Health.GOOD) for number in range(4)]
    asks = (failed(IS_OF_NO_NEWCOMER, "cp-3 may be the member of cp-4"),)
    answer = report(observe(members=members), Decision("nothing to do", None, asks, None), now=noon)
    assert brief(answer, "EtcdClusterHealthy")[2] == "* etcd member cp-3 has no Machine\n* cp-3 may be the member of cp-4"


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
        (Remediate("cp-0", 0), "FailedRemediation"),
        (RemoveOrphan(7), "FailedMemberRemoval"),
        (AdoptReplicas(("cp-9",)), "AdoptionFailed"),
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


def test_a_machine_that_cannot_be_adopted_is_an_event(observe: Build, idle: Decision, noon: datetime) -> None:
    adoptable = (Adoptable("cp-8"), Adoptable("cp-9", "its version v1.30.0 is 4 minors away"))
    answer = report(observe(view={"adoptable": adoptable}), idle, now=noon)
    message = "Machine cp-9 cannot be adopted: its version v1.30.0 is 4 minors away"
    assert answer.events == (EventToSend("Warning", "AdoptionFailed", message),)
    assert report(observe(view={"adoptable": adoptable}, deleted=noon), idle, now=noon).events == ()


@pytest.mark.parametrize("part", ["preparation", "addons", "expiries"])
def test_maintenance_that_fails_is_an_event(observe: Build, idle: Decision, noon: datetime, part: str) -> None:
    problem = "CoreDNS v1.99.0 is not known"
    answer = report(observe(view={part: Maintenance(problem=problem)}), idle, now=noon)
    assert answer.events == (EventToSend("Warning", "FailedWorkloadUpdate", problem),)


def test_time_zones_do_not_show(observe: Build, idle: Decision, noon: datetime) -> None:
    elsewhere = noon.astimezone(tz=None) + timedelta(0)
    assert report(observe(), idle, now=elsewhere) == report(observe(), idle, now=noon)
