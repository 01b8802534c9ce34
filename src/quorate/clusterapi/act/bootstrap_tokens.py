"""The bootstrap token of a Machine that joins, made here, where the workload cluster is connected already.

The bootstrap provider takes a token that a KubeadmConfig has, prolongs it for as long as nobody has joined by it, and makes one only where there is none. To
make one it waits for Cluster API's own connection, which looks for a new API server every 30 s: the second Machine of a new control plane need not.
Source: cluster-api, bootstrap/kubeadm/reconcilers/kubeadmconfig, reconcileDiscovery and refreshBootstrapTokenIfNeeded.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from random import Random

import structlog

from quorate.clusterapi.connect.clients import Clients
from quorate.clusterapi.types.cluster import Cluster
from quorate.clusterapi.types.kubeadm_control_plane import KubeadmControlPlane
from quorate.core.health import Unknown
from quorate.kubeadm.bootstrap_token import NAMESPACE, id_of, new_token, secret_name, secret_object, token_of
from quorate.kubeadm.config import brings_discovery
from quorate.kubernetes.client import Client
from quorate.kubernetes.errors import AlreadyExists
from quorate.kubernetes.reflector import TROUBLE
from quorate.kubernetes.resource import SECRETS

LIFE = timedelta(minutes=15)
"""How long a token lives that nobody prolongs: the bootstrap provider's default."""

_log = structlog.get_logger(__name__)


async def make(clients: Clients, kcp: KubeadmControlPlane, cluster: Cluster, machine: str, random: Random, now: datetime) -> str:
    """A token with which the Machine of this name can join; made a second time it is the first one, prolonged.

    "" where the specification says how to join, and where none can be made now: then it is the bootstrap provider's to make one. Raises nothing for that.
    """
    client = clients.workloads.existing(cluster).client
    if isinstance(client, Unknown) or brings_discovery(kcp.spec.kubeadm_config_spec):
        return ""
    description = f"made by quorate to join Machine {kcp.metadata.namespace}/{machine}"
    try:
        return await _made(client, new_token(random.randbytes, id_of(machine)), now + LIFE, description)
    except (*TROUBLE, ValueError) as error:
        _log.warning("no bootstrap token could be made, which leaves it to the bootstrap provider", machine=machine, problem=str(error))
        return ""


async def _made(client: Client, token: str, expires: datetime, description: str) -> str:
    """Make the token valid, or prolong the one that has its id already. Raises what the API answers, and ValueError where that is no token's Secret."""
    body = secret_object(token, expires, description, signing=True)
    try:
        await client.create(SECRETS, body, NAMESPACE)
    except AlreadyExists:
        prolonged = {"data": {"expiration": body["data"]["expiration"]}}
        return token_of((await client.merge_patch(SECRETS, secret_name(token), prolonged, NAMESPACE)).data)
    return token
