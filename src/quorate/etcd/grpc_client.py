"""The client of one etcd member over gRPC: grpclib on a connection that a dialer opened, and the translation of its answers and failures."""

from __future__ import annotations

import asyncio
import ssl
import struct
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from typing import TypeVar

import grpclib.client
from google.protobuf.message import DecodeError, Message
from grpclib.client import UnaryStreamMethod, UnaryUnaryMethod
from grpclib.exceptions import GRPCError, ProtocolError, StreamTerminatedError
from grpclib.protocol import H2Protocol

from quorate.etcd import rpc_pb2 as rpc
from quorate.etcd.client import CALL_TIMEOUT, DIAL_TIMEOUT, Alarm, Member, MemberList, Status
from quorate.etcd.dialers import CLIENT_PORT, Connection, Dialer, WayEnds
from quorate.etcd.errors import ConnectionLost, DeadlineExceeded, NoWay, Refused, Unreachable, from_status

_Request = TypeVar("_Request", bound=Message)
_Reply = TypeVar("_Reply", bound=Message)

_CLOSE_TIMEOUT = 1.0  # seconds that the TLS farewell may take before the connection is dropped
_PAGE = 50  # values in one answer
_MOST_KEYS = 10_000_000  # below a prefix: in the 8 GiB that etcd should have at most, objects of Kubernetes are fewer
_MOST_MEMBERS = 100  # of a ring; etcd's own advice is seven. Each is compared with everybody's alarms, of which it has two kinds
_MOST_ALARMS = 2 * _MOST_MEMBERS  # two kinds of each
_MOST_ERRORS = _MOST_ALARMS + 1  # of a status: each alarm, and that there is no leader
_MOST_URLS = 20  # of a member, of either kind: one as a rule. Each is compared with each address of each Machine and Node

_LARGEST = 1 << 20  # bytes that may come in during a question about the ring: a list of seven members has 1 KiB
_LARGEST_PAGE = _PAGE * (2 << 20)  # during a page of values; etcd takes requests of 1.5 MiB, unless it is told otherwise
_LARGEST_PIECE = (
    16 << 20
)  # for a piece of a snapshot: etcd sends 32 KiB at a time, and up to 4 MiB ahead (the window that grpclib gives it)

_FRAME = (
    4 << 10
)  # bytes that a frame of HTTP/2 counts for beside its own: one without any costs as much CPU as these, and there is room for 100,000 in 1 MiB
_FRAME_HEADER = 9

# What grpclib raises for an answer that is none: no protobuf, or compressed, which nobody asked for; cut off in a message or before it; a header that is
# missing or of no sense.
_UNREADABLE = (DecodeError, NotImplementedError, AssertionError, struct.error, LookupError, ValueError)


class _Protocol(H2Protocol):
    """grpclib's protocol, and the moment and cause of the end of its connection, which grpclib does not tell."""

    def __init__(self, new: H2Protocol) -> None:
        super().__init__(new.handler, new.config, new.h2_config)
        self.ended = asyncio.Event()
        self.cause: BaseException | None = None
        self.transport: asyncio.BaseTransport | None = None
        self.allowance = _LARGEST  # bytes that may come in until somebody says otherwise
        self._begun = b""  # of the header of a frame that has not come to its end
        self._of_frame = 0  # bytes that are still to come of the latest frame

    def data_received(self, data: bytes) -> None:
        self.allowance -= len(data) + _FRAME * self._frames(data)
        if self.allowance < 0:
            self._drop("it sent more than any answer has")
            return
        try:
            super().data_received(data)
        except NotImplementedError as error:  # what HTTP/2 has and gRPC does not
            self._drop(f"it sent what is no answer: {error}")

    def _frames(self, data: bytes) -> int:
        """How many frames' headers are complete with this."""
        found, position = 0, self._of_frame
        data = self._begun + data
        while position + _FRAME_HEADER <= len(data):
            found += 1
            position += _FRAME_HEADER + int.from_bytes(data[position : position + 3])
        self._begun, self._of_frame = data[position:], max(0, position - len(data))
        return found

    def _drop(self, cause: str) -> None:
        self.cause = ConnectionError(cause)
        if isinstance(self.transport, asyncio.WriteTransport):
            self.transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        super().connection_made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        self.cause = self.cause or exc
        self.ended.set()
        super().connection_lost(exc)


