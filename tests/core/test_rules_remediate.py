"""Remediation (rows 31 to 33): who goes first, every refusal with its reason, the records, and the scenarios of the proposal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.core import quorum
from quorate.core.checks import Check
from quorate.core.health import Absent, Finding, Health, Unknown
from quorate.core.machines import checks
from quorate.core.machines.decide import decide
from quorate.core.machines.rules import loss
from quorate.core.machines.rules import remediate as rules
from quorate.core.machines.rules.loss import Reason, safe_to_remediate
from quorate.core.machines.rules.remediate import (
    NOT_DELETING,
    PREVIOUS_FINISHED,
    RECORDS_READABLE,
    RETRIES_LEFT,
    RETRY_PERIOD,
    keep_the_records,
    remediate,
    verdict,
    verdicts,
)
from quorate.core.machines.rules.remove import ANOTHER_HOLDS_THE_DATA, BEFORE_INITIALIZATION
from quorate.core.machines.state import ControlPlane, Deletion, Orphan, RemediationPolicy, Replica
from quorate.core.machines.state import Remediation as Record
from quorate.core.machines.steps import (
    CreateReplica,
    DeleteAll,
    DeleteReplica,
    ForgetRemediation,
    RecordRemediation,
    Remediate,
    RemoveMember,
    RemoveOrphan,
)
from quorate.core.proposal import NOTHING
from quorate.core.quorum import removal_keeps_quorum
from quorate.core.ring import Member, Ring
from quorate.core.versions import Version

if TYPE_CHECKING:
    from tests.core.conftest import Build

MARKED: dict[str, Any] = {"unhealthy": True}
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)


def marked(build: Build, number: int, **changes: Any) -> Replica:
    """A replica that a health check failed, whatever else may be well."""
    return build.replica(number, **{**MARKED, **changes})


def row(build: Build, size: int, *, failed: tuple[int, ...] = (1,), **changes: Any) -> ControlPlane:
    """So many replicas, of which these numbers were failed by a health check."""
    replicas = [build.replica(number, unhealthy=number in failed) for number in range(1, size + 1)]
    return build.control_plane(*replicas, **{"desired": size, **changes})


def order(build: Build, *replicas: Replica, managed: bool = True) -> list[str]:
    """The names in the order in which they would be replaced."""
    desired = build.desired(3, etcd_managed=managed)
    return [answer.replica for answer in verdicts(build.control_plane(*replicas, desired=desired), build.noon)]


def refusal(build: Build, control_plane: ControlPlane, number: int = 1) -> tuple[Reason | None, Check]:
    """Why this replica is not replaced now, as it is and as the rule says it."""
    replica = control_plane.replica(f"cp-{number}")
    answer = verdict(control_plane, replica, build.noon)
    assert answer.refusal is not None
    assert not answer.refusal.passed
    said = remediate(control_plane, build.noon).checks if replica.deleting_since is None else ()
    assert replica.deleting_since or f"{replica.name}: {answer.refusal.evidence}" in [check.evidence for check in said]
    return answer.reason, answer.refusal


def bad(build: Build, component: str) -> tuple[tuple[str, Finding], ...]:
    """All components good but this one."""
    return tuple((name, Finding(Health.BAD if name == component else Health.GOOD, "Seen")) for name, _ in build.findings())


BAD_MEMBER = (("EtcdMemberHealthy", Finding(Health.BAD, "Seen", "does not answer")),)
GOOD_MARKS = (("NodeKubeadmLabelsAndTaintsSet", Finding(Health.GOOD, "Seen")),)


# Who goes first


def test_one_that_its_owner_marked_goes_before_one_without_a_node_and_one_that_is_broken(build: Build) -> None:
    broken = build.ill(1, member_findings=BAD_MEMBER, **MARKED)
    assert order(build, broken, build.joining(2, **MARKED), marked(build, 3, remediate_first=True)) == ["cp-3", "cp-2", "cp-1"]


def test_one_without_a_node_goes_before_one_whose_member_is_broken(build: Build) -> None:
    assert order(build, marked(build, 1, member_findings=BAD_MEMBER), build.joining(2, **MARKED)) == ["cp-2", "cp-1"]


def test_a_broken_member_goes_before_a_broken_api_server(build: Build) -> None:
    api = marked(build, 1, component_findings=bad(build, "APIServerPodHealthy"))
    assert order(build, api, marked(build, 2, member_findings=BAD_MEMBER)) == ["cp-2", "cp-1"]


def test_a_member_that_nobody_could_ask_counts_as_broken(build: Build) -> None:
    unseen = marked(build, 2, member_findings=(("EtcdMemberHealthy", Finding(Health.UNKNOWN, "Seen")),))
    assert order(build, marked(build, 1), unseen) == ["cp-2", "cp-1"]
    assert order(build, marked(build, 1), marked(build, 2, member_findings=())) == ["cp-2", "cp-1"]


def test_a_broken_component_goes_before_none_in_upstreams_order(build: Build) -> None:
    names = ("SchedulerPodHealthy", "ControllerManagerPodHealthy", "APIServerPodHealthy", "EtcdPodHealthy")
    replicas = [marked(build, number, component_findings=bad(build, name)) for number, name in enumerate(names, 2)]
    assert order(build, marked(build, 1), *replicas) == ["cp-5", "cp-4", "cp-3", "cp-2", "cp-1"]


def test_one_without_kubeadms_marks_goes_before_one_that_has_them(build: Build) -> None:
    assert order(build, marked(build, 1, node_findings=GOOD_MARKS), marked(build, 2)) == ["cp-2", "cp-1"]


def test_otherwise_the_oldest_goes_and_names_break_ties(build: Build) -> None:
    assert order(build, marked(build, 2), marked(build, 1), marked(build, 3)) == ["cp-1", "cp-2", "cp-3"]
    assert order(build, marked(build, 2, created=build.noon), marked(build, 1, created=build.noon)) == ["cp-1", "cp-2"]


def test_with_external_etcd_neither_its_member_nor_its_pod_counts(build: Build) -> None:
    replicas = marked(build, 1), marked(build, 2, member_findings=BAD_MEMBER, component_findings=bad(build, "EtcdPodHealthy"))
    assert order(build, *replicas, managed=False) == ["cp-1", "cp-2"]


@given(st.permutations(range(5)))
def test_the_order_does_not_depend_on_how_replicas_are_listed(build: Build, permutation: list[int]) -> None:
    replicas = [
        marked(build, 1),
        marked(build, 2, member_findings=BAD_MEMBER),
        build.joining(3, **MARKED),
        build.ill(4, **MARKED),
        marked(build, 5, remediate_first=True),
    ]
    assert order(build, *(replicas[place] for place in permutation)) == order(build, *replicas)


# One pass


def test_nobody_failed_and_nothing_is_done(build: Build) -> None:
    assert remediate(build.three(), build.noon) == NOTHING
    assert keep_the_records(build.three(), build.noon) == NOTHING


def test_row_31_one_that_a_health_check_failed_is_replaced(build: Build) -> None:
    assert decide(row(build, 3), build.noon).step == Remediate("cp-1", 0)


def test_row_32_a_refusal_holds_nothing_else_up(build: Build) -> None:
    proposal = remediate(row(build, 3, topology_pending="v1.35.0"), build.noon)
    assert proposal.step is None
    assert proposal.blocks == frozenset()


def test_another_remediation_in_progress_is_finished_first(build: Build) -> None:
    control_plane = row(build, 3, desired=4, remediating=Record("cp-9", build.noon))
    reason, check = refusal(build, control_plane)
    assert (reason, check.name) == (Reason.WAITING, PREVIOUS_FINISHED)
    assert keep_the_records(control_plane, build.noon) == NOTHING


def test_a_stale_record_is_cleared_where_nobody_failed(build: Build) -> None:
    stale = build.three(remediating=Record("cp-9", build.noon - 9 * HOUR))
    assert decide(stale, build.noon).step == ForgetRemediation()


def test_a_stale_record_is_cleared_and_the_next_remediation_counts_from_zero(build: Build) -> None:
    stale = row(build, 3, remediating=Record("cp-9", build.noon - 9 * HOUR, 3))
    assert decide(stale, build.noon).step == ForgetRemediation()
    assert decide(replace(stale, remediating=None), build.noon).step == Remediate("cp-1", 0)


def test_one_that_is_being_deleted_already_is_left_alone(build: Build) -> None:
    leaving = build.control_plane(build.leaving(1, **MARKED), build.replica(2), build.replica(3))
    assert remediate(leaving, build.noon) == NOTHING
    reason, check = refusal(build, leaving)
    assert (reason, check.name) == (Reason.DELETING, NOT_DELETING)


def test_a_topology_upgrade_on_its_way_defers_and_names_its_version(build: Build) -> None:
    reason, check = refusal(build, row(build, 3, topology_pending="v1.35.0"))
    assert (reason, check.name) == (Reason.DEFERRED, checks.TOPOLOGY)
    assert "v1.35.0" in check.evidence


def test_b23_at_an_intermediate_step_of_a_chained_upgrade_remediation_is_allowed(build: Build) -> None:
    at_the_step = row(build, 3, desired=build.desired(3, version=Version.parse("v1.34.4")), topology_pending="")
    assert remediate(at_the_step, build.noon).step == Remediate("cp-1", 0)


# The policy of retries


def retried(build: Build, ago: timedelta, retries: int, policy: RemediationPolicy, **changes: Any) -> ControlPlane:
    """Three, of which the first is itself a replacement, made so long ago, that failed."""
    again = marked(build, 1, replaces=Record("cp-0", build.noon - ago, retries))
    desired = build.desired(3, remediation=policy)
    return replace(build.control_plane(again, build.replica(2), build.replica(3), desired=desired), **changes)


def test_the_most_retries_within_the_healthy_period_cannot_be_remediated(build: Build) -> None:
    control_plane = retried(build, 10 * MINUTE, 3, RemediationPolicy(max_retry=3))
    reason, check = refusal(build, control_plane)
    assert (reason, check.name) == (Reason.CANNOT, RETRIES_LEFT)
    assert remediate(control_plane, build.noon).wake_at == build.noon + 50 * MINUTE


@pytest.mark.parametrize(("retries", "permitted"), [(0, True), (1, True), (2, True), (3, False)])
def test_three_retries_permit_the_first_remediation_and_three_more(build: Build, retries: int, permitted: bool) -> None:
    step = remediate(retried(build, 10 * MINUTE, retries, RemediationPolicy(max_retry=3)), build.noon).step
    assert step == (Remediate("cp-1", retries + 1) if permitted else None)


def test_no_retries_permit_only_the_first_remediation(build: Build) -> None:
    policy = RemediationPolicy(max_retry=0)
    assert remediate(row(build, 3, desired=build.desired(3, remediation=policy)), build.noon).step == Remediate("cp-1", 0)
    assert remediate(retried(build, 10 * MINUTE, 0, policy), build.noon).step is None


@pytest.mark.parametrize("period", [HOUR, 4 * HOUR])
def test_past_the_healthy_period_history_is_forgotten(build: Build, period: timedelta) -> None:
    policy = RemediationPolicy(max_retry=3, min_healthy_period=period)
    assert remediate(retried(build, period, 3, policy), build.noon).step == Remediate("cp-1", 0)
    assert remediate(retried(build, period - MINUTE, 3, policy), build.noon).step is None


def test_within_the_retry_period_it_is_deferred_until_that_has_passed(build: Build) -> None:
    control_plane = retried(build, 10 * MINUTE, 0, RemediationPolicy(retry_period=HOUR / 2))
    reason, check = refusal(build, control_plane)
    assert (reason, check.name) == (Reason.DEFERRED, RETRY_PERIOD)
    assert "0:30:00" in check.evidence
    assert remediate(control_plane, build.noon).wake_at == build.noon + 20 * MINUTE
    assert remediate(control_plane, build.noon + 20 * MINUTE).step == Remediate("cp-1", 1)


def test_the_retry_period_is_asked_before_the_number_of_retries(build: Build) -> None:
    reason, check = refusal(build, retried(build, MINUTE, 3, RemediationPolicy(max_retry=3, retry_period=HOUR / 2)))
    assert (reason, check.name) == (Reason.DEFERRED, RETRY_PERIOD)


def test_a_record_without_a_time_is_so_old_that_it_does_not_count(build: Build) -> None:
    control_plane = retried(build, HOUR, 3, RemediationPolicy(max_retry=3, retry_period=9 * HOUR))
    dateless = replace(control_plane.replicas[0], replaces=Record("cp-0", None, 3))
    assert verdict(control_plane, dateless, build.noon).retries == 0
    assert verdict(control_plane, dateless, build.noon).permitted


def test_repeated_remediation_of_the_replacement_counts_on(build: Build) -> None:
    assert remediate(retried(build, 10 * MINUTE, 4, RemediationPolicy()), build.noon).step == Remediate("cp-1", 5)


def test_one_that_would_not_wait_at_our_hook_is_not_deleted(build: Build) -> None:
    reason, check = refusal(build, build.control_plane(marked(build, 1, holds_hook=False), build.replica(2), build.replica(3)))
    assert (reason, check.name) == (Reason.DEFERRED, checks.HOOK_HELD)


def test_a_record_that_cannot_be_read_is_said_with_a_remedy(build: Build) -> None:
    reason, check = refusal(build, build.control_plane(marked(build, 1, record_problem="not JSON"), build.replica(2), build.replica(3)))
    assert (reason, check.name, check.evidence) == (Reason.CANNOT, RECORDS_READABLE, "not JSON")
    assert check.remedy


# What would be lost


def test_the_only_replica_cannot_be_remediated(build: Build) -> None:
    reason, check = refusal(build, row(build, 1))
    assert (reason, check.name) == (Reason.CANNOT, ANOTHER_HOLDS_THE_DATA)


def test_the_only_one_left_of_three_cannot_be_remediated_either(build: Build) -> None:
    reason, _ = refusal(build, row(build, 1, desired=3))
    assert reason is Reason.CANNOT


def test_one_that_is_gone_in_all_but_name_is_no_second_replica(build: Build) -> None:
    reason, check = refusal(build, build.control_plane(marked(build, 1), build.vanishing(2, member=Absent())))
    assert (reason, check.name) == (Reason.CANNOT, ANOTHER_HOLDS_THE_DATA)


def test_a_healthy_voter_that_is_nobodys_does_not_hold_the_data_for_us(build: Build) -> None:
    joined = build.replica(2, member=Absent())
    orphans = (Orphan(Member(9, "gone", Health.GOOD), build.noon),)
    ring = Ring((Member(1, "cp-1", Health.GOOD), orphans[0].member), leader=1)
    reason, check = refusal(build, build.control_plane(marked(build, 1), joined, ring=ring, orphans=orphans))
    assert (reason, check.name) == (Reason.CANNOT, ANOTHER_HOLDS_THE_DATA)


@pytest.mark.parametrize("size", [3, 4])
def test_one_that_is_coming_up_defers(build: Build, size: int) -> None:
    others = [build.replica(number) for number in range(2, size)]
    control_plane = build.control_plane(marked(build, 1), *others, build.joining(size))
    reason, check = refusal(build, control_plane)
    assert (reason, check.name) == (Reason.DEFERRED, loss.NOBODY_COMING_UP)
    assert f"cp-{size}" in check.evidence


def test_one_that_never_came_up_and_failed_too_defers_nobody(build: Build) -> None:
    control_plane = build.control_plane(marked(build, 1), build.replica(2), build.joining(3, **MARKED))
    assert remediate(control_plane, build.noon).step == Remediate("cp-3", 0)


@pytest.mark.parametrize(
    ("size", "ring"), [(3, "gbg"), (3, "bbg"), (3, "gug"), (5, "gbbgg"), (5, "bbbgg"), (4, "gbbg"), (2, "gb"), (1, "g")]
)
def test_no_remediation_that_would_lose_quorum(build: Build, size: int, ring: str) -> None:
    reason, check = refusal(build, row(build, size, ring=ring))
    assert reason is Reason.CANNOT
    assert check.name in {quorum.QUORUM_SURVIVES_REMOVAL, ANOTHER_HOLDS_THE_DATA}


@pytest.mark.parametrize(("size", "ring"), [(2, "gg"), (3, "ggg"), (3, "bgg"), (4, "bggg"), (5, "bbggg"), (5, "gbggg"), (7, "bbbgggg")])
def test_every_remediation_that_keeps_quorum(build: Build, size: int, ring: str) -> None:
    assert remediate(row(build, size, ring=ring), build.noon).step == Remediate("cp-1", 0)


@pytest.mark.parametrize("ring", ["Ggg", "-gg", "ggG", "gggG"])
def test_a_learner_or_a_member_never_started_may_go_and_a_learner_keeps_no_voter_from_going(build: Build, ring: str) -> None:
    size = len(ring)
    assert remediate(row(build, size, ring=ring), build.noon).step == Remediate("cp-1", 0)


def test_no_other_control_plane_that_serves_and_it_cannot_go(build: Build) -> None:
    control_plane = build.control_plane(marked(build, 1), build.ill(2), build.ill(3, Health.UNKNOWN))
    reason, check = refusal(build, control_plane)
    assert (reason, check.name) == (Reason.CANNOT, checks.COMPONENTS_SURVIVE)


@pytest.mark.parametrize("ring", [Unknown("dial timeout"), ""])
def test_a_ring_that_cannot_be_read_defers(build: Build, ring: Unknown | str) -> None:
    reason, check = refusal(build, row(build, 3, ring=ring))
    assert (reason, check.name) == (Reason.DEFERRED, quorum.QUORUM_SURVIVES_REMOVAL)


def test_g1_with_external_etcd_the_components_alone_are_asked(build: Build) -> None:
    external = build.desired(3, etcd_managed=False)
    allowed = row(build, 3, desired=external, ring=Unknown("etcd is external"))
    refused = build.control_plane(marked(build, 1), build.ill(2), desired=external, ring=Unknown("etcd is external"))
    assert remediate(allowed, build.noon).step == Remediate("cp-1", 0)
    assert refusal(build, refused)[1].name == checks.COMPONENTS_SURVIVE


def test_with_external_etcd_one_whose_node_somebody_deleted_may_be_the_last_that_serves(build: Build) -> None:
    external = build.desired(3, etcd_managed=False)
    deleted, never_there = build.joining(1, had_node=True, **MARKED), build.joining(1, **MARKED)
    refused, allowed = (
        build.control_plane(failed, build.ill(2, member=Absent()), desired=external, ring=Unknown("external"))
        for failed in (deleted, never_there)
    )
    assert refusal(build, refused)[1].name == checks.COMPONENTS_SURVIVE
    assert remediate(allowed, build.noon).step == Remediate("cp-1", 0)


def test_b14_a_leader_that_nobody_knows_or_that_cannot_be_reached_is_no_obstacle(build: Build) -> None:
    lost = Ring(build.ring("bgg").members, leader=None)
    led = Ring(build.ring("bgg").members, leader=1)
    assert (
        remediate(row(build, 3, ring=lost), build.noon).step == remediate(row(build, 3, ring=led), build.noon).step == Remediate("cp-1", 0)
    )


REMOVING = {
    "1 member": ("g", False),
    "2 members": ("gg", True),
    "2 members, another one bad": ("gb", False),
    "3 members": ("ggg", True),
    "3 members, another one bad": ("ggb", False),
    "3 members, its own bad": ("bgg", True),
    "5 members, one bad": ("ggggb", True),
    "5 members, its own and another one bad": ("bgggb", True),
    "5 members, two others bad": ("gggbb", False),
    "7 members, two bad": ("gggggbb", True),
    "7 members, three bad": ("ggggbbb", False),
}


@pytest.mark.parametrize(("ring", "safe"), REMOVING.values(), ids=REMOVING.keys())
def test_the_first_member_of_a_ring_may_be_removed_or_not(build: Build, ring: str, safe: bool) -> None:
    assert removal_keeps_quorum(build.ring(ring), 1).passed is safe


@pytest.mark.parametrize("ring", ["gg", "ggg"])
def test_one_whose_member_is_gone_already_costs_the_ring_nothing(build: Build, ring: str) -> None:
    size = len(ring) + 1
    replicas = [*map(build.replica, range(1, size)), marked(build, size, member=Absent())]
    assert remediate(build.control_plane(*replicas, ring=ring), build.noon).step == Remediate(f"cp-{size}", 0)


UPSTREAMS_REMOVALS = {  # the letters of the replicas' members, the one that goes first; a dot: its replica has none
    "of two": ("gg", True),
    "of two, the target's is missing": (".g", True),
    "of two, the other is bad": ("gb", False),
    "of three": ("ggg", True),
    "of three, the target's is missing": (".gg", True),
    "of three, another is bad": ("gbg", False),
    "of three, another is missing": ("g.g", True),
    "of three, the target's and another are missing": ("..g", True),
    "of five, another is bad": ("gbggg", True),
    "of five, another is missing and one is bad": ("g.bgg", True),
    "of five, another is missing": ("g.ggg", True),
    "of five, two are bad": ("g.bgg", True),
    "of seven, two are bad": ("gbbgggg", True),
    "of seven, another is missing and one is bad": ("g.bgggg", True),
    "of seven, three are bad": ("gbbbggg", False),
}


@pytest.mark.parametrize(("letters", "permitted"), UPSTREAMS_REMOVALS.values(), ids=UPSTREAMS_REMOVALS.keys())
def test_upstreams_table_of_members_that_are_bad_or_missing(build: Build, letters: str, permitted: bool) -> None:
    replicas, members = [], build.ring(letters.replace(".", "b")).members
    for number, letter in enumerate(letters, start=1):
        replicas.append(build.replica(number, unhealthy=number == 1, member=Absent() if letter == "." else number))
    ring = Ring(tuple(member for member, letter in zip(members, letters, strict=True) if letter != "."), leader=None)
    step = remediate(build.control_plane(*replicas, ring=ring), build.noon).step
    assert step == (Remediate("cp-1", 0) if permitted else None)


@pytest.mark.parametrize(
    ("ring", "permitted"), [("ug", True), ("ubgg", True), ("bugg", True), ("ugb", False), ("gu", False), ("uggb", True)]
)
def test_a_voter_that_nobody_could_ask_confirmed_the_list_and_holds_nothing_up(build: Build, ring: str, permitted: bool) -> None:
    size = len(ring)
    never_registered = build.replica(1, unhealthy=True, node=None, component_findings=(), member_findings=())
    replicas = never_registered if ring[0] == "u" else marked(build, 1), *map(build.replica, range(2, size + 1))
    step = remediate(build.control_plane(*replicas, ring=ring), build.noon).step
    assert step == (Remediate("cp-1", 0) if permitted else None)


# Members that were matched with nobody


def unmatched(build: Build, ring: str = "gg-", **changes: Any) -> ControlPlane:
    """Two good ones and one that failed without a Node; the ring's third member never started, or is named after nobody."""
    third = build.joining(3, member=Unknown("member 3 may be its own"), **MARKED)
    members = build.ring(ring)
    orphans = tuple(Orphan(member, build.noon - HOUR) for member in members.members[2:])
    return build.control_plane(build.replica(1), build.replica(2), third, **{"ring": members, "orphans": orphans, **changes})


