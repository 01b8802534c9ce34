"""The control planes of a measurement: what a user applies for each, with CAs of his own, and how each is then edited."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from quorate.clusterapi.types.names import CLUSTER_SECRET_TYPE, Label
from quorate.clusterapi.types.resources import CLUSTERS, KUBEADM_CONTROL_PLANES
from quorate.kubernetes.client import Client
from quorate.kubernetes.resource import Resource
from quorate.local import DemoCluster
from quorate.pki import KeyAlgorithm, KeyPair, generate_ca, generate_service_account
from tests.scale.providers import NAMESPACE
from tests.scale.workloads import Workload

Json = dict[str, Any]

REPLICAS, VERSION = 3, "v1.34.4"
_AT_ONCE = 16
_SECRETS: Resource[Json] = Resource("", "v1", "secrets", "Secret", dict, namespaced=True)
_TEMPLATES: Resource[Json] = Resource(
    "infrastructure.cluster.x-k8s.io", "v1beta2", "devmachinetemplates", "DevMachineTemplate", dict, namespaced=True
)
CONTROL_PLANES: Resource[Json] = Resource(
    KUBEADM_CONTROL_PLANES.group,
    KUBEADM_CONTROL_PLANES.version,
    KUBEADM_CONTROL_PLANES.plural,
    KUBEADM_CONTROL_PLANES.kind,
    dict,
    namespaced=True,
)


async def apply_all(client: Client, workloads: Iterable[Workload], port: int) -> None:
    """Everything that a user applies for these control planes."""
    gate = asyncio.Semaphore(_AT_ONCE)

    async def one(workload: Workload) -> None:
        async with gate:
            await _apply(client, workload, port)

    async with asyncio.TaskGroup() as tasks:
        for workload in workloads:
            tasks.create_task(one(workload))


async def _apply(client: Client, workload: Workload, port: int) -> None:
    cluster, _, template, control_plane = DemoCluster(name=workload.name, namespace=NAMESPACE, replicas=REPLICAS, version=VERSION).objects()
    cluster["spec"]["controlPlaneEndpoint"] = {"host": workload.address, "port": port}
    made = await client.create(CLUSTERS, cluster, NAMESPACE)
    ready = {"status": {"initialization": {"infrastructureProvisioned": True}}}
    await client.merge_patch(CLUSTERS, workload.name, ready, NAMESPACE, subresource="status")
    now = datetime.now(UTC)
    proxy = generate_ca(KeyAlgorithm.ECDSA_P256, now=now, common_name="front-proxy-ca")
    pairs = {
        "ca": workload.ca,
        "etcd": workload.etcd_ca,
        "proxy": proxy,
        "sa": generate_service_account(KeyAlgorithm.ECDSA_P256),
    }
    for purpose, pair in pairs.items():
        await client.create(_SECRETS, _secret(workload.name, purpose, pair), NAMESPACE)
    await client.create(_TEMPLATES, template, NAMESPACE)
    owner = {"apiVersion": CLUSTERS.api_version, "kind": "Cluster", "name": workload.name, "uid": made.metadata.uid, "controller": True}
    control_plane["metadata"] |= {
        "ownerReferences": [owner],
        "labels": {Label.CLUSTER_NAME: workload.name, Label.WATCH_FILTER: shard_of(workload)},
    }
    await client.create(KUBEADM_CONTROL_PLANES, control_plane, NAMESPACE)


def shard_of(workload: Workload) -> str:
    """Half of the control planes is for each of two shards."""
    return "even" if int(workload.name.rpartition("-")[2]) % 2 == 0 else "odd"


def _secret(cluster: str, purpose: str, pair: KeyPair) -> Json:
    data = {"tls.crt": base64.b64encode(pair.certificate).decode(), "tls.key": base64.b64encode(pair.key).decode()}
    labels = {Label.CLUSTER_NAME: cluster}
    return {"metadata": {"name": f"{cluster}-{purpose}", "labels": labels}, "type": CLUSTER_SECRET_TYPE, "data": data}


async def edit(client: Client, name: str, spec: Json) -> None:
    """Edit the specification of one control plane."""
    await client.merge_patch(CONTROL_PLANES, name, {"spec": spec}, NAMESPACE)


async def settled(client: Client, names: Iterable[str], *, version: str = VERSION) -> list[str]:
    """Those of these control planes that are not as desired yet."""
    wanted = set(names)
    listed = await client.list(CONTROL_PLANES, NAMESPACE, limit=5000)
    return [obj["metadata"]["name"] for obj in listed.items if obj["metadata"]["name"] in wanted and not _is_well(obj, version)]


def _is_well(obj: Json, version: str) -> bool:
    status = obj.get("status") or {}
    counts = [status.get(field) for field in ("replicas", "readyReplicas", "upToDateReplicas")]
    return counts == [REPLICAS] * 3 and status.get("version") == version
