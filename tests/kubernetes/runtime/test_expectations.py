"""Expectations: a key waits until the caches have seen our writes, and not a moment longer."""

from __future__ import annotations

from collections import Counter

import pytest

from quorate.kubernetes import expectations as module
from quorate.kubernetes.expectations import Expectations
from quorate.kubernetes.objects import Node, ObjectMeta
from quorate.kubernetes.store import Store, number


def node(name: str, version: int, *, uid: str = "") -> Node:
    return Node(metadata=ObjectMeta(name=name, uid=uid or f"uid-{name}", resource_version=str(version)))


class World:
    def __init__(self) -> None:
        self.enqueued: list[str] = []
        self.store = Store[Node]()
        self.store.replace([node("old", 5)], "9")
        self.expectations = Expectations[str](self.enqueued.append)


def test_a_key_waits_until_the_store_has_seen_the_version_written_compared_as_numbers() -> None:
    world = World()
    world.expectations.expect_version("kcp", world.store, "10")
    assert world.expectations.pending("kcp")
    assert not world.expectations.pending("other")
    world.store.observe("9")
    assert world.expectations.pending("kcp")
    assert world.enqueued == []
    world.store.put(node("new", 10))
    assert not world.expectations.pending("kcp")
    assert world.enqueued == ["kcp"]


def test_a_bookmark_or_any_other_newer_object_will_do() -> None:
    world = World()
    world.expectations.expect_version("kcp", world.store, "10")
    world.store.observe("11")
    assert world.enqueued == ["kcp"]


def test_a_watch_that_was_faster_than_the_answer_holds_nothing() -> None:
    world = World()
    world.store.put(node("new", 10))
    world.expectations.expect_version("kcp", world.store, "10")
    assert not world.expectations.pending("kcp")
    assert world.enqueued == []


def test_the_key_is_enqueued_once_when_the_last_of_several_is_met() -> None:
    world, other = World(), Store[Node]()
    world.expectations.expect_version("kcp", world.store, "10")
    world.expectations.expect_version("kcp", world.store, "12")
    world.expectations.expect_version("kcp", other, "11")
    world.store.observe("12")
    assert world.expectations.pending("kcp")
    assert world.enqueued == []
    other.observe("11")
    assert world.enqueued == ["kcp"]
    other.observe("20")
    world.store.observe("20")
    assert world.enqueued == ["kcp"], "a met expectation is dropped"


def test_keys_wait_independently() -> None:
    world = World()
    world.expectations.expect_version("a", world.store, "10")
    world.expectations.expect_version("b", world.store, "20")
    world.store.observe("10")
    assert (world.enqueued, world.expectations.pending("b")) == (["a"], True)


def test_a_deletion_is_seen_when_the_uid_is_gone() -> None:
    world = World()
    world.expectations.expect_deleted("kcp", world.store, node("old", 5))
    world.store.observe("11")
    assert world.expectations.pending("kcp")
    world.store.remove(node("old", 12))
    assert world.enqueued == ["kcp"]


def test_another_object_of_the_same_name_means_that_the_uid_is_gone() -> None:
    world = World()
    world.expectations.expect_deleted("kcp", world.store, node("old", 5))
    world.store.replace([node("old", 12, uid="second")], "12")
    assert world.enqueued == ["kcp"]


def test_a_deletion_held_by_a_finalizer_is_seen_by_its_version() -> None:
    world = World()
    world.expectations.expect_deleted("kcp", world.store, node("old", 5), resource_version="10")
    world.store.put(node("old", 10))
    assert world.enqueued == ["kcp"]


def test_a_deletion_of_what_the_store_does_not_hold_is_not_waited_for() -> None:
    world = World()
    world.expectations.expect_deleted("kcp", world.store, node("unknown", 5))
    assert not world.expectations.pending("kcp")


def test_forgetting_drops_all_without_enqueuing() -> None:
    world = World()
    world.expectations.expect_version("kcp", world.store, "10")
    world.expectations.forget("kcp")
    world.expectations.forget("kcp")
    assert not world.expectations.pending("kcp")
    world.store.observe("10")
    assert world.enqueued == []


def test_what_was_written_while_being_enqueued_is_waited_for_too() -> None:
    store = Store[Node]()
    enqueued: list[str] = []

    def enqueue(key: str) -> None:
        enqueued.append(key)
        if len(enqueued) == 1:
            expectations.expect_version(key, store, "20")

    expectations = Expectations[str](enqueue)
    expectations.expect_version("kcp", store, "10")
    store.observe("10")
    assert expectations.pending("kcp")
    store.observe("20")
    assert enqueued == ["kcp", "kcp"]


def test_what_was_expected_is_dropped_when_the_versions_go_back() -> None:
    """The API server's etcd was restored: what was written before may never come, and a key would be held for ever."""
    world = World()
    world.expectations.expect_version("kcp", world.store, "10")
    world.expectations.expect_deleted("other", world.store, node("old", 5))
    world.store.replace([node("old", 5)], "7")
    assert not world.expectations.pending("kcp")
    assert sorted(world.enqueued) == ["kcp", "other"]


def test_an_event_costs_the_same_however_many_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    world, asked = World(), Counter[int]()
    for count in (10, 1000):
        for each in range(count):
            world.expectations.expect_version(f"kcp-{each}", world.store, str(10_000 + each))
        with monkeypatch.context() as patched:
            patched.setattr(module, "number", lambda version, count=count: asked.update([count]) or number(version))
            world.store.observe("10")
    assert asked[10] == asked[1000] > 0
