"""Who is asked: by the ExtensionConfigs that there are, the namespace's labels, and what core has discovered."""

from __future__ import annotations

import base64
from typing import Any

import msgspec
import pytest

from quorate.clusterapi.extensions.registry import HOOKS_VERSION, Handler, NotConfigured, Unusable, find
from quorate.clusterapi.types.extension_config import ExtensionConfig
from quorate.simulation.engine.patches import merge_patch

CA = base64.b64encode(b"the CA").decode()


def handler(hook: str, name: str = "", **changes: Any) -> dict[str, Any]:
    called = name or f"{hook.lower()}.ext"
    return {"name": called, "requestHook": {"apiVersion": HOOKS_VERSION, "hook": hook}, **changes}


BOTH = [handler("CanUpdateMachine"), handler("UpdateMachine")]
DISCOVERED = {"type": "Discovered", "status": "True", "reason": "Discovered", "observedGeneration": 3}


def config(name: str = "ext", **patch: Any) -> ExtensionConfig:
    """An extension that answers both hooks for every namespace, and what is different."""
    plain = {
        "metadata": {"name": name, "uid": f"uid-{name}", "generation": 3},
        "spec": {"clientConfig": {"url": "https://ext.test:9443/below/", "caBundle": CA}, "namespaceSelector": {}, "settings": {"a": "b"}},
        "status": {"conditions": [DISCOVERED], "handlers": BOTH},
    }
    return msgspec.convert(merge_patch(plain, patch), ExtensionConfig)


def found(*configs: ExtensionConfig, labels: dict[str, str] | None = None) -> Any:
    return find(configs, "default", {"team": "a"} if labels is None else labels)


def test_the_handler_of_the_one_extension_there_is() -> None:
    assert found(config()) == Handler(
        name="canupdatemachine.ext",
        url=f"https://ext.test:9443/below/{HOOKS_VERSION}/canupdatemachine/canupdatemachine",
        ca=b"the CA",
        timeout=10,
        ignores_failure=False,
        settings={"a": "b"},
        generation=("uid-ext", 3),
    )


@pytest.mark.parametrize(
    ("service", "base"),
    [
        ({"namespace": "ns", "name": "svc"}, "https://svc.ns.svc:443"),
        ({"namespace": "ns", "name": "svc", "port": 9443, "path": "/ext/"}, "https://svc.ns.svc:9443/ext"),
    ],
)
def test_a_service_is_called_by_the_name_that_its_certificate_has(service: dict[str, Any], base: str) -> None:
    by_service = config(spec={"clientConfig": {"url": None, "service": service}})
    assert found(by_service).url == f"{base}/{HOOKS_VERSION}/canupdatemachine/canupdatemachine"


def test_what_a_handler_says_of_its_calls() -> None:
    slow = config(status={"handlers": [handler("CanUpdateMachine", timeoutSeconds=30, failurePolicy="Ignore"), BOTH[1]]})
    assert (found(slow).timeout, found(slow).ignores_failure) == (30, True)


OTHER_HOOKS = [handler("BeforeClusterCreate")]


@pytest.mark.parametrize(
    "configs",
    [
        (),
        (config(status={"handlers": OTHER_HOOKS}),),
        (config(status={"handlers": OTHER_HOOKS, "conditions": []}),),  # it answered once, and not this
        (config(status={"handlers": []}),),  # discovered, and answers nothing
        (config(spec={"namespaceSelector": {"matchLabels": {"team": "b"}}}),),
        (config(spec={"namespaceSelector": None}),),
        (config(metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}),),
        (config(status={"handlers": [handler("UpdateMachine")]}),),
    ],
)
def test_where_none_is_meant_machines_are_replaced(configs: tuple[ExtensionConfig, ...]) -> None:
    answer = found(*configs)
    assert isinstance(answer, NotConfigured)
    assert "default" in answer.reason


NOT_YET = {"conditions": [{**DISCOVERED, "observedGeneration": 2}]}
REFUSED = {"conditions": [{**DISCOVERED, "status": "False", "message": "Error in discovery: no route"}]}


