"""A workload cluster as it really is: hosts, their etcd ring, and an API that is served as long as one API server with a working etcd is there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from quorate.kubernetes.errors import ConnectionFailed
from quorate.simulation.engine.apiserver import ApiServer, Failure
from quorate.simulation.engine.objects import CONFIG_MAPS, NODES, PODS, WORKLOAD_KINDS, Json
from quorate.simulation.engine.ring import EtcdRing
from quorate.simulation.engine.world import World
from quorate.simulation.machines.hosts import Host
from quorate.workload.static_pods import NAMESPACE, Component


@dataclass(slots=True)
class ExternalEtcd:
    """An external etcd: only the API servers use it, and quorate never asks it."""

    well: bool = True


class WorkloadCluster:
    """One workload cluster, from before its first machine on. `endpoint` is the host of its load balancer, `external` its etcd where that is external."""

    def __init__(self, world: World, name: str, endpoint: str, external: ExternalEtcd | None = None) -> None:
        self.external = external
        self.world, self.name, self.endpoint = world, name, endpoint
        self.server = ApiServer(WORKLOAD_KINDS, world.now, world.random(f"{name} uids"))
        self.hosts: dict[str, Host] = {}
        self.ever_voted: set[str] = set()  # hosts; with an external etcd those whose API server has served
        self.founded_by: list[str] = []  # hosts on which kubeadm init ran
        self.reachable = True  # its endpoint, from outside
        self.cut_off: set[str] = set()  # hosts that the API servers' way to kubelets (port-forward) does not reach
        self.silent: set[str] = set()  # hosts whose etcd takes every request and never answers
        self.shown_expiries: dict[str, set[datetime]] = {}  # by host: when its API server's certificates expire, as somebody was shown
        self.on_backend_lost: list[Callable[[str], None]] = []
        self._backends: frozenset[str] = frozenset()
        self._next_address = 0
        self.ring = self._new_ring()

    @property
    def initialized(self) -> bool:
        """Whether kubeadm init has left its configuration."""
        return self.server.find(CONFIG_MAPS, NAMESPACE, "kubeadm-config") is not None

    def new_address(self) -> str:
        """An address that no host had before."""
        self._next_address += 1
        return f"10.0.{self._next_address // 250}.{self._next_address % 250 + 1}"

    def host_of(self, member: int) -> Host | None:
        """The host with the data of a member."""
        return next((host for host in self.hosts.values() if host.member == member), None)

    def holds_data(self, host: Host) -> bool:
        """Whether the host's disk has the data of a member that is one still, and votes; with an external etcd, an API server, without which nobody joins."""
        if self.external is not None:
            return host.registered and Component.API_SERVER in host.components
        member = self.ring.members.get(host.member) if host.member is not None else None
        return member is not None and not member.learner and bool(member.name)

    def has_pod(self, component: Component, node: str) -> bool:
        """Whether the API knows a Node and the Pod of a component on it: without them nobody is let through to it."""
        pod = self.server.find(PODS, NAMESPACE, component.pod_name(node))
        return pod is not None and self.server.find(NODES, "", node) is not None

    def is_reached(self, host: Host) -> bool:
        """Whether the way through an API server leads to the kubelet on a host."""
        return host.alive and not host.isolated and host.name not in self.cut_off

    def can_be_asked(self, host: Host) -> bool:
        """Whether the way through an API server and the kubelet leads to the etcd on a host."""
        return self.is_reached(host) and host.runs(Component.ETCD) and self.has_pod(Component.ETCD, host.name)

    def changed(self) -> None:
        """Something of a host changed: the ring and the API follow."""
        self.ring.refresh()

    def serves(self, host: Host) -> bool:
        """Whether an API server on this host answers: it uses the etcd beside it, unless etcd is external."""
        return host.runs(Component.API_SERVER) and (self.external is not None or self._etcd_runs(host)) and not host.isolated

    def backend(self) -> str:
        """The host whose API server the load balancer gives a new connection. Raises ConnectionFailed where there is none."""
        for name in sorted(self.hosts) if self.reachable else ():
            if self.serves(self.hosts[name]):
                return name
        raise ConnectionFailed(f"{self.endpoint}: connection refused")

    def check_storage(self) -> None:
        """Whether the API can read and write. Raises a Failure without a quorum, or where an alarm stops writes."""
        if not self.stores:
            raise Failure(500, "InternalError", "etcdserver: request timed out")

    @property
    def stores(self) -> bool:
        """Whether etcd confirms what is written."""
        return self.external.well if self.external is not None else bool(self.ring.leader)

    @property
    def writable(self) -> bool:
        """Whether somebody inside the cluster can write to the API now."""
        return any(self.serves(host) for host in self.hosts.values()) and self.stores

    @property
    def answers(self) -> bool:
        """Whether somebody outside can write to the API now."""
        return self.reachable and self.writable

    def put(self, kind: Any, body: Json, who: str) -> None:
        """Create an object, or make it equal to `body` where it is there."""
        metadata = body["metadata"]
        namespace, name = metadata.get("namespace", ""), metadata["name"]
        if self.server.find(kind, namespace, name) is None:
            self.server.create(kind, body, who=who)
        else:
            self.server.merge_patch(kind, namespace, name, {key: value for key, value in body.items() if key != "status"}, who=who)
        if "status" in body:
            self.server.merge_patch(kind, namespace, name, {"status": body["status"]}, who=who, subresource="status")

    def refound(self) -> None:
        """kubeadm init begins a cluster anew: an empty one."""
        self.ring = self._new_ring()

    def _new_ring(self) -> EtcdRing:
        ring = EtcdRing(
            self.world, self.world.random(f"{self.name} etcd {self.world.time()}"), runs=self._member_runs, connected=self._member_connected
        )
        ring.on_change.append(self._backends_may_have_changed)
        return ring

    def _member_runs(self, member: int) -> bool:
        host = self.host_of(member)
        return host is not None and host.runs(Component.ETCD)

    def _member_connected(self, member: int) -> bool:
        host = self.host_of(member)
        return host is not None and not host.isolated

    def _etcd_runs(self, host: Host) -> bool:
        return host.runs(Component.ETCD) and host.member in self.ring.members

    def _backends_may_have_changed(self) -> None:
        now = frozenset(name for name, host in self.hosts.items() if self.serves(host))
        self.ever_voted |= {name for name, host in self.hosts.items() if self.holds_data(host) or (self.external and self.serves(host))}
        lost, self._backends = self._backends - now, now
        for name in sorted(lost):
            for callback in self.on_backend_lost:
                callback(name)
