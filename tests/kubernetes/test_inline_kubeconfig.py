"""A kubeconfig from elsewhere opens no file, runs no program and sends nothing anywhere: it says so in the import list, and for every field."""

from __future__ import annotations

import ast
import base64
import copy
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from quorate.kubernetes import inline_kubeconfig
from quorate.kubernetes.config import ConfigError
from quorate.kubernetes.inline_kubeconfig import InlineKubeconfig, read

SECRET = "hunter2"
DATA = base64.b64encode(SECRET.encode()).decode()
DOCUMENT: dict[str, Any] = {
    "current-context": "admin@demo",
    "contexts": [{"name": "other"}, {"name": "admin@demo", "context": {"cluster": "demo", "user": "admin", "namespace": "x"}}],
    "clusters": [{"name": "demo", "cluster": {"server": "https://192.0.2.1:6443", "certificate-authority-data": DATA}}],
    "users": [{"name": "admin", "user": {"client-certificate-data": DATA, "client-key-data": DATA}}],
}
_FILE_EVENTS = {"open", "os.system", "subprocess.Popen", "os.exec", "os.posix_spawn", "os.spawn", "socket.connect", "socket.getaddrinfo"}


def changed(kind: str, inner: str, **fields: Any) -> bytes:
    document = copy.deepcopy(DOCUMENT)
    document[kind][-1][inner] |= fields
    return yaml.safe_dump(document).encode()


def test_what_is_written_out_is_read() -> None:
    found = read(yaml.safe_dump(DOCUMENT).encode(), source="it")
    secret = SECRET.encode()
    assert found == InlineKubeconfig("admin@demo", "demo", "admin", "https://192.0.2.1:6443", secret, secret, secret)
    config = found.rest_config({})
    assert (config.server, config.ca, config.certificate, config.key) == (found.server, secret, secret, secret)
    assert (config.insecure, config.proxy_url, config.credentials) == (False, "", None)
    assert SECRET not in repr(found).replace("b'hunter2'", "", 2), "CA and certificate are public, the key is not shown"


async def test_a_token_serves_too() -> None:
    document = copy.deepcopy(DOCUMENT)
    document["users"][0]["user"] = {"token": SECRET}
    config = read(yaml.safe_dump(document).encode(), source="it").rest_config({})
    assert config.credentials is not None
    assert await config.credentials.token() == SECRET


@pytest.mark.parametrize(
    ("kind", "inner", "name", "value"),
    [
        ("clusters", "cluster", "certificate-authority", "/etc/passwd"),
        ("clusters", "cluster", "proxy-url", "http://evil:3128"),
        ("clusters", "cluster", "insecure-skip-tls-verify", True),
        ("users", "user", "exec", {"command": "sh", "args": ["-c", "id"]}),
        ("users", "user", "auth-provider", {"name": "gcp", "config": {"cmd-path": "sh"}}),
        ("users", "user", "tokenFile", "/root/.ssh/id_ed25519"),
        ("users", "user", "client-certificate", "/root/cert"),
        ("users", "user", "client-key", "/root/key"),
        ("users", "user", "username", "admin"),
        ("users", "user", "password", SECRET),
        ("users", "user", "as", "somebody"),
        ("users", "user", "as-groups", ["system:masters"]),
    ],
)
def test_what_would_lead_further_is_refused_by_name_and_without_its_value(kind: str, inner: str, name: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=rf"^admin.conf of host cp-1: {inner} '\w+' uses {name}, ") as refused:
        read(changed(kind, inner, **{name: value}), source="admin.conf of host cp-1")
    assert SECRET not in str(refused.value)
    assert "evil" not in str(refused.value)


@pytest.mark.parametrize(
    "server",
    [
        "http://192.0.2.1",
        "file:///etc/passwd",
        "unix:///run/x",
        "192.0.2.1:6443",
        "https://",
        "https://u:p@h",
        "https://h:0",
        "https://h\n",
        "https://a b",
    ],
)
def test_a_server_is_the_url_of_one(server: str) -> None:
    with pytest.raises(ConfigError, match="server is not the URL of an API server"):
        read(changed("clusters", "cluster", server=server), source="it")


@pytest.mark.parametrize("token", [f"{SECRET}\n", f"{SECRET}\r\nX: y", f"a\0{SECRET}", f"{SECRET}\x7f"])
def test_a_token_that_no_header_can_carry_is_refused_without_its_value(token: str) -> None:
    document = copy.deepcopy(DOCUMENT)
    document["users"][0]["user"] = {"token": token}
    with pytest.raises(ConfigError, match=r"^it: user 'admin': token is not one that a request can carry") as refused:
        read(yaml.safe_dump(document).encode(), source="it")
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize(
    "name", ["a..b", ".", ".x", "x.", "a" * 64, f"{'a.' * 130}x", "a\0b", "a b", "\u00e9.x", "*.x", "\u2028", "fe80::1%a\0b"]
)
def test_a_tls_server_name_is_one_that_a_certificate_can_have(name: str) -> None:
    with pytest.raises(ConfigError, match=r"^it: cluster 'demo': tls-server-name is not the name of a server"):
        read(changed("clusters", "cluster", **{"tls-server-name": name}), source="it")


