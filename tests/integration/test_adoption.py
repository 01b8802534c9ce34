"""Control-plane Machines without an owner are adopted as they are; one that cannot be is named, and nothing is done beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.integration.conftest import KINDS

if TYPE_CHECKING:
    from tests.integration.conftest import Manager, Stage

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(600)]


async def test_stand_alone_machines_are_adopted(three: Stage) -> None:
    stage, before = three, await three.names("Machine")
    for name in before:
        await disown(stage, name)
    again: Manager = stage.start_manager()
    await stage.until("all are owned again", lambda: all_owned(stage))
    await stage.until_ready(3)
    assert await stage.names("Machine") == before
    await stage.scale(1)
    await stage.until_ready(1)
    assert again.running


async def disown(stage: Stage, name: str) -> None:
    for kind in ("Machine", "KubeadmConfig", "DevMachine"):
        item = await stage.client.get(KINDS[kind], name, stage.namespace)
        others = [owner for owner in item["metadata"]["ownerReferences"] if owner["kind"] != "KubeadmControlPlane"]
        await stage.client.merge_patch(KINDS[kind], name, {"metadata": {"ownerReferences": others}}, stage.namespace)


async def all_owned(stage: Stage) -> bool:
    kcp = await stage.control_plane()
    machines = await stage.machines()
    owners = [[owner["uid"] for owner in machine["metadata"].get("ownerReferences", []) if owner.get("controller")] for machine in machines]
    return owners == [[kcp["metadata"]["uid"]]] * 3
