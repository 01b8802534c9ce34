"""A member that answers what no etcd does: whoever has the root of a workload cluster's hosts chooses what its etcd says."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import h2.config
import h2.connection
import h2.events
import pytest
from google.protobuf.message import Message
from grpclib.const import Cardinality, Handler
from grpclib.protocol import H2Protocol
from grpclib.server import Server

from quorate.etcd import rpc_pb2 as rpc
from quorate.etcd.dialers import DirectDialer
from quorate.etcd.errors import EtcdError
from quorate.etcd.grpc_client import GrpcClient, _Protocol
from quorate.etcd.tls import client_context

QUESTIONS: tuple[tuple[str, type[Message]], ...] = (
    ("Cluster/MemberList", rpc.MemberListRequest),
    ("Maintenance/Alarm", rpc.AlarmRequest),
    ("Maintenance/Status", rpc.StatusRequest),
    ("KV/Range", rpc.RangeRequest),
)

PREFIX = b"/registry/secrets/"
HEADERS = ((":status", "200"), ("content-type", "application/grpc+proto"))
GOOD = (("grpc-status", "0"),)


class Hostile:
    """Answers every question with the same message, and a request for a snapshot with it again and again."""

    def __init__(self) -> None:
        self.answer: Message = rpc.StatusResponse()
        self.times = 1

    def __mapping__(self) -> dict[str, Handler]:
        methods = {
            f"/etcdserverpb.{method}": Handler(self._say, Cardinality.UNARY_UNARY, request, Message) for method, request in QUESTIONS
        }
        snapshot = Handler(self._say, Cardinality.UNARY_STREAM, rpc.SnapshotRequest, Message)
        return methods | {"/etcdserverpb.Maintenance/Snapshot": snapshot}

    async def _say(self, stream: Any) -> None:
        await stream.recv_message()
        stream._recv_type, stream._send_type = object, type(self.answer)
        for _ in range(self.times):
            await stream.send_message(self.answer)


class Garbled(asyncio.Protocol):
    """Speaks HTTP/2, and answers every request with these frames, and then these headers, these bytes and these trailers."""

    def __init__(self, headers: Any, data: bytes, trailers: Any, before: bytes = b"") -> None:
        self.connection = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding="ascii"))
        self.headers, self.data, self.trailers, self.before = headers, data, trailers, before

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.connection.initiate_connection()
        transport.write(self.connection.data_to_send())

    def data_received(self, data: bytes) -> None:
        for event in self.connection.receive_data(data):
            if isinstance(event, h2.events.RequestReceived):
                self.transport.write(self.before)
                self.connection.send_headers(event.stream_id, self.headers)
                self.connection.send_data(event.stream_id, self.data, end_stream=not self.trailers)
                if self.trailers:
                    self.connection.send_headers(event.stream_id, self.trailers, end_stream=True)
        self.transport.write(self.connection.data_to_send())


Ask = Callable[[str, Message], Awaitable[Any]]


@pytest.fixture
def ca(make_ca: Callable[[], Any]) -> Any:
    return make_ca()


@pytest.fixture
def context(ca: Any, tmp_path: Path) -> ssl.SSLContext:
    """The member's side of TLS."""
    certificate, key = ca.issue("etcd-cp-a")
    (tmp_path / "crt").write_bytes(certificate)
    (tmp_path / "key").write_bytes(key)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(tmp_path / "crt", tmp_path / "key")
    context.set_alpn_protocols(["h2"])
    return context


@pytest.fixture
async def client(ca: Any, unused_port: int) -> AsyncIterator[GrpcClient]:
    dialer = DirectDialer({"cp-a": ("127.0.0.1", unused_port)})
    client = GrpcClient("cp-a", dialer, client_context(ca.credentials()))
    yield client
    await client.close()


@pytest.fixture
async def hostile(context: ssl.SSLContext, unused_port: int) -> AsyncIterator[Hostile]:
    hostile = Hostile()
    server = Server([hostile])
    await server.start("127.0.0.1", unused_port, ssl=context)
    yield hostile
    server.close()
    await server.wait_closed()


@pytest.fixture
def ask(hostile: Hostile, client: GrpcClient) -> Ask:
    """Asks one thing of a member that answers with this."""

    async def asked(what: str, answer: Message) -> Any:
        hostile.answer = answer
        return await getattr(client, what)()

    return asked


