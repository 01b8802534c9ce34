"""Two managers with leader election: one acts, and when it is killed the other takes over and finishes what was begun."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from quorate.clusterapi.types.names import LEADER_ELECTION_LEASE

if TYPE_CHECKING:
    from tests.integration.conftest import Manager, Object, Stage

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(900)]

ELECTION = ("--leader-elect", "--leader-elect-lease-duration=4s", "--leader-elect-renew-deadline=3s", "--leader-elect-retry-period=500ms")


async def test_one_acts_and_the_other_takes_over(stage: Stage) -> None:
    first = stage.start_manager(*ELECTION)
    await until_held_by(stage, first)
    second = stage.start_manager(*ELECTION)
    await stage.create(*stage.cluster().objects())
    made = await until_machine(stage)
    first.kill()
    assert steps(second) == 0, "both acted"
    await until_held_by(stage, second)
    await stage.until_up()
    assert await stage.names("Machine") == {made["metadata"]["name"]}
    assert await stage.names("KubeadmConfig") == await stage.names("DevMachine") == await stage.names("Machine")
    assert (await lease(stage))["spec"]["leaseTransitions"] == 1


async def test_a_manager_that_ends_in_order_gives_the_lease_up(stage: Stage) -> None:
    first = stage.start_manager(*ELECTION)
    await until_held_by(stage, first)
    assert first.stop() == 0
    assert not (await lease(stage))["spec"].get("holderIdentity")


async def lease(stage: Stage) -> Object:
    return next(item for item in await stage.all_of("Lease") if item["metadata"]["name"] == LEADER_ELECTION_LEASE)


async def until_held_by(stage: Stage, manager: Manager) -> None:
    async def held() -> bool:
        leases = [item for item in await stage.all_of("Lease") if item["metadata"]["name"] == LEADER_ELECTION_LEASE]
        return any(f"_{manager.child.pid}_" in item["spec"].get("holderIdentity", "") for item in leases)

    await stage.until(f"pid {manager.child.pid} holds the Lease", held)


async def until_machine(stage: Stage) -> Object:
    async def first() -> Object | None:
        return next(iter(await stage.machines()), None)

    return await stage.until("the first Machine exists", first)


def steps(manager: Manager) -> int:
    """How many steps the manager has taken, by its log."""
    return manager.log.read_text().count('"msg":"step"') + manager.log.read_text().count('"msg": "step"')
