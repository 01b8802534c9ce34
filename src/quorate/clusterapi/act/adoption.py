"""Adopts control-plane Machines that have no owner.

A stand-alone Machine, one made with its KubeadmConfig by hand, is adopted with the Secrets that its KubeadmConfig owns; its hook, labels and readiness gates
follow with the maintenance of Machines.
Source: cluster-api, controlplane/kubeadm/reconcilers/kubeadmcontrolplane/kubeadmcontrolplane_controller.go (adoptMachines).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec

from quorate.clusterapi.act.permission import still_permitted
from quorate.clusterapi.act.refusal import Refused
from quorate.clusterapi.connect.caches import BY_CLUSTER, is_ours
from quorate.clusterapi.connect.clients import Clients
from quorate.clusterapi.desired import objects as desired
from quorate.clusterapi.observe.observation import Observation
from quorate.clusterapi.types.cluster import Cluster
from quorate.clusterapi.types.kubeadm_config import KubeadmConfig
from quorate.clusterapi.types.kubeadm_control_plane import KubeadmControlPlane
from quorate.clusterapi.types.machine import Machine
from quorate.clusterapi.types.names import FieldManager
from quorate.clusterapi.types.resources import KUBEADM_CONFIGS, MACHINES
from quorate.kubernetes.controller import Request
from quorate.kubernetes.errors import NotFound
from quorate.kubernetes.objects import ObjectMeta, Secret
from quorate.kubernetes.resource import SECRETS, Resource


async def adopt(clients: Clients, observation: Observation, names: Sequence[str]) -> None:
    """Become the controller of these Machines and of the Secrets that their KubeadmConfigs own. Idempotent; the Machine's owner is written last.

    What the control plane is, its Cluster and its Machines, is asked of the API itself: the garbage collector may have orphaned these Machines because it was
    deleted, or somebody moves all of them to another management cluster. Raises Refused as `still_permitted` does and where a KubeadmConfig is missing, and
    Conflict where a Machine has changed since it was read.
    """
    kcp, cluster = observation.kcp, observation.cluster
    if cluster is None:
        raise ValueError("nothing is adopted without a Cluster")
    await still_permitted(clients, observation)
    async with asyncio.TaskGroup() as tasks:
        for name in names:
            tasks.create_task(_adopt(clients, kcp, cluster, name))


async def _adopt(clients: Clients, kcp: KubeadmControlPlane, cluster: Cluster, name: str) -> None:
    machine = clients.caches.machines.get(kcp.metadata.namespace, name)
    if machine is None or machine.spec.bootstrap.config_ref is None or is_ours(machine.metadata, kcp):
        return
    config = await _config(clients, machine, machine.spec.bootstrap.config_ref.name)
    for secret in _secrets_of(clients, cluster, config, machine):
        others = [owner for owner in msgspec.to_builtins(secret.metadata.owner_references) if owner["uid"] != config.metadata.uid]
        await _own(clients, kcp, SECRETS, secret.metadata, others)
    await _label(clients, kcp, cluster, config)
    written = await _own(clients, kcp, MACHINES, machine.metadata, msgspec.to_builtins(machine.metadata.owner_references))
    request = Request(kcp.metadata.namespace, kcp.metadata.name)
    clients.expectations.expect_version(request, clients.caches.machines, written.metadata.resource_version)


async def _config(clients: Clients, machine: Machine, name: str) -> KubeadmConfig:
    try:
        return await clients.management.get(KUBEADM_CONFIGS, name, machine.metadata.namespace)
    except NotFound:
        raise Refused(
            f"Machine {machine.metadata.name} cannot be adopted: its KubeadmConfig {machine.metadata.namespace}/{name} does not exist"
        ) from None


def _secrets_of(clients: Clients, cluster: Cluster, config: KubeadmConfig, machine: Machine) -> list[Secret]:
    """The Secrets that the KubeadmConfig owns, but for the one with the Machine's bootstrap data, which stays its own."""
    secrets = clients.caches.secrets.by_index(BY_CLUSTER, f"{cluster.metadata.namespace}/{cluster.metadata.name}")
    return [
        secret
        for secret in secrets
        if secret.metadata.name != machine.spec.bootstrap.data_secret_name
        and any(owner.uid == config.metadata.uid for owner in secret.metadata.owner_references)
    ]


async def _label(clients: Clients, kcp: KubeadmControlPlane, cluster: Cluster, config: KubeadmConfig) -> None:
    """Give the KubeadmConfig the labels by which it is found from now on."""
    identity = {"apiVersion": KUBEADM_CONFIGS.api_version, "kind": KUBEADM_CONFIGS.kind, "metadata": {"name": config.metadata.name}}
    body = desired.companion_metadata(kcp, cluster.metadata.name, identity, config.metadata.uid)
    await clients.management.apply(KUBEADM_CONFIGS, body, kcp.metadata.namespace, field_manager=FieldManager.METADATA)


async def _own(
    clients: Clients, kcp: KubeadmControlPlane, resource: Resource[Any], metadata: ObjectMeta, others: list[dict[str, Any]]
) -> Any:
    owners = [*others, desired.owner_reference(kcp, controller=True)]
    patch = {"metadata": {"resourceVersion": metadata.resource_version, "uid": metadata.uid, "ownerReferences": owners}}
    return await clients.management.merge_patch(resource, metadata.name, patch, metadata.namespace, field_manager=FieldManager.DEFAULT)
