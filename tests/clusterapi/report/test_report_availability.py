"""Available: every case of upstream's status test, and when time alone changes the answer."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from quorate.clusterapi.observe.observation import Connection, Observation, ObservedMachine
from quorate.clusterapi.report import Report, report
from quorate.core.health import Finding, Health, Unknown
from quorate.core.machines.decide import Decision
from quorate.core.machines.state import Certificates
from quorate.core.ring import Member, Ring

Build = Callable[..., Observation]
BuildMachine = Callable[..., ObservedMachine]
GOOD = Health.GOOD
SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)
BAD_MEMBER = {"EtcdMemberHealthy": Finding(Health.BAD, "NotHealthy", "no answer")}
BAD_API = {"APIServerPodHealthy": Finding(Health.BAD, "Failed", "CrashLoopBackOff")}


def available(answer: Report) -> dict[str, Any]:
    condition: dict[str, Any] = answer.status["conditions"][0]
    assert condition["type"] == "Available"
    return condition


def brief(answer: Report) -> tuple[str, str, str]:
    condition = available(answer)
    return condition["status"], condition["reason"], condition["message"]


def test_not_before_initialization(observe: Build, idle: Decision, noon: datetime) -> None:
    answer = report(observe(initialized=False), idle, now=noon)
    assert brief(answer) == ("False", "NotAvailable", "The control plane is not initialized yet")
    assert answer.wake_at is None


@pytest.mark.parametrize("count", [1, 3])
def test_with_everything_healthy(observe: Build, machine: BuildMachine, idle: Decision, noon: datetime, count: int) -> None:
    answer = report(observe(*(machine(f"cp-{n}") for n in range(count)), replicas=count), idle, now=noon)
    assert brief(answer) == ("True", "Available", "")
    assert answer.wake_at is None


def test_members_that_cannot_be_read_are_waited_for_just_after_initialization(observe: Build, idle: Decision, noon: datetime) -> None:
    told = {"Initialized": ("True", "", noon - MINUTE)}
    answer = report(observe(ring=Unknown("dial timeout"), told=told), idle, now=noon)
    assert brief(answer) == ("False", "NotAvailable", "Waiting for etcd to list its members")
    assert answer.wake_at == noon + MINUTE
    later = report(observe(ring=Unknown("dial timeout"), told=told), idle, now=noon + MINUTE)
    assert brief(later)[:2] == ("Unknown", "InspectionFailed")
    assert later.wake_at is None


def test_a_ring_without_members_was_not_read(observe: Build, idle: Decision, noon: datetime) -> None:
    assert brief(report(observe(ring=Ring((), None)), idle, now=noon))[0] == "Unknown"


def test_members_that_do_not_match_the_machines(observe: Build, machine: BuildMachine, idle: Decision, noon: datetime) -> None:
    expected = ("False", "NotAvailable", "The etcd members do not match the Machines and their Nodes")
    assert brief(report(observe(unmatched=("cp-2",)), idle, now=noon)) == expected
    orphan = [Member(1, "cp-0", GOOD), Member(9, "gone", GOOD)]
    assert brief(report(observe(machine("cp-0"), members=orphan), idle, now=noon)) == expected


def test_a_young_node_without_a_member_is_given_two_minutes(observe: Build, machine: BuildMachine, idle: Decision, noon: datetime) -> None:
    born = noon - timedelta(hours=1)  # the fixture's Nodes
    members = [Member(1, "cp-0", GOOD), Member(2, "cp-1", GOOD)]
    answer = report(observe(machine("cp-0"), machine("cp-1"), machine("cp-2"), members=members), idle, now=born + MINUTE)
    assert brief(answer)[0] == "True"
    assert answer.wake_at == born + 2 * MINUTE


def test_one_bad_member_within_quorum_is_mentioned_after_ten_seconds(
    observe: Build, machine: BuildMachine, idle: Decision, noon: datetime
) -> None:
    def seen(since: datetime) -> Observation:
        ill = machine("cp-2", findings=BAD_MEMBER, told={"EtcdMemberHealthy": ("False", "no answer", since)})
        return observe(machine("cp-0"), machine("cp-1"), ill)

    early = report(seen(noon - 4 * SECOND), idle, now=noon)
    assert brief(early) == ("True", "Available", "")
    assert early.wake_at == noon + 6 * SECOND
    due = report(seen(noon - 10 * SECOND), idle, now=noon)
    assert brief(due)[0] == "True"
    assert available(due)["message"] == (
        "* 2 of 3 etcd members are healthy, at least 2 are required for quorum\n"
        "* 2 of 3 Machines have healthy control plane components, at least 1 is required"
    )
    assert due.wake_at is None


def test_the_flake_filter_works_by_time_alone(observe: Build, machine: BuildMachine, idle: Decision, noon: datetime) -> None:
    ill = machine("cp-2", findings=BAD_API, told={"APIServerPodHealthy": ("False", "", noon)})
    seen = observe(machine("cp-0"), machine("cp-1"), ill)
    wake = report(seen, idle, now=noon).wake_at
    assert wake == noon + 10 * SECOND
    assert brief(report(seen, idle, now=wake - SECOND)) == brief(report(seen, idle, now=noon))
    assert brief(report(seen, idle, now=wake)) != brief(report(seen, idle, now=noon))


def test_members_below_quorum_make_it_unavailable_at_once(observe: Build, machine: BuildMachine, idle: Decision, noon: datetime) -> None:
    ill = [machine(f"cp-{number}", findings=BAD_MEMBER) for number in (1, 2)]
    answer = report(observe(machine("cp-0"), *ill), idle, now=noon)
    assert brief(answer) == ("False", "NotAvailable", "* 1 of 3 etcd members is healthy, at least 2 are required for quorum")
    assert answer.wake_at is None
    nobody = report(observe(machine("cp-0", findings=BAD_MEMBER)), idle, now=noon)
    assert "* None of 1 etcd members is healthy" in available(nobody)["message"]


@pytest.mark.parametrize("node", [True, False])
def test_machines_without_infrastructure_are_ignored(
    observe: Build, machine: BuildMachine, idle: Decision, noon: datetime, node: bool
) -> None:
    told = {"APIServerPodHealthy": ("Unknown", "", noon - MINUTE), "EtcdMemberHealthy": ("Unknown", "", noon - MINUTE)}
    new = machine("cp-1", provider_id="", node=node, told=told, findings={**BAD_API, **BAD_MEMBER})
    answer = report(observe(machine("cp-0"), new, members=[Member(1, "cp-0", GOOD)]), idle, now=noon)
    assert brief(answer) == ("True", "Available", "")


def test_a_nameless_member_counts_as_healthy_and_does_not_vote(
    observe: Build, machine: BuildMachine, idle: Decision, noon: datetime
) -> None:
    members = [Member(1, "cp-0", GOOD), Member(2, "", Health.BAD)]
    answer = report(observe(machine("cp-0"), machine("cp-1", node=False), members=members), idle, now=noon)
    assert brief(answer) == ("True", "Available", "")


@pytest.mark.parametrize("seen_to_be_well", [True, False])
def test_a_member_of_nobody_is_that_of_the_only_machine_on_its_way(
    observe: Build, machine: BuildMachine, idle: Decision, noon: datetime, seen_to_be_well: bool
) -> None:
    finding = Finding(GOOD, "Healthy") if seen_to_be_well else BAD_MEMBER["EtcdMemberHealthy"]
    told = {"EtcdMemberHealthy": ("True" if seen_to_be_well else "False", "", noon - MINUTE)}
    coming = machine("cp-1", node=False, findings={"EtcdMemberHealthy": finding}, told=told, provider_id="")
    members = [Member(1, "cp-0", GOOD), Member(2, "node-of-cp-1", GOOD)]
    answer = report(observe(machine("cp-0"), coming, members=members), idle, now=noon)
    assert available(answer)["status"] == ("True" if seen_to_be_well else "False")  # of two members both must be healthy


def test_a_member_of_nobody_is_unhealthy_when_two_machines_are_on_their_way(
    observe: Build, machine: BuildMachine, idle: Decision, noon: datetime
) -> None:
    well = {"EtcdMemberHealthy": Finding(GOOD, "Healthy")}
    coming = [machine(f"cp-{number}", node=False, provider_id="", findings=well) for number in (1, 2)]
    members = [Member(1, "cp-0", GOOD), Member(2, "whose", GOOD)]
    answer = report(observe(machine("cp-0"), *coming, members=members), idle, now=noon)
    assert "* 1 of 2 etcd members is healthy" in available(answer)["message"]


def test_a_learner_does_not_vote(observe: Build, machine: BuildMachine, idle: Decision, noon: datetime) -> None:
    told = {"EtcdMemberHealthy": ("False", "", noon - MINUTE)}
    learner = machine("cp-1", findings=BAD_MEMBER, told=told)
    members = [Member(1, "cp-0", GOOD), Member(2, "cp-1", GOOD, learner=True)]
    answer = report(observe(machine("cp-0"), learner, members=members), idle, now=noon)
    assert brief(answer)[0] == "True"
    assert "1 of 2 etcd members is healthy, 1 not voting yet, at least 1 are required" in available(answer)["message"]


@pytest.mark.parametrize("etcd_managed", [True, False])
def test_some_bad_control_planes_are_mentioned_once_they_are_old(
    observe: Build, machine: BuildMachine, idle: Decision, noon: datetime, etcd_managed: bool
) -> None:
    old = machine("cp-1", findings=BAD_API, told={"APIServerPodHealthy": ("False", "", noon - MINUTE)})
    recent = machine("cp-2", findings=BAD_API, told={"APIServerPodHealthy": ("False", "", noon - SECOND)})
    answer = report(observe(machine("cp-0"), old, recent, etcd_managed=etcd_managed), idle, now=noon)
    assert brief(answer) == ("True", "Available", "* 2 of 3 Machines have healthy control plane components, at least 1 is required")
    assert answer.wake_at == noon + 9 * SECOND


@pytest.mark.parametrize("etcd_managed", [True, False])
def test_no_good_control_plane_at_all(observe: Build, machine: BuildMachine, idle: Decision, noon: datetime, etcd_managed: bool) -> None:
    answer = report(observe(machine("cp-0", findings=BAD_API), etcd_managed=etcd_managed), idle, now=noon)
    assert brief(answer)[2] == "* No Machine has all its control plane components healthy, at least 1 is required"
    assert brief(answer)[0] == "False"


def test_with_external_etcd_members_do_not_matter(observe: Build, idle: Decision, noon: datetime) -> None:
    answer = report(observe(etcd_managed=False, ring=Unknown("external")), idle, now=noon)
    assert brief(answer) == ("True", "Available", "")


def test_missing_certificates(observe: Build, idle: Decision, noon: datetime) -> None:
    answer = report(observe(certificates=Certificates(missing=("ca",))), idle, now=noon)
    assert brief(answer) == ("False", "NotAvailable", "* The cluster's certificates are not available")


def test_deletion(observe: Build, idle: Decision, noon: datetime) -> None:
    answer = report(observe(deleted=noon), idle, now=noon)
    assert brief(answer) == ("False", "NotAvailable", "* The control plane is being deleted")


def test_deleted_machines_that_still_serve_keep_it_available(observe: Build, machine: BuildMachine, idle: Decision, noon: datetime) -> None:
    leaving = [machine(f"cp-{number}", deleted=noon) for number in (1, 2)]
    assert brief(report(observe(machine("cp-0"), *leaving), idle, now=noon + MINUTE)) == ("True", "Available", "")
    dead = [machine(f"cp-{number}", deleted=noon, findings={**BAD_API, **BAD_MEMBER}) for number in (1, 2)]
    assert brief(report(observe(machine("cp-0"), *dead), idle, now=noon))[0] == "False"


def test_a_nameless_member_does_not_raise_the_quorum(observe: Build, machine: BuildMachine, idle: Decision, noon: datetime) -> None:
    ill = machine("cp-2", findings=BAD_MEMBER, told={"EtcdMemberHealthy": ("False", "", noon - MINUTE)})
    members = [*(Member(number, f"cp-{number}", GOOD) for number in range(3)), Member(9, "", Health.BAD)]
    answer = report(
        observe(machine("cp-0"), machine("cp-1"), ill, machine("cp-3", node=False, provider_id=""), members=members), idle, now=noon
    )
    assert "* 3 of 4 etcd members are healthy, 1 not voting yet, at least 2 are required for quorum" in available(answer)["message"]


def test_a_deleted_machine_is_not_waited_for_to_get_a_member(observe: Build, machine: BuildMachine, idle: Decision, noon: datetime) -> None:
    born = noon - timedelta(hours=1)  # the fixture's Nodes
    answer = report(observe(machine("cp-0"), machine("cp-1", deleted=born), members=[Member(1, "cp-0", GOOD)]), idle, now=born)
    assert answer.wake_at is None


def test_without_a_connection_the_conditions_count_that_were_known_last(
    observe: Build, machine: BuildMachine, idle: Decision, noon: datetime
) -> None:
    ill = machine("cp-0", told={"APIServerPodHealthy": ("False", "", noon - MINUTE)})
    lost = observe(ill, etcd_managed=False, connection=Connection(Health.BAD, "probe failed", noon - MINUTE))
    assert brief(report(lost, idle, now=noon))[0] == "False"
