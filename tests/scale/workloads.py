"""Workload clusters of the simulation, served over real sockets: TLS, the REST API with its watches, and etcd's gRPC through the port-forward protocol.

Each has CAs of its own and an address of its own (127.10.0.1 and on), at one port. What hosts, kubelets, kubeadm and etcd's members do is the
simulation's, in real time; what travels is what a real cluster would send.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, cast

from aiohttp import web

from quorate.kubernetes.errors import ConnectionFailed
from quorate.kubernetes.transport import Request
from quorate.pki import KeyAlgorithm, KeyPair
from quorate.pki.issue import generate_ca, issue_server
from quorate.simulation.engine import rest
from quorate.simulation.engine.apiserver import Failure
from quorate.simulation.engine.objects import parse_selector
from quorate.simulation.engine.watching import Watch, failure_status
from quorate.simulation.engine.world import Trace, World
from quorate.simulation.machines.hosts import Host
from quorate.simulation.machines.kubeadm import Kubeadm
from quorate.simulation.machines.kubelet import Kubelets, forget_node
from quorate.simulation.machines.workload_cluster import WorkloadCluster
from quorate.tls import server_context
from tests.scale.members import member_server

_PROTOCOL = "v4.channel.k8s.io"
_WHO = "quorate"
_AT_ONCE = ("/", "/version", "/healthz", "/readyz", "/livez", "/readyz/etcd")


class RealTime(World):
    """The ground of workload clusters in real time, with no management cluster of its own."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.loop = cast("Any", asyncio.get_running_loop())
        self.trace = Trace(self.loop.time)

    def now(self) -> datetime:
        """The time of the machine."""
        return datetime.now(UTC)


@dataclass(eq=False)
class Workload:
    """One workload cluster and how it is reached."""

    name: str
    address: str
    cluster: WorkloadCluster
    kubelets: Kubelets
    ca: KeyPair
    etcd_ca: KeyPair
    serving: ssl.SSLContext
    etcd: ssl.SSLContext
    random: Random
    listed_at: float = 0.0  # loop time of the last list of members that somebody asked for
    silent: bool = False  # requests arrive, and nothing is answered
    listener: asyncio.Server | None = None
    full: list[socket.socket] = field(default_factory=list)  # what keeps a listener that accepts nothing full
    connections: set[asyncio.Transport] = field(default_factory=set)

    def boot(self, name: str, version: str, *, init: bool) -> Host:
        """A host on which kubeadm begins."""
        host = Host(name, f"dev:///{name}", self.cluster.new_address(), version)
        self.cluster.hosts[name] = host
        kubeadm = Kubeadm(self.cluster.world, self.cluster, self.kubelets, host, self.random)
        (kubeadm.init if init else kubeadm.join)()
        return host

    def destroy(self, name: str) -> None:
        """Take a host away for good, and its Node."""
        host = self.cluster.hosts.get(name)
        if host is not None:
            host.alive = False
            self.cluster.hosts[name] = Host(name, host.provider_id, host.address, host.version, alive=False)
            self.cluster.changed()
        forget_node(self.cluster, name, "core")


