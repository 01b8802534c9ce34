"""The simulated etcd ring elects, commits and refuses as a real one does."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from quorate.simulation.engine.ring import EtcdRing, NoQuorum
from quorate.simulation.engine.world import World


class Rig:
    """A ring whose members run and are connected unless they are in `down` or `apart`."""

    def __init__(self) -> None:
        self.down: set[int] = set()
        self.apart: set[int] = set()
        self.ring = EtcdRing(World(1), Random(1), runs=lambda m: m not in self.down, connected=lambda m: m not in self.apart)

    async def grow(self, voters: int) -> list[int]:
        ids = [self.ring.found("m0", "https://m0:2380").id]
        self.ring.refresh()
        for number in range(1, voters):
            await asyncio.sleep(5.0)
            member = self.ring.add_learner(f"https://m{number}:2380")
            self.ring.start(member.id, f"m{number}")
            self.ring.promote(member.id)
            ids.append(member.id)
        await asyncio.sleep(5.0)
        return ids


async def test_a_majority_elects_a_leader() -> None:
    rig = Rig()
    await rig.grow(3)
    assert rig.ring.leader in rig.ring.voters


async def test_without_a_majority_nothing_is_confirmed() -> None:
    rig = Rig()
    ids = await rig.grow(3)
    rig.down.update(ids[:2])
    rig.ring.refresh()
    await asyncio.sleep(60.0)
    assert rig.ring.leader == 0
    with pytest.raises(NoQuorum):
        rig.ring.remove(ids[0])
    with pytest.raises(NoQuorum):
        rig.ring.confirm(ids[2])


async def test_an_isolated_leader_loses_its_place_to_the_others() -> None:
    rig = Rig()
    await rig.grow(3)
    before = rig.ring.leader
    rig.apart.add(before)
    rig.ring.refresh()
    await asyncio.sleep(5.0)
    assert rig.ring.leader not in (0, before)


async def test_there_is_one_learner_at_a_time_and_it_does_not_vote() -> None:
    rig = Rig()
    await rig.grow(3)
    learner = rig.ring.add_learner("https://new:2380")
    assert learner.id not in rig.ring.voters
    with pytest.raises(NoQuorum, match="too many learner"):
        rig.ring.add_learner("https://another:2380")


async def test_removing_keeps_no_ring_from_losing_its_quorum() -> None:
    """Unlike etcd's strict check, so that it is the provider's own decision that is tested."""
    rig = Rig()
    ids = await rig.grow(3)
    rig.down.add(ids[2])
    rig.ring.refresh()
    await asyncio.sleep(5.0)
    assert not rig.ring.states_since(asyncio.get_running_loop().time())[-1].survives_without(ids[1])
    rig.ring.remove(ids[1])
    assert not rig.ring.has_quorum


async def test_the_history_tells_what_was_true_when() -> None:
    rig = Rig()
    ids = await rig.grow(3)
    moment = asyncio.get_running_loop().time()
    rig.down.add(ids[0])
    rig.ring.refresh()
    states = rig.ring.states_since(moment)
    assert [len(state.well) for state in (states[0], states[-1])] == [3, 2]