def test_b8_one_that_left_a_learner_behind_and_never_got_a_node_is_replaced(build: Build) -> None:
    assert remediate(unmatched(build), build.noon).step == Remediate("cp-3", 0)
    assert remediate(unmatched(build, "ggG"), build.noon).step == Remediate("cp-3", 0)


def test_b8_then_its_learner_goes_at_the_hook_and_its_machine_after_it(build: Build) -> None:
    left = build.joining(3, member=Unknown("member 3 may be its own"), deleting_since=build.noon, waits_at_hook=True)
    control_plane = unmatched(build)
    leaving = replace(control_plane, replicas=(*control_plane.replicas[:2], left))
    assert decide(leaving, build.noon).step == RemoveOrphan(3)


def test_whichever_is_its_own_quorum_must_survive_its_removal(build: Build) -> None:
    reason, check = refusal(build, unmatched(build, "gbg"), 3)
    assert (reason, check.name) == (Reason.CANNOT, quorum.QUORUM_SURVIVES_REMOVAL)


def test_a_member_that_nothing_would_ever_remove_is_not_risked(build: Build) -> None:
    reason, check = refusal(build, unmatched(build, orphans=()), 3)
    assert (reason, check.name) == (Reason.DEFERRED, quorum.QUORUM_SURVIVES_REMOVAL)
    assert "cannot tell which member" in check.evidence
    assert check.remedy == ""


