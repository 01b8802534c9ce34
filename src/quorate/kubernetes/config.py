"""How an API server is reached and as whom: what a kubeconfig, or a Pod's service account, comes down to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from quorate.core.text import printable


class ConfigError(Exception):
    """A kubeconfig, or what it refers to, cannot be used. The message names the file and the way out, printable also where the file came from elsewhere."""

    def __init__(self, message: str) -> None:
        super().__init__(printable(message))


class Credentials(Protocol):
    """Where bearer tokens, or client certificates that expire, come from."""

    async def token(self) -> str:
        """A token that is good now; "" where a certificate is used instead. Raises ConfigError."""
        ...

    async def certificate(self) -> tuple[bytes, bytes] | None:
        """A client certificate and key (PEM) that are good now, or None."""
        ...

    def reject(self) -> None:
        """The server refused what was given last: get new ones."""
        ...


@dataclass(frozen=True, slots=True)
class Impersonation:
    """As whom requests are made: `as` and its kin of a kubeconfig. Whoever restricted himself must not act with all his rights."""

    user: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RestConfig:
    """One API server and one identity.

    `reread` makes the same anew from where it came from: files of certificates that somebody else renews. It raises ConfigError.
    """

    server: str  # https://host:port, perhaps with a path
    ca: bytes = b""  # PEM; empty: the system's CAs
    certificate: bytes = b""  # PEM
    key: bytes = field(default=b"", repr=False)  # PEM
    credentials: Credentials | None = field(default=None, repr=False)
    impersonation: Impersonation | None = None
    proxy_url: str = field(default="", repr=False)  # http; it may have a password in it
    tls_server_name: str = ""
    insecure: bool = False
    namespace: str = "default"  # of the context: what a command works on unless told otherwise
    reread: Callable[[], RestConfig] | None = field(default=None, repr=False, compare=False)
