"""Two operators are kept apart: a lock file on every host that can be reached and, where there is an API, a Lease. Whoever has all of them works.

The file serves before there is a cluster and while its API is down, the Lease where two operators reach different hosts. Both are renewed while the run
lasts, and run out when it was killed. Nobody compares clocks: a file's age is counted by the host since its start, a Lease counts until it was seen
unchanged for as long as it lasts.
"""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from quorate.hosts.access import AccessFailed
from quorate.hosts.operator import Holder, decode
from quorate.hosts.ssh.errors import SshError
from quorate.hosts.ssh.host import Host
from quorate.hosts.ssh.hosts import Unreachable
from quorate.kubernetes.config import ConfigError
from quorate.kubernetes.errors import AlreadyExists, ApiError, Conflict, ConnectionFailed, NotFound
from quorate.kubernetes.leader import LeaseClient
from quorate.kubernetes.objects import Lease
from quorate.kubernetes.resource import LEASES
from quorate.kubernetes.tasks import sole

PATH = "/run/quorate/lock.json"
"""Below /run: a host that starts anew runs nobody's steps any more."""
LASTS = 60
"""Seconds after its last renewal for which a lock counts. A step of an interrupted run goes on for longer only in kubeadm, which has a lock of its own."""
RENEW_EVERY = 15.0
NAMESPACE = "kube-system"
LEASE = "quorate-hosts"
HOLDER = "quorate.dev/holder"
"""The annotation of the Lease that says who holds it, in more words than holderIdentity."""
_DEADLINE = 15.0  # seconds for one script, and for one request
_LEASE_NAME = f"Lease {NAMESPACE}/{LEASE}"
_THEIRS = 76  # the status that says that the lock is somebody else's


class Locked(Exception):
    """Somebody else works on these hosts."""

    def __init__(self, where: str, holder: Holder | None) -> None:
        by = str(holder) if holder else "somebody who left no name"
        super().__init__(
            f"{where} is locked by {by}; wait until that run has ended. A run that was killed no longer counts {LASTS} s after it, "
            "and at once on the machine that it ran on"
        )
        self.where = where
        self.holder = holder


class Access(Protocol):
    """What a lock needs of the ways into a cluster: `quorate.hosts.access.Access`."""

    @property
    def states(self) -> Mapping[str, Host | Unreachable]:
        """Every host."""
        ...

    async def api(self) -> LeaseClient:
        """A client of an API server that answers. Raises AccessFailed."""
        ...


_TROUBLE = (SshError, AccessFailed, ApiError, ConnectionFailed, ConfigError, TimeoutError)


@dataclass(frozen=True, slots=True)
class _Answer:
    holder: Holder | None
    is_theirs: bool


