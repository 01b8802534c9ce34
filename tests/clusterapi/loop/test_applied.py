"""What was applied is remembered for as long as the caches hold the object, and no longer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from quorate.clusterapi.act.maintenance import maintain
from quorate.clusterapi.types.names import FieldManager, Label
from quorate.kubernetes.errors import Forbidden
from quorate.simulation.engine.fields import owned_by_body, to_fields_v1
from tests.clusterapi.loop.management import as_decoded

if TYPE_CHECKING:
    from tests.clusterapi.loop.conftest import World

Json = dict[str, Any]


async def test_what_leaves_the_caches_is_forgotten(three: World) -> None:
    await maintain(three.clients, await three.look())
    assert len(three.clients.applied) == 9
    watched = [entry.reflector for entry in three.caches.foreign._watched.values()]
    for reflector in (*three.caches.reflectors, *watched):
        plural = reflector.resource.plural
        if plural in ("machines", "kubeadmconfigs", "devmachines"):
            gone = as_decoded(three.api.raw(plural, "cp-2"), reflector.resource.type)
            reflector._tell(reflector.store.remove(gone))
    assert len(three.clients.applied) == 6


async def test_labels_and_annotations_that_somebody_takes_away_come_back(three: World) -> None:
    await maintain(three.clients, await three.look())
    for plural in ("machines", "kubeadmconfigs", "devmachines"):
        three.api.change(plural, "cp-1", {"metadata": {"labels": {"team": "b"}}})
        three.api.change(plural, "cp-2", {"metadata": {"labels": {Label.CONTROL_PLANE: None}}})
        three.api.change(plural, "cp-3", {"metadata": {"annotations": {"cost": None, "somebody": "else's"}}})
        tell(three, plural)
    three.log.clear()
    await maintain(three.clients, await three.look())
    for plural in ("machines", "kubeadmconfigs", "devmachines"):
        raw = {name: three.api.raw(plural, name)["metadata"] for name in ("cp-1", "cp-2", "cp-3")}
        assert raw["cp-1"]["labels"]["team"] == "a"
        assert Label.CONTROL_PLANE in raw["cp-2"]["labels"]
        assert raw["cp-3"]["annotations"]["cost"] == "b"
    assert len([line for line in three.log if line.startswith("apply")]) == 9


async def test_a_change_that_concerns_nothing_of_ours_has_nothing_applied(three: World) -> None:
    await maintain(three.clients, await three.look())
    three.api.change("machines", "cp-1", {"metadata": {"labels": {"somebody": "else's"}}, "status": {"phase": "Running"}})
    tell(three, "machines")
    three.log.clear()
    await maintain(three.clients, await three.look())
    assert three.log == []


async def test_a_config_that_is_not_there_is_looked_for_once(three: World) -> None:
    del three.api.objects["kubeadmconfigs", "default", "cp-2"]
    await maintain(three.clients, await three.look())
    three.log.clear()
    three.api.trouble["get", "kubeadmconfigs"] = Forbidden("not asked for again")
    await maintain(three.clients, await three.look())
    assert three.log == []


async def test_what_an_earlier_process_has_applied_is_not_applied_again_after_a_start(three: World) -> None:
    bodies = await applied_by_an_earlier_process(three)
    three.api.before["get"] = lambda: pytest.fail("an object is read")
    await maintain(three.clients, await three.look())
    assert (three.log, len(three.clients.applied)) == ([], len(bodies))


@pytest.mark.parametrize(
    ("plural", "patch"),
    [
        ("machines", {"metadata": {"labels": {"team": "b"}}}),
        ("machines", {"spec": {"readinessGates": []}}),
        ("machines", {"metadata": {"managedFields": []}}),
        ("devmachines", {"metadata": {"annotations": {"cost": "c"}}}),
        ("kubeadmconfigs", {"metadata": {"labels": {Label.CONTROL_PLANE: "other"}}}),
    ],
)
async def test_what_differs_from_what_was_applied_is_applied_after_a_start(plural: str, patch: Json, three: World) -> None:
    await applied_by_an_earlier_process(three)
    three.api.change(plural, "cp-2", patch)
    tell(three, plural)
    await maintain(three.clients, await three.look())
    assert [line.partition(" as ")[0] for line in three.log if line.startswith("apply")] == [f"apply {plural} cp-2"]


@pytest.mark.parametrize(
    "change",
    [
        {"manager": "kubectl"},
        {"apiVersion": "cluster.x-k8s.io/v1beta1"},
        {"fieldsV1": None},
        {"fieldsV1": {"f:metadata": {"f:labels": {}}}},
        {"fieldsV1": {"f:metadata": {"f:ownerReferences": {"k:nonsense": {}}}}},
        {"operation": "Update"},
        {"subresource": "status"},
    ],
)
async def test_an_owner_that_is_another_or_makes_no_sense_proves_nothing(change: Json, three: World) -> None:
    bodies = await applied_by_an_earlier_process(three)
    (entry, *_) = owners("machines", bodies["machines", "cp-3"])
    three.api.change("machines", "cp-3", {"metadata": {"managedFields": [entry | change]}})
    tell(three, "machines")
    await maintain(three.clients, await three.look())
    assert [line for line in three.log if line.startswith("apply")] == [f"apply machines cp-3 as {FieldManager.KUBEADM_CONTROL_PLANE}"]


async def test_fields_that_an_older_version_of_the_api_still_credits_us_with_are_given_up(three: World) -> None:
    bodies = await applied_by_an_earlier_process(three)
    (entry, *_) = owners("machines", bodies["machines", "cp-3"])
    older = entry | {"apiVersion": "cluster.x-k8s.io/v1beta1", "fieldsV1": {"f:metadata": {"f:labels": {"f:old": {}}}}}
    three.api.change("machines", "cp-3", {"metadata": {"managedFields": [older, entry]}})
    tell(three, "machines")
    await maintain(three.clients, await three.look())
    assert [line for line in three.log if line.startswith("apply")] == [f"apply machines cp-3 as {FieldManager.KUBEADM_CONTROL_PLANE}"]


async def test_what_is_wanted_no_more_is_given_up_after_a_start(three: World) -> None:
    await applied_by_an_earlier_process(three)
    three.api.change("kubeadmcontrolplanes", "demo", {"spec": {"machineTemplate": {"metadata": {"labels": {"team": None}}}}})
    await maintain(three.clients, await three.look())
    assert len([line for line in three.log if line.startswith("apply")]) == 9


async def test_what_was_found_applied_is_applied_again_once_another_process_has_applied_something_else(three: World) -> None:
    """The one that had led until then applied a change that is taken back meanwhile: this one's caches learn of it late."""
    bodies = await applied_by_an_earlier_process(three)
    await maintain(three.clients, await three.look())
    changed = {**bodies["machines", "cp-1"], "spec": {**bodies["machines", "cp-1"]["spec"], "deletion": {"nodeDrainTimeoutSeconds": 7}}}
    three.api.change("machines", "cp-1", {"spec": changed["spec"], "metadata": {"managedFields": owners("machines", changed)}})
    tell(three, "machines")
    await maintain(three.clients, await three.look())
    assert three.log == [f"apply machines cp-1 as {FieldManager.KUBEADM_CONTROL_PLANE}"]


