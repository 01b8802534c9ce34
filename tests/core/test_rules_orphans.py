"""Members of nobody (rows 19 and 20): when it is certain that they are nobody's, in which order they go, and what the ring must bear."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from quorate.core import quorum
from quorate.core.checks import Outcome
from quorate.core.health import Absent, Unknown
from quorate.core.machines import checks
from quorate.core.machines.decide import decide
from quorate.core.machines.rules.orphans import (
    AGED,
    AGREEMENT,
    GIVEN_UP,
    GRACE,
    IS_OF_NO_NEWCOMER,
    JOINING,
    RING_IS_READ,
    members_agree,
    remove_orphans,
)
from quorate.core.machines.rules.remove import ANOTHER_HOLDS_THE_DATA
from quorate.core.machines.state import Adoptable, ControlPlane, Orphan, Replica
from quorate.core.machines.steps import (
    AdoptReplicas,
    CreateReplica,
    DeleteReplica,
    ReleaseHook,
    Remediate,
    RemoveMember,
    RemoveOrphan,
    Step,
)
from quorate.core.proposal import NOTHING, Proposal
from quorate.core.ring import Ring

if TYPE_CHECKING:
    from tests.core.conftest import Build

UNKNOWN = Unknown("a member is nobody's yet and may be its own")


def with_orphans(build: Build, ring: str, *replicas: Replica, age: timedelta = timedelta(minutes=15), **changes: Any) -> ControlPlane:
    """These replicas, and a ring in which every member that is none of theirs has been nobody's for so long."""
    members = build.ring(ring)
    matched = {replica.member for replica in replicas}
    orphans = tuple(Orphan(member, build.noon - age) for member in members.members if member.id not in matched)
    return build.control_plane(*replicas, **{"ring": members, "orphans": orphans, **changes})


def three(build: Build, ring: str = "gggb", **changes: Any) -> ControlPlane:
    """Three good replicas; whoever else is in the ring is nobody's."""
    return with_orphans(build, ring, *map(build.replica, (1, 2, 3)), **changes)


def refused(proposal: Proposal[Step]) -> list[str]:
    """The names of the checks that did not pass, of a proposal without a step that holds nothing else up."""
    assert proposal.step is None
    assert proposal.blocks == frozenset()
    return [check.name for check in proposal.checks if not check.passed]


@pytest.mark.parametrize("ring", ["gggg", "gggb", "gggu", "ggg-", "gggG", "gggB"])
def test_row_19_a_member_of_nobody_goes_whatever_its_state(build: Build, ring: str) -> None:
    assert decide(three(build, ring), build.noon).step == RemoveOrphan(4)


def test_external_etcd_has_no_orphans_of_ours(build: Build) -> None:
    assert remove_orphans(three(build, desired=build.desired(3, etcd_managed=False)), build.noon) == NOTHING


def test_without_machines_nothing_is_removed(build: Build) -> None:
    assert remove_orphans(with_orphans(build, "ggg"), build.noon).step is None


def test_where_only_members_of_nobody_vote_none_of_them_is_removed(build: Build) -> None:
    control_plane = with_orphans(build, "Ggg", build.replica(1))
    proposal = remove_orphans(control_plane, build.noon)
    assert set(refused(proposal)) == {ANOTHER_HOLDS_THE_DATA}


def test_where_every_member_is_matched_nothing_is_said(build: Build) -> None:
    assert remove_orphans(build.three(), build.noon) == NOTHING


def test_before_initialization_nothing_is_said(build: Build) -> None:
    assert remove_orphans(three(build, initialized=False), build.noon) == NOTHING


@pytest.mark.parametrize("ring", [Unknown("dial timeout"), Ring((), None)])
def test_row_20_a_ring_that_cannot_be_read_is_left_as_it_is(build: Build, ring: Ring | Unknown) -> None:
    control_plane = build.three(ring=ring, orphans=three(build).orphans)
    proposal = remove_orphans(control_plane, build.noon)
    assert refused(proposal) == [RING_IS_READ]
    assert proposal.checks[0].outcome is Outcome.UNKNOWN


