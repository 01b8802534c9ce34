"""What follows the specification in place, without a decision: metadata, timeouts and taints of Machines and their companions, and who owns what.

Each is written only when what is wanted has changed since it was written last. None of it touches what runs.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from quorate.clusterapi import creation, desired, initialization, managed_fields, orphans, strays
from quorate.clusterapi.caches import is_ours
from quorate.clusterapi.clients import Clients
from quorate.clusterapi.foreign import ContractMissing
from quorate.clusterapi.machines import holds_hook
from quorate.clusterapi.observation import Observation, ObservedMachine
from quorate.clusterapi.types.cluster import Cluster
from quorate.clusterapi.types.kubeadm_control_plane import KubeadmControlPlane
from quorate.clusterapi.types.machine import Machine
from quorate.clusterapi.types.names import CLUSTER_SECRET_TYPE, FieldManager
from quorate.clusterapi.types.resources import CLUSTERS, KUBEADM_CONFIGS, MACHINES
from quorate.kubeadm.config import etcd_is_managed
from quorate.kubernetes.errors import NotFound
from quorate.kubernetes.objects import ObjectMeta
from quorate.kubernetes.resource import SECRETS, Resource
from quorate.pki import purposes


async def maintain(clients: Clients, observation: Observation) -> None:
    """Bring everything in place up to date. Idempotent; an object that has gone meanwhile is nobody's trouble."""
    kcp, cluster = observation.kcp, observation.cluster
    if cluster is None:
        return
    async with asyncio.TaskGroup() as tasks:
        for observed in observation.machines:
            tasks.create_task(_machine(clients, kcp, cluster, observed))
        tasks.create_task(_own_secrets(clients, kcp, cluster))
        tasks.create_task(_own_template(clients, kcp, cluster))
        tasks.create_task(creation.settle(clients, observation))
        tasks.create_task(initialization.record(clients, observation))
        tasks.create_task(strays.forget_consent(clients, observation))
        tasks.create_task(orphans.remove(clients, kcp, cluster.metadata.name))


async def _machine(clients: Clients, kcp: KubeadmControlPlane, cluster: Cluster, observed: ObservedMachine) -> None:
    if observed.deleting:
        await _timeouts_of_the_leaving(clients, kcp, observed.machine)
        return
    name = cluster.metadata.name
    body = desired.updated_machine(kcp, name, observed.machine)
    if not holds_hook(observed.machine):
        clients.applied.forget(
            observed.machine.metadata.uid
        )  # somebody took the hook away: without it the member would be lost with the Machine
    await _apply(clients, MACHINES, body, observed.machine.metadata.uid, FieldManager.KUBEADM_CONTROL_PLANE)
    if observed.config is not None:
        await _companion(clients, kcp, name, KUBEADM_CONFIGS, observed.config.metadata)
    if observed.infrastructure is not None and observed.machine.spec.infrastructure_ref is not None:
        reference = observed.machine.spec.infrastructure_ref
        resource = await clients.caches.foreign.resource(reference.api_group, reference.kind)
        await _companion(clients, kcp, name, resource, observed.infrastructure.metadata)


async def _companion(clients: Clients, kcp: KubeadmControlPlane, cluster: str, resource: Resource[Any], metadata: ObjectMeta) -> None:
    identity = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": metadata.name}}
    body = desired.companion_metadata(kcp, cluster, identity, metadata.uid)
    await _apply(clients, resource, body, metadata.uid, FieldManager.METADATA)


async def _apply(clients: Clients, resource: Resource[Any], body: desired.Object, uid: str, field_manager: str) -> None:
    if clients.applied.is_current(uid, body):
        return
    name, namespace = body["metadata"]["name"], body["metadata"]["namespace"]
    try:
        await managed_fields.put_right(clients.management, resource, name, namespace, manager=field_manager)
        await clients.management.apply(resource, body, namespace, field_manager=field_manager)
    except NotFound:
        return
    clients.applied.remember(uid, body)


async def _timeouts_of_the_leaving(clients: Clients, kcp: KubeadmControlPlane, machine: Machine) -> None:
    """A Machine that is being deleted still obeys changed time limits: that is how a user gets a stuck drain moving."""
    wanted = {key: value for key, value in msgspec.to_builtins(kcp.spec.machine_template.spec.deletion).items() if value is not None}
    current = msgspec.to_builtins(machine.spec.deletion)
    if wanted.items() <= current.items():
        return
    try:
        await clients.management.merge_patch(
            MACHINES, machine.metadata.name, {"spec": {"deletion": wanted}}, machine.metadata.namespace, field_manager=FieldManager.DEFAULT
        )
    except NotFound:
        return


async def _own_secrets(clients: Clients, kcp: KubeadmControlPlane, cluster: Cluster) -> None:
    """Secrets that Cluster API made are the control plane's; a user's own never are."""
    external = not etcd_is_managed(kcp.spec.kubeadm_config_spec)
    for suffix in (*purposes(external_etcd=external), "kubeconfig"):
        secret = clients.caches.secrets.get(cluster.metadata.namespace, f"{cluster.metadata.name}-{suffix}")
        if secret is None or secret.type != CLUSTER_SECRET_TYPE or is_ours(secret.metadata, kcp):
            continue
        others = [owner for owner in msgspec.to_builtins(secret.metadata.owner_references) if not owner.get("controller")]
        await _set_owners(clients, SECRETS, secret.metadata, [*others, desired.owner_reference(kcp, controller=True)])


async def _own_template(clients: Clients, kcp: KubeadmControlPlane, cluster: Cluster) -> None:
    """The template belongs to the Cluster, so that it moves and goes with it."""
    reference = kcp.spec.machine_template.spec.infrastructure_ref
    if not reference.kind.endswith("Template"):
        return
    try:
        store = await clients.caches.foreign.store(reference.api_group, reference.kind)
    except (ContractMissing, TimeoutError):
        return  # reported as a missing template already
    template = store.get(kcp.metadata.namespace, reference.name)
    if template is None or any(owner.uid == cluster.metadata.uid for owner in template.metadata.owner_references):
        return
    owner = {"apiVersion": CLUSTERS.api_version, "kind": CLUSTERS.kind, "name": cluster.metadata.name, "uid": cluster.metadata.uid}
    resource = await clients.caches.foreign.resource(reference.api_group, reference.kind)
    others = msgspec.to_builtins(template.metadata.owner_references)
    await _set_owners(clients, resource, template.metadata, [*others, owner])


async def _set_owners(clients: Clients, resource: Resource[Any], metadata: ObjectMeta, owners: list[dict[str, Any]]) -> None:
    patch = {"metadata": {"resourceVersion": metadata.resource_version, "ownerReferences": owners}}
    try:
        await clients.management.merge_patch(resource, metadata.name, patch, metadata.namespace, field_manager=FieldManager.DEFAULT)
    except NotFound:
        return
