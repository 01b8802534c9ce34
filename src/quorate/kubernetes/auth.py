"""Sources of credentials: fixed tokens, files that somebody renews, and exec plugins.

Source for plugins: KEP-541, client.authentication.k8s.io/v1.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from quorate.kubernetes.config import ConfigError

_API_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
_CLUSTER_FIELDS = (
    "server",
    "tls-server-name",
    "insecure-skip-tls-verify",
    "certificate-authority-data",
    "proxy-url",
    "disable-compression",
)
_EXTENSION = "client.authentication.k8s.io/exec"
_PLUGIN_TIMEOUT = 300.0  # seconds: somebody may have to log in, in a browser that the plugin opens
_REREAD = 60.0  # seconds between reads of a token file; the kubelet renews tokens minutes before they expire
_MARGIN = timedelta(seconds=10)  # before its expiry, so that a credential does not expire on its way


@dataclass(frozen=True, slots=True, repr=False)
class StaticToken:
    """A token that never changes."""

    value: str

    async def token(self) -> str:
        """The token."""
        return self.value

    async def certificate(self) -> None:
        """None: a token needs no certificate."""
        return

    def reject(self) -> None:
        """There is no other."""


class FileToken:
    """A token in a file that somebody else renews."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._token = ""
        self._read_at: float | None = None

    async def token(self) -> str:
        """The token as it was in the file a minute ago at most, or as it was last read while the file cannot be. Raises ConfigError."""
        now = asyncio.get_running_loop().time()
        if self._read_at is None or now - self._read_at >= _REREAD:
            try:
                self._token = self._read()
            except ConfigError:
                if not self._token:
                    raise
            self._read_at = now
        return self._token

    async def certificate(self) -> None:
        """None: a token needs no certificate."""
        return

    def reject(self) -> None:
        """Read the file again at the next request."""
        self._read_at = None

    def _read(self) -> str:
        try:
            token = self._path.read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            cause = error.strerror if isinstance(error, OSError) else "it is not text"
            raise ConfigError(f"cannot read the token file {self._path}: {cause}") from None
        if not token:
            raise ConfigError(f"the token file {self._path} is empty")
        return token


class _Variable(Struct):
    name: str
    value: str


class _Plugin(Struct):
    command: Annotated[str, Meta(min_length=1)]
    args: list[str] | None = None
    env: list[_Variable] | None = None


class _AnswerStatus(Struct, rename="camel"):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: Annotated[datetime, Meta(tz=True)] | None = None


class _Answer(Struct, rename="camel"):
    kind: str
    api_version: str
    status: _AnswerStatus


_ANSWERS = msgspec.json.Decoder(_Answer)


@dataclass(frozen=True, slots=True)
class _Issued:
    token: str = field(repr=False)
    certificate: tuple[bytes, bytes] | None = field(repr=False)
    expires: datetime | None


