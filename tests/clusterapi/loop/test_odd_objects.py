"""Values of every shape where others are expected, in objects as an API server may store them, through the real observation: it fails for none of them."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quorate.clusterapi.report import report
from quorate.core.machines.decide import decide
from quorate.kubernetes.objects import Node, Pod

from .conftest import World

MANY = "9" * 5000
DEEP: Any = [[]]
for _ in range(100):
    DEEP = [DEEP]
TEXTS = (
    "",
    "x",
    "²",
    MANY,
    "999999999999h",
    f"v1.2.3-{MANY}",
    "0000-01-01T00:00:00Z",
    "9999-12-31T23:59:59Z",
    "-1",
    "\ud800".encode("utf-8", "replace").decode(),
)
ODD: tuple[Any, ...] = (
    None,
    0,
    -1,
    2.5,
    True,
    *TEXTS,
    [],
    [1],
    ["a"],
    [None],
    [{}],
    [[1]],
    [{"name": [1]}],
    {},
    {"a": 1},
    {"b": None},
    2**63,
    DEEP,
)
PLURALS = ("kubeadmcontrolplanes", "clusters", "machines", "kubeadmconfigs", "devmachines", "devmachinetemplates")
IDENTITY = {("metadata",), ("metadata", "name"), ("metadata", "namespace"), ("metadata", "uid"), ("metadata", "resourceVersion")}

Path = tuple[str | int, ...]
quick = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.filter_too_much])


def paths(value: Any, path: Path = ()) -> Iterator[Path]:
    """Every place in a document."""
    yield path
    if isinstance(value, dict):
        for name, member in value.items():
            yield from paths(member, (*path, name))
    elif isinstance(value, list):
        for index, member in enumerate(value):
            yield from paths(member, (*path, index))


def with_value(document: Any, path: Path, value: Any) -> Any:
    changed = copy.deepcopy(document)
    inner = changed
    for name in path[:-1]:
        inner = inner[name]
    inner[path[-1]] = value
    return changed


async def judged(world: World) -> str:
    """Everything that is said of the control plane."""
    observation = await world.look()
    if observation.view is None:
        return observation.connection.message  # nobody owns it
    decision = decide(observation.view, world.now)
    return f"{decision} {report(observation, decision, now=world.now, grace=timedelta(minutes=5))}"


FULL: dict[str, dict[str, Any]] = {
    "kubeadmcontrolplanes": {
        "spec": {
            "kubeadmConfigSpec": {
                "clusterConfiguration": {
                    "apiServer": {"extraArgs": [{"name": "a", "value": "b"}]},
                    "etcd": {"local": {"dataDir": "/x"}},
                    "dns": {"imageTag": "v1.12.1"},
                    "featureGates": {"a": True},
                },
                "initConfiguration": {
                    "nodeRegistration": {
                        "taints": [{"key": "a", "effect": "NoSchedule"}],
                        "kubeletExtraArgs": [{"name": "a", "value": "b"}],
                    }
                },
                "joinConfiguration": {"nodeRegistration": {"taints": [{"key": "a", "effect": "NoSchedule"}]}},
                "files": [{"path": "/a", "content": "b"}],
            },
            "rollout": {"after": "2020-01-01T00:00:00Z", "before": {"certificatesExpiryDays": 7}},
            "remediation": {"maxRetry": 3, "retryPeriodSeconds": 5, "minHealthyPeriodSeconds": 3600},
            "machineNaming": {"template": "{{ .kubeadmControlPlane.name }}-{{ .random }}"},
        }
    },
    "clusters": {"spec": {"topology": {"version": "v1.34.4"}}, "status": {"failureDomains": [{"name": "a", "controlPlane": True}]}},
}


MACHINE: dict[str, Any] = {
    "status": {
        "conditions": [{"type": "Ready", "status": "True", "reason": "a", "message": "b", "lastTransitionTime": "2026-01-01T11:00:00Z"}],
        "nodeRef": {"name": "cp-1"},
        "nodeInfo": {"kubeletVersion": "v1.34.4"},
        "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
        "certificatesExpiryDate": "2027-01-01T00:00:00Z",
        "deletion": {"nodeDrainStartTime": "2026-01-01T11:00:00Z"},
    }
}


def full(three: World) -> None:
    three.api.change("machines", "cp-1", MACHINE)
    for plural, patch in FULL.items():
        three.api.change(plural, "demo", patch)


@quick
@given(data=st.data())
async def test_objects_of_any_shape_that_can_be_read_are_judged(three: World, data: st.DataObject) -> None:
    full(three)
    key = data.draw(st.sampled_from(sorted(key for key in three.api.objects if key[0] in PLURALS)))
    stored = three.api.objects[key]
    path = data.draw(st.sampled_from([path for path in paths(stored) if path and path not in IDENTITY]))
    three.api.objects[key] = with_value(stored, path, data.draw(st.sampled_from(ODD)))
    try:
        try:
            await three.sync()
        except msgspec.ValidationError:
            return  # an API server stores no such object: its definition has the types
        assert await judged(three)
    finally:
        three.api.objects[key] = stored


@quick
@given(data=st.data())
async def test_nodes_and_pods_of_any_shape_that_can_be_read_are_judged(three: World, data: st.DataObject) -> None:
    nodes, pods = list(three.workload.node_list), dict(three.workload.pods)
    is_node, number, name = data.draw(st.booleans()), data.draw(st.integers(0, 2)), data.draw(st.sampled_from(sorted(pods)))
    stored = msgspec.to_builtins(nodes[number] if is_node else pods[name])
    stored["status"] |= {"addresses": [{"type": "InternalIP", "address": "10.0.0.1"}], "nodeInfo": {"kubeletVersion": "v1.34.4"}}
    stored["status"] |= {
        "containerStatuses": [{"name": "a", "state": {"waiting": {"reason": "x"}}, "lastState": {"terminated": {"exitCode": 1}}}]
    }
    path = data.draw(st.sampled_from([path for path in paths(stored) if path and path not in IDENTITY]))
    changed = with_value(stored, path, data.draw(st.sampled_from(ODD)))
    try:
        if is_node:
            three.workload.node_list[number] = msgspec.convert(changed, Node)
        else:
            three.workload.pods[name] = msgspec.convert(changed, Pod)
        assert await judged(three)
    except msgspec.ValidationError:
        return  # such an answer is an error of the request: tests/kubernetes/test_bounds.py
    finally:
        three.workload.node_list[:], three.workload.pods = nodes, pods
