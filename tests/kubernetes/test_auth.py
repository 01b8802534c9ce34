"""Tokens from files, and exec plugins that are small shell scripts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from quorate.kubernetes import auth
from quorate.kubernetes.auth import ExecPlugin, FileToken, StaticToken
from quorate.kubernetes.config import ConfigError

V1 = "client.authentication.k8s.io/v1"
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)

Make = Callable[..., ExecPlugin]


def credential(**status: Any) -> str:
    return json.dumps({"apiVersion": V1, "kind": "ExecCredential", "status": status})


@pytest.fixture
def plugin(tmp_path: Path) -> Make:
    """An exec plugin that runs `script`; each run adds a line to the file `runs`."""

    def make(
        script: str, *, cluster: Mapping[str, Any] | None = None, clock: Callable[[], datetime] = lambda: NOON, **fields: Any
    ) -> ExecPlugin:
        (tmp_path / "plugin").write_text(f"#!/bin/sh\necho run >> {tmp_path}/runs\n{script}\n")
        (tmp_path / "plugin").chmod(0o700)
        return ExecPlugin({"apiVersion": V1, "command": "./plugin", **fields}, cluster or {}, source="config", folder=tmp_path, clock=clock)

    return make


def runs(folder: Path) -> int:
    return len((folder / "runs").read_text().splitlines())


async def test_a_plugin_s_token_is_kept(plugin: Make, tmp_path: Path) -> None:
    asked = plugin(f"echo '{credential(token='t')}'")
    async with asyncio.TaskGroup() as tasks:
        answers = [tasks.create_task(asked.token()) for _ in range(3)]
    assert [answer.result() for answer in answers] == ["t"] * 3
    assert await asked.certificate() is None
    assert runs(tmp_path) == 1


async def test_a_plugin_may_give_a_certificate(plugin: Make) -> None:
    asked = plugin(f"echo '{credential(clientCertificateData='c', clientKeyData='k')}'")
    assert (await asked.token(), await asked.certificate()) == ("", (b"c", b"k"))


@pytest.mark.parametrize("expiry", ["2026-01-01T12:01:00Z", "2026-01-01T12:01:00.123456789Z", "2026-01-01T14:01:00+02:00"])
async def test_a_plugin_is_asked_again_shortly_before_its_answer_expires(plugin: Make, tmp_path: Path, expiry: str) -> None:
    now = [NOON]
    asked = plugin(f"echo '{credential(token='t', expirationTimestamp=expiry)}'", clock=lambda: now[0])
    for seconds, expected in ((0, 1), (49, 1), (51, 2)):
        now[0] = NOON + timedelta(seconds=seconds)
        await asked.token()
        assert runs(tmp_path) == expected


async def test_a_plugin_is_asked_again_after_a_refusal(plugin: Make, tmp_path: Path) -> None:
    asked = plugin(f"echo '{credential(token='t')}'")
    await asked.token()
    asked.reject()
    await asked.token()
    assert runs(tmp_path) == 2


async def test_a_client_asks_the_plugin_again_once_after_401(plugin: Make, tmp_path: Path, api: Any, connected: Any, fakes: Any) -> None:
    template = credential(token="token-N")
    asked = plugin(f"echo '{template}' | sed s/N/$(wc -l < {tmp_path}/runs)/")
    api.replies = [fakes.failure(401, "Unauthorized"), fakes.reply("ok")]
    await connected(api, config={"credentials": asked}).get_raw("/")
    assert [seen.headers["Authorization"] for seen in api.seen] == ["Bearer token-1", "Bearer token-2"]


@pytest.mark.parametrize("informed", [True, False])
async def test_a_plugin_is_told_the_cluster_where_it_is_to_be(plugin: Make, tmp_path: Path, informed: bool) -> None:
    cluster = {
        "server": "https://a",
        "certificate-authority": "left out",
        "certificate-authority-data": "Y2E=",
        "tls-server-name": "b",
        "insecure-skip-tls-verify": True,
        "proxy-url": "http://p",
        "extensions": [{"name": "other", "extension": 1}, {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "x"}}],
    }
    script = f"printf %s \"$KUBERNETES_EXEC_INFO\" > {tmp_path}/info\necho '{credential(token='t')}'"
    await plugin(script, cluster=cluster, provideClusterInfo=informed).token()
    info = json.loads((tmp_path / "info").read_text())
    told = {
        "server": "https://a",
        "certificate-authority-data": "Y2E=",
        "tls-server-name": "b",
        "insecure-skip-tls-verify": True,
        "proxy-url": "http://p",
        "config": {"audience": "x"},
    }
    assert info == {"apiVersion": V1, "kind": "ExecCredential", "spec": {"interactive": False} | ({"cluster": told} if informed else {})}


async def test_a_plugin_gets_its_arguments_and_its_environment(plugin: Make) -> None:
    template = credential(token="A-B")
    asked = plugin(f"echo '{template}' | sed \"s/A/$1/;s/B/$REGION/\"", args=["one"], env=[{"name": "REGION", "value": "north"}])
    assert await asked.token() == "one-north"


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("exit 3", "failed with exit code 3"),
        ("echo hunter2", "did not print an ExecCredential"),
        ("echo '{}'", "did not print an ExecCredential"),
        (f"echo '{credential(token=7)}'", "did not print an ExecCredential"),
        (f"echo '{credential(token='t', expirationTimestamp='2026-01-01T12:00:00')}'", "did not print an ExecCredential"),
        (f"echo '{credential(token='t')}' | sed s@/v1@/v1beta1@", "printed ExecCredential of client.authentication.k8s.io/v1beta1, where"),
        (f"echo '{credential()}'", "gave neither a token nor a certificate with its key"),
        (f"echo '{credential(clientCertificateData='c')}'", "gave neither a token nor a certificate with its key"),
    ],
)
async def test_a_plugin_that_fails_is_named_and_not_quoted(plugin: Make, script: str, message: str) -> None:
    with pytest.raises(ConfigError, match=f"config: the exec plugin .*/plugin {message}") as caught:
        await plugin(script).token()
    assert "hunter2" not in str(caught.value)


async def test_a_missing_program_comes_with_its_install_hint(tmp_path: Path) -> None:
    fields = {"apiVersion": V1, "command": "no-such-program-here", "installHint": "get it at example.com"}
    with pytest.raises(
        ConfigError, match=r"config: cannot run the exec plugin no-such-program-here: No such file.*; get it at example.com"
    ):
        await ExecPlugin(fields, {}, source="config", folder=tmp_path).token()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"apiVersion": "client.authentication.k8s.io/v1alpha1"}, "apiVersion 'client.authentication.k8s.io/v1alpha1' is none of"),
        ({"command": ""}, "malformed: .*command"),
        ({"args": "one"}, "malformed: .*args"),
        ({"env": [{"name": "A"}]}, "malformed: .*value"),
        ({"interactiveMode": "Always"}, "interactiveMode Always"),
    ],
)
def test_a_malformed_plugin_is_refused_at_once(plugin: Make, fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=f"^config: the exec plugin.*{message}"):
        plugin("", **fields)


async def test_a_plugin_that_hangs_is_ended_with_what_it_started(plugin: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auth, "_PLUGIN_TIMEOUT", 0.3)
    started = asyncio.get_running_loop().time()
    with pytest.raises(ConfigError, match="did not answer in"):
        await plugin("sleep 30; true").token()
    assert asyncio.get_running_loop().time() - started < 10


async def test_a_plugin_nobody_waits_for_any_more_is_ended(plugin: Make, tmp_path: Path) -> None:
    asked = plugin(f"sleep 1; echo late > {tmp_path}/late")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            await asked.token()
    await asyncio.sleep(1.2)
    assert not (tmp_path / "late").exists()


async def test_a_token_file_is_read_again_after_a_minute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now, file = [100.0], tmp_path / "token"
    token = FileToken(file)
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now[0], raising=True)
    found = []
    for at, text in ((100.0, "a"), (159.0, "b"), (160.0, "c")):
        now[0] = at
        file.write_text(text + "\n")
        found.append(await token.token())
    monkeypatch.undo()
    assert found == ["a", "a", "c"]


async def test_a_refused_token_file_is_read_again_at_once(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("a")
    token = FileToken(file)
    await token.token()
    file.write_text("b")
    token.reject()
    assert await token.token() == "b"


async def test_a_token_file_that_cannot_be_read_leaves_the_last_token(tmp_path: Path) -> None:
    file = tmp_path / "token"
    token = FileToken(file)
    with pytest.raises(ConfigError, match=f"cannot read the token file {file}: No such file"):
        await token.token()
    file.write_text("")
    with pytest.raises(ConfigError, match="is empty"):
        await token.token()
    file.write_text("a")
    await token.token()
    file.unlink()
    token.reject()
    assert await token.token() == "a"


async def test_no_source_of_credentials_shows_them(plugin: Make, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("hunter2")
    file, asked = (
        FileToken(tmp_path / "token"),
        plugin(f"echo '{credential(token='hunter2', clientCertificateData='hunter2', clientKeyData='hunter2')}'"),
    )
    assert {await file.token(), await asked.token()} == {"hunter2"}
    for source in (file, asked, asked._issued, StaticToken("hunter2")):
        assert "hunter2" not in repr(source)