async def test_it_answers_at_all(ask: Ask) -> None:
    assert (await ask("status", rpc.StatusResponse(leader=7))).leader == 7


async def test_more_members_than_any_ring_has_are_refused(ask: Ask) -> None:
    with pytest.raises(EtcdError, match="returned 8000 members, where no ring has more than 100"):
        await ask("members", rpc.MemberListResponse(members=[rpc.Member(ID=number) for number in range(8000)]))


async def test_more_alarms_than_any_ring_has_are_refused(ask: Ask) -> None:
    """Each would be compared with each member: 40,000 of both, in 400 KB, took the process that all clusters share three quarters of a minute."""
    with pytest.raises(EtcdError, match="returned 8000 alarms, where no ring has more than 200"):
        await ask("alarms", rpc.AlarmResponse(alarms=[rpc.AlarmMember(memberID=number, alarm=rpc.NOSPACE) for number in range(8000)]))


URLS = [f"{number:x}" for number in range(100_000)]


@pytest.mark.parametrize("member", [rpc.Member(peerURLs=URLS), rpc.Member(clientURLs=URLS)], ids=["of peers", "of clients"])
async def test_more_addresses_of_a_member_than_any_has_are_refused(ask: Ask, member: rpc.Member) -> None:
    """Each is compared with those of each Machine and Node that the member may run on, several times in each look, once a second."""
    with pytest.raises(EtcdError, match="returned 100000 addresses of one member, where no member has more than 20"):
        await ask("members", rpc.MemberListResponse(members=[member]))


async def test_more_errors_of_a_member_than_there_may_be_alarms_are_refused(ask: Ask) -> None:
    errors = ["alarm"] * 201
    assert len((await ask("status", rpc.StatusResponse(errors=errors))).errors) == 201
    with pytest.raises(EtcdError, match="returned 202 errors, where no member has more than 201"):
        await ask("status", rpc.StatusResponse(errors=[*errors, "alarm"]))


async def test_an_answer_that_is_larger_than_any_is_not_read_to_its_end(ask: Ask) -> None:
    with pytest.raises(EtcdError, match="it sent more than any answer has"):
        await ask("status", rpc.StatusResponse(version="v" * (8 << 20)))
    assert (await ask("status", rpc.StatusResponse(leader=7))).leader == 7


async def test_an_answer_that_cannot_be_read_is_an_error_of_etcd(ask: Ask) -> None:
    with pytest.raises(EtcdError, match="the answer to Maintenance/Status cannot be read"):
        await ask("status", rpc.MemberListResponse(header=rpc.ResponseHeader(), members=[rpc.Member(name="x" * 300)]))


@pytest.mark.parametrize(
    ("headers", "data", "trailers"),
    [
        pytest.param(HEADERS, b"\1\0\0\0\2\10\7", GOOD, id="compressed, which nobody asked for"),
        pytest.param(HEADERS, b"\0\0", GOOD, id="cut off in the length of the message"),
        pytest.param(HEADERS, b"\0\0\0\0\x40only the beginning", GOOD, id="cut off in the message"),
        pytest.param(HEADERS, b"", GOOD, id="well, with no message"),
        pytest.param(HEADERS, b"\0\0\0\0\0", (("grpc-status", "well"),), id="a status that is no number"),
        pytest.param((*HEADERS, ("x-bin", "a")), b"", GOOD, id="a header that should be base64"),
        pytest.param(((":status", "200"),), b"", GOOD, id="of no type"),
        pytest.param((("content-type", "application/grpc"),), b"", GOOD, id="without HTTP's status"),
        pytest.param(((":status", "none"),), b"", GOOD, id="with a status that HTTP does not have"),
    ],
)
async def test_an_answer_that_is_no_grpc_is_an_error_of_etcd(
    context: ssl.SSLContext, client: GrpcClient, unused_port: int, headers: Any, data: bytes, trailers: Any
) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Garbled(headers, data, trailers), "127.0.0.1", unused_port, ssl=context)
    async with server:
        with pytest.raises(EtcdError):
            await client.status()


