"""The primitives: a condition's time, the order of a list, and many Machines told in one message."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from quorate.clusterapi.report import merge_conditions
from quorate.clusterapi.report.conditions import LEGACY_ORDER, ORDER, Ledger, aggregate

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def told(status: str, message: str = "") -> dict[str, Any]:
    return {"status": status, "message": message}


def test_time_moves_only_with_the_status_and_is_whole_seconds() -> None:
    first = Ledger({}, NOON + timedelta(milliseconds=700), 3).make("Ready", "True", "Fine")
    assert first["lastTransitionTime"] == "2026-01-01T12:00:00Z"
    later = Ledger({"Ready": first}, NOON + timedelta(hours=1), 4)
    assert later.make("Ready", "True", "StillFine", "really")["lastTransitionTime"] == "2026-01-01T12:00:00Z"
    assert later.make("Ready", "True", "StillFine")["observedGeneration"] == 4
    assert later.make("Ready", "False", "Broken")["lastTransitionTime"] == "2026-01-01T13:00:00Z"


def test_a_message_is_cut_to_what_the_schema_admits() -> None:
    ledger = Ledger({}, NOON)
    assert len(ledger.make("Ready", "False", "Long", "x" * 40000)["message"]) == 32768
    assert len(ledger.make_legacy("Ready", "False", "Long", "Error", "x" * 40000)["message"]) == 10240


def test_a_true_legacy_condition_carries_neither_reason_nor_severity() -> None:
    assert set(Ledger({}, NOON).make_legacy("Ready", "True")) == {"type", "status", "lastTransitionTime"}


def test_merging_replaces_ours_and_leaves_others_untouched_in_the_common_order() -> None:
    foreign: dict[str, Any] = {"type": "example.com/Checked", "status": "True", "unknownField": 1}
    existing = [{"type": "Deleting", "status": "False"}, foreign, {"type": "Available", "status": "False"}]
    merged = merge_conditions(existing, [{"type": "Available", "status": "True"}, {"type": "RollingOut", "status": "False"}])
    assert [condition["type"] for condition in merged] == ["Available", "RollingOut", "example.com/Checked", "Deleting"]
    assert merged[0]["status"] == "True"
    assert merged[2] is foreign


def test_ready_goes_first_in_legacy_lists() -> None:
    merged = merge_conditions([{"type": "Available"}, {"type": "Resized"}], [{"type": "Ready"}], LEGACY_ORDER)
    assert [condition["type"] for condition in merged] == ["Ready", "Available", "Resized"]


@given(st.lists(st.sampled_from([*ORDER[:-3], "a", "b"]), unique=True), st.lists(st.sampled_from(ORDER[:5]), unique=True), st.randoms())
def test_merging_again_changes_nothing_and_the_order_of_arrival_does_not_matter(existing: list[str], ours: list[str], random: Any) -> None:
    theirs = [{"type": type_} for type_ in existing]
    mine = [{"type": type_, "status": "True"} for type_ in ours]
    merged = merge_conditions(theirs, mine)
    assert merge_conditions(merged, mine) == merged
    random.shuffle(theirs)
    assert merge_conditions(theirs, mine) == merged


def test_the_worst_status_wins_and_good_news_is_dropped_beside_bad() -> None:
    status, message = aggregate({"a": told("True", "fine"), "b": told("Unknown", "no idea"), "c": told("False", "broken")})
    assert status == "False"
    assert message == "* Machine c: broken\n* Machine b: no idea"


def test_the_most_frequent_message_goes_first_with_at_most_three_names() -> None:
    many = {f"m{number}": told("False", "same") for number in range(5)}
    _, message = aggregate({"a": told("False", "rare"), **many})
    assert message == "* Machines m0, m1, m2, ... (2 more): same\n* Machine a: rare"


def test_what_is_not_shown_is_counted_by_its_kind() -> None:
    issues = {f"i{number}": told("False", f"issue {number}") for number in range(5)}
    unknowns = {"u": told("Unknown", "who knows")}
    _, message = aggregate({**issues, **unknowns})
    assert message.split("\n")[3:] == ["And 2 Machines with other issues", "And 1 Machine with status unknown"]


def test_good_machines_speak_only_if_all_are_good_and_they_have_something_to_say() -> None:
    assert aggregate({"a": told("True"), "b": told("True", "by the way")}) == ("True", "* Machine b: by the way")


def test_a_message_of_several_lines_becomes_a_nested_list() -> None:
    assert aggregate({"a": told("False", "* one\n* two")})[1] == "* Machine a:\n  * one\n  * two"
    assert aggregate({"a": told("False", "head\n* one")})[1] == "* Machine a:\n  * head\n    * one"
