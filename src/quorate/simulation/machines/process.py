"""One run of the provider in a simulated world: the production parts, wired as in production, on simulated ways out."""

from __future__ import annotations

import asyncio
import math
import ssl
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import cast

from prometheus_client import CollectorRegistry

from quorate.clusterapi.manager import DEFAULT_NAMESPACE, Options, Parts, assemble
from quorate.clusterapi.types.names import DEFAULT_FEATURE_GATES, LEADER_ELECTION_LEASE, FeatureGate
from quorate.etcd.client import EtcdClient
from quorate.etcd.dialers import Dialer
from quorate.etcd.pool import Pool
from quorate.kubernetes.client import Client
from quorate.kubernetes.config import RestConfig
from quorate.kubernetes.leader import LeaderElector, LeadershipLost
from quorate.kubernetes.manager import CachesNotSynced, Manager
from quorate.kubernetes.metrics import Metrics
from quorate.simulation.engine.clock import program
from quorate.simulation.engine.journal import Journal, Removal, current
from quorate.simulation.engine.link import Link
from quorate.simulation.engine.transport import SimulatedTransport
from quorate.simulation.engine.world import World
from quorate.simulation.machines.etcd_client import SimulatedEtcd, WayToEtcd
from quorate.simulation.machines.extension import Calls, Extension
from quorate.simulation.machines.handshake import shown_expiry
from quorate.simulation.machines.workload_cluster import WorkloadCluster
from quorate.workload.access import EtcdClientKey
from quorate.workload.connection import Setup

MANAGEMENT = RestConfig("https://management.test:6443")

_OPTIONS = Options(concurrency=2)
_IN_PLACE = Options(concurrency=2, feature_gates=DEFAULT_FEATURE_GATES | {FeatureGate.IN_PLACE_UPDATES})


class Process:
    """One process of the provider, from its start to its death. `skew` is by how many seconds its clock is wrong.

    One that is `elected` acts only as long as it holds the Lease; `elector` is None for one that does not ask. With an `extension` it may update in place.
    """

    def __init__(
        self,
        world: World,
        name: str,
        cluster: WorkloadCluster,
        *,
        on_removal: Callable[[Removal], None],
        elected: bool = False,
        extension: Extension | None = None,
    ) -> None:
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
        self.elector = self._candidate() if elected else None
        metrics = Metrics(CollectorRegistry())
        calls = Calls(world, extension, self.management, world.random(f"{name} calls")) if extension else None
        options = _IN_PLACE if extension else _OPTIONS
        self.parts: Parts = assemble(
            self._client, self._setup(), options, identity=name, metrics=metrics, elector=self.elector, caller=calls
        )
        self._frozen: list[tuple[float, float]] = []  # from when to when; without end as long as it lasts
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
            elector=self.elector,
        )
        self._task = tasks.create_task(self._run(manager), name=self.name)

    async def _run(self, manager: Manager) -> None:
        current.set(self.journal)  # every task of the process inherits it
        program.set(self.name)
        try:
            await manager.run(self.stopping)
        except (LeadershipLost, CachesNotSynced) as error:
            if self.alive:  # it may have been killed between its failure and its end
                self._world.trace.add(self.name, f"ends: {error}")
                self._end()

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
        self._end()
        if self._task is not None:
            self._task.cancel()

    def _end(self) -> None:
        self._dead = True
        self.management.cut = self.workload.cut = True
        self._cluster.on_backend_lost.remove(self.workload.lose_backend)
        self.thaw()

    def freeze(self) -> None:
        """Do nothing from this instant on, and know nothing of that: as when its machine is suspended."""
        if self.alive and not self.frozen:
            self._world.trace.add(self.name, "freezes")
            self._frozen.append((self._world.time(), math.inf))
            self._world.loop.suspend(self.name)

    def thaw(self) -> None:
        """Go on with what it was doing."""
        if self.frozen:
            self._world.trace.add(self.name, "thaws")
            self._frozen[-1] = self._frozen[-1][0], self._world.time()
            self._world.loop.resume(self.name)

    @property
    def frozen(self) -> bool:
        """Whether it does nothing now."""
        return bool(self._frozen) and self._frozen[-1][1] == math.inf

    def ran_since(self, moment: float) -> float:
        """For how many seconds since a moment it has been running, and could have noticed that time passes."""
        now = self._world.time()
        return now - moment - sum(max(0.0, min(end, now) - max(begin, moment)) for begin, end in self._frozen)

    def recover_management(self) -> None:
        """The way to the management cluster is there again, unless the process is dead."""
        self.management.cut = self.management.cut and not self.alive

    def recover_workload(self) -> None:
        """The way to the workload cluster is there again, unless the process is dead."""
        self.workload.cut = self.workload.cut and not self.alive

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self._task is not None and not self._dead

    def now(self) -> datetime:
        """The time as this process has it."""
        return self._world.now() + timedelta(seconds=self.skew)

    def _candidate(self) -> LeaderElector:
        return LeaderElector(
            self._client,
            namespace=DEFAULT_NAMESPACE,
            name=LEADER_ELECTION_LEASE,
            identity=self.name,
            now=self.now,
            clock=self._world.time,
            random=self._world.random(f"{self.name} elector"),
        )

    def _setup(self) -> Setup[Client]:
        way = WayToEtcd(self._cluster, self.workload, self.journal)
        return Setup(
            connect=self._connect,
            dialer=lambda _: way,
            mint=EtcdClientKey(self.now).mint,
            pool=Pool(self._world.time, connect=_etcd),
            now=self.now,
            random=self._random,
            certificate_expiry=lambda _client, node, _port: shown_expiry(self._cluster, self.workload, node),
        )

    def _connect(self, config: RestConfig, _: object) -> Client:
        cluster = self._cluster
        return Client(
            config,
            SimulatedTransport(
                cluster.server, self.workload, self.name, timeout=10.0, backend=cluster.backend, check=cluster.check_storage
            ),
        )


def _etcd(node: str, dialer: Dialer, _context: ssl.SSLContext) -> EtcdClient:
    return SimulatedEtcd(node, cast("WayToEtcd", dialer))
