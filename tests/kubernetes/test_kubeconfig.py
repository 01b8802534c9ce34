"""kubeconfig files and the service account, as kubectl would read them, and what is said where they are wrong."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from quorate.kubernetes import kubeconfig
from quorate.kubernetes.config import ConfigError, Impersonation, RestConfig
from quorate.kubernetes.objects import ObjectMeta, Secret


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def document(*, user: Any = None, cluster: Any = None, context: Any = None, **more: Any) -> dict[str, Any]:
    return {
        "current-context": "dev",
        "contexts": [{"name": "dev", "context": {"cluster": "c", "user": "u", **(context or {})}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://api:6443", **(cluster or {})}}],
        "users": [{"name": "u", "user": user or {}}],
        **more,
    }


def parse(**given: Any) -> RestConfig:
    return kubeconfig.parse(yaml.safe_dump(document(**given)).encode())


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


def write(path: Path, content: dict[str, Any] | str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return path


def test_inline_data_is_decoded() -> None:
    user = {"client-certificate-data": encoded("cert"), "client-key-data": encoded("key")}
    cluster = {"certificate-authority-data": encoded("ca"), "tls-server-name": "name", "proxy-url": "http://proxy:3128"}
    config = parse(user=user, cluster=cluster, context={"namespace": "team"})
    assert (config.server, config.ca, config.certificate, config.key) == ("https://api:6443", b"ca", b"cert", b"key")
    assert (config.tls_server_name, config.proxy_url, config.namespace) == ("name", "http://proxy:3128", "team")
    assert (config.insecure, parse(cluster={"insecure-skip-tls-verify": True}).insecure) == (False, True)


async def test_files_start_from_the_folder_of_the_kubeconfig(tmp_path: Path) -> None:
    for name in ("ca", "cert", "key", "token"):
        write(tmp_path / "pki" / name, name)
    user = {"client-certificate": "pki/cert", "client-key": "pki/key", "tokenFile": "pki/token", "token": "passed over"}
    write(tmp_path / "config", document(user=user, cluster={"certificate-authority": "pki/ca"}))
    config = kubeconfig.load(str(tmp_path / "config"))
    assert (config.ca, config.certificate, config.key) == (b"ca", b"cert", b"key")
    assert config.credentials is not None
    assert await config.credentials.token() == "token"


def test_what_was_loaded_can_be_read_again(tmp_path: Path) -> None:
    write(tmp_path / "ca", "old")
    write(tmp_path / "config", document(cluster={"certificate-authority": "ca"}))
    config = kubeconfig.load(str(tmp_path / "config"))
    write(tmp_path / "ca", "new")
    assert config.reread is not None
    assert (config.ca, config.reread().ca) == (b"old", b"new")


def test_whoever_restricts_himself_acts_as_that_one() -> None:
    user = {"token": "t", "as": "jane", "as-uid": "7", "as-groups": ["a", "b"], "as-user-extra": {"zone": ["x"]}}
    assert parse(user=user).impersonation == Impersonation("jane", "7", ("a", "b"), {"zone": ("x",)})
    assert parse(user={"token": "t"}).impersonation is None


async def test_a_token_is_a_credential() -> None:
    config = parse(user={"token": "t"})
    assert config.credentials is not None
    assert await config.credentials.token() == "t"


def test_a_context_without_a_user_is_anonymous() -> None:
    assert parse(context={"user": ""}).credentials is None


def test_another_context_can_be_chosen(tmp_path: Path) -> None:
    two = document()
    two["contexts"].append({"name": "prod", "context": {"cluster": "p"}})
    two["clusters"].append({"name": "p", "cluster": {"server": "https://prod"}})
    assert kubeconfig.load(str(write(tmp_path / "config", two)), "prod").server == "https://prod"


async def test_of_several_files_the_first_that_says_something_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "empty", "")
    write(tmp_path / "a" / "config", {"users": [{"name": "u", "user": {"tokenFile": "token"}}], "clusters": None})
    write(tmp_path / "a" / "token", "first")
    write(tmp_path / "b" / "config", document(user={"token": "second"}))
    write(tmp_path / "c" / "config", document(cluster={"server": "https://third"}, **{"current-context": "other"}))
    files = [tmp_path / name for name in ("empty", "missing", "a/config", "b/config", "c/config")]
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join(map(str, files)))
    config = kubeconfig.load()
    assert config.server == "https://api:6443"
    assert config.credentials is not None
    assert await config.credentials.token() == "first"


@pytest.mark.parametrize("by_environment", [True, False])
async def test_a_plugin_starts_from_its_file_s_folder_and_is_told_the_ca(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_environment: bool
) -> None:
    write(tmp_path / "sub" / "ca", "ca")
    answer = json.dumps({"apiVersion": "client.authentication.k8s.io/v1beta1", "kind": "ExecCredential", "status": {"token": "t"}})
    script = write(tmp_path / "sub" / "plugin", f"#!/bin/sh\nprintf %s \"$KUBERNETES_EXEC_INFO\" > {tmp_path}/info\necho '{answer}'\n")
    script.chmod(0o700)
    plugin = {"apiVersion": "client.authentication.k8s.io/v1beta1", "command": "./plugin", "provideClusterInfo": True}
    file = write(tmp_path / "sub" / "config", document(user={"exec": plugin}, cluster={"certificate-authority": "ca"}))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KUBECONFIG", "sub/config")
    config = kubeconfig.load(None if by_environment else str(file.relative_to(tmp_path)))
    assert config.credentials is not None
    assert await config.credentials.token() == "t"
    told = json.loads((tmp_path / "info").read_text())["spec"]["cluster"]
    assert told == {"server": "https://api:6443", "certificate-authority-data": encoded("ca")}


def test_home_is_looked_in_before_the_pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    write(tmp_path / ".kube" / "config", document())
    assert kubeconfig.load().server == "https://api:6443"


def test_without_any_file_it_says_what_can_be_done(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="no kubeconfig: give --kubeconfig, or set KUBECONFIG"):
        kubeconfig.load()
    monkeypatch.setenv("KUBECONFIG", "/no/such")
    with pytest.raises(ConfigError, match="KUBECONFIG names /no/such"):
        kubeconfig.load()
    with pytest.raises(ConfigError, match="cannot read /no/where: No such file"):
        kubeconfig.load("/no/where")


@pytest.mark.parametrize(("host", "server"), [("10.0.0.1", "https://10.0.0.1:6443"), ("fd00::1", "https://[fd00::1]:6443")])
async def test_a_pod_has_its_service_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: str, server: str) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "6443")
    for name, text in {"ca.crt": "ca", "token": "t\n", "namespace": "quorate-system\n"}.items():
        write(tmp_path / "account" / name, text)
    config = kubeconfig.in_cluster(tmp_path / "account")
    assert (config.server, config.ca, config.namespace) == (server, b"ca", "quorate-system")
    assert config.credentials is not None
    assert await config.credentials.token() == "t"
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    monkeypatch.setenv("NO_PROXY", "")
    assert kubeconfig.in_cluster(tmp_path / "account").proxy_url == "http://proxy:3128"
    monkeypatch.setenv("NO_PROXY", host)
    assert kubeconfig.in_cluster(tmp_path / "account").proxy_url == ""


def test_outside_a_pod_there_is_no_service_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="not in a Pod"):
        kubeconfig.in_cluster(tmp_path)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    with pytest.raises(ConfigError, match=r"cannot read .*ca\.crt"):
        kubeconfig.in_cluster(tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no current-context is set; choose one with --context"),
        ("{", "is not YAML: line 2, column 1"),
        ("- 1", "is not a kubeconfig"),
        ("users: {u: hunter2}", "is not a kubeconfig"),
        ("clusters: [hunter2]", "is not a kubeconfig"),
        ("users:\n- token: hunter2\n  - x: y", "is not YAML: line 3"),
    ],
)
def test_what_is_no_kubeconfig_is_said_with_its_file_and_not_quoted(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        kubeconfig.load(str(write(tmp_path / "config", text)))
    assert str(caught.value).startswith(str(tmp_path / "config"))
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"current-context": "x"}, r"there is no context 'x' \(there are: dev\)"),
        ({"context": {"cluster": "x"}}, r"there is no cluster 'x' \(there are: c\)"),
        ({"context": {"user": "x"}}, r"there is no user 'x' \(there are: u\)"),
        ({"users": []}, r"there is no user 'u' \(there are: none\)"),
        ({"cluster": {"server": ""}}, "cluster 'c' has no server"),
        ({"cluster": {"server": 5}}, "cluster 'c': server is not text"),
        ({"cluster": {"insecure-skip-tls-verify": "false"}}, "cluster 'c': insecure-skip-tls-verify is not true or false"),
        (
            {"cluster": {"proxy-url": "socks5://u:hunter2@p"}},
            "proxy-url of https://api:6443 is not supported; use one that begins with http://",
        ),
        ({"cluster": {"proxy-url": "https://u:hunter2@p"}}, "proxy-url of https://api:6443 is not supported"),
        ({"user": {"as": "jane", "as-groups": ["a", 7]}}, "user 'u': as-groups is not a list of texts"),
        ({"user": {"as": "jane", "as-user-extra": {"a": "b"}}}, "user 'u': as-user-extra is not a mapping to lists of texts"),
        ({"user": {"as-groups": ["a"]}}, "user 'u' has as-uid, as-groups or as-user-extra without as"),
        ({"cluster": {"certificate-authority-data": "%"}}, "certificate-authority-data is not base64"),
        ({"cluster": {"certificate-authority": "/no/ca"}}, "cannot read /no/ca"),
        ({"user": {"token": 7}}, "user 'u': token is not text"),
        ({"user": {"exec": "run"}}, "user 'u': exec is not a mapping"),
        ({"user": {"username": "admin", "password": "hunter2"}}, "user names with passwords and auth-provider are not supported"),
        ({"user": {"client-key-data": "aHVudGVyMg=="}}, "user 'u' has a client certificate or a client key without the other"),
    ],
)
def test_what_is_wrong_is_named_and_never_quoted(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        parse(**given)
    assert "hunter2" not in str(caught.value)


def test_no_repr_shows_a_secret() -> None:
    user = {"client-certificate-data": encoded("cert"), "client-key-data": encoded("hunter2"), "token": "hunter2"}
    assert "hunter2" not in repr(parse(user=user, cluster={"proxy-url": "http://me:hunter2@proxy"}))
    secret = Secret(metadata=ObjectMeta(name="s", namespace="n"), data={"tls.key": b"hunter2"})
    assert repr(secret) == "Secret(n/s, keys=['tls.key'])"
    assert list(secret.__rich_repr__()) == [("name", "n/s"), ("keys", ["tls.key"])]
