"""Caches over real connections, beside servers that answer otherwise than they should."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

from aiohttp import web

from quorate.kubernetes.client import Client
from quorate.kubernetes.expectations import Expectations
from quorate.kubernetes.objects import Node
from quorate.kubernetes.reflector import Reflector
from quorate.kubernetes.resource import NODES
from quorate.kubernetes.store import Store


class Restored:
    """An API server whose etcd was restored after its first list: its versions are lower, and a watch from one that has yet to come is silent."""

    def __init__(self) -> None:
        self.lists = 0

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        if "watch" not in request.query:
            self.lists += 1
            version, names = ("900", ["dead", "well"]) if self.lists == 1 else ("40", ["well"])
            items = [{"metadata": {"name": name, "uid": name, "resourceVersion": "7"}} for name in names]
            return web.json_response({"metadata": {"resourceVersion": version}, "items": items})
        stream = web.StreamResponse()
        await stream.prepare(request)
        await asyncio.sleep(3600)
        return stream


async def test_a_cache_of_a_restored_server_lists_again_and_waits_for_no_version_of_before(client: Client, api: Any) -> None:
    server = Restored()
    api.replies = [server]
    store, woken = Store[Node](), asyncio.Queue[str]()
    expectations: Expectations[str] = Expectations(woken.put_nowait)
    reflector: Reflector[Node] = Reflector(client, NODES, store, random=Random(1), inactivity=0.2)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(reflector.run())
        async with asyncio.timeout(30):
            await reflector.synced.wait()
            expectations.expect_version("demo", store, "901")
            assert await woken.get() == "demo"
        assert [node.metadata.name for node in store.items()] == ["well"]
        running.cancel()
    assert not expectations.pending("demo")
    assert server.lists == 2
