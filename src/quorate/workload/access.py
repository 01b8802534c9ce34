"""Credentials for a workload cluster: its admin kubeconfig, and the client certificate for its etcd."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

import aiohttp

from quorate.etcd.dialers import OpenWebSocket, PortForwardDialer, UpgradeRefused
from quorate.etcd.tls import Credentials
from quorate.kubernetes import inline_kubeconfig
from quorate.kubernetes.config import ConfigError
from quorate.kubernetes.errors import ApiError, ConnectionFailed
from quorate.kubernetes.inline_kubeconfig import InlineKubeconfig
from quorate.pki import issue_etcd_client
from quorate.pki.keys import KeyAlgorithm, KeyPair, generate_key

_SOURCE = "the Secret of the kubeconfig"


class AccessUnavailable(Exception):
    """A Secret that is missing, or whose content cannot be used. The message names the Secret, the cause and the way out, never its content."""


@dataclass(frozen=True, slots=True)
class EtcdSecrets:
    """What the management cluster keeps about a cluster's etcd.

    `ca` without a key is an external etcd's (or a user's own); `client` is then the pair of the API server, `<cluster>-apiserver-etcd-client`.
    """

    ca: KeyPair
    client: KeyPair | None = None


class Secrets(Protocol):
    """Reads a cluster's Secrets from the management cluster, as they are now. Both raise AccessUnavailable, and end within a deadline of theirs."""

    async def kubeconfig(self) -> bytes:
        """The admin kubeconfig, from `<cluster>-kubeconfig`."""
        ...

    async def etcd(self) -> EtcdSecrets:
        """etcd's CA, from `<cluster>-etcd`, and, where that has no key, the API server's client pair."""
        ...


class AdminKubeconfig:
    """The kubeconfig that a connection was made by, held against its Secret."""

    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets
        self._content = b""

    async def read(self) -> InlineKubeconfig:
        """As it is now, to connect by. Raises AccessUnavailable and ConfigError."""
        self._content = await self._secrets.kubeconfig()
        return inline_kubeconfig.read(self._content, source=_SOURCE)

    async def moved(self) -> str:
        """Why what was connected is not what the Secret names now; "" where it is, and where the Secret cannot be read or used.

        The API server of before may still answer: of a cluster that was restored elsewhere it has another ring than the one that is to be kept.
        """
        try:
            newest = await self._secrets.kubeconfig()
            if newest == self._content:
                return ""
            before, now = (_server(inline_kubeconfig.read(each, source=_SOURCE)) for each in (self._content, newest))
        except (AccessUnavailable, ConfigError):
            return ""
        if before != now:
            return f"{_SOURCE} names another API server, or another CA of it, than the one that is connected"
        self._content = newest
        return ""


def _server(kubeconfig: InlineKubeconfig) -> tuple[str, bytes, str]:
    """Which API server it is for, whoever it lets in."""
    return kubeconfig.server, kubeconfig.ca, kubeconfig.tls_server_name


Mint = Callable[[KeyPair], Awaitable[KeyPair]]
"""Makes a client certificate for etcd from its CA (common name cluster-api.x-k8s.io, 10 years). Raises PkiError."""


class EtcdClientKey:
    """The key that this process shows to the etcds of all clusters, whatever `encryptionAlgorithm` says of the keys that a cluster keeps.

    An RSA key would take 40 to 400 ms of CPU, and each handshake with it ten times as long.
    """

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self._key = generate_key(KeyAlgorithm.ECDSA_P256)

    async def mint(self, ca: KeyPair) -> KeyPair:
        """A certificate of the key, by `ca`; see `Mint`."""
        return await asyncio.to_thread(issue_etcd_client, ca, self._key, now=self._now())


class EtcdIdentity:
    """Who we are toward one cluster's etcd: a minted certificate, kept until the CA changes, or the pair that the user supplied."""

    def __init__(self, mint: Mint) -> None:
        self._mint = mint
        self._lock = asyncio.Lock()
        self._minted: tuple[KeyPair, KeyPair] | None = None

    async def credentials(self, secrets: EtcdSecrets) -> Credentials:
        """CA, certificate and key. Raises AccessUnavailable where neither the CA's key nor a client pair is there."""
        pair = await self._for_ca(secrets.ca) if secrets.ca.key else secrets.client
        if pair is None or not pair.key:
            raise AccessUnavailable(
                "etcd's CA has no key, and there is no apiserver-etcd-client pair: supply that Secret with tls.crt and tls.key"
            )
        return Credentials(secrets.ca.certificate, pair.certificate, pair.key)

    async def _for_ca(self, ca: KeyPair) -> KeyPair:
        async with self._lock:  # one task mints, the others wait for its result
            if self._minted is None or self._minted[0] != ca:
                try:
                    self._minted = ca, await self._mint(ca)
                except ValueError as error:
                    raise AccessUnavailable(f"no client certificate could be made from etcd's CA: {error}") from error
            return self._minted[1]


class WebSocketOpener(Protocol):
    """What port-forwarding needs of a client of the workload cluster."""

    async def connect_websocket(self, path: str, protocols: tuple[str, ...]) -> aiohttp.ClientWebSocketResponse:
        """Open a WebSocket; raises ApiError or ConnectionFailed."""
        ...


def port_forward_dialer(client: WebSocketOpener) -> PortForwardDialer:
    """A dialer through the workload cluster's API server."""
    return PortForwardDialer(opener(client))


def opener(client: WebSocketOpener) -> OpenWebSocket:
    """The client's `connect_websocket` with the errors that ways to a Pod know."""

    async def open_websocket(path: str, protocols: tuple[str, ...]) -> aiohttp.ClientWebSocketResponse:
        try:
            return await client.connect_websocket(path, protocols)
        except ApiError as error:
            raise UpgradeRefused(error.code, str(error)) from error
        except ConnectionFailed as error:
            raise ConnectionError(str(error)) from error

    return open_websocket