def test_a_failed_replica_whose_member_somebody_must_tell_apart_says_how(build: Build) -> None:
    twice = build.replica(3, member=Unknown("members 3 and 4 both have its address", "Remove the dead one."), **MARKED)
    _, check = refusal(build, build.control_plane(build.replica(1), build.replica(2), twice, ring="gggb"), 3)
    assert (check.name, check.remedy) == (quorum.QUORUM_SURVIVES_REMOVAL, "Remove the dead one.")


@pytest.mark.parametrize("ring", ["ggb", "gggb", "ggggb", "gggbb"])
def test_a_failed_replica_whose_member_cannot_be_asked_is_remediated_as_one_that_is_down(build: Build, ring: str) -> None:
    """A host that is off has neither a kubelet that answers nor a member that does."""
    size = len(ring)
    for letters in (ring, ring.replace("b", "u")):
        down = row(build, size, failed=(size,), ring=letters)
        assert decide(down, build.noon).step == Remediate(f"cp-{size}", 0)
        leaves = replace(down, replicas=(*down.replicas[:-1], build.leaving(size, unhealthy=True)))
        assert decide(leaves, build.noon).step == RemoveMember(f"cp-{size}", size)


def contested(build: Build, ring: str) -> ControlPlane:
    """Four replicas, of which the last has a Node and failed; every member after the third has its address or name."""
    fourth = build.replica(4, member=Unknown("members 4 and 5 both have its address or name", "Remove the dead one."), **MARKED)
    members = build.ring(ring)
    orphans = tuple(Orphan(member, build.noon - HOUR, may_be_of=("cp-4",)) for member in members.members[3:])
    return build.control_plane(*map(build.replica, (1, 2, 3)), fourth, ring=members, orphans=orphans)