async def applied_by_an_earlier_process(three: World) -> dict[tuple[str, str], Json]:
    """The objects with the managedFields that an API server gives them, and caches that have seen them; nothing is remembered."""
    await maintain(three.clients, await three.look())
    bodies = {(plural, name): body for line, body in three.api.bodies for verb, plural, name, *_ in [line.split()] if verb == "apply"}
    for (plural, name), body in bodies.items():
        three.api.change(plural, name, {"metadata": {"managedFields": owners(plural, body)}})
    for plural in ("machines", "kubeadmconfigs", "devmachines"):
        tell(three, plural)
    three.clients.applied._bodies.clear()
    three.log.clear()
    return bodies


def owners(plural: str, body: Json) -> list[Json]:
    """What the API server writes down of who applied this."""
    manager = FieldManager.KUBEADM_CONTROL_PLANE if plural == "machines" else FieldManager.METADATA
    entry = {"manager": manager, "operation": "Apply", "apiVersion": body["apiVersion"], "fieldsV1": to_fields_v1(owned_by_body(body))}
    return [entry, {"manager": "manager", "operation": "Update", "subresource": "status", "fieldsV1": {"f:status": {}}}]


def tell(world: World, plural: str) -> None:
    """The watch of a kind tells of what the API has now; of what a watch does not select any more it says that it was deleted."""
    watched = [entry.reflector for entry in world.caches.foreign._watched.values()]
    reflector = next(each for each in (*world.caches.reflectors, *watched) if each.resource.plural == plural)
    for name in world.api.names(plural):
        item = as_decoded(world.api.raw(plural, name), reflector.resource.type)
        selected = all(key in item.metadata.labels for key in reflector._label_selector.split(",") if key)
        reflector._tell(reflector.store.put(item) if selected else reflector.store.remove(item))
