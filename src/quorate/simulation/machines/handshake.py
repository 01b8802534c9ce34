"""The TLS handshake with one machine's API server, as far as it shows when the server's certificate expires."""

from __future__ import annotations

import asyncio
from datetime import datetime

from quorate.kubernetes.errors import ConnectionFailed
from quorate.simulation.engine.link import Link
from quorate.simulation.machines.workload_cluster import WorkloadCluster
from quorate.workload.static_pods import Component
from quorate.workload.updates import CannotUpdate

_DIAL = 10.0  # seconds until a host that does not answer is given up


async def shown_expiry(cluster: WorkloadCluster, link: Link, node: str) -> datetime:
    """See quorate.workload.api_server_certificate.expiry_through_port_forward. The cluster remembers what was shown."""
    await asyncio.sleep(link.delay())
    if link.cut:
        await asyncio.sleep(_DIAL)
        raise CannotUpdate(f"the API server on {node} could not be asked for its certificate: no way to the cluster")
    try:
        cluster.backend()
    except ConnectionFailed as error:
        raise CannotUpdate(str(error)) from error
    host = cluster.hosts.get(node)
    if host is None or not cluster.is_reached(host) or not cluster.has_pod(Component.API_SERVER, node):
        await asyncio.sleep(_DIAL)
        raise CannotUpdate(f"the API server on {node} could not be asked for its certificate: the node does not answer")
    expires = host.certificate_expires
    if expires is None or not host.runs(Component.API_SERVER):
        raise CannotUpdate(f"the API server on {node} could not be asked for its certificate: connection refused")
    cluster.shown_expiries.setdefault(node, set()).add(expires)
    await asyncio.sleep(link.delay())
    return expires
