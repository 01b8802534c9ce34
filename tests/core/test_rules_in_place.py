"""Updates in place: who is asked, who may be updated, what is waited for. Upstream's tables (inplace_test.go, update_test.go) are cases here."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from quorate.core.checks import Check, Outcome
from quorate.core.health import Absent, Health, Unknown
from quorate.core.machines.checks import COMPONENTS_HEALTHY, MEMBERS_HEALTHY, NOBODY_LEAVES
from quorate.core.machines.decide import decide
from quorate.core.machines.forecast import forecast
from quorate.core.machines.rules.in_place import EXTENSION_ANSWERS, NO_UPDATE
from quorate.core.machines.state import Answer, ControlPlane, InPlace, Replica, Update
from quorate.core.machines.steps import (
    AskExtension,
    CreateReplica,
    DeleteReplica,
    PrepareWorkload,
    ReleaseHook,
    Remediate,
    RemoveMember,
    UpdateInPlace,
)
from quorate.core.maintenance import Maintenance
from quorate.core.quorum import QUORUM_SURVIVES_REMOVAL, QUORUM_SURVIVES_RESTART

from .conftest import Build

YES = InPlace(Answer.YES, "can.ext")
UNASKED = InPlace(Answer.UNASKED, "can.ext")
NO = InPlace(Answer.NO, "can.ext", "can.ext leaves over KubeadmConfig spec.ntp")
OLD: dict[str, Any] = {"outdated": ("Version",), "version": "v1.33.7"}
MARKED = Update("in-progress", started=False)
STARTED = Update("in-progress", started=True, message="In-place update in progress: half way")


def old(build: Build, number: int, in_place: InPlace | None = YES, **changes: Any) -> Replica:
    return build.replica(number, **{**OLD, "in_place": in_place, **changes})


def rolling(build: Build, *answers: InPlace | None, surge: int = 0, **changes: Any) -> ControlPlane:
    """Outdated replicas with these answers, as many as desired."""
    replicas = tuple(old(build, number, answer) for number, answer in enumerate(answers, 1))
    return build.control_plane(*replicas, desired=build.desired(len(answers), max_surge=surge), **changes)


def refused(build: Build, control_plane: ControlPlane) -> dict[str, Check]:
    decision = decide(control_plane, build.noon)
    assert decision.step is None, str(decision.step)
    return {check.name: check for check in decision.refusals}


def step(build: Build, control_plane: ControlPlane) -> object:
    return decide(control_plane, build.noon).step


def test_the_one_that_would_be_deleted_is_asked_about_updated_or_deleted(build: Build) -> None:
    assert step(build, rolling(build, UNASKED, YES, YES)) == AskExtension("cp-1")
    assert step(build, rolling(build, YES, YES, YES)) == UpdateInPlace("cp-1")
    assert step(build, rolling(build, NO, YES, YES)) == DeleteReplica("cp-1")
    assert step(build, rolling(build, None, YES, YES)) == DeleteReplica("cp-1")


def test_with_room_for_a_surge_one_more_is_made_first_as_upstream_does(build: Build) -> None:
    assert isinstance(step(build, rolling(build, YES, YES, YES, surge=1)), CreateReplica)


def test_the_last_of_a_surge_is_deleted_for_as_many_as_desired_are_up_to_date(build: Build) -> None:
    new = (build.replica(2), build.replica(3), build.replica(4))
    assert step(build, build.control_plane(old(build, 1), *new)) == DeleteReplica("cp-1")
    assert step(build, build.control_plane(old(build, 1), old(build, 2), *new[1:])) == UpdateInPlace("cp-1")


def test_a_control_plane_of_one_is_never_updated_in_place(build: Build) -> None:
    one = build.control_plane(old(build, 1), build.replica(2), desired=1)
    assert step(build, one) == DeleteReplica("cp-1")
    assert decide(build.control_plane(old(build, 1), desired=build.desired(1, max_surge=0)), build.noon).step is None


@pytest.mark.parametrize("letters", ["ggb", "ggu", "gg-", "ggG"])
def test_nobody_is_updated_whom_etcd_cannot_do_without(build: Build, letters: str) -> None:
    assert QUORUM_SURVIVES_RESTART in refused(build, rolling(build, YES, YES, YES, ring=letters))


def test_of_two_members_none_may_restart(build: Build) -> None:
    two = build.control_plane(old(build, 1), old(build, 2), desired=build.desired(2, max_surge=0))
    assert QUORUM_SURVIVES_RESTART in refused(build, two)


@pytest.mark.parametrize("member", [Absent(), Unknown("two fit")])
def test_nobody_is_updated_whose_member_is_not_known(build: Build, member: Absent | Unknown) -> None:
    replicas = (old(build, 1, member=member), build.replica(2), build.replica(3), build.replica(4))
    control_plane = build.control_plane(*replicas, desired=build.desired(5, max_surge=0), ring="gggg")
    assert not isinstance(step(build, control_plane), UpdateInPlace)


def test_external_etcd_is_not_ours_to_count(build: Build) -> None:
    outside = build.desired(3, max_surge=0, etcd_managed=False)
    replicas = tuple(old(build, number, member=Absent()) for number in (1, 2, 3))
    assert step(build, build.control_plane(*replicas, desired=outside, ring=Unknown("etcd is external"))) == UpdateInPlace("cp-1")


def test_one_that_is_ill_itself_is_replaced_and_not_updated(build: Build) -> None:
    ill = old(build, 1, component_findings=build.findings(Health.BAD))
    assert step(build, build.control_plane(ill, old(build, 2), old(build, 3), desired=build.desired(3, max_surge=0))) == DeleteReplica(
        "cp-1"
    )


def test_beside_others_that_are_ill_nobody_is_updated(build: Build) -> None:
    ill = build.replica(2, component_findings=build.findings(Health.BAD))
    assert COMPONENTS_HEALTHY in refused(
        build, build.control_plane(old(build, 1), ill, build.replica(3), desired=build.desired(3, max_surge=0))
    )
    member = replace(
        build.replica(2), member_findings=build.ill(2).member_findings and (("EtcdMemberHealthy", build.findings(Health.BAD)[0][1]),)
    )
    assert MEMBERS_HEALTHY in refused(
        build, build.control_plane(old(build, 1), member, build.replica(3), desired=build.desired(3, max_surge=0))
    )


def test_nobody_is_updated_while_one_leaves(build: Build) -> None:
    leaving = build.leaving(2, waits_at_hook=False)
    control_plane = build.control_plane(old(build, 1), leaving, build.replica(3), build.replica(4), desired=build.desired(4, max_surge=0))
    assert NOBODY_LEAVES in refused(build, control_plane)


@pytest.mark.parametrize(
    "changes",
    [
        {"template_problem": "there is none"},
        {"topology_pending": "v1.34.5"},
        {"preparation": Maintenance(pending=True, problem="no answer", retry_at=None)},
    ],
)
def test_what_holds_up_a_replacement_holds_up_an_update(build: Build, changes: dict[str, Any]) -> None:
    control_plane = rolling(build, YES, YES, YES, **changes)
    later = (
        {"preparation": Maintenance(pending=True, problem="no answer", retry_at=build.noon + timedelta(minutes=1))}
        if "preparation" in changes
        else changes
    )
    assert not isinstance(step(build, replace(control_plane, **later)), UpdateInPlace | DeleteReplica)


def test_two_minors_at_once_are_no_update(build: Build) -> None:
    replicas = tuple(build.replica(n, outdated=("Version",), version="v1.32.0", in_place=YES) for n in (1, 2, 3))
    assert step(build, build.control_plane(*replicas, desired=build.desired(3, max_surge=0))) is None


def test_an_extension_that_cannot_be_asked_is_waited_for_and_named(build: Build) -> None:
    later = build.noon + timedelta(seconds=5)
    silent = InPlace(Answer.UNKNOWN, "can.ext", "no answer within 10 s", "See the extension.", later)
    control_plane = rolling(build, silent, YES, YES)
    check = refused(build, control_plane)[EXTENSION_ANSWERS]
    assert (check.outcome, check.remedy) == (Outcome.UNKNOWN, "See the extension.")
    assert "can.ext" in check.evidence
    assert "cp-1" in check.evidence
    assert "no answer within 10 s" in check.evidence
    assert decide(control_plane, build.noon).wake_at == later
    assert decide(control_plane, later).step == AskExtension("cp-1")


def test_one_that_is_configured_and_unusable_is_waited_for_without_a_next_time(build: Build) -> None:
    unusable = InPlace(Answer.UNKNOWN, "ext", "core could not discover what it answers", "Bring it up.")
    assert EXTENSION_ANSWERS in refused(build, rolling(build, unusable, YES, YES))


def test_the_others_are_asked_about_while_nothing_else_is_to_be_done(build: Build) -> None:
    new = build.joining(4)
    waiting = build.control_plane(old(build, 1, UNASKED), old(build, 2, YES), old(build, 3, UNASKED), new)
    assert step(build, waiting) == AskExtension("cp-1")
    assert step(build, build.control_plane(old(build, 1, YES), old(build, 2, YES), old(build, 3, UNASKED), new)) == AskExtension("cp-3")


def test_while_one_is_updated_nobody_joins_is_deleted_or_updated(build: Build) -> None:
    updating = build.replica(1, update=STARTED)
    rollout = build.control_plane(updating, old(build, 2), old(build, 3), desired=build.desired(3, max_surge=0))
    assert "cp-1 is being updated in place: In-place update in progress: half way" in refused(build, rollout)[NO_UPDATE].evidence
    assert not refused(build, rollout)[NO_UPDATE].remedy
    growing = build.control_plane(updating, build.replica(2), build.replica(3), desired=5)
    assert NO_UPDATE in refused(build, growing)
    shrinking = build.control_plane(updating, *(build.replica(n) for n in (2, 3, 4, 5)), desired=3)
    assert NO_UPDATE in refused(build, shrinking)


def test_an_update_that_fails_has_a_way_out(build: Build) -> None:
    failing = build.replica(1, update=replace(STARTED, failed=True, message="UpdateMachine hook failed"))
    check = refused(build, build.control_plane(failing, build.replica(2), build.replica(3)))[NO_UPDATE]
    assert "fails: UpdateMachine hook failed" in check.evidence
    assert "cp-1" in check.remedy


def test_one_that_fails_its_health_check_while_it_is_updated_is_replaced(build: Build) -> None:
    stuck = build.replica(1, update=STARTED, unhealthy=True)
    assert step(build, build.control_plane(stuck, build.replica(2), build.replica(3))) == Remediate("cp-1", 0)


def test_another_one_that_fails_meanwhile_is_replaced_if_it_is_really_down(build: Build) -> None:
    bad = replace(build.ill(2, unhealthy=True), member_findings=(("EtcdMemberHealthy", build.findings(Health.BAD)[0][1]),))
    down = build.control_plane(build.replica(1, update=STARTED), bad, build.replica(3), ring="gbg")
    assert step(build, down) == Remediate("cp-2", 0)


def test_a_voter_that_is_well_does_not_leave_where_two_would_be_missing(build: Build) -> None:
    three = build.control_plane(build.replica(1, update=STARTED), build.leaving(2), build.replica(3))
    check = refused(build, three)[QUORUM_SURVIVES_REMOVAL]
    assert "while cp-1, updated in place, may restart" in check.evidence
    five = build.control_plane(build.replica(1, update=STARTED), build.leaving(2), *(build.replica(n) for n in (3, 4, 5)), desired=5)
    assert step(build, five) == RemoveMember("cp-2", 2)
    dead = build.control_plane(build.replica(1, update=STARTED), build.leaving(2), build.replica(3), ring="gbg")
    assert step(build, dead) == RemoveMember("cp-2", 2)


def test_one_that_is_deleted_while_it_is_updated_leaves_as_any_other(build: Build) -> None:
    control_plane = build.control_plane(build.leaving(1, update=STARTED), build.replica(2), build.replica(3))
    assert step(build, control_plane) == RemoveMember("cp-1", 1)
    without = build.control_plane(build.leaving(1, update=STARTED, member=Absent()), build.replica(2), build.replica(3))
    assert step(build, without) == ReleaseHook("cp-1")


def test_what_was_begun_is_asked_about_anew_and_finished(build: Build) -> None:
    def begun(in_place: InPlace | None) -> ControlPlane:
        return build.control_plane(
            build.replica(1, update=MARKED, in_place=in_place), old(build, 2), old(build, 3), desired=build.desired(3, max_surge=0)
        )

    assert step(build, begun(UNASKED)) == AskExtension("cp-1")
    assert step(build, begun(YES)) == UpdateInPlace("cp-1")
    assert EXTENSION_ANSWERS in refused(build, begun(InPlace(Answer.UNKNOWN, "ext", "silent", "Bring it up.")))


def test_what_was_begun_and_is_not_possible_any_more_goes_first_in_the_rollout(build: Build) -> None:
    vain = build.replica(2, update=MARKED, in_place=NO, outdated=("An update in place was begun and cannot be finished",))
    full = build.control_plane(old(build, 1), vain, old(build, 3), desired=build.desired(3, max_surge=0))
    assert step(build, full) == DeleteReplica("cp-2")
    assert isinstance(step(build, replace(full, desired=build.desired(3))), CreateReplica)


def test_what_was_begun_holds_up_no_newcomer_and_no_scaling_down(build: Build) -> None:
    begun = build.replica(1, update=MARKED, in_place=YES)
    assert isinstance(
        step(build, build.control_plane(begun, build.replica(2), desired=3)), CreateReplica
    )  # with two nobody can be finished
    assert step(build, build.control_plane(begun, build.replica(2), desired=1)) == DeleteReplica("cp-1")


def test_what_was_begun_waits_for_the_quorum_and_does_not_hold_up_a_remediation(build: Build) -> None:
    bad = replace(build.ill(2, unhealthy=True), member_findings=(("EtcdMemberHealthy", build.findings(Health.BAD)[0][1]),))
    control_plane = build.control_plane(build.replica(1, update=MARKED, in_place=YES), bad, build.replica(3), ring="gbg")
    assert step(build, control_plane) == Remediate("cp-2", 0)


def test_a_plan_shows_who_is_updated_and_who_is_replaced(build: Build) -> None:
    foreseen = forecast(rolling(build, YES, NO, YES), build.noon)
    assert [each.step for each in foreseen.steps if isinstance(each.step, UpdateInPlace | DeleteReplica)] == [
        UpdateInPlace("cp-1"),
        DeleteReplica("cp-2"),
        UpdateInPlace("cp-3"),
    ]
    assert foreseen.converged
    asking = forecast(rolling(build, UNASKED, NO, YES), build.noon)
    assert [each.step for each in asking.steps] == [AskExtension("cp-1")]
    arriving = forecast(build.control_plane(build.replica(1, update=STARTED), build.replica(2), build.replica(3)), build.noon)
    assert arriving.converged


def test_why_one_is_not_updated_in_place_is_said_beside_what_differs(build: Build) -> None:
    decision = decide(rolling(build, NO, YES, YES), build.noon)
    assert any("not in place: can.ext leaves over KubeadmConfig spec.ntp" in check.evidence for check in decision.checks)


def test_what_was_begun_waits_for_the_one_that_is_updated(build: Build) -> None:
    both = build.control_plane(build.replica(1, update=STARTED), build.replica(2, update=MARKED, in_place=YES), build.replica(3))
    assert NO_UPDATE in refused(build, both)


def test_the_workload_is_prepared_for_what_was_begun_though_nothing_differs_any_more(build: Build) -> None:
    begun = build.control_plane(
        build.replica(1, update=MARKED, in_place=YES), build.replica(2), build.replica(3), preparation=Maintenance(pending=True)
    )
    assert step(build, begun) == PrepareWorkload()
