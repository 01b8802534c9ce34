"""A member that answers what no etcd does: whoever has the root of a workload cluster's hosts chooses what its etcd says."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.message import Message
from grpclib.const import Cardinality, Handler
from grpclib.server import Server

from quorate.etcd import rpc_pb2 as rpc
from quorate.etcd.dialers import DirectDialer
from quorate.etcd.errors import EtcdError
from quorate.etcd.grpc_client import LARGEST, GrpcClient
from quorate.etcd.tls import client_context

QUESTIONS: tuple[tuple[str, type[Message]], ...] = (
    ("Cluster/MemberList", rpc.MemberListRequest),
    ("Maintenance/Alarm", rpc.AlarmRequest),
    ("Maintenance/Status", rpc.StatusRequest),
)


class Hostile:
    """Answers every question with the same message."""

    def __init__(self) -> None:
        self.answer: Message = rpc.StatusResponse()

    def __mapping__(self) -> dict[str, Handler]:
        return {f"/etcdserverpb.{method}": Handler(self._say, Cardinality.UNARY_UNARY, request, Message) for method, request in QUESTIONS}

    async def _say(self, stream: Any) -> None:
        await stream.recv_message()
        stream._recv_type, stream._send_type = object, type(self.answer)
        await stream.send_message(self.answer)


Ask = Callable[[str, Message], Awaitable[Any]]


@pytest.fixture
async def ask(make_authority: Callable[[], Any], tmp_path: Path, unused_port: int) -> AsyncIterator[Ask]:
    """Asks one thing of a member that answers with this."""
    authority, hostile = make_authority(), Hostile()
    certificate, key = authority.issue("etcd-cp-a")
    (tmp_path / "crt").write_bytes(certificate)
    (tmp_path / "key").write_bytes(key)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(tmp_path / "crt", tmp_path / "key")
    context.set_alpn_protocols(["h2"])
    server = Server([hostile])
    await server.start("127.0.0.1", unused_port, ssl=context)
    dialer = DirectDialer({"cp-a": ("127.0.0.1", unused_port)})
    client = GrpcClient("cp-a", dialer, client_context(authority.credentials()), largest=LARGEST)

    async def asked(what: str, answer: Message) -> Any:
        hostile.answer = answer
        return await getattr(client, what)()

    yield asked
    await client.close()
    server.close()
    await server.wait_closed()


async def test_it_answers_at_all(ask: Ask) -> None:
    assert (await ask("status", rpc.StatusResponse(leader=7))).leader == 7


async def test_more_members_than_any_ring_has_are_refused(ask: Ask) -> None:
    with pytest.raises(EtcdError, match="told of 8000 members, where no ring has more than 100"):
        await ask("members", rpc.MemberListResponse(members=[rpc.Member(ID=number) for number in range(8000)]))


async def test_more_alarms_than_any_ring_has_are_refused(ask: Ask) -> None:
    """Each would be compared with each member: 40,000 of both, in 400 KB, took the process that all clusters share three quarters of a minute."""
    with pytest.raises(EtcdError, match="told of 8000 alarms, where no ring has more than 200"):
        await ask("alarms", rpc.AlarmResponse(alarms=[rpc.AlarmMember(memberID=number, alarm=rpc.NOSPACE) for number in range(8000)]))


async def test_an_answer_that_is_larger_than_any_is_not_read_to_its_end(ask: Ask) -> None:
    with pytest.raises(EtcdError, match="it sent more than any answer has"):
        await ask("status", rpc.StatusResponse(version="v" * (8 << 20)))
    assert (await ask("status", rpc.StatusResponse(leader=7))).leader == 7


async def test_an_answer_that_cannot_be_read_is_an_error_of_etcd(ask: Ask) -> None:
    with pytest.raises(EtcdError, match="the answer to Maintenance/Status cannot be read"):
        await ask("status", rpc.MemberListResponse(header=rpc.ResponseHeader(), members=[rpc.Member(name="x" * 300)]))