class Workloads:
    """All of them: `start` serves them, each at its address and this port, until `close`."""

    def __init__(self, names: list[str], port: int) -> None:
        self.port = port
        world = RealTime(0)
        self.by_address: dict[str, Workload] = {}
        self.by_name: dict[str, Workload] = {}
        for number, name in enumerate(names, 1):
            workload = _made(world, name, f"127.10.{number >> 8}.{number & 255}")
            self.by_name[name] = self.by_address[workload.address] = workload

    async def start(self) -> None:
        """Listen at every address."""
        application = web.Application(client_max_size=32 << 20)
        application.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(application, handler_cancellation=True, access_log=None, keepalive_timeout=600.0, shutdown_timeout=1.0)
        await self._runner.setup()
        for workload in self.by_name.values():
            await self.listen(workload)

    async def close(self) -> None:
        """End every connection."""
        for workload in self.by_name.values():
            self._stop(workload)
        await self._runner.cleanup()

    async def listen(self, workload: Workload) -> None:
        """Answer (again)."""
        self._stop(workload)
        workload.silent = False
        loop = asyncio.get_running_loop()
        server = cast("Callable[[], asyncio.Protocol]", self._runner.server)
        workload.listener = await loop.create_server(server, workload.address, self.port, ssl=workload.serving, backlog=128)

    async def refuse(self, workload: Workload) -> None:
        """Nobody listens there any more, and every connection is reset."""
        self._stop(workload)

    async def drop(self, workload: Workload) -> None:
        """Nothing is answered any more, and who connects is not accepted: to the other side, packets are lost."""
        workload.silent = True
        if workload.listener is not None:
            workload.listener.close()
        deaf = socket.socket()
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        deaf.bind((workload.address, self.port))
        deaf.listen(0)
        workload.full.append(deaf)
        for _ in range(2):  # a backlog of 0 holds one connection, or two
            caller = socket.socket()
            caller.setblocking(False)
            caller.connect_ex((workload.address, self.port))
            workload.full.append(caller)

    def _stop(self, workload: Workload) -> None:
        if workload.listener is not None:
            workload.listener.close()
            workload.listener = None
        for each in workload.full:
            each.close()
        workload.full.clear()
        for transport in tuple(workload.connections):
            transport.abort()
        workload.connections.clear()

    # One request.

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        transport = cast("asyncio.Transport", request.transport)
        workload = self.by_address[transport.get_extra_info("sockname")[0]]
        workload.connections.add(transport)
        if workload.silent:
            await asyncio.get_running_loop().create_future()
        path = request.raw_path
        if request.path in _AT_ONCE:
            return web.Response(text="ok")
        if request.path.endswith("/portforward"):
            return await self._forward(workload, request)
        try:
            workload.cluster.backend()
            workload.cluster.check_storage()
            if request.query.get("watch") in ("true", "1"):
                return await self._watch(workload, request)
            asked = Request(request.method, path, path, await request.read() or None, request.content_type)
            return web.Response(body=rest.answer(workload.cluster.server, asked, _WHO), content_type="application/json")
        except Failure as failure:
            return web.json_response(failure_status(failure), status=failure.code)
        except ConnectionFailed as error:
            return web.json_response(failure_status(Failure(503, "ServiceUnavailable", str(error))), status=503)

    @staticmethod
    async def _watch(workload: Workload, request: web.Request) -> web.StreamResponse:
        server, target = workload.cluster.server, rest.parse(request.raw_path)
        selector = parse_selector(target.option("labelSelector"))
        watch = Watch(server, rest.kind_of(server, target), target.namespace, selector, lambda: 0.0, 600.0)
        watch.begin(int(target.option("resourceVersion") or 0), float(target.option("timeoutSeconds") or 300))
        server.subscribe(watch.tell)
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        try:
            with contextlib.suppress(ConnectionResetError):  # whoever watched is gone
                await response.prepare(request)
                async for chunk in watch.chunks():
                    if workload.silent:
                        await asyncio.get_running_loop().create_future()
                    await response.write(chunk)
        finally:
            watch.close()
            server.unsubscribe(watch.tell)
        return response

    async def _forward(self, workload: Workload, request: web.Request) -> web.StreamResponse:
        """One port-forward: its frames to and from one end of a pair of sockets, at whose other end the member of the Pod answers by gRPC."""
        pod, port = request.path.split("/")[-2], int(request.query["ports"])
        component, _, node = pod.partition("-") if pod.startswith("etcd-") else ("kube-apiserver", "", pod.removeprefix("kube-apiserver-"))
        host = workload.cluster.hosts.get(node)
        if host is None or not workload.cluster.is_reached(host):
            return web.json_response(failure_status(Failure(404, "NotFound", f'pods "{pod}" not found')), status=404)
        frames = web.WebSocketResponse(protocols=(_PROTOCOL,), max_msg_size=16 << 20)
        await frames.prepare(request)
        for channel in (0, 1):
            await frames.send_bytes(bytes((channel,)) + port.to_bytes(2, "little"))
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        theirs.setblocking(False)
        loop = asyncio.get_running_loop()
        factory, context = (asyncio.Protocol, workload.serving) if component != "etcd" else (member_server(workload, node), workload.etcd)
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(_serve(loop, factory, theirs, context))
                up = tasks.create_task(_up(loop, ours, frames))
                async for message in frames:
                    if len(message.data) > 1:
                        await loop.sock_sendall(ours, message.data[1:])
                ours.shutdown(socket.SHUT_RDWR)
                up.cancel()
        except* (OSError, ssl.SSLError):
            pass  # either side has ended
        finally:
            ours.close()
        return frames


async def _serve(
    loop: asyncio.AbstractEventLoop, factory: Callable[[], asyncio.BaseProtocol], end: socket.socket, tls: ssl.SSLContext
) -> None:
    with contextlib.suppress(OSError, ssl.SSLError):
        await loop.connect_accepted_socket(cast("Any", factory), end, ssl=tls)


async def _up(loop: asyncio.AbstractEventLoop, ours: socket.socket, frames: web.WebSocketResponse) -> None:
    while data := await loop.sock_recv(ours, 1 << 16):
        await frames.send_bytes(b"\x00" + data)
    await frames.close()


def _made(world: World, name: str, address: str) -> Workload:
    now, random = datetime.now(UTC), world.random(name)
    cluster = WorkloadCluster(world, name, address)
    ca, etcd_ca = (generate_ca(KeyAlgorithm.ECDSA_P256, now=now, common_name=each) for each in ("kubernetes", "etcd-ca"))
    serving = _serving(ca, "kube-apiserver", address, now)
    etcd = _serving(etcd_ca, "etcd", "127.0.0.1", now)
    etcd.set_alpn_protocols(["h2"])
    return Workload(name, address, cluster, Kubelets(world, cluster), ca, etcd_ca, serving, etcd, random)


def _serving(ca: KeyPair, name: str, address: str, now: datetime) -> ssl.SSLContext:
    pair = issue_server(
        ca,
        common_name=name,
        ip_addresses=[address],
        algorithm=KeyAlgorithm.ECDSA_P256,
        not_before=now - timedelta(minutes=5),
        not_after=now + timedelta(days=365),
    )
    return server_context(pair.certificate, pair.key)
