"""Access to one cluster through its hosts: SSH to each, the API server of each, and the etcd member of each, through any host that answers."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Generic, Protocol, Self, TypeVar

from quorate.core.health import Absent
from quorate.etcd.client import EtcdClient, SnapshotClient
from quorate.etcd.dialers import CLIENT_PORT
from quorate.etcd.errors import EtcdError
from quorate.etcd.grpc_client import GrpcClient
from quorate.etcd.tls import Credentials, client_context
from quorate.hosts import manifest as manifests
from quorate.hosts.connect.kept_clients import KeptClients
from quorate.hosts.connect.ssh.errors import ConnectFailed, NoSuchFile, SshError
from quorate.hosts.connect.ssh.host import Host
from quorate.hosts.connect.ssh.hosts import Unreachable
from quorate.hosts.connect.ssh.target import Target
from quorate.hosts.connect.targets import target
from quorate.hosts.connect.tunnels import TunnelConnector, TunnelDialer, Tunnels
from quorate.hosts.render.host_names import HOST_NAMES, NAMING_DEADLINE, Naming, names_of, naming
from quorate.hosts.render.kubeadm_configuration import node_address
from quorate.kubernetes import inline_kubeconfig
from quorate.kubernetes.client import Client, connect
from quorate.kubernetes.config import ConfigError, RestConfig
from quorate.kubernetes.errors import ApiError, ConnectionFailed

T = TypeVar("T")

API_SERVER_PORT = 6443
"""Where every API server that kubeadm sets up listens; the manifest's endpoint may have another in front of it."""
CHECK_DEADLINE = 5.0
"""Seconds for an API server, or a member, to show that it answers; it does so in milliseconds."""

_ADMIN_KUBECONFIG = "/etc/kubernetes/admin.conf"
_ETCD_PKI = "/etc/kubernetes/pki/etcd"
_LOOPBACK = "127.0.0.1"  # where the member of each host listens, wherever it listens beside
_SERVER_NAME = "kubernetes"  # in the certificate of every API server that kubeadm sets up, whatever its addresses


class AccessFailed(Exception):
    """There is no way to an API server or to an etcd member. The message names each host that was tried, the cause, and the way out where there is one."""

    def __init__(self, cause: str, remedy: str = "") -> None:
        super().__init__(f"{cause}{'. ' if remedy else ''}{remedy}")
        self.cause = cause
        self.remedy = remedy


@dataclass(frozen=True, slots=True)
class _Answer(Generic[T]):
    client: T | None
    failure: str = ""


class Connections(Protocol):
    """What keeps connections to hosts: `quorate.hosts.connect.ssh.hosts.Hosts`."""

    async def connect(self, targets: Iterable[Target]) -> Mapping[str, Host | Unreachable]:
        """Connect to all at once, and say for each name what came of it. Idempotent."""
        ...

    async def aclose(self) -> None:
        """Close all connections."""
        ...


