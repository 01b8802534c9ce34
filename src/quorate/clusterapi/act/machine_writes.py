"""The writes to one Machine that remove it from the control plane: its deletion, if it is as it was decided on, and the removal of our hook."""

from __future__ import annotations

from quorate.clusterapi.act.permission import still_asked_for, still_leads
from quorate.clusterapi.connect.clients import Clients
from quorate.clusterapi.observe.observation import Observation
from quorate.clusterapi.types.machine import Machine
from quorate.clusterapi.types.names import FieldManager, Hook
from quorate.clusterapi.types.resources import MACHINES
from quorate.kubernetes.controller import Request
from quorate.kubernetes.errors import NotFound


def machine_of(observation: Observation, replica: str) -> Machine:
    """The Machine of a replica that was observed."""
    return next(machine.machine for machine in observation.machines if machine.name == replica)


async def delete_as_judged(clients: Clients, observation: Observation, replica: str) -> None:
    """Delete the Machine of a replica as it was judged, if that is asked for still, and beside nobody who was not leaving then.

    The ring may have taken 10 s to be asked once more, and leadership 3 s to move. Raises Conflict where the Machine has changed since, and Refused where
    something was paused, the specification changed, another began to leave, or one that would stay is gone.
    """
    await still_asked_for(clients, observation)
    machine = machine_of(observation, replica)
    await delete_machine(clients, observation, machine, resource_version=machine.metadata.resource_version)


async def delete_machine(clients: Clients, observation: Observation, machine: Machine, *, resource_version: str = "") -> None:
    """Delete a Machine, by uid, and only as it was read where `resource_version` is given. One that is gone is what was wanted.

    Raises Conflict, and Refused where this process may lead no more.
    """
    metadata = machine.metadata
    still_leads(clients)
    try:
        deleted = await clients.management.delete(
            MACHINES, metadata.name, metadata.namespace, uid=metadata.uid, resource_version=resource_version
        )
    except NotFound:
        return
    version = deleted.metadata.resource_version if deleted else ""
    request = Request(metadata.namespace, observation.kcp.metadata.name)
    clients.expectations.expect_deleted(request, clients.caches.machines, machine, resource_version=version)


async def release_hook(clients: Clients, observation: Observation, machine: Machine) -> str:
    """Take our hook off a Machine as it was read, so that its deletion goes on; its new resourceVersion, "" where it is gone. Idempotent.

    Raises Conflict where it has changed since: it may be somebody else's. And Refused where this process may lead no more.
    """
    still_leads(clients)
    metadata = machine.metadata
    patch = {"metadata": {"uid": metadata.uid, "resourceVersion": metadata.resource_version, "annotations": {Hook.PRE_TERMINATE: None}}}
    try:
        written = await clients.management.merge_patch(
            MACHINES, metadata.name, patch, metadata.namespace, field_manager=FieldManager.DEFAULT
        )
    except NotFound:
        return ""
    version = str(written.metadata.resource_version)
    request = Request(metadata.namespace, observation.kcp.metadata.name)
    clients.expectations.expect_version(request, clients.caches.machines, version)
    return version