def test_row_20_a_healthy_orphan_keeps_the_quorum_and_stays_with_a_remedy(build: Build) -> None:
    control_plane = with_orphans(build, "gbg", build.replica(1), build.replica(2))
    proposal = remove_orphans(control_plane, build.noon)
    assert refused(proposal) == [quorum.QUORUM_SURVIVES_REMOVAL]
    assert proposal.checks[-1].remedy


def test_a_started_orphan_that_nobody_can_ask_confirmed_the_list_and_goes(build: Build) -> None:
    assert remove_orphans(with_orphans(build, "gu", build.replica(1)), build.noon).step == RemoveOrphan(2)


def test_nothing_is_removed_while_etcd_cannot_commit(build: Build) -> None:
    assert refused(remove_orphans(three(build, "gbbb"), build.noon)) == [quorum.QUORUM_SURVIVES_REMOVAL]


def test_a_member_just_seen_as_nobodys_is_given_time(build: Build) -> None:
    proposal = remove_orphans(three(build, age=timedelta(seconds=30)), build.noon)
    assert refused(proposal) == [AGED]
    assert proposal.wake_at == build.noon + timedelta(seconds=90)
    assert remove_orphans(three(build, age=GRACE), build.noon).step == RemoveOrphan(4)


@pytest.mark.parametrize("member", [UNKNOWN, Absent()])
@pytest.mark.parametrize("ring", ["ggg", "gg-", "ggG"])
def test_while_a_replica_is_provisioned_the_member_may_be_its_own(build: Build, ring: str, member: Unknown | Absent) -> None:
    control_plane = with_orphans(build, ring, build.replica(1), build.replica(2), build.joining(9, member=member))
    proposal = remove_orphans(control_plane, build.noon)
    assert refused(proposal) == [IS_OF_NO_NEWCOMER]
    assert "cp-9" in proposal.checks[1].evidence


def test_one_that_has_not_started_for_longer_than_kubeadm_waits_goes_whosever_it_is(build: Build) -> None:
    def seen_for(age: timedelta) -> ControlPlane:
        return with_orphans(build, "gg-", build.replica(1), build.replica(2), build.joining(9, member=UNKNOWN), age=age)

    before = remove_orphans(seen_for(GIVEN_UP - timedelta(minutes=1)), build.noon)
    assert refused(before) == [IS_OF_NO_NEWCOMER]
    assert before.wake_at == build.noon + timedelta(minutes=1)
    assert remove_orphans(seen_for(GIVEN_UP), build.noon).step == RemoveOrphan(3)


def test_one_that_has_started_is_that_of_a_replica_on_its_way_however_long_that_takes(build: Build) -> None:
    control_plane = with_orphans(build, "ggg", build.replica(1), build.replica(2), build.joining(9, member=UNKNOWN), age=GIVEN_UP)
    assert refused(remove_orphans(control_plane, build.noon)) == [IS_OF_NO_NEWCOMER]


def test_one_on_its_way_whose_member_is_known_protects_no_other(build: Build) -> None:
    control_plane = with_orphans(build, "gggb", *map(build.replica, (1, 2)), build.joining(3, member=3))
    assert remove_orphans(control_plane, build.noon).step == RemoveOrphan(4)


def test_g4_a_node_may_register_before_its_member_starts(build: Build) -> None:
    young = build.replica(3, member=UNKNOWN, created=build.noon - timedelta(minutes=1))
    control_plane = with_orphans(build, "gg-", build.replica(1), build.replica(2), young, age=GRACE)
    proposal = remove_orphans(control_plane, build.noon)
    assert refused(proposal) == [IS_OF_NO_NEWCOMER]
    assert proposal.wake_at == young.created + JOINING
    assert remove_orphans(control_plane, young.created + JOINING).step == RemoveOrphan(3)


def test_one_that_booted_for_longer_than_it_may_join_is_young_from_when_its_node_came(build: Build) -> None:
    came = build.noon - timedelta(minutes=1)
    slow = build.replica(3, member=UNKNOWN, created=build.noon - timedelta(hours=1), node_created=came)
    control_plane = with_orphans(build, "gg-", build.replica(1), build.replica(2), slow, age=GRACE)
    proposal = remove_orphans(control_plane, build.noon)
    assert refused(proposal) == [IS_OF_NO_NEWCOMER]
    assert proposal.wake_at == came + JOINING
    assert remove_orphans(control_plane, came + JOINING).step == RemoveOrphan(3)