class Lock:
    """The lock of one run. `has_ended` says of another holder whether it is a process of this machine that is gone; `tell` takes what is waited for."""

    def __init__(
        self,
        access: Access,
        holder: Holder,
        *,
        now: Callable[[], datetime],
        sleep: Callable[[float], Awaitable[None]],
        has_ended: Callable[[Holder], bool],
        tell: Callable[[str], None],
    ) -> None:
        self.holder = holder
        self._access = access
        self._now = now
        self._sleep = sleep
        self._has_ended = has_ended
        self._tell = tell

    async def acquire(self) -> None:
        """Take every lock there is to take, and give back what was taken where one is somebody else's. Raises Locked. What cannot be asked has no say.

        A Lease that somebody else left behind is watched first for as long as it lasts.
        """
        try:
            await self._take_files()
            other = await self._take_lease()
            if other is not None:
                await self._outlast(other)
        except BaseException:
            await self.release()
            raise

    async def hold(self) -> None:
        """Renew until cancelled, and take the locks of hosts and of an API that have appeared meanwhile. Raises Locked when one is somebody else's now."""
        while True:
            await self._sleep(RENEW_EVERY)
            await self._take_files()
            if (other := await self._take_lease()) is not None:
                raise Locked(_LEASE_NAME, _holder(other))

    async def release(self) -> None:
        """Give everything back, as far as it can be reached. Idempotent; raises nothing of the world."""
        async with asyncio.TaskGroup() as group:
            for host in self._hosts():
                group.create_task(self._run(host, _DROP))
            group.create_task(self._give_back())

    async def holder_elsewhere(self) -> Holder | None:
        """Who else works on these hosts now, as they say themselves. Takes nothing."""
        async with asyncio.TaskGroup() as group:
            asked = [group.create_task(self._look(host)) for host in self._hosts()]
        return next((holder for task in asked if (holder := task.result())), None)

    def _hosts(self) -> list[Host]:
        return [state for state in self._access.states.values() if not isinstance(state, Unreachable)]

    # The files.

    async def _take_files(self) -> None:
        """The first host's before the others': of two that begin at once one gets it, and the other has taken nothing."""
        hosts = self._hosts()
        for first in hosts[:1]:
            await self._take_file(first)
        try:
            async with asyncio.TaskGroup() as group:
                for host in hosts[1:]:
                    group.create_task(self._take_file(host))
        except BaseExceptionGroup as errors:
            raise sole(errors) from None

    async def _take_file(self, host: Host) -> None:
        answer = await self._run(host, _TAKE, content=self.holder.encode())
        if answer is not None and answer.is_theirs and answer.holder is not None and self._has_ended(answer.holder):
            answer = await self._run(host, _TAKE, content=self.holder.encode(), dead=answer.holder.id)
        if answer is not None and answer.is_theirs:
            raise Locked(f"host {host.name}", answer.holder)

    async def _look(self, host: Host) -> Holder | None:
        answer = await self._run(host, _LOOK)
        if answer is None or not answer.is_theirs or answer.holder is None or self._has_ended(answer.holder):
            return None
        return answer.holder

    async def _run(self, host: Host, script: str, *, content: bytes = b"", dead: str = "") -> _Answer | None:
        """What the host said; None where it could not be asked."""
        names = {"id": shlex.quote(self.holder.id), "dead": shlex.quote(dead)}
        try:
            outcome = await host.run(script.format(path=PATH, lasts=LASTS, theirs=_THEIRS, **names), stdin=content, deadline=_DEADLINE)
        except SshError:
            return None
        if outcome.exit_status not in (0, _THEIRS):
            return None
        return _Answer(decode(outcome.stdout), is_theirs=outcome.exit_status == _THEIRS)

    # The Lease.

    async def _outlast(self, other: Lease) -> None:
        """Return once the Lease has not changed for as long as it lasts, and is ours. Raises Locked when it does change."""
        lasts = other.spec.lease_duration_seconds or LASTS
        self._tell(
            f"{_LEASE_NAME} is held by {_holder(other) or 'somebody'}, whose hosts are not locked: watching for {lasts} s whether that run still lives"
        )
        await self._sleep(lasts)
        if await self._take_lease(instead_of=other) is not None:
            raise Locked(_LEASE_NAME, _holder(other))

    async def _take_lease(self, instead_of: Lease | None = None) -> Lease | None:
        """Create or renew the Lease, or take it where it has not changed since `instead_of`. The Lease where it is somebody else's."""
        try:
            async with asyncio.timeout(_DEADLINE):
                client = await self._access.api()
                return await self._write_lease(client, instead_of)
        except _TROUBLE:
            return None  # no API, or none that can be written to: the hosts' files say it

    async def _write_lease(self, client: LeaseClient, instead_of: Lease | None) -> Lease | None:
        try:
            found = await client.get(LEASES, LEASE, NAMESPACE)
            if self._is_theirs(found) and (instead_of is None or _version(found) != _version(instead_of)):
                return found
            patch = self._claim({"resourceVersion": _version(found)})
            await client.merge_patch(LEASES, LEASE, patch, NAMESPACE)
        except NotFound:
            return await self._create_lease(client)
        except Conflict:
            found = await client.get(LEASES, LEASE, NAMESPACE)
            return found if self._is_theirs(found) else None
        return None

    async def _create_lease(self, client: LeaseClient) -> Lease | None:
        body = {"apiVersion": LEASES.api_version, "kind": LEASES.kind, **self._claim({"name": LEASE, "namespace": NAMESPACE})}
        try:
            await client.create(LEASES, body, NAMESPACE)
        except AlreadyExists:
            found = await client.get(LEASES, LEASE, NAMESPACE)
            return found if self._is_theirs(found) else None
        return None

    def _is_theirs(self, lease: Lease) -> bool:
        if (lease.spec.holder_identity or "") in ("", self.holder.id):
            return False
        holder = _holder(lease)
        return holder is None or not self._has_ended(holder)

    async def _give_back(self) -> None:
        try:
            async with asyncio.timeout(_DEADLINE):
                client = await self._access.api()
                found = await client.get(LEASES, LEASE, NAMESPACE)
                if found.spec.holder_identity == self.holder.id:
                    patch = {"metadata": {"resourceVersion": _version(found)}, "spec": {"holderIdentity": ""}}
                    await client.merge_patch(LEASES, LEASE, patch, NAMESPACE)
        except _TROUBLE:
            return  # it runs out

    def _claim(self, metadata: dict[str, str]) -> dict[str, Any]:
        stamp = self._now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")  # metav1.MicroTime, which is UTC with six digits
        return {
            "metadata": {**metadata, "annotations": {HOLDER: self.holder.encode().decode()}},
            "spec": {"holderIdentity": self.holder.id, "leaseDurationSeconds": LASTS, "renewTime": stamp},
        }


@asynccontextmanager
async def held(lock: Lock) -> AsyncIterator[None]:
    """Hold the lock for the length of the block. Raises Locked at the beginning, or in the middle, where it cancels the block."""
    await lock.acquire()
    try:
        async with asyncio.TaskGroup() as group:
            renewing = group.create_task(lock.hold())
            try:
                yield
            finally:
                renewing.cancel()
    except BaseExceptionGroup as errors:
        raise sole(errors) from None
    finally:
        await lock.release()


def _holder(lease: Lease) -> Holder | None:
    return decode((lease.metadata.annotations or {}).get(HOLDER, ""))


def _version(lease: Lease) -> str:
    return lease.metadata.resource_version


# The file's first line is the holder's id and the host's uptime at the last renewal: an age that no clock that is set can change.
_READ = """\
umask 022
mkdir -p -- "$(dirname -- {path})"
exec 9>>{path}.guard
flock -w 5 9
read -r uptime rest </proc/uptime
uptime=${{uptime%%.*}}
found='' at=0
if [ -e {path} ]; then
    read -r found at <{path} || :
fi
if [ -n "$found" ] && [ "$found" != {id} ] && [ "$found" != {dead} ] && [ "$((uptime - at))" -lt {lasts} ]; then
    tail -n +2 -- {path}
    exit {theirs}
fi
"""
_LOOK = _READ
_TAKE = f"""\
content=$(cat)
{_READ}
printf '%s %s\\n%s\\n' {{id}} "$uptime" "$content" >{{path}}.new
mv -f -T -- {{path}}.new {{path}}
"""
_DROP = f"""\
{_READ}
if [ "$found" = {{id}} ]; then
    rm -f -- {{path}}
fi
"""
