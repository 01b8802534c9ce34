"""The manager is killed with SIGKILL after each single write of a create, and started again: the same Machines come to be, once, and nothing is left over."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp
import pytest
import yaml
from aiohttp import web

from quorate.clusterapi.desired.intent import ANNOTATION
from quorate.kubernetes import kubeconfig
from quorate.tls import client_context

if TYPE_CHECKING:
    from tests.integration.conftest import Manager, Stage

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(900)]

MOST_WRITES = 20  # of one create; it takes 13, and a report or two
FEWEST_WRITES = 11  # finalizer, four CAs, kubeconfig, intent, infrastructure, KubeadmConfig, Machine, intent cleared
MOST_KILLS = 40  # while the second and the third join; it takes about 20
SUFFIXES = ("ca", "etcd", "proxy", "sa", "kubeconfig")
MACHINE = "PATCH machines capi-kubeadmcontrolplane"
COMPANIONS = tuple(
    f"PATCH {plural} {manager}"
    for plural in ("devmachines", "kubeadmconfigs")
    for manager in ("capi-kubeadmcontrolplane", "capi-kubeadmcontrolplane-metadata")
)
INTENT, INTENT_CLEARED = "the intent is written", "the intent is cleared"
HEADERS = ("Accept", "Content-Type", "User-Agent")


Last = Callable[[web.Request, int], Awaitable[bool]]  # (a write, how it was answered): whether it was the last


def after(writes: int) -> Last:
    """So many writes."""
    count = itertools.count(1)

    async def is_last(_request: web.Request, _status: int) -> bool:
        return next(count) == writes

    return is_last


class NewKinds:
    """The next write of a kind that has not been the last one yet, from the first Machine on; each of the Machines that join later counts anew."""

    def __init__(self) -> None:
        self.seen: set[tuple[int, str]] = set()  # how many Machines there were, and the kind
        self._machines = 0

    async def __call__(self, request: web.Request, status: int) -> bool:
        kind = await kind_of(request)
        self._machines += kind == MACHINE and status == web.HTTPCreated.status_code
        new = self._machines > 0 and (self._machines, kind) not in self.seen
        if new:
            self.seen.add((self._machines, kind))
        return new


class Guillotine:
    """A proxy to the API server that lets writes through, one at a time, and falls when the last has been carried out, before it is answered."""

    def __init__(self, server: str, upstream: aiohttp.ClientSession, is_last: Last) -> None:
        self._server, self._upstream, self._is_last = server, upstream, is_last
        self._one_at_a_time = asyncio.Lock()
        self.fallen = asyncio.Event()
        self.fall: Callable[[], None] = lambda: None  # ends the manager

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Pass a request on."""
        if request.method == "GET":
            return await self._pass_on(request)
        async with self._one_at_a_time:
            if self.fallen.is_set():
                raise web.HTTPServiceUnavailable
            response = await self._pass_on(request)
            if response.status < 300 and await self._is_last(request, response.status):
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
async def guillotine(stage: Stage, folder: Path, is_last: Last) -> AsyncIterator[tuple[Guillotine, Path]]:
    """A proxy that runs, and a kubeconfig that leads to it."""
    config = kubeconfig.load(str(stage.stack.kubeconfig))
    context = client_context(ca=config.ca, certificate=config.certificate, key=config.key)
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=10)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context, limit=0), timeout=timeout) as upstream:
        proxy = Guillotine(config.server, upstream, is_last)
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", proxy.handle)
        runner = web.AppRunner(application, handler_cancellation=True, shutdown_timeout=0.1)
        await runner.setup()
        listening = socket.create_server(("127.0.0.1", 0))
        try:
            await web.SockSite(runner, listening).start()
            yield proxy, _kubeconfig(folder / "kubeconfig", f"http://127.0.0.1:{listening.getsockname()[1]}")
        finally:
            # What asyncio has just accepted would be lost unclosed if the server were closed before its next turn (CPython 109564).
            asyncio.get_running_loop().remove_reader(listening)
            await asyncio.sleep(0)
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
            group.create_task(opened(each))
    for writes, each in enumerate(stages, start=1):
        await killed_after(each, tmp_path, writes)
        complete = await is_complete(each)
        await restarted(each)
        if complete:
            assert writes >= FEWEST_WRITES
            return
    pytest.fail(f"a create takes more than {MOST_WRITES} writes")


