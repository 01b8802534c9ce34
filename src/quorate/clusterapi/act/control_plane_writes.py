"""The writes to the KubeadmControlPlane itself, apart from its status: merge patches of annotations and of our finalizer, which the next decision waits for."""

from __future__ import annotations

from typing import Any

from quorate.clusterapi.act.permission import still_leads
from quorate.clusterapi.connect.clients import Clients
from quorate.clusterapi.types.kubeadm_control_plane import KubeadmControlPlane
from quorate.clusterapi.types.names import FieldManager, Finalizer
from quorate.clusterapi.types.resources import KUBEADM_CONTROL_PLANES
from quorate.kubernetes.controller import Request
from quorate.kubernetes.errors import NotFound


async def patch_control_plane(clients: Clients, kcp: KubeadmControlPlane, patch: dict[str, Any]) -> str:
    """Merge `patch` into the control plane, have the next decision wait until the cache shows it, and tell its new resourceVersion.

    Raises Conflict where the patch names a resourceVersion that is no longer the newest, or another control plane has its name: decide again. Raises Refused
    where this process may lead no more.
    """
    version = await _patch(clients, kcp, patch)
    clients.expectations.expect_version(Request(kcp.metadata.namespace, kcp.metadata.name), clients.caches.kcps, version)
    return version


async def add_finalizer(clients: Clients, kcp: KubeadmControlPlane) -> None:
    """Put our finalizer on the control plane. One that is gone needs none. Raises Conflict."""
    try:
        await patch_control_plane(clients, kcp, _finalizers(kcp, present=True))
    except NotFound:
        return


async def remove_finalizer(clients: Clients, kcp: KubeadmControlPlane) -> None:
    """Take our finalizer off the control plane, which then goes. One that is gone is what was wanted. Raises Conflict."""
    try:
        await _patch(clients, kcp, _finalizers(kcp, present=False))
    except NotFound:
        return


def _finalizers(kcp: KubeadmControlPlane, *, present: bool) -> dict[str, Any]:
    """The whole list: a merge patch cannot add to one, and the resourceVersion keeps what others put there meanwhile."""
    kept = [finalizer for finalizer in kcp.metadata.finalizers if finalizer != Finalizer.KUBEADM_CONTROL_PLANE]
    kept += [Finalizer.KUBEADM_CONTROL_PLANE] if present else []
    return {"metadata": {"resourceVersion": kcp.metadata.resource_version, "finalizers": kept}}


async def _patch(clients: Clients, kcp: KubeadmControlPlane, patch: dict[str, Any]) -> str:
    metadata = kcp.metadata
    still_leads(clients)
    of_this_one = patch | {"metadata": {"uid": metadata.uid, **patch["metadata"]}}
    written = await clients.management.merge_patch(
        KUBEADM_CONTROL_PLANES, metadata.name, of_this_one, metadata.namespace, field_manager=FieldManager.DEFAULT
    )
    return str(written.metadata.resource_version)