@pytest.mark.parametrize(
    ("patch", "reason"),
    [
        ({"status": NOT_YET}, "since its ExtensionConfig was changed"),
        ({"status": REFUSED}, "no route"),
        ({"status": {"conditions": []}}, "yet to discover"),
        ({"status": {"conditions": [], "handlers": []}}, "yet to discover"),  # nobody knows what it answers
        ({"status": {"conditions": [DISCOVERED, {"type": "Paused", "status": "True"}]}}, "paused"),
        ({"spec": {"clientConfig": {"caBundle": None}}}, "no caBundle"),
        ({"spec": {"clientConfig": {"caBundle": "@@"}}}, "not base64"),
        ({"spec": {"clientConfig": {"url": "http://ext.test"}}}, "https"),
        ({"spec": {"clientConfig": {"url": "https://user:secret@ext.test"}}}, "https"),
        ({"spec": {"clientConfig": {"url": "https://ext.test:port"}}}, "https"),
        ({"spec": {"clientConfig": {"url": ""}}}, "https"),
        ({"spec": {"namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "Like", "values": ["a"]}]}}}, "Like"),
        ({"status": {"handlers": [handler("CanUpdateMachine")]}}, "no handler answers UpdateMachine"),
        ({"status": {"handlers": [*BOTH, handler("CanUpdateMachine", "other.ext")]}}, "several handlers answer CanUpdateMachine"),
        ({"status": {"handlers": [*BOTH, handler("UpdateMachine", "other.ext")]}}, "several handlers answer UpdateMachine"),
        (
            {
                "status": {
                    "handlers": [handler("CanUpdateMachine", requestHook={"apiVersion": "x/v2", "hook": "CanUpdateMachine"}), BOTH[1]]
                }
            },
            "x/v2",
        ),
        ({"status": {"handlers": [handler("CanUpdateMachine", timeoutSeconds=31), BOTH[1]]}}, "31"),
    ],
)
def test_one_that_is_meant_and_cannot_be_used_is_named_with_a_way_out(patch: dict[str, Any], reason: str) -> None:
    answer = found(config(**patch))
    assert isinstance(answer, Unusable)
    assert reason in answer.reason
    assert "ext" in answer.extension
    assert answer.remedy
    assert "secret" not in answer.reason


def test_two_extensions_are_one_too_many_unless_each_has_its_own_namespaces() -> None:
    ours, others = config("ours"), config("others", spec={"namespaceSelector": {"matchLabels": {"team": "b"}}})
    assert isinstance(found(ours, config("theirs")), Unusable)
    assert found(ours, others).generation == ("uid-ours", 3)


def test_an_extension_of_topologies_that_is_down_holds_nobody_up() -> None:
    topology = config("topology", status={**REFUSED, "handlers": OTHER_HOOKS})
    assert found(topology, config()).generation == ("uid-ext", 3)


@pytest.mark.parametrize(
    ("requirement", "meant"),
    [
        ({"operator": "In", "values": ["a", "b"]}, True),
        ({"operator": "In", "values": ["b"]}, False),
        ({"operator": "NotIn", "values": ["b"]}, True),
        ({"operator": "NotIn", "values": ["a"]}, False),
        ({"operator": "Exists"}, True),
        ({"operator": "DoesNotExist"}, False),
        ({"key": "other", "operator": "NotIn", "values": ["a"]}, True),
        ({"key": "other", "operator": "DoesNotExist"}, True),
    ],
)
def test_namespaces_are_selected_as_kubernetes_selects(requirement: dict[str, Any], meant: bool) -> None:
    selecting = config(spec={"namespaceSelector": {"matchExpressions": [{"key": "team", **requirement}]}})
    assert isinstance(found(selecting), Handler) is meant


def test_a_namespace_of_which_no_label_is_known_yet_is_waited_for() -> None:
    assert isinstance(find([config(spec={"namespaceSelector": {"matchLabels": {"team": "a"}}})], "default", None), Unusable)
    assert isinstance(find([config()], "default", None), Handler)
