"""Checks: the answer, the evidence and the remedy of each named question."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from quorate.core import quorum
from quorate.core.checks import Outcome, failed, passed, unknown
from quorate.core.health import Absent, Finding, Health, Unknown, worst
from quorate.core.machines import checks
from quorate.core.ring import Ring

if TYPE_CHECKING:
    from tests.core.conftest import Build


def test_only_a_plain_yes_has_passed() -> None:
    answers = (passed("n", "e"), failed("n", "e", "r"), unknown("n", "e", "r"))
    assert [answer.passed for answer in answers] == [True, False, False]
    assert [answer.remedy for answer in answers] == ["", "r", "r"]


def test_the_worst_of_nothing_is_unknown() -> None:
    assert worst([]) is Health.UNKNOWN
    assert worst([Health.GOOD, Health.UNKNOWN, Health.BAD]) is Health.BAD
    assert worst([Health.GOOD, Health.UNKNOWN]) is Health.UNKNOWN
    assert worst([Health.GOOD]) is Health.GOOD


def test_a_member_leaves_a_good_ring(build: Build) -> None:
    control_plane = build.three()
    check = checks.quorum_survives_removal(control_plane, control_plane.replica("cp-1"))
    assert (check.outcome, check.evidence) == (Outcome.PASS, "without cp-1: 2 of 2 voters healthy, quorum 2: tolerates 0 more")


@pytest.mark.parametrize("member", [1, Absent(), Unknown("no Node")])
def test_a_ring_that_was_not_read_lets_nobody_go_whatever_is_believed_of_its_members(build: Build, member: int | Absent | Unknown) -> None:
    replica = build.replica(1, member=member)
    control_plane = build.control_plane(replica, build.replica(2), ring=Unknown("dial timeout"))
    check = checks.quorum_survives_removal(control_plane, replica)
    assert (check.outcome, check.evidence) == (Outcome.UNKNOWN, "the ring could not be read: dial timeout")


def test_an_empty_ring_proves_no_absence(build: Build) -> None:
    replica = build.joining(1)
    control_plane = build.control_plane(replica, build.replica(2), ring="")
    assert checks.quorum_survives_removal(control_plane, replica).outcome is Outcome.UNKNOWN


def test_an_unmatched_replica_does_not_go(build: Build) -> None:
    replica = build.replica(1, member=Unknown("no Node"))
    control_plane = build.control_plane(replica, build.replica(2), ring="gg")
    check = checks.quorum_survives_removal(control_plane, replica)
    assert (check.outcome, check.evidence) == (Outcome.UNKNOWN, "cannot tell which member is cp-1's: no Node")


def test_what_somebody_must_do_before_a_replica_can_be_matched_is_the_remedy(build: Build) -> None:
    replica = build.replica(1, member=Unknown("two have its address", "Remove the dead one."))
    control_plane = build.control_plane(replica, build.replica(2), ring="gg")
    check = checks.quorum_survives_removal(control_plane, replica)
    assert (check.outcome, check.remedy) == (Outcome.UNKNOWN, "Remove the dead one.")
    beside = build.control_plane(build.vanishing(1, member=replica.member), build.replica(2), ring="gg")
    assert checks.quorum_survives_removal(beside, beside.replica("cp-2")).remedy == "Remove the dead one."


def test_a_replica_proven_without_a_member_takes_nothing_from_the_ring(build: Build) -> None:
    replica = build.joining(4)
    control_plane = build.control_plane(replica, ring="gbb")
    assert checks.quorum_survives_removal(control_plane, replica).evidence == "cp-4 has no member in the ring"


def test_external_etcd_is_a_named_exemption(build: Build) -> None:
    replica = build.replica(1)
    control_plane = build.control_plane(replica, desired=build.desired(3, etcd_managed=False), ring=Unknown("external"))
    assert checks.quorum_survives_removal(control_plane, replica) == passed(quorum.QUORUM_SURVIVES_REMOVAL, checks.EXTERNAL)


def test_a_member_whose_machine_our_hook_no_longer_holds_is_not_leant_on(build: Build) -> None:
    control_plane = build.control_plane(build.leaving(1), build.replica(2), build.vanishing(3))
    check = checks.quorum_survives_removal(control_plane, control_plane.replica("cp-1"))
    assert check.evidence == "without cp-1: 1 of 2 voters healthy, quorum 2: 1 short of quorum"
    held = replace(control_plane, replicas=(*control_plane.replicas[:2], build.leaving(3)))
    assert checks.quorum_survives_removal(held, held.replica("cp-1")).passed


def test_a_vanishing_replica_whose_member_is_gone_costs_nothing(build: Build) -> None:
    control_plane = build.control_plane(build.replica(1), build.replica(2), build.vanishing(3, member=Absent()))
    assert checks.dependable_ring(control_plane) == control_plane.ring


def test_a_vanishing_replica_without_a_known_member_makes_the_ring_unknown(build: Build) -> None:
    control_plane = build.control_plane(build.replica(1), build.vanishing(3, member=Unknown("no Node")), ring="gg")
    assert checks.dependable_ring(control_plane) == Unknown("cp-3 is going, and which member is its own is not known: no Node")


def test_the_dependable_ring_keeps_the_leader(build: Build) -> None:
    ring = checks.dependable_ring(build.control_plane(build.replica(1), build.vanishing(2)))
    assert isinstance(ring, Ring)
    assert ring.leader == 1
    assert [member.health for member in ring.members] == [Health.GOOD, Health.BAD]


@pytest.mark.parametrize("health", [Health.BAD, Health.UNKNOWN])
def test_components_that_are_not_good_are_named_each(build: Build, health: Health) -> None:
    components, members = checks.components_healthy(build.three(), (build.replica(1), build.ill(2, health)))
    assert components.outcome is Outcome.FAIL
    assert components.evidence.count("cp-2: ") == 4
    assert f"cp-2: SchedulerPodHealthy is {health.value}" in components.evidence
    assert members.passed


def test_an_ill_member_counts_only_where_etcd_is_managed(build: Build) -> None:
    replica = build.replica(1, member_findings=(("EtcdMemberHealthy", Finding(Health.BAD, "AlarmRaised")),))
    assert checks.components_healthy(build.three(), (replica,))[1].evidence == "cp-1: EtcdMemberHealthy AlarmRaised"
    external = build.three(desired=build.desired(3, etcd_managed=False))
    assert all(check.passed for check in checks.components_healthy(external, (replica,)))


def test_a_replica_without_a_node_fails_both(build: Build) -> None:
    both = checks.components_healthy(build.three(), (build.joining(1),))
    assert [(check.outcome, check.evidence) for check in both] == [(Outcome.FAIL, "cp-1 has no Node yet")] * 2


@pytest.mark.parametrize(
    ("changes", "evidence", "remedy"),
    [
        ({}, "cp-1 has no Node yet", ""),
        ({"overdue": True}, "cp-1 has no Node yet", "delete the Machine cp-1"),
        ({"had_node": True}, "cp-1 has no Node any more", "systemctl restart kubelet"),
        ({"had_node": True}, "cp-1 has no Node any more", "gone for good, delete the Machine cp-1"),
        ({"had_node": True, "deleting_since": datetime(2026, 1, 1, tzinfo=UTC)}, "cp-1 has no Node any more", ""),
    ],
)
def test_who_has_no_node_for_too_long_or_no_more_is_brought_back_by_somebody(
    build: Build, changes: dict[str, Any], evidence: str, remedy: str
) -> None:
    components, _ = checks.components_healthy(build.three(), (build.joining(1, **changes),))
    assert components.evidence == evidence
    assert remedy in components.remedy
    assert bool(remedy) is bool(components.remedy)


def test_where_the_cluster_cannot_be_asked_nobody_is_told_to_delete_a_machine_for_its_missing_node(build: Build) -> None:
    silent = Finding(Health.BAD, "Lost", "no answer within 10 s")
    lost = build.three(workload=silent, ring=Unknown("the workload cluster is not connected"))
    for check in checks.components_healthy(lost, tuple(build.joining(number, had_node=True) for number in (1, 2, 3))):
        assert (check.outcome, check.evidence, check.remedy) == (
            Outcome.UNKNOWN,
            "no Node is known while the workload cluster does not answer",
            "",
        )
    assert checks.ways_to_nodes(lost, (build.joining(1, overdue=True),)) == ""


def test_a_replica_of_which_nothing_is_known_is_not_well(build: Build) -> None:
    components, _ = checks.components_healthy(build.three(), (build.replica(1, component_findings=()),))
    assert components.evidence == "cp-1 has not been looked at yet"


def test_another_serves_when_one_has_every_component_good(build: Build) -> None:
    control_plane = build.control_plane(build.leaving(1), build.ill(2), build.replica(3))
    assert checks.another_serves(control_plane, control_plane.replica("cp-1")).evidence.startswith("cp-3 serves")


@pytest.mark.parametrize("health", [Health.BAD, Health.UNKNOWN])
def test_half_a_replica_serves_nobody(build: Build, health: Health) -> None:
    one_ill = (*build.findings()[:3], ("EtcdPodHealthy", Finding(health, "Seen")))
    control_plane = build.control_plane(build.leaving(1), build.replica(2, component_findings=one_ill))
    assert not checks.another_serves(control_plane, control_plane.replica("cp-1")).passed


def test_one_that_is_leaving_too_still_serves_and_one_that_vanishes_does_not(build: Build) -> None:
    held = build.control_plane(build.leaving(1), build.leaving(2), build.ill(3))
    gone = build.control_plane(build.leaving(1), build.vanishing(2), build.ill(3))
    assert checks.another_serves(held, held.replica("cp-1")).passed
    assert not checks.another_serves(gone, gone.replica("cp-1")).passed


def test_neither_a_nodeless_nor_an_unseen_replica_serves(build: Build) -> None:
    control_plane = build.control_plane(build.leaving(1), build.joining(2), build.replica(3, component_findings=()))
    assert not checks.another_serves(control_plane, control_plane.replica("cp-1")).passed


@pytest.mark.parametrize(
    ("health", "outcome"), [(Health.GOOD, Outcome.PASS), (Health.BAD, Outcome.FAIL), (Health.UNKNOWN, Outcome.UNKNOWN)]
)
def test_an_external_etcd_is_as_well_as_the_api_servers_find_it(build: Build, health: Health, outcome: Outcome) -> None:
    found = Finding(health, "Readyz", "cp-1: etcd failed")
    external = build.three(desired=build.desired(3, etcd_managed=False), external_etcd=found)
    check = checks.components_healthy(external, external.staying)[1]
    assert (check.name, check.outcome, check.evidence) == (checks.MEMBERS_HEALTHY, outcome, "external etcd: cp-1: etcd failed")


def test_somebody_serves_where_one_is_well_and_not_vanishing(build: Build) -> None:
    one = build.control_plane(build.ill(1), build.leaving(2), build.vanishing(3))
    none = build.control_plane(build.ill(1), build.joining(2), build.vanishing(3))
    assert checks.somebody_serves(one).evidence == "cp-2 serves with every component healthy"
    assert not checks.somebody_serves(none).passed
    assert checks.somebody_serves(none).remedy
