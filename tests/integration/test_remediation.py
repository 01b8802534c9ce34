"""Failed and deleted machines against the real programs: a real MachineHealthCheck marks them, users delete them, and quorum is never given away."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from quorate.clusterapi.types.names import Annotation
from tests.integration.changes import by_age, fail_machine, nothing_orphaned, until_replaced

if TYPE_CHECKING:
    from tests.integration.conftest import Manager, Stage

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(900)]


async def test_failed_machines_are_replaced(three: Stage) -> None:
    stage, manager = three, three.start_manager()
    first = by_age(await stage.machines())[0]
    await fail_machine(stage, first)
    await until_replaced(stage, {first}, 3)
    await the_replacement_remembers(stage, first)
    await nothing_is_in_progress(stage)
    await stage.scale(5)
    await stage.until_ready(5, timeout=180)
    oldest = set(by_age(await stage.machines())[:2])
    for name in oldest:
        await fail_machine(stage, name)
    await until_replaced(stage, oldest, 5)
    await nothing_orphaned(stage)
    assert manager.running


async def the_replacement_remembers(stage: Stage, replaced: str) -> None:
    machines = await stage.machines()
    records = [machine["metadata"]["annotations"].get(Annotation.REMEDIATION_FOR, "") for machine in machines]
    assert sum(replaced in record for record in records) == 1
    kcp = await stage.control_plane()
    assert kcp["status"]["lastRemediation"]["machine"] == replaced


async def nothing_is_in_progress(stage: Stage) -> None:
    async def answer() -> bool:
        annotations = (await stage.control_plane())["metadata"].get("annotations", {})
        return Annotation.REMEDIATION_IN_PROGRESS not in annotations and "quorate.dev/remediating" not in annotations

    await stage.until("the records of the remediation are cleared", answer)
    assert (await stage.condition("Remediating"))["status"] == "False"


async def test_the_only_machine_is_not_remediated_and_says_why(stage: Stage, manager: Manager) -> None:
    demo = stage.cluster(1)
    await stage.create(*demo.objects(), demo.health_check())
    await stage.until_ready(1)
    (name,) = await stage.names("Machine")
    await fail_machine(stage, name)

    async def refused() -> bool:
        found = await stage.condition("OwnerRemediated", "Machine", name)
        return (found["status"], found["reason"]) == ("False", "CannotBeRemediated")

    await stage.until("OwnerRemediated says that it cannot be", refused)

    async def untouched() -> bool:
        (machine,) = await stage.machines()
        return "deletionTimestamp" not in machine["metadata"]

    await stage.stays("the Machine stays", untouched)
    await stage.until_condition("Remediating", "True", name)
    assert manager.running


async def test_machines_deleted_by_users(three: Stage) -> None:
    """One, then two at once, then all three: each time as many are there again in the end, and etcd never lost its quorum."""
    stage, manager = three, three.start_manager()
    for number in (1, 2, 3):
        chosen = by_age(await stage.machines())[:number]
        for name in chosen:
            await stage.delete("Machine", name)
        await until_replaced(stage, set(chosen), 3)
        await stage.until_condition("EtcdClusterHealthy", "True")
    await nothing_orphaned(stage)
    assert manager.running


async def test_a_malformed_record_of_a_remediation_is_named(three: Stage) -> None:
    stage, manager = three, three.start_manager()
    await stage.patch("KubeadmControlPlane", {"metadata": {"annotations": {Annotation.REMEDIATION_IN_PROGRESS: "{not json"}}})
    name = by_age(await stage.machines())[0]
    await fail_machine(stage, name)
    await stage.until_condition("Stalled", "True", Annotation.REMEDIATION_IN_PROGRESS)
    await stage.patch("KubeadmControlPlane", {"metadata": {"annotations": {Annotation.REMEDIATION_IN_PROGRESS: None}}})
    await until_replaced(stage, {name}, 3)
    assert manager.running
