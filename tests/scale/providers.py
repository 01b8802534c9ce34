"""What stands beside the control-plane provider in a measurement: Cluster API's core, a bootstrap and an infrastructure provider, as far as it waits for them.

They act on the real management cluster, and their hosts are those of simulated workload clusters.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from datetime import UTC, datetime
from random import Random
from typing import Any

from quorate.clusterapi.types.kubeadm_config import KubeadmConfig
from quorate.clusterapi.types.machine import Machine
from quorate.clusterapi.types.names import Hook
from quorate.clusterapi.types.resources import CLUSTERS, KUBEADM_CONFIGS, MACHINES
from quorate.kubernetes.client import Client
from quorate.kubernetes.errors import Conflict, NotFound
from quorate.kubernetes.reflector import Reflector
from quorate.kubernetes.resource import Resource
from quorate.kubernetes.store import Store
from quorate.simulation.engine.apiserver import Change
from quorate.simulation.engine.objects import NODES
from tests.scale.workloads import Workload, Workloads

Json = dict[str, Any]

NAMESPACE = "default"
DEV_MACHINES: Resource[Json] = Resource("infrastructure.cluster.x-k8s.io", "v1beta2", "devmachines", "DevMachine", dict, namespaced=True)
_WORKERS = 16
_FINALIZER = "machine.cluster.x-k8s.io"


class Providers:
    """Brings Machines up and takes them away. `told` hears of every change of a Machine."""

    def __init__(self, client: Client, workloads: Workloads) -> None:
        self._client, self._workloads = client, workloads
        self._queue: asyncio.Queue[str] = asyncio.Queue()
        self._queued: set[str] = set()
        self.told: list[Callable[[Machine], None]] = []
        self.machines: Store[Machine] = Store()
        self._reflector = Reflector(client, MACHINES, self.machines, random=Random(0), namespace=NAMESPACE, handlers=(self,))
        for workload in workloads.by_name.values():
            workload.cluster.server.subscribe(self._node_changed)

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._reflector.run())
            for _ in range(_WORKERS):
                tasks.create_task(self._work())

    def on_add(self, obj: Machine, *, initial: bool) -> None:  # noqa: ARG002 (Handler's signature)
        """See Handler."""
        self._poke(obj.metadata.name)

    def on_update(self, old: Machine, new: Machine) -> None:  # noqa: ARG002 (Handler's signature)
        """See Handler."""
        self._poke(new.metadata.name)
        for tell in self.told:
            tell(new)

    def on_delete(self, obj: Machine, *, final_state_unknown: bool) -> None:
        """See Handler."""

    def _node_changed(self, change: Change) -> None:
        if change.kind is NODES and change.before is not change.after:
            self._poke(change.object.name)

    def _poke(self, name: str) -> None:
        if name not in self._queued:
            self._queued.add(name)
            self._queue.put_nowait(name)

    async def _work(self) -> None:
        while True:
            name = await self._queue.get()
            self._queued.discard(name)
            machine = self.machines.get(NAMESPACE, name)
            if machine is None:
                continue
            try:
                await self._reconcile(machine, self._workloads.by_name[machine.spec.cluster_name])
            except (NotFound, Conflict):
                self._poke(name)
                await asyncio.sleep(0.05)

    async def _reconcile(self, machine: Machine, workload: Workload) -> None:
        if machine.metadata.deletion_timestamp is not None:
            await self._let_go(machine, workload)
        elif not machine.spec.provider_id:
            await self._provision(machine, workload)
        elif not machine.status.node_ref:
            await self._report(machine, workload)

    async def _provision(self, machine: Machine, workload: Workload) -> None:
        name = machine.metadata.name
        config: KubeadmConfig = await self._client.get(KUBEADM_CONFIGS, name, NAMESPACE)
        founds = "controlPlane" not in (config.spec.get("joinConfiguration") or {})
        owner = {"apiVersion": MACHINES.api_version, "kind": "Machine", "name": name, "uid": machine.metadata.uid, "controller": True}
        owned = {"metadata": {"ownerReferences": [owner]}}
        given = {"status": {"initialization": {"dataSecretCreated": True}, "dataSecretName": name}}
        host = workload.cluster.hosts.get(name) or workload.boot(name, machine.spec.version or "", init=founds)
        await self._client.merge_patch(KUBEADM_CONFIGS, name, owned, NAMESPACE)
        await self._client.merge_patch(KUBEADM_CONFIGS, name, given, NAMESPACE, subresource="status")
        await self._client.merge_patch(DEV_MACHINES, name, owned | {"spec": {"providerID": host.provider_id}}, NAMESPACE)
        spec = {"providerID": host.provider_id, "bootstrap": {"dataSecretName": name}}
        await self._client.merge_patch(MACHINES, name, {"metadata": {"finalizers": [_FINALIZER]}, "spec": spec}, NAMESPACE)

    async def _report(self, machine: Machine, workload: Workload) -> None:
        node = workload.cluster.server.find(NODES, "", machine.metadata.name)
        if node is None:
            return
        conditions = [_condition(kind, kind) for kind in ("Ready", "Available", "NodeHealthy")] + [
            _condition("Deleting", "NotDeleting", "False")
        ]
        address = workload.cluster.hosts[machine.metadata.name].address
        status = {
            "nodeRef": {"name": node.name},
            "nodeInfo": _node_info(machine.spec.version or ""),
            "addresses": [{"type": "InternalIP", "address": address}],
            "conditions": conditions,
            "phase": "Running",
        }
        await self._client.merge_patch(MACHINES, machine.metadata.name, {"status": status}, NAMESPACE, subresource="status")
        initialized = {"status": {"initialization": {"infrastructureProvisioned": True, "controlPlaneInitialized": True}}}
        await self._client.merge_patch(CLUSTERS, workload.name, initialized, NAMESPACE, subresource="status")

    async def _let_go(self, machine: Machine, workload: Workload) -> None:
        name = machine.metadata.name
        if Hook.PRE_TERMINATE in machine.metadata.annotations:
            if any(condition.type == "Deleting" and condition.status == "True" for condition in machine.status.conditions):
                return
            waits = [
                _condition("Deleting", "WaitingForPreTerminateHook"),
                *(_condition(kind, "Deleting", "False") for kind in ("Ready", "Available")),
            ]
            await self._client.merge_patch(MACHINES, name, {"status": {"conditions": waits}}, NAMESPACE, subresource="status")
            return
        workload.destroy(name)
        companions: tuple[Resource[Any], ...] = (DEV_MACHINES, KUBEADM_CONFIGS)
        for companion in companions:
            with contextlib.suppress(NotFound):
                await self._client.delete(companion, name, NAMESPACE)
        await self._client.merge_patch(MACHINES, name, {"metadata": {"finalizers": []}}, NAMESPACE)


def _condition(kind: str, reason: str, status: str = "True") -> Json:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {"type": kind, "status": status, "reason": reason, "message": "", "lastTransitionTime": now}


def _node_info(version: str) -> Json:
    fields = (
        "architecture",
        "bootID",
        "containerRuntimeVersion",
        "kernelVersion",
        "kubeProxyVersion",
        "machineID",
        "operatingSystem",
        "osImage",
        "systemUUID",
    )
    return {**dict.fromkeys(fields, "x"), "kubeletVersion": version}
