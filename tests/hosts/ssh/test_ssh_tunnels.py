"""Streams through a host: to addresses and Unix sockets as the host sees them, and how they end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from quorate.etcd.dialers import Connection
from quorate.hosts.connect.ssh.errors import TunnelRefused
from quorate.hosts.connect.ssh.host import SshHost
from quorate.hosts.connect.ssh.tunnel import Tunnel
from tests.hosts.ssh.machine import Machine


class Echo:
    """Sends back what it gets; `connections` are its open ones."""

    def __init__(self) -> None:
        self.writers: list[asyncio.StreamWriter] = []

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.close()


@pytest.fixture
async def echo() -> AsyncIterator[tuple[Echo, int]]:
    echo = Echo()
    server = await asyncio.start_server(echo.answer, "127.0.0.1", 0)
    async with server:
        yield echo, server.sockets[0].getsockname()[1]
        for writer in echo.writers:
            writer.close()


async def exchanged(tunnel: Tunnel, data: bytes) -> bytes:
    loop = asyncio.get_running_loop()

    async def receive() -> bytes:
        received = b""
        while len(received) < len(data) and (piece := await loop.sock_recv(tunnel.socket, 65536)):
            received += piece
        return received

    async with asyncio.TaskGroup() as both:
        both.create_task(loop.sock_sendall(tunnel.socket, data))
        answer = both.create_task(receive())
    return answer.result()


async def test_a_stream_carries_what_is_sent_both_ways(host: SshHost, machine: Machine, echo: tuple[Echo, int]) -> None:
    tunnel = await host.forward("127.0.0.1", echo[1])
    as_etcd_needs_it: Connection = tunnel
    data = bytes(range(256)) * 8192
    assert await exchanged(tunnel, data) == data
    assert machine.forwarded == [("127.0.0.1", echo[1])]
    await as_etcd_needs_it.aclose()
    await tunnel.aclose()


async def test_a_stream_to_a_unix_socket_is_one_too(host: SshHost, machine: Machine) -> None:
    echo = Echo()
    path = Path(machine.folder, "s")
    async with await asyncio.start_unix_server(echo.answer, path):
        tunnel = await host.forward_socket(str(path))
        assert await exchanged(tunnel, b"hello") == b"hello"
        await tunnel.aclose()
    assert machine.forwarded == [str(path)]


async def test_streams_and_scripts_share_one_connection(host: SshHost, machine: Machine, echo: tuple[Echo, int]) -> None:
    tunnels = [await host.forward("127.0.0.1", echo[1]) for _ in range(20)]
    assert (await host.run("echo hello", deadline=10, sudo=False)).stdout == b"hello\n"
    for number, tunnel in enumerate(tunnels):
        assert await exchanged(tunnel, b"%d" % number) == b"%d" % number
        await tunnel.aclose()
    assert len(machine.connections) == 1


async def test_nothing_that_listens_is_an_error_with_the_address(host: SshHost, unused_tcp_port: int) -> None:
    with pytest.raises(TunnelRefused, match=rf"^host cp-1 .*: no stream to 127\.0\.0\.1:{unused_tcp_port}: .*Check that it listens there"):
        await host.forward("127.0.0.1", unused_tcp_port)


async def test_a_host_that_does_not_forward_is_an_error_that_names_the_option(
    host: SshHost, machine: Machine, echo: tuple[Echo, int]
) -> None:
    machine.forwards = False
    with pytest.raises(TunnelRefused, match="AllowTcpForwarding"):
        await host.forward("127.0.0.1", echo[1])


async def test_the_end_of_the_other_side_ends_ours_with_a_reason(host: SshHost, echo: tuple[Echo, int]) -> None:
    tunnel = await host.forward("127.0.0.1", echo[1])
    assert await exchanged(tunnel, b"hello") == b"hello"
    echo[0].writers[0].close()
    assert await asyncio.get_running_loop().sock_recv(tunnel.socket, 1) == b""
    assert tunnel.failure == "the other side closed the tunnel"
    await tunnel.aclose()


async def test_a_connection_cut_ends_its_streams_with_a_reason(host: SshHost, machine: Machine, echo: tuple[Echo, int]) -> None:
    tunnel = await host.forward("127.0.0.1", echo[1])
    machine.cut()
    assert await asyncio.get_running_loop().sock_recv(tunnel.socket, 1) == b""
    assert tunnel.failure.startswith("the tunnel broke while receiving: ")
    await tunnel.aclose()


async def test_closing_a_stream_ends_its_task_and_the_channel(host: SshHost, echo: tuple[Echo, int]) -> None:
    tunnel = await host.forward("127.0.0.1", echo[1])
    await exchanged(tunnel, b"hello")
    await tunnel.aclose()
    await tunnel.aclose()
    assert tunnel.socket.fileno() == -1
    assert not [task for task in asyncio.all_tasks() if task.get_name() == "ssh tunnel"]
    await echo[0].writers[0].wait_closed()