class ExecPlugin:
    """A program that prints an ExecCredential; asked again when that expires or was refused. One run at a time."""

    def __init__(
        self,
        exec_: Mapping[str, Any],
        cluster: Mapping[str, Any],
        *,
        source: str,
        folder: Path,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._api_version = exec_.get("apiVersion", "")
        if self._api_version not in _API_VERSIONS:
            raise ConfigError(f"{source}: the exec plugin's apiVersion {self._api_version!r} is none of {', '.join(_API_VERSIONS)}")
        if exec_.get("interactiveMode") == "Always":
            raise ConfigError(f"{source}: the exec plugin {exec_.get('command')} has interactiveMode Always, and there is nobody to ask")
        self._command, self._environment = _invocation(exec_, source, folder)
        self._info = _execution_info(self._api_version, cluster if exec_.get("provideClusterInfo") else None)
        self._hint = exec_.get("installHint", "")
        self._source = source
        self._clock = clock
        self._lock = asyncio.Lock()
        self._issued: _Issued | None = None

    async def token(self) -> str:
        """The plugin's token, or "" where it gave a certificate alone."""
        return (await self._current()).token

    async def certificate(self) -> tuple[bytes, bytes] | None:
        """The plugin's certificate and key, or None."""
        return (await self._current()).certificate

    def reject(self) -> None:
        """Ask the plugin again."""
        self._issued = None

    async def _current(self) -> _Issued:
        async with self._lock:
            issued = self._issued
            if issued is None or (issued.expires is not None and self._clock() >= issued.expires - _MARGIN):
                issued = self._issued = self._read(await self._run())
            return issued

    async def _run(self) -> bytes:
        environment = {**os.environ, **self._environment, "KUBERNETES_EXEC_INFO": self._info}
        try:
            process = await asyncio.create_subprocess_exec(
                *self._command, env=environment, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, start_new_session=True
            )
        except OSError as error:
            hint = f"; {self._hint}" if self._hint else ""
            raise ConfigError(f"{self._source}: cannot run the exec plugin {self._command[0]}: {error.strerror}{hint}") from error
        try:
            async with asyncio.timeout(_PLUGIN_TIMEOUT):
                output, _ = await process.communicate()
        except TimeoutError as error:
            raise ConfigError(f"{self._source}: the exec plugin {self._command[0]} did not answer in {_PLUGIN_TIMEOUT:.0f} s") from error
        finally:
            await _end(process)
        if process.returncode:
            raise ConfigError(
                f"{self._source}: the exec plugin {self._command[0]} failed with exit code {process.returncode}; it says why on stderr"
            )
        return output

    def _read(self, output: bytes) -> _Issued:
        who = f"{self._source}: the exec plugin {self._command[0]}"
        try:
            answer = _ANSWERS.decode(output)
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise ConfigError(f"{who} did not print an ExecCredential") from None  # the cause might quote what it printed
        if answer.kind != "ExecCredential" or answer.api_version != self._api_version:
            raise ConfigError(
                f"{who} printed {answer.kind} of {answer.api_version}, where ExecCredential of {self._api_version} was asked for"
            )
        status = answer.status
        certificate, key = status.client_certificate_data.encode(), status.client_key_data.encode()
        if bool(certificate) != bool(key) or not (status.token or certificate):
            raise ConfigError(f"{who} gave neither a token nor a certificate with its key")
        return _Issued(status.token, (certificate, key) if certificate else None, status.expiration_timestamp)


def _invocation(exec_: Mapping[str, Any], source: str, folder: Path) -> tuple[list[str], dict[str, str]]:
    """The command with its arguments, and what it adds to the environment. A command with a slash starts from `folder`, one without is sought in PATH."""
    try:
        plugin = msgspec.convert(exec_, _Plugin)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{source}: the exec plugin is malformed: {error}") from None
    command = str((folder / plugin.command).absolute()) if os.sep in plugin.command else plugin.command
    return [command, *(plugin.args or ())], {variable.name: variable.value for variable in plugin.env or ()}


async def _end(process: asyncio.subprocess.Process) -> None:
    """Leave nothing behind of a plugin that was not waited for, nor of what it started: they are a process group of their own."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


def _execution_info(api_version: str, cluster: Mapping[str, Any] | None) -> str:
    """KUBERNETES_EXEC_INFO: what the plugin is told. The cluster's fields are named as in the kubeconfig, its extension for plugins becomes `config`."""
    spec: dict[str, Any] = {"interactive": False}
    if cluster is not None:
        spec["cluster"] = {name: cluster[name] for name in _CLUSTER_FIELDS if cluster.get(name)}
        for entry in cluster.get("extensions") or ():
            if isinstance(entry, Mapping) and entry.get("name") == _EXTENSION:
                spec["cluster"]["config"] = entry.get("extension")
    return json.dumps({"apiVersion": api_version, "kind": "ExecCredential", "spec": spec})
