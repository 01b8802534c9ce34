"""One schema of JSON: the page is the code's, and what is printed of Machines and of hosts is read back as the same documents."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from quorate.cli import lines, schema, views
from quorate.cli.documents import as_json
from quorate.cli.hosts.plan import plan_of as plan_of_hosts
from quorate.cli.hosts.status import status_of as status_of_hosts
from quorate.cli.machines.get import summary_of
from quorate.cli.machines.plan import plan_of
from quorate.cli.machines.status import status_of
from quorate.clusterapi.inspection import Finding as Look
from quorate.core.health import Absent, Unknown
from quorate.core.ring import Ring
from tests.core.hosts.conftest import V135, Build

from .conftest import NOON

PAGE = Path(__file__).parents[2] / "docs" / "schema.json"
BUILD = Build()


def keys(found: Any, path: str = "") -> set[str]:
    """Every path to a field in what a document became."""
    if isinstance(found, dict):
        return {f"{path}.{key}" for key in found} | {deeper for key, each in found.items() for deeper in keys(each, f"{path}.{key}")}
    return {deeper for each in found for deeper in keys(each, f"{path}[]")} if isinstance(found, list) else set()


def test_the_schema_in_the_documentation_is_current() -> None:
    assert PAGE.read_text() == as_json(schema.schema()), "run `make rules` and commit the result"


def test_every_field_is_required_and_of_a_type_that_is_defined() -> None:
    defined = schema.schema()["$defs"]
    assert {each.__name__ for each in schema.DOCUMENTS} <= defined.keys()
    for part in defined.values():
        assert part.get("required", []) == list(part.get("properties", {}))
    named = {each.removeprefix("#/$defs/") for each in _references(defined)}
    assert named <= defined.keys()


def _references(found: Any) -> Iterable[str]:
    if isinstance(found, dict):
        yield from ([found["$ref"]] if "$ref" in found else [])
        for each in found.values():
            yield from _references(each)
    elif isinstance(found, list):
        for each in found:
            yield from _references(each)


def test_machines_and_hosts_are_told_in_the_same_fields(look: Callable[..., Look]) -> None:
    machines = msgspec.to_builtins((plan_of(look(), NOON), status_of(look(), NOON)))
    hosts = msgspec.to_builtins((plan_of_hosts(BUILD.three(), NOON), status_of_hosts(BUILD.three(), NOON)))
    optional = {path for path in keys(machines) ^ keys(hosts) if ".replicas" in path or ".checks[]" in path or "in_the_way[]" in path}
    assert keys(machines) ^ keys(hosts) == optional


@pytest.mark.parametrize("kind", [views.Status, views.Plan, views.Summary], ids=lambda kind: kind.__name__)
def test_what_is_printed_is_read_back_as_the_same(kind: type, look: Callable[..., Look]) -> None:
    hosts = BUILD.three(version=V135)
    printed: dict[type, list[Any]] = {
        views.Status: [status_of(look(), NOON), status_of_hosts(hosts, NOON)],
        views.Plan: [plan_of(look(), NOON), plan_of_hosts(hosts, NOON)],
        views.Summary: [summary_of(look())],
    }
    for said in printed[kind]:
        assert msgspec.json.decode(as_json(said), type=kind) == said


@pytest.mark.parametrize(
    ("ring", "summary"),
    [
        (Absent(), "there is none yet"),
        (Unknown("no member answers"), "unknown: no member answers"),
        (Ring((), None), "unknown: etcd listed no members"),
    ],
)
def test_a_ring_that_nobody_knows_has_a_reason_and_no_numbers(ring: Ring | Unknown | Absent, summary: str) -> None:
    assert views.etcd(ring) == views.Etcd(summary, None, (), (), ())
    assert lines.phrase(views.etcd(ring)) == "unknown"


def test_a_host_with_an_orphan_and_an_alarm_says_so_at_a_glance() -> None:
    cluster = BUILD.cluster(BUILD.host(1), BUILD.host(2), orphans=(BUILD.orphan(3, "b", probes=3),), alarms=("NOSPACE: no space",))
    text = lines.glance(status_of_hosts(cluster, NOON))
    assert "  orphan: cp-3 (3)\n  alarm: NOSPACE: no space\n" in text