class _Channel(grpclib.client.Channel):
    """A grpclib channel whose connection comes from a dialer. Overrides private hooks of grpclib 0.4: tests/etcd/test_grpclib_contract.py watches them."""

    def __init__(self, node: str, dialer: Dialer, context: ssl.SSLContext, dial_timeout: float) -> None:
        super().__init__(f"etcd-{node}", CLIENT_PORT, ssl=context)
        self._node = node
        self._dialer = dialer
        self._context = context
        self._dial_timeout = dial_timeout
        self._connection: Connection | None = None
        self._latest: _Protocol | None = None
        self._expected: list[int] = []  # bytes, of each call under way

    def _get_authority(self, host: str, port: int) -> str:  # noqa: ARG002 (grpclib's signature)
        # Without the port: Cluster API's in-memory provider finds the member by the authority minus "etcd-".
        return host

    async def _create_connection(self) -> H2Protocol:
        await self.aclose()  # what is left of the connection before this one
        async with asyncio.timeout(self._dial_timeout):
            self._connection = connection = await self._dialer.dial(self._node)
            try:
                self._latest = await self._handshake(connection)
            except BaseException:
                await connection.aclose()
                raise
        self.go_on()
        return self._latest

    async def _handshake(self, connection: Connection) -> _Protocol:
        loop = asyncio.get_running_loop()
        _, protocol = await loop.create_connection(
            lambda: _Protocol(self._protocol_factory()), sock=connection.socket, ssl=self._context, server_hostname=self._host
        )
        return protocol

    @contextmanager
    def expecting(self, most: int) -> Iterator[None]:
        """So many bytes may come in during the block, or as many as another call that is under way expects."""
        self._expected.append(most)
        self.go_on()
        try:
            yield
        finally:
            self._expected.remove(most)

    def go_on(self) -> None:
        """What is expected may come in once more: part of it was taken."""
        if self._latest is not None:
            self._latest.allowance = max(self._expected, default=_LARGEST)

    def cause_of_loss(self) -> str:
        """What is known of why there is no connection (any more); empty where nothing is."""
        if self._connection is not None and self._connection.failure:
            return self._connection.failure
        return str(self._latest.cause) if self._latest is not None and self._latest.cause is not None else ""

    async def aclose(self) -> None:
        """Say farewell, then release the connection whatever the other side does. Safe to cancel: what is not waited for is dropped."""
        connection, latest = self._connection, self._latest
        self._connection = self._latest = None
        try:
            if latest is not None:
                await _close(latest)
        finally:
            if connection is not None:
                await connection.aclose()


async def _close(protocol: _Protocol) -> None:
    protocol.processor.close()
    try:
        async with asyncio.timeout(_CLOSE_TIMEOUT):
            await protocol.ended.wait()
    except TimeoutError:
        return  # no answer to the farewell: dropped below
    finally:
        if isinstance(protocol.transport, asyncio.WriteTransport):
            protocol.transport.abort()


