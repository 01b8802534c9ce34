"""Which changes wake which control planes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from quorate.clusterapi.connect.foreign import pluralize
from quorate.clusterapi.types.names import Annotation, Label
from quorate.core.machines.steps import CreateReplica
from quorate.kubernetes.controller import Request
from quorate.simulation.engine.patches import merge_patch
from tests.clusterapi.loop.management import as_decoded

if TYPE_CHECKING:
    from tests.clusterapi.loop.conftest import World

DEMO = Request("default", "demo")
KCPS = "kubeadmcontrolplanes"


def woken(world: World, plural: str, name: str, patch: dict[str, Any] | None) -> list[Request]:
    """Who is told of a change; None deletes."""
    reflectors = [*world.caches.reflectors, *(watched.reflector for watched in world.caches.foreign._watched.values())]
    [reflector] = [found for found in reflectors if found.resource.plural == plural]
    old: Any = as_decoded(world.api.raw(plural, name), reflector.resource.type)
    world.queue.keys.clear()
    for handler in reflector._handlers:
        if patch is None:
            handler.on_delete(old, final_state_unknown=False)
        else:
            handler.on_update(old, as_decoded(world.api.change(plural, name, patch), reflector.resource.type))
    return world.queue.keys


LABELLED = {"metadata": {"labels": {"new": "er"}}}
READY = {"status": {"conditions": [{"type": "Ready", "status": "False", "reason": "Other"}]}}
OURS = {"status": {"conditions": [{"type": "APIServerPodHealthy", "status": "False", "reason": "Other"}]}}
GENERATION = {"metadata": {"generation": 2}}


@pytest.mark.parametrize(
    ("plural", "name", "patch"),
    [
        (KCPS, "demo", GENERATION),
        (KCPS, "demo", {"spec": {"replicas": 5}}),  # of the same generation: the management cluster was restored
        (KCPS, "demo", LABELLED),
        (KCPS, "demo", {"metadata": {"annotations": {"a": "b"}}}),
        (KCPS, "demo", None),
        ("clusters", "demo", GENERATION),
        ("clusters", "demo", {"spec": {"paused": True}}),  # of the same generation, too
        ("clusters", "demo", {"status": {"initialization": {"infrastructureProvisioned": False}}}),
        ("clusters", "demo", {"status": {"failureDomains": [{"name": "b", "controlPlane": True}]}}),
        ("clusters", "demo", {"metadata": {"annotations": {Annotation.UPGRADE_STEP: "v1.35.0"}}}),
        ("machines", "cp-1", {"status": {"certificatesExpiryDate": "2027-02-01T00:00:00Z"}}),
        ("machines", "cp-1", {"status": {"conditions": [{"type": "HealthCheckSucceeded", "status": "False"}]}}),
        ("machines", "cp-1", LABELLED),
        ("machines", "cp-1", {"metadata": {"labels": {Label.CLUSTER_NAME: None}}}),
        ("machines", "cp-1", {"metadata": {"deletionTimestamp": "2026-01-01T12:00:00Z"}}),
        ("machines", "cp-1", {"status": {"nodeRef": {"name": "n"}}}),
        ("machines", "cp-1", READY),
        ("machines", "cp-1", None),
        ("kubeadmconfigs", "cp-1", GENERATION),
        ("secrets", "demo-ca", {"data": {"tls.crt": "eA=="}}),
        ("secrets", "demo-ca", None),
        ("devmachines", "cp-1", {"spec": {"providerID": "test:///new"}}),
        ("devmachinetemplates", "small", None),
    ],
)
async def test_it_is_woken(three: World, plural: str, name: str, patch: dict[str, Any] | None) -> None:
    assert woken(three, plural, name, patch) == [DEMO]


@pytest.mark.parametrize(
    ("plural", "name", "patch"),
    [
        (KCPS, "demo", {"status": {"replicas": 2}}),
        (KCPS, "demo", READY),
        ("clusters", "demo", READY),
        ("machines", "cp-1", OURS),
        ("kubeadmconfigs", "cp-1", READY),
        ("secrets", "demo-ca", {"metadata": {"annotations": {"a": "b"}}}),
        ("devmachines", "cp-1", {"status": {"ready": True}}),
        ("devmachinetemplates", "small", LABELLED),
    ],
)
async def test_it_is_left_asleep(three: World, plural: str, name: str, patch: dict[str, Any]) -> None:
    assert woken(three, plural, name, patch) == []


async def test_a_worker_wakes_it_only_by_coming_and_going(three: World) -> None:
    three.api.put("machines", {"metadata": {"name": "worker", "labels": {Label.CLUSTER_NAME: "demo"}}, "spec": {}})
    assert woken(three, "machines", "worker", {"spec": {"version": "v1.35.0"}}) == []
    assert woken(three, "machines", "worker", None) == [DEMO]


@pytest.mark.parametrize("plural", ["devmachines", "kubeadmconfigs"])
async def test_what_is_made_for_a_machine_wakes_its_owner_before_it_says_its_cluster(three: World, plural: str) -> None:
    await three.actor.perform(CreateReplica("", initialize=False), await three.look())
    (name,) = {*three.api.names(plural)} - {"cp-1", "cp-2", "cp-3"}
    unlabelled = {"metadata": {"labels": {Label.CLUSTER_NAME: None}}}
    three.api.change(plural, name, unlabelled)
    assert woken(three, plural, name, GENERATION | {"metadata": {"annotations": {"a": "b"}}}) == [DEMO]


async def test_what_belongs_to_another_cluster_wakes_nobody(three: World) -> None:
    three.api.change("machines", "cp-1", {"metadata": {"labels": {Label.CLUSTER_NAME: "other"}}, "spec": {"clusterName": "other"}})
    assert woken(three, "machines", "cp-1", None) == []


async def test_bootstrap_data_is_not_kept(three: World) -> None:
    three.api.put("secrets", {"metadata": {"name": "cp-1", "labels": {Label.CLUSTER_NAME: "demo"}}, "data": {"value": "eA=="}})
    await three.sync()
    stored = three.caches.secrets.get("default", "cp-1")
    assert stored is not None
    assert stored.data == {}
    kept = three.caches.secrets.get("default", "demo-ca")
    assert kept is not None
    assert kept.data


@pytest.mark.parametrize(
    ("kind", "plural"),
    [("DevMachine", "devmachines"), ("Proxy", "proxies"), ("Gateway", "gateways"), ("MetalBus", "metalbuses"), ("Box", "boxes")],
)
def test_kinds_are_pluralized_as_the_contract_has_it(kind: str, plural: str) -> None:
    assert pluralize(kind) == plural


@pytest.mark.parametrize(
    ("plural", "name", "patch", "told"),
    [
        ("extensionconfigs", "ext", {"metadata": {"generation": 2}}, True),
        ("extensionconfigs", "ext", {"status": {"conditions": []}}, True),
        ("extensionconfigs", "ext", {"metadata": {"annotations": {"a": "b"}}}, False),
        ("namespaces", "default", {"metadata": {"labels": {"team": "a"}}}, True),
        ("namespaces", "default", {"metadata": {"annotations": {"a": "b"}}}, False),
    ],
)
async def test_who_waits_for_an_extension_is_told_when_it_changes(
    updatable: World, plural: str, name: str, patch: dict[str, Any], told: bool
) -> None:
    [reflector] = [found for found in updatable.caches.reflectors if found.resource.plural == plural]
    before = updatable.api.objects[plural, "", name]
    old: Any = as_decoded(before, reflector.resource.type)
    updatable.queue.keys.clear()
    for handler in reflector._handlers:
        handler.on_update(old, as_decoded(updatable.api.put(plural, merge_patch(before, patch)), reflector.resource.type))
    assert updatable.queue.keys == ([DEMO] if told else [])


async def test_without_the_gate_no_extension_is_watched(three: World) -> None:
    watched = {reflector.resource.plural for reflector in three.caches.reflectors}
    assert watched.isdisjoint({"extensionconfigs", "namespaces"})