def test_a_failed_replica_whose_member_cannot_be_told_from_others_goes_where_the_ring_can_do_without_each_of_them(build: Build) -> None:
    assert remediate(contested(build, "gggbb"), build.noon).step == Remediate("cp-4", 0)
    reason, check = refusal(build, contested(build, "ggbbb"), 4)
    assert (reason, check.name) == (Reason.CANNOT, quorum.QUORUM_SURVIVES_REMOVAL)


def test_b3_one_that_never_joined_goes_without_a_question_to_the_others(build: Build) -> None:
    control_plane = build.control_plane(build.replica(1), build.replica(2), build.joining(3, **MARKED))
    assert remediate(control_plane, build.noon).step == Remediate("cp-3", 0)


# The first permitted goes (W13)


def test_w13_a_blocked_candidate_blocks_nobody_else(build: Build) -> None:
    history = Record("cp-0", build.noon - MINUTE, 0)
    policy = RemediationPolicy(retry_period=HOUR)
    first, second = marked(build, 1, remediate_first=True, replaces=history), marked(build, 2)
    control_plane = build.control_plane(first, second, build.replica(3), desired=build.desired(3, remediation=policy))
    assert [answer.replica for answer in verdicts(control_plane, build.noon)] == ["cp-1", "cp-2"]
    assert remediate(control_plane, build.noon).step == Remediate("cp-2", 0)