async def test_killed_at_every_kind_of_write_while_the_second_and_third_join(stage: Stage, tmp_path: Path) -> None:
    await set_up(stage, replicas=3)
    kinds = NewKinds()
    for _ in range(MOST_KILLS):
        if not await killed_at_a_new_kind(stage, tmp_path, kinds):
            break
        await nothing_is_doubled(stage)
    else:
        pytest.fail(f"three Machines take more than {MOST_KILLS} kinds of writes: {sorted(kinds.seen)}")
    stage.start_manager()
    await stage.until_ready(3, timeout=120)
    names = await stage.names("Machine")
    assert names == await stage.names("KubeadmConfig") == await stage.names("DevMachine")
    for number in (1, 2):  # so many there were when the second, and the third, began
        assert {kind for count, kind in kinds.seen if count == number} >= {INTENT, *COMPANIONS}
        assert {kind for count, kind in kinds.seen if count == number + 1} >= {MACHINE, INTENT_CLEARED}


async def kind_of(request: web.Request) -> str:
    """A write without the names in it: verb, resource and field manager, and of the intent whether it is written or cleared."""
    _, _, rest = request.path.partition("/namespaces/")
    plural, *more = rest.split("/")[1:]
    what = "/".join([plural, *more[1:]])
    body = await request.read()
    if ANNOTATION.encode() in body and plural == "kubeadmcontrolplanes":
        return INTENT_CLEARED if f'"{ANNOTATION}":null'.encode() in body else INTENT
    return f"{request.method} {what} {request.query.get('fieldManager', '')}".rstrip()


async def killed_at_a_new_kind(stage: Stage, folder: Path, kinds: NewKinds) -> bool:
    """Run a manager until it is killed; False where it is not, because three Machines are ready and every kind of write has been the last one."""

    async def killed_or_done() -> bool:
        return proxy.fallen.is_set() or (await stage.control_plane()).get("status", {}).get("readyReplicas") == 3

    async with guillotine(stage, folder, kinds) as (proxy, path):
        manager: Manager = stage.start_manager(kubeconfig=path)
        proxy.fall = manager.kill
        await stage.until("the manager is killed, or has made three Machines ready", killed_or_done, timeout=120)
        manager.kill()
        return proxy.fallen.is_set()


async def nothing_is_doubled(stage: Stage) -> None:
    """What was made for a Machine that does not exist yet was made for the one that is intended."""
    intended = (await stage.control_plane())["metadata"].get("annotations", {}).get(ANNOTATION, "")
    machines = await stage.names("Machine")
    ahead = (await stage.names("KubeadmConfig") | await stage.names("DevMachine")) - machines
    assert len(machines) <= 3
    assert len(ahead) <= 1
    assert all(f'"{name}"' in intended for name in ahead)


async def opened(stage: Stage) -> None:
    await stage.open()
    await set_up(stage)


async def set_up(stage: Stage, replicas: int = 1) -> None:
    """A cluster whose control plane waits for nothing but a manager."""
    await stage.create(*stage.cluster(replicas).objects())

    async def provisioned() -> bool:
        (cluster,) = await stage.all_of("Cluster")
        owned = bool((await stage.control_plane())["metadata"].get("ownerReferences"))
        return owned and bool(cluster.get("status", {}).get("initialization", {}).get("infrastructureProvisioned"))

    await stage.until("the Cluster's infrastructure is provisioned", provisioned)


async def killed_after(stage: Stage, folder: Path, writes: int) -> None:
    async with guillotine(stage, folder, after(writes)) as (proxy, path):
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
