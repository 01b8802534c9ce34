"""The store: indexes that follow the objects, and the difference a new list makes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.kubernetes.objects import Node, ObjectMeta
from quorate.kubernetes.store import Change, Store, newer_or_equal


def node(name: str, version: int, *, uid: str = "", **labels: str) -> Node:
    return Node(metadata=ObjectMeta(name=name, uid=uid or f"uid-{name}", resource_version=str(version), labels=labels))


def by_label(item: Node) -> list[str]:
    return list(item.metadata.labels.values())


def names(items: list[Node]) -> list[str]:
    return sorted(item.metadata.name for item in items)


def test_an_object_is_found_by_name_until_it_is_removed() -> None:
    store = Store[Node]()
    first = node("a", 1)
    assert store.put(first) == Change(None, first)
    assert store.get("", "a") is first
    second = node("a", 2)
    assert store.put(second) == Change(first, second)
    assert store.remove(node("a", 3)) == Change(second, None)
    assert store.get("", "a") is None
    assert store.remove(node("a", 4)) == Change(None, None)


def test_namespaces_keep_equal_names_apart() -> None:
    store = Store[dict[str, Any]]()
    for namespace in ("one", "two"):
        store.put({"metadata": {"name": "a", "namespace": namespace, "resourceVersion": "1"}})
    assert len(store) == 2
    assert store.get("three", "a") is None
    found = store.get("two", "a")
    assert found is not None
    assert found["metadata"]["namespace"] == "two"


def test_an_index_follows_the_object_from_value_to_value() -> None:
    store = Store(indexes={"label": by_label})
    store.put(node("a", 1, x="red"))
    store.put(node("b", 2, x="red", y="blue"))
    assert names(store.by_index("label", "red")) == ["a", "b"]
    store.put(node("a", 3, x="blue"))
    assert names(store.by_index("label", "red")) == ["b"]
    assert names(store.by_index("label", "blue")) == ["a", "b"]
    store.remove(node("b", 4))
    assert store.by_index("label", "red") == []


def test_an_index_that_was_not_declared_is_an_error() -> None:
    with pytest.raises(KeyError):
        Store[Node]().by_index("label", "red")


def test_a_list_returns_only_what_changed() -> None:
    store = Store[Node]()
    same, old, gone = node("same", 1), node("changed", 2), node("gone", 3)
    for item in (same, old, gone):
        store.put(item)
    new, added = node("changed", 7), node("added", 8)
    changes = store.replace([node("same", 1), new, added], "9")
    assert changes == [Change(gone, None), Change(old, new), Change(None, added)]
    assert names(store.items()) == ["added", "changed", "same"]
    assert store.last_resource_version == "9"


def test_an_object_made_anew_under_the_same_name_is_a_delete_and_an_add() -> None:
    store = Store[Node]()
    old, new = node("a", 1, uid="first"), node("a", 5, uid="second")
    store.put(old)
    assert store.replace([new], "6") == [Change(old, None), Change(None, new)]


def test_the_last_resource_version_only_moves_on_except_by_a_list() -> None:
    store = Store[Node]()
    store.put(node("a", 10))
    store.observe("9")
    store.observe("")
    assert store.last_resource_version == "10"
    store.observe("11")
    assert store.last_resource_version == "11"
    store.remove(node("a", 12))
    assert store.last_resource_version == "12"
    store.replace([], "3")
    assert store.last_resource_version == "3", "etcd was restored from a backup"


def test_subscribers_hear_of_every_change_until_they_unsubscribe() -> None:
    store, heard = Store[Node](), []
    callback = lambda: heard.append(store.last_resource_version)  # noqa: E731
    store.subscribe(callback)
    store.subscribe(callback)
    store.put(node("a", 1))
    store.observe("2")
    store.replace([], "3")
    store.unsubscribe(callback)
    store.unsubscribe(callback)
    store.observe("4")
    assert heard == ["1", "2", "3"]


def test_resource_versions_are_compared_as_numbers() -> None:
    assert newer_or_equal("10", "9")
    assert newer_or_equal("9", "9")
    assert newer_or_equal("1", "")
    assert not newer_or_equal("9", "10")


@pytest.mark.parametrize("text", ["x y", "-1", "1.5", "\u00b2", "9" * 5000])
def test_what_is_no_number_is_older_than_any(text: str) -> None:
    assert not newer_or_equal(text, "1")
    assert newer_or_equal("1", text)


_NODES = st.lists(
    st.builds(node, st.sampled_from("abcd"), st.integers(1, 5), uid=st.sampled_from(["one", "two"]), x=st.sampled_from("rgb")),
    unique_by=lambda item: item.metadata.name,
)


@given(st.lists(_NODES, max_size=5))
def test_whatever_was_listed_before_store_and_indexes_hold_the_last_list(lists: list[list[Node]]) -> None:
    store = Store(indexes={"label": by_label})
    for items in lists:
        replayed = {item.metadata.name: item for item in store.items()}
        for change in store.replace(items, "1"):
            if change.old is not None:
                assert replayed.pop(change.old.metadata.name) == change.old
            if change.new is not None:
                replayed[change.new.metadata.name] = change.new
        assert {name: item.metadata.resource_version for name, item in replayed.items()} == {
            item.metadata.name: item.metadata.resource_version for item in items
        }
        for value in "rgb":
            assert names(store.by_index("label", value)) == names([item for item in store.items() if item.metadata.labels["x"] == value])
