"""A field that quorate or the installed bootstrap provider does not know replaces no Machine, wherever it is, and is named."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from quorate.cli import lines
from quorate.cli.machines.status import status_of
from quorate.clusterapi.api.bootstrap_schema import LASTS, PUBLISHED
from quorate.clusterapi.api.crd import struct_schema
from quorate.clusterapi.inspection import Finding
from quorate.clusterapi.report import report
from quorate.clusterapi.report.events import UNKNOWN_FIELDS
from quorate.clusterapi.types.kubeadm_config import KubeadmConfigSpec
from quorate.core.machines.decide import decide
from quorate.core.versions import Version
from quorate.kubeadm import differences, machine_config
from quorate.kubeadm.known_fields import KnownFields
from quorate.kubernetes.errors import ConnectionFailed, Forbidden
from quorate.kubernetes.resource import CRDS
from tests.clusterapi.loop.conftest import DEMO

if TYPE_CHECKING:
    from quorate.clusterapi.observe.observation import Observation
    from tests.clusterapi.loop.conftest import World

Json = dict[str, Any]
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
OURS = struct_schema(KubeadmConfigSpec)
V1_34 = Version.parse("v1.34.4")
MACHINES = ("cp-1", "cp-2", "cp-3")


def install(world: World, spec: Json) -> None:
    """A bootstrap provider whose KubeadmConfigs have this schema, and no caches from before."""
    put_definition(world, spec)
    world.caches.bootstrap_schema._tried_at = float("-inf")


def put_definition(world: World, spec: Json) -> None:
    """The API server has another definition now."""
    versions = [
        {"name": name, "schema": {"openAPIV3Schema": {"properties": {"spec": schema}}}}
        for name, schema in (("v1beta1", {"properties": {"older": {}}}), ("v1beta2", spec))
    ]
    name = "kubeadmconfigs.bootstrap.cluster.x-k8s.io"
    world.api.put(CRDS.plural, {"metadata": {"name": name, "namespace": ""}, "spec": {"versions": versions}})


def at(schema: Json, path: str) -> Json:
    """The schema of the object at a path."""
    for name in filter(None, path.split(".")):
        schema = schema["properties"][name]
        schema = schema.get("items", schema)
    return schema


def ask_for(world: World, spec: Json) -> None:
    world.api.change("kubeadmcontrolplanes", "demo", {"spec": {"kubeadmConfigSpec": spec}})


def store(world: World, change: Json) -> None:
    """Every KubeadmConfig is stored with this."""
    for name in MACHINES:
        world.api.change("kubeadmconfigs", name, {"spec": change})


def outdated(observation: Observation) -> dict[str, tuple[str, ...]]:
    return {
        machine.name: tuple(line for way in machine.outdated for line in way.details)
        for machine in observation.machines
        if machine.outdated
    }


def unknown(observation: Observation) -> set[str]:
    return {path for machine in observation.machines for path in machine.unknown_fields}


def told(observation: Observation) -> tuple[list[str], str]:
    """What is told of unknown fields by a control plane that has nothing to do: in events, and by `explain`."""
    assert observation.view is not None
    decision = decide(observation.view, NOON)
    assert decision.step is None
    made = report(observation, decision, now=NOON, grace=timedelta(minutes=5))
    events = [event.message for event in made.events if event.reason == UNKNOWN_FIELDS]
    return events, lines.explanation(status_of(Finding(observation, decision), NOON), NOON)


NEWER: dict[str, tuple[Json, str]] = {
    "a field of its own": ({"bootTimeoutSeconds": 300}, "bootTimeoutSeconds"),
    "in a section": (
        {"joinConfiguration": {"nodeRegistration": {"imagePullProgress": True}}},
        "joinConfiguration.nodeRegistration.imagePullProgress",
    ),
    "a section": ({"clusterConfiguration": {"proxy": {"disabled": False}}}, "clusterConfiguration.proxy"),
    "in a list": ({"files": [{"path": "/a", "content": "x", "checksum": "sha256"}]}, "files[0].checksum"),
}


@pytest.mark.parametrize("upgraded", [False, True], ids=["before its definition was read", "with its definition"])
@pytest.mark.parametrize(("change", "path"), NEWER.values(), ids=NEWER)
async def test_a_field_that_a_newer_bootstrap_provider_defaults_replaces_nothing_and_is_named(
    three: World, change: Json, path: str, upgraded: bool
) -> None:
    ask_for(three, {"files": [{"path": "/a", "content": "x"}]})
    store(three, {"files": [{"path": "/a", "content": "x"}]})
    if upgraded:
        newer = copy.deepcopy(OURS)
        parent, _, name = path.replace("[0]", "").rpartition(".")
        at(newer, parent)["properties"][name] = {"x-kubernetes-preserve-unknown-fields": True}
        install(three, newer)
    store(three, change)
    observation = await three.look()
    assert (outdated(observation), unknown(observation)) == ({}, {path})
    (event,), explanation = told(observation)
    assert f"differ in {path}, which quorate or the installed bootstrap provider does not know: no Machine is replaced for that" in event
    assert f"does not know it: {path}" in explanation


async def test_a_change_that_is_known_still_replaces_and_only_that_is_the_reason(three: World) -> None:
    ask_for(three, {"clusterConfiguration": {"certificatesDir": "/new"}})
    store(three, {"bootTimeoutSeconds": 300})
    observation = await three.look()
    assert outdated(observation) == dict.fromkeys(MACHINES, ("clusterConfiguration.certificatesDir: nothing instead of '/new'",))


async def test_what_a_newer_control_plane_asks_for_in_a_field_that_is_not_known_replaces_nothing(three: World) -> None:
    ask_for(three, {"bootTimeoutSeconds": 300})
    assert outdated(await three.look()) == {}
    assert unknown(await three.look()) == {"bootTimeoutSeconds"}


async def test_a_machine_that_initialized_the_cluster_otherwise_than_others_join_is_not_replaced_for_an_unknown_field(three: World) -> None:
    ask_for(
        three, {"initConfiguration": {"patches": {"directory": "/for-init"}}, "joinConfiguration": {"patches": {"directory": "/for-join"}}}
    )
    store(three, {"joinConfiguration": {"patches": {"directory": "/for-join"}}})
    as_joined = {"initConfiguration": {"patches": {"directory": "/for-join"}}, "joinConfiguration": None, "bootTimeoutSeconds": 300}
    three.api.change("kubeadmconfigs", "cp-1", {"spec": as_joined})
    observation = await three.look()
    assert (outdated(observation), unknown(observation)) == ({}, {"bootTimeoutSeconds"})


async def test_a_field_that_an_older_bootstrap_provider_drops_replaces_nothing_and_is_named(three: World) -> None:
    ask_for(three, {"files": [{"path": "/a", "contentFormat": "Template"}]})
    store(three, {"files": [{"path": "/a"}]})
    assert set(outdated(await three.look())) == set(MACHINES)  # as long as nobody says otherwise, a replacement would have it
    older = copy.deepcopy(OURS)
    del at(older, "files")["properties"]["contentFormat"]
    install(three, older)
    observation = await three.look()
    assert (outdated(observation), unknown(observation)) == ({}, {"files[0].contentFormat"})


async def test_a_known_field_that_a_newer_definition_defaults_replaces_nothing(three: World) -> None:
    newer = copy.deepcopy(OURS)
    at(newer, "joinConfiguration.nodeRegistration")["properties"]["imagePullSerial"]["default"] = True
    at(newer, "joinConfiguration")["properties"]["nodeRegistration"]["default"] = {}
    store(three, {"joinConfiguration": {"nodeRegistration": {"imagePullSerial": True}}})
    assert set(outdated(await three.look())) == set(MACHINES)
    install(three, newer)
    assert outdated(await three.look()) == {}
    store(three, {"joinConfiguration": {"nodeRegistration": {"imagePullSerial": False}}})
    assert set(outdated(await three.look())) == set(MACHINES)


async def test_a_definition_is_read_once_a_minute_and_one_that_cannot_be_read_is_what_it_was(three: World) -> None:
    older = copy.deepcopy(OURS)
    del older["properties"]["verbosity"]
    install(three, older)
    known = await three.caches.bootstrap_schema.known_fields()
    assert known.unknown({"verbosity": 1}) == {"verbosity": 1}
    three.api.trouble["get", CRDS.plural] = Forbidden("no")
    assert await three.caches.bootstrap_schema.known_fields() is known
    three.caches.bootstrap_schema._tried_at -= LASTS
    assert await three.caches.bootstrap_schema.known_fields() is known
    assert await three.observer.observe(DEMO) is not None


@pytest.mark.parametrize("change", ["drops", "defaults"])
async def test_a_definition_that_changed_since_it_was_read_replaces_nothing(three: World, change: str) -> None:
    """The bootstrap provider is exchanged while this process runs, and the new one writes a KubeadmConfig before the definition would be read again."""
    ask_for(three, {"verbosity": 1})
    store(three, {"verbosity": 1})
    install(three, OURS)
    assert outdated(await three.look()) == {}
    other = copy.deepcopy(OURS)
    if change == "drops":
        del other["properties"]["verbosity"]
        put_definition(three, other)
        store(three, {"verbosity": None})
    else:
        other["properties"]["format"]["default"] = "ignition"
        put_definition(three, other)
        store(three, {"format": "ignition"})
    assert outdated(await three.look()) == {}


async def test_what_differs_is_not_believed_while_the_definition_cannot_be_read(three: World) -> None:
    install(three, OURS)
    assert outdated(await three.look()) == {}
    other = copy.deepcopy(OURS)
    other["properties"]["format"]["default"] = "ignition"
    put_definition(three, other)
    store(three, {"format": "ignition"})
    for _ in range(2):
        three.api.trouble["get", CRDS.plural] = ConnectionFailed("connection refused")
        with pytest.raises(ConnectionFailed):
            await three.look()
    three.api.trouble.clear()
    assert outdated(await three.look()) == {}


async def test_a_difference_is_believed_where_nobody_may_read_the_definition(three: World) -> None:
    three.api.trouble["get", CRDS.plural] = Forbidden("no")
    ask_for(three, {"clusterConfiguration": {"certificatesDir": "/new"}})
    assert set(outdated(await three.look())) == set(MACHINES)


async def test_the_definition_is_read_once_for_the_same_differences(three: World) -> None:
    install(three, OURS)
    ask_for(three, {"clusterConfiguration": {"certificatesDir": "/new"}})
    assert set(outdated(await three.look())) == set(MACHINES)
    three.api.trouble["get", CRDS.plural] = ConnectionFailed("connection refused")
    assert set(outdated(await three.look())) == set(MACHINES)


# Every field of the published schema, with the API server played by a few lines of its own.


def filled(schema: Mapping[str, Any]) -> Any:
    """A value with every field there is."""
    match schema.get("type"):
        case "object" if "properties" in schema:
            return {name: filled(member) for name, member in schema["properties"].items()}
        case "object":
            return {"Gate": True}
        case "array":
            return [filled(schema["items"])]
        case "boolean":
            return True
        case "integer":
            return 7
    return "2026-01-01T00:00:00Z" if schema.get("format") == "date-time" else "text"


def paths(schema: Mapping[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    schema = schema.get("items", schema)
    for name, member in schema.get("properties", {}).items():
        yield (*above, name)
        yield from paths(member, (*above, name))


def without(value: Any, path: tuple[str, ...]) -> Any:
    """The value, or the schema's sample, as an API server stores it whose definition lacks this field."""
    if isinstance(value, list):
        return [without(element, path) for element in value]
    if path[0] not in value:
        return value
    rest = {key: member for key, member in value.items() if key != path[0]}
    return rest if len(path) == 1 else rest | {path[0]: without(value[path[0]], path[1:])}


