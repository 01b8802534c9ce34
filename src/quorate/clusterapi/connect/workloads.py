"""The connections to all workload clusters: one for each Cluster that has a control plane of ours, kept for as long as it has."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import partial
from random import Random
from urllib.parse import urlsplit

import structlog
from aiohttp import BaseConnector

from quorate.clusterapi.connect.caches import Caches
from quorate.clusterapi.types.cluster import Cluster
from quorate.clusterapi.types.names import Secret as SecretSuffix
from quorate.etcd.dialers import InMemoryDialer
from quorate.etcd.pool import LIMIT, Pool
from quorate.kubernetes.client import USER_AGENT, Client, connect
from quorate.kubernetes.config import RestConfig
from quorate.kubernetes.errors import ApiError, ConnectionFailed, NotFound
from quorate.kubernetes.lookups import Lookups
from quorate.kubernetes.objects import Secret
from quorate.kubernetes.resource import SECRETS
from quorate.kubernetes.share import Share
from quorate.kubernetes.tasks import lasting
from quorate.kubernetes.transport import tcp_connector
from quorate.pki import KeyPair, PkiError
from quorate.workload.access import AccessUnavailable, EtcdClientKey, EtcdSecrets, port_forward_dialer
from quorate.workload.api_server_certificate import certificate_expiry, expiry_through_port_forward
from quorate.workload.connection import Setup, Workload

_LARGEST = 32 << 20
"""Bytes that one workload cluster's answer, or list, may have: control-plane Nodes, their static Pods and single objects are read, of 1.5 MiB at most, and no
tenant's API server may fill the memory that it shares with all others.
"""
_LARGEST_OBJECT = 2 << 20
"""Bytes of an answer about one object: etcd takes 1.5 MiB, and those that are asked for (a Node, kubeadm's and CoreDNS' ConfigMaps) have 50 KiB."""
_MOST_VALUES = 100_000
"""Values in such an answer: Nodes and Pods have a hundred or two each. Two million Nodes in 32 MiB would take 25 s, in which nobody else is worked for."""
_MOST_OBJECTS = 5000
"""Objects of a list: of control-plane Nodes and their static Pods fewer are kept, and CoreDNS has a handful of Pods."""

_MORE_ROOM = "raise the hard limit of open files (nofile), or have several managers, each with a --watch-filter of its own"

_log = structlog.get_logger(__name__)


class EtcdDialer(StrEnum):
    """The way to etcd: through the API server to the static Pod, or to the in-memory provider's one endpoint."""

    PORT_FORWARD = "port-forward"
    IN_MEMORY = "in-memory"


class ClusterSecrets:
    """A cluster's Secrets from the cache; one that the cache does not select, because a user made it without our label, is read live."""

    def __init__(self, caches: Caches, client: Client, namespace: str, cluster: str) -> None:
        self._caches, self._client, self._namespace, self._cluster = caches, client, namespace, cluster

    async def find(self, suffix: str) -> Secret | None:
        """The Secret of this purpose, or None where there is none."""
        name = f"{self._cluster}-{suffix}"
        cached = self._caches.secrets.get(self._namespace, name)
        if cached is not None:
            return cached
        try:
            return await self._client.get(SECRETS, name, self._namespace)
        except NotFound:
            return None

    async def kubeconfig(self) -> bytes:
        """The admin kubeconfig. Raises AccessUnavailable."""
        secret = await self._required(SecretSuffix.KUBECONFIG)
        if "value" not in secret.data:
            raise AccessUnavailable(f"Secret {self._namespace}/{secret.metadata.name} has no key `value`: write the kubeconfig there")
        return secret.data["value"]

    async def etcd(self) -> EtcdSecrets:
        """etcd's CA and, where that has no key, the API server's client pair. Raises AccessUnavailable."""
        ca = self._pair(await self._required(SecretSuffix.ETCD_CA))
        if ca.key:
            return EtcdSecrets(ca)
        return EtcdSecrets(ca, self._pair(await self._required(SecretSuffix.API_SERVER_ETCD_CLIENT)))

    async def _required(self, suffix: str) -> Secret:
        name = f"{self._namespace}/{self._cluster}-{suffix}"
        try:
            secret = await self.find(suffix)
        except (ApiError, ConnectionFailed) as error:
            raise AccessUnavailable(f"Secret {name} could not be read: {error}") from error
        if secret is None:
            raise AccessUnavailable(f"there is no Secret {name}")
        return secret

    def _pair(self, secret: Secret) -> KeyPair:
        try:
            return KeyPair.from_secret_data(secret.data)
        except PkiError as error:
            raise AccessUnavailable(f"Secret {self._namespace}/{secret.metadata.name}: {error}") from error


@dataclass(slots=True)
class _Connection:
    uid: str  # the Cluster's
    workload: Workload[Client]
    task: asyncio.Task[None] | None = None


