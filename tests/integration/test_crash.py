"""The manager is killed with SIGKILL after each single write of a create, and started again: the same Machine comes to be, once, and nothing is left over."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp
import pytest
import yaml
from aiohttp import web

from quorate.clusterapi.intent import ANNOTATION
from quorate.kubernetes import kubeconfig
from quorate.kubernetes.tls import client_context

if TYPE_CHECKING:
    from tests.integration.conftest import Manager, Stage

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(900)]

MOST_WRITES = 20  # of one create; it takes 13, and a report or two
FEWEST_WRITES = 11  # finalizer, four authorities, kubeconfig, intent, infrastructure, KubeadmConfig, Machine, intent cleared
SUFFIXES = ("ca", "etcd", "proxy", "sa", "kubeconfig")
HEADERS = ("Accept", "Content-Type", "User-Agent")


class Guillotine:
    """A proxy to the API server that lets through so many writes, one at a time, and falls when the last has been carried out, before it is answered."""

    def __init__(self, server: str, upstream: aiohttp.ClientSession, writes: int) -> None:
        self._server, self._upstream, self._left = server, upstream, writes
        self._one_at_a_time = asyncio.Lock()
        self.fallen = asyncio.Event()
        self.fall: Callable[[], None] = lambda: None  # ends the manager

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Pass a request on."""
        if request.method == "GET":
            return await self._pass_on(request)
        async with self._one_at_a_time:
            if self._left == 0:
                raise web.HTTPServiceUnavailable
            response = await self._pass_on(request)
            self._left -= response.status < 300
            if self._left == 0:
                self.fall()
                self.fallen.set()
            return response

    async def _pass_on(self, request: web.Request) -> web.StreamResponse:
        headers = {name: request.headers[name] for name in HEADERS if name in request.headers}
        body = await request.read()
        async with self._upstream.request(request.method, self._server + request.path_qs, data=body, headers=headers) as answer:
            if "watch" not in request.query:
                return web.Response(status=answer.status, body=await answer.read(), content_type=answer.content_type)
            response = web.StreamResponse(status=answer.status, headers={"Content-Type": answer.content_type})
            with contextlib.suppress(ConnectionResetError, aiohttp.ClientError):
                await response.prepare(request)
                async for chunk in answer.content.iter_any():
                    await response.write(chunk)
            return response


@asynccontextmanager
async def guillotine(stage: Stage, folder: Path, writes: int) -> AsyncIterator[tuple[Guillotine, Path]]:
    """A proxy that runs, and a kubeconfig that leads to it."""
    config = kubeconfig.load(str(stage.stack.kubeconfig))
    context = client_context(authority=config.authority, certificate=config.certificate, key=config.key)
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=10)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context, limit=0), timeout=timeout) as upstream:
        proxy = Guillotine(config.server, upstream, writes)
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", proxy.handle)
        runner = web.AppRunner(application, handler_cancellation=True, shutdown_timeout=0.1)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            yield proxy, _kubeconfig(folder / f"kubeconfig-{writes}", f"http://127.0.0.1:{runner.addresses[0][1]}")
        finally:
            await runner.cleanup()


def _kubeconfig(path: Path, server: str) -> Path:
    named = {
        "clusters": [{"name": "proxy", "cluster": {"server": server}}],
        "users": [{"name": "proxy", "user": {}}],
        "contexts": [{"name": "proxy", "context": {"cluster": "proxy", "user": "proxy"}}],
    }
    path.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Config", "current-context": "proxy", **named}))
    return path


async def test_killed_after_every_write_of_a_create(stage: Stage, tmp_path: Path) -> None:
    stages = [stage.sibling(f"{writes}") for writes in range(1, MOST_WRITES + 1)]
    async with asyncio.TaskGroup() as group:
        for each in stages:
            group.create_task(set_up(each))
    for writes, each in enumerate(stages, start=1):
        await killed_after(each, tmp_path, writes)
        complete = await is_complete(each)
        await restarted(each)
        if complete:
            assert writes >= FEWEST_WRITES
            return
    pytest.fail(f"a create takes more than {MOST_WRITES} writes")


async def set_up(stage: Stage) -> None:
    """A cluster whose control plane waits for nothing but a manager."""
    await stage.open()
    await stage.create(*stage.cluster().objects())

    async def provisioned() -> bool:
        (cluster,) = await stage.all_of("Cluster")
        owned = bool((await stage.control_plane())["metadata"].get("ownerReferences"))
        return owned and bool(cluster.get("status", {}).get("initialization", {}).get("infrastructureProvisioned"))

    await stage.until("the Cluster's infrastructure is provisioned", provisioned)


async def killed_after(stage: Stage, folder: Path, writes: int) -> None:
    async with guillotine(stage, folder, writes) as (proxy, path):
        manager: Manager = stage.start_manager(kubeconfig=path)
        proxy.fall = manager.kill
        async with asyncio.timeout(30):
            await proxy.fallen.wait()
        assert not manager.running


async def restarted(stage: Stage) -> None:
    """Another manager finishes what the first began; the name that was chosen before the crash is the Machine's."""
    intended = (await stage.control_plane())["metadata"].get("annotations", {}).get(ANNOTATION, "")
    machines = await stage.names("Machine")
    before = await stage.names("KubeadmConfig") | await stage.names("DevMachine") | machines
    assert len(before) <= 1
    assert all(f'"{name}"' in intended or name in machines for name in before), "made before it was intended"
    manager = stage.start_manager()
    await stage.until("the create is complete", lambda: is_complete(stage))
    names = await stage.names("Machine")
    assert len(names) == 1
    assert before <= names
    assert names == await stage.names("KubeadmConfig") == await stage.names("DevMachine")
    assert {f"{stage.namespace}-{suffix}" for suffix in SUFFIXES} <= await stage.names("Secret")
    manager.kill()


async def is_complete(stage: Stage) -> bool:
    """Whether the Machine exists and the intent to make it is cleared."""
    annotations = (await stage.control_plane())["metadata"].get("annotations", {})
    return bool(await stage.machines()) and ANNOTATION not in annotations
