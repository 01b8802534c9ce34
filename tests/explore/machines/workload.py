"""The way from a process to the workload cluster: in the shape of `quorate.workload.connection.Workload`, answered from the plant.

Only the transport is replaced. The ring is read by the production's own `read_ring` from what each member says.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

import msgspec

from quorate.core.health import Absent, Unknown
from quorate.etcd import client as etcd
from quorate.etcd.errors import MemberNotFound, NoLeader, NotLeader, Unreachable
from quorate.kubernetes.objects import Node, Pod
from quorate.workload.connection import Connectivity, Phase
from quorate.workload.membership import RingReading, read_ring
from quorate.workload.static_pods import Component
from quorate.workload.updates import CannotUpdate
from tests.explore.machines.plant import Plant

CLUSTER_ID = 77
_LONG_LOST = 10  # probes that failed


@dataclass(frozen=True, slots=True)
class Removal:
    """A member that was removed: from which plant, and whether the ring was read for it, after the decision and after the removal before."""

    plant: Plant
    member: int
    read: bool


class Site:
    """The plant while a process works on it. `changed` is called with what was done right after each change of the ring."""

    def __init__(self, plant: Plant, changed: Callable[[str], None]) -> None:
        self.plant = plant
        self.changed = changed
        self.read = False  # whether a majority has confirmed a list of the members for what is done next
        self.removed: list[Removal] = []


class Etcd:
    """The member on one node; see quorate.etcd.client.EtcdClient."""

    def __init__(self, site: Site, node: str) -> None:
        self._site, self._node = site, node

    async def members(self) -> etcd.MemberList:
        """Only what a majority confirms."""
        self._confirmed()
        self._site.read = True
        return etcd.MemberList(CLUSTER_ID, tuple(_listed(member) for member in self._site.plant.members))

    async def status(self) -> etcd.Status:
        """By its own word."""
        plant, member = self._site.plant, self._own()
        known = plant.member(member)
        leader = plant.leader if known is not None else 0
        return etcd.Status(member_id=member, leader=leader, version="3.6.5", learner=known is not None and known.learner)

    async def alarms(self) -> tuple[etcd.Alarm, ...]:
        """There are none."""
        self._confirmed()
        return ()

    async def move_leader(self, target_id: int) -> None:
        """Only the leader can."""
        if self._site.plant.leader != self._confirmed():
            raise NotLeader(self._node, "not leader")
        if target_id in self._site.plant.well:
            self._site.plant = replace(self._site.plant, leader=target_id)
            self._site.changed(f"member {target_id} leads")

    async def remove_member(self, member_id: int) -> None:
        """Committed by a majority."""
        self._confirmed()
        plant = self._site.plant
        if plant.member(member_id) is None:
            raise MemberNotFound(self._node, "member not found")
        self._site.removed.append(Removal(plant, member_id, self._site.read))
        self._site.read = False
        self._site.plant = plant.without_member(member_id)
        self._site.changed(f"member {member_id} is removed")

    async def close(self) -> None:
        """Nothing is kept open."""

    def _own(self) -> int:
        host = self._site.plant.host(self._node)
        if host is None or not host.runs or host.member is None:
            raise Unreachable(self._node, "does not answer")
        member = self._site.plant.member(host.member)
        if member is None or not member.started:  # one that was removed stops by itself
            raise Unreachable(self._node, "does not answer")
        return host.member

    def _confirmed(self) -> int:
        member = self._own()
        if not self._site.plant.has_quorum:
            raise NoLeader(self._node, "etcdserver: request timed out")
        return member


class Workload:
    """The connection. What is lost is lost for so long that nobody waits for it any more."""

    cluster = "default/demo"

    def __init__(self, site: Site, api: Any, now: datetime) -> None:
        self._site, self._api, self._now = site, api, now

    @property
    def _connected(self) -> bool:
        return self._site.plant.reachable and self._site.plant.serves

    @property
    def connectivity(self) -> Connectivity:
        """How it is."""
        if self._connected:
            return Connectivity(Phase.CONNECTED, self._now, last_success=self._now)
        return Connectivity(Phase.NEVER_CONNECTED, self._now, "connection refused", consecutive_failures=_LONG_LOST)

    @property
    def client(self) -> object:
        """The client of its API."""
        return self._api if self._connected else self._unknown()

    def expect_soon(self, machines: Iterable[str]) -> None:
        """Nothing is waited for here."""

    def nodes(self) -> tuple[Node, ...] | Unknown:
        """The control-plane Nodes."""
        return tuple(map(self._node, self._site.plant.nodes)) if self._connected else self._unknown()

    async def node(self, name: str) -> Node | Absent | Unknown:
        """One Node."""
        if not self._connected:
            return self._unknown()
        return self._node(name) if name in self._site.plant.nodes else Absent()

    def pod(self, component: Component, node: str) -> Pod | Absent | Unknown:
        """A static Pod."""
        if not self._connected:
            return self._unknown()
        host = self._site.plant.host(node)
        well = host is not None and host.runs and (component is not Component.ETCD or self._has_member(node))
        return _pod(component.pod_name(node), well)

    def running(self, _component: Component) -> frozenset[str] | Unknown:
        """The Nodes that have such a static Pod: the kubelet's copy of it in the API goes with the Node."""
        return frozenset(self._site.plant.nodes) if self._connected else self._unknown()

    async def kubeadm_config_exists(self) -> bool | Unknown:
        """Whether there is kubeadm's ConfigMap."""
        return self._site.plant.founded if self._connected else self._unknown()

    async def certificate_expiry(self, node: str, _port: int) -> datetime:
        """Of the certificate that the Node's API server shows."""
        if not self._connected or not self._has_member(node):
            raise CannotUpdate(f"the API server of {node} does not answer")
        return self._now + timedelta(days=300)

    async def read_ring(self, nodes: Iterable[str]) -> RingReading | Unknown:
        """The production's reading."""
        if not self._connected:
            return self._unknown()
        return await read_ring(self.etcd, tuple(nodes), lambda: self._now)

    @asynccontextmanager
    async def etcd(self, node: str) -> AsyncIterator[Etcd]:
        """The way to a member leads through the API server and its Node."""
        if not self._connected or node not in self._site.plant.nodes:
            raise Unreachable(node, "no way to it")
        yield Etcd(self._site, node)

    def _has_member(self, node: str) -> bool:
        host = self._site.plant.host(node)
        return host is not None and host.member in self._site.plant.running

    def _node(self, name: str) -> Node:
        host = self._site.plant.host(name)
        return _node(name, host is not None and host.runs)

    @staticmethod
    def _unknown() -> Unknown:
        return Unknown("the workload cluster is not connected: connection refused")


def _listed(member: Any) -> etcd.Member:
    return etcd.Member(member.id, member.host if member.started else "", (f"https://{member.host}.test:2380",), (), member.learner)


@lru_cache(maxsize=1024)
def _node(name: str, ready: bool) -> Node:
    taints = [{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}]
    if not ready:
        taints.append({"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"})
    raw = {
        "metadata": {"name": name, "creationTimestamp": "2026-01-01T10:00:00Z", "labels": {"node-role.kubernetes.io/control-plane": ""}},
        "spec": {"providerID": f"test:///{name}", "taints": taints},
        "status": {
            "conditions": [{"type": "Ready", "status": "True" if ready else "Unknown"}],
            "addresses": [{"type": "InternalIP", "address": f"{name}.test"}],
        },
    }
    return msgspec.convert(raw, Node)


@lru_cache(maxsize=4096)
def _pod(name: str, well: bool) -> Pod:
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True" if well else "False"}]}
    return msgspec.convert({"metadata": {"name": name, "namespace": "kube-system"}, "status": status}, Pod)
