"""One run of the provider in a simulated world: the production parts, wired as in production, on simulated ways out."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from typing import cast

from prometheus_client import CollectorRegistry

from quorate.clusterapi.manager import Options, Parts, assemble
from quorate.etcd.client import EtcdClient
from quorate.etcd.dialers import Dialer
from quorate.etcd.pool import Pool
from quorate.kubernetes import kubeconfig
from quorate.kubernetes.client import Client
from quorate.kubernetes.config import RestConfig
from quorate.kubernetes.manager import Manager
from quorate.kubernetes.metrics import Metrics
from quorate.pki import KeyAlgorithm, KeyPair, issue_etcd_client
from quorate.simulation.etcd_client import SimulatedEtcd, WayToEtcd
from quorate.simulation.journal import Journal, Removal, current
from quorate.simulation.link import Link
from quorate.simulation.transport import SimulatedTransport
from quorate.simulation.workload_cluster import WorkloadCluster
from quorate.simulation.world import World
from quorate.workload.connection import Setup

MANAGEMENT = RestConfig("https://management.test:6443")

_OPTIONS = Options(concurrency=2)


class Process:
    """One process of the provider, from its start to its death. `skew` is by how many seconds its clock is wrong."""

    def __init__(self, world: World, name: str, cluster: WorkloadCluster, *, on_removal: Callable[[Removal], None]) -> None:
        self.name = name
        self.skew = 0.0
        self._world, self._cluster = world, cluster
        random = world.random(name)
        self.management = Link(f"{name} to management", world.random(f"{name} management link"), fatal=self.crash)
        self.workload = Link(f"{name} to {cluster.name}", world.random(f"{name} workload link"), fatal=self.crash)
        self.journal = Journal(name, world.time, on_removal)
        cluster.on_backend_lost.append(self.workload.lose_backend)
        self._random = random
        self._client = Client(MANAGEMENT, SimulatedTransport(world.management, self.management, name, timeout=30.0))
        self.parts: Parts = assemble(self._client, self._setup(), _OPTIONS, identity=name, metrics=Metrics(CollectorRegistry()))
        self._task: asyncio.Task[None] | None = None
        self._dead = False
        self.stopping = asyncio.Event()

    def start(self, tasks: asyncio.TaskGroup) -> None:
        """Begin to run, as a task of the group."""
        self._world.trace.add(self.name, "starts")
        manager = Manager(
            reflectors=self.parts.caches.reflectors,
            controllers=(self.parts.controller,),
            runnables=self.parts.runnables,
            after_sync=lambda: None,
        )
        self._task = tasks.create_task(self._run(manager), name=self.name)

    async def _run(self, manager: Manager) -> None:
        current.set(self.journal)  # every task of the process inherits it
        await manager.run(self.stopping)

    def crash(self) -> None:
        """Die at this instant: nothing that it had begun goes on, and it says nothing to anybody any more."""
        if self.alive:
            self._world.trace.add(self.name, "dies")
            self._die()

    def stop(self) -> None:
        """End as when the world ends."""
        if self.alive:
            self._die()

    def _die(self) -> None:
        self._dead = True
        self.management.cut = self.workload.cut = True
        self._cluster.on_backend_lost.remove(self.workload.lose_backend)
        if self._task is not None:
            self._task.cancel()

    def mend_management(self) -> None:
        """The way to the management cluster is there again, unless the process is dead."""
        self.management.cut = self.management.cut and not self.alive

    def mend_workload(self) -> None:
        """The way to the workload cluster is there again, unless the process is dead."""
        self.workload.cut = self.workload.cut and not self.alive

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self._task is not None and not self._dead

    def now(self) -> datetime:
        """The time as this process has it."""
        return self._world.now() + timedelta(seconds=self.skew)

    def _setup(self) -> Setup[Client]:
        way = WayToEtcd(self._cluster, self.workload, self.journal)
        return Setup(
            connect=self._connect,
            dialer=lambda _: way,
            mint=partial(_mint, now=self.now),
            pool=Pool(self._world.time, connect=_etcd),
            now=self.now,
            random=self._random,
            certificate_expiry=self._certificate_expiry,
        )

    async def _certificate_expiry(self, _client: Client, _node: str, _port: int) -> datetime:
        """In a year, like that of every certificate that kubeadm has just made."""
        return self.now() + timedelta(days=365)

    def _connect(self, data: bytes) -> Client:
        cluster = self._cluster
        config = kubeconfig.parse(data)
        return Client(
            config,
            SimulatedTransport(
                cluster.server, self.workload, self.name, timeout=10.0, backend=cluster.backend, check=cluster.check_storage
            ),
        )


def _etcd(node: str, dialer: Dialer, _context: ssl.SSLContext) -> EtcdClient:
    return SimulatedEtcd(node, cast("WayToEtcd", dialer))


def _mint(authority: KeyPair, *, now: Callable[[], datetime]) -> KeyPair:
    return issue_etcd_client(authority, KeyAlgorithm.parse("ECDSA-P256"), now=now())
