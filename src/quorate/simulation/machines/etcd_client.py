"""A process's way to the etcd members of a workload cluster, in place of the gRPC client: through an API server and the kubelet to the member's Pod."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from quorate.etcd import client as etcd
from quorate.etcd.dialers import Connection
from quorate.etcd.errors import DeadlineExceeded, EtcdError, MemberNotFound, NoLeader, NotLeader, NoWay, Unreachable
from quorate.kubernetes.errors import ConnectionFailed
from quorate.simulation.engine.journal import Journal
from quorate.simulation.engine.link import Fate, Link
from quorate.simulation.engine.ring import NoQuorum
from quorate.simulation.machines.hosts import Host
from quorate.simulation.machines.workload_cluster import WorkloadCluster
from quorate.workload.static_pods import Component

_DIAL = 4.0  # seconds until a way that does not open is given up, as by PortForwardDialer
_MAJORITY = 7.0  # seconds until etcd gives up finding a majority


@dataclass(frozen=True, slots=True)
class WayToEtcd:
    """In place of a dialer: which cluster, over which link, and who keeps a record of what is asked and done."""

    cluster: WorkloadCluster
    link: Link
    journal: Journal

    async def dial(self, node: str) -> Connection:
        """Never: there is no byte stream to a member here."""
        raise OSError(f"no byte stream leads to the member on {node}")


class SimulatedEtcd:
    """The member on one node. See quorate.etcd.client.EtcdClient."""

    def __init__(self, node: str, way: WayToEtcd) -> None:
        self._node, self._cluster, self._link, self._journal = node, way.cluster, way.link, way.journal

    async def members(self) -> etcd.MemberList:
        """The members, confirmed by a majority."""
        started = asyncio.get_running_loop().time()
        member = await self._arrive()
        await self._confirmed(member)
        ring = self._cluster.ring
        found = tuple(
            etcd.Member(m.id, m.name, (m.peer_url,), (f"{m.peer_url[:-4]}2379",) if m.name else (), m.learner)
            for m in ring.members.values()
        )
        self._journal.listed(started)
        await self._back()
        return etcd.MemberList(ring.id, found)

    async def status(self) -> etcd.Status:
        """What the member says of itself."""
        self._journal.asked()
        member = await self._arrive()
        ring = self._cluster.ring
        known = ring.members.get(member)
        answer = etcd.Status(
            member_id=member,
            leader=ring.leader if ring.follows_leader(member) else 0,
            version=self._cluster.hosts[self._node].etcd_version,
            learner=known is not None and known.learner,
        )
        await self._back()
        return answer

    async def alarms(self) -> tuple[etcd.Alarm, ...]:
        """The alarms, confirmed by a majority."""
        member = await self._arrive()
        await self._confirmed(member)
        answer = tuple(etcd.Alarm(*alarm) for alarm in sorted(self._cluster.ring.alarms))
        await self._back()
        return answer

    async def move_leader(self, target: int) -> None:
        """Hand leadership to another voter; only the leader can."""
        self._journal.tried_to_move_leader()
        member = await self._arrive()
        if self._cluster.ring.leader != member:
            raise NotLeader(self._node, "not leader")
        await self._change("move leader", lambda: self._cluster.ring.move_leader(target))

    async def remove_member(self, member_id: int) -> None:
        """Remove a member."""
        member = await self._arrive()
        if member_id not in self._cluster.ring.members:
            raise MemberNotFound(self._node, "member not found")
        await self._confirmed(member)

        def remove() -> None:
            if member_id in self._cluster.ring.members:
                self._journal.removes(member_id)
                self._cluster.ring.remove(member_id)

        await self._change("remove member", remove)

    async def close(self) -> None:
        """Nothing is kept open."""

    async def _change(self, what: str, change: Callable[[], None]) -> None:
        fate = self._link.fate(what)
        if fate in (Fate.LOST, Fate.LATE):
            raise Unreachable(self._node, "connection reset before the request arrived")
        try:
            change()
        except NoQuorum as error:
            raise NoLeader(self._node, str(error)) from error
        if fate is Fate.FATAL:
            self._link.fatal()
            await asyncio.get_running_loop().create_future()  # the process ends here
        if fate is Fate.UNANSWERED:
            raise Unreachable(self._node, "connection reset before the answer came")
        await self._back()

    async def _arrive(self) -> int:
        """Reach the member; its id."""
        await asyncio.sleep(self._link.delay())
        if self._link.cut:
            await asyncio.sleep(_DIAL)
            raise NoWay(self._node, "no way to the API server")
        try:
            self._cluster.backend()
        except ConnectionFailed as error:
            raise NoWay(self._node, str(error)) from error
        host = self._cluster.hosts.get(self._node)
        if host is None or not self._cluster.is_reached(host):
            await asyncio.sleep(_DIAL)
            raise NoWay(self._node, "the node does not answer")
        if host.name in self._cluster.silent:
            await asyncio.get_running_loop().create_future()  # whoever asks has to give up by itself
        return self._member(host)

    def _member(self, host: Host) -> int:
        if not self._cluster.has_pod(Component.ETCD, host.name):
            raise NoWay(self._node, "there is no Pod to forward to")
        if not host.runs(Component.ETCD) or host.member is None or host.member in self._cluster.ring.removed:
            raise Unreachable(self._node, "connection refused")
        return host.member

    async def _confirmed(self, member: int) -> None:
        try:
            self._cluster.ring.confirm(member)
        except NoQuorum as error:
            await asyncio.sleep(_MAJORITY)
            raise NoLeader(self._node, str(error)) from error

    async def _back(self) -> None:
        await asyncio.sleep(self._link.delay())
        if self._link.cut:
            error: EtcdError = DeadlineExceeded(self._node, "the answer did not come")
            raise error
