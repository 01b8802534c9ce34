"""Bad days of a control plane on the real programs: killed, cut off, edited behind its back. The desired state, or a condition that says why not."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from random import Random
from typing import TYPE_CHECKING

import pytest

from quorate.clusterapi.types.names import Hook, MachineDeletingReason
from quorate.kubernetes import kubeconfig
from quorate.kubernetes.client import Client, connect
from quorate.kubernetes.errors import ServerError
from quorate.kubernetes.resource import Resource
from tests.integration.changes import (
    annotate,
    by_age,
    errors_in,
    fail_machine,
    nothing_orphaned,
    until_begun,
    until_replaced,
    until_version,
)
from tests.integration.conftest import KINDS, conditions_of

if TYPE_CHECKING:
    from tests.integration.conftest import Object, Stage

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(900)]

KILLS = 20
SEED = 20261121  # of the moments of killing; a failure prints it with the test's source
ETCD = "etcd.inmemory.infrastructure.cluster.x-k8s.io"
CUT = 120.0  # seconds
OF_ANOTHER = f"{Hook.PRE_TERMINATE_PREFIX}/of-another"  # ours is the last of the hooks


async def test_killed_at_random_moments_of_a_rollout(three: Stage) -> None:
    stage = three
    await stage.patch("KubeadmControlPlane", {"spec": {"version": "v1.35.4"}})
    seen = await killed_again_and_again(stage)
    stage.start_manager()
    await until_version(stage, "v1.35.4", 3)
    assert len(seen | await stage.names("Machine")) == 6, "three were replaced by three, and nothing was made twice"
    await nothing_orphaned(stage)


async def test_killed_at_random_moments_of_a_remediation(three: Stage) -> None:
    stage = three
    failed = by_age(await stage.machines())[0]
    await fail_machine(stage, failed)
    seen = await killed_again_and_again(stage)
    stage.start_manager()
    await until_replaced(stage, {failed}, 3)
    assert len(seen | await stage.names("Machine")) == 4, "one was replaced by one"
    await nothing_orphaned(stage)


async def killed_again_and_again(stage: Stage) -> set[str]:
    """Start a manager and kill it, at moments spread over its first seconds; the names of all Machines ever seen."""
    random, seen = Random(SEED), set[str]()
    for _ in range(KILLS):
        manager = stage.start_manager()
        await asyncio.sleep(random.uniform(0.8, 4.0))  # it takes about 0.8 s to start
        manager.kill()
        seen |= await stage.names("Machine")
        assert 2 <= len(await holding(stage)) <= 4, "never more than one beyond or below the three"
    return seen


async def holding(stage: Stage) -> set[str]:
    """Machines that carry our hook."""
    return {m["metadata"]["name"] for m in await stage.machines() if Hook.PRE_TERMINATE in m["metadata"]["annotations"]}


async def test_api_server_restarts_in_a_rollout(three: Stage) -> None:
    stage, manager = three, three.start_manager()
    before = await stage.names("Machine")
    await stage.patch("KubeadmControlPlane", {"spec": {"version": "v1.35.4"}})
    await until_begun(stage, before)
    await stage.stack.restart_api_server()
    await until_version(stage, "v1.35.4", 3, timeout=300)
    await nothing_orphaned(stage)
    assert manager.running


async def test_workload_api_cut_for_two_minutes_in_a_scale_down(three: Stage) -> None:
    stage, manager = three, three.start_manager()
    machines = await stage.names("Machine")
    for name in machines:
        await annotate(stage, "Machine", name, **{OF_ANOTHER: ""})
    await stage.scale(1)

    async def drained() -> bool:
        reasons = {conditions_of(machine).get("Deleting", {}).get("reason") for machine in await stage.machines()}
        return MachineDeletingReason.WAITING_FOR_PRE_TERMINATE_HOOK in reasons

    await stage.until("the first of two waits for what others do before it is ended", drained)
    await stage.stack.listener(stage.namespace, stage.namespace, "stop")
    try:
        for name in machines:
            await annotate(stage, "Machine", name, **{OF_ANOTHER: None})
        await stage.until_condition("ScalingDown", "True", "blocked")

        async def still_held() -> bool:
            return await holding(stage) == machines

        await stage.stays("nobody is let go unseen", still_held, seconds=CUT)
    finally:
        await stage.stack.listener(stage.namespace, stage.namespace, "start")
    await stage.until_ready(1, timeout=180)
    await nothing_orphaned(stage)
    assert manager.running


async def test_an_etcd_member_is_taken_away_behind_our_back(three: Stage) -> None:
    stage, manager = three, three.start_manager()
    name = by_age(await stage.machines())[-1]
    async with workload(stage) as client:
        await take_member_away(client, name)
    await stage.until_condition("EtcdClusterHealthy", "False", name, timeout=240)
    await fail_machine(stage, name)
    await until_replaced(stage, {name}, 3)
    await stage.until_condition("EtcdClusterHealthy", "True")
    assert manager.running


async def take_member_away(client: Client, node: str) -> None:
    """The in-memory provider keeps its members in annotations of etcd's Pods; it cannot read a Pod any more that was patched, so this one is made anew."""
    pods: Resource[Object] = Resource("", "v1", "pods", "Pod", dict)
    pod = await client.get(pods, f"etcd-{node}", "kube-system")
    with suppress(ServerError):  # it deletes, and answers with nothing at all
        await client.delete(pods, f"etcd-{node}", "kube-system")
    kept = {key: pod["metadata"][key] for key in ("name", "namespace", "labels")}
    annotations = {**pod["metadata"]["annotations"], f"{ETCD}/member-removed": ""}
    await client.create(pods, {**pod, "metadata": {**kept, "annotations": annotations}}, "kube-system")


