"""The client through port-forward: a fake API server bridging to a real etcd, and the ways in which bridges break."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from quorate.etcd.dialers import PortForwardDialer
from quorate.etcd.errors import ConnectionLost, DeadlineExceeded, NoWay, Unreachable
from quorate.etcd.grpc_client import GrpcClient
from quorate.etcd.port_forward import PortForward
from quorate.etcd.tls import client_context

pytestmark = pytest.mark.integration


def forwarded(ring: Any, port_forward: Any, node: str = "cp-a", *, dial_timeout: float = 10.0, call_timeout: float = 15.0) -> GrpcClient:
    port_forward.ports = {f"etcd-{name}": port for name, port in ring.client_ports.items()}
    dialer = PortForwardDialer(port_forward.open_websocket)
    return GrpcClient(node, dialer, client_context(ring.credentials), dial_timeout=dial_timeout, call_timeout=call_timeout)


async def test_every_question_works_through_one_websocket(ring: Any, port_forward: Any) -> None:
    client = forwarded(ring, port_forward)
    assert len((await client.members()).members) == 3
    assert (await client.status()).leader
    assert await client.alarms() == ()
    assert port_forward.requests == ["/api/v1/namespaces/kube-system/pods/etcd-cp-a/portforward?ports=2379"]
    await client.close()


async def test_closing_ends_the_websocket_and_the_task(ring: Any, port_forward: Any) -> None:
    client = forwarded(ring, port_forward)
    await client.status()
    before = len(asyncio.all_tasks())
    await client.close()
    await client.close()
    (bridge,) = port_forward.bridges
    assert bridge.closed
    assert not [task for task in asyncio.all_tasks() if task.get_name() == "etcd port-forward"]
    assert len(asyncio.all_tasks()) < before


async def test_many_calls_at_once_share_the_stream(ring: Any, port_forward: Any) -> None:
    client = forwarded(ring, port_forward)
    await asyncio.gather(*(client.members() for _ in range(50)))
    assert port_forward.opened == 1
    await client.close()


async def test_error_text_of_the_kubelet_is_in_the_error(ring: Any, port_forward: Any) -> None:
    port_forward.error_text = "error forwarding port 2379 to pod 1a2b: connection refused"
    client = forwarded(ring, port_forward)
    with pytest.raises(Unreachable, match="error forwarding port 2379 to pod 1a2b: connection refused"):
        await client.status()
    await client.close()


async def test_an_abrupt_end_during_a_call_fails_it_at_once_and_the_next_call_dials_again(own_ring: Any, port_forward: Any) -> None:
    client = forwarded(own_ring, port_forward)
    await client.status()
    own_ring.suspend("cp-a")
    async with asyncio.TaskGroup() as tasks:
        call = tasks.create_task(_failure_of(client))
        await asyncio.sleep(0)
        port_forward.bridges[0]._req.transport.abort()
        assert "connection lost during Maintenance/Status: port-forward closed by the API server" in await call
    own_ring.resume("cp-a")
    assert (await client.status()).version
    assert port_forward.opened == 2
    await client.close()


async def _failure_of(client: GrpcClient) -> str:
    with pytest.raises(ConnectionLost) as caught:
        await client.status()
    return str(caught.value)


async def test_a_connection_that_ended_while_idle_is_dialled_again_unseen(ring: Any, port_forward: Any) -> None:
    client = forwarded(ring, port_forward)
    await client.status()
    await port_forward.bridges[0].close()
    protocol = client._channel._latest
    assert protocol is not None
    await protocol.ended.wait()
    assert (await client.status()).leader
    assert port_forward.opened == 2
    await client.close()


async def test_a_server_error_of_the_first_moments_is_tried_again(ring: Any, port_forward: Any) -> None:
    port_forward.refusals = [500, 503]
    client = forwarded(ring, port_forward)
    assert (await client.status()).leader
    assert len(port_forward.requests) == 3
    await client.close()


async def test_a_pod_that_does_not_exist_is_final(ring: Any, port_forward: Any) -> None:
    port_forward.refusals = [404, 404]
    client = forwarded(ring, port_forward)
    with pytest.raises(NoWay, match="there is no Pod kube-system/etcd-"):
        await client.status()
    assert len(port_forward.requests) == 1
    await client.close()


async def test_server_errors_without_end_stay_within_the_dial_deadline(ring: Any, port_forward: Any) -> None:
    port_forward.refusals = [500] * 100
    client = forwarded(ring, port_forward, dial_timeout=0.4)
    with pytest.raises(Unreachable, match=r"not connected within 0\.4 s"):
        await client.status()
    await client.close()


async def test_a_frame_that_the_protocol_does_not_have_ends_the_stream(ring: Any, port_forward: Any) -> None:
    port_forward.first_frame = b""
    client = forwarded(ring, port_forward)
    with pytest.raises(Unreachable, match="frame that its protocol does not have"):
        await client.status()
    await client.close()


async def test_a_call_that_ends_at_its_deadline_leaves_the_stream_usable(own_ring: Any, port_forward: Any) -> None:
    client = forwarded(own_ring, port_forward, call_timeout=2.0)
    await client.status()
    own_ring.suspend("cp-a")
    with pytest.raises(DeadlineExceeded):
        await client.status()
    own_ring.resume("cp-a")
    await own_ring.ready("cp-a")
    assert (await client.status()).version
    assert port_forward.opened == 1
    await client.close()


async def test_a_forward_closed_before_its_first_step_releases_everything(port_forward: Any) -> None:
    websocket = await port_forward.open_websocket(
        "/api/v1/namespaces/kube-system/pods/etcd-x/portforward?ports=2379", ("v4.channel.k8s.io",)
    )
    forward = PortForward.start(websocket)
    await forward.aclose()
    assert websocket.closed
    assert forward.socket.fileno() == -1
    assert forward._theirs.fileno() == -1
