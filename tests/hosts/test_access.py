"""The ways into a cluster: a real etcd with mutual TLS and an API server with TLS, behind hosts whose streams lead to them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import cast

import asyncssh
import pytest
from aiohttp import web

from quorate.etcd.errors import Unreachable as MemberUnreachable
from quorate.hosts.connect.access import Access, AccessFailed
from quorate.hosts.connect.ssh.errors import ConnectFailed, NoSuchFile, TunnelRefused
from quorate.hosts.connect.ssh.host import Host
from quorate.hosts.connect.ssh.hosts import Unreachable
from quorate.hosts.connect.ssh.scripts import Outcome
from quorate.hosts.connect.ssh.target import Target
from quorate.hosts.connect.ssh.tunnel import Tunnel
from quorate.hosts.manifest import Manifest
from quorate.hosts.render.host_names import HOST_NAMES
from quorate.kubernetes.errors import ConnectionFailed
from quorate.kubernetes.resource import NODES
from quorate.pki.issue import generate_ca
from quorate.pki.keys import KeyAlgorithm
from quorate.pki.kubeconfig import admin_kubeconfig
from tests.etcd.conftest import NODES as MEMBERS
from tests.etcd.conftest import EtcdRing, running_ring
from tests.hosts.manifests import SMALLEST, load
from tests.https import served

ADMIN = "/etc/kubernetes/admin.conf"
PKI = "/etc/kubernetes/pki/etcd"
CA = generate_ca(KeyAlgorithm.ECDSA_P256, now=datetime.now(UTC), common_name="kubernetes-ca")


@dataclass
class TunnelHost:
    """A host with files, whose streams lead where `ports` says."""

    name: str
    files: dict[str, bytes] = field(default_factory=dict)
    ports: dict[tuple[str, int], int] = field(default_factory=dict)
    opened: list[Tunnel] = field(default_factory=list)
    names: bytes = b"\n"
    reads: list[str] = field(default_factory=list)

    async def run(self, script: str, *, stdin: bytes = b"", deadline: float, sudo: bool = True) -> Outcome:
        assert (script, stdin, sudo) == (HOST_NAMES, b"", True)
        assert deadline > 0
        return Outcome(0, self.names, b"")

    async def read_file(self, path: str, *, sudo: bool = True) -> bytes:
        assert sudo
        self.reads.append(path)
        if path not in self.files:
            raise NoSuchFile(f"host {self.name}", f"there is no file {path}", exit_status=44)
        return self.files[path]

    async def forward(self, address: str, port: int) -> Tunnel:
        if (address, port) not in self.ports:
            raise TunnelRefused(f"host {self.name}", f"no stream to {address}:{port}: Connection refused")
        reader, writer = await asyncio.open_connection("127.0.0.1", self.ports[address, port])
        tunnel = Tunnel.start(cast("asyncssh.SSHReader[bytes]", reader), cast("asyncssh.SSHWriter[bytes]", writer))
        self.opened.append(tunnel)
        return tunnel

    async def forward_socket(self, path: str) -> Tunnel:
        raise NotImplementedError


class TunnelHosts:
    """Connections to hosts by their public addresses."""

    def __init__(self, hosts: Mapping[str, TunnelHost]) -> None:
        self.hosts = dict(hosts)
        self.closed = False

    async def connect(self, targets: Iterable[Target]) -> Mapping[str, Host | Unreachable]:
        gone = Unreachable("", "NoAnswer", "no answer within 15 s", "Check that the host is up")
        return {target.name: self.hosts.get(target.endpoint.address, gone) for target in targets}

    async def aclose(self) -> None:
        self.closed = True


def named(*names: str) -> Manifest:
    document = dict(SMALLEST)
    hosts = [
        {"publicAddress": f"192.0.2.{number}", "privateAddress": f"10.0.0.{number}", **({"hostname": name} if name else {})}
        for number, name in enumerate(names, 1)
    ]
    return load({**document, "controlPlane": {"hosts": hosts}})


@asynccontextmanager
async def api_server(nodes: Iterable[str] = (), failing: str = "") -> AsyncIterator[tuple[int, list[str]]]:
    """An API server that only lets in who has a certificate of the cluster, and the paths that it was asked for. `failing`: what it says of itself."""
    asked: list[str] = []

    async def handle(request: web.Request) -> web.StreamResponse:
        asked.append(request.path)
        if request.path == "/readyz":
            return web.Response(text=failing or "ok", status=500 if failing else 200)
        return web.json_response({"metadata": {"resourceVersion": "1"}, "items": [{"metadata": {"name": name}} for name in nodes]})

    async with served(CA, handle, "kubernetes", wants_certificates=True) as port:
        yield port, asked


def kubeconfig() -> bytes:
    return admin_kubeconfig("demo", "https://lb:6443", CA, KeyAlgorithm.ECDSA_P256, now=datetime.now(UTC))


@pytest.fixture
async def closing() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as stack:
        yield stack


async def test_the_api_is_asked_through_a_host_on_its_own_address_with_its_own_certificate(closing: AsyncExitStack) -> None:
    port, asked = await closing.enter_async_context(api_server(["cp-1"]))
    host = TunnelHost("cp-1", {ADMIN: kubeconfig()}, {("10.0.0.1", 6443): port})
    hosts = TunnelHosts({"192.0.2.1": host})
    async with Access(named("cp-1"), hosts, {}) as access:
        client = await access.api()
        assert [node.metadata.name for node in (await client.list(NODES)).items] == ["cp-1"]
        assert await access.api() is client
    assert asked == ["/readyz", "/api/v1/nodes", "/readyz"]
    assert host.reads == [ADMIN]
    assert len(host.opened) == 1, "connections are kept"
    assert hosts.closed
    assert all(tunnel.socket.fileno() < 0 for tunnel in host.opened)


async def test_another_host_takes_over_when_the_one_that_answered_does_not(closing: AsyncExitStack) -> None:
    port, _ = await closing.enter_async_context(api_server())
    first = TunnelHost("cp-1", {ADMIN: kubeconfig()}, {("10.0.0.1", 6443): port})
    second = TunnelHost("cp-2", {ADMIN: kubeconfig()}, {})
    async with Access(named("cp-1", "cp-2", "cp-3"), TunnelHosts({"192.0.2.1": first, "192.0.2.2": second}), {}) as access:
        assert await access.api() is await access.api_of("cp-1")
        for tunnel in first.opened:
            await tunnel.aclose()
        first.ports, second.ports = {}, {("10.0.0.2", 6443): port}
        assert await access.api() is await access.api_of("cp-2")
        second.ports = {}
        for tunnel in second.opened:
            await tunnel.aclose()
        with pytest.raises(AccessFailed, match=r"no API server answers: cp-1: .*refused.*; cp-2: .*refused.*; cp-3: no answer within 15 s"):
            await access.api()


async def test_an_api_server_that_is_not_ready_is_told_in_a_line_with_what_fails(closing: AsyncExitStack) -> None:
    port, _ = await closing.enter_async_context(
        api_server(failing="[+]ping ok\n[-]etcd failed: reason withheld\n[+]poststarthook/generic-ap")
    )
    host = TunnelHost("cp-1", {ADMIN: kubeconfig()}, {("10.0.0.1", 6443): port})
    async with Access(named("cp-1"), TunnelHosts({"192.0.2.1": host}), {}) as access:
        with pytest.raises(AccessFailed, match=r"cp-1: get /readyz: HTTP 500: \[-\]etcd failed: reason withheld$"):
            await access.api()


async def test_a_host_of_another_cluster_is_not_taken_for_the_clusters(closing: AsyncExitStack) -> None:
    port, _ = await closing.enter_async_context(api_server())
    hosts = {
        f"192.0.2.{number}": TunnelHost(f"cp-{number}", {ADMIN: kubeconfig()}, {(f"10.0.0.{number}", 6443): port}) for number in (1, 2)
    }
    async with Access(named("cp-1", "cp-2"), TunnelHosts(hosts), {}) as access:
        access.avoid(["cp-1"])
        assert await access.api() is await access.api_of("cp-2")


async def test_a_server_with_another_ca_is_refused(closing: AsyncExitStack) -> None:
    port, asked = await closing.enter_async_context(api_server())
    stranger = generate_ca(KeyAlgorithm.ECDSA_P256, now=datetime.now(UTC), common_name="stranger")
    admin = admin_kubeconfig("demo", "https://lb:6443", stranger, KeyAlgorithm.ECDSA_P256, now=datetime.now(UTC))
    host = TunnelHost("cp-1", {ADMIN: admin}, {("10.0.0.1", 6443): port})
    async with Access(named("cp-1"), TunnelHosts({"192.0.2.1": host}), {}) as access:
        with pytest.raises(AccessFailed, match="certificate verify failed"):
            await access.api()
        with pytest.raises(ConnectionFailed, match="certificate verify failed"):
            await (await access.api_of("cp-1")).get_raw("/readyz")
    assert asked == []


async def test_credentials_are_read_anew_only_where_somebody_doubts_them(closing: AsyncExitStack) -> None:
    port, _ = await closing.enter_async_context(api_server())
    host = TunnelHost("cp-1", {ADMIN: kubeconfig()}, {("10.0.0.1", 6443): port})
    async with Access(named("cp-1"), TunnelHosts({"192.0.2.1": host}), {}) as access:
        client = await access.api_of("cp-1")
        access.forget("cp-1")
        assert await access.api_of("cp-1") is client, "they are the same"
        host.files[ADMIN] = kubeconfig()
        assert await access.api_of("cp-1") is client
        access.forget("cp-1")
        assert await access.api_of("cp-1") is not client
    assert host.reads == [ADMIN] * 3


async def test_an_unusable_kubeconfig_is_named_with_its_host() -> None:
    host = TunnelHost("cp-1", {ADMIN: b"a: [b"})
    async with Access(named("cp-1"), TunnelHosts({"192.0.2.1": host}), {}) as access:
        with pytest.raises(AccessFailed, match=r"admin.conf of host cp-1: it is not YAML.*kubeadm init phase kubeconfig admin"):
            await access.api_of("cp-1")


@pytest.fixture
async def ring(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[EtcdRing]:
    """Three real members."""
    with contextmanager(running_ring)(tmp_path_factory.mktemp("ring")) as ring:
        await ring.ready(*MEMBERS)
        yield ring


def member_hosts(ring: EtcdRing, certificate: str = "healthcheck-client") -> dict[str, TunnelHost]:
    """A host for each member: streams to its own loopback lead to it, and streams to other hosts' addresses to theirs."""
    credentials = ring.credentials
    pki = {
        f"{PKI}/ca.crt": credentials.ca,
        f"{PKI}/{certificate}.crt": credentials.certificate,
        f"{PKI}/{certificate}.key": credentials.key,
    }
    everywhere = {(f"10.0.0.{number}", 2379): ring.client_ports[name] for number, name in enumerate(MEMBERS, 1)}
    return {
        f"192.0.2.{number}": TunnelHost(name, dict(pki), {**everywhere, ("127.0.0.1", 2379): ring.client_ports[name]})
        for number, name in enumerate(MEMBERS, 1)
    }


