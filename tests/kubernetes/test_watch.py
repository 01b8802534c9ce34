"""Watches: the stream as servers send it, and how it ends."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from typing import Any

import pytest
from aiohttp import web

from quorate.kubernetes.client import Client, WatchEvent
from quorate.kubernetes.errors import ApiError, ConnectionFailed, Forbidden, Gone, ServerError, Timeout
from quorate.kubernetes.objects import Node, Object, ObjectMeta
from quorate.kubernetes.resource import CRDS, NODES, PODS, Resource


def event(type_: str, name: str = "n", **more: Any) -> dict[str, Any]:
    return {"type": type_, "object": {"metadata": {"name": name, "resourceVersion": "7"}, **more}}


def stream(*chunks: bytes, silent_for: float = 0.0) -> Any:
    """An answer in chunks, which then stays open for `silent_for` seconds."""

    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for chunk in chunks:
            await response.write(chunk)
        await asyncio.sleep(silent_for)
        return response

    return handler


def lines(*events: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(event, separators=(",", ":")).encode() + b"\n" for event in events)


async def watched(client: Client, **options: Any) -> list[WatchEvent[Node]]:
    async with aclosing(client.watch(NODES, resource_version="5", **options)) as events:
        return [event async for event in events]


async def test_a_watch_gives_events_until_the_server_ends_it(client: Client, api: Any) -> None:
    api.replies = [stream(lines(event("ADDED", "a"), event("MODIFIED", "b"), event("DELETED", "c")))]
    assert [(event.type, event.object.metadata.name) for event in await watched(client)] == [
        ("ADDED", "a"),
        ("MODIFIED", "b"),
        ("DELETED", "c"),
    ]


async def test_a_watch_asks_for_what_it_is_told(client: Client, api: Any) -> None:
    api.replies = [stream()]
    async with aclosing(
        client.watch(PODS, "x", resource_version="5", label_selector="a=b", field_selector="c=d", timeout_seconds=9)
    ) as events:
        assert [event async for event in events] == []
    await watched(client, bookmarks=False)
    first, second = api.seen
    assert first.path == "/api/v1/namespaces/x/pods"
    assert first.query == {
        "watch": "true",
        "resourceVersion": "5",
        "labelSelector": "a=b",
        "fieldSelector": "c=d",
        "timeoutSeconds": "9",
        "allowWatchBookmarks": "true",
    }
    assert second.query == {"watch": "true", "resourceVersion": "5", "timeoutSeconds": "300"}


async def test_a_watch_tells_when_the_server_has_accepted_it_and_not_before(client: Client, api: Any, fakes: Any) -> None:
    """A network that drops what is sent is no server that says nothing."""
    told: list[str] = []

    async def never(_: web.Request) -> web.StreamResponse:
        await asyncio.sleep(60)
        return web.Response()

    for handler in (never, fakes.failure(403, "Forbidden"), fakes.hang_up):
        api.replies = [handler]
        with pytest.raises((ApiError, ConnectionFailed)):
            await watched(client, inactivity=0.1, on_open=lambda: told.append("accepted"))
    assert told == []
    api.replies = [stream(silent_for=60)]
    with pytest.raises(Timeout):
        await watched(client, inactivity=0.1, on_open=lambda: told.append("accepted"))
    assert told == ["accepted"]


async def test_an_event_may_be_longer_than_64_kib(client: Client, api: Any) -> None:
    note = "x" * 300_000
    api.replies = [
        stream(lines(event("ADDED", "a"), {"type": "MODIFIED", "object": {"metadata": {"annotations": {"a": note}}}}, event("ADDED", "z")))
    ]
    found = await watched(client)
    assert [len(event.object.metadata.annotations.get("a", "")) for event in found] == [0, 300_000, 0]


async def test_events_printed_over_several_lines_with_nothing_between_are_told_apart(client: Client, api: Any) -> None:
    text = "".join(json.dumps(event("ADDED", name), indent=1) for name in ('a}"', "b{\\", "c")).encode()
    api.replies = [stream(*(text[start : start + 7] for start in range(0, len(text), 7)))]
    assert [event.object.metadata.name for event in await watched(client)] == ['a}"', "b{\\", "c"]


class Demanding(Object):
    """A kind with a field that has no default."""

    metadata: ObjectMeta
    spec: dict[str, Any]


DEMANDING = Resource("", "v1", "demandings", "Demanding", Demanding)


async def test_a_bookmark_has_metadata_alone_whatever_else_is_null(client: Client, api: Any) -> None:
    definition = {"spec": {"group": "", "names": {"plural": "", "kind": ""}, "scope": "", "versions": None}, "status": {"conditions": None}}
    api.replies = [stream(lines(event("BOOKMARK", "", **definition)))]
    async with aclosing(client.watch(CRDS, resource_version="1")) as events:
        bookmark = await anext(events)
    assert (bookmark.type, bookmark.object.metadata.resource_version) == ("BOOKMARK", "7")


async def test_a_bookmark_of_a_kind_whose_every_object_has_a_specification_has_none(client: Client, api: Any) -> None:
    bookmark = {"kind": "Demanding", "apiVersion": "v1", "metadata": {"resourceVersion": "7", "creationTimestamp": None}}
    api.replies = [stream(lines({"type": "BOOKMARK", "object": bookmark}))]
    async with aclosing(client.watch(DEMANDING, resource_version="1")) as events:
        seen = await anext(events)
    assert (seen.type, seen.object.metadata.resource_version) == ("BOOKMARK", "7")


async def test_410_in_the_stream_is_gone(client: Client, api: Any) -> None:
    status = {"kind": "Status", "status": "Failure", "reason": "Expired", "code": 410, "message": "too old resource version: 5 (99)"}
    api.replies = [stream(lines(event("ADDED", "a"), {"type": "ERROR", "object": status}))]
    async with aclosing(client.watch(NODES, resource_version="5")) as events:
        assert (await anext(events)).object.metadata.name == "a"
        with pytest.raises(Gone, match="watch nodes: too old resource version"):
            await anext(events)


async def test_410_as_the_answer_is_gone(client: Client, api: Any, fakes: Any) -> None:
    api.replies = [fakes.failure(410, "Gone", "too old")]
    with pytest.raises(Gone):
        await watched(client)


async def test_forbidden_names_the_verb_and_the_resource(client: Client, api: Any, fakes: Any) -> None:
    api.replies = [fakes.failure(403)]
    with pytest.raises(Forbidden, match=r"^watch nodes: HTTP 403$"):
        await watched(client)


async def test_silence_is_a_timeout_and_what_came_before_counts(client: Client, api: Any) -> None:
    api.replies = [stream(lines(event("ADDED", "a")), silent_for=30)]
    async with aclosing(client.watch(NODES, resource_version="5", inactivity=1.5)) as events:
        assert (await anext(events)).type == "ADDED"
        with pytest.raises(Timeout, match=r"watch nodes: no answer within 1.5 s"):
            await anext(events)


async def test_a_watch_outlives_the_deadline_of_a_call(api: Any, connected: Any) -> None:
    api.replies = [stream(lines(event("ADDED", "a")), silent_for=1.6)]
    assert len(await watched(connected(api, timeout=1.5))) == 1


async def test_a_stream_that_breaks_is_a_lost_connection(client: Client, api: Any) -> None:
    async def breaking(request: web.Request) -> web.StreamResponse:
        response = await stream(lines(event("ADDED", "a")))(request)
        assert request.transport is not None
        request.transport.abort()
        assert isinstance(response, web.StreamResponse)
        return response

    api.replies = [breaking]
    with pytest.raises(ConnectionFailed, match="watch nodes: "):
        await watched(client)


async def test_an_event_that_is_no_object_is_a_server_error(client: Client, api: Any) -> None:
    api.replies = [stream(b'{"type":"ADDED","object":{"metadata":{"name":7}}}\n')]
    with pytest.raises(ServerError, match="watch nodes: the answer cannot be read"):
        await watched(client)


async def test_a_watch_that_is_left_closes_its_connection(client: Client, api: Any) -> None:
    ended = asyncio.Event()

    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            while True:
                await response.write(lines(event("MODIFIED")))
                await asyncio.sleep(0.01)
        finally:
            ended.set()

    api.replies = [endless]
    async with aclosing(client.watch(NODES, resource_version="5")) as events:
        await anext(events)
    async with asyncio.timeout(5):
        await ended.wait()


async def test_a_watch_s_refused_token_is_renewed(api: Any, connected: Any, fakes: Any, tmp_path: Any) -> None:
    from quorate.kubernetes.auth import FileToken

    file = tmp_path / "token"
    file.write_text("old")

    async def renew(request: web.Request) -> web.StreamResponse:
        file.write_text("new")
        answer: web.StreamResponse = await fakes.failure(401, "Unauthorized")(request)
        return answer

    api.replies = [renew, stream(lines(event("ADDED")))]
    assert len(await watched(connected(api, config={"credentials": FileToken(file)}))) == 1
    assert [seen.headers["Authorization"] for seen in api.seen] == ["Bearer old", "Bearer new"]