def lacking(path: tuple[str, ...]) -> Json:
    schema = copy.deepcopy(OURS)
    del at(schema, ".".join(path[:-1]))["properties"][path[-1]]
    return schema


JOIN = ("joinConfiguration", "controlPlane")
ALL = [path for path in paths(OURS) if path not in (JOIN, JOIN[:1])]  # without the mark of a join no provider can do anything


def known(desired: Json, stored: Json, fields: KnownFields) -> list[str]:
    return [difference.path for difference in differences(desired, stored, V1_34, fields) if difference.known]


@pytest.mark.parametrize("init", [False, True])
def test_no_field_that_was_taken_from_a_definition_replaces_a_machine(init: bool) -> None:
    desired = filled(OURS)
    made = machine_config(desired, version=V1_34, init=init)
    replaced = {path: known(desired, without(made, path), KnownFields((OURS, lacking(path)))) for path in ALL}
    assert {path: found for path, found in replaced.items() if found} == {}


@pytest.mark.parametrize("init", [False, True])
def test_no_field_that_was_added_anywhere_replaces_a_machine(init: bool) -> None:
    desired = filled(OURS)

    def added(value: Any, rest: tuple[str, ...]) -> None:
        for each in value if isinstance(value, list) else [value]:
            if not rest:
                each["brandNew"] = {"by": "default"}
            elif rest[0] in each:
                added(each[rest[0]], rest[1:])

    for path in [(), *(path for path in ALL if "properties" in at(OURS, ".".join(path)))]:
        stored = machine_config(desired, version=V1_34, init=init)
        added(stored, path)
        assert known(desired, stored, PUBLISHED) == [], path


def test_every_field_that_is_known_is_compared_unless_it_is_ignored_on_purpose() -> None:
    """So that nothing is lost by comparing in known fields alone."""
    desired = filled(OURS)
    made = machine_config(desired, version=V1_34, init=False)
    for path in ALL:
        stored = without(made, path)
        assert known(desired, stored, PUBLISHED) == [difference.path for difference in differences(desired, stored, V1_34)], path
