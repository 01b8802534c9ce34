"""Real etcd members with mutual TLS on loopback ports, and an API server that knows nothing but port-forward."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import aiohttp
import pytest
from aiohttp import WSMsgType, web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from quorate.etcd.dialers import PROTOCOL, DirectDialer, UpgradeRefused
from quorate.etcd.errors import EtcdError
from quorate.etcd.grpc_client import GrpcClient
from quorate.etcd.tls import Credentials, client_context

ETCD = Path(__file__).parents[2] / ".bin" / "etcd"


class HeldPort:
    """A free port that nobody else gets until it is let go. A server of a test can listen on it meanwhile; before it does, connections are refused.

    Linux lets two sockets have one address where both may reuse it, as Go's and asyncio's servers do, and at most one of them listens; who asks for any free
    port gets another.
    """

    def __init__(self) -> None:
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind(("127.0.0.1", 0))
        self.number: int = self._socket.getsockname()[1]

    def close(self) -> None:
        self._socket.close()


@dataclass
class CA:
    """A CA for one test."""

    key: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))
    certificate: x509.Certificate = field(init=False)

    def __post_init__(self) -> None:
        self.certificate = self._sign("etcd-ca", self.key.public_key(), ca=True)

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    def issue(self, common_name: str) -> tuple[bytes, bytes]:
        """A certificate for both directions, and its key; it names localhost only, as a host nobody asks for."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._sign(common_name, key.public_key(), ca=False)
        private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        return certificate.public_bytes(serialization.Encoding.PEM), private

    def credentials(self) -> Credentials:
        return Credentials(self.pem, *self.issue("cluster-api.x-k8s.io"))

    def _sign(self, common_name: str, public: ec.EllipticCurvePublicKey, *, ca: bool) -> x509.Certificate:
        now = datetime.now(UTC)
        issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "etcd-ca")])
        builder = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)]))
            .issuer_name(issuer)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(minutes=5))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=ca, path_length=0 if ca else None), critical=True)
        )
        if not ca:
            usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
            names: list[x509.GeneralName] = [x509.DNSName("localhost"), x509.IPAddress(ip_address("127.0.0.1"))]
            builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return builder.sign(self.key, hashes.SHA256())


@dataclass
class EtcdRing:
    """etcd processes on loopback, by node name."""

    folder: Path
    ca: CA = field(default_factory=CA)
    client_ports: dict[str, int] = field(default_factory=dict)
    peer_ports: dict[str, int] = field(default_factory=dict)
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    held: list[HeldPort] = field(default_factory=list)
    credentials: Credentials = field(init=False)

    def __post_init__(self) -> None:
        self.credentials = self.ca.credentials()
        (self.folder / "ca.crt").write_bytes(self.ca.pem)

    def reserve(self, *nodes: str) -> None:
        for node in nodes:
            client, peer = HeldPort(), HeldPort()
            self.held += [client, peer]
            self.client_ports[node], self.peer_ports[node] = client.number, peer.number

    def close(self) -> None:
        self.kill(*self.processes)
        for port in self.held:
            port.close()

    def peer_url(self, node: str) -> str:
        return f"http://127.0.0.1:{self.peer_ports[node]}"

    def start(self, node: str, *, state: str = "new", members: tuple[str, ...]) -> None:
        certificate, key = self.ca.issue(f"etcd-{node}")
        (self.folder / f"{node}.crt").write_bytes(certificate)
        (self.folder / f"{node}.key").write_bytes(key)
        client_url = f"https://127.0.0.1:{self.client_ports[node]}"
        options = {
            "name": node,
            "data-dir": self.folder / node,
            "listen-client-urls": client_url,
            "advertise-client-urls": client_url,
            "listen-peer-urls": self.peer_url(node),
            "initial-advertise-peer-urls": self.peer_url(node),
            "initial-cluster": ",".join(f"{name}={self.peer_url(name)}" for name in members),
            "initial-cluster-state": state,
            "cert-file": self.folder / f"{node}.crt",
            "key-file": self.folder / f"{node}.key",
            "trusted-ca-file": self.folder / "ca.crt",
            "client-cert-auth": "true",
            "heartbeat-interval": 50,
            "election-timeout": 500,
            "unsafe-no-fsync": "true",
            "strict-reconfig-check": "false",  # it refuses any change in the first 5 s
            "log-level": "error",
        }
        with (self.folder / f"{node}.log").open("wb") as log:
            arguments = [str(ETCD), *(f"--{name}={value}" for name, value in options.items())]
            self.processes[node] = subprocess.Popen(arguments, stdout=log, stderr=log, env={})

    def kill(self, *nodes: str) -> None:
        for node in nodes:
            process = self.processes.pop(node)
            process.kill()
            process.wait()

    def suspend(self, node: str) -> None:
        """Stop the process, and return once each of its threads has stopped: the signal alone arrives when the kernel finds the time."""
        process = self.processes[node]
        process.send_signal(signal.SIGSTOP)
        tasks = Path(f"/proc/{process.pid}/task")
        while any((task / "stat").read_text().rsplit(")", 1)[1].split()[0] != "T" for task in tasks.iterdir()):
            os.sched_yield()

    def resume(self, node: str) -> None:
        self.processes[node].send_signal(signal.SIGCONT)

    def dialer(self) -> DirectDialer:
        return DirectDialer({node: ("127.0.0.1", port) for node, port in self.client_ports.items()})

    def client(self, node: str, *, call_timeout: float = 15.0) -> GrpcClient:
        return GrpcClient(node, self.dialer(), client_context(self.credentials), call_timeout=call_timeout)

    async def ready(self, *nodes: str) -> None:
        """Wait until each of these members answers and follows a leader."""
        async with asyncio.timeout(20):
            for node in nodes:
                client = self.client(node, call_timeout=1)
                while not await _follows_a_leader(client):  # noqa: ASYNC110 (another process sets no Event here)
                    await asyncio.sleep(0.05)
                await client.close()

    async def add(self, node: str, *, learner: bool) -> None:
        """Add a member by etcd's JSON gateway: our client has no such call, because kubeadm adds members."""
        through = next(iter(self.processes))
        address = f"https://127.0.0.1:{self.client_ports[through]}/v3/cluster/member/add"
        context = client_context(self.credentials)
        context.set_alpn_protocols(["http/1.1"])
        async with (
            aiohttp.ClientSession() as session,
            session.post(address, json={"peerURLs": [self.peer_url(node)], "isLearner": learner}, ssl=context) as response,
        ):
            assert response.status == 200, await response.text()