def test_every_refused_candidate_is_named(build: Build) -> None:
    proposal = remediate(row(build, 3, failed=(1, 2), topology_pending="v1.35.0"), build.noon)
    assert [check.evidence.split(":")[0] for check in proposal.checks] == ["cp-1", "cp-2"]


# Beside replicas that leave (M9c)


def test_m9c_another_that_leaves_defers_where_nobody_would_serve_without_both(build: Build) -> None:
    half = build.replica(3, component_findings=bad(build, "SchedulerPodHealthy"))
    leaving = [build.leaving(number, waits_at_hook=False) for number in (2, 4)]
    serving = build.control_plane(build.ill(1, **MARKED), half, *leaving)
    reason, check = refusal(build, serving)
    assert (reason, check.name) == (Reason.DEFERRED, loss.SAFE_TOGETHER)
    assert "no replica that stays would serve" in check.evidence


def test_m9c_another_that_leaves_defers_where_the_ring_would_not_bear_both(build: Build) -> None:
    control_plane = build.control_plane(
        marked(build, 1), build.leaving(2, waits_at_hook=False), build.replica(3), build.replica(4), ring="ggbg"
    )
    reason, check = refusal(build, control_plane)
    assert (reason, check.name) == (Reason.DEFERRED, loss.SAFE_TOGETHER)
    assert "1 of 2 voters" in check.evidence


def test_m9c_one_stuck_in_its_drain_does_not_hold_up_what_the_others_bear(build: Build) -> None:
    stuck = build.leaving(2, minutes=90, waits_at_hook=False)
    control_plane = build.control_plane(marked(build, 1), stuck, *map(build.replica, (3, 4, 5)), desired=5)
    assert decide(control_plane, build.noon).step == Remediate("cp-1", 0)


def test_m9c_one_that_waits_at_the_hook_for_the_failed_one_is_freed_by_its_remediation(build: Build) -> None:
    control_plane = build.control_plane(marked(build, 1), build.leaving(2), build.leaving(3), ring="bgg")
    assert decide(control_plane, build.noon).step == Remediate("cp-1", 0)


def test_m9c_one_that_is_vanishing_counts_as_lost_and_defers(build: Build) -> None:
    control_plane = build.control_plane(marked(build, 1), build.replica(2), build.vanishing(3))
    reason, check = refusal(build, control_plane)
    assert (reason, check.name, check.remedy) == (Reason.DEFERRED, quorum.QUORUM_SURVIVES_REMOVAL, "")