@pytest.mark.parametrize("name", ["kubernetes.default.svc", "10.0.0.1", "fd00::1", "xn--zca.example", "a_b", "A-1"])
def test_the_usual_tls_server_names_are_taken(name: str) -> None:
    assert read(changed("clusters", "cluster", **{"tls-server-name": name}), source="it").tls_server_name == name


@pytest.mark.parametrize("name", ["certificate-authority-data", "client-key-data", "client-certificate-data"])
def test_data_that_is_none_is_refused_without_its_value(name: str) -> None:
    kind, inner = ("clusters", "cluster") if name.startswith("certificate-authority") else ("users", "user")
    for value in (f"%{SECRET}", [SECRET], "ü"):
        with pytest.raises(ConfigError, match=name) as refused:
            read(changed(kind, inner, **{name: value}), source="it")
        assert SECRET not in str(refused.value)


def test_other_contexts_and_fields_that_are_not_known_are_not_looked_at() -> None:
    document = copy.deepcopy(DOCUMENT)
    document["users"].append({"name": "other", "user": {"exec": {"command": "sh"}}})
    document["users"][0]["user"]["new-in-2030"] = "/etc/passwd"
    assert read(yaml.safe_dump(document).encode(), source="it") == read(yaml.safe_dump(DOCUMENT).encode(), source="it")


def values() -> st.SearchStrategy[Any]:
    leaf = st.none() | st.booleans() | st.integers() | st.text(max_size=8)
    return st.recursive(
        leaf, lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text(max_size=8), below, max_size=3), max_leaves=5
    )


@given(
    st.lists(st.tuples(st.sampled_from(["current-context", "contexts", "clusters", "users"]), values()), max_size=4), st.binary(max_size=64)
)
def test_whatever_it_is_it_is_read_or_refused(replaced: list[tuple[str, Any]], tail: bytes) -> None:
    for data in (yaml.safe_dump(DOCUMENT | dict(replaced)).encode(), yaml.safe_dump(DOCUMENT).encode() + tail):
        try:
            read(data, source="it")
        except ConfigError as refused:
            assert str(refused).isprintable()  # noqa: PT017


@pytest.fixture
def watched() -> Iterator[list[str]]:
    """What the interpreter is asked to open, run or reach, as its audit hooks are told; they cannot be removed, so this one is switched off."""
    events: list[str] = []
    on = [True]
    sys.addaudithook(lambda event, _: events.append(event) if on[0] and event in _FILE_EVENTS else None)
    yield events
    on[0] = False


def test_no_file_is_opened_and_no_program_started_whatever_it_names(watched: list[str], tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    canary.write_text("x")
    watched.clear()
    for kind, inner, name in (
        ("clusters", "cluster", "certificate-authority"),
        ("users", "user", "tokenFile"),
        ("users", "user", "client-key"),
        ("users", "user", "client-certificate"),
    ):
        with pytest.raises(ConfigError):
            read(changed(kind, inner, **{name: str(canary)}), source="it")
    with pytest.raises(ConfigError):
        read(changed("users", "user", exec={"command": "/bin/sh", "args": ["-c", f"rm {canary}"]}), source="it")
    read(yaml.safe_dump(DOCUMENT).encode(), source="it").rest_config({})
    assert watched == []


def test_the_module_has_nothing_to_open_files_or_start_programs_with() -> None:
    tree = ast.parse(inspect.getsource(inline_kubeconfig))
    imported = {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    imported |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert imported.isdisjoint({"os", "pathlib", "subprocess", "io", "shutil", "socket", "quorate.kubernetes.kubeconfig"})
    called = {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    assert called.isdisjoint({"open", "eval", "exec", "ExecPlugin", "FileToken"})


def test_one_of_more_values_than_any_is_refused_before_it_is_read() -> None:
    """99,000 take half a second, in which everybody waits whom the process works for, with each attempt to connect."""
    document = copy.deepcopy(DOCUMENT) | {"more": [1] * 2000}
    with pytest.raises(ConfigError, match="test: it has more than 2000 values"):
        read(yaml.safe_dump(document).encode(), source="test")
    assert read(yaml.safe_dump(document | {"more": [1] * 1900}).encode(), source="test").server == "https://192.0.2.1:6443"
