"""One etcd member of a simulated workload cluster, as gRPC: what the real one answers to the few calls that quorate makes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from grpclib import GRPCError, Status
from grpclib.const import Cardinality, Handler
from grpclib.server import Server, Stream

from quorate.etcd import rpc_pb2 as rpc
from quorate.simulation.engine.ring import EtcdRing, NoQuorum

if TYPE_CHECKING:
    from tests.scale.workloads import Workload


def member_server(workload: Workload, node: str) -> Callable[[], asyncio.BaseProtocol]:
    """What makes the server's side of one connection to the member on a node."""
    server = Server([_Member(workload, node)])
    return server._protocol_factory


class _Member:
    def __init__(self, workload: Workload, node: str) -> None:
        self._workload, self._node = workload, node

    def __mapping__(self) -> dict[str, Handler]:
        calls: dict[str, tuple[Callable[[Any], Coroutine[Any, Any, Any]], Any, Any]] = {
            "Cluster/MemberList": (self._list, rpc.MemberListRequest, rpc.MemberListResponse),
            "Cluster/MemberRemove": (self._remove, rpc.MemberRemoveRequest, rpc.MemberRemoveResponse),
            "Maintenance/Status": (self._status, rpc.StatusRequest, rpc.StatusResponse),
            "Maintenance/Alarm": (self._alarms, rpc.AlarmRequest, rpc.AlarmResponse),
            "Maintenance/MoveLeader": (self._move, rpc.MoveLeaderRequest, rpc.MoveLeaderResponse),
        }
        return {
            f"/etcdserverpb.{name}": Handler(_unary(call), Cardinality.UNARY_UNARY, asked, answered)
            for name, (call, asked, answered) in calls.items()
        }

    @property
    def _ring(self) -> EtcdRing:
        return self._workload.cluster.ring

    @property
    def _id(self) -> int:
        host = self._workload.cluster.hosts.get(self._node)
        if host is None or host.member is None or not self._workload.cluster.can_be_asked(host):
            raise GRPCError(Status.UNAVAILABLE, "etcdserver: server stopped")
        return host.member

    @property
    def _header(self) -> Any:
        return rpc.ResponseHeader(cluster_id=self._ring.id, member_id=self._id)

    def _confirmed(self) -> None:
        try:
            self._ring.confirm(self._id)
        except NoQuorum as error:
            raise GRPCError(Status.UNAVAILABLE, "etcdserver: no leader") from error

    async def _list(self, _request: Any) -> Any:
        self._confirmed()
        self._workload.listed_at = asyncio.get_running_loop().time()
        members = [
            rpc.Member(
                ID=member.id,
                name=member.name,
                peerURLs=[member.peer_url],
                clientURLs=[f"{member.peer_url[:-4]}2379"] if member.name else [],
                isLearner=member.learner,
            )
            for member in self._ring.members.values()
        ]
        return rpc.MemberListResponse(header=self._header, members=members)

    async def _status(self, _request: Any) -> Any:
        member, ring = self._id, self._ring
        known = ring.members.get(member)
        leader = ring.leader if ring.follows_leader(member) else 0
        return rpc.StatusResponse(header=self._header, version="3.6.0", leader=leader, isLearner=known is not None and known.learner)

    async def _alarms(self, _request: Any) -> Any:
        self._confirmed()
        return rpc.AlarmResponse(header=self._header)

    async def _move(self, request: Any) -> Any:
        if self._ring.leader != self._id:
            raise GRPCError(Status.FAILED_PRECONDITION, "etcdserver: not leader")
        self._ring.move_leader(request.targetID)
        return rpc.MoveLeaderResponse(header=self._header)

    async def _remove(self, request: Any) -> Any:
        self._confirmed()
        if request.ID not in self._ring.members:
            raise GRPCError(Status.NOT_FOUND, "etcdserver: member not found")
        self._ring.remove(request.ID)
        return rpc.MemberRemoveResponse(header=self._header)


def _unary(call: Callable[[Any], Coroutine[Any, Any, Any]]) -> Callable[[Stream[Any, Any]], Coroutine[Any, Any, None]]:
    async def handle(stream: Stream[Any, Any]) -> None:
        await stream.send_message(await call(await stream.recv_message()))

    return handle
