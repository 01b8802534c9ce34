"""One connection to one SSH server: checks its key, authenticates, and explains every failure.

Nothing is read from ~/.ssh/config: what the manifest says is all there is. No passwords, no GSSAPI, no forwarding of agents.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import asyncssh

from quorate.hosts.connect.ssh.errors import (
    AuthenticationFailed,
    BastionRefused,
    HostKeyChanged,
    HostKeyRefused,
    HostKeyUnknown,
    KnownHostsUnusable,
    NoAnswer,
)
from quorate.hosts.connect.ssh.host_keys import Trusted, Verdict, algorithm, fingerprint, parse_pin
from quorate.hosts.connect.ssh.identities import Offer, offered
from quorate.hosts.connect.ssh.known_hosts import KnownHosts
from quorate.hosts.connect.ssh.target import Endpoint

_MANIFEST = "the manifest"
_HANDSHAKES = 20
"""At once: each costs some 4 ms of CPU on our side, and 50 of them would make each other late."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """How long things may take, in seconds."""

    connect: float = 15.0  # TCP, key exchange and login, each hop by itself
    keepalive: float = 15.0  # between questions to a silent server
    keepalive_count: int = 3  # questions without an answer after which the connection is dropped
    grace: float = 8.0  # beyond a script's deadline, for the host to end it (5 s from TERM to KILL) and to say so


class Dialer:
    """Opens connections. `accept_new_host_keys` takes the key of a host of which nothing is known, once, and records it; a changed key is never taken."""

    def __init__(self, known_hosts: KnownHosts, *, accept_new_host_keys: bool = False, timing: Timing = Timing()) -> None:
        self.timing = timing
        self._known_hosts = known_hosts
        self._accept_new = accept_new_host_keys
        self._handshakes = asyncio.Semaphore(_HANDSHAKES)

    async def open(
        self, endpoint: Endpoint, where: str, tunnel: asyncssh.SSHClientConnection | None = None
    ) -> asyncssh.SSHClientConnection:
        """Connect and log in within the connect deadline, through `tunnel` if given. Raises a ConnectFailed; `where` names the server in it."""
        verifier = _Verifier(self._trusted(endpoint, where), accept_new=self._accept_new)
        async with self._handshakes:
            try:
                async with asyncio.timeout(self.timing.connect), offered(endpoint, where) as offer:
                    with _explained(endpoint, where, verifier, offer):
                        connection = await self._connect(endpoint, verifier, offer, tunnel)
            except TimeoutError:
                cause = f"no answer within {self.timing.connect:g} s"
                raise NoAnswer(where, cause, "Check that the host is up, its address, and the firewalls between") from None
        if verifier.is_new and verifier.shown is not None:
            self._record(endpoint, where, connection, verifier.shown)
        return connection

    async def _connect(
        self, endpoint: Endpoint, verifier: _Verifier, offer: Offer, tunnel: asyncssh.SSHClientConnection | None
    ) -> asyncssh.SSHClientConnection:
        trusted = verifier.trusted
        return await asyncssh.connect(
            endpoint.address,
            endpoint.port,
            tunnel=tunnel,
            config=None,
            username=endpoint.user,
            client_factory=lambda: verifier,
            known_hosts=([], list(trusted.cas), list(trusted.revoked)),  # plain keys are checked by the verifier alone
            server_host_key_algs=trusted.preferred_algorithms,
            client_keys=list(offer.keys),
            agent_path=None,
            preferred_auth=["publickey"],
            gss_host=None,
            keepalive_interval=self.timing.keepalive,
            keepalive_count_max=self.timing.keepalive_count,
        )

    def _trusted(self, endpoint: Endpoint, where: str) -> Trusted:
        if endpoint.host_key:
            try:
                return parse_pin(endpoint.host_key, _MANIFEST)
            except ValueError as error:
                raise HostKeyUnknown(where, f"the host key in the manifest cannot be understood: {error}") from None
        try:
            return self._known_hosts.trusted(endpoint.address, endpoint.port)
        except (OSError, ValueError) as error:
            raise KnownHostsUnusable(
                where, f"{self._known_hosts.path} cannot be read: {error}", "Correct that file or name another"
            ) from None

    def _record(self, endpoint: Endpoint, where: str, connection: asyncssh.SSHClientConnection, key: asyncssh.SSHKey) -> None:
        try:
            self._known_hosts.record(endpoint.address, endpoint.port, key)
        except OSError as error:
            connection.abort()
            cause = f"its new key cannot be recorded in {self._known_hosts.path}: {error.strerror or error}"
            raise KnownHostsUnusable(where, cause, "Make that file writable or name another") from None


class _Verifier(asyncssh.SSHClient):
    """Checks the key that a server shows, and remembers it for the error or the record."""

    def __init__(self, trusted: Trusted, *, accept_new: bool) -> None:
        self.trusted = trusted
        self.shown: asyncssh.SSHKey | None = None
        self._accept_new = accept_new

    @property
    def verdict(self) -> Verdict | None:
        return self.trusted.judge(fingerprint(self.shown)) if self.shown else None

    @property
    def is_new(self) -> bool:
        return self.verdict is Verdict.NEW

    def validate_host_public_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:  # noqa: ARG002  asyncssh's signature
        self.shown = key
        return self.verdict is Verdict.KNOWN or (self.is_new and self._accept_new)


@contextmanager
def _explained(endpoint: Endpoint, where: str, verifier: _Verifier, offer: Offer) -> Iterator[None]:
    """asyncssh's errors of connecting, in our words."""
    try:
        yield
    except asyncssh.HostKeyNotVerifiable as error:
        raise _key_refused(where, verifier, str(error.reason)) from None
    except asyncssh.PermissionDenied:
        remedy = f"Put the public key into authorized_keys of {endpoint.user} there, or name another user or key"
        raise AuthenticationFailed(where, f"user {endpoint.user} is not let in ({offer})", remedy) from None
    except asyncssh.ChannelOpenError as error:
        remedy = "Check that the host is up, and that sshd on the bastion has AllowTcpForwarding and no PermitOpen against it"
        raise BastionRefused(where, f"the bastion does not connect to {endpoint.address}:{endpoint.port}: {error.reason}", remedy) from None
    except asyncssh.Error as error:
        raise NoAnswer(where, f"the connection ended before the login: {error.reason}", "See the log of sshd on the host") from None
    except (OSError, UnicodeError) as error:  # the second: a name that cannot be one in DNS
        cause = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise NoAnswer(where, cause, "Check that the host is up and runs sshd, its address, and its port") from None


def _key_refused(where: str, verifier: _Verifier, reason: str) -> HostKeyUnknown | HostKeyChanged | HostKeyRefused:
    key, trusted = verifier.shown, verifier.trusted
    if key is None:
        return HostKeyRefused(
            where, f"{reason} (checked against {trusted.source})", "Sign the host's key again, or correct the trusted keys"
        )
    shown = f"{fingerprint(key)} ({algorithm(key)})"
    if verifier.verdict is Verdict.NEW:
        remedy = f"Compare it with `ssh-keygen -lf` on the host, then put it into the manifest or {trusted.source}, or use --accept-new-host-keys"
        return HostKeyUnknown(where, f"its host key {shown} is not known", remedy)
    known = " or ".join(trusted.fingerprints) or "only a CA"
    cause = f"its host key is {shown}, but {trusted.source} has {known}"
    remedy = f"The connection may be intercepted. If the host is new or has several keys, compare with `ssh-keygen -lf` there and correct {trusted.source}"
    return HostKeyChanged(where, cause, remedy)