def test_a_member_with_another_s_name_is_not_that_of_a_replica_with_a_node(build: Build) -> None:
    young = build.replica(3, member=Absent(), created=build.noon)
    control_plane = with_orphans(build, "ggg", build.replica(1), build.replica(2), young)
    assert remove_orphans(control_plane, build.noon).step == RemoveOrphan(3)


def leaving(build: Build, **changes: Any) -> Replica:
    """One without a Node and with a member that nobody knows, waiting at our hook."""
    return build.joining(3, **{"member": UNKNOWN, "deleting_since": build.noon, "waits_at_hook": True, **changes})


def test_b8_a_learner_left_behind_goes_when_the_only_one_it_can_belong_to_waits_at_our_hook(build: Build) -> None:
    control_plane = with_orphans(build, "ggG", build.replica(1), build.replica(2), leaving(build))
    assert decide(control_plane, build.noon).step == RemoveOrphan(3)
    after = build.control_plane(build.replica(1), build.replica(2), leaving(build, member=Absent()))
    assert decide(after, build.noon).step == ReleaseHook("cp-3")


def test_one_that_has_not_arrived_at_our_hook_keeps_what_may_be_its_own(build: Build) -> None:
    on_its_way = leaving(build, waits_at_hook=False)
    behind_others = leaving(build, other_hooks=("backup",))
    for replica in (on_its_way, behind_others):
        proposal = remove_orphans(with_orphans(build, "ggG", build.replica(1), build.replica(2), replica), build.noon)
        assert refused(proposal) == [IS_OF_NO_NEWCOMER]


def test_one_whose_node_alone_is_gone_may_serve_and_its_member_goes_only_where_another_does(build: Build) -> None:
    control_plane = with_orphans(build, "ggg", build.ill(1), build.ill(2), leaving(build))
    assert refused(remove_orphans(control_plane, build.noon)) == [checks.COMPONENTS_SURVIVE]


def test_the_last_holder_of_data_is_not_lost_under_a_wrong_name(build: Build) -> None:
    assert ANOTHER_HOLDS_THE_DATA in refused(remove_orphans(with_orphans(build, "gg", leaving(build)), build.noon))


def test_of_several_those_that_never_started_go_first_then_the_longest_known(build: Build) -> None:
    assert remove_orphans(three(build, "gggg-"), build.noon).step == RemoveOrphan(5)
    assert remove_orphans(three(build, "gggbg"), build.noon).step == RemoveOrphan(4)


def test_one_that_must_stay_keeps_no_other_from_going(build: Build) -> None:
    control_plane = with_orphans(build, "gbgb", build.replica(1), build.replica(2))
    assert remove_orphans(control_plane, build.noon).step is None
    freed = with_orphans(build, "ggbgb", *map(build.replica, (1, 2)))
    assert remove_orphans(freed, build.noon).step == RemoveOrphan(3)


def test_an_orphan_that_leads_goes_too_for_etcd_elects_another(build: Build) -> None:
    leading = replace(three(build, "gggg"), ring=Ring(build.ring("gggg").members, leader=4))
    assert remove_orphans(leading, build.noon).step == RemoveOrphan(4)


def test_an_alarm_of_its_own_keeps_no_orphan_in_the_ring(build: Build) -> None:
    assert remove_orphans(three(build, "ggga"), build.noon).step == RemoveOrphan(4)
    assert remove_orphans(with_orphans(build, "ga", build.replica(1)), build.noon).step == RemoveOrphan(2)  # it votes for its own removal


def test_an_alarm_of_another_member_counts_against_the_removal(build: Build) -> None:
    control_plane = with_orphans(build, "gag", build.replica(1), build.replica(2))
    assert refused(remove_orphans(control_plane, build.noon)) == [quorum.QUORUM_SURVIVES_REMOVAL]


