"""Creates one control-plane Machine, so that after a crash between any two writes a retry completes it and never makes a second set."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from random import Random
from typing import Any

from quorate.clusterapi.act import bootstrap_tokens, permission
from quorate.clusterapi.act.companions import delete_as_read, is_the_control_planes_alone, machine_exists
from quorate.clusterapi.act.control_plane_writes import patch_control_plane
from quorate.clusterapi.act.refusal import Refused
from quorate.clusterapi.connect.clients import Clients
from quorate.clusterapi.connect.foreign import ContractMissing
from quorate.clusterapi.desired import intent
from quorate.clusterapi.desired import objects as desired
from quorate.clusterapi.observe.observation import Observation
from quorate.clusterapi.types.kubeadm_control_plane import KubeadmControlPlane
from quorate.clusterapi.types.names import FieldManager, LegacyReason
from quorate.clusterapi.types.references import ObjectReference
from quorate.clusterapi.types.resources import BOOTSTRAP_GROUP, KUBEADM_CONFIGS, MACHINES
from quorate.kubernetes.controller import Request
from quorate.kubernetes.errors import Conflict, NotFound
from quorate.kubernetes.reflector import TROUBLE
from quorate.kubernetes.resource import Resource


class CreationFailed(Exception):
    """One part of a Machine could not be made; `reason` is what MachinesCreated calls it. Never a Conflict, which asks for another look and no more."""

    def __init__(self, message: str, reason: LegacyReason) -> None:
        super().__init__(message)
        self.reason = reason


@contextmanager
def _failing_as(reason: LegacyReason) -> Iterator[None]:
    try:
        yield
    except Conflict:
        raise
    except (*TROUBLE, ContractMissing) as error:
        raise CreationFailed(str(error) or type(error).__name__, reason) from error


async def create(clients: Clients, observation: Observation, planned: intent.Intent, random: Random, now: datetime) -> None:
    """Record the intent, make infrastructure and KubeadmConfig side by side, then the Machine, then clear the intent. One that joins gets a token before that.

    A Machine that replaces one that failed carries the record of that remediation, which goes from the control plane together with the intent.
    An intent that is recorded already and makes the same as `planned` is carried out instead: it is that creation, begun before a crash. What makes something
    else was decided in another world, perhaps before somebody else founded the cluster: what was made for it goes, and `planned` takes its place. Where the
    Machine of a record exists, nothing but the clearing is left to do: applying it again would change a Machine that runs.
    A token and the companions may take as long as their calls may, 10 s and more, and a creation that goes on has written no record: whether this process may
    still make the Machine, and it is still asked for by this record, is asked of the API right before the Machine is made; and whether it may, before anything
    is begun, so that what cannot be ended is not begun each time.
    Raises CreationFailed for the part that could not be made, Refused where a Machine is there that the cache has yet to see or the Machine is no longer
    asked for, and what the API answers to the rest.
    """
    kcp, cluster = observation.kcp, observation.cluster
    if cluster is None:
        raise ValueError("a Machine needs a Cluster")
    planned = replace(planned, template=_template(kcp))
    recorded, version = intent.read(kcp.metadata.annotations), kcp.metadata.resource_version
    if recorded is not None and (made := clients.caches.machines.get(kcp.metadata.namespace, recorded.name)) is not None:
        await _fulfilled(clients, kcp, version, made.metadata.annotations)
        return
    await permission.still_permitted(clients, observation)
    replaced = None
    if recorded is not None and not intent.makes_the_same(recorded, planned):
        await _clear_away(clients, kcp, recorded)
        recorded, replaced = None, recorded
    if recorded is None:
        recorded = planned
        version = await _record(clients, kcp, recorded)
    token = "" if recorded.initialize else await bootstrap_tokens.make(clients, kcp, cluster, recorded.name, random, now)
    async with asyncio.TaskGroup() as tasks:
        infrastructure = tasks.create_task(_infrastructure(clients, kcp, cluster.metadata.name, recorded.name))
        config = tasks.create_task(_config(clients, kcp, cluster.metadata.name, recorded, token))
    body = desired.new_machine(
        kcp,
        cluster.metadata.name,
        recorded.name,
        failure_domain=recorded.failure_domain,
        config=config.result(),
        infrastructure=infrastructure.result(),
        initialize=recorded.initialize,
    )
    live = await permission.still_asked_for(clients, observation)
    if intent.read(live.kcp.metadata.annotations) != recorded:
        raise Refused(f"the creation of Machine {kcp.metadata.namespace}/{recorded.name} was given up by another process")
    if replaced is not None:
        await _refuse_beside(clients, kcp, replaced)
    permission.still_leads(clients)
    with _failing_as(LegacyReason.MACHINE_GENERATION_FAILED):
        machine = await clients.management.apply(MACHINES, body, kcp.metadata.namespace, field_manager=FieldManager.KUBEADM_CONTROL_PLANE)
    clients.applied.remember(machine.metadata.uid, body)
    request = Request(kcp.metadata.namespace, kcp.metadata.name)
    clients.expectations.expect_version(request, clients.caches.machines, machine.metadata.resource_version)
    await _fulfilled(clients, kcp, version, body["metadata"]["annotations"])


async def abandon(clients: Clients, observation: Observation, name: str) -> None:
    """Delete what was made for a Machine that never came to be, then clear the intent.

    Whether it came to be is asked of the API itself: the answer to its making may have been lost, and the cache may not know it yet. Raises Refused, and
    Conflict where any of it, or the control plane, has changed meanwhile.
    """
    kcp = observation.kcp
    if await machine_exists(clients, kcp.metadata.namespace, name):
        await _record(clients, kcp, None)
        return
    await permission.still_permitted(clients, observation)
    recorded = intent.read(kcp.metadata.annotations) or intent.Intent(name, template=_template(kcp))
    await _delete_infrastructure(clients, kcp, recorded)
    await _delete_own(clients, kcp, KUBEADM_CONFIGS, name)
    await _record(clients, kcp, None)


async def _clear_away(clients: Clients, kcp: KubeadmControlPlane, recorded: intent.Intent) -> None:
    """Delete what was made for a creation that another one takes the place of. Its record stays until the other one's is written over it.

    Raises Refused where its Machine was made after all: it counts as soon as the cache has seen it.
    """
    await _refuse_beside(clients, kcp, recorded)
    await _delete_infrastructure(clients, kcp, recorded)
    await _delete_own(clients, kcp, KUBEADM_CONFIGS, recorded.name)


async def _refuse_beside(clients: Clients, kcp: KubeadmControlPlane, recorded: intent.Intent) -> None:
    """Raise Refused where the Machine of a record that another one takes the place of exists: a process that led before may have been about to make it."""
    if await machine_exists(clients, kcp.metadata.namespace, recorded.name):
        raise Refused(f"Machine {kcp.metadata.namespace}/{recorded.name}, which was begun before, exists: it has yet to be seen")


async def settle(clients: Clients, observation: Observation) -> None:
    """Clear an intent whose Machine exists: a crash came between the two, and once that Machine is gone nobody may inherit its name."""
    kcp = observation.kcp
    recorded = intent.read(kcp.metadata.annotations)
    if recorded is None:
        return
    made = clients.caches.machines.get(kcp.metadata.namespace, recorded.name)
    if made is not None:
        await _fulfilled(clients, kcp, kcp.metadata.resource_version, made.metadata.annotations)


async def _delete_infrastructure(clients: Clients, kcp: KubeadmControlPlane, recorded: intent.Intent) -> None:
    try:
        resource = await clients.caches.foreign.resource(*recorded.infrastructure)
    except ContractMissing:
        return  # nothing of that kind can have been made
    await _delete_own(clients, kcp, resource, recorded.name)


async def _delete_own(clients: Clients, kcp: KubeadmControlPlane, resource: Resource[Any], name: str) -> None:
    """Delete the object if the control plane alone owns it: one of the same name that somebody else made is theirs, and one that a Machine has is in use."""
    try:
        metadata = (await clients.management.get(resource, name, kcp.metadata.namespace)).metadata
    except NotFound:
        return
    if is_the_control_planes_alone(metadata, kcp):
        await delete_as_read(clients, resource, metadata)


def _template(kcp: KubeadmControlPlane) -> str:
    """`Kind.group/name` of the template that infrastructure is made from."""
    reference = kcp.spec.machine_template.spec.infrastructure_ref
    return f"{reference.group_kind}/{reference.name}"


async def _record(clients: Clients, kcp: KubeadmControlPlane, planned: intent.Intent | None) -> str:
    """Write or clear the intent; the control plane's new resourceVersion. Conflict: the control plane has changed; decide again."""
    return await patch_control_plane(clients, kcp, intent.patch(kcp.metadata.resource_version, planned))


