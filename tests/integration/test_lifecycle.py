"""A control plane's whole life against the real programs: created, scaled up and down, deleted; every object as Cluster API's users expect it."""

from __future__ import annotations

import base64
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from quorate.clusterapi.types.names import CLUSTER_SECRET_TYPE, Annotation, FieldManager, Hook, Label
from quorate.kubeadm.bootstrap_token import NAMESPACE, secret_name, token_of
from quorate.kubernetes import kubeconfig
from quorate.kubernetes.client import connect
from quorate.kubernetes.resource import NODES, SECRETS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from quorate.kubernetes.client import Client
    from tests.integration.conftest import Object, Stage

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(900)]

SUFFIXES = ("ca", "etcd", "proxy", "sa", "kubeconfig")


async def test_life(stage: Stage) -> None:
    stage.start_manager(everywhere=True)
    await stage.create(*stage.cluster(3).objects())
    kcp = await stage.until_ready(3, timeout=120)
    await machines_are_as_upstream_makes_them(stage, kcp)
    await companions_are_as_upstream_makes_them(stage, kcp)
    await secrets_are_the_control_planes(stage, kcp)
    await status_tells_all_is_well(stage)
    await kubeconfig_reaches_the_nodes(stage, 3)
    await machines_joined_by_tokens_of_ours(stage)
    for replicas in (5, 3, 1):
        before = {machine["metadata"]["name"]: machine["metadata"]["creationTimestamp"] for machine in await stage.machines()}
        await stage.scale(replicas)
        await stage.until_ready(replicas)
        await companions_follow_the_machines(stage)
        after = await stage.names("Machine")
        assert after <= set(before) or set(before) <= after, "scaling replaced a Machine"
    await kubeconfig_reaches_the_nodes(stage, 1)
    await stage.delete("Cluster")
    await nothing_is_left(stage)


