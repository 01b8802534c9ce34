"""Whatever a tenant may write into a specification can be read: one object that could not be would blind everybody to all of its kind."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from quorate.clusterapi.types.resources import CLUSTERS, KUBEADM_CONFIGS, KUBEADM_CONTROL_PLANES, MACHINES
from quorate.kubernetes.errors import ApiError
from quorate.kubernetes.resource import Resource
from quorate.local import DemoCluster
from tests.scale.management import Management, management

Object = dict[str, Any]

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

DEFINITIONS: Resource[dict[str, Any]] = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", dict, namespaced=False
)
_AT_ONCE = 16
_DEEP: Any = 1
for _ in range(60):
    _DEEP = {"a": [_DEEP]}
NUMBERS = (0, -1, 1.0, 2**31, 2**53 + 1, 2**63 - 1, 1e30)
MOMENTS = (
    "0000-01-01T00:00:00Z",
    "9999-12-31T23:59:59.999999999Z",
    "2026-01-01T00:00:00,5Z",
    "2026-01-01T00:00:00+99:99",
    "2026-06-30T23:59:60Z",
)
TEXTS = ("", "x", "\x00", "\u202e", "1e400", "9" * 40)

Place = tuple[str, ...]
"""Names of fields; "[]" is the one item of a list, "{}" the one value of a map."""


def leaves(schema: Object, path: Place = ()) -> Iterator[tuple[Place, Object]]:
    """Every place of a schema that holds no object of known fields."""
    if schema.get("properties"):
        for name, member in schema["properties"].items():
            yield from leaves(member, (*path, name))
    elif schema.get("type") == "array":
        yield from leaves(schema["items"], (*path, "[]"))
    elif isinstance(schema.get("additionalProperties"), dict):
        yield from leaves(schema["additionalProperties"], (*path, "{}"))
    else:
        yield path, schema


def odd_values(schema: Object) -> tuple[Any, ...]:
    """What is tried in such a place."""
    if schema.get("x-kubernetes-int-or-string"):
        return (*NUMBERS, *TEXTS)
    if schema.get("x-kubernetes-preserve-unknown-fields") or schema.get("type") in (None, "object"):
        return (None, {}, _DEEP, {"a": 1e30}, {"a": None})
    if schema["type"] in ("integer", "number"):
        return NUMBERS
    if schema["type"] == "boolean":
        return (True, None)
    return MOMENTS if schema.get("format") == "date-time" else (*TEXTS, *schema.get("enum", ()))


def least(schema: Object) -> Any:
    """Something valid, with no more than is required."""
    if "enum" in schema:
        return schema["enum"][0]
    match schema.get("type"):
        case "object":
            members = schema.get("properties", {})
            found = {name: least(members[name]) for name in schema.get("required", ())}
            return found or ({next(iter(members)): least(next(iter(members.values())))} if members and schema.get("minProperties") else {})
        case "array":
            return [least(schema["items"])] * schema.get("minItems", 0)
        case "integer" | "number":
            return max(schema.get("minimum", 1), 1)
        case "boolean":
            return True
        case _:
            return "2026-01-01T00:00:00Z" if schema.get("format") == "date-time" else "a" * max(schema.get("minLength", 1), 1)


def holding(schema: Object, base: Any, path: Place, value: Any) -> Any:
    """`base` with the value at the path, and what is required on the way."""
    if not path:
        return value
    name, *rest = path
    if name == "[]":
        return [holding(schema["items"], least(schema["items"]), tuple(rest), value)]
    if name == "{}":
        return {"a": holding(schema["additionalProperties"], least(schema["additionalProperties"]), tuple(rest), value)}
    member = schema["properties"][name]
    inner = base.get(name) if isinstance(base, dict) and name in base else least(member)
    return {**base, name: holding(member, inner, tuple(rest), value)}


def objects() -> dict[Resource[Any], Object]:
    """One of each kind that is valid."""
    cluster, _, _, control_plane = DemoCluster(name="odd", namespace="default").objects()
    bootstrap = {"configRef": {"apiGroup": "bootstrap.cluster.x-k8s.io", "kind": "KubeadmConfig", "name": "odd"}}
    infrastructure = {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DevMachine", "name": "odd"}
    machine = {"clusterName": "odd", "version": "v1.34.4", "bootstrap": bootstrap, "infrastructureRef": infrastructure}
    return {
        KUBEADM_CONTROL_PLANES: control_plane,
        CLUSTERS: cluster,
        MACHINES: {"metadata": {"name": "odd"}, "spec": machine},
        KUBEADM_CONFIGS: {"metadata": {"name": "odd"}, "spec": {"format": "cloud-config"}},
    }


async def test_no_value_that_the_api_server_takes_makes_an_object_unreadable(tmp_path: Path) -> None:
    async with management(tmp_path) as site:
        taken, unreadable = await everything_tried(site)
    assert unreadable == []
    assert {kind: number > 50 for kind, number in taken.items()} == dict.fromkeys((each.kind for each in objects()), True), taken


async def everything_tried(site: Management) -> tuple[dict[str, int], list[str]]:
    """How many objects of each kind the API server took, and those of them that could not be read."""
    taken: dict[str, int] = {}
    unreadable: list[str] = []
    gate = asyncio.Semaphore(_AT_ONCE)

    async def tried(resource: Resource[Any], body: Object, what: str) -> None:
        async with gate:
            try:
                await site.client.create(resource, body, "default", dry_run=True)
            except ApiError as error:
                if "cannot be read" in str(error):
                    unreadable.append(f"{resource.kind} {what}: {error}")
                return
        taken[resource.kind] = taken.get(resource.kind, 0) + 1

    async with asyncio.TaskGroup() as tasks:
        for resource, base in objects().items():
            schema = await schema_of(site, resource)
            for path, leaf in leaves(schema):
                for value in odd_values(leaf):
                    body = (
                        {"apiVersion": resource.api_version, "kind": resource.kind}
                        | copy.deepcopy(base)
                        | {"spec": holding(schema, base["spec"], path, value)}
                    )
                    tasks.create_task(tried(resource, body, f"{'.'.join(path)} = {str(value)[:40]!r}"))
    return taken, unreadable


async def schema_of(site: Management, resource: Resource[Any]) -> Object:
    """The schema of the kind's specification, as the API server serves it."""
    definition = await site.client.get(DEFINITIONS, f"{resource.plural}.{resource.group}")
    served = next(version for version in definition["spec"]["versions"] if version["name"] == resource.version)
    found: Object = served["schema"]["openAPIV3Schema"]["properties"]["spec"]
    return found