PING = b"\0\0\x08\x06\0\0\0\0\0" + b"hostile!"
SETTINGS = b"\0\0\6\4\0\0\0\0\0" + b"\0\4\0\0\xff\xff"
EMPTY = b"\0\0\0\0\0\0\0\0\1"  # DATA, of the first stream
UNKNOWN = b"\0\0\0\xfa\0\0\0\0\0"
WELL = b"\0\0\0\0\2\x20\7"  # a StatusResponse: leader 7


@contextlib.asynccontextmanager
async def preceded(context: ssl.SSLContext, port: int, before: bytes) -> AsyncIterator[None]:
    """A member whose answer comes after these frames."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Garbled(HEADERS, WELL, GOOD, before), "127.0.0.1", port, ssl=context)
    async with server:
        yield


@pytest.mark.parametrize("frame", [PING, SETTINGS, EMPTY], ids=["pings", "settings", "nothing"])
async def test_frames_without_end_are_read_no_further(context: ssl.SSLContext, client: GrpcClient, unused_port: int, frame: bytes) -> None:
    """Each costs up to 40 us, and has 9 to 17 bytes: as many as an answer may have of those stop the process that all share for seconds."""
    async with preceded(context, unused_port, frame * 1000):
        with pytest.raises(EtcdError, match="it sent more than any answer has"):
            await client.status()


async def test_what_http2_sends_beside_an_answer_is_no_matter(context: ssl.SSLContext, client: GrpcClient, unused_port: int) -> None:
    async with preceded(context, unused_port, (PING + SETTINGS) * 50):
        assert (await client.status()).leader == 7


async def test_a_frame_that_grpc_does_not_have_is_an_error_of_etcd(
    context: ssl.SSLContext, client: GrpcClient, unused_port: int, caplog: pytest.LogCaptureFixture
) -> None:
    async with preceded(context, unused_port, UNKNOWN):
        with pytest.raises(EtcdError, match="it sent what is no answer"):
            await client.status()
    assert caplog.records == []


@pytest.mark.parametrize("size", [1, 4, 9, 64])
def test_frames_are_counted_wherever_what_comes_in_is_cut(size: int) -> None:
    counted = _Protocol(H2Protocol(Mock(), Mock(), Mock()))
    stream = (PING + EMPTY + b"\0\x10\0\0\0\0\0\0\1" + b"d" * 4096 + SETTINGS) * 3
    assert sum(counted._frames(stream[start : start + size]) for start in range(0, len(stream), size)) == 12


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ((b"a",), "returned a key that was not asked for, or one twice"),  # the same page again and again
        ((b"b", b"a"), "returned a key that was not asked for, or one twice"),
        ((), "announced more keys and returned none"),
    ],
)
async def test_pages_without_end_are_refused(hostile: Hostile, client: GrpcClient, keys: tuple[bytes, ...], said: str) -> None:
    """Whether a Secret is still stored with an old key is read like this: it must not go on for ever, nor pass for read to its end."""
    hostile.answer = rpc.RangeResponse(kvs=[rpc.KeyValue(key=PREFIX + key) for key in keys], more=True)
    with pytest.raises(EtcdError, match=said):
        [each async for each in client.values(PREFIX)]


async def test_keys_of_others_are_refused(hostile: Hostile, client: GrpcClient) -> None:
    hostile.answer = rpc.RangeResponse(kvs=[rpc.KeyValue(key=b"/registry/pods/a")])
    with pytest.raises(EtcdError, match="returned a key that was not asked for"):
        [each async for each in client.values(PREFIX)]


async def test_values_that_are_larger_than_a_question_about_the_ring_may_answer_are_read(hostile: Hostile, client: GrpcClient) -> None:
    hostile.answer = rpc.RangeResponse(kvs=[rpc.KeyValue(key=PREFIX + str(n).encode(), value=b"v" * (1 << 20)) for n in range(5)])
    assert len([each async for each in client.values(PREFIX)]) == 5


async def test_a_snapshot_is_read_to_its_end_and_no_piece_of_it_without_end(hostile: Hostile, client: GrpcClient) -> None:
    hostile.answer, hostile.times = rpc.SnapshotResponse(blob=b"p" * (1 << 20)), 24
    assert len([piece async for piece in client.snapshot()]) == 24
    hostile.answer, hostile.times = rpc.SnapshotResponse(blob=b"p" * (24 << 20)), 1
    with pytest.raises(EtcdError, match="it sent more than any answer has"):
        [piece async for piece in client.snapshot()]
