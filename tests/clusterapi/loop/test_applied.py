"""What was applied is remembered for as long as the caches hold the object, and no longer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from quorate.clusterapi.act.maintenance import maintain
from quorate.clusterapi.types.names import Label
from quorate.kubernetes.errors import Forbidden

if TYPE_CHECKING:
    from tests.clusterapi.loop.conftest import World


async def test_what_leaves_the_caches_is_forgotten(three: World) -> None:
    await maintain(three.clients, await three.look())
    assert len(three.clients.applied) == 9
    watched = [entry.reflector for entry in three.caches.foreign._watched.values()]
    for reflector in (*three.caches.reflectors, *watched):
        plural = reflector.resource.plural
        if plural in ("machines", "kubeadmconfigs", "devmachines"):
            gone = msgspec.convert(three.api.raw(plural, "cp-2"), reflector.resource.type)
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


def tell(world: World, plural: str) -> None:
    """The watch of a kind tells of what the API has now; of what a watch does not select any more it says that it was deleted."""
    watched = [entry.reflector for entry in world.caches.foreign._watched.values()]
    reflector = next(each for each in (*world.caches.reflectors, *watched) if each.resource.plural == plural)
    for name in world.api.names(plural):
        item = msgspec.convert(world.api.raw(plural, name), reflector.resource.type)
        selected = all(key in item.metadata.labels for key in reflector._label_selector.split(",") if key)
        reflector._tell(reflector.store.put(item) if selected else reflector.store.remove(item))
