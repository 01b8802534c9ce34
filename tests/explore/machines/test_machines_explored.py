"""Small explorations of control planes of Machines: those of which `make explore` does more. And what they find where a rule is wrong on purpose."""

from __future__ import annotations

import pytest

from quorate.clusterapi.desired import intent
from quorate.clusterapi.observe import initialization
from quorate.core.checks import passed
from quorate.core.machines.rules import orphans, remove
from quorate.core.machines.rules.remove import ANOTHER_HOLDS_THE_DATA
from tests.explore.machines import model, moves
from tests.explore.machines.model import Machines
from tests.explore.machines.waits import WAITS, Wait
from tests.explore.search import Limits, explore
from tests.proof.guards import GUARDS, disabled


@pytest.mark.parametrize("size", [0, 1, 3])
def test_where_nothing_goes_wrong_everything_comes_about(size: int) -> None:
    """Every interleaving of its passes, its deaths after each write and what the other controllers do."""
    found = explore(Machines("", size=size, backup_of=None), Limits(0), seconds=600.0)
    assert (found.violations, found.waits, found.unfinished) == ({}, {}, "")


def test_one_fault_breaks_nothing_on_the_way_to_the_first_machine() -> None:
    """Every fault, at every moment from nothing on."""
    found = explore(Machines("", size=0, backup_of=None), Limits(1), seconds=600.0)
    assert (found.violations, found.unfinished) == ({}, "")


def test_a_rule_that_takes_members_on_nodes_for_nobodys_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(orphans, "_has_no_owner", lambda _orphan: passed(orphans.HAS_NO_OWNER, "no Machine is there"))
    found = explore(Machines("one Machine that is well", size=1, backup_of=None), Limits(1), violations=1)
    assert found.violations["s17_a_member_that_is_well_is_somebodys"].history[-1] == "somebody lets a host of his own join"


@pytest.mark.parametrize(
    ("guard", "promise", "size", "faults"),
    [
        (
            "nothing is begun while somebody leaves",
            "s5_one_change_at_a_time",
            3,
            (moves.the_specification_changes, moves.a_machine_is_deleted),
        ),
        ("the last look is a fresh one", "s10_a_removal_follows_a_reading_made_for_it", 1, (moves.the_specification_changes,)),
        ("who writes leads still", "s15_who_may_no_more_does_nothing", 0, ()),
        (
            "no other Machines are there than those that were counted",
            "s15_who_may_no_more_does_nothing",
            3,
            (moves.the_specification_changes, moves.a_machine_is_deleted),
        ),
    ],
)
def test_a_promise_that_is_broken_without_its_guard_is_found_broken(
    guard: str, promise: str, size: int, faults: tuple[moves.Moves, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model, "FAULTS", faults)
    with disabled(next(known for known in GUARDS if known.name == guard)):
        found = explore(Machines("", size=size, backup_of=None), Limits(max(1, len(faults))), violations=1)
    assert promise in found.violations


def test_where_not_known_to_be_initialized_counts_as_not_initialized_that_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a move to where the endpoint is not reached the only Machine is let go."""
    is_initialized = initialization.is_initialized
    monkeypatch.setattr(initialization, "is_initialized", lambda *asked: is_initialized(*asked) is True)
    monkeypatch.setattr(model, "FAULTS", (moves.the_objects_are_moved, moves.a_machine_is_deleted))
    found = explore(Machines("one Machine that is well", size=1, backup_of=None), Limits(2), violations=1)
    assert set(found.violations) == {"s4_the_last_holder_of_data_stays"}


def test_where_a_recorded_creation_overrules_the_decision_that_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is gone on with after something else was decided: who is to join, or in which failure domain."""
    monkeypatch.setattr(intent, "makes_the_same", lambda _begun, _planned: True)
    monkeypatch.setattr(model, "FAULTS", (moves.another_provider_founds_the_cluster, moves.a_failure_domain_goes))
    found = explore(Machines("no Machine yet", size=0, backup_of=None), Limits(1), seconds=600.0)
    assert "s12_a_machine_is_made_as_it_was_decided" in found.violations


def test_of_the_gates_of_the_last_machine_each_covers_the_others_and_without_all_of_them_that_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """That another holds the data is asked beside that another serves and that quorum survives: a rule that is wrong in one of them lets nobody go."""
    monkeypatch.setattr(model, "FAULTS", (moves.a_machine_is_deleted,))
    gates = ("another_holds_the_data", "another_serves", "quorum_survives_removal")
    broken = []
    for gate in gates:
        monkeypatch.setattr(remove, gate, lambda *_: passed("a gate", "whatever is so"))
        found = explore(Machines("one Machine that is well", size=1, backup_of=None), Limits(1), seconds=600.0)
        assert not found.unfinished
        broken.append(set(found.violations))
    assert broken == [set(), set(), {"liveness"}]  # the last look before the act still refuses, for ever


@pytest.mark.parametrize(
    ("fault", "waits"),
    [
        (moves.a_disk_is_emptied, {"the workload cluster answers", ANOTHER_HOLDS_THE_DATA}),  # the second once a health check has failed it
        (moves.a_node_is_deleted, {ANOTHER_HOLDS_THE_DATA}),
        (moves.somebody_changes_the_ring, {orphans.HAS_NO_OWNER}),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_somebody_is_asked_for_is_so_and_helps(fault: moves.Moves, waits: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "FAULTS", (fault,))
    found = explore(Machines("one Machine that is well", size=1, backup_of=None), Limits(1), seconds=600.0)
    assert (found.violations, found.unfinished) == ({}, "")
    assert {check for said in found.waits for check in said} == waits


def test_what_somebody_is_asked_for_in_vain_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """One who restores nothing, and one who is told what is not so."""
    monkeypatch.setattr(model, "FAULTS", (moves.a_disk_is_emptied,))
    answers = "the workload cluster answers"
    idle = Wait(lambda _state: False, {"restore a snapshot": lambda state: iter([("somebody does nothing", state)])})
    monkeypatch.setitem(WAITS, answers, idle)
    found = explore(Machines("one Machine that is well", size=1, backup_of=None), Limits(1), seconds=600.0)
    assert {promise.partition(":")[0] for promise in found.violations} == {"truth", "remedy"}