class GrpcClient:
    """The etcd member on one node: a SnapshotClient. Connects at the first call, and again at the next call after a connection is lost.

    `dial_timeout` and `call_timeout` are seconds; a call that has to dial may take their sum. A member that sends more than an answer can have loses its
    connection.
    """

    def __init__(
        self,
        node: str,
        dialer: Dialer,
        context: ssl.SSLContext,
        *,
        dial_timeout: float = DIAL_TIMEOUT,
        call_timeout: float = CALL_TIMEOUT,
    ) -> None:
        self._node = node
        self._call_timeout = call_timeout
        self._dial_timeout = dial_timeout
        self._channel = _Channel(node, dialer, context, dial_timeout)

    async def members(self) -> MemberList:
        """The members, read linearizably."""
        reply = await self._call("Cluster/MemberList", rpc.MemberListRequest(linearizable=True), rpc.MemberListResponse)
        self._refuse_more("members", len(reply.members), _MOST_MEMBERS)
        for member in reply.members:
            self._refuse_more("addresses of one member", max(len(member.peerURLs), len(member.clientURLs)), _MOST_URLS, "member")
        return MemberList(reply.header.cluster_id, tuple(_member(member) for member in reply.members))

    async def status(self) -> Status:
        """What this member says of itself."""
        reply = await self._call("Maintenance/Status", rpc.StatusRequest(), rpc.StatusResponse)
        self._refuse_more("errors", len(reply.errors), _MOST_ERRORS, "member")
        return Status(
            member_id=reply.header.member_id,
            leader=reply.leader,
            version=reply.version,
            db_size=reply.dbSize,
            raft_index=reply.raftIndex,
            raft_applied_index=reply.raftAppliedIndex,
            learner=reply.isLearner,
            revision=reply.header.revision,
            errors=tuple(reply.errors),
        )

    async def alarms(self) -> tuple[Alarm, ...]:
        """The alarms of every member."""
        reply = await self._call("Maintenance/Alarm", rpc.AlarmRequest(action=rpc.AlarmRequest.GET), rpc.AlarmResponse)
        self._refuse_more("alarms", len(reply.alarms), _MOST_ALARMS)
        return tuple(Alarm(alarm.memberID, _alarm_kind(alarm.alarm)) for alarm in reply.alarms if alarm.alarm != rpc.NONE)

    async def move_leader(self, target_id: int) -> None:
        """Hand leadership to the member with this id."""
        await self._call("Maintenance/MoveLeader", rpc.MoveLeaderRequest(targetID=target_id), rpc.MoveLeaderResponse)

    async def remove_member(self, member_id: int) -> None:
        """Remove a member."""
        await self._call("Cluster/MemberRemove", rpc.MemberRemoveRequest(ID=member_id), rpc.MemberRemoveResponse)

    async def values(self, prefix: bytes) -> AsyncGenerator[tuple[bytes, bytes], None]:
        """Every key below the prefix with its value, a page after the other. Raises Refused where the pages make no sense together."""
        start, end, told, more = prefix, _after(prefix), 0, True
        while more:
            request = rpc.RangeRequest(key=start, range_end=end, limit=_PAGE)
            reply = await self._call("KV/Range", request, rpc.RangeResponse, _LARGEST_PAGE)
            for each in reply.kvs:
                if not start <= each.key < end:
                    raise Refused(self._node, "DATA_LOSS", "returned a key that was not asked for, or one twice")
                yield each.key, each.value
                start = each.key + b"\0"  # the next key that there can be
            told += len(reply.kvs)
            self._refuse_more("keys", told, _MOST_KEYS, "cluster")
            if reply.more and not reply.kvs:
                raise Refused(self._node, "DATA_LOSS", "announced more keys and returned none")
            more = reply.more

    async def snapshot(self) -> AsyncGenerator[bytes, None]:
        """The member's database file, and its SHA-256."""
        method = "Maintenance/Snapshot"
        await self._connect()
        call = UnaryStreamMethod(self._channel, f"/etcdserverpb.{method}", rpc.SnapshotRequest, rpc.SnapshotResponse)
        with self._translated(method), self._channel.expecting(_LARGEST_PIECE):
            async with call.open() as stream:
                await stream.send_message(rpc.SnapshotRequest(), end=True)
                while True:
                    self._channel.go_on()
                    async with asyncio.timeout(self._call_timeout):
                        reply = await stream.recv_message()
                    if reply is None:
                        return
                    yield reply.blob

    async def close(self) -> None:
        """Close the connection. Idempotent."""
        self._channel.close()
        await self._channel.aclose()

    async def _call(self, method: str, request: _Request, reply_type: type[_Reply], largest: int = _LARGEST) -> _Reply:
        await self._connect()
        call = UnaryUnaryMethod(self._channel, f"/etcdserverpb.{method}", type(request), reply_type)
        with self._translated(method), self._channel.expecting(largest):
            async with asyncio.timeout(self._call_timeout):
                return await call(request, timeout=self._call_timeout)  # which tells etcd the deadline too

    def _refuse_more(self, what: str, found: int, most: int, where: str = "ring") -> None:
        """Raise Refused for more than any has: members and alarms in an answer of 400 KB would otherwise take minutes to compare, and keys may have no end."""
        if found > most:
            raise Refused(self._node, "OUT_OF_RANGE", f"returned {found} {what}, where no {where} has more than {most}")

    @contextmanager
    def _translated(self, method: str) -> Iterator[None]:
        """Turn what grpclib raises into our errors, at this one place."""
        try:
            yield
        except GRPCError as error:
            raise from_status(self._node, error.status.name, error.message or "") from error
        except TimeoutError as error:
            raise DeadlineExceeded(self._node, f"no answer to {method} within {self._call_timeout:g} s") from error
        except (StreamTerminatedError, ProtocolError, OSError) as error:
            raise ConnectionLost(self._node, f"connection lost during {method}: {self._channel.cause_of_loss() or error}") from error
        except _UNREADABLE as error:
            raise Refused(
                self._node, "DATA_LOSS", f"the answer to {method} cannot be read: {type(error).__name__} {error}".rstrip()
            ) from error

    async def _connect(self) -> None:
        try:
            await self._channel.__connect__()
        except TimeoutError as error:
            raise Unreachable(self._node, f"not connected within {self._dial_timeout:g} s") from error
        except WayEnds as error:
            raise NoWay(self._node, str(error)) from error
        except OSError as error:  # ssl.SSLError among them
            raise Unreachable(self._node, self._channel.cause_of_loss() or str(error) or type(error).__name__) from error


def _after(prefix: bytes) -> bytes:
    """The first key behind all that begin with this prefix, which does not end in 0xff."""
    return prefix[:-1] + bytes((prefix[-1] + 1,))


def _member(member: rpc.Member) -> Member:
    return Member(member.ID, member.name, tuple(member.peerURLs), tuple(member.clientURLs), member.isLearner)


def _alarm_kind(kind: int) -> str:
    return rpc.AlarmType.Name(kind) if kind in rpc.AlarmType.values() else str(kind)