class Access:
    """The ways into one cluster, for as long as it is entered. Entering connects to every host, and raises nothing of a host that is unreachable.

    Hosts go by the name that their Nodes and members have: the manifest's or, where it leaves that to the host, the one that the host has joined by or, before
    it has, calls itself. Those that have no name yet, because nobody could ask them, are `unnamed` and go by their addresses. `environment` is what agent
    sockets such as `env:SSH_AUTH_SOCK` refer to.
    """

    def __init__(self, manifest: manifests.Manifest, connections: Connections, environment: Mapping[str, str]) -> None:
        self.manifest = manifest
        self.states: Mapping[str, Host | Unreachable] = {}
        self.hosts: Mapping[str, manifests.Host] = {}
        self.naming_problems: tuple[str, ...] = ()
        self.unnamed: frozenset[str] = frozenset()
        self._avoided: frozenset[str] = frozenset()
        self._connections = connections
        self._targets = [target(host, host.hostname or host.public_address, environment) for host in manifest.hosts]
        self._namings: dict[str, Naming] = {}  # by the target's name
        self._tunnels = Tunnels()
        self._api_servers = KeptClients(self._read_kubeconfig, self._api_client, Client.close)
        self._members = KeptClients(self._read_etcd_credentials, self._etcd_client, GrpcClient.close)
        self._members_elsewhere: dict[tuple[str, str], GrpcClient] = {}

    async def __aenter__(self) -> Self:
        await self.connect()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for client in self._members_elsewhere.values():
            await client.close()
        await self._members.aclose()
        await self._api_servers.aclose()
        await self._tunnels.aclose()
        await self._connections.aclose()

    async def connect(self) -> Mapping[str, Host | Unreachable]:
        """Try again where there is no connection, and say how each host is now, in the manifest's order. What is connected stays so. Takes 15 s at most."""
        found = await self._connections.connect(self._targets)
        await self._ask_names(found)
        found_names = names_of(self.manifest, self._namings)
        names, self.unnamed, self.naming_problems = found_names.names, found_names.unnamed, found_names.problems
        self.hosts = dict(zip(names, self.manifest.hosts, strict=True))
        self.states = {name: found[each.name] for name, each in zip(names, self._targets, strict=True)}
        return self.states

    @property
    def control_planes(self) -> tuple[str, ...]:
        """The names of the control plane's hosts, in the manifest's order."""
        return tuple(self.hosts)[: len(self.manifest.control_plane.hosts)]

    def ssh(self, name: str) -> Host:
        """The host. Raises a ConnectFailed where it was unreachable when it was last tried, KeyError for a name that no host has."""
        state = self.states[name]
        if isinstance(state, Unreachable):
            raise ConnectFailed(f"host {name}", state.reason, state.remedy)
        return state

    def avoid(self, names: Iterable[str]) -> None:
        """Do not take these hosts for the cluster's where any host would do: they belong to another one."""
        self._avoided = frozenset(names)

    # The API.

    async def api(self) -> Client:
        """A client of an API server that answers now, the same as last time while that one does. Raises AccessFailed.

        Ask for it anew before each piece of work, and after a failure: another host's API server takes over then. It is closed with this access.
        """
        return await self._answering(self._api_servers, _api_server_answers, "no API server answers")

    async def api_of(self, name: str) -> Client:
        """A client of the API server of this host, which nobody asked yet whether it answers. Raises AccessFailed. It is closed with this access."""
        return await self._api_servers.get(name)

    # etcd.

    async def etcd(self, through: str | None = None) -> SnapshotClient:
        """A client of the etcd member of a host, or of any that answers and follows a leader now. Raises AccessFailed. It is closed with this access."""
        if through is not None:
            return await self._members.get(through)
        return await self._answering(self._members, _member_answers, "no etcd member answers")

    async def etcd_at(self, address: str, through: str) -> SnapshotClient:
        """A client of the member at another address, with the certificate of the host through which it is reached. Raises AccessFailed.

        For members on hosts that SSH does not reach, or that the manifest does not have. It is closed with this access.
        """
        key = address, through
        if key not in self._members_elsewhere:
            credentials, host = await self._read_etcd_credentials(through), self.ssh(through)
            dialer = TunnelDialer(lambda: self._tunnels.open(host, address, CLIENT_PORT))
            self._members_elsewhere[key] = GrpcClient(address.replace(":", "-"), dialer, _context(credentials, through))
        return self._members_elsewhere[key]

    def forget(self, name: str) -> None:
        """Read the credentials of this host anew when they are next needed: for whoever changed them."""
        self._api_servers.doubt(name)
        self._members.doubt(name)

    async def _answering(self, clients: KeptClients[T], check: Callable[[T], Awaitable[None]], failure: str) -> T:
        """The client of the host that answered last or, where it does not, of the first of the others, in the manifest's order, that does."""
        names = [name for name in self.control_planes if name not in self._avoided]
        causes: dict[str, str] = {}
        for group in clients.preferred_first(names):
            asked = {name: self._checked(clients, name, check) for name in group}
            for name, answer in (await _all_at_once(asked)).items():
                if answer.client is not None:
                    clients.prefer(name)
                    return answer.client
                causes[name] = answer.failure
        raise AccessFailed(f"{failure}: {'; '.join(f'{name}: {causes[name]}' for name in names)}")

    async def _checked(self, clients: KeptClients[T], name: str, check: Callable[[T], Awaitable[None]]) -> _Answer[T]:
        """The client of this host, which has answered, or why it has not."""
        try:
            async with asyncio.timeout(CHECK_DEADLINE):
                client = await clients.get(name)
                await check(client)
        except TimeoutError:
            return _Answer(None, f"no answer within {CHECK_DEADLINE:g} s")
        except (AccessFailed, ApiError, ConnectionFailed, ConfigError, EtcdError) as error:
            clients.doubt(name)
            return _Answer(None, error.cause if isinstance(error, AccessFailed) else str(error))
        return _Answer(client)

    # What the clients are made of.

    async def _read_kubeconfig(self, name: str) -> bytes:
        return (await self._read(name, _ADMIN_KUBECONFIG))[0]

    async def _read_etcd_credentials(self, name: str) -> Credentials:
        """The certificate that kubeadm makes for such questions, or the member's own where somebody else made the certificates and left that one out."""
        try:
            return Credentials(*await self._read(name, *_pair("healthcheck-client")))
        except AccessFailed as error:
            if not isinstance(error.__cause__, NoSuchFile):
                raise
        return Credentials(*await self._read(name, *_pair("server")))

    async def _read(self, name: str, *paths: str) -> Sequence[bytes]:
        try:
            host = self.ssh(name)
            return [await host.read_file(path) for path in paths]
        except SshError as error:
            raise AccessFailed(error.cause, error.remedy) from error

    def _api_client(self, name: str, kubeconfig: bytes) -> Client:
        address = node_address(self.manifest, self.hosts[name])
        server = f"https://{f'[{address}]' if ':' in address else address}:{API_SERVER_PORT}"
        try:
            admin = inline_kubeconfig.read(kubeconfig, source=f"{_ADMIN_KUBECONFIG} of host {name}")
            config = RestConfig(server=server, ca=admin.ca, certificate=admin.certificate, key=admin.key, tls_server_name=_SERVER_NAME)
            return connect(config, connector=lambda: TunnelConnector(lambda: self._tunnels.open(self.ssh(name), address, API_SERVER_PORT)))
        except (ConfigError, ValueError) as error:
            raise AccessFailed(str(error), "Look at that file, or renew it with `kubeadm init phase kubeconfig admin`") from error

    def _etcd_client(self, name: str, credentials: Credentials) -> GrpcClient:
        host = self.ssh(name)
        return GrpcClient(name, TunnelDialer(lambda: self._tunnels.open(host, _LOOPBACK, CLIENT_PORT)), _context(credentials, name))

    async def _ask_names(self, found: Mapping[str, Host | Unreachable]) -> None:
        """Ask those that the manifest does not name, once each."""
        nameless = [
            each.name
            for each, host in zip(self._targets, self.manifest.hosts, strict=True)
            if not host.hostname and each.name not in self._namings
        ]
        reachable = {name: host for name in nameless if not isinstance(host := found[name], Unreachable)}
        provider = self.manifest.cloud_provider
        for name, answer in (await _all_at_once({name: _name(host) for name, host in reachable.items()})).items():
            said = naming(answer, fully_qualified=provider.azure is None)
            if said.own or not isinstance(said.node, Absent):
                self._namings[name] = said


def _context(credentials: Credentials, name: str) -> ssl.SSLContext:
    try:
        return client_context(credentials)
    except ValueError as error:
        raise AccessFailed(f"{_ETCD_PKI} of host {name}: {error}") from error


async def _name(host: Host) -> bytes:
    try:
        outcome = await host.run(HOST_NAMES, deadline=NAMING_DEADLINE)
    except SshError:
        return b""  # it is unreachable, which the probe is about to tell
    return outcome.stdout


async def _api_server_answers(client: Client) -> None:
    await client.get_raw("/readyz")


async def _member_answers(client: EtcdClient) -> None:
    await client.members()


def _pair(name: str) -> tuple[str, str, str]:
    return f"{_ETCD_PKI}/ca.crt", f"{_ETCD_PKI}/{name}.crt", f"{_ETCD_PKI}/{name}.key"


async def _all_at_once(asked: Mapping[str, Awaitable[T]]) -> Mapping[str, T]:
    async def wait(answer: Awaitable[T]) -> T:
        return await answer

    async with asyncio.TaskGroup() as group:
        tasks = {name: group.create_task(wait(answer)) for name, answer in asked.items()}
    return {name: task.result() for name, task in tasks.items()}
