"""The comparison finds what differs, and the objects leave no field out."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from quorate.clusterapi.api import crd
from quorate.clusterapi.api.conversion.converter import converter
from tests.differential.conversions import BATCH, NEW, OLD, Converters, differences
from tests.differential.objects import CONVERSION_DATA, KINDS, Maker, Object
from tests.differential.servers import Refused, Server

SCHEMAS = {
    (definition.resource.kind, version["name"]): version["schema"]["openAPIV3Schema"]
    for definition in crd.DEFINITIONS
    for version in crd.custom_resource_definition(definition)["spec"]["versions"]
}
SERVED = {
    ("infrastructure.cluster.x-k8s.io", kind): "infrastructure.cluster.x-k8s.io/v1beta2"
    for kind in ("DevMachineTemplate", "DockerMachineTemplate")
}


@dataclass
class Stub:
    """In a server's place a converter that is ours, but for what is spoilt in each answer."""

    spoilt: Object = field(default_factory=dict)
    refused: str = ""
    reviews: list[int] = field(default_factory=list)

    async def convert(self, objects: Sequence[Object], version: str) -> list[Object]:
        self.reviews.append(len(objects))
        ours = converter(lambda group, kind: SERVED[group, kind])
        if any(self.refused and obj["metadata"]["name"] == self.refused for obj in objects):
            raise Refused("no")
        try:
            return [ours(obj, version) | self.spoilt for obj in objects]
        except ValueError as error:
            raise Refused(str(error)) from error


def beside(stub: Stub) -> Converters:
    return Converters(cast("Server", stub), cast("Server", Stub()))


def made(name: str) -> Object:
    return {"apiVersion": NEW, "kind": "KubeadmControlPlane", "metadata": {"name": name}}


async def test_what_is_the_same_is_no_difference() -> None:
    both = beside(Stub())
    assert await both.compare("down", [made("a")], OLD) == await Stub().convert([made("a")], OLD)
    assert (both.result.compared, both.result.different) == ({"down": 1}, 0)


async def test_what_differs_is_told_with_its_path() -> None:
    both = beside(Stub(spoilt={"spec": {"version": "v1"}}))
    await both.compare("down", [made("a")], OLD)
    assert both.result.different == 1
    assert 'down, KubeadmControlPlane: .spec.version: ours "", upstream\'s "v1"' in both.result.differences


async def test_one_that_is_refused_takes_nobody_with_it() -> None:
    stub = Stub(refused="b")
    both = beside(stub)
    answers = await both.compare("down", [made("a"), made("b"), made("c")], OLD)
    assert [answer is not None for answer in answers] == [True, False, True]
    assert stub.reviews == [3, 1, 1, 1]
    assert both.result.differences == ["down, KubeadmControlPlane: upstream refuses: no"]


async def test_refused_by_both_is_no_difference() -> None:
    both = beside(Stub())
    wrong = made("a") | {"spec": {"machineTemplate": {"spec": {"infrastructureRef": {"kind": "Nothing"}}}}}
    assert await both.compare("down", [wrong], OLD) == [None]
    assert (both.result.refused, both.result.different) == ({"down": 1}, 0)


async def test_many_objects_go_in_several_reviews() -> None:
    stub = Stub()
    await beside(stub).compare("down", [made("a")] * (BATCH + 1), OLD)
    assert stub.reviews == [BATCH, 1]


@pytest.mark.parametrize(
    ("ours", "theirs", "found"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": True}, {"a": 1}, [".a: ours true, upstream's 1"]),
        ({"a": 1}, {}, [".a: only ours: 1"]),
        ({}, {"a": None}, [".a: only upstream's: null"]),
        ({"a": [1, 2]}, {"a": [1, 3]}, [".a[1]: ours 2, upstream's 3"]),
        ({"a": [1]}, {"a": []}, [".a: ours [1], upstream's []"]),
        ({CONVERSION_DATA: '{"a":1,"b":2}'}, {CONVERSION_DATA: '{"b": 2, "a": 1}'}, []),
        ({CONVERSION_DATA: '{"a":1}'}, {CONVERSION_DATA: '{"a":2}'}, [f".{CONVERSION_DATA}.a: ours 1, upstream's 2"]),
    ],
)
def test_differences(ours: Object, theirs: Object, found: list[str]) -> None:
    assert list(differences(ours, theirs)) == found


@pytest.mark.parametrize("kind", KINDS)
def test_no_field_is_left_out(kind: str) -> None:
    schema, maker = SCHEMAS[kind, "v1beta2"], Maker(SCHEMAS, random.Random(1))
    seen = {path for _ in range(400) for path in _in_object(maker.object(kind, "v1beta2"), schema)}
    assert set(_in_schema(schema)) - seen == set()


def test_a_seed_makes_the_same_objects_again() -> None:
    one, other = (Maker(SCHEMAS, random.Random(7)).object(KINDS[0], "v1beta2") for _ in range(2))
    assert json.dumps(one) == json.dumps(other)


def _in_schema(schema: Mapping[str, Any], path: str = "") -> Iterator[str]:
    yield path
    for name, inner in schema.get("properties", {}).items():
        yield from _in_schema(inner, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if key in schema:
            yield from _in_schema(schema[key], path + f".{key}")


def _in_object(value: Any, schema: Mapping[str, Any], path: str = "") -> Iterator[str]:
    yield path
    if isinstance(value, list):
        for inner in value:
            yield from _in_object(inner, schema["items"], f"{path}.items")
    elif isinstance(value, dict):
        for name, inner in value.items():
            if "additionalProperties" in schema:
                yield from _in_object(inner, schema["additionalProperties"], f"{path}.additionalProperties")
            elif name in schema.get("properties", {}):
                yield from _in_object(inner, schema["properties"][name], f"{path}.{name}")
