"""What was applied is remembered for as long as the caches hold the object, and no longer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from quorate.clusterapi.upkeep import maintain

if TYPE_CHECKING:
    from tests.clusterapi.hands.conftest import World


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