async def _fulfilled(clients: Clients, kcp: KubeadmControlPlane, version: str, machine: Mapping[str, str]) -> None:
    """Clear what the Machine, by its annotations, has fulfilled; `version` is the control plane's, as it was read or written last."""
    await patch_control_plane(clients, kcp, intent.fulfilled(version, kcp.metadata.annotations, machine))


async def _infrastructure(clients: Clients, kcp: KubeadmControlPlane, cluster: str, name: str) -> ObjectReference:
    reference = kcp.spec.machine_template.spec.infrastructure_ref
    with _failing_as(LegacyReason.INFRASTRUCTURE_TEMPLATE_CLONING_FAILED):
        templates = await clients.caches.foreign.resource(reference.api_group, reference.kind)
        template = await clients.management.get(templates, reference.name, kcp.metadata.namespace)  # live: what is cloned must be current
        body = desired.infrastructure(kcp, template, name)
        resource = await clients.caches.foreign.resource(reference.api_group, body["kind"])
        await _in_two_parts(clients, kcp, cluster, resource, body)
    return ObjectReference(api_group=reference.api_group, kind=body["kind"], name=name)


async def _config(clients: Clients, kcp: KubeadmControlPlane, cluster: str, planned: intent.Intent, token: str) -> ObjectReference:
    body = desired.config(kcp, planned.name, initialize=planned.initialize, token=token)
    with _failing_as(LegacyReason.BOOTSTRAP_TEMPLATE_CLONING_FAILED):
        await _in_two_parts(clients, kcp, cluster, KUBEADM_CONFIGS, body)
    return ObjectReference(api_group=BOOTSTRAP_GROUP, kind=KUBEADM_CONFIGS.kind, name=planned.name)


async def _in_two_parts(clients: Clients, kcp: KubeadmControlPlane, cluster: str, resource: Resource[Any], body: desired.Object) -> None:
    namespace = kcp.metadata.namespace
    permission.still_leads(clients)  # another one may be making the same by a newer specification
    made = await clients.management.apply(resource, body, namespace, field_manager=FieldManager.KUBEADM_CONTROL_PLANE)
    metadata = desired.companion_metadata(kcp, cluster, body, made.metadata.uid)
    await clients.management.apply(resource, metadata, namespace, field_manager=FieldManager.METADATA)
    clients.applied.remember(made.metadata.uid, metadata)