# Before initialization


def test_the_first_replica_is_replaced_before_initialization_and_each_time_it_fails_again(build: Build) -> None:
    first = row(build, 1, initialized=False, ring=Unknown("no cluster yet"))
    again = replace(first, replicas=(replace(first.replicas[0], replaces=Record("cp-0", build.noon - MINUTE, 0)),))
    assert remediate(first, build.noon).step == Remediate("cp-1", 0)
    assert BEFORE_INITIALIZATION in [check.name for check in remediate(first, build.noon).checks]
    assert remediate(again, build.noon).step == Remediate("cp-1", 1)


def test_the_policy_of_retries_holds_before_initialization_too(build: Build) -> None:
    first = row(build, 1, initialized=False, desired=build.desired(1, remediation=RemediationPolicy(max_retry=0)))
    again = replace(first, replicas=(replace(first.replicas[0], replaces=Record("cp-0", build.noon - MINUTE, 0)),))
    assert refusal(build, again)[1].name == RETRIES_LEFT


def test_several_replicas_of_a_cluster_that_was_never_initialized_are_not_believed(build: Build) -> None:
    reason, check = refusal(build, row(build, 3, initialized=False))
    assert (reason, check.name) == (Reason.DEFERRED, BEFORE_INITIALIZATION)
    assert "cp-2, cp-3" in check.evidence


def played(build: Build, control_plane: ControlPlane, failures: int) -> list[int]:
    """The counts of so many remediations in a row: each time the replacement, made a minute later, fails too."""
    counts, now = [], build.noon
    others, victim = control_plane.replicas[:-1], control_plane.replicas[-1]
    for _ in range(failures):
        step = remediate(replace(control_plane, replicas=(*others, victim)), now).step
        assert isinstance(step, Remediate)
        counts.append(step.retries)
        victim = replace(victim, created=now + MINUTE, replaces=Record(victim.name, now, step.retries))
        now += 10 * MINUTE
    return counts


def test_a_first_replica_that_fails_twice_before_initialization_counts_zero_and_one(build: Build) -> None:
    first = build.control_plane(build.joining(1, **MARKED), initialized=False, ring=Unknown("no cluster yet"))
    assert played(build, first, 2) == [0, 1]


def test_a_second_replica_that_fails_twice_after_initialization_counts_zero_and_one(build: Build) -> None:
    assert played(build, build.control_plane(build.replica(1), build.joining(2, **MARKED)), 2) == [0, 1]


def test_b4_b5_while_the_control_plane_is_formed_what_fails_is_replaced_again_and_again(build: Build) -> None:
    assert played(build, build.control_plane(build.replica(1), build.replica(2), build.joining(3, **MARKED)), 5) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("never_provisioned", [False, True])
@pytest.mark.parametrize("size", [2, 3, 4])
def test_of_two_of_three_and_of_four_in_a_rollout_the_failed_one_goes(build: Build, size: int, never_provisioned: bool) -> None:
    failed = build.joining(size, **MARKED) if never_provisioned else marked(build, size)
    rest = [build.replica(number, outdated=("Version",) if size % 2 == 0 else ()) for number in range(1, size)]
    control_plane = build.control_plane(*rest, failed, desired={2: 1, 3: 3, 4: 3}[size])
    assert decide(control_plane, build.noon).step == Remediate(f"cp-{size}", 0)


def test_of_two_that_failed_one_goes_and_the_other_waits_for_its_replacement(build: Build) -> None:
    two = row(build, 3, failed=(1, 2))
    assert decide(two, build.noon).step == Remediate("cp-1", 0)
    deleted = build.control_plane(build.leaving(1, **MARKED), two.replicas[1], two.replicas[2], remediating=Record("cp-1", build.noon))
    assert [type(decide(deleted, build.noon).step)] == [RemoveMember]
    gone = build.control_plane(two.replicas[1], two.replicas[2], remediating=Record("cp-1", build.noon))
    assert decide(gone, build.noon).step == CreateReplica("", initialize=False)
    assert refusal(build, gone, 2)[0] is Reason.WAITING


# A previous remediation that is held at the hook


def held_and_failed(build: Build, ring: str | Unknown = "gbg", **changes: Any) -> ControlPlane:
    """cp-1 was deleted as failed and waits at our hook, because cp-2, which failed too, is down beside it."""
    value = {"remediating": Record("cp-1", build.noon - MINUTE), **changes}
    return build.control_plane(build.leaving(1, **MARKED), marked(build, 2), build.replica(3), desired=5, ring=ring, **value)


def test_a_remediation_that_cannot_finish_does_not_block_the_one_that_frees_it(build: Build) -> None:
    assert decide(held_and_failed(build), build.noon).step == Remediate("cp-2", 0)


def test_a_remediation_that_can_finish_goes_before_the_next(build: Build) -> None:
    assert refusal(build, held_and_failed(build, ring="ggg"), 2)[1].name == PREVIOUS_FINISHED
    assert refusal(build, held_and_failed(build, ring=Unknown("dial timeout")), 2)[1].name == PREVIOUS_FINISHED


def test_one_that_was_let_go_is_not_held(build: Build) -> None:
    vanishing = build.vanishing(1, member=Absent(), **MARKED)
    control_plane = build.control_plane(
        vanishing, marked(build, 2), build.replica(3), desired=5, ring="Bbg", remediating=Record("cp-1", build.noon)
    )
    assert refusal(build, control_plane, 2)[1].name == PREVIOUS_FINISHED


def test_the_one_record_there_is_keeps_the_higher_count(build: Build) -> None:
    before = Record("cp-1", build.noon - MINUTE, 2)
    assert decide(held_and_failed(build, remediating=before), build.noon).step == Remediate("cp-2", 2)


def test_a_crash_after_the_delete_that_overtook_another_loses_no_record(build: Build) -> None:
    both: dict[str, Any] = {"remediating": Record("cp-1", build.noon - MINUTE), "remediation_intended": Record("cp-2", build.noon)}
    control_plane = held_and_failed(build, **both)
    deleted = replace(control_plane, replicas=(control_plane.replicas[0], build.leaving(2, **MARKED), build.replica(3)))
    assert keep_the_records(control_plane, build.noon) == NOTHING
    assert keep_the_records(deleted, build.noon).step == RecordRemediation()
    assert keep_the_records(replace(deleted, remediating=Record("cp-2", build.noon)), build.noon) == NOTHING


