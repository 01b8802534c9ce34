"""What is written on Machines, and how the connection decides what may be said (the condition-collection cases of upstream's controller test)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from quorate.clusterapi.observe.observation import Connection, Observation, ObservedMachine
from quorate.clusterapi.report import Report, report
from quorate.core.health import Finding, Health, Unknown
from quorate.core.machines.decide import Decision
from quorate.core.machines.state import ControlPlane
from quorate.kubernetes.objects import Node

Build = Callable[..., Observation]
BuildMachine = Callable[..., ObservedMachine]
Apply = Callable[[Observation, Report], Observation]
PODS = ["EtcdPodHealthy", "APIServerPodHealthy", "ControllerManagerPodHealthy", "SchedulerPodHealthy"]
INSPECTED = ["NodeKubeadmLabelsAndTaintsSet", "EtcdMemberHealthy", *PODS]


def ours(answer: Report, name: str = "cp-0") -> dict[str, Any]:
    return {condition["type"]: condition for condition in answer.machine_conditions[name].conditions}


def legacy(answer: Report, name: str = "cp-0") -> dict[str, Any]:
    return {condition["type"]: condition for condition in answer.machine_conditions[name].legacy}


def on_kcp(answer: Report, type_: str) -> dict[str, Any]:
    found: dict[str, Any] = next(condition for condition in answer.status["conditions"] if condition["type"] == type_)
    return found


def brief(condition: dict[str, Any]) -> tuple[str, str]:
    return condition["status"], condition["reason"]


def test_a_healthy_machine_gets_seven_good_conditions_in_the_common_order(observe: Build, idle: Decision, noon: datetime) -> None:
    written = report(observe(), idle, now=noon).machine_conditions["cp-0"]
    assert [(c["type"], c["status"], c["reason"]) for c in written.conditions] == [
        ("UpToDate", "True", "UpToDate"),
        ("NodeKubeadmLabelsAndTaintsSet", "True", "Set"),
        ("EtcdPodHealthy", "True", "Running"),
        ("EtcdMemberHealthy", "True", "Healthy"),
        ("APIServerPodHealthy", "True", "Running"),
        ("ControllerManagerPodHealthy", "True", "Running"),
        ("SchedulerPodHealthy", "True", "Running"),
    ]
    assert {c["observedGeneration"] for c in written.conditions} == {2}
    assert {c["type"]: c["status"] for c in written.legacy} == dict.fromkeys([*PODS, "EtcdMemberHealthy"], "True")


def test_before_initialization_nothing_is_known_whatever_was_there(
    observe: Build, machine: BuildMachine, idle: Decision, noon: datetime
) -> None:
    before = machine("cp-0", told={"APIServerPodHealthy": ("True", "", noon)})
    answer = report(observe(before, initialized=False), idle, now=noon)
    assert {brief(ours(answer)[type_]) for type_ in INSPECTED} == {("Unknown", "InspectionFailed")}
    assert ours(answer)["UpToDate"]["status"] == "True"
    assert legacy(answer) == {}
    for type_ in ("EtcdClusterHealthy", "ControlPlaneComponentsHealthy"):
        assert brief(on_kcp(answer, type_)) == ("Unknown", "InspectionFailed")


@pytest.mark.parametrize(
    ("view", "awaited"),
    [({"infrastructure_ready": False}, "infrastructureProvisioned"), ({"endpoint": ""}, "controlPlaneEndpoint"), ({}, "initialized")],
)
def test_before_initialization_the_message_names_what_is_awaited(
    observe: Build, idle: Decision, noon: datetime, view: dict[str, Any], awaited: str
) -> None:
    answer = report(observe(initialized=False, view=view), idle, now=noon)
    assert awaited in on_kcp(answer, "EtcdClusterHealthy")["message"]


def test_an_outdated_machine_says_in_which_ways(observe: Build, machine: BuildMachine, idle: Decision, noon: datetime) -> None:
    outdated = machine("cp-0", outdated=["Version v1.33.0, v1.34.4 required", "KubeadmConfig is not up-to-date"])
    condition = ours(report(observe(outdated), idle, now=noon))["UpToDate"]
    assert brief(condition) == ("False", "NotUpToDate")
    assert condition["message"] == "* Version v1.33.0, v1.34.4 required\n* KubeadmConfig is not up-to-date"


@pytest.mark.parametrize(
    "annotations",
    [
        {"in-place-updates.internal.cluster.x-k8s.io/update-in-progress": ""},
        {"runtime.cluster.x-k8s.io/pending-hooks": "AfterSomething,UpdateMachine"},
    ],
)
def test_a_machine_updated_in_place_is_updating(
    observe: Build, machine: BuildMachine, idle: Decision, noon: datetime, annotations: dict[str, str]
) -> None:
    bare = machine("cp-0", annotations=annotations)
    assert brief(ours(report(observe(bare), idle, now=noon))["UpToDate"]) == ("False", "Updating")
    telling = machine("cp-0", annotations=annotations, told={"Updating": ("True", "half way", noon)})
    assert ours(report(observe(telling), idle, now=noon))["UpToDate"]["message"] == "* half way"


def test_a_kubelet_of_another_version_is_updating(observe: Build, machine: BuildMachine, idle: Decision, noon: datetime) -> None:
    old = machine("cp-0", nodeInfo={"kubeletVersion": "v1.33.0"})
    condition = ours(report(observe(old), idle, now=noon))["UpToDate"]
    assert brief(condition) == ("False", "Updating")
    assert "v1.33.0, v1.34.4 required" in condition["message"]


def test_a_deleting_machine_is_deleting_but_its_node_is_still_judged(
    observe: Build, machine: BuildMachine, idle: Decision, noon: datetime
) -> None:
    answer = report(observe(machine("cp-0", deleted=noon)), idle, now=noon)
    assert {brief(ours(answer)[type_]) for type_ in [*PODS, "EtcdMemberHealthy"]} == {("False", "Deleting")}
    assert brief(ours(answer)["NodeKubeadmLabelsAndTaintsSet"]) == ("True", "Set")
    assert {(c["reason"], c["severity"]) for c in legacy(answer).values()} == {("Deleting", "Info")}


def test_a_deleting_machine_without_a_node_is_deleting_altogether(
    observe: Build, machine: BuildMachine, idle: Decision, noon: datetime
) -> None:
    answer = report(observe(machine("cp-0", node=False, deleted=noon)), idle, now=noon)
    assert {brief(ours(answer)[type_]) for type_ in INSPECTED} == {("False", "Deleting")}


def test_a_machine_without_a_node_says_nothing_to_v1beta1_readers(
    observe: Build, machine: BuildMachine, idle: Decision, noon: datetime
) -> None:
    answer = report(observe(machine("cp-0", node=False)), idle, now=noon)
    assert {brief(ours(answer)[type_]) for type_ in INSPECTED} == {("Unknown", "InspectionFailed")}
    assert legacy(answer) == {}


@pytest.mark.parametrize(
    ("health", "reason", "expected"),
    [
        (Health.BAD, "Provisioning", ("False", "PodProvisioning", "Info")),
        (Health.BAD, "DoesNotExist", ("False", "PodMissing", "Error")),
        (Health.BAD, "Failed", ("False", "PodFailed", "Error")),
        (Health.UNKNOWN, "InspectionFailed", ("Unknown", "PodInspectionFailed", None)),
    ],
)
def test_each_finding_of_a_pod_has_its_v1beta1_twin(
    observe: Build,
    machine: BuildMachine,
    idle: Decision,
    noon: datetime,
    health: Health,
    reason: str,
    expected: tuple[str, str, str | None],
) -> None:
    ill = machine("cp-0", findings={"SchedulerPodHealthy": Finding(health, reason, "why")})
    twin = legacy(report(observe(ill), idle, now=noon))["SchedulerPodHealthy"]
    assert (twin["status"], twin["reason"], twin.get("severity")) == expected
    assert twin["message"] == "why"


@pytest.mark.parametrize(
    ("health", "reason", "expected"),
    [
        (Health.BAD, "NotHealthy", ("False", "EtcdMemberUnhealthy", "Error")),
        (Health.UNKNOWN, "InspectionFailed", ("Unknown", "MemberInspectionFailed", None)),
    ],
)
def test_each_finding_of_a_member_has_its_v1beta1_twin(
    observe: Build,
    machine: BuildMachine,
    idle: Decision,
    noon: datetime,
    health: Health,
    reason: str,
    expected: tuple[str, str, str | None],
) -> None:
    ill = machine("cp-0", findings={"EtcdMemberHealthy": Finding(health, reason, "why")})
    twin = legacy(report(observe(ill), idle, now=noon))["EtcdMemberHealthy"]
    assert (twin["status"], twin["reason"], twin.get("severity")) == expected


def test_with_external_etcd_no_etcd_condition_is_written(observe: Build, idle: Decision, noon: datetime) -> None:
    answer = report(observe(etcd_managed=False, told={"EtcdClusterHealthy": ("False", "by another", noon)}), idle, now=noon)
    assert not {"EtcdPodHealthy", "EtcdMemberHealthy"} & ours(answer).keys()
    assert on_kcp(answer, "EtcdClusterHealthy")["message"] == "by another"


# The connection.


def down(noon: datetime, minutes: float) -> Connection:
    return Connection(Health.BAD, "probe failed", noon - timedelta(minutes=minutes))


def test_within_the_grace_period_what_was_known_last_stays(observe: Build, idle: Decision, noon: datetime, apply: Apply) -> None:
    known = apply(observe(), report(observe(), idle, now=noon))
    lost = observe(*(_unseen(m) for m in known.machines), connection=down(noon, 4), ring=Unknown("not connected"))
    lost = _with_kcp(lost, known)
    answer = report(lost, idle, now=noon)
    assert {condition["status"] for condition in ours(answer).values()} == {"True"}
    for type_ in ("EtcdClusterHealthy", "ControlPlaneComponentsHealthy"):
        assert brief(on_kcp(answer, type_)) == ("True", "Healthy")
    assert answer.wake_at == noon + timedelta(minutes=1)


def test_within_the_grace_period_what_is_absent_becomes_connection_down(observe: Build, idle: Decision, noon: datetime) -> None:
    answer = report(observe(connection=down(noon, 4)), idle, now=noon)
    assert {brief(ours(answer)[type_]) for type_ in INSPECTED} == {("Unknown", "ConnectionDown")}
    for type_ in ("EtcdClusterHealthy", "ControlPlaneComponentsHealthy"):
        assert brief(on_kcp(answer, type_)) == ("Unknown", "ConnectionDown")


def test_after_the_grace_period_everything_is_overwritten(observe: Build, idle: Decision, noon: datetime, apply: Apply) -> None:
    known = apply(observe(), report(observe(), idle, now=noon))
    lost = _with_kcp(observe(*known.machines, connection=down(noon, 5)), known)
    answer = report(lost, idle, now=noon)
    assert {brief(ours(answer)[type_]) for type_ in INSPECTED} == {("Unknown", "ConnectionDown")}
    assert ours(answer)["UpToDate"]["status"] == "True"
    condition = on_kcp(answer, "ControlPlaneComponentsHealthy")
    assert condition["message"] == "The workload cluster answered last at 2026-01-01T11:55:00Z"
    assert legacy(answer) == {}, "v1beta1 twins keep their values"


def test_the_grace_period_is_a_parameter(observe: Build, idle: Decision, noon: datetime, apply: Apply) -> None:
    known = apply(observe(), report(observe(), idle, now=noon))
    lost = _with_kcp(observe(*known.machines, connection=down(noon, 5)), known)
    assert on_kcp(report(lost, idle, now=noon, grace=timedelta(minutes=6)), "EtcdClusterHealthy")["status"] == "True"


def test_the_grace_period_starts_no_earlier_than_the_initialization(observe: Build, idle: Decision, noon: datetime) -> None:
    told = {
        "Initialized": ("True", "", noon - timedelta(minutes=1)),
        "EtcdClusterHealthy": ("True", "", noon),
        "ControlPlaneComponentsHealthy": ("True", "", noon),
    }
    answer = report(observe(connection=down(noon, 60), told=told), idle, now=noon)
    assert on_kcp(answer, "EtcdClusterHealthy")["status"] == "True"
    assert answer.wake_at == noon + timedelta(minutes=4)


def test_before_the_first_connection_nothing_known_is_forgotten(observe: Build, idle: Decision, noon: datetime) -> None:
    told = {"EtcdClusterHealthy": ("True", "", noon), "ControlPlaneComponentsHealthy": ("True", "", noon)}
    answer = report(observe(connection=Connection(Health.UNKNOWN, "dialing"), told=told), idle, now=noon)
    assert answer.wake_at is None
    assert on_kcp(answer, "EtcdClusterHealthy")["status"] == "True"
    assert brief(ours(answer)["EtcdMemberHealthy"]) == ("Unknown", "ConnectionDown")


def test_a_machine_made_during_an_outage_gets_its_conditions_too(
    observe: Build, machine: BuildMachine, idle: Decision, noon: datetime, apply: Apply
) -> None:
    known = apply(observe(), report(observe(), idle, now=noon))
    lost = _with_kcp(observe(*known.machines, machine("cp-new", node=False, findings={}), connection=down(noon, 1)), known)
    answer = report(lost, idle, now=noon)
    assert brief(ours(answer, "cp-new")["EtcdMemberHealthy"]) == ("Unknown", "ConnectionDown")
    assert brief(ours(answer, "cp-0")["EtcdMemberHealthy"]) == ("True", "Healthy")


def test_a_cluster_that_answers_but_cannot_be_inspected_says_why(observe: Build, idle: Decision, noon: datetime) -> None:
    broken = Finding(Health.UNKNOWN, "NoCertificate", "Secret demo-etcd does not exist")
    seen = observe(view={"workload": broken})
    blind = observe(*(_unseen(m) for m in seen.machines), view={"workload": broken})
    answer = report(blind, idle, now=noon)
    assert brief(on_kcp(answer, "EtcdClusterHealthy")) == ("Unknown", "InspectionFailed")
    assert "Secret demo-etcd does not exist" in ours(answer)["APIServerPodHealthy"]["message"]


def test_without_machines_nothing_is_healthy_and_nothing_fails(observe: Build, idle: Decision, noon: datetime) -> None:
    answer = report(observe(empty=True), idle, now=noon)
    assert answer.machine_conditions == {}
    assert brief(on_kcp(answer, "ControlPlaneComponentsHealthy")) == ("Unknown", "HealthUnknown")


# From Machines to the control plane.


def test_issues_are_grouped_by_machines_that_have_the_same(observe: Build, machine: BuildMachine, idle: Decision, noon: datetime) -> None:
    failed = {"SchedulerPodHealthy": Finding(Health.BAD, "Failed", "CrashLoopBackOff")}
    ill = [machine(name, findings=failed) for name in ("cp-1", "cp-0")]
    lost = machine("cp-2", findings={type_: Finding(Health.UNKNOWN, "InspectionFailed", "Node gone") for type_ in PODS})
    condition = on_kcp(report(observe(*ill, lost), idle, now=noon), "ControlPlaneComponentsHealthy")
    assert brief(condition) == ("False", "NotHealthy")
    assert condition["message"] == (
        "* Machines cp-0, cp-1:\n  * SchedulerPodHealthy: CrashLoopBackOff\n* Machine cp-2:\n  * Control plane components: Node gone"
    )


def test_unknown_is_no_news_while_there_is_no_infrastructure(observe: Build, machine: BuildMachine, idle: Decision, noon: datetime) -> None:
    new = machine("cp-3", node=False, provider_id="")
    answer = report(observe(machine("cp-0"), new), idle, now=noon)
    assert brief(on_kcp(answer, "ControlPlaneComponentsHealthy")) == ("True", "Healthy")
    started = machine("cp-3", node=False)
    answer = report(observe(machine("cp-0"), started), idle, now=noon)
    assert brief(on_kcp(answer, "ControlPlaneComponentsHealthy")) == ("Unknown", "HealthUnknown")


def test_a_node_without_a_machine_is_an_issue_unless_a_machine_waits_for_its_node(
    observe: Build, machine: BuildMachine, idle: Decision, noon: datetime
) -> None:
    nodes = [node for m in observe().machines if (node := m.node)]
    orphan = Node(metadata=type(nodes[0].metadata)(name="stranger"))
    condition = on_kcp(report(observe(nodes=[*nodes, orphan]), idle, now=noon), "ControlPlaneComponentsHealthy")
    assert (condition["status"], condition["message"]) == ("False", "* Node stranger has no Machine")
    coming = observe(machine("cp-0"), machine("cp-1", node=False, provider_id=""), nodes=[nodes[0], orphan])
    assert on_kcp(report(coming, idle, now=noon), "ControlPlaneComponentsHealthy")["status"] == "True"
    going = observe(machine("cp-0"), machine("cp-1", node=False, deleted=noon), nodes=[nodes[0], orphan])
    assert "Node stranger" in on_kcp(report(going, idle, now=noon), "ControlPlaneComponentsHealthy")["message"]


def test_a_member_without_a_machine_is_an_issue_of_etcd_alone(observe: Build, idle: Decision, noon: datetime) -> None:
    healthy = observe()
    ring = healthy.ring
    assert not isinstance(ring, Unknown)
    orphan = type(ring.members[0])(9, "", Health.BAD)
    answer = report(observe(members=[*ring.members, orphan]), idle, now=noon)
    assert on_kcp(answer, "EtcdClusterHealthy")["message"] == "* etcd member 9 (never started) has no Machine"
    assert on_kcp(answer, "ControlPlaneComponentsHealthy")["status"] == "True"


def test_an_alarm_that_is_no_members_is_an_issue_of_etcd_and_of_no_machine(observe: Build, idle: Decision, noon: datetime) -> None:
    alarm = "etcd refuses writes for the alarm NOSPACE of member 9, which is gone"
    answer = report(observe(alarms=(alarm,)), idle, now=noon)
    assert (on_kcp(answer, "EtcdClusterHealthy")["status"], on_kcp(answer, "EtcdClusterHealthy")["message"]) == ("False", f"* {alarm}")
    assert {legacy(answer, name)["EtcdMemberHealthy"]["status"] for name in ("cp-0", "cp-1", "cp-2")} == {"True"}


def test_members_that_disagree_are_an_issue_of_etcd(observe: Build, idle: Decision, noon: datetime) -> None:
    problem = "cp-1 is in cluster 7, cp-2 in cluster 8"
    answer = report(observe(view={"membership_problem": problem}), idle, now=noon)
    assert (on_kcp(answer, "EtcdClusterHealthy")["status"], on_kcp(answer, "EtcdClusterHealthy")["message"]) == ("False", f"* {problem}")


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (Finding(Health.GOOD, "Healthy", "ok"), ("True", "Healthy", "")),
        (
            Finding(Health.BAD, "NotHealthy", "API server cp-0 cannot reach etcd"),
            ("False", "NotHealthy", "API server cp-0 cannot reach etcd"),
        ),
        (Finding(Health.UNKNOWN, "NotAsked", ""), ("Unknown", "HealthUnknown", "NotAsked")),
    ],
)
def test_external_etcd_is_as_the_api_servers_find_it(
    observe: Build, idle: Decision, noon: datetime, found: Finding, expected: tuple[str, str, str]
) -> None:
    condition = on_kcp(report(observe(etcd_managed=False, view={"external_etcd": found}), idle, now=noon), "EtcdClusterHealthy")
    assert (condition["status"], condition["reason"], condition["message"]) == expected
    before = on_kcp(
        report(observe(etcd_managed=False, initialized=False, view={"external_etcd": found}), idle, now=noon), "EtcdClusterHealthy"
    )
    assert (before["status"], before["reason"]) == ("Unknown", "InspectionFailed")


def test_external_etcd_that_was_seen_last_outlives_a_short_outage(observe: Build, idle: Decision, noon: datetime, apply: Apply) -> None:
    good, lost = Finding(Health.GOOD, "Healthy"), Finding(Health.UNKNOWN, "Lost")
    first = observe(etcd_managed=False, view={"external_etcd": good})
    kept = apply(first, report(first, idle, now=noon)).kcp
    for minutes, status in ((1, "True"), (6, "Unknown")):
        seen = replace(observe(etcd_managed=False, view={"external_etcd": lost}, connection=down(noon, minutes)), kcp=kept)
        assert on_kcp(report(seen, idle, now=noon), "EtcdClusterHealthy")["status"] == status


def test_no_member_is_called_orphan_while_a_machines_own_is_not_known(observe: Build, idle: Decision, noon: datetime) -> None:
    seen = observe()
    assert isinstance(seen.view, ControlPlane)
    unknown = [type(r)(r.name, r.version, r.created, Unknown("no Node"), r.node) for r in seen.view.replicas]
    answer = report(observe(view={"replicas": tuple(unknown)}), idle, now=noon)
    assert on_kcp(answer, "EtcdClusterHealthy")["status"] == "True"


def _unseen(observed: ObservedMachine) -> ObservedMachine:
    return ObservedMachine(observed.machine, node=observed.node)


def _with_kcp(observation: Observation, other: Observation) -> Observation:
    fields = {name: getattr(observation, name) for name in observation.__slots__}
    return Observation(**(fields | {"kcp": other.kcp}))
