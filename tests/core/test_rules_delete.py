"""Taking a control plane down (rows 9 to 11)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quorate.core.health import Finding, Health, Unknown
from quorate.core.machines.decide import decide
from quorate.core.machines.rules.delete import take_down
from quorate.core.machines.state import ControlPlane, Deletion, Replica
from quorate.core.machines.steps import EVERYTHING, DeleteAll, RemoveFinalizer
from quorate.core.proposal import NOTHING

if TYPE_CHECKING:
    from tests.core.conftest import Build


def going(build: Build, *replicas: Replica, workers: tuple[str, ...] = ()) -> ControlPlane:
    return build.control_plane(*replicas, deletion=Deletion(build.noon, workers))


def test_one_that_lives_is_not_taken_down(build: Build) -> None:
    assert take_down(build.three(), build.noon) == NOTHING


def test_row_9_the_finalizer_goes_when_no_replica_is_left(build: Build) -> None:
    assert take_down(going(build), build.noon).step == RemoveFinalizer()


def test_row_10_workers_go_first_and_five_of_them_are_named(build: Build) -> None:
    proposal = take_down(going(build, build.replica(1), workers=("a", "b", "c", "d", "e", "f", "g")), build.noon)
    assert (proposal.step, proposal.blocks) == (None, EVERYTHING)
    assert proposal.checks[0].evidence == "still there: a, b, c, d, e and 2 more"
    five = take_down(going(build, workers=("a", "b", "c", "d", "e")), build.noon)
    assert five.checks[0].evidence == "still there: a, b, c, d, e"


def test_row_11_all_replicas_that_are_held_or_not_deleted_yet_go_at_once(build: Build) -> None:
    proposal = take_down(
        going(build, build.replica(1), build.leaving(2), build.vanishing(3), build.replica(4, holds_hook=False)), build.noon
    )
    assert proposal.step == DeleteAll(("cp-1", "cp-2", "cp-4"))


def test_row_11_no_ring_is_saved_and_no_cluster_asked(build: Build) -> None:
    control_plane = build.three(
        deletion=Deletion(build.noon),
        ring=Unknown("gone"),
        workload=Finding(Health.BAD, "Down"),
        infrastructure_ready=False,
        invalid=("x",),
    )
    assert decide(control_plane, build.noon).step == DeleteAll(("cp-1", "cp-2", "cp-3"))


def test_machines_that_their_owner_wants_to_keep_are_not_taken_along(build: Build) -> None:
    kept = build.three(deletion=Deletion(build.noon, keeps_machines=True))
    decision = decide(kept, build.noon)
    assert decision.step is None
    assert "--cascade=orphan" in decision.refusals[0].evidence
    assert decide(build.control_plane(deletion=Deletion(build.noon, keeps_machines=True)), build.noon).step is None


def test_machines_on_their_way_out_are_waited_for_by_name(build: Build) -> None:
    proposal = take_down(going(build, build.vanishing(1)), build.noon)
    assert (proposal.step, proposal.blocks) == (None, EVERYTHING)
    assert [check.evidence for check in proposal.checks if not check.passed] == ["being deleted: cp-1"]


def test_a_pause_holds_the_deletion_too(build: Build) -> None:
    assert decide(build.three(deletion=Deletion(build.noon), paused="spec.paused"), build.noon).step is None
