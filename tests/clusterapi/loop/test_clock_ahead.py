"""Our clock is ahead of the API server's, by which everything there is dated: what has just come looks old."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import msgspec

from quorate.core.health import Health
from quorate.core.machines.decide import decide
from quorate.core.machines.steps import ReleaseHook, RemoveOrphan, Step
from quorate.core.ring import Member

if TYPE_CHECKING:
    from .conftest import World

AHEAD = timedelta(minutes=12)
JUST_NOW = {"metadata": {"creationTimestamp": "2026-01-01T11:58:00Z"}}


async def next_step(world: World) -> Step | None:
    view = (await world.look()).view
    assert view is not None
    return decide(view, world.now).step


async def test_the_learner_of_a_host_that_joins_stays_until_it_was_seen_for_as_long_as_kubeadm_takes(three: World) -> None:
    three.api.change("kubeadmcontrolplanes", "demo", {"spec": {"replicas": 5}})
    three.add_machine("cp-4")
    three.api.change("machines", "cp-4", JUST_NOW)
    node = three.workload.node_list[-1]
    three.workload.node_list[-1] = msgspec.structs.replace(
        node, metadata=msgspec.structs.replace(node.metadata, creation_timestamp=three.now)
    )
    three.workload.members[9] = Member(9, "", Health.BAD, learner=True, peer_urls=("https://10.9.9.9:2380",))
    three.now += AHEAD
    await three.look()
    three.now += timedelta(minutes=9, seconds=59)
    assert await next_step(three) != RemoveOrphan(9)
    three.now += timedelta(seconds=1)
    assert await next_step(three) == RemoveOrphan(9)


async def test_one_that_may_be_joining_a_ring_of_one_is_held_until_it_was_seen_for_as_long_as_kubeadm_takes(three: World) -> None:
    for number in (2, 3):
        three.workload.node_list[:] = [node for node in three.workload.node_list if node.metadata.name != f"cp-{number}"]
        del three.workload.members[number], three.api.objects["machines", "default", f"cp-{number}"]
    three.add_machine("cp-4", node=False, spec={"bootstrap": {"dataSecretName": "cp-4"}})
    three.api.change("machines", "cp-4", JUST_NOW)
    three.delete_machine("cp-4")
    three.now += AHEAD
    assert await next_step(three) != ReleaseHook("cp-4")
    three.now += timedelta(minutes=10)
    assert await next_step(three) == ReleaseHook("cp-4")
