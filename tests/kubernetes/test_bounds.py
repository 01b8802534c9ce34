"""Answers that are larger than any has to be, or of a shape that none has: each is an error that names what was asked and why its answer was not read."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing, suppress
from random import Random
from typing import Any

import aiohttp
import msgspec
import pytest
from aiohttp import web

from quorate.etcd.port_forward import PortForward
from quorate.kubernetes import framing
from quorate.kubernetes.client import Client
from quorate.kubernetes.errors import ConnectionFailed, ServerError, TooMuch
from quorate.kubernetes.objects import Node, Secret
from quorate.kubernetes.reflector import TROUBLE, Reflector
from quorate.kubernetes.resource import NODES, SECRETS
from quorate.kubernetes.store import Store

DEEP = "[" * 100_000
NODE = {"metadata": {"name": "n", "resourceVersion": "7"}}


def streamed(*chunks: bytes) -> Any:
    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for chunk in chunks:
            await response.write(chunk)
        return response

    return handler


async def watched(client: Client) -> list[str]:
    async with aclosing(client.watch(NODES, resource_version="5")) as events:
        return [event.type async for event in events]


@pytest.mark.parametrize(
    "begin", [b'{"type":"ADDED","object":"', b'{ "type":"ADDED","object":"', b"\n", b"  "], ids=["line", "pretty", "empty", "space"]
)
async def test_an_event_without_end_is_read_no_further(client: Client, api: Any, monkeypatch: pytest.MonkeyPatch, begin: bytes) -> None:
    monkeypatch.setattr(framing, "LARGEST", 1 << 20)
    api.replies = [streamed(begin, *(begin[-1:] * (1 << 16) if begin.isspace() else b"x" * (1 << 16) for _ in range(64)))]
    with pytest.raises(ConnectionFailed, match=r"watch nodes: an event has more than 1 MiB"):
        await watched(client)


async def test_many_events_are_no_long_one(client: Client, api: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(framing, "LARGEST", 1 << 17)
    event = json.dumps({"type": "ADDED", "object": {**NODE, "note": "x" * (1 << 16)}}, separators=(",", ":")).encode() + b"\n"
    api.replies = [streamed(*([event] * 8))]
    assert await watched(client) == ["ADDED"] * 8


async def test_a_list_whose_pages_have_no_end_is_read_no_further(connected: Any, api: Any, fakes: Any) -> None:
    api.replies = [fakes.reply({"metadata": {"continue": "more"}, "items": [NODE], "note": "x" * (1 << 18)})]
    with pytest.raises(ConnectionFailed, match=r"list nodes: the list has more than 1 MiB"):
        await connected(api, largest_list=1 << 20).list(NODES)
    assert len(api.seen) == 4


async def test_more_objects_than_are_wanted_of_anybody_are_not_read(connected: Any, api: Any, fakes: Any) -> None:
    api.replies = [fakes.reply({"metadata": {"continue": str(number)}, "items": [NODE, NODE]}) for number in range(3)]
    with pytest.raises(ConnectionFailed, match="list nodes: the list has 6 objects or more, and of more than 5 none are read"):
        await connected(api, most_objects=5).list(NODES)


async def test_empty_pages_without_end_are_read_no_further(client: Client, api: Any, fakes: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quorate.kubernetes.client._MOST_PAGES", 3)
    api.replies = [fakes.reply({"metadata": {"continue": "more"}, "items": []})]
    with pytest.raises(ConnectionFailed, match="list nodes: the list has more than 3 pages, 0 objects on them"):
        await client.list(NODES)
    assert len(api.seen) == 3


NO_LISTS: tuple[dict[str, Any], ...] = (
    {},
    {"metadata": {"resourceVersion": "8"}},
    {"metadata": {"resourceVersion": "8"}, "items": None},
    {"kind": "Status"},
)


@pytest.mark.parametrize("body", NO_LISTS, ids=["nothing", "no items", "null", "another object"])
async def test_what_has_no_items_is_not_an_empty_list(client: Client, api: Any, fakes: Any, body: Any) -> None:
    """Such as the answer of a proxy on the way: what is known stays known, and nothing is read as gone."""
    errors: asyncio.Queue[Exception] = asyncio.Queue()
    reflector: Reflector[Node] = Reflector(client, NODES, Store(), random=Random(1), on_error=errors.put_nowait)
    listed = fakes.reply({"metadata": {"resourceVersion": "1"}, "items": [NODE]})
    api.replies = [listed, fakes.failure(410, "Expired", "too old"), fakes.reply(body)]
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(reflector.run())
        async with asyncio.timeout(10):
            await errors.get()
            assert "list nodes: the answer cannot be read" in str(await errors.get())
        running.cancel()
    assert [node.metadata.name for node in reflector.store.items()] == ["n"]


async def test_a_client_may_be_made_that_reads_less(connected: Any, api: Any, fakes: Any) -> None:
    api.replies = [fakes.reply({**NODE, "note": "x" * (2 << 20)})]
    with pytest.raises(ConnectionFailed, match=r"get nodes n: the answer has more than 1 MiB"):
        await connected(api, largest=1 << 20).get(NODES, "n")


async def test_of_one_object_less_is_read_than_of_a_list(connected: Any, api: Any, fakes: Any) -> None:
    large = {**NODE, "note": "x" * (2 << 20)}
    client = connected(api, largest_object=1 << 20)
    api.replies = [fakes.reply(large)]
    with pytest.raises(ConnectionFailed, match=r"get nodes n: the answer has more than 1 MiB"):
        await client.get(NODES, "n")
    with pytest.raises(ConnectionFailed, match=r"get /: the answer has more than 1 MiB"):
        await client.get_raw("/")
    api.replies = [fakes.reply({"metadata": {"resourceVersion": "8"}, "items": [large]})]
    assert len((await client.list(NODES)).items) == 1


CROWD = "[" + "0," * 2000 + "0]"


@pytest.mark.parametrize("body", [f'{{"items":{CROWD}}}', f'{{"metadata":{{"name":"n"}},"items":[],"x":{CROWD}}}'], ids=["items", "field"])
async def test_an_answer_of_more_values_than_can_be_read_in_a_moment_is_not_decoded(connected: Any, api: Any, body: str) -> None:
    """32 MiB of objects that are all but empty are two million, and 25 s in which a process does nothing else."""
    client = connected(api, most_values=1000)
    api.replies = [streamed(body.encode())]
    with pytest.raises(ServerError, match="list nodes: the answer has more than 1000 values"):
        await client.list(NODES)
    api.replies = [streamed(b'{"type":"ADDED","object":' + body.encode() + b"}\n")]
    with pytest.raises(ServerError, match="watch nodes: the answer has more than 1000 values"):
        await watched(client)


async def test_a_frame_that_no_kubelet_sends_ends_a_port_forward_with_the_reason(client: Client, api: Any) -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        websocket = web.WebSocketResponse(protocols=("p",))
        await websocket.prepare(request)
        await websocket.send_bytes(b"\0" * (2 << 20))
        await websocket.receive()
        return websocket

    api.replies = [handler]
    bridge = PortForward.start(await client.connect_websocket("/x", ("p",)))
    async with asyncio.timeout(5):
        assert await asyncio.get_running_loop().sock_recv(bridge.socket, 10) == b""
    assert "exceeds limit 1048576" in bridge.failure
    await bridge.aclose()


async def test_frames_without_end_end_a_port_forward_with_the_reason(client: Client, api: Any) -> None:
    """Of two bytes each, for every one of which a pong would be sent: they stop the process for a second at a time."""

    async def handler(request: web.Request) -> web.StreamResponse:
        websocket = web.WebSocketResponse(protocols=("p",))
        await websocket.prepare(request)
        with suppress(ConnectionError):
            for _ in range(5000):
                await websocket.ping()
        return websocket

    api.replies = [handler]
    websocket = await client.connect_websocket("/x", ("p",))
    bridge = PortForward.start(websocket)
    async with asyncio.timeout(5):
        assert await asyncio.get_running_loop().sock_recv(bridge.socket, 10) == b""
    assert bridge.failure == "port-forward sent more frames than any answer has"
    await bridge.aclose()
    assert websocket.close_code == aiohttp.WSCloseCode.ABNORMAL_CLOSURE, "what came after them was read, for the server's farewell"


async def test_pings_of_the_server_are_answered_beside_what_it_sends(client: Client, api: Any) -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        websocket = web.WebSocketResponse(protocols=("p",), autoping=False)
        await websocket.prepare(request)
        await websocket.ping(b"still there?")
        pong = await websocket.receive()
        await websocket.send_bytes(b"\0\x4b\x09" + pong.data)
        await websocket.receive()
        return websocket

    api.replies = [handler]
    bridge = PortForward.start(await client.connect_websocket("/x", ("p",)))
    async with asyncio.timeout(5):
        assert await asyncio.get_running_loop().sock_recv(bridge.socket, 100) == b"still there?"
    await bridge.aclose()


SHAPES: dict[str, str] = {
    "deep": DEEP,
    "a list": "[]",
    "null": "null",
    "no UTF-8": '{"metadata":{"name":"\udcff","resourceVersion":"\udcff"}}',
    "a number": "1e999",
    "texts": '{"metadata":"x","items":"y"}',
}


@pytest.mark.parametrize("text", SHAPES.values(), ids=SHAPES)
async def test_what_is_no_object_is_an_error_that_names_the_question(client: Client, api: Any, text: str) -> None:
    data = text.encode(errors="surrogateescape")
    api.replies = [streamed(data)]
    with pytest.raises(ServerError, match="get nodes n: the answer cannot be read"):
        await client.get(NODES, "n")
    with pytest.raises(ServerError, match="list nodes: the answer cannot be read"):
        await client.list(NODES)
    api.replies = [streamed(b'{"type":"ADDED","object":' + data + b"}\n")]
    with pytest.raises(ServerError, match="watch nodes: the answer cannot be read"):
        await watched(client)


@pytest.mark.parametrize("text", SHAPES.values(), ids=SHAPES)
async def test_a_cache_goes_on_whatever_is_sent(client: Client, api: Any, text: str) -> None:
    errors: asyncio.Queue[Exception] = asyncio.Queue()
    reflector: Reflector[Node] = Reflector(client, NODES, Store(), random=Random(1), on_error=errors.put_nowait)
    listed = streamed(json.dumps({"metadata": {"resourceVersion": "1"}, "items": [NODE]}).encode())
    data = text.encode(errors="surrogateescape")
    api.replies = [streamed(data), listed, streamed(b'{"type":"MODIFIED","object":' + data + b"}\n"), streamed(b"")]
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(reflector.run())
        async with asyncio.timeout(10):
            assert all([isinstance(await errors.get(), TROUBLE) for _ in range(3)])
        running.cancel()
    assert [node.metadata.name for node in reflector.store.items()] == ["n"]


class Large:
    """A server with some Secrets of 100 KiB, told in pages as they are asked for; it remembers how many at a time that were."""

    def __init__(self, names: int) -> None:
        self.names, self.limits = names, list[int]()

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        begin, limit = int(request.query.get("continue", 0)), int(request.query["limit"])
        self.limits.append(limit)
        end = min(begin + limit, self.names)
        data = {"value": "eHh4" * (25 << 10)}
        items = [{"metadata": {"name": f"s{number}", "resourceVersion": "7"}, "data": data} for number in range(begin, end)]
        return web.json_response({"metadata": {"resourceVersion": "8", "continue": str(end) if end < self.names else ""}, "items": items})


async def test_objects_that_are_too_large_for_one_answer_are_read_a_few_at_a_time(connected: Any, api: Any) -> None:
    """Or one tenant with 190 Secrets of 1 MiB would keep every Secret of everybody from being read, and the manager from starting."""
    server = Large(30)
    api.replies = [server]
    listed = await connected(api, largest=1 << 20).list(SECRETS)
    assert [secret.metadata.name for secret in listed.items] == [f"s{number}" for number in range(30)]
    assert server.limits == [500, 62, 7, 7, 7, 7, 7]


async def test_one_object_that_is_too_large_for_an_answer_is_named_by_the_question(connected: Any, api: Any) -> None:
    server = Large(1)
    api.replies = [server]
    with pytest.raises(TooMuch, match="list secrets: the answer has more than 0 MiB"):
        await connected(api, largest=1 << 16).list(SECRETS)
    assert server.limits == [500, 62, 7, 1]


async def test_of_a_page_no_more_is_in_memory_than_is_kept_once_the_next_is_read(connected: Any, api: Any) -> None:
    """The Secrets with the bootstrap data of a thousand control planes have 300 MiB, of which nothing is kept."""
    kept, held = list[str](), list[int]()
    server = Large(4)

    async def asked(request: web.Request) -> web.StreamResponse:
        held.append(len(kept))
        return await server(request)

    def keep(secret: Secret) -> Secret | None:
        kept.append(secret.metadata.name)
        return None if secret.metadata.name == "s1" else msgspec.structs.replace(secret, data={})

    api.replies = [asked]
    listed = await connected(api).list(SECRETS, limit=2, keep=keep)
    assert held == [0, 2]
    assert [(secret.metadata.name, secret.data) for secret in listed.items] == [("s0", {}), ("s2", {}), ("s3", {})]
