"""The companions of a Machine (KubeadmConfig and infrastructure machine) once it is gone or was never created: whose they are, and their deletion.

Cluster API's Machine controller makes the Machine an owner of both once it has seen it, and deletes them with it. Until then the control plane is the only one.
"""

from __future__ import annotations

from typing import Any

from quorate.clusterapi.act.permission import still_leads
from quorate.clusterapi.connect.clients import Clients
from quorate.clusterapi.types.kubeadm_control_plane import KubeadmControlPlane
from quorate.clusterapi.types.resources import MACHINES
from quorate.kubernetes.errors import NotFound
from quorate.kubernetes.objects import ObjectMeta
from quorate.kubernetes.resource import Resource


async def machine_exists(clients: Clients, namespace: str, name: str) -> bool:
    """Whether there is a Machine of this name, by the API itself: the cache may be behind."""
    try:
        await clients.management.get(MACHINES, name, namespace)
    except NotFound:
        return False
    return True


def is_the_control_planes_alone(metadata: ObjectMeta, kcp: KubeadmControlPlane) -> bool:
    """Whether the control plane owns an object, and nobody beside it."""
    return {owner.uid for owner in metadata.owner_references} == {kcp.metadata.uid}


async def delete_as_read(clients: Clients, resource: Resource[Any], metadata: ObjectMeta) -> None:
    """Delete an object that still is as it was read. One that is gone is what was wanted.

    Raises Conflict where it has changed, and Refused where this process may lead no more: another one may have made the Machine by now.
    """
    still_leads(clients)
    try:
        await clients.management.delete(
            resource, metadata.name, metadata.namespace, uid=metadata.uid, resource_version=metadata.resource_version
        )
    except NotFound:
        return
