"""Kubelets and the node controller: what hosts tell the API of themselves, and what it is told of hosts that say nothing any more."""

from __future__ import annotations

from quorate.simulation.engine.apiserver import Failure, timestamp
from quorate.simulation.engine.objects import NODES, PODS, Json
from quorate.simulation.engine.world import Worker, World
from quorate.simulation.machines.hosts import Host, State
from quorate.simulation.machines.workload_cluster import WorkloadCluster
from quorate.workload.nodes import CONTROL_PLANE, UNREACHABLE
from quorate.workload.static_pods import NAMESPACE, Component

_GRACE = 40.0  # seconds without a word until the node controller gives a kubelet up (--node-monitor-grace-period)
_AGAIN = 5.0


class Kubelets:
    """All kubelets of a cluster, and its node controller. Keys are ("", host)."""

    def __init__(self, world: World, cluster: WorkloadCluster) -> None:
        self._world, self._cluster = world, cluster
        self._worker = Worker(world, f"kubelets of {cluster.name}", self._sync, delay=(0.2, 1.0))

    def poke(self, host: Host) -> None:
        """Something of the host has changed."""
        self._cluster.changed()
        host.down_since = None if host.alive and not host.isolated else (host.down_since or self._world.time())
        self._worker.poke(("", host.name))

    def _sync(self, key: tuple[str, str]) -> float | None:
        host = self._cluster.hosts.get(key[1])
        if host is None or not host.registered:
            return None
        if not self._cluster.writable:
            return _AGAIN
        if host.down_since is None:
            self._report(host)
            return None
        silent = self._world.time() - host.down_since
        if silent < _GRACE:
            return _GRACE - silent
        self._give_up(host)
        return None

    def _report(self, host: Host) -> None:
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastTransitionTime": timestamp(self._world.now())}
        node = {
            "metadata": {"name": host.name, "labels": {CONTROL_PLANE: ""} if host.joined else {}},
            "spec": {
                "providerID": host.provider_id,
                "taints": [{"key": CONTROL_PLANE, "effect": "NoSchedule"}] if host.joined else [],
            },
            "status": {
                "conditions": [_kept(ready, self._conditions(host))],
                "addresses": [{"type": "InternalIP", "address": host.address}, {"type": "Hostname", "address": host.name}],
                "nodeInfo": {"kubeletVersion": host.version},
            },
        }
        self._cluster.put(NODES, node, "kubelet")
        for component, state in host.components.items():
            self._cluster.put(PODS, _pod(host, component, state), "kubelet")

    def _conditions(self, host: Host) -> list[Json]:
        node = self._cluster.server.find(NODES, "", host.name)
        return list(node.status.get("conditions") or ()) if node else []

    def _give_up(self, host: Host) -> None:
        node = self._cluster.server.find(NODES, "", host.name)
        if node is None:
            return
        unknown = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "lastTransitionTime": timestamp(self._world.now())}
        taints = [taint for taint in node.spec.get("taints") or () if taint["key"] != UNREACHABLE]
        taints.append({"key": UNREACHABLE, "effect": "NoExecute"})
        body = {"metadata": {"name": host.name}, "spec": {"taints": taints}}
        self._cluster.put(NODES, {**body, "status": {"conditions": [_kept(unknown, node.status["conditions"])]}}, "node-controller")


def forget_node(cluster: WorkloadCluster, name: str, who: str) -> None:
    """Delete a Node; its Pods are collected with it, and a host of which nothing is left is forgotten."""
    host = cluster.hosts.get(name)
    if host is not None and not host.alive and host.member is None:
        del cluster.hosts[name]
    elif host is not None and host.alive and who == "cloud-controller":
        return  # another instance of that name runs
    try:
        cluster.server.delete(NODES, "", name, who=who)
    except Failure:
        return
    for component in Component:
        if cluster.server.find(PODS, NAMESPACE, component.pod_name(name)) is not None:
            cluster.server.delete(PODS, NAMESPACE, component.pod_name(name), who="pod-collector")


def _pod(host: Host, component: Component, state: State) -> Json:
    name = component.pod_name(host.name)
    ready = "True" if state is State.RUNNING else "False"
    container: Json = {"name": str(component), "ready": state is State.RUNNING, "state": {"running": {}}}
    if state is State.FAILING:
        container |= {"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": {"terminated": {"exitCode": 1, "reason": "Error"}}}
    return {
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"tier": "control-plane", "component": str(component)}},
        "spec": {"nodeName": host.name},
        "status": {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": ready}],
            "containerStatuses": [container],
        },
    }


def _kept(condition: Json, before: list[Json]) -> Json:
    """The condition, with the time of its last transition where nothing has changed."""
    same = next((old for old in before if old["type"] == condition["type"] and old["status"] == condition["status"]), None)
    return same or condition
