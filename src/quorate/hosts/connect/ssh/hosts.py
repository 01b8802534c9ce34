"""All hosts of a manifest at once: who is connected, and who is not and why."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import asyncssh

from quorate.hosts.connect.ssh.dial import Dialer
from quorate.hosts.connect.ssh.errors import ConnectFailed
from quorate.hosts.connect.ssh.host import SshHost
from quorate.hosts.connect.ssh.kept import KeptConnection
from quorate.hosts.connect.ssh.target import Endpoint, Target


@dataclass(frozen=True, slots=True)
class Unreachable:
    """The state of a host to which there is no connection now: why, in words, and what to do (empty where time alone may help)."""

    name: str
    kind: str  # the class of the ConnectFailed, such as NoAnswer or HostKeyChanged
    reason: str
    remedy: str


class Hosts:
    """One connection a host, and one a bastion for all hosts behind it, for as long as it is entered."""

    def __init__(self, dialer: Dialer) -> None:
        self._dialer = dialer
        self._hosts: dict[Target, SshHost] = {}
        self._kept: list[KeptConnection] = []
        self._bastions: dict[Endpoint, KeptConnection] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.aclose()

    def host(self, target: Target) -> SshHost:
        """The host, which connects when it is first used. The same one at each call."""
        if target not in self._hosts:
            kept = self._keep(target.endpoint, str(target), self._bastion(target.bastion))
            self._hosts[target] = SshHost(target, kept, self._dialer.timing)
        return self._hosts[target]

    async def connect(self, targets: Iterable[Target]) -> Mapping[str, SshHost | Unreachable]:
        """Connect to all at once, and say for each name what came of it; connections that are there are used again. Idempotent."""
        async with asyncio.TaskGroup() as group:
            asked = {target.name: group.create_task(self._state(target)) for target in targets}
        return {name: task.result() for name, task in asked.items()}

    async def aclose(self) -> None:
        """Close all connections, hosts before bastions. Idempotent."""
        for connections in (self._kept, list(self._bastions.values())):
            async with asyncio.TaskGroup() as group:
                for connection in connections:
                    group.create_task(connection.aclose())

    async def _state(self, target: Target) -> SshHost | Unreachable:
        host = self.host(target)
        try:
            await host.connect()
        except ConnectFailed as failure:
            where = "" if failure.where == str(target) else f"{failure.where}: "
            return Unreachable(target.name, type(failure).__name__, where + failure.cause, failure.remedy)
        return host

    def _bastion(self, endpoint: Endpoint | None) -> KeptConnection | None:
        if endpoint is not None and endpoint not in self._bastions:
            self._bastions[endpoint] = KeptConnection(lambda: self._dialer.open(endpoint, f"bastion {endpoint}"))
        return self._bastions[endpoint] if endpoint else None

    def _keep(self, endpoint: Endpoint, where: str, bastion: KeptConnection | None) -> KeptConnection:
        async def open_() -> asyncssh.SSHClientConnection:
            return await self._dialer.open(endpoint, where, await bastion.get() if bastion else None)

        kept = KeptConnection(open_)
        self._kept.append(kept)
        return kept
