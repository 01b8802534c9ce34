"""Handlers: which keys a change becomes."""

from __future__ import annotations

from quorate.kubernetes.controller import Request
from quorate.kubernetes.handlers import Enqueue, enqueue_mapped, enqueue_owner, enqueue_self, group_of
from quorate.kubernetes.objects import Node, ObjectMeta, OwnerReference
from quorate.kubernetes.queue import LOW_PRIORITY

GROUP, KIND = "controlplane.cluster.x-k8s.io", "KubeadmControlPlane"


class Added:
    """A queue that only remembers."""

    def __init__(self) -> None:
        self.keys: list[tuple[str, int]] = []

    def add(self, key: Request, *, priority: int = 0) -> None:
        self.keys.append((str(key), priority))

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.keys]


def owned(*owners: OwnerReference, name: str = "machine", **labels: str) -> Node:
    return Node(metadata=ObjectMeta(name=name, namespace="default", owner_references=list(owners), labels=labels))


def owner(name: str, *, kind: str = KIND, group: str = GROUP, version: str = "v1beta2", controller: bool | None = True) -> OwnerReference:
    return OwnerReference(api_version=f"{group}/{version}", kind=kind, name=name, uid=f"uid-{name}", controller=controller)


def test_an_object_enqueues_itself_on_every_kind_of_change() -> None:
    queue = Added()
    handler = enqueue_self(queue)
    handler.on_add(owned(), initial=False)
    handler.on_update(owned(), owned())
    handler.on_delete(owned(), final_state_unknown=False)
    handler.on_delete(owned(), final_state_unknown=True)
    assert queue.keys == [("default/machine", 0)] * 4


def test_objects_of_the_first_list_go_to_the_back_of_the_queue() -> None:
    queue = Added()
    enqueue_self(queue).on_add(owned(), initial=True)
    assert queue.keys == [("default/machine", LOW_PRIORITY)]


def test_a_cluster_scoped_object_is_named_without_a_namespace() -> None:
    queue = Added()
    enqueue_self(queue).on_add(Node(metadata=ObjectMeta(name="node-1")), initial=False)
    assert queue.names == ["node-1"]


def test_an_update_enqueues_the_owners_of_the_old_and_of_the_new_object() -> None:
    queue = Added()
    enqueue_owner(queue, GROUP, KIND).on_update(owned(owner("before")), owned(owner("after")))
    assert queue.names == ["default/before", "default/after"]


def test_an_update_that_keeps_the_owner_enqueues_it_once() -> None:
    queue = Added()
    enqueue_owner(queue, GROUP, KIND).on_update(owned(owner("same")), owned(owner("same")))
    assert queue.names == ["default/same"]


def test_owners_match_by_group_and_kind_and_the_version_is_ignored() -> None:
    queue = Added()
    owners = (owner("old", version="v1beta1"), owner("alpha", kind="Cluster"), owner("beta", group="example.com"))
    enqueue_owner(queue, GROUP, KIND).on_add(owned(*owners), initial=False)
    assert queue.names == ["default/old"]


def test_only_controller_owners_count_unless_all_are_asked_for() -> None:
    owners = (owner("controls", controller=True), owner("no", controller=False), owner("unset", controller=None))
    strict, lenient = Added(), Added()
    enqueue_owner(strict, GROUP, KIND).on_add(owned(*owners), initial=False)
    enqueue_owner(lenient, GROUP, KIND, controller_only=False).on_add(owned(*owners), initial=False)
    assert strict.names == ["default/controls"]
    assert lenient.names == ["default/controls", "default/no", "default/unset"]


def test_the_core_group_has_the_empty_name() -> None:
    assert group_of("v1") == ""
    assert group_of("apps/v1") == "apps"


def test_predicates_see_old_and_new() -> None:
    queue, seen = Added(), []

    def unpaused(old: Node | None, new: Node | None) -> bool:
        seen.append((old, new))
        return old is not None and new is not None and "paused" in old.metadata.labels and "paused" not in new.metadata.labels

    handler = enqueue_self(queue, predicates=[unpaused])
    paused, plain = owned(paused="yes"), owned()
    handler.on_add(plain, initial=False)
    handler.on_update(plain, paused)
    handler.on_delete(plain, final_state_unknown=False)
    assert queue.names == []
    handler.on_update(paused, plain)
    assert queue.names == ["default/machine"]
    assert seen == [(None, plain), (plain, paused), (plain, None), (paused, plain)]


def test_every_predicate_must_agree() -> None:
    queue = Added()
    enqueue_self(queue, predicates=[lambda *_: True, lambda *_: False]).on_add(owned(), initial=False)
    assert queue.names == []


def test_a_mapper_decides_what_is_enqueued() -> None:
    queue = Added()
    handler: Enqueue[Node] = enqueue_mapped(queue, lambda item: [Request("x", item.metadata.name), Request("y", item.metadata.name)])
    handler.on_delete(owned(name="a"), final_state_unknown=True)
    assert queue.names == ["x/a", "y/a"]