@pytest.mark.parametrize("certificate", ["healthcheck-client", "server"])
async def test_each_member_is_asked_through_its_own_host_with_a_certificate_from_there(ring: EtcdRing, certificate: str) -> None:
    async with Access(named(*MEMBERS), TunnelHosts(member_hosts(ring, certificate)), {}) as access:
        listed = await (await access.etcd()).members()
        by_name = {member.name: member.id for member in listed.members}
        for name in MEMBERS:
            assert (await (await access.etcd(name)).status()).member_id == by_name[name]
        assert (await (await access.etcd_at("10.0.0.3", "cp-a")).status()).member_id == by_name["cp-c"]


async def test_any_member_that_follows_a_leader_stands_for_the_ring(ring: EtcdRing) -> None:
    hosts = member_hosts(ring)
    async with Access(named(*MEMBERS), TunnelHosts(hosts), {}) as access:
        first = await access.etcd("cp-a")
        assert await access.etcd() is first
        status = await first.status()
        if status.leader == status.member_id:  # its end would leave the others without a leader for a while
            await first.move_leader(next(member.id for member in (await first.members()).members if member.name == "cp-b"))
        ring.kill("cp-a")
        with pytest.raises(MemberUnreachable):
            await (await access.etcd("cp-a")).status()
        assert await access.etcd() is await access.etcd("cp-b")


