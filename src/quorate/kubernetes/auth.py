"""Sources of credentials: fixed tokens, files that somebody renews, and exec plugins.

Source for plugins: KEP-541, client.authentication.k8s.io/v1.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from quorate.kubernetes.config import ConfigError

_API_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
_PLUGIN_TIMEOUT = 60.0  # seconds: a plugin may have to ask its own server
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
        """The token as it was in the file a minute ago at most."""
        now = asyncio.get_running_loop().time()
        if self._read_at is None or now - self._read_at >= _REREAD:
            try:
                self._token = self._path.read_text().strip()
            except OSError as error:
                raise ConfigError(f"cannot read the token file {self._path}: {error.strerror}") from error
            self._read_at = now
        return self._token

    async def certificate(self) -> None:
        """None: a token needs no certificate."""
        return

    def reject(self) -> None:
        """Read the file again at the next request."""
        self._read_at = None


@dataclass(frozen=True, slots=True)
class _Issued:
    token: str
    certificate: tuple[bytes, bytes] | None
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
        self._command = [_locate(exec_.get("command", ""), folder), *(exec_.get("args") or ())]
        self._environment = {entry["name"]: entry["value"] for entry in exec_.get("env") or ()}
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
                *self._command, env=environment, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE
            )
        except OSError as error:
            hint = f"; {self._hint}" if self._hint else ""
            raise ConfigError(f"{self._source}: cannot run the exec plugin {self._command[0]}: {error.strerror}{hint}") from error
        try:
            async with asyncio.timeout(_PLUGIN_TIMEOUT):
                output, _ = await process.communicate()
        except TimeoutError as error:
            process.kill()
            await process.wait()
            raise ConfigError(f"{self._source}: the exec plugin {self._command[0]} did not answer in {_PLUGIN_TIMEOUT:.0f} s") from error
        if process.returncode:
            raise ConfigError(f"{self._source}: the exec plugin {self._command[0]} failed with exit code {process.returncode}")
        return output

    def _read(self, output: bytes) -> _Issued:
        try:
            answer = json.loads(output)
            status = answer["status"]
            pair = status.get("clientCertificateData"), status.get("clientKeyData")
            expires = datetime.fromisoformat(status["expirationTimestamp"]) if status.get("expirationTimestamp") else None
        except (ValueError, KeyError, TypeError, AttributeError):
            raise ConfigError(f"{self._source}: the exec plugin {self._command[0]} did not print an ExecCredential") from None
        if not status.get("token") and not all(pair):
            raise ConfigError(f"{self._source}: the exec plugin {self._command[0]} gave neither a token nor a certificate with its key")
        return _Issued(status.get("token") or "", (pair[0].encode(), pair[1].encode()) if all(pair) else None, expires)


def _locate(command: str, folder: Path) -> str:
    """A command with a slash starts from the kubeconfig's folder; one without is looked up in PATH."""
    return str(folder / command) if os.sep in command else command


def _execution_info(api_version: str, cluster: Mapping[str, Any] | None) -> str:
    spec: dict[str, Any] = {"interactive": False}
    if cluster is not None:
        named = {
            "server": "server",
            "certificate-authority-data": "certificate-authority-data",
            "tls-server-name": "tls-server-name",
            "proxy-url": "proxy-url",
        }
        spec["cluster"] = {to: cluster[name] for name, to in named.items() if cluster.get(name)}
    return json.dumps({"apiVersion": api_version, "kind": "ExecCredential", "spec": spec})
