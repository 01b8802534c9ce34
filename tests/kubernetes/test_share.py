"""What one server's answers may take of the time of a process that many share: counted over real connections, and held."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from aiohttp import web

from quorate.kubernetes.client import Client
from quorate.kubernetes.errors import ConnectionFailed
from quorate.kubernetes.resource import NODES
from quorate.kubernetes.share import Share
from quorate.kubernetes.transport import tcp_connector

EVENT = b'{"type":"ADDED","object":{"metadata":{"name":"n"}}}\n'


@pytest.fixture
def share() -> Share:
    """10 ms at once, and one in 1,000 of the time from then on."""
    return Share(0.001, 0.01)


@pytest.fixture
def client(share: Share, api: Any, connected: Callable[..., Client]) -> Client:
    return connected(api, share=share, connector=partial(tcp_connector, None, share))


def without_end(piece: bytes, begin: bytes = b"") -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    """A handler that writes the piece to the socket as long as somebody reads, past anything that HTTP has."""

    async def handler(request: web.Request) -> web.StreamResponse:
        transport = request.transport
        assert transport is not None
        transport.write(begin)
        with suppress(ConnectionError):
            while not transport.is_closing():
                transport.write(piece * 1000)
                await asyncio.sleep(0.01 if transport.get_write_buffer_size() > 1 << 20 else 0)
        return web.Response()

    return handler


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


async def test_events_without_end_are_read_as_far_as_there_is_time_for_them(
    api: Any, connected: Callable[..., Client], share: Share
) -> None:
    """Each takes 20 us, and whoever sends nothing else has the process for itself."""
    client = connected(api, share=share)
    api.replies = [without_end(b"%x\r\n" % len(EVENT) + EVENT + b"\r\n", CHUNKED)]
    read = 0

    async def watched() -> None:
        nonlocal read
        async for _ in client.watch(NODES, resource_version="5"):
            read += 1

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(2):
            await watched()
    assert 0 < read < 20_000, "of 50,000 and more"
    with pytest.raises(ConnectionFailed, match="get nodes n: what it sends takes more than 0% of this process' time: it is asked again in"):
        await client.get(NODES, "n")
    assert len(api.seen) == 1, "what is refused is not asked"


async def asked(client: Client, what: str) -> None:
    async with asyncio.timeout(4):
        if what == "get":
            await client.get(NODES, "n")
        else:
            [event async for event in client.watch(NODES, resource_version="5")]


CONTINUED = b"HTTP/1.1 100 Continue\r\n\r\n"


@pytest.mark.parametrize(
    ("what", "piece", "begin"),
    [("get", b"1\r\n \r\n", CHUNKED), ("get", CONTINUED, b""), ("watch", CONTINUED, b"")],
    ids=["one byte at a time", "to be continued", "a watch to be continued"],
)
async def test_what_has_no_end_in_any_other_way_is_dropped(client: Client, api: Any, what: str, piece: bytes, begin: bytes) -> None:
    api.replies = [without_end(piece, begin)]
    with pytest.raises(ConnectionFailed, match=r"it sends without an end|what it sends takes more than"):
        await asked(client, what)


async def test_what_was_taken_is_given_back_with_the_time(client: Client, api: Any, fakes: Any, share: Share) -> None:
    api.replies = [fakes.reply({"metadata": {"name": "n"}})]
    assert (await client.get(NODES, "n")).metadata.name == "n"
    share.end(share.begin() - 0.0101)
    assert 0 < share.wait() < 2
    await asyncio.sleep(share.wait())
    assert share.wait() == 0
