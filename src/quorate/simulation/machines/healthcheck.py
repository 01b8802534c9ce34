"""A MachineHealthCheck: marks control-plane Machines whose Node or components have been ill for too long, and leaves them to their owner to replace.

Source: cluster-api, the machinehealthcheck controller: OwnerRemediated is set where it is absent or True, and never on a Machine that is being deleted.
"""

from __future__ import annotations

from collections.abc import Iterator

from quorate.clusterapi.report import merge_conditions
from quorate.simulation.engine.apiserver import timestamp
from quorate.simulation.engine.objects import MACHINES, NODES, Json, Key, Stored
from quorate.simulation.engine.world import NAMESPACE, Worker, World
from quorate.simulation.machines.workload_cluster import WorkloadCluster

WHO = "health-check"
NODE_TIMEOUT, COMPONENT_TIMEOUT, STARTUP_TIMEOUT = 120.0, 300.0, 600.0
"""Seconds of illness of the Node and of a component, and without a Node, after which a Machine is marked."""

_EVERY = 10.0
_WATCHED = ("EtcdMemberHealthy", "EtcdPodHealthy", "APIServerPodHealthy", "ControllerManagerPodHealthy", "SchedulerPodHealthy")


class HealthCheck:
    """One health check over all control-plane Machines, looking every ten seconds."""

    def __init__(self, world: World, cluster: WorkloadCluster) -> None:
        self._world, self._cluster = world, cluster
        self._ill_since: dict[tuple[str, str], float] = {}  # by uid and what is ill
        self.worker = Worker(world, "health check", self._look)
        self.worker.poke((NAMESPACE, ""))

    def _look(self, key: Key) -> float:
        for machine in self._world.management.objects(MACHINES, key[0]):
            if not machine.deleting and "cluster.x-k8s.io/control-plane" in machine.labels:
                self._check(machine)
        return _EVERY

    def _check(self, machine: Stored) -> None:
        ills = dict(self._ills(machine))
        for known in [entry for entry in self._ill_since if entry[0] == machine.uid and entry[1] not in ills]:
            del self._ill_since[known]
        now = self._world.time()
        overdue = [what for what, limit in ills.items() if now - self._ill_since.setdefault((machine.uid, what), now) >= limit]
        if overdue:
            self._mark(machine, overdue[0])
        elif machine.condition("HealthCheckSucceeded").get("status") != "True":
            self._write(machine, [self._condition("HealthCheckSucceeded", "True", "HealthCheckSucceeded")])

    def _ills(self, machine: Stored) -> Iterator[tuple[str, float]]:
        name = (machine.status.get("nodeRef") or {}).get("name")
        if not name:
            yield "no Node", STARTUP_TIMEOUT
            return
        node = self._cluster.server.find(NODES, "", name)
        if self._cluster.answers and (node is None or node.condition("Ready").get("status") != "True"):
            yield "Node not ready", NODE_TIMEOUT
        for kind in _WATCHED:
            if machine.condition(kind).get("status") == "False":
                yield kind, COMPONENT_TIMEOUT

    def _mark(self, machine: Stored, why: str) -> None:
        changes: list[Json] = []
        if machine.condition("HealthCheckSucceeded").get("status") != "False":
            changes.append(self._condition("HealthCheckSucceeded", "False", "UnhealthyNode", why))
        if machine.condition("OwnerRemediated").get("status") in (None, "True"):
            changes.append(self._condition("OwnerRemediated", "False", "WaitingForRemediation"))
        if changes:
            self._world.trace.add(WHO, f"marks {machine.name}: {why}")
            self._write(machine, changes)

    def _write(self, machine: Stored, changes: list[Json]) -> None:
        conditions = merge_conditions(machine.status.get("conditions") or (), changes)
        self._world.management.merge_patch(MACHINES, *machine.key, {"status": {"conditions": conditions}}, who=WHO, subresource="status")

    def _condition(self, kind: str, status: str, reason: str, message: str = "") -> Json:
        now = timestamp(self._world.now())
        return {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": now}
