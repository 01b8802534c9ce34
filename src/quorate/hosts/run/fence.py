"""The only interface of steps to a cluster: each change passes the lock's fence right before it is made (S15); reads do not.

A step has no other way in, so that nothing which it does can take effect once another run has taken the lock.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeVar

from quorate.etcd.client import Alarm, MemberList, SnapshotClient, Status
from quorate.hosts.act.failures import StepFailed
from quorate.hosts.connect.ssh.host import Host
from quorate.hosts.connect.ssh.hosts import Unreachable
from quorate.hosts.connect.ssh.scripts import Outcome
from quorate.hosts.run.lock import Lock
from quorate.hosts.run.lock_refused import LockRefused
from quorate.kubernetes.client import Client

T = TypeVar("T")


class Access(Protocol):
    """The ways into one cluster: `quorate.hosts.connect.access.Access` says how each behaves."""

    @property
    def states(self) -> Mapping[str, Host | Unreachable]:
        """Every host, as it was when it was last connected to."""
        ...

    def ssh(self, name: str) -> Host:
        """The host."""
        ...

    async def api(self) -> Client:
        """A client of an API server that answers."""
        ...

    async def api_of(self, name: str) -> Client:
        """A client of this host's API server."""
        ...

    async def etcd(self, through: str | None = None) -> SnapshotClient:
        """A client of this host's member, or of any that answers."""
        ...

    async def etcd_at(self, address: str, through: str) -> SnapshotClient:
        """A client of the member at an address, through a host."""
        ...

    def forget(self, name: str) -> None:
        """Read this host's credentials anew when they are next needed."""
        ...


@dataclass(frozen=True, slots=True)
class FencedAccess:
    """The ways into a cluster, for a run that has `lock`. Beside what `access` raises, every change raises StepFailed where the lock is not this run's."""

    access: Access
    lock: Lock

    @property
    def states(self) -> Mapping[str, object]:
        """Every host, as it was when it was last connected to: Unreachable, or anything else."""
        return self.access.states

    def ssh(self, name: str) -> FencedHost:
        """The host."""
        return FencedHost(self.access.ssh(name), self.lock)

    async def api(self) -> Client:
        """A client of an API server that answers."""
        return self._guarded(await self.access.api())

    async def api_of(self, name: str) -> Client:
        """A client of this host's API server."""
        return self._guarded(await self.access.api_of(name))

    async def etcd(self, through: str | None = None) -> FencedMember:
        """A client of this host's member, or of any that answers."""
        return FencedMember(await self.access.etcd(through), self.lock)

    async def etcd_at(self, address: str, through: str) -> FencedMember:
        """A client of the member at an address, through a host."""
        return FencedMember(await self.access.etcd_at(address, through), self.lock)

    def forget(self, name: str) -> None:
        """Read this host's credentials anew when they are next needed."""
        self.access.forget(name)

    def _guarded(self, client: Client) -> Client:
        return client.guarded(lambda: _allowed(lambda: self.lock.permit(client)))


@dataclass(frozen=True, slots=True)
class FencedHost:
    """A host: every script says whether it changes anything there."""

    host: Host
    lock: Lock

    @property
    def name(self) -> str:
        """The host's name in the manifest."""
        return self.host.name

    async def change(self, script: str, *, stdin: bytes = b"", deadline: float) -> Outcome:
        """Run a script as root that may change the host, behind the fence: see Host.run."""
        return await _allowed(lambda: self.lock.change(self.host, script, stdin=stdin, deadline=deadline))

    async def look(self, script: str, *, deadline: float) -> Outcome:
        """Run a script as root that changes nothing: see Host.run."""
        return await self.host.run(script, deadline=deadline)

    async def read_file(self, path: str) -> bytes:
        """The content of a file: see Host.read_file."""
        return await self.host.read_file(path)


@dataclass(frozen=True, slots=True)
class FencedMember:
    """An etcd member: `quorate.etcd.client` says how each call behaves."""

    client: SnapshotClient
    lock: Lock

    async def members(self) -> MemberList:
        """The members, read linearizably."""
        return await self.client.members()

    async def status(self) -> Status:
        """What this member says of itself."""
        return await self.client.status()

    async def alarms(self) -> tuple[Alarm, ...]:
        """The alarms of every member."""
        return await self.client.alarms()

    async def move_leader(self, target_id: int) -> None:
        """Hand leadership over, behind the fence."""
        await _allowed(self.lock.permit)
        await self.client.move_leader(target_id)

    async def remove_member(self, member_id: int) -> None:
        """Remove a member, behind the fence."""
        await _allowed(self.lock.permit)
        await self.client.remove_member(member_id)

    def values(self, prefix: bytes) -> AsyncGenerator[tuple[bytes, bytes], None]:
        """Every key below the prefix with its value."""
        return self.client.values(prefix)

    def snapshot(self) -> AsyncGenerator[bytes, None]:
        """The member's database file."""
        return self.client.snapshot()

    async def close(self) -> None:
        """Close the connection."""
        await self.client.close()


async def _allowed(change: Callable[[], Awaitable[T]]) -> T:
    """A refusal as a step's failure; whoever holds the lock ends the run with its reason."""
    try:
        return await change()
    except LockRefused as refused:
        raise StepFailed(refused.where, f"not done: it {refused.cause}", refused.remedy) from refused