class Workloads:
    """Workload connections by Cluster, from `begin` to `end_unclaimed`. A Cluster that was made anew under the name of another one has its own."""

    def __init__(self, caches: Caches, client: Client, setup: Setup[Client]) -> None:
        self._caches, self._client, self._setup = caches, client, setup
        self._connections: dict[str, _Connection] = {}  # by `namespace/name` of the Cluster
        self._to_start: asyncio.Queue[str] = asyncio.Queue()

    async def run(self) -> None:
        """Keep the connections until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._setup.pool.run())
                while True:
                    key = await self._to_start.get()
                    connection = self._connections.get(key)
                    if connection is not None and connection.task is None:  # forgotten and asked for again, it was queued twice
                        connection.task = tasks.create_task(
                            lasting(f"the connection to {key}", connection.workload.run()), name=f"workload {key}"
                        )
        finally:
            await self._setup.pool.aclose()

    def begin(self, cluster: Cluster, on_change: Callable[[], None]) -> Workload[Client]:
        """Begin the connection to a cluster, if it has not begun yet, and end that to its namesake. `on_change` is told of every change in the cluster."""
        metadata = cluster.metadata
        key = _key(cluster)
        if key in self._connections and self._connections[key].uid != metadata.uid:
            self._end(key)
        if key not in self._connections:
            secrets = self.secrets(metadata.namespace, metadata.name)
            self._connections[key] = _Connection(metadata.uid, Workload(key, secrets, self._setup, on_change))
            self._to_start.put_nowait(key)
            self._warn_of_little_room()
        return self._connections[key].workload

    def existing(self, cluster: Cluster) -> Workload[Client]:
        """The connection that `begin` has given before. Raises KeyError where it has not, or where it was ended."""
        connection = self._connections[_key(cluster)]
        if connection.uid != cluster.metadata.uid:
            raise KeyError(_key(cluster))
        return connection.workload

    def secrets(self, namespace: str, cluster: str) -> ClusterSecrets:
        """The cluster's Secrets."""
        return ClusterSecrets(self._caches, self._client, namespace, cluster)

    def end_unclaimed(self) -> list[str]:
        """End the connections to Clusters that are gone, or that no control plane has as its owner any more, and return their `namespace/name`. Idempotent.

        Whatever became of a control plane, its last pass among it: somebody may have taken our finalizer, so that the object went without one.
        """
        ended = [key for key in self._connections if not self._is_claimed(key)]
        for key in ended:
            self._end(key)
        return ended

    def _warn_of_little_room(self) -> None:
        """Once, as the first is begun for which there are no file descriptors: connections fail sooner or later, those of the Lease among them."""
        room = self._setup.room
        if room is not None and len(self._connections) == room + 1:
            _log.warning("more workload clusters than file descriptors suffice for", room=room, remedy=_MORE_ROOM)

    def _end(self, key: str) -> None:
        if task := self._connections.pop(key).task:
            task.cancel()

    def _is_claimed(self, key: str) -> bool:
        cluster = self._caches.clusters.get(*key.split("/", 1))
        return cluster is not None and cluster.metadata.uid == self._connections[key].uid and bool(self._caches.control_planes_of(key))


def _key(cluster: Cluster) -> str:
    return f"{cluster.metadata.namespace}/{cluster.metadata.name}"


def network_setup(
    dialer: EtcdDialer,
    *,
    now: Callable[[], datetime],
    random: Random,
    clock: Callable[[], float],
    qps: float = 20.0,
    burst: int = 30,
    etcd_connections: int = LIMIT,
    room: int | None = None,
) -> Setup[Client]:
    """The way to real workload clusters, over the network. `clock` is monotonic, in seconds; so many connections to etcd members are kept. For clusters beyond
    `room` there are no file descriptors.
    """
    port_forward = dialer is EtcdDialer.PORT_FORWARD
    return Setup(
        connect=partial(_connect, qps=qps, burst=burst, connector=partial(tcp_connector, Lookups())),
        dialer=port_forward_dialer if port_forward else _in_memory_dialer,
        mint=EtcdClientKey(now).mint,
        pool=Pool(clock, limit=etcd_connections),
        now=now,
        random=random,
        certificate_expiry=expiry_through_port_forward if port_forward else _in_memory_expiry,
        room=room,
        inactivity=70.0 if port_forward else 130.0,  # the in-memory provider sends no bookmarks and closes after 120 s
    )


def _connect(config: RestConfig, share: Share, *, qps: float, burst: int, connector: Callable[[Share], BaseConnector]) -> Client:
    return connect(
        config,
        user_agent=f"{USER_AGENT} workload",
        qps=qps,
        burst=burst,
        timeout=10.0,
        connector=partial(connector, share),
        largest=_LARGEST,
        largest_list=_LARGEST,
        largest_object=_LARGEST_OBJECT,
        most_values=_MOST_VALUES,
        most_objects=_MOST_OBJECTS,
        share=share,
    )


def _in_memory_dialer(client: Client) -> InMemoryDialer:
    server = urlsplit(client.config.server)
    return InMemoryDialer(server.hostname or "", server.port or 443)


async def _in_memory_expiry(client: Client, node: str, port: int) -> datetime:
    """All API servers of the in-memory provider are one endpoint, which shows the one certificate they have."""
    return await certificate_expiry(partial(_in_memory_dialer(client).dial, node), node, port)
