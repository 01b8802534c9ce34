"""JSON patches: applied to the first document they give the second."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from quorate.kubernetes.jsonpatch import json_patch


def applied(document: dict[str, Any], operations: list[dict[str, Any]]) -> dict[str, Any]:
    """RFC 6902, as far as these operations go."""
    document = copy.deepcopy(document)
    for operation in operations:
        *parents, last = [part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]]
        target = document
        for parent in parents:
            target = target[parent]
        assert (last in target) == (operation["op"] != "add")
        if operation["op"] == "remove":
            del target[last]
        else:
            target[last] = operation["value"]
    return document


_NAMES = st.sampled_from(["a", "b/c", "~d", "~1", ""])
_VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(0, 2), st.text(max_size=2)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_NAMES, inner, max_size=3)),
    max_leaves=8,
)
_DOCUMENTS = st.dictionaries(_NAMES, _VALUES, max_size=4)


@given(_DOCUMENTS, _DOCUMENTS)
def test_a_patch_makes_the_second_of_the_first(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert repr_sorted(applied(before, json_patch(before, after))) == repr_sorted(after)


@given(_DOCUMENTS)
def test_equal_documents_need_no_operations(document: dict[str, Any]) -> None:
    assert json_patch(document, copy.deepcopy(document)) == []


def test_only_what_differs_is_touched() -> None:
    before = {"spec": {"replicas": None, "version": "1.34.0", "same": {"x": 1}, "gone": 1}}
    after = {"spec": {"replicas": 1, "version": "v1.34.0", "same": {"x": 1}, "rollout/strategy": {}}}
    assert json_patch(before, after) == [
        {"op": "remove", "path": "/spec/gone"},
        {"op": "replace", "path": "/spec/replicas", "value": 1},
        {"op": "replace", "path": "/spec/version", "value": "v1.34.0"},
        {"op": "add", "path": "/spec/rollout~1strategy", "value": {}},
    ]


def test_true_is_not_one() -> None:
    assert json_patch({"a": [True]}, {"a": [1]}) == [{"op": "replace", "path": "/a", "value": [1]}]


def repr_sorted(value: Any) -> Any:
    """A form in which True and 1 differ and the order of fields does not."""
    if isinstance(value, dict):
        return sorted((name, repr_sorted(inner)) for name, inner in value.items())
    return [repr_sorted(inner) for inner in value] if isinstance(value, list) else repr(value)
