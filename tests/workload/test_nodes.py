"""Whose a Node is, and whether kubeadm has marked it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from quorate.core.health import Health
from quorate.kubernetes.objects import Condition, Node, NodeAddress, NodeSpec, NodeStatus, ObjectMeta, Taint
from quorate.workload.nodes import (
    CONTROL_PLANE,
    UNINITIALIZED,
    find_newcomer,
    find_node,
    is_control_plane,
    labels_and_taints,
    readiness,
    taint_expected,
)

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
NO_SCHEDULE = Taint(key=CONTROL_PLANE, effect="NoSchedule")


def node(name: str = "cp-a", *, provider_id: str = "", labelled: bool = True, taints: tuple[Taint, ...] = (NO_SCHEDULE,)) -> Node:
    labels = {CONTROL_PLANE: ""} if labelled else {}
    return Node(metadata=ObjectMeta(name=name, labels=labels), spec=NodeSpec(provider_id=provider_id, taints=list(taints)))


def test_a_marked_node_is_set() -> None:
    finding = labels_and_taints(node(), taint_expected=True)
    assert (finding.health, finding.reason) == (Health.GOOD, "Set")


@pytest.mark.parametrize(
    ("labelled", "taints", "expected", "missing"),
    [
        (False, (NO_SCHEDULE,), True, ["label"]),
        (True, (), True, ["taint"]),
        (True, (Taint(key=CONTROL_PLANE, effect="NoExecute"),), True, ["taint"]),
        (False, (), True, ["label", "taint"]),
        (False, (), False, ["label"]),
    ],
)
def test_everything_missing_is_named_at_once(*, labelled: bool, taints: tuple[Taint, ...], expected: bool, missing: list[str]) -> None:
    finding = labels_and_taints(node(labelled=labelled, taints=taints), taint_expected=expected)
    assert (finding.health, finding.reason) == (Health.BAD, "NotSet")
    assert [word for word in ("label", "taint") if f"the {word} " in finding.message] == missing


def test_a_taint_that_is_not_expected_may_be_missing() -> None:
    assert labels_and_taints(node(taints=()), taint_expected=False).health is Health.GOOD


@pytest.mark.parametrize(
    ("machine_taints", "node_registration", "expected"),
    [
        ([], None, False),
        ([], {}, True),
        ([], {"taints": None}, True),
        ([], {"taints": []}, False),
        ([], {"taints": [{"key": CONTROL_PLANE, "effect": "NoSchedule"}]}, True),
        ([], {"taints": [{"key": "mine", "effect": "NoSchedule"}]}, False),
        ([{"key": CONTROL_PLANE, "effect": "NoSchedule"}], {"taints": []}, True),
        ([{"key": CONTROL_PLANE, "effect": "NoSchedule"}], None, True),
        ([{"key": CONTROL_PLANE, "effect": "NoExecute"}], None, False),
    ],
)
def test_the_taint_is_expected_where_machine_or_kubeadm_puts_it(
    machine_taints: list[Mapping[str, Any]], node_registration: Mapping[str, Any] | None, *, expected: bool
) -> None:
    assert taint_expected(machine_taints, node_registration) is expected


def test_a_node_is_found_by_name_before_provider_id() -> None:
    nodes = [node("cp-a", provider_id="x://1"), node("cp-b", provider_id="x://2")]
    assert find_node(nodes, name="cp-b", provider_id="x://1") is nodes[1]
    assert find_node(nodes, name="cp-c", provider_id="x://1") is None
    assert find_node(nodes, provider_id="x://1") is nodes[0]


def test_an_ambiguous_or_empty_provider_id_finds_nothing() -> None:
    twins = [node("cp-a", provider_id="x://1"), node("cp-b", provider_id="x://1")]
    assert find_node(twins, provider_id="x://1") is None
    assert find_node([node("cp-a")], provider_id="") is None


def newcomer(
    name: str, address: str, *, seconds: int = 30, provider_id: str = "", taints: tuple[Taint, ...] = (), kind: str = "InternalIP"
) -> Node:
    """A Node that registered so many seconds after the Machine was made."""
    metadata = ObjectMeta(name=name, creation_timestamp=NOON + timedelta(seconds=seconds))
    status = NodeStatus(addresses=[NodeAddress(type="Hostname", address=name), NodeAddress(type=kind, address=address)])
    return Node(metadata=metadata, spec=NodeSpec(provider_id=provider_id, taints=list(taints)), status=status)


def found(*nodes: Node) -> str | None:
    node = find_newcomer(nodes, addresses={"10.0.0.1", "fd00::1"}, since=NOON)
    return node.metadata.name if node else None


def test_a_node_that_has_no_provider_id_yet_is_found_by_its_address() -> None:
    assert found(newcomer("cp-a", "10.0.0.2"), newcomer("cp-b", "10.0.0.1")) == "cp-b"
    assert found(newcomer("cp-a", "10.0.0.1", seconds=0), newcomer("cp-b", "10.0.0.3")) == "cp-a"


@pytest.mark.parametrize(
    "other",
    [
        newcomer("another", "10.0.0.2"),
        newcomer("it has one", "10.0.0.1", provider_id="x://1"),
        newcomer("left over", "10.0.0.1", seconds=-1),
        newcomer("its cloud provider is to come", "10.0.0.1", taints=(Taint(key=UNINITIALIZED, effect="NoSchedule"),)),
        newcomer("behind the same gateway", "10.0.0.1", kind="ExternalIP"),
        Node(metadata=ObjectMeta(name="nothing is known of it")),
    ],
    ids=lambda node: node.metadata.name,
)
def test_a_node_that_may_be_another_machines_is_not_taken_for_it(other: Node) -> None:
    assert found(other) is None
    assert found(newcomer("cp-a", "10.0.0.1"), other) == "cp-a"


def test_of_two_at_one_address_neither_is_taken() -> None:
    assert found(newcomer("cp-a", "10.0.0.1"), newcomer("cp-b", "10.0.0.1")) is None
    assert found(newcomer("cp-a", "10.0.0.1"), newcomer("cp-b", "fd00::1")) is None


def test_without_an_address_nothing_is_found() -> None:
    assert find_newcomer([newcomer("cp-a", "10.0.0.1")], addresses=(), since=NOON) is None


def test_readiness_is_the_condition_or_nothing() -> None:
    ready = Node(metadata=ObjectMeta(name="a"), status=NodeStatus(conditions=[Condition(type="Ready", status="False")]))
    assert (readiness(ready), readiness(node())) == ("False", "")


def test_the_label_counts_whatever_its_value() -> None:
    assert is_control_plane(Node(metadata=ObjectMeta(name="a", labels={CONTROL_PLANE: "anything"})))
    assert not is_control_plane(node(labelled=False))