async def _follows_a_leader(client: GrpcClient) -> bool:
    try:
        return (await client.status()).leader != 0
    except EtcdError:
        return False


def _require_etcd() -> None:
    if not ETCD.exists():
        pytest.skip(f"{ETCD} is missing: make programs")


NODES = ("cp-a", "cp-b", "cp-c")


def running_ring(folder: Path) -> Iterator[EtcdRing]:
    _require_etcd()
    ring = EtcdRing(folder)
    ring.reserve(*NODES)
    for node in NODES:
        ring.start(node, members=NODES)
    try:
        yield ring
    finally:
        ring.close()


@pytest.fixture(scope="module")
def shared_ring(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdRing]:
    """Three members for tests that change nothing but the leader."""
    yield from running_ring(tmp_path_factory.mktemp("ring"))


@pytest.fixture
async def ring(shared_ring: EtcdRing) -> EtcdRing:
    """Three members, ready; shared, so only the leader may be changed."""
    await shared_ring.ready(*NODES)
    return shared_ring


@pytest.fixture
def own_processes(tmp_path: Path) -> Iterator[EtcdRing]:
    yield from running_ring(tmp_path)


@pytest.fixture
async def own_ring(own_processes: EtcdRing) -> EtcdRing:
    """Three members of this test alone, ready."""
    await own_processes.ready(*NODES)
    return own_processes


@pytest.fixture
async def connect() -> AsyncIterator[Callable[[EtcdRing, str], GrpcClient]]:
    """Clients that are closed at the end of the test."""
    clients: list[GrpcClient] = []

    def connect(ring: EtcdRing, node: str) -> GrpcClient:
        clients.append(ring.client(node))
        return clients[-1]

    yield connect
    for client in clients:
        await client.close()


@dataclass
class PortForwardServer:
    """The port-forward of an API server: each Pod `etcd-<node>` is bridged to a loopback port."""

    session: aiohttp.ClientSession
    ports: dict[str, int] = field(default_factory=dict)
    refusals: list[int] = field(default_factory=list)  # HTTP statuses to answer first, one a request
    error_text: str = ""  # sent on the error channel instead of bridging
    first_frame: bytes | None = None  # sent as it is, instead of bridging
    opened: int = 0
    requests: list[str] = field(default_factory=list)
    bridges: list[web.WebSocketResponse] = field(default_factory=list)
    base: str = ""

    async def open_websocket(self, path: str, protocols: tuple[str, ...]) -> aiohttp.ClientWebSocketResponse:
        try:
            return await self.session.ws_connect(self.base + path, protocols=protocols, max_msg_size=0)
        except aiohttp.WSServerHandshakeError as error:
            raise UpgradeRefused(error.status, error.message) from error

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request.path_qs)
        if self.refusals:
            return web.Response(status=self.refusals.pop(0))
        websocket = web.WebSocketResponse(protocols=(PROTOCOL,), max_msg_size=0)
        await websocket.prepare(request)
        self.opened += 1
        self.bridges.append(websocket)
        if self.first_frame is not None:
            await websocket.send_bytes(self.first_frame)
            await websocket.receive()
            return websocket
        for channel in (0, 1):
            await websocket.send_bytes(bytes((channel,)) + (2379).to_bytes(2, "little"))
        if self.error_text:
            await websocket.send_bytes(b"\1" + self.error_text.encode())
            await websocket.receive()
        else:
            await self._bridge(websocket, self.ports[request.match_info["pod"]])
        return websocket

    async def _bridge(self, websocket: web.WebSocketResponse, port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        async with asyncio.TaskGroup() as tasks:
            inward = tasks.create_task(self._to_client(reader, websocket))
            with contextlib.suppress(ConnectionError):
                async for message in websocket:
                    assert message.type is WSMsgType.BINARY
                    assert message.data[0] == 0
                    writer.write(message.data[1:])
            inward.cancel()
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()

    async def _to_client(self, reader: asyncio.StreamReader, websocket: web.WebSocketResponse) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65536):
                await websocket.send_bytes(b"\0" + data)
        await websocket.close()


@pytest.fixture
async def port_forward() -> AsyncIterator[PortForwardServer]:
    async with aiohttp.ClientSession() as session:
        server = PortForwardServer(session)
        app = web.Application()
        app.router.add_get("/api/v1/namespaces/kube-system/pods/{pod}/portforward", server.handle)
        runner = web.AppRunner(app, shutdown_timeout=1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        server.base = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield server
        await runner.cleanup()


@pytest.fixture
def make_ca() -> type[CA]:
    return CA


@pytest.fixture
def unused_port() -> Iterator[int]:
    """A port on which nobody listens but who does so in this test."""
    with closing(HeldPort()) as port:
        yield port.number


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A port that takes connections and never answers."""
    with closing(socket.socket()) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]
