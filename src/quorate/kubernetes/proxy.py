"""Which proxy the environment asks for on the way to a server, for a kubeconfig that names none.

Source: golang.org/x/net/http/httpproxy, by which every Go client of Kubernetes reads HTTPS_PROXY, HTTP_PROXY and NO_PROXY.
"""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from urllib.parse import SplitResult, urlsplit

from quorate.kubernetes.config import ConfigError

_DEFAULT_PORTS = {"http": "80", "https": "443"}


def proxy_for(server: str, environment: Mapping[str, str]) -> str:
    """The URL of the proxy for `server` (a URL); "" where it is to be reached directly, as this machine itself always is.

    Raises ConfigError for a server that is no URL, and for a proxy that is not spoken to in plain HTTP, without its URL, which may hold a password. One of
    https would be checked against the cluster's CA, and shown the client's certificate.
    """
    target, port = _target(server)
    variable = f"{target.scheme}_proxy".upper()
    found = environment.get(variable) or environment.get(variable.lower()) or ""
    excepted = environment.get("NO_PROXY") or environment.get("no_proxy") or ""
    if (
        not found
        or _is_this_machine(target.hostname or "")
        or any(_matches(entry, target.hostname or "", port) for entry in excepted.lower().split(","))
    ):
        return ""
    url = found if "://" in found else f"http://{found}"
    if urlsplit(url).scheme != "http":
        raise ConfigError(
            f"the proxy in {variable} is not supported; use one that begins with http://, or name {target.hostname} in NO_PROXY"
        )
    return url


def _target(server: str) -> tuple[SplitResult, str]:
    """The server's URL in parts, and its port."""
    try:
        target = urlsplit(server)
        return target, str(target.port) if target.port else _DEFAULT_PORTS.get(target.scheme, "")
    except ValueError as error:
        raise ConfigError(f"the server {server!r} is not a URL such as https://10.0.0.1:6443: {error}") from None


def _is_this_machine(host: str) -> bool:
    address = _address(host)
    return host == "localhost" or (address is not None and address.is_loopback)


def _matches(entry: str, host: str, port: str) -> bool:
    """Whether one entry of NO_PROXY means the target: `*`, an address, a network, or a domain with what is below it (with a leading dot that alone)."""
    entry = entry.strip()
    if "/" in entry:
        return _is_within(entry, _address(host))
    name, only = _split_port(entry)
    if only and only != port:
        return False
    if _address(name) is not None:
        return _address(name) == _address(host)
    return name == "*" or _is_domain_of(name.removeprefix("*"), host)


def _is_domain_of(domain: str, host: str) -> bool:
    if not domain:
        return False
    return host.endswith(domain) if domain.startswith(".") else host == domain or host.endswith(f".{domain}")


def _is_within(network: str, address: IPv4Address | IPv6Address | None) -> bool:
    try:
        return address is not None and address in ip_network(network, strict=False)
    except ValueError:
        return False  # as Go does: what is no network matches nothing


def _split_port(entry: str) -> tuple[str, str]:
    """Host and port ("" where there is none); an IPv6 address has colons of its own, and brackets where a port follows."""
    if entry.startswith("["):
        host, _, port = entry[1:].partition("]")
        return host, port.removeprefix(":")
    return (entry, "") if entry.count(":") != 1 else (entry.partition(":")[0], entry.partition(":")[2])


def _address(host: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(host)
    except ValueError:
        return None