@pytest.mark.parametrize("overdue", [False, True])
def test_who_waits_for_a_machine_that_never_comes_up_is_told_how_to_consent(build: Build, overdue: bool) -> None:
    coming = build.replica(4, node=None, member=Unknown("a member that is nobody's may be its own"), overdue=overdue)
    proposal = remove_orphans(with_orphans(build, "gggb", *map(build.replica, (1, 2, 3)), coming), build.noon)
    asked = "If it is not, and is to leave, annotate the KubeadmControlPlane with quorate.dev/remove-member=4."
    assert [check.remedy for check in proposal.checks if check.name == IS_OF_NO_NEWCOMER] == [asked if overdue else ""]


def contested(build: Build, ring: str = "gggbb", **changes: Any) -> ControlPlane:
    """Three good replicas and a fourth with a Node, whose address or name two members have."""
    fourth = build.replica(4, member=Unknown("members 4 and 5 both have its address or name"), **changes)
    control_plane = with_orphans(build, ring, *map(build.replica, (1, 2, 3)), fourth)
    return replace(control_plane, orphans=tuple(replace(orphan, may_be_of=("cp-4",)) for orphan in control_plane.orphans))


def test_members_that_one_replica_cannot_be_told_from_stay_as_long_as_it_stays(build: Build) -> None:
    proposal = remove_orphans(contested(build), build.noon)
    assert set(refused(proposal)) == {IS_OF_NO_NEWCOMER}
    assert proposal.checks[1].evidence == "cp-4 (4) may be the member of cp-4"


def test_members_that_one_replica_cannot_be_told_from_leave_with_it_one_by_one(build: Build) -> None:
    on_its_way = contested(build, deleting_since=build.noon)
    assert set(refused(remove_orphans(on_its_way, build.noon))) == {IS_OF_NO_NEWCOMER}
    at_the_hook: dict[str, Any] = {"deleting_since": build.noon, "waits_at_hook": True}
    assert decide(contested(build, **at_the_hook), build.noon).step == RemoveOrphan(4)
    alone = build.control_plane(*map(build.replica, (1, 2, 3)), build.replica(4, member=5, **at_the_hook), ring="gggbb")
    assert decide(alone, build.noon).step == RemoveMember("cp-4", 5)


def test_a_member_of_a_vanishing_replica_counts_as_lost(build: Build) -> None:
    control_plane = with_orphans(build, "gggg", build.replica(1), build.replica(2), build.vanishing(3))
    assert remove_orphans(control_plane, build.noon).step == RemoveOrphan(4)
    tight = with_orphans(build, "ggg", build.replica(1), build.vanishing(2))
    assert refused(remove_orphans(tight, build.noon)) == [quorum.QUORUM_SURVIVES_REMOVAL]


def test_b1_orphans_are_judged_though_nobody_leaves_and_before_anybody_joins(build: Build) -> None:
    two = with_orphans(build, "gg-", build.replica(1), build.replica(2))
    assert decide(two, build.noon).step == RemoveOrphan(3)


def test_machines_that_wait_to_be_adopted_explain_members_first(build: Build) -> None:
    assert decide(three(build, adoptable=(Adoptable("other"),)), build.noon).step == AdoptReplicas(("other",))


def test_members_that_disagree_keep_membership_as_it_is(build: Build) -> None:
    split = three(build, membership_problem="cp-3 is in another cluster")
    proposal = members_agree(split, build.noon)
    assert [(check.name, check.evidence) for check in proposal.checks] == [(AGREEMENT, "cp-3 is in another cluster")]
    assert proposal.checks[0].remedy
    assert proposal.blocks >= {CreateReplica, DeleteReplica, RemoveMember, ReleaseHook, RemoveOrphan, Remediate}
    assert decide(split, build.noon).step is None


def test_members_that_agree_or_are_not_ours_are_not_spoken_of(build: Build) -> None:
    assert members_agree(build.three(), build.noon) == NOTHING
    assert members_agree(build.three(membership_problem="x", desired=build.desired(3, etcd_managed=False)), build.noon) == NOTHING
    assert members_agree(build.three(membership_problem="x", initialized=False), build.noon) == NOTHING
