"""Makes recorded.yaml: what upstream's provider stores for each of specs.yaml. `python -m tests.clusterapi.corpus.record`, about ten minutes.

Each control plane has three replicas, so that Machines which initialized a cluster are kept beside Machines which joined. Kept is what a control-plane provider
compares: specs, and the annotations that say what a Machine's infrastructure was made from.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click
import yaml

from quorate.kubernetes.client import Client
from quorate.kubernetes.errors import Invalid
from quorate.kubernetes.resource import Resource
from quorate.local import DemoCluster, LocalCluster, Options, running

HERE = Path(__file__).parent
TIMEOUT = 120.0  # seconds for each control plane
LOOK_AGAIN = 1.0

Object = dict[str, Any]


def _kind(group: str, plural: str, kind: str, version: str = "v1beta2") -> Resource[Object]:
    return Resource(group, version, plural, kind, dict)


CONTROL_PLANES = {
    version: _kind("controlplane.cluster.x-k8s.io", "kubeadmcontrolplanes", "KubeadmControlPlane", version)
    for version in ("v1beta1", "v1beta2")
}
MACHINES = _kind("cluster.x-k8s.io", "machines", "Machine")
CONFIGS = _kind("bootstrap.cluster.x-k8s.io", "kubeadmconfigs", "KubeadmConfig")
DEV_MACHINES = _kind("infrastructure.cluster.x-k8s.io", "devmachines", "DevMachine")
OTHERS = {
    "Cluster": _kind("cluster.x-k8s.io", "clusters", "Cluster"),
    "DevCluster": _kind("infrastructure.cluster.x-k8s.io", "devclusters", "DevCluster"),
    "DevMachineTemplate": _kind("infrastructure.cluster.x-k8s.io", "devmachinetemplates", "DevMachineTemplate"),
}


async def record(folder: Path) -> list[Object]:
    """All of specs.yaml, one after the other, on one local management cluster."""
    asked = yaml.safe_load((HERE / "specs.yaml").read_text())
    async with running(folder, "upstream", Options(say=_say)) as cluster:
        return [stored for item in asked if (stored := await _one(cluster, item))]


async def _one(cluster: LocalCluster, asked: Object) -> Object | None:
    """What is stored of one; nothing, and a line that says why, where admission refuses it."""
    demo = DemoCluster(name=asked["name"], phase_seconds=0)
    try:
        await _create(cluster.client, demo, asked)
    except Invalid as error:
        _say(f"{demo.name}: {error}")
        return None
    stored = await _until_made(cluster.client, demo)
    _say(f"{demo.name}: recorded")
    await cluster.client.delete(OTHERS["Cluster"], demo.name, demo.namespace)
    return stored


async def _create(client: Client, demo: DemoCluster, asked: Object) -> None:
    *others, kcp = demo.objects()
    for item in others:
        await client.create(OTHERS[item["kind"]], item, demo.namespace)
    resource = CONTROL_PLANES[asked.get("apiVersion", "/v1beta2").partition("/")[2]]
    kcp["apiVersion"] = resource.api_version
    kcp["spec"]["kubeadmConfigSpec"] = asked["spec"]
    if not asked["spec"]:
        del kcp["spec"]["kubeadmConfigSpec"]
    if resource.version == "v1beta1":
        reference = kcp["spec"].pop("machineTemplate")["spec"]["infrastructureRef"]
        api_version = f"{reference.pop('apiGroup')}/v1beta1"
        kcp["spec"]["machineTemplate"] = {"infrastructureRef": {**reference, "apiVersion": api_version}}
    await client.create(resource, kcp, demo.namespace)


async def _until_made(client: Client, demo: DemoCluster) -> Object:
    """All three Machines with their KubeadmConfigs; fewer where they do not come, as with keys that the in-memory provider cannot read."""
    clock = asyncio.get_running_loop().time
    end = clock() + TIMEOUT
    while True:
        kept = await _kept(client, demo)
        kept["machines"] = [machine for machine in kept["machines"] if machine["config"]]
        if len(kept["machines"]) == demo.replicas or (clock() > end and kept["machines"]):
            return kept
        await asyncio.sleep(LOOK_AGAIN)


async def _kept(client: Client, demo: DemoCluster) -> Object:
    kcp = await client.get(CONTROL_PLANES["v1beta2"], demo.name, demo.namespace)
    selector = f"cluster.x-k8s.io/cluster-name={demo.name}"
    machines = (await client.list(MACHINES, demo.namespace, label_selector=selector)).items
    configs = _by_name((await client.list(CONFIGS, demo.namespace, label_selector=selector)).items)
    infrastructure = _by_name((await client.list(DEV_MACHINES, demo.namespace, label_selector=selector)).items)
    return {
        "name": demo.name,
        "spec": kcp["spec"],
        "machines": [
            {
                "version": machine["spec"]["version"],
                "config": configs.get(machine["metadata"]["name"], {}).get("spec"),
                "cloned_from": _cloned_from(infrastructure.get(machine["metadata"]["name"], {})),
            }
            for machine in sorted(machines, key=lambda machine: machine["metadata"]["creationTimestamp"])
        ],
    }


def _by_name(items: Iterable[Object]) -> dict[str, Object]:
    return {item["metadata"]["name"]: item for item in items}


def _cloned_from(item: Object) -> Object:
    annotations = item.get("metadata", {}).get("annotations", {})
    return {key: value for key, value in annotations.items() if key.startswith("cluster.x-k8s.io/cloned-from")}


def _say(line: str) -> None:
    click.echo(line, err=True)


if __name__ == "__main__":
    found = asyncio.run(record(Path(".local/corpus")))
    (HERE / "recorded.yaml").write_text(
        "# Made by `python -m tests.clusterapi.corpus.record` with Cluster API v1.14.0.\n" + yaml.safe_dump(found, sort_keys=True)
    )
