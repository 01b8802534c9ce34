"""The algebra of an extension's patches. What upstream's own tables say of it are facts here too (internal/util/patch, kubeadmcontrolplane)."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.clusterapi.extensions import patches
from quorate.clusterapi.extensions.patches import JSON_MERGE_PATCH, JSON_PATCH, Patch, PatchFailed, patched, same
from quorate.kubernetes.jsonpatch import json_patch

KIND = {"apiVersion": "v1", "kind": "Thing", "metadata": {"name": "x"}}


def after(spec: Any, *operations: dict[str, Any]) -> Any:
    """The specification after these operations of a JSON patch."""
    return patched({**KIND, "spec": spec}, Patch(JSON_PATCH, msgspec.json.encode(operations)))["spec"]


def merged(spec: Any, patch: Any) -> Any:
    return patched({**KIND, "spec": spec}, Patch(JSON_MERGE_PATCH, msgspec.json.encode(patch)))["spec"]


def add(path: str, value: Any) -> dict[str, Any]:
    return {"op": "add", "path": path, "value": value}


@pytest.mark.parametrize(
    ("spec", "operation", "expected"),
    [
        ({"a": 1}, add("/spec/b", 2), {"a": 1, "b": 2}),
        ({"a": 1}, add("/spec/a", None), {"a": None}),
        ({"a": [1, 3]}, add("/spec/a/1", 2), {"a": [1, 2, 3]}),
        ({"a": [1]}, add("/spec/a/-", 2), {"a": [1, 2]}),
        ({"a": [1]}, add("/spec/a/1", 2), {"a": [1, 2]}),
        ({"a": [1, 2]}, add("/spec/a/-1", 3), {"a": [1, 2, 3]}),  # from the end of what it will be
        ({"a": [1, 2]}, {"op": "remove", "path": "/spec/a/-1"}, {"a": [1]}),
        ({"a": [1, 2]}, {"op": "replace", "path": "/spec/a/-2", "value": 9}, {"a": [9, 2]}),
        ({"a": [1, 2]}, {"op": "replace", "path": "/spec/a/+1", "value": 9}, {"a": [1, 9]}),  # as Go reads numbers
        ({"a/b": 1, "c~d": 2}, {"op": "remove", "path": "/spec/a~1b"}, {"c~d": 2}),
        ({"a/b": 1, "c~d": 2}, {"op": "replace", "path": "/spec/c~0d", "value": 3}, {"a/b": 1, "c~d": 3}),
        ({"a": {"b": 1}}, {"op": "move", "from": "/spec/a/b", "path": "/spec/c"}, {"a": {}, "c": 1}),
        ({"a": {"b": 1}}, {"op": "copy", "from": "/spec/a", "path": "/spec/c"}, {"a": {"b": 1}, "c": {"b": 1}}),
        ({"a": 1}, {"op": "test", "path": "/spec/a", "value": 1}, {"a": 1}),
        ({"a": 1}, {"op": "test", "path": "/spec/b", "value": None}, {"a": 1}),  # what is not there is null
        ({"a": 1}, {"op": "test", "path": "/spec/b"}, {"a": 1}),
        ({"a": 1}, add("/metadata/labels", {"x": "y"}), {"a": 1}),  # only the specification counts
        ({"a": 1}, add("/status", {"x": "y"}), {"a": 1}),
        ({"a": 1}, {"op": "remove", "path": "/spec"}, {"a": 1}),  # and one that is taken away stays
        ({"a": 1}, {"op": "replace", "path": "/spec", "value": {"b": 2}}, {"b": 2}),
        ({"a": 1}, {"op": "replace", "path": "/spec", "value": None}, None),
        ({"a": 1}, {"op": "replace", "path": "", "value": {"kind": "Thing", "spec": {"b": 2}}}, {"b": 2}),
    ],
)
def test_an_operation(spec: Any, operation: dict[str, Any], expected: Any) -> None:
    assert same(after(spec, operation), expected)


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "remove", "path": "/spec/b"},
        {"op": "replace", "path": "/spec/b", "value": 1},
        {"op": "test", "path": "/spec/a", "value": 2},
        {"op": "test", "path": "/spec/a", "value": 1.0},  # bytes are compared
        {"op": "test", "path": "/spec/a", "value": True},
        {"op": "test", "path": "/spec/a"},
        add("/spec/b/c", 1),  # no parent is made
        add("/spec/a/b", 1),  # a number has no fields
        add("spec/b", 1),
        add("/spec/l/4", 1),
        add("/spec/l/x", 1),
        {"op": "replace", "path": "/spec/l/-", "value": 1},
        {"op": "remove", "path": "/spec/l/-3"},
        {"op": "remove", "path": ""},
        {"op": "remove", "path": "/kind"},
        {"op": "replace", "path": "/kind", "value": 5},
        {"op": "replace", "path": "", "value": [1]},
        {"op": "replace", "path": "", "value": 1},
        {"op": "move", "from": "", "path": "/spec/b"},
        {"op": "move", "path": "/spec/b"},
        {"op": "add", "path": "/spec/b"},
        {"op": "add", "value": 1},
        {"op": "increase", "path": "/spec/a"},
        {"path": "/spec/a"},
        {"op": ["add"], "path": "/spec/a", "value": 1},
    ],
)
def test_an_operation_that_does_not_fit(operation: dict[str, Any]) -> None:
    with pytest.raises(PatchFailed):
        after({"a": 1, "l": [1, 2]}, operation)


@pytest.mark.parametrize(
    ("spec", "patch", "expected"),
    [
        ({"a": 1, "b": 2}, {"spec": {"a": None}}, {"b": 2}),
        ({"a": {"b": 1, "c": 2}}, {"spec": {"a": {"b": None}}}, {"a": {"c": 2}}),
        ({"a": [1, 2]}, {"spec": {"a": [3]}}, {"a": [3]}),
        ({"a": 1}, {"spec": {"a": {"b": None, "c": 1}}}, {"a": {"c": 1}}),
        ({}, {"spec": {"a": {"b": None, "c": [{"d": None}]}}}, {"a": {"c": [{}]}}),  # nulls are taken out of all that is new
        ({"a": {}}, {"spec": {"a": [{"d": None}]}}, {"a": [{"d": None}]}),  # but not of what takes the place of an object
        ({"a": 1}, {}, {"a": 1}),
        ({"a": 1}, {"spec": None}, {"a": 1}),
        ({"a": 1}, {"metadata": None}, {"a": 1}),
        ({"a": 1}, {"spec": 5}, 5),
    ],
)
def test_a_merge(spec: Any, patch: Any, expected: Any) -> None:
    assert same(merged(spec, patch), expected)


@pytest.mark.parametrize(
    "patch",
    [
        Patch("", b"[]"),  # bytes without a type
        Patch("Strategic", b"{}"),
        Patch(JSON_PATCH, b""),
        Patch(JSON_PATCH, b"{}"),
        Patch(JSON_PATCH, b"[1]"),
        Patch(JSON_PATCH, b"["),
        Patch(JSON_PATCH, b"\xff"),
        Patch(JSON_MERGE_PATCH, b"[]"),
        Patch(JSON_MERGE_PATCH, b"5"),
        Patch(JSON_MERGE_PATCH, b"nonsense"),
        Patch(JSON_MERGE_PATCH, b'{"kind":null}'),
        Patch(JSON_MERGE_PATCH, b'{"spec":' + b'{"a":' * 5000 + b"1" + b"}" * 5001),
    ],
)
def test_what_is_no_patch(patch: Patch) -> None:
    with pytest.raises(PatchFailed):
        patched({**KIND, "spec": {}}, patch)


@pytest.mark.parametrize(
    "patch", [Patch(), Patch(JSON_PATCH, b"[]"), Patch(JSON_PATCH, b"null"), Patch(JSON_MERGE_PATCH), Patch(JSON_MERGE_PATCH, b"{ }")]
)
def test_a_patch_of_nothing_changes_nothing(patch: Patch) -> None:
    assert patched({**KIND, "spec": {"a": 1}}, patch) == {**KIND, "spec": {"a": 1}}


def test_an_object_that_is_patched_stays_as_it_was() -> None:
    obj = {**KIND, "spec": {"a": {"b": [1]}}}
    assert patched(obj, Patch(JSON_PATCH, msgspec.json.encode([add("/spec/a/b/-", 2)])))["spec"] == {"a": {"b": [1, 2]}}
    assert patched(obj, Patch(JSON_MERGE_PATCH, b'{"spec":{"a":{"c":1}}}'))["spec"] == {"a": {"b": [1], "c": 1}}
    assert obj == {**KIND, "spec": {"a": {"b": [1]}}}


def test_copies_that_double_end_before_they_fill_the_memory() -> None:
    doubling = [{"op": "copy", "from": "/spec", "path": f"/spec/{number}"} for number in range(64)]
    with pytest.raises(PatchFailed, match="more than 2 MiB"):
        after({"a": "x" * 1000}, *doubling)


def test_tests_of_everything_end_too() -> None:
    spec = {"a": "x" * 100_000}
    with pytest.raises(PatchFailed, match="more than 2 MiB"):
        after(spec, *[{"op": "test", "path": "/spec", "value": spec}] * 20)


def test_neither_operations_nor_values_are_without_end() -> None:
    with pytest.raises(PatchFailed, match="5001 operations"):
        after({}, *[{"op": "test", "path": "/a"}] * (patches.MOST_OPERATIONS + 1))
    with pytest.raises(PatchFailed, match="20000 values"):
        merged({}, {"spec": {"a": [0] * 30_000}})


NAMES = st.text("ab/~0-", max_size=3)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | NAMES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=10,
)
SPECS = st.dictionaries(NAMES, JSON, max_size=4)


@given(SPECS, SPECS)
def test_the_difference_of_two_specifications_makes_one_of_the_other(before: dict[str, Any], wanted: dict[str, Any]) -> None:
    assert same(after(before, *json_patch({"spec": before}, {"spec": wanted})), wanted)


@given(SPECS, st.binary(max_size=60) | SPECS.map(msgspec.json.encode), st.sampled_from([JSON_PATCH, JSON_MERGE_PATCH, "", "x"]))
def test_whatever_is_sent_either_applies_or_fails(spec: dict[str, Any], data: bytes, kind: str) -> None:
    with suppress(PatchFailed):
        assert patched({**KIND, "spec": spec}, Patch(kind, data)).keys() == {*KIND, "spec"}
