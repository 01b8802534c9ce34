"""Taking over a control plane from upstream's provider and handing it back: no Machine is replaced and no spec is changed, at rest or in mid-rollout."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.integration.changes import nothing_orphaned, steps_taken, until_version

if TYPE_CHECKING:
    from tests.integration.conftest import Object, Stage

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(900)]

KINDS_OF_A_MACHINE = ("Machine", "KubeadmConfig", "DevMachine")
LONG_ENOUGH = 20.0  # seconds; upstream looks again after 15 or 20


async def test_taken_over_at_rest_and_handed_back(stage: Stage) -> None:
    upstream = await stage.start_upstream()
    await stage.create(*stage.cluster(3).objects())
    await stage.until_ready(3, timeout=240)
    upstream.stop()
    before = await specs(stage)
    ours = stage.start_manager()

    async def looked() -> bool:
        return bool(steps_taken(ours))

    await stage.until("quorate has looked: it sees to the add-ons once", looked)
    await stage.stays("quorate changes no spec of upstream's", lambda: unchanged(stage, before), seconds=LONG_ENOUGH)
    await stage.scale(5)
    await stage.until_ready(5, timeout=180)
    assert ours.stop() == 0
    before = await specs(stage)
    await stage.start_upstream()
    await stage.stays("upstream changes no spec of quorate's", lambda: unchanged(stage, before), seconds=LONG_ENOUGH)
    await stage.scale(3)
    await stage.until_ready(3, timeout=180)
    await nothing_orphaned(stage)


async def specs(stage: Stage) -> dict[str, Object]:
    """The specs of all Machines and companions, by kind and uid, and that of the KubeadmControlPlane."""
    items = [(kind, item) for kind in (*KINDS_OF_A_MACHINE, "KubeadmControlPlane") for item in await stage.all_of(kind)]
    return {f"{kind} {item['metadata']['uid']}": item["spec"] for kind, item in items}


async def unchanged(stage: Stage, before: dict[str, Object]) -> bool:
    return await specs(stage) == before


async def test_taken_over_and_handed_back_in_the_middle_of_a_rollout(stage: Stage) -> None:
    upstream = await stage.start_upstream()
    await stage.create(*stage.cluster(3).objects())
    await stage.until_ready(3, timeout=240)
    seen = await stage.names("Machine")
    strategy = {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxSurge": 1},
    }  # which upstream's webhook writes, and without which upstream does nothing
    await stage.patch("KubeadmControlPlane", {"spec": {"version": "v1.35.4", "rollout": {"strategy": strategy}}})
    seen |= await made(stage, 1, "v1.35.4")
    upstream.kill()
    ours = stage.start_manager()
    seen |= await made(stage, 2, "v1.35.4")
    ours.kill()
    await stage.start_upstream()
    await until_version(stage, "v1.35.4", 3, timeout=300)
    seen |= await stage.names("Machine")
    assert len(seen) == 6, f"three were replaced by three: {sorted(seen)}"
    await nothing_orphaned(stage)


async def made(stage: Stage, number: int, version: str) -> set[str]:
    """Wait until so many Machines of a version exist; the names of all."""

    async def answer() -> set[str] | None:
        machines = await stage.machines()
        enough = sum(machine["spec"]["version"] == version for machine in machines) >= number
        return {machine["metadata"]["name"] for machine in machines} if enough else None

    return await stage.until(f"{number} Machines of {version}", answer, timeout=240)
