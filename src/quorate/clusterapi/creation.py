"""Making one control-plane Machine, so that a crash between any two writes leaves something that a repeat completes, and never a second set."""

from __future__ import annotations

import asyncio
from typing import Any

from quorate.clusterapi import desired, intent
from quorate.clusterapi.clients import Clients
from quorate.clusterapi.observation import Observation
from quorate.clusterapi.types.kubeadm_control_plane import KubeadmControlPlane
from quorate.clusterapi.types.names import FieldManager
from quorate.clusterapi.types.references import ObjectReference
from quorate.clusterapi.types.resources import BOOTSTRAP_GROUP, KUBEADM_CONFIGS, KUBEADM_CONTROL_PLANES, MACHINES
from quorate.kubernetes.controller import Request
from quorate.kubernetes.errors import NotFound
from quorate.kubernetes.resource import Resource


async def create(clients: Clients, observation: Observation, planned: intent.Intent) -> None:
    """Record the intent, make infrastructure and KubeadmConfig side by side, then the Machine, then clear the intent.

    An intent that is recorded already is carried out instead of `planned`: it is the same creation, begun before a crash. Where its Machine exists,
    nothing but the clearing is left to do: applying it again would change a Machine that runs.
    """
    kcp, cluster = observation.kcp, observation.cluster
    if cluster is None:
        raise ValueError("a Machine needs a Cluster")
    recorded = intent.read(kcp.metadata.annotations)
    if recorded is None:
        recorded = planned
        await _record(clients, kcp, planned)
    elif clients.caches.machines.get(kcp.metadata.namespace, recorded.name) is not None:
        await _record(clients, kcp, None)
        return
    async with asyncio.TaskGroup() as tasks:
        infrastructure = tasks.create_task(_infrastructure(clients, kcp, cluster.metadata.name, recorded.name))
        config = tasks.create_task(_config(clients, kcp, cluster.metadata.name, recorded))
    body = desired.new_machine(
        kcp,
        cluster.metadata.name,
        recorded.name,
        failure_domain=recorded.failure_domain,
        config=config.result(),
        infrastructure=infrastructure.result(),
    )
    machine = await clients.management.apply(MACHINES, body, kcp.metadata.namespace, field_manager=FieldManager.KUBEADM_CONTROL_PLANE)
    clients.applied.remember(machine.metadata.uid, body)
    request = Request(kcp.metadata.namespace, kcp.metadata.name)
    clients.expectations.expect_version(request, clients.caches.machines, machine.metadata.resource_version)
    await _record(clients, kcp, None)


async def abandon(clients: Clients, observation: Observation, name: str) -> None:
    """Delete what was made for a Machine that never came to be, then clear the intent.

    Whether it came to be is asked of the API itself: the answer to its making may have been lost, and the cache may not know it yet.
    """
    kcp = observation.kcp
    if await _exists(clients, kcp.metadata.namespace, name):
        await _record(clients, kcp, None)
        return
    reference = kcp.spec.machine_template.spec.infrastructure_ref
    infrastructure = await clients.caches.foreign.resource(reference.api_group, reference.kind.removesuffix("Template"))
    resources: tuple[Resource[Any], ...] = (infrastructure, KUBEADM_CONFIGS)
    for resource in resources:
        try:
            await clients.management.delete(resource, name, kcp.metadata.namespace)
        except NotFound:
            continue
    await _record(clients, kcp, None)


async def settle(clients: Clients, observation: Observation) -> None:
    """Clear an intent whose Machine exists: a crash came between the two, and once that Machine is gone nobody may inherit its name."""
    recorded = intent.read(observation.kcp.metadata.annotations)
    if recorded is not None and any(machine.name == recorded.name for machine in observation.machines):
        await _record(clients, observation.kcp, None)


async def _exists(clients: Clients, namespace: str, name: str) -> bool:
    try:
        await clients.management.get(MACHINES, name, namespace)
    except NotFound:
        return False
    return True


async def _record(clients: Clients, kcp: KubeadmControlPlane, planned: intent.Intent | None) -> None:
    """Write or clear the intent, and have the next decision wait until the cache shows it. Conflict: the control plane has changed; decide again."""
    written = await clients.management.merge_patch(
        KUBEADM_CONTROL_PLANES,
        kcp.metadata.name,
        intent.patch(kcp.metadata.resource_version, planned),
        kcp.metadata.namespace,
        field_manager=FieldManager.DEFAULT,
    )
    request = Request(kcp.metadata.namespace, kcp.metadata.name)
    clients.expectations.expect_version(request, clients.caches.kcps, written.metadata.resource_version)


async def _infrastructure(clients: Clients, kcp: KubeadmControlPlane, cluster: str, name: str) -> ObjectReference:
    reference = kcp.spec.machine_template.spec.infrastructure_ref
    templates = await clients.caches.foreign.resource(reference.api_group, reference.kind)
    template = await clients.management.get(templates, reference.name, kcp.metadata.namespace)  # live: what is cloned must be current
    body = desired.infrastructure(kcp, template, name)
    resource = await clients.caches.foreign.resource(reference.api_group, body["kind"])
    await _in_two_parts(clients, kcp, cluster, resource, body)
    return ObjectReference(api_group=reference.api_group, kind=body["kind"], name=name)


async def _config(clients: Clients, kcp: KubeadmControlPlane, cluster: str, planned: intent.Intent) -> ObjectReference:
    body = desired.config(kcp, planned.name, initialize=planned.initialize)
    await _in_two_parts(clients, kcp, cluster, KUBEADM_CONFIGS, body)
    return ObjectReference(api_group=BOOTSTRAP_GROUP, kind=KUBEADM_CONFIGS.kind, name=planned.name)


async def _in_two_parts(clients: Clients, kcp: KubeadmControlPlane, cluster: str, resource: Resource[Any], body: desired.Object) -> None:
    namespace = kcp.metadata.namespace
    made = await clients.management.apply(resource, body, namespace, field_manager=FieldManager.KUBEADM_CONTROL_PLANE)
    metadata = desired.companion_metadata(kcp, cluster, body, made.metadata.uid)
    await clients.management.apply(resource, metadata, namespace, field_manager=FieldManager.METADATA)
    clients.applied.remember(made.metadata.uid, metadata)
