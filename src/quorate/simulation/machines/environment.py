"""A whole simulated installation: one management cluster with its controllers, one workload cluster with its machines, and the provider's processes."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from quorate.simulation.engine.apiserver import Change
from quorate.simulation.engine.journal import Removal
from quorate.simulation.engine.objects import (
    BACKED_UP,
    CLUSTERS,
    CONFIGS,
    CONTROL_PLANES,
    EVENTS,
    INFRASTRUCTURE,
    LEASES,
    MACHINES,
    NODES,
    TEMPLATES,
    Json,
    Key,
    Stored,
)
from quorate.simulation.engine.world import NAMESPACE, World
from quorate.simulation.machines import cluster_objects
from quorate.simulation.machines.bootstrap import Bootstrap
from quorate.simulation.machines.cluster_objects import ENDPOINT, NAME, USER, Wanted, set_up
from quorate.simulation.machines.collector import Collector
from quorate.simulation.machines.core import Core
from quorate.simulation.machines.extension import Extension, install
from quorate.simulation.machines.healthcheck import HealthCheck
from quorate.simulation.machines.infrastructure import Infrastructure
from quorate.simulation.machines.kubelet import Kubelets
from quorate.simulation.machines.process import Process
from quorate.simulation.machines.stand_alone import make_by_hand
from quorate.simulation.machines.workload_cluster import ExternalEtcd, WorkloadCluster

_UNTRACED = frozenset({EVENTS, LEASES})
_BACKUP_EVERY = 60.0
_BACKUPS = 10


class Environment:
    """Everything that lives in a world. `start` brings up a process of the provider; all ends with `close`. With `elected`, one of them acts at a time."""

    def __init__(self, world: World, wanted: Wanted, tasks: asyncio.TaskGroup, *, elected: bool = False) -> None:
        self.world, self._tasks, self._elected = world, tasks, elected
        self.cluster = WorkloadCluster(world, NAME, ENDPOINT, ExternalEtcd() if wanted.external_etcd else None)
        self.kubelets = Kubelets(world, self.cluster)
        self.infrastructure = Infrastructure(world, self.cluster, self.kubelets)
        self.bootstrap = Bootstrap(world, self.cluster)
        self.extension = Extension(world, self.kubelets, wanted.updates) if wanted.updates is not None else None
        self.core = Core(world, self.cluster, self.extension)
        self.collector = Collector(world)
        self.health_check = HealthCheck(world, self.cluster)
        self.processes: list[Process] = []
        self.on_removal: list[Callable[[Removal], None]] = []
        self.on_start: list[Callable[[Process], None]] = []
        self.closed = False
        self.initialized = False  # the control plane was called that once, whatever its status says now
        self.seen_leaving: dict[str, float] = {}  # Machines, and when each was last known to be deleted
        self.backups: deque[tuple[Stored, ...]] = deque(maxlen=_BACKUPS)
        self._started = 0
        world.management.subscribe(self._trace)
        world.management.subscribe(self._wake)
        set_up(world.management, wanted)
        if self.extension is not None:
            install(world.management)
        if wanted.by_hand:
            make_by_hand(world.management, wanted)
        world.after(_BACKUP_EVERY, self._back_up)

    def start(self) -> Process:
        """Start one more process of the provider."""
        self._started += 1
        process = Process(
            self.world,
            f"quorate-{self._started}",
            self.cluster,
            on_removal=self._removal,
            elected=self._elected,
            extension=self.extension,
        )
        self.processes.append(process)
        for callback in self.on_start:
            callback(process)
        process.start(self._tasks)
        return process

    def process(self, name: str) -> Process:
        """The process of this name, dead or alive."""
        return next(process for process in self.processes if process.name == name)

    def close(self) -> None:
        """End every process."""
        self.closed = True
        for process in self.processes:
            process.stop()

    # What a user sees and does.

    @property
    def control_plane(self) -> Stored | None:
        """The KubeadmControlPlane."""
        return self.world.management.find(CONTROL_PLANES, NAMESPACE, NAME)

    @property
    def cluster_object(self) -> Stored | None:
        """The Cluster."""
        return self.world.management.find(CLUSTERS, NAMESPACE, NAME)

    @property
    def ever_voted(self) -> set[str]:
        """Hosts whose member has voted at some time."""
        return self.cluster.ever_voted

    @property
    def machines(self) -> list[Stored]:
        """All Machines."""
        return self.world.management.objects(MACHINES, NAMESPACE)

    @property
    def nodes(self) -> list[str]:
        """The names of all Nodes."""
        return [node.name for node in self.cluster.server.objects(NODES)]

    def edit(self, patch: Json) -> None:
        """The user changes the KubeadmControlPlane's specification."""
        self.world.management.merge_patch(CONTROL_PLANES, NAMESPACE, NAME, {"spec": patch}, who=USER)

    def edit_cluster(self, patch: Json) -> None:
        """The user changes the Cluster's specification."""
        self.world.management.merge_patch(CLUSTERS, NAMESPACE, NAME, {"spec": patch}, who=USER)

    def delete_cluster(self) -> None:
        """The user deletes the Cluster."""
        self.world.management.delete(CLUSTERS, NAMESPACE, NAME, who=USER)

    def delete_machine(self, name: str) -> None:
        """The user deletes a Machine."""
        self.world.management.delete(MACHINES, NAMESPACE, name, who=USER)

    def add_template(self, name: str) -> None:
        """The user adds an infrastructure template."""
        self.world.management.create(TEMPLATES, cluster_objects.template(name), who=USER)

    def _removal(self, removal: Removal) -> None:
        self.world.trace.add(removal.process, f"removes member {removal.member:x}")
        for callback in self.on_removal:
            callback(removal)

    def _trace(self, change: Change) -> None:
        if change.kind not in _UNTRACED:
            verb = "creates" if change.before is None else "removes" if change.after is None else "writes"
            self.world.trace.add(change.who, f"{verb} {change.kind.kind} {change.object.name} ({change.version})")

    def _back_up(self) -> None:
        """Of control planes that are initialized: a backup of one that is about to be is believed (docs/safety.md)."""
        if self.initialized:
            self.backups.append(self.world.management.backup(BACKED_UP))
        if not self.closed:
            self.world.after(_BACKUP_EVERY, self._back_up)

    def _wake(self, change: Change) -> None:
        """Have the controllers of the management cluster look at what a change concerns."""
        kind, stored = change.kind, change.object
        if kind is CONTROL_PLANES and (stored.status.get("initialization") or {}).get("controlPlaneInitialized"):
            self.initialized = True
        if kind in (CLUSTERS, CONTROL_PLANES):
            self.core.clusters.poke((NAMESPACE, NAME))
            if kind is CLUSTERS:
                for config in self.world.management.objects(CONFIGS, NAMESPACE):
                    self.bootstrap.worker.poke(config.key)
        elif kind is MACHINES:
            if stored.deleting or (change.before is not None and change.before.deleting):
                self.seen_leaving[stored.name] = self.world.time()
            self.core.machines.poke(stored.key)
            if self.control_plane is None:  # the Cluster is told by its Machines that it is initialized
                self.core.clusters.poke((NAMESPACE, NAME))
            for key in _companions(stored):
                self.bootstrap.worker.poke(key)
                self.infrastructure.worker.poke(key)
        elif kind in (CONFIGS, INFRASTRUCTURE):
            worker = self.bootstrap.worker if kind is CONFIGS else self.infrastructure.worker
            worker.poke(stored.key)
            for owner in stored.metadata.get("ownerReferences") or ():
                if owner["kind"] == "Machine":
                    self.core.machines.poke((stored.key[0], owner["name"]))
            self.core.machines.poke(stored.key)


def _companions(machine: Stored) -> list[Key]:
    references = ((machine.spec.get("bootstrap") or {}).get("configRef"), machine.spec.get("infrastructureRef"))
    return [(machine.key[0], reference["name"]) for reference in references if reference]