async def machines_are_as_upstream_makes_them(stage: Stage, kcp: Object) -> None:
    for machine in await stage.machines():
        meta, spec = machine["metadata"], machine["spec"]
        assert is_controller(kcp, meta)
        assert meta["labels"] == machine_labels(stage)
        assert meta["annotations"][Hook.PRE_TERMINATE] == ""
        assert spec["version"] == kcp["spec"]["version"]
        assert spec["clusterName"] == stage.namespace
        assert spec["bootstrap"]["configRef"] == {"apiGroup": "bootstrap.cluster.x-k8s.io", "kind": "KubeadmConfig", "name": meta["name"]}
        assert spec["infrastructureRef"] == {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DevMachine", "name": meta["name"]}
        assert FieldManager.KUBEADM_CONTROL_PLANE in appliers(meta)


async def companions_are_as_upstream_makes_them(stage: Stage, kcp: Object) -> None:
    await companions_follow_the_machines(stage)
    for kind in ("KubeadmConfig", "DevMachine"):
        for item in await stage.all_of(kind):
            meta = item["metadata"]
            assert machine_labels(stage).items() <= meta["labels"].items()
            assert {FieldManager.KUBEADM_CONTROL_PLANE, FieldManager.METADATA} <= appliers(meta)
            assert [owner["kind"] for owner in meta["ownerReferences"] if owner.get("controller")] == ["Machine"]
    clones = [item["metadata"]["annotations"] for item in await stage.all_of("DevMachine")]
    assert {clone[Annotation.CLONED_FROM_NAME] for clone in clones} == {kcp["metadata"]["name"]}
    assert {clone[Annotation.CLONED_FROM_GROUP_KIND] for clone in clones} == {"DevMachineTemplate.infrastructure.cluster.x-k8s.io"}


async def secrets_are_the_control_planes(stage: Stage, kcp: Object) -> None:
    secrets = {item["metadata"]["name"]: item for item in await stage.all_of("Secret")}
    for suffix in SUFFIXES:
        secret = secrets[f"{stage.namespace}-{suffix}"]
        assert secret["type"] == CLUSTER_SECRET_TYPE
        assert secret["metadata"]["labels"][Label.CLUSTER_NAME] == stage.namespace
        assert is_controller(kcp, secret["metadata"])
        assert set(secret["data"]) == ({"value"} if suffix == "kubeconfig" else {"tls.crt", "tls.key"})


async def status_tells_all_is_well(stage: Stage) -> None:
    for type_ in (
        "Available",
        "Initialized",
        "CertificatesAvailable",
        "EtcdClusterHealthy",
        "ControlPlaneComponentsHealthy",
        "MachinesReady",
        "MachinesUpToDate",
    ):
        assert (await stage.condition(type_))["status"] == "True", type_
    for type_ in ("ScalingUp", "ScalingDown", "RollingOut", "Remediating", "Deleting", "Paused"):
        assert (await stage.condition(type_))["status"] == "False", type_
    assert (await stage.condition("Stalled"))["status"] == ""


async def kubeconfig_reaches_the_nodes(stage: Stage, expected: int) -> None:
    async with workload(stage) as client:
        nodes = (await client.list(NODES)).items
    assert {node.metadata.name for node in nodes} == await stage.names("Machine")
    assert len(nodes) == expected


async def machines_joined_by_tokens_of_ours(stage: Stage) -> None:
    """Nobody waited for the bootstrap provider to be connected, and it has completed the discovery that we began."""
    joined = [item for item in await stage.all_of("KubeadmConfig") if "initConfiguration" not in item["spec"]]
    discoveries = {item["metadata"]["name"]: item["spec"]["joinConfiguration"]["discovery"]["bootstrapToken"] for item in joined}
    assert len(discoveries) == 2
    async with workload(stage) as client:
        for name, discovery in discoveries.items():
            secret = await client.get(SECRETS, secret_name(discovery["token"]), NAMESPACE)
            assert token_of(secret.data) == discovery["token"]
            assert secret.data["description"].decode() == f"made by quorate to join Machine {stage.namespace}/{name}"
            assert discovery["apiServerEndpoint"]
            assert discovery["caCertHashes"]


@asynccontextmanager
async def workload(stage: Stage) -> AsyncIterator[Client]:
    """A client of the workload cluster by its admin kubeconfig."""
    secret = next(item for item in await stage.all_of("Secret") if item["metadata"]["name"] == f"{stage.namespace}-kubeconfig")
    client = connect(kubeconfig.parse(base64.b64decode(secret["data"]["value"])))
    try:
        yield client
    finally:
        await client.close()


async def companions_follow_the_machines(stage: Stage) -> None:
    """Each Machine has its KubeadmConfig and infrastructure of the same name, and there are no others."""
    machines = await stage.names("Machine")

    async def same() -> bool:
        return machines == await stage.names("KubeadmConfig") == await stage.names("DevMachine")

    await stage.until("KubeadmConfigs and infrastructure are those of the Machines", same)


async def nothing_is_left(stage: Stage) -> None:
    async def gone() -> bool:
        kinds = ("Cluster", "KubeadmControlPlane", "Machine", "KubeadmConfig", "DevMachine", "DevCluster", "DevMachineTemplate", "Secret")
        return not [item for kind in kinds for item in await stage.all_of(kind)]

    await stage.until("everything of the cluster is gone", gone)


def machine_labels(stage: Stage) -> dict[str, str]:
    return {Label.CLUSTER_NAME: stage.namespace, Label.CONTROL_PLANE: "", Label.CONTROL_PLANE_NAME: stage.namespace}


def is_controller(owner: Object, meta: dict[str, Any]) -> bool:
    """Whether `owner` is the one controller of an object, and blocks its own deletion until that is gone."""
    controllers = [reference for reference in meta["ownerReferences"] if reference.get("controller")]
    return [reference["uid"] for reference in controllers] == [owner["metadata"]["uid"]] and controllers[0]["blockOwnerDeletion"] is True


def appliers(meta: dict[str, Any]) -> set[str]:
    """The field managers that have applied something to an object."""
    return {entry["manager"] for entry in meta["managedFields"] if entry["operation"] == "Apply"}
