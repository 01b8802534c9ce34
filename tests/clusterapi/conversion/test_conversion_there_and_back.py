"""Down and up again: every object of v1beta2 is what it was, but for what is named here."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.clusterapi.api import crd
from quorate.clusterapi.api.conversion.converter import NEW, OLD, TABLES
from tests.clusterapi.conversion.both import CONTROL_PLANE, REFERENCE, Object, convert, of_spec
from tests.differential.objects import KINDS, Maker

SCHEMAS = {
    (definition.resource.kind, version["name"]): version["schema"]["openAPIV3Schema"]
    for definition in crd.DEFINITIONS
    for version in crd.custom_resource_definition(definition)["spec"]["versions"]
}
SEEDS = st.integers(min_value=0)


def made(kind: str, seed: int) -> Object:
    """An object that satisfies our own schema of v1beta2, as its version writes it."""
    obj = Maker(SCHEMAS, random.Random(seed), loose=0, wrong=0).object(kind, "v1beta2")
    template = obj.get("spec", {}).get("machineTemplate", {}).get("spec", {})
    if "infrastructureRef" in template:
        template["infrastructureRef"] = REFERENCE
    return written(written(obj))  # once written, an object whose lists were empty has nothing in it, and is none when it is read again


def written(obj: Object) -> Object:
    """An object of v1beta2 as a program writes it that reads it into its types: instants in UTC, quantities in their notation, no empty lists."""
    form = TABLES[obj["kind"]].new
    return form.write(form.read(obj))  # type: ignore[no-any-return]


@pytest.mark.parametrize("kind", KINDS)
@given(seed=SEEDS)
def test_no_field_of_our_own_schema_is_unknown(kind: str, seed: int) -> None:
    obj = Maker(SCHEMAS, random.Random(seed), loose=0, wrong=0).object(kind, "v1beta2")
    assert set(paths(obj)) - set(paths(written(obj))) == set()


def paths(value: Any, path: str = "") -> Iterator[str]:
    """The paths of everything that is neither empty nor an instant before all others."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from paths(inner, f"{path}.{key}")
    elif isinstance(value, list):
        for inner in value:
            yield from paths(inner, f"{path}[]")
    elif value not in (0, "", "0001-01-01T00:00:00Z") or value is False:
        yield path


def configuration(obj: Object) -> Object:
    """The KubeadmConfigSpec; an empty one where there is none."""
    return of_spec(obj).get("kubeadmConfigSpec", {})  # type: ignore[no-any-return]


def no_replicas_are_zero(obj: Object) -> None:
    if obj["kind"] == CONTROL_PLANE:
        obj.setdefault("status", {}).setdefault("replicas", 0)


def what_readers_of_v1beta1_look_at_is_always_there(obj: Object) -> None:
    if obj["kind"] == CONTROL_PLANE:
        old = obj.setdefault("status", {}).setdefault("deprecated", {}).setdefault("v1beta1", {})
        for name in ("updatedReplicas", "readyReplicas", "unavailableReplicas"):
            old.setdefault(name, 0)


def no_layout_is_false(obj: Object) -> None:
    for partition in configuration(obj).get("diskSetup", {}).get("partitions", ()):
        partition.setdefault("layout", False)


def arguments_are_sorted_and_the_last_of_a_name_counts(obj: Object) -> None:
    config = configuration(obj)
    cluster = config.get("clusterConfiguration", {})
    parts = [cluster.get(name, {}) for name in ("apiServer", "controllerManager", "scheduler")] + [cluster.get("etcd", {}).get("local", {})]
    nodes = [config.get(name, {}).get("nodeRegistration", {}) for name in ("initConfiguration", "joinConfiguration")]
    for part, name in [(part, "extraArgs") for part in parts] + [(node, "kubeletExtraArgs") for node in nodes]:
        if name in part:
            last = {argument["name"]: argument["value"] for argument in part[name]}
            part[name] = [{"name": name, "value": last[name]} for name in sorted(last)]


def of_two_with_one_path_the_first_decides(obj: Object) -> None:
    config = configuration(obj)
    cluster = config.get("clusterConfiguration", {})
    lists = [(config.get("files", ()), "path", "append")]
    lists += [
        (cluster.get(name, {}).get("extraVolumes", ()), "hostPath", "readOnly") for name in ("apiServer", "controllerManager", "scheduler")
    ]
    for objects, key, flag in lists:
        first: Object = {}
        for each in objects:
            decides = first.setdefault(each[key], dict(each))
            each.pop(flag, None)
            if flag in decides:
                each[flag] = decides[flag]


def the_health_checks_timeout_of_init_is_that_of_joins(obj: Object) -> None:
    name, config = "controlPlaneComponentHealthCheckSeconds", configuration(obj)
    init = config.get("initConfiguration", {}).get("timeouts", {}).get(name)
    joins = config.get("joinConfiguration", {}).get("timeouts", {})
    if init is not None:
        config.setdefault("joinConfiguration", {}).setdefault("timeouts", {})[name] = init
    elif "tlsBootstrapSeconds" in joins:
        joins.pop(name, None)


KNOWN: tuple[Callable[[Object], None], ...] = (
    no_replicas_are_zero,
    what_readers_of_v1beta1_look_at_is_always_there,
    no_layout_is_false,
    arguments_are_sorted_and_the_last_of_a_name_counts,
    of_two_with_one_path_the_first_decides,
    the_health_checks_timeout_of_init_is_that_of_joins,
)
"""What the way down and up changes in an object of v1beta2; upstream's does so too."""


@pytest.mark.parametrize("kind", KINDS)
@given(seed=SEEDS)
def test_down_and_up_changes_nothing_but_what_is_known(kind: str, seed: int) -> None:
    obj = made(kind, seed)
    result = convert(convert(obj, OLD), NEW)
    for change in KNOWN:
        change(obj)
    assert result == obj


@pytest.mark.parametrize("known", KNOWN, ids=lambda known: known.__name__)
def test_each_known_change_is_one(known: Callable[[Object], None]) -> None:
    assert any(_changes(known, seed) for seed in range(300))


def _changes(known: Callable[[Object], None], seed: int) -> bool:
    """Whether an object comes back otherwise than it would without this one change."""
    obj = made(CONTROL_PLANE, seed)
    result = convert(convert(obj, OLD), NEW)
    for change in KNOWN:
        if change is not known:
            change(obj)
    return result != obj


@pytest.mark.parametrize("kind", KINDS)
@given(seed=SEEDS)
def test_what_went_down_and_up_once_stays_as_it_is(kind: str, seed: int) -> None:
    once = convert(convert(made(kind, seed), OLD), NEW)
    assert convert(convert(once, OLD), NEW) == once
