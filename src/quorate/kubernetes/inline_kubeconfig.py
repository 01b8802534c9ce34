"""kubeconfigs that come from elsewhere: a host's admin.conf, the Secret of a tenant's cluster. Whoever wrote one must not reach the machine that reads it.

A kubeconfig may name a program to run, files to read, and a proxy to send everything through; client-go, and `quorate.kubernetes.kubeconfig` for the operator's
own files, do as it says. Here nothing can: this module opens no file and starts no program, reads the current context alone, and takes from it what is written
out in it. What would lead further is refused by name, and what is not known is left out.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import IPv6Address, ip_address
from typing import Any
from urllib.parse import urlsplit

from quorate.core import documents
from quorate.core.text import printable
from quorate.kubernetes.auth import StaticToken
from quorate.kubernetes.config import ConfigError, RestConfig
from quorate.kubernetes.proxy import proxy_for

_REFUSED = {
    "cluster": ("certificate-authority", "proxy-url", "insecure-skip-tls-verify"),
    "user": (
        *("exec", "auth-provider", "tokenFile", "client-certificate", "client-key", "username", "password"),
        *("as", "as-uid", "as-groups", "as-user-extra"),
    ),
}
"""By what the field is of. Each leads to files, programs, servers or rights of whoever reads it, or takes a check away."""
_NAME = re.compile(r"(?=.{1,253}\Z)(?!-)[\w-]{1,63}(\.(?!-)[\w-]{1,63})*", re.ASCII)
_WAY_OUT = "write the certificates, and a client's certificate and key or a token, into it as data"


@dataclass(frozen=True, slots=True)
class InlineKubeconfig:
    """What the current context says. There is a client's certificate with its key, or a token; without a CA the system's are meant."""

    context: str
    cluster: str
    user: str
    server: str  # https://...
    ca: bytes  # PEM
    certificate: bytes = b""  # PEM
    key: bytes = field(default=b"", repr=False)  # PEM
    token: str = field(default="", repr=False)
    tls_server_name: str = ""

    def rest_config(self, environment: Mapping[str, str]) -> RestConfig:
        """The API server and the identity, through the proxies of our own environment. Raises ConfigError for one that is not supported."""
        return RestConfig(
            server=self.server,
            ca=self.ca,
            certificate=self.certificate,
            key=self.key,
            credentials=StaticToken(self.token) if self.token else None,
            proxy_url=proxy_for(self.server, environment),
            tls_server_name=self.tls_server_name,
        )


def read(data: bytes, *, source: str) -> InlineKubeconfig:
    """The current context of the kubeconfig. Raises ConfigError naming `source`, the field that is missing, malformed or refused, and the way out; never a
    value.
    """
    try:
        document = documents.load(data, most=documents.MOST_OF_A_TENANT)
    except documents.NotADocument as error:
        raise ConfigError(f"{source}: {error}; {_WAY_OUT}") from None
    if not isinstance(document, dict):
        raise ConfigError(f"{source} is not a kubeconfig: it is no mapping")
    name = _text(document, "current-context", source, required=True)
    context = _Part(document, "contexts", "context", name, source)
    cluster = _Part(document, "clusters", "cluster", context.text("cluster", required=True), source)
    user = _Part(document, "users", "user", context.text("user", required=True), source)
    found = InlineKubeconfig(
        context=printable(context.name),
        cluster=printable(cluster.name),
        user=printable(user.name),
        server=_server(cluster),
        ca=cluster.data("certificate-authority-data"),
        certificate=user.data("client-certificate-data"),
        key=user.data("client-key-data"),
        token=_token(user),
        tls_server_name=_tls_server_name(cluster),
    )
    if bool(found.certificate) != bool(found.key) or not (found.certificate or found.token):
        raise ConfigError(f"{user.where} has neither a client certificate with its key nor a token in it; {_WAY_OUT}")
    return found


class _Part:
    """One entry of a kubeconfig, by its name."""

    def __init__(self, document: Mapping[str, Any], kind: str, inner: str, name: str, source: str) -> None:
        entries = document.get(kind)
        found = [each for each in entries if isinstance(each, dict) and each.get("name") == name] if isinstance(entries, list) else []
        self.name, self.where = name, f"{source}: {inner} {name!r}"
        if not found or not isinstance(found[0].get(inner), dict):
            raise ConfigError(f"{self.where} is not in it")
        self._fields: dict[str, Any] = found[0][inner]
        refused = [each for each in _REFUSED.get(inner, ()) if self._fields.get(each)]
        if refused:
            raise ConfigError(f"{self.where} uses {' and '.join(refused)}, which is not taken from elsewhere; {_WAY_OUT}")

    def text(self, name: str, *, required: bool = False) -> str:
        return _text(self._fields, name, self.where, required=required)

    def data(self, name: str) -> bytes:
        try:
            return base64.b64decode("".join(self.text(name).split()), validate=True)
        except (binascii.Error, ValueError):
            raise ConfigError(f"{self.where}: {name} is not base64") from None


def _text(fields: Mapping[str, Any], name: str, where: str, *, required: bool = False) -> str:
    value = fields.get(name)
    if isinstance(value, str) and value:
        return value
    if value or required:
        raise ConfigError(f"{where}: {name} is {'not a text' if value else 'missing'}; {_WAY_OUT}")
    return ""


def _server(cluster: _Part) -> str:
    server = cluster.text("server", required=True)
    try:
        parts = urlsplit(server)
        plain = parts.scheme == "https" and bool(parts.hostname) and parts.username is None and parts.port != 0
    except ValueError:
        plain = False
    if not plain or printable(server) != server or " " in server:
        raise ConfigError(f"{cluster.where}: server is not the URL of an API server such as https://192.0.2.1:6443")
    return server


def _tls_server_name(cluster: _Part) -> str:
    """What the certificate is checked for. OpenSSL takes "." for leave to check nothing, and Python's event loops log a failure of their own for others."""
    name = cluster.text("tls-server-name")
    if name and not _NAME.fullmatch(name) and not _is_address(name):
        raise ConfigError(f"{cluster.where}: tls-server-name is not the name of a server, such as api.example.com, or an address")
    return name


def _is_address(name: str) -> bool:
    try:
        return not (isinstance(address := ip_address(name), IPv6Address) and address.scope_id)
    except ValueError:
        return False


def _token(user: _Part) -> str:
    token = user.text("token")
    if token and not token.isprintable():
        raise ConfigError(f"{user.where}: token is not one that a request can carry, for a line break or the like in it; {_WAY_OUT}")
    return token