async def test_a_host_without_certificates_has_no_way_to_its_member() -> None:
    async with Access(named("cp-1"), TunnelHosts({"192.0.2.1": TunnelHost("cp-1")}), {}) as access:
        with pytest.raises(AccessFailed, match=r"there is no file /etc/kubernetes/pki/etcd/ca\.crt"):
            await access.etcd("cp-1")
        with pytest.raises(AccessFailed, match="no etcd member answers: cp-1: there is no file"):
            await access.etcd()


@pytest.mark.parametrize(
    ("answer", "name"),
    [
        (b"CP-1.example.org\ncp-1\n", "cp-1.example.org"),
        (b"localhost.localdomain\ncp-1\n", "cp-1"),
        (b"\ncp-1\n", "cp-1"),
        (b"", "192.0.2.1"),
    ],
)
async def test_a_host_that_the_manifest_does_not_name_is_what_it_calls_itself(answer: bytes, name: str) -> None:
    host = TunnelHost("", names=answer)
    async with Access(named(""), TunnelHosts({"192.0.2.1": host}), {}) as access:
        assert list(access.states) == list(access.hosts) == [name]
        assert access.ssh(name) is host


async def test_two_hosts_of_one_name_keep_apart_and_are_a_problem() -> None:
    hosts = {f"192.0.2.{number}": TunnelHost("", names=b"\ncp\n") for number in (1, 2)}
    async with Access(named("", ""), TunnelHosts(hosts), {}) as access:
        assert list(access.states) == ["cp", "192.0.2.2"]
        assert access.naming_problems[0].startswith("two hosts are called cp, one of them 192.0.2.2")


async def test_an_unreachable_host_raises_its_reason_and_is_tried_again() -> None:
    hosts = TunnelHosts({})
    async with Access(named("cp-1"), hosts, {}) as access:
        with pytest.raises(ConnectFailed, match=r"host cp-1: no answer within 15 s. Check that the host is up"):
            access.ssh("cp-1")
        hosts.hosts["192.0.2.1"] = TunnelHost("cp-1")
        await access.connect()
        assert access.ssh("cp-1").name == "cp-1"
