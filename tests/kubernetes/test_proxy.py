"""The environment's proxies, as Go programs read them."""

from __future__ import annotations

import pytest
import yaml

from quorate.kubernetes.config import ConfigError
from quorate.kubernetes.kubeconfig import parse
from quorate.kubernetes.proxy import proxy_for

SERVER = "https://api.example.com:6443"
PROXY = "http://me:hunter2@proxy:3128"


@pytest.mark.parametrize(
    ("server", "environment", "expected"),
    [
        (SERVER, {}, ""),
        (SERVER, {"HTTPS_PROXY": PROXY}, PROXY),
        (SERVER, {"https_proxy": PROXY}, PROXY),
        (SERVER, {"HTTPS_PROXY": PROXY, "https_proxy": "http://other"}, PROXY),
        (SERVER, {"HTTPS_PROXY": "", "https_proxy": PROXY}, PROXY),
        (SERVER, {"HTTPS_PROXY": "proxy:3128"}, "http://proxy:3128"),
        (SERVER, {"HTTP_PROXY": PROXY}, ""),
        ("http://api.example.com", {"HTTP_PROXY": PROXY}, PROXY),
        ("http://api.example.com", {"HTTPS_PROXY": PROXY}, ""),
        (SERVER, {"ALL_PROXY": PROXY}, ""),
    ],
)
def test_the_scheme_of_the_server_chooses_the_variable(server: str, environment: dict[str, str], expected: str) -> None:
    assert proxy_for(server, environment) == expected


@pytest.mark.parametrize("server", ["https://localhost:6443", "https://127.0.0.1:6443", "https://127.8.0.1", "https://[::1]:6443"])
def test_this_machine_is_reached_directly(server: str) -> None:
    assert proxy_for(server, {"HTTPS_PROXY": PROXY}) == ""


@pytest.mark.parametrize(
    ("server", "excepted", "direct"),
    [
        (SERVER, "example.com", True),
        (SERVER, "api.example.com", True),
        (SERVER, "API.Example.COM", True),
        (SERVER, ".example.com", True),
        (SERVER, "*.example.com", True),
        ("https://example.com", ".example.com", False),
        ("https://example.com", "example.com", True),
        ("https://badexample.com", "example.com", False),
        (SERVER, "other.org, example.com", True),
        (SERVER, "other.org,", False),
        (SERVER, "", False),
        (SERVER, "*", True),
        (SERVER, "example.com:6443", True),
        (SERVER, "example.com:443", False),
        ("https://example.com", "example.com:443", True),
        ("https://10.1.2.3:6443", "10.0.0.0/8", True),
        ("https://10.1.2.3:6443", "10.1.2.3/8", True),
        ("https://11.1.2.3:6443", "10.0.0.0/8", False),
        ("https://10.1.2.3:6443", "10.1.2.3", True),
        ("https://10.1.2.3:6443", "10.1.2.3:6443", True),
        ("https://10.1.2.3:6443", "10.1.2.3:443", False),
        ("https://[fd00::1]:6443", "fd00::/8", True),
        ("https://[fd00::1]:6443", "fd00:0::1", True),
        ("https://[fd00::1]:6443", "[fd00::1]:6443", True),
        ("https://[fd00::1]:6443", "[fd00::1]:443", False),
        (SERVER, "10.0.0.0/8", False),
        (SERVER, "nonsense/99", False),
    ],
)
def test_what_no_proxy_names_is_reached_directly(server: str, excepted: str, *, direct: bool) -> None:
    assert proxy_for(server, {"HTTPS_PROXY": PROXY, "no_proxy": excepted}) == ("" if direct else PROXY)
    assert proxy_for(server, {"HTTPS_PROXY": PROXY, "NO_PROXY": excepted, "no_proxy": ""}) == ("" if direct else PROXY)


def test_an_unsupported_proxy_is_named_without_its_password() -> None:
    with pytest.raises(ConfigError, match=r"HTTPS_PROXY is not supported; .* or name api\.example\.com in NO_PROXY") as caught:
        proxy_for(SERVER, {"HTTPS_PROXY": "socks5://me:hunter2@proxy"})
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("server", ["https://[fd00::1", "https://api.example.com:many"])
def test_a_server_that_is_no_url_is_a_fault_of_the_configuration(server: str) -> None:
    with pytest.raises(ConfigError, match="is not a URL such as"):
        proxy_for(server, {})


def kubeconfig(**cluster: str) -> bytes:
    document = {
        "current-context": "a",
        "contexts": [{"name": "a", "context": {"cluster": "a"}}],
        "clusters": [{"name": "a", "cluster": {"server": SERVER, **cluster}}],
    }
    return yaml.safe_dump(document).encode()


def test_a_kubeconfig_goes_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", PROXY)
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    assert parse(kubeconfig()).proxy_url == PROXY
    assert parse(kubeconfig(**{"proxy-url": "http://other"})).proxy_url == "http://other"
    monkeypatch.setenv("NO_PROXY", "example.com")
    assert parse(kubeconfig()).proxy_url == ""
