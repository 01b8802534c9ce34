"""Whether this process may still write what nobody can take back, proven at the instant of writing: it leads, and nobody has paused what it writes to.

What was decided rests on caches, and reading a ring or making a bootstrap token may take 10 s: meanwhile somebody may have paused the Cluster to move it to
another management cluster, or this process may have been stopped for so long that another one leads.
"""

from __future__ import annotations

import asyncio
from typing import TypeVar

from quorate.clusterapi import specification
from quorate.clusterapi.clients import Clients
from quorate.clusterapi.observation import Observation
from quorate.clusterapi.refusal import Refused
from quorate.clusterapi.types.cluster import Cluster
from quorate.clusterapi.types.kubeadm_control_plane import KubeadmControlPlane
from quorate.clusterapi.types.resources import CLUSTERS, KUBEADM_CONTROL_PLANES
from quorate.kubernetes.errors import NotFound
from quorate.kubernetes.resource import Resource

T = TypeVar("T", KubeadmControlPlane, Cluster)


def still_leads(clients: Clients) -> None:
    """Make sure that no other process can have begun to act. Asks nobody, so that it stands right before a write. Raises Refused."""
    if not clients.leads():
        raise Refused("this process may lead no more: it could not confirm its Lease for too long")


async def still_permitted(clients: Clients, observation: Observation) -> KubeadmControlPlane:
    """The control plane as the API itself has it now, if neither it nor its Cluster is gone, another, or paused, and it is the one that the
    Cluster names if it is to live. Raises Refused, and what the API answered.

    `clusterctl move` pauses the Cluster, which the cache may learn of too late. Both are read at once: this stands before every write that destroys.
    """
    kcp, cluster = observation.kcp, observation.cluster
    if cluster is None:
        raise ValueError("there is no Cluster, so there is nothing to be permitted")
    try:
        async with asyncio.TaskGroup() as reads:
            newest_kcp = reads.create_task(_newest(clients, KUBEADM_CONTROL_PLANES, kcp))
            newest_cluster = reads.create_task(_newest(clients, CLUSTERS, cluster))
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None
    if paused := specification.paused(newest_kcp.result(), newest_cluster.result()):
        raise Refused(f"{_name(kcp)} was paused after this was decided, by {paused}")
    is_to_live = newest_kcp.result().metadata.deletion_timestamp is None
    if is_to_live and (why := specification.not_the_clusters(newest_kcp.result(), newest_cluster.result(), _claimants(clients, cluster))):
        raise Refused(f"{_name(kcp)} is not the one that its Cluster names any more: {why}")
    still_leads(clients)
    return newest_kcp.result()


def _claimants(clients: Clients, cluster: Cluster) -> list[KubeadmControlPlane]:
    """The control planes that have the Cluster as their owner, as the caches know them."""
    return clients.caches.control_planes_of(f"{cluster.metadata.namespace}/{cluster.metadata.name}")


async def still_asked_for(clients: Clients, observation: Observation) -> KubeadmControlPlane:
    """`still_permitted`, and the control plane asks for what it was judged by. Returns and raises as that does.

    A watch of Machines may be ahead of that of control planes by minutes, after an outage for one: Machines of the newest specification then look outdated, and
    to delete them would be to undo what somebody else has just done. And a Machine that is being made may by then be one more than anybody wants.
    """
    newest = await still_permitted(clients, observation)
    if newest.metadata.generation != observation.kcp.metadata.generation:
        raise Refused(f"{_name(newest)} was changed after this was decided")
    return newest


async def _newest(clients: Clients, resource: Resource[T], seen: T) -> T:
    """The object as the API has it now, if it is the one that was seen. Raises Refused."""
    try:
        newest = await clients.management.get(resource, seen.metadata.name, seen.metadata.namespace)
    except NotFound:
        raise Refused(f"{_name(seen)} is gone") from None
    if newest.metadata.uid != seen.metadata.uid:
        raise Refused(f"{_name(seen)} is another one than this was decided for")
    return newest


def _name(of: KubeadmControlPlane | Cluster) -> str:
    kind = "Cluster" if isinstance(of, Cluster) else "KubeadmControlPlane"
    return f"{kind} {of.metadata.namespace}/{of.metadata.name}"