async def test_a_node_that_never_appears_is_named_and_does_no_harm(three: Stage) -> None:
    stage, manager = three, three.start_manager()
    *_, template, kcp = stage.cluster(3).objects()
    slow = {"provisioning": {"startupDuration": "24h", "startupJitter": "0"}}
    in_memory = template["spec"]["template"]["spec"]["backend"]["inMemory"]
    body = {**template, "metadata": {"name": "slow", "namespace": stage.namespace}}
    body["spec"] = {"template": {"spec": {"backend": {"inMemory": {**in_memory, "node": slow}}}}}
    await stage.client.create(KINDS["DevMachineTemplate"], body, stage.namespace)
    before = await stage.names("Machine")
    await stage.patch(
        "KubeadmControlPlane", {"spec": {"machineTemplate": {"spec": {"infrastructureRef": {**reference(kcp), "name": "slow"}}}}}
    )

    async def surplus() -> set[str] | None:
        return await stage.names("Machine") - before

    (stuck,) = await stage.until("a Machine without a Node", surplus)
    await stage.until_condition("ControlPlaneComponentsHealthy", "Unknown", stuck, timeout=180)
    await stage.patch("KubeadmControlPlane", {"spec": {"machineTemplate": {"spec": {"infrastructureRef": reference(kcp)}}}})
    await until_replaced(stage, {stuck}, 3)
    assert await stage.names("Machine") == before, "those that were right again stayed"
    await nothing_orphaned(stage)
    assert manager.running


def reference(kcp: Object) -> Object:
    found: Object = kcp["spec"]["machineTemplate"]["spec"]["infrastructureRef"]
    return found


async def test_a_kubeadm_config_edited_by_hand_rolls_that_machine_only(three: Stage) -> None:
    stage, manager = three, three.start_manager()
    before = await stage.names("Machine")
    name = by_age(await stage.machines())[1]
    edit = {"spec": {"preKubeadmCommands": ["echo edited"]}}
    await stage.client.merge_patch(KINDS["KubeadmConfig"], name, edit, stage.namespace)
    await until_replaced(stage, {name}, 3)
    assert len(before & await stage.names("Machine")) == 2
    await nothing_orphaned(stage)
    assert manager.running


async def test_a_version_two_minors_away_is_refused_with_the_reason(three: Stage) -> None:
    stage, manager = three, three.start_manager()
    before = await stage.names("Machine")
    await stage.patch("KubeadmControlPlane", {"spec": {"version": "v1.36.1"}})
    await stage.until_condition("Stalled", "True", "v1.36.1")

    async def untouched() -> bool:
        return await stage.names("Machine") == before

    await stage.stays("nothing moves", untouched, seconds=3)
    await stage.patch("KubeadmControlPlane", {"spec": {"version": "v1.33.0"}})
    await stage.until_condition("Stalled", "True", "v1.33.0")
    await stage.stays("nothing moves", untouched, seconds=3)
    await stage.patch("KubeadmControlPlane", {"spec": {"version": "v1.34.4"}})
    await stage.until_condition("Stalled", "")  # it goes when there is nothing to say
    assert not errors_in(manager.log)


@asynccontextmanager
async def workload(stage: Stage) -> AsyncIterator[Client]:
    """A client of the workload cluster, by the kubeconfig that its users have."""
    secret = await stage.client.get(KINDS["Secret"], f"{stage.namespace}-kubeconfig", stage.namespace)
    client = connect(kubeconfig.parse(base64.b64decode(secret["data"]["value"])))
    try:
        yield client
    finally:
        await client.close()


async def test_workers_go_before_the_control_plane(three: Stage) -> None:
    stage, manager = three, three.start_manager()
    before = await stage.names("Machine")
    infrastructure = {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DevMachine", "name": "worker"}
    spec = {"clusterName": stage.namespace, "bootstrap": {"dataSecretName": "nothing"}, "infrastructureRef": infrastructure}
    worker = {
        "apiVersion": KINDS["Machine"].api_version,
        "kind": "Machine",
        "metadata": {"name": "worker", "namespace": stage.namespace},
        "spec": spec,
    }
    await stage.create(worker)
    await stage.delete("KubeadmControlPlane")
    await stage.until_condition("Deleting", "True", "Machine worker")

    async def untouched() -> bool:
        metas = [machine["metadata"] for machine in await stage.machines()]
        return {meta["name"] for meta in metas if "deletionTimestamp" not in meta} == before

    await stage.stays("the control plane waits for its workers", untouched, seconds=3)
    await stage.delete("Machine", "worker")

    async def gone() -> bool:
        return not await stage.all_of("Machine") and not await stage.all_of("KubeadmControlPlane")

    await stage.until("the control plane is gone", gone, timeout=120)
    assert manager.running
