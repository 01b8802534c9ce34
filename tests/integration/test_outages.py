"""The management API restarts while machines are made, and the workload API goes away while they are taken: nothing is doubled, nothing goes unseen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from quorate.clusterapi.types.names import Hook

if TYPE_CHECKING:
    from tests.integration.conftest import Manager, Stage

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(900)]

OUTAGE = 6.0  # seconds; the ring is asked every one or two while it changes


async def test_outages_of_both_apis(stage: Stage, manager: Manager) -> None:
    await stage.create(*stage.cluster(3).objects())
    await until_some_machine(stage)
    await stage.stack.restart_api_server()
    await stage.until_ready(3, timeout=180)
    assert await stage.names("Machine") == await stage.names("KubeadmConfig") == await stage.names("DevMachine")
    await workload_goes_away_while_scaling_down(stage)
    assert manager.running


async def workload_goes_away_while_scaling_down(stage: Stage) -> None:
    await stage.stack.listener(stage.namespace, stage.namespace, "stop")
    try:
        await stage.scale(1)
        await stage.until_condition("ScalingDown", "True", "blocked")
        before = await holding(stage)
        assert before == await stage.names("Machine")

        async def unchanged() -> bool:
            return await holding(stage) == before

        await stage.stays("no Machine is let go unseen", unchanged, seconds=OUTAGE)
    finally:
        await stage.stack.listener(stage.namespace, stage.namespace, "start")
    await stage.until_ready(1, timeout=120)
    await stage.until_condition("EtcdClusterHealthy", "True")


async def holding(stage: Stage) -> set[str]:
    """Machines that nobody is deleting and that carry our hook."""
    metas = [machine["metadata"] for machine in await stage.machines()]
    return {meta["name"] for meta in metas if "deletionTimestamp" not in meta and Hook.PRE_TERMINATE in meta["annotations"]}


async def until_some_machine(stage: Stage) -> None:
    async def some() -> bool:
        return bool(await stage.machines())

    await stage.until("the first Machine exists", some)
