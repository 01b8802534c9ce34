"""Objects that cannot be acted on: each gets a condition that says so, nothing is made or lost meanwhile, and everything goes on once it is put right."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from quorate.clusterapi.types.names import Annotation, Finalizer, Hook

if TYPE_CHECKING:
    from tests.integration.conftest import Manager, Object, Stage

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(900)]


async def nothing_was_made(stage: Stage) -> bool:
    made = [await stage.names(kind) for kind in ("Machine", "KubeadmConfig", "DevMachine")]
    return not any(made)


async def until_machine(stage: Stage) -> Object:
    async def first() -> Object | None:
        return next(iter(await stage.machines()), None)

    return await stage.until("the first Machine exists", first)


async def until_not_stalled(stage: Stage) -> None:
    async def unstalled() -> bool:
        return not (await stage.condition("Stalled"))["status"]

    await stage.until("there is no Stalled condition", unstalled)


@pytest.mark.usefixtures("manager")
async def test_missing_template_is_named_until_it_appears(stage: Stage) -> None:
    cluster, dev_cluster, template, kcp = stage.cluster().objects()
    await stage.create(cluster, dev_cluster, kcp)
    await stage.until_condition("Stalled", "False", f"DevMachineTemplate {stage.namespace}/{stage.namespace} does not exist")
    assert stage.namespace in (await stage.condition("ScalingUp"))["message"]
    assert await nothing_was_made(stage)
    await stage.create(template)
    await until_machine(stage)
    await until_not_stalled(stage)


@pytest.mark.usefixtures("manager")
async def test_without_a_cluster_nothing_happens(stage: Stage) -> None:
    cluster, dev_cluster, template, kcp = stage.cluster().objects()
    await stage.create(template, kcp)
    await stage.stays("nothing is made without a Cluster", lambda: nothing_was_made(stage))
    assert (await stage.control_plane())["metadata"].get("finalizers", []) == []
    await stage.create(cluster, dev_cluster)
    await until_machine(stage)


@pytest.mark.usefixtures("manager")
async def test_paused_means_paused(stage: Stage) -> None:
    cluster, dev_cluster, template, kcp = stage.cluster().objects()
    kcp["metadata"]["annotations"] = {Annotation.PAUSED: ""}
    await stage.create(cluster, dev_cluster, template, kcp)
    await stage.until_condition("Paused", "True", f"annotation {Annotation.PAUSED}")
    await infrastructure_is_ready(stage)
    await stage.patch("Cluster", {"spec": {"paused": True}})
    await stage.until_condition("Paused", "True", f"Cluster {stage.namespace} spec.paused and annotation")
    await stage.patch("KubeadmControlPlane", {"metadata": {"annotations": {Annotation.PAUSED: None}}})
    await stage.until_condition("Paused", "True", f"Paused by Cluster {stage.namespace} spec.paused")
    await stage.stays("nothing is made while paused", lambda: nothing_was_made(stage))
    assert (await stage.control_plane())["metadata"]["finalizers"] == [Finalizer.KUBEADM_CONTROL_PLANE]
    await stage.patch("Cluster", {"spec": {"paused": None}})
    await until_machine(stage)
    await stage.until_condition("Paused", "False")


async def infrastructure_is_ready(stage: Stage) -> None:
    async def provisioned() -> bool:
        cluster = (await stage.all_of("Cluster"))[0]
        return bool(cluster.get("status", {}).get("initialization", {}).get("infrastructureProvisioned"))

    await stage.until("the Cluster's infrastructure is provisioned", provisioned)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        pytest.param({"replicas": 2}, "spec.replicas", id="even"),
        pytest.param({"replicas": 0}, "spec.replicas", id="zero"),
        pytest.param({"version": "abc"}, "spec.version", id="version"),
    ],
)
@pytest.mark.usefixtures("manager")
async def test_invalid(stage: Stage, change: dict[str, Any], text: str) -> None:
    *others, kcp = stage.cluster().objects()
    valid = {field: kcp["spec"][field] for field in change}
    kcp["spec"] |= change
    await stage.create(*others, kcp)
    await stage.until_condition("Stalled", "True", text)
    await infrastructure_is_ready(stage)
    await stage.stays("nothing is made of what is invalid", lambda: nothing_was_made(stage), seconds=1)
    await stage.patch("KubeadmControlPlane", {"spec": valid})
    await until_machine(stage)
    await until_not_stalled(stage)


async def test_the_only_machine_is_held_until_its_replacement_has_joined(stage: Stage, manager: Manager) -> None:
    await stage.create(*stage.cluster().objects())
    await stage.until_ready(1)
    (name,) = await stage.names("Machine")
    await stage.delete("Machine", name)

    async def left() -> bool:
        machines = {machine["metadata"]["name"]: machine["metadata"] for machine in await stage.machines()}
        assert machines, "the only Machine went before its replacement was there"
        assert len(machines) > 1 or name not in machines or Hook.PRE_TERMINATE in machines[name]["annotations"]
        return name not in machines

    await stage.until("the first Machine has left", left)
    await stage.until_ready(1)
    assert manager.running