def test_an_intent_beside_one_that_is_held_is_overtaken_once_its_replica_recovered(build: Build) -> None:
    held, failed, good = build.leaving(1, **MARKED), marked(build, 2), build.replica(3)
    records = {"remediating": Record("cp-1", build.noon - MINUTE), "remediation_intended": Record("cp-3", build.noon)}
    recovered = build.control_plane(held, failed, good, desired=5, ring="gbg", **records)
    assert decide(recovered, build.noon).step == Remediate("cp-2", 0)
    others = marked(build, 3), build.replica(4), build.replica(5)
    wanted = build.control_plane(held, failed, *others, desired=5, ring="gbbgg", **records)
    assert decide(wanted, build.noon).step == Remediate("cp-3", 0)
    answer = verdict(wanted, wanted.replica("cp-2"), build.noon)
    assert answer.refusal
    assert answer.refusal.evidence == "cp-3 is about to be replaced"


def test_however_many_have_failed_each_is_judged_once_for_itself(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    held, others = build.leaving(1, **MARKED), [marked(build, number) for number in range(2, 8)]
    records = {"remediating": Record("cp-1", build.noon - MINUTE), "remediation_intended": Record("cp-3", build.noon)}
    control_plane = build.control_plane(held, *others, desired=7, ring="gbbbggg", **records)
    judged: list[str] = []

    def counted(plane: ControlPlane, replica: Replica) -> Iterator[tuple[Check, Reason]]:
        judged.append(replica.name)
        return safe_to_remediate(plane, replica)

    monkeypatch.setattr(rules, "safe_to_remediate", counted)
    verdicts(control_plane, build.noon)
    assert sorted(judged) == sorted(set(judged))


# A previous remediation whose replacement cannot join


def gone_and_failed(build: Build, ring: str | Unknown = "ggb", **changes: Any) -> ControlPlane:
    """cp-9 was replaced as failed and is gone; cp-3 failed meanwhile, and with it in the ring nobody can join in the place of cp-9."""
    value: dict[str, Any] = {"desired": 5, "ring": ring, "remediating": Record("cp-9", build.noon - MINUTE, 1), **changes}
    return build.control_plane(build.replica(1), build.replica(2), marked(build, 3), **value)


@pytest.mark.parametrize("ring", ["ggb", "ggG", "gg-"])
def test_a_remediation_whose_replacement_cannot_join_does_not_block_the_one_that_makes_room(build: Build, ring: str) -> None:
    assert decide(gone_and_failed(build, ring), build.noon).step == Remediate("cp-3", 1)


def test_a_remediation_whose_replacement_can_join_goes_before_the_next(build: Build) -> None:
    assert refusal(build, gone_and_failed(build, "ggg"), 3)[1].name == PREVIOUS_FINISHED
    assert refusal(build, gone_and_failed(build, Unknown("dial timeout")), 3)[1].name == PREVIOUS_FINISHED


def test_one_that_is_not_what_keeps_the_replacement_out_waits(build: Build) -> None:
    control_plane = build.control_plane(
        build.replica(1), marked(build, 2), build.replica(3), desired=5, ring="ggb", remediating=Record("cp-9", build.noon - MINUTE)
    )
    assert refusal(build, control_plane, 2)[1].name == PREVIOUS_FINISHED


def test_with_an_external_etcd_no_ring_keeps_a_replacement_out(build: Build) -> None:
    external = build.desired(5, etcd_managed=False)
    assert refusal(build, gone_and_failed(build, desired=external), 3)[1].name == PREVIOUS_FINISHED


# The records


def test_a_crash_after_the_delete_loses_no_record(build: Build) -> None:
    intent = Record("cp-1", build.noon - MINUTE, 2)
    gone = build.control_plane(build.replica(2), build.replica(3), remediation_intended=intent)
    leaving = build.control_plane(build.leaving(1, waits_at_hook=False), build.replica(2), build.replica(3), remediation_intended=intent)
    vanished = build.control_plane(build.vanishing(1, member=Absent()), build.replica(2), build.replica(3), remediation_intended=intent)
    for control_plane in (gone, leaving, vanished):
        assert decide(control_plane, build.noon).step == RecordRemediation()


def test_a_crash_before_the_delete_begins_the_same_remediation_again(build: Build) -> None:
    intent = Record("cp-2", build.noon - MINUTE)
    assert decide(row(build, 3, failed=(1, 2), remediation_intended=intent), build.noon).step == Remediate("cp-2", 0)


def test_an_intent_is_cleared_when_its_replica_recovered(build: Build) -> None:
    assert decide(build.three(remediation_intended=Record("cp-1", build.noon)), build.noon).step == ForgetRemediation()


def test_an_intent_that_is_refused_now_is_kept_until_another_may_go(build: Build) -> None:
    intent, policy = Record("cp-1", build.noon), RemediationPolicy(retry_period=HOUR)
    refused = marked(build, 1, replaces=Record("cp-0", build.noon))
    alone = build.control_plane(refused, build.replica(2), build.replica(3), desired=build.desired(3, remediation=policy))
    alone = replace(alone, remediation_intended=intent)
    assert keep_the_records(alone, build.noon) == NOTHING
    other = replace(alone, replicas=(refused, marked(build, 2), build.replica(3)))
    assert keep_the_records(other, build.noon).step == ForgetRemediation()


def test_a_replacement_made_after_the_record_settles_it(build: Build) -> None:
    made = build.joining(4, created=build.noon)
    for at in (build.noon - MINUTE, None):
        control_plane = build.control_plane(build.replica(2), build.replica(3), made, remediating=Record("cp-1", at))
        assert keep_the_records(control_plane, build.noon).step == ForgetRemediation()


def test_a_replacement_made_within_the_second_of_the_record_is_known_by_what_it_carries(build: Build) -> None:
    record = Record("cp-1", build.noon)
    unrelated = build.control_plane(build.replica(2), build.joining(4, created=build.noon), remediating=record)
    its_own = build.control_plane(build.replica(2), build.joining(4, created=build.noon, replaces=record), remediating=record)
    assert keep_the_records(unrelated, build.noon) == NOTHING
    assert keep_the_records(its_own, build.noon).step == ForgetRemediation()


def test_g9_a_record_that_no_replacement_will_follow_is_cleared(build: Build) -> None:
    lowered = row(build, 2, failed=(), desired=1, remediating=Record("cp-9", build.noon))
    assert keep_the_records(lowered, build.noon).step == ForgetRemediation()


def test_in_a_rollout_the_record_waits_for_the_next_new_machine_unless_another_fails(build: Build) -> None:
    rest = [build.replica(number, outdated=("Version",)) for number in (1, 2, 3)]
    waits = build.control_plane(*rest, remediating=Record("cp-9", build.noon))
    assert keep_the_records(waits, build.noon) == NOTHING
    another = replace(waits, replicas=(replace(rest[0], unhealthy=True), *rest[1:]))
    assert keep_the_records(another, build.noon).step == ForgetRemediation()


def test_a_record_on_the_control_plane_that_cannot_be_read_blocks_remediation_alone(build: Build) -> None:
    proposal = keep_the_records(row(build, 3, remediation_problem="not JSON"), build.noon)
    assert proposal.blocks == frozenset({Remediate})
    assert proposal.checks[0].remedy
    assert decide(row(build, 3, remediation_problem="not JSON"), build.noon).step is None


# Scenarios of the proposal (kubeadm-based control plane, "Remediation using delete and recreate")


def test_scenario_1_three_replicas_one_failed_and_at_most_its_own_member_is_down(build: Build) -> None:
    assert decide(row(build, 3, ring="ggg"), build.noon).step == Remediate("cp-1", 0)
    assert decide(row(build, 3, ring="bgg"), build.noon).step == Remediate("cp-1", 0)


def test_scenario_2_three_replicas_two_failed_one_is_replaced_and_joins_before_the_other_goes(build: Build) -> None:
    assert decide(row(build, 3, failed=(1, 2), ring="bgg"), build.noon).step == Remediate("cp-1", 0)
    joining = build.control_plane(marked(build, 2), build.replica(3), build.joining(4, created=build.noon))
    assert remediate(joining, build.noon).step is None
    joined = build.control_plane(marked(build, 2), build.replica(3), build.replica(4))
    assert decide(joined, build.noon).step == Remediate("cp-2", 0)


def test_scenario_2_with_more_than_one_member_down_somebody_has_to_help(build: Build) -> None:
    decision = decide(row(build, 3, failed=(1, 2), ring="bbg"), build.noon)
    assert decision.step is None
    assert any(check.remedy for check in decision.refusals)


def test_scenario_3_another_one_s_member_is_down_and_somebody_has_to_help(build: Build) -> None:
    reason, check = refusal(build, row(build, 3, ring="gbg"))
    assert reason is Reason.CANNOT
    assert check.remedy


def test_scenario_4_in_a_rollout_the_failed_one_goes_first_then_the_others_one_by_one(build: Build) -> None:
    old = [build.replica(number, outdated=("Version",)) for number in (1, 2)]
    failed = marked(build, 3, outdated=("Version",))
    assert decide(build.control_plane(*old, failed), build.noon).step == Remediate("cp-3", 0)
    record = Record("cp-3", build.noon - MINUTE)
    assert isinstance(decide(build.control_plane(*old, remediating=record), build.noon).step, CreateReplica)
    replaced = build.control_plane(*old, build.replica(4, created=build.noon), remediating=record)
    assert decide(replaced, build.noon).step == ForgetRemediation()
    surged = build.control_plane(*old, build.replica(4), build.replica(5))
    assert decide(surged, build.noon).step == DeleteReplica("cp-1")


# Known bugs of others


def test_b6_five_lose_two_and_both_are_replaced_one_after_the_other(build: Build) -> None:
    five = row(build, 5, failed=(1, 2), ring="bbggg")
    assert decide(five, build.noon).step == Remediate("cp-1", 0)
    record = Record("cp-1", build.noon)
    members = Ring(build.ring("bbggg").members[1:], leader=3)
    four = build.control_plane(*five.replicas[1:], ring=members, desired=5, remediating=record)
    assert decide(four, build.noon).step == CreateReplica("", initialize=False)


def test_b9_the_gate_is_asked_anew_for_each_removal(build: Build) -> None:
    assert removal_keeps_quorum(build.ring("bgg"), 1).passed
    assert not removal_keeps_quorum(build.ring("bgb"), 1).passed


def test_b10_a_learner_that_was_promoted_meanwhile_is_judged_as_the_voter_it_is(build: Build) -> None:
    assert removal_keeps_quorum(build.ring("gG"), 2).passed
    assert not removal_keeps_quorum(build.ring("gb"), 2).passed
    assert removal_keeps_quorum(build.ring("ggb"), 9).passed  # gone by now


def test_b24_one_member_with_an_alarm_does_not_make_every_remediation_unsafe(build: Build) -> None:
    assert remediate(row(build, 3, ring="agg"), build.noon).step == Remediate("cp-1", 0)
    assert remediate(row(build, 5, ring="gaggg"), build.noon).step == Remediate("cp-1", 0)
    assert remediate(row(build, 2, ring="ag"), build.noon).step == Remediate("cp-1", 0)
    assert remediate(row(build, 2, ring="bg"), build.noon).step is None


def test_nobody_is_replaced_while_paused_or_while_the_control_plane_itself_goes(build: Build) -> None:
    assert decide(row(build, 3, paused="spec.paused"), build.noon).step is None
    assert isinstance(decide(row(build, 3, deletion=Deletion(build.noon)), build.noon).step, DeleteAll)


def test_the_judgement_of_a_moment_does_not_depend_on_the_clock_but_for_the_policy(build: Build) -> None:
    later: datetime = build.noon + 9 * HOUR
    assert remediate(row(build, 3), build.noon) == remediate(row(build, 3), later)
