"""The client against a real etcd ring, dialled directly."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import Any

import pytest

from quorate.etcd import rpc_pb2 as rpc
from quorate.etcd.dialers import DirectDialer, InMemoryDialer
from quorate.etcd.errors import DeadlineExceeded, MemberNotFound, NoLeader, NotLeader, Refused, Unreachable
from quorate.etcd.grpc_client import GrpcClient
from quorate.etcd.tls import Credentials, client_context

pytestmark = pytest.mark.integration

Connect = Callable[[Any, str], GrpcClient]


async def leader_of(ring: Any, connect: Connect) -> tuple[str, dict[str, int]]:
    """The leader's node, and every member's id by node."""
    ids = {member.name: member.id for member in (await connect(ring, "cp-a").members()).members}
    leader = (await connect(ring, "cp-a").status()).leader
    return next(node for node, member_id in ids.items() if member_id == leader), ids


async def test_members_tell_names_urls_and_the_cluster(ring: Any, connect: Connect) -> None:
    listing = await connect(ring, "cp-a").members()
    assert {member.name for member in listing.members} == {"cp-a", "cp-b", "cp-c"}
    assert all(member.id and not member.learner for member in listing.members)
    assert {member.name: member.peer_urls for member in listing.members} == {
        node: (ring.peer_url(node),) for node in ("cp-a", "cp-b", "cp-c")
    }
    assert all(len(member.client_urls) == 1 for member in listing.members)
    assert listing.cluster_id


async def test_each_member_tells_its_own_status_and_one_leader(ring: Any, connect: Connect) -> None:
    members = {member.name: member.id for member in (await connect(ring, "cp-b").members()).members}
    statuses = {node: await connect(ring, node).status() for node in members}
    assert {node: status.member_id for node, status in statuses.items()} == members
    assert len({status.leader for status in statuses.values()} - {0}) == 1
    assert all(
        status.version.startswith("3.") and status.db_size > 0 and status.raft_index >= status.raft_applied_index > 0
        for status in statuses.values()
    )


async def test_there_are_no_alarms_in_a_new_ring(ring: Any, connect: Connect) -> None:
    assert await connect(ring, "cp-a").alarms() == ()


async def test_every_value_below_a_prefix_is_told_and_no_other(ring: Any, connect: Connect) -> None:
    client = connect(ring, "cp-a")
    stored = {b"/registry/secrets/%03d" % number: b"k8s:enc:%d" % number for number in range(120)}
    for key, value in {**stored, b"/registry/secret": b"before", b"/registry/secrets0": b"behind"}.items():
        await client._call("KV/Put", rpc.RangeRequest(key=key, range_end=value), rpc.RangeResponse)  # a PutRequest has the same two fields
    assert {key: value async for key, value in connect(ring, "cp-b").values(b"/registry/secrets/")} == stored
    assert [key async for key, _ in client.values(b"/registry/nothing/")] == []


async def test_leadership_goes_to_whom_it_is_handed(ring: Any, connect: Connect) -> None:
    leader, ids = await leader_of(ring, connect)
    target = next(node for node in ids if node != leader)
    await connect(ring, leader).move_leader(ids[target])
    assert (await connect(ring, leader).status()).leader == ids[target]


async def test_only_the_leader_hands_leadership_over(ring: Any, connect: Connect) -> None:
    leader, ids = await leader_of(ring, connect)
    follower = next(node for node in ids if node != leader)
    with pytest.raises(NotLeader, match=follower):
        await connect(ring, follower).move_leader(ids[follower])


async def test_leadership_is_not_handed_to_a_stranger(ring: Any, connect: Connect) -> None:
    leader, _ = await leader_of(ring, connect)
    with pytest.raises(Refused, match="bad leader transferee"):
        await connect(ring, leader).move_leader(4711)


async def test_a_stranger_cannot_be_removed(ring: Any, connect: Connect) -> None:
    with pytest.raises(MemberNotFound):
        await connect(ring, "cp-a").remove_member(4711)


async def test_calls_at_once_share_one_connection(ring: Any) -> None:
    client = ring.client("cp-a")
    await asyncio.gather(*(client.members() for _ in range(20)))
    assert client._channel._calls_succeeded == 20
    await client.close()


async def test_a_removed_member_is_gone_and_removing_it_again_says_so(own_ring: Any, connect: Connect) -> None:
    leader, ids = await leader_of(own_ring, connect)
    victim = next(node for node in ids if node != leader)
    client = connect(own_ring, leader)
    await client.remove_member(ids[victim])
    assert {member.name for member in (await client.members()).members} == set(ids) - {victim}
    with pytest.raises(MemberNotFound):
        await client.remove_member(ids[victim])


async def test_without_a_majority_the_list_is_refused_and_the_status_still_answers(own_ring: Any, connect: Connect) -> None:
    client = connect(own_ring, "cp-a")
    await client.members()
    own_ring.kill("cp-b", "cp-c")
    with pytest.raises(NoLeader):
        await client.members()
    status = await client.status()
    assert status.leader == 0
    assert any("no leader" in error for error in status.errors)


async def test_a_member_that_never_started_has_no_name(own_ring: Any, connect: Connect) -> None:
    own_ring.reserve("cp-d")
    await own_ring.add("cp-d", learner=False)
    (stranger,) = [member for member in (await connect(own_ring, "cp-a").members()).members if not member.name]
    assert stranger.peer_urls == (own_ring.peer_url("cp-d"),)
    assert not stranger.learner
    assert stranger.client_urls == ()


async def test_a_learner_is_told_as_one_and_cannot_list_members(own_ring: Any, connect: Connect) -> None:
    own_ring.reserve("cp-d")
    await own_ring.add("cp-d", learner=True)
    own_ring.start("cp-d", state="existing", members=("cp-a", "cp-b", "cp-c", "cp-d"))
    await own_ring.ready("cp-d")
    assert (await connect(own_ring, "cp-d").status()).learner
    assert [member.learner for member in (await connect(own_ring, "cp-a").members()).members if member.name == "cp-d"] == [True]
    with pytest.raises(Refused, match="not supported for learner"):
        await connect(own_ring, "cp-d").members()


async def test_a_member_killed_between_calls_is_unreachable_and_is_dialled_again(own_ring: Any, connect: Connect) -> None:
    client = connect(own_ring, "cp-b")
    await client.status()
    own_ring.kill("cp-b")
    with pytest.raises(Unreachable, match="cp-b"):
        await client.status()
    own_ring.start("cp-b", members=("cp-a", "cp-b", "cp-c"))
    await own_ring.ready("cp-b")
    assert (await client.status()).leader


async def test_a_foreign_ca_is_not_trusted(ring: Any, make_ca: Callable[[], Any]) -> None:
    mine = ring.credentials
    foreign = Credentials(make_ca().pem, mine.certificate, mine.key)
    client = GrpcClient("cp-a", ring.dialer(), client_context(foreign))
    with pytest.raises(Unreachable, match="CERTIFICATE_VERIFY_FAILED"):
        await client.status()
    await client.close()


async def test_a_foreign_client_is_not_let_in(ring: Any, make_ca: Callable[[], Any]) -> None:
    foreign = make_ca().credentials()
    client = GrpcClient("cp-a", ring.dialer(), client_context(Credentials(ring.ca.pem, foreign.certificate, foreign.key)))
    with pytest.raises(Unreachable, match="cp-a"):
        await client.status()
    await client.close()


async def test_the_in_memory_dialer_reaches_one_endpoint_for_any_node(ring: Any) -> None:
    client = GrpcClient("whoever", InMemoryDialer("127.0.0.1", ring.client_ports["cp-c"]), client_context(ring.credentials))
    member_id = (await client.status()).member_id
    assert [member.name for member in (await client.members()).members if member.id == member_id] == ["cp-c"]
    await client.close()


async def test_a_node_without_an_address_is_unreachable(ring: Any) -> None:
    client = GrpcClient("cp-x", DirectDialer({}), client_context(ring.credentials))
    with pytest.raises(Unreachable, match="no address is known for node cp-x"):
        await client.status()
    await client.close()


@pytest.mark.parametrize("host", ["etcd..example.com", "a" * 64])
async def test_a_name_that_cannot_be_looked_up_is_unreachable(ring: Any, host: str) -> None:
    client = GrpcClient("cp-x", DirectDialer({"cp-x": (host, 2379)}), client_context(ring.credentials))
    with pytest.raises(Unreachable, match=f"{host}: label (empty or )?too long"):
        await client.status()
    await client.close()


async def test_nobody_listening_is_unreachable_with_the_address(ring: Any, unused_port: int) -> None:
    client = GrpcClient("cp-x", DirectDialer({"cp-x": ("127.0.0.1", unused_port)}), client_context(ring.credentials))
    with pytest.raises(Unreachable, match=f"127.0.0.1:{unused_port}.*refused"):
        await client.status()
    await client.close()


async def test_a_server_that_never_speaks_ends_the_dial_in_time(ring: Any, silent_port: int) -> None:
    client = GrpcClient("cp-x", DirectDialer({"cp-x": ("127.0.0.1", silent_port)}), client_context(ring.credentials), dial_timeout=0.2)
    with pytest.raises(Unreachable, match=r"not connected within 0\.2 s"):
        await client.status()
    await client.close()


async def test_a_member_that_is_stopped_ends_the_call_in_time(own_ring: Any) -> None:
    client = own_ring.client("cp-a", call_timeout=2.0)
    await client.status()
    own_ring.suspend("cp-a")
    try:
        with pytest.raises(DeadlineExceeded, match=r"Maintenance/Status within 2 s"):
            await client.status()
    finally:
        own_ring.resume("cp-a")
        await client.close()


def test_malformed_credentials_name_what_is_wrong(make_ca: Callable[[], Any]) -> None:
    ca = make_ca()
    good = ca.credentials()
    with pytest.raises(ValueError, match="ca"):
        client_context(Credentials(b"nonsense", good.certificate, good.key))
    with pytest.raises(ValueError, match="pair"):
        client_context(Credentials(good.ca, good.certificate, ca.credentials().key))


def test_the_key_is_not_in_the_representation(make_ca: Callable[[], Any]) -> None:
    credentials = make_ca().credentials()
    assert b"PRIVATE KEY" in credentials.key
    assert "PRIVATE KEY" not in repr(credentials)


def test_old_tls_is_not_spoken(make_ca: Callable[[], Any]) -> None:
    context = client_context(make_ca().credentials())
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert not context.check_hostname
