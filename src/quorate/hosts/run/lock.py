"""Two operators are kept apart: a lock on every host that can be reached and, where there is an API, a Lease. Whoever has all of them works.

The hosts' locks (lock_file.py) serve before there is a cluster and while its API is down, the Lease (lock_lease.py) where two operators reach different hosts.
Both are renewed while the run lasts, and run out when it was killed.

They are a fence as well. A run may be stopped at any instant, for as long as it takes another to begin, and go on afterwards as if nothing had been. So every
script that changes a host asks for the lock there, as its first act and in the same shell; and whatever is written to the API or to etcd is preceded by a look
at the Lease, or at the hosts, and by a look at a clock that goes on while the process, or its machine, is stopped.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Protocol, assert_never

from quorate.core.health import Unknown
from quorate.hosts.connect.access import AccessFailed
from quorate.hosts.connect.ssh.errors import SshError
from quorate.hosts.connect.ssh.host import Host
from quorate.hosts.connect.ssh.hosts import Unreachable
from quorate.hosts.connect.ssh.scripts import Outcome
from quorate.hosts.run import lock_file, lock_lease
from quorate.hosts.run.clock import since_boot
from quorate.hosts.run.lock_file import LASTS, Answer, Busy, Failed, Lost, Refusal, Taken, Theirs, Unasked
from quorate.hosts.run.lock_lease import LeaseLock
from quorate.hosts.run.operator import Holder
from quorate.kubernetes.config import ConfigError
from quorate.kubernetes.errors import ApiError, ConnectionFailed
from quorate.kubernetes.leader import LeaseClient
from quorate.kubernetes.objects import Lease
from quorate.kubernetes.tasks import sole

RENEW_EVERY = 15.0
TRUSTED = 25.0
"""Seconds after its last renewal for which a lock is known to be ours without being renewed again: what is written then arrives while it still lasts, since a
request to an API server or to etcd is given up after 30 s at most."""
PATIENCE = 600.0
"""Seconds to wait for the scripts of an earlier run to end."""
_WAIT = 60  # seconds of that which one script waits
_DEADLINE = 15.0  # seconds for the Lease
_WAY_OUT = f"A run that was killed no longer counts {LASTS} s after it, and at once on the machine that it ran on"


class LockRefused(Exception):
    """This run may not change anything, or not any more. `where` is the host or the Lease."""

    def __init__(self, where: str, cause: str, remedy: str) -> None:
        super().__init__(f"{where} {cause}; {remedy}")
        self.where = where
        self.cause = cause
        self.remedy = remedy


class Locked(LockRefused):
    """Somebody else works on these hosts."""

    def __init__(self, where: str, holder: Holder | None) -> None:
        by = str(holder) if holder else "somebody who left no name"
        super().__init__(where, f"is locked by {by}", f"wait until that run has ended. {_WAY_OUT}")
        self.holder = holder


class LockLost(LockRefused):
    """The lock was this run's, and somebody else may have had it since: what this run knows of the hosts may be untrue."""

    def __init__(self, where: str) -> None:
        cause = f"is not locked by this run any more, which was stopped or cut off for more than {LASTS} s"
        super().__init__(where, cause, "run the same command again: it looks at everything anew")


class NotLockable(LockRefused):
    """A lock cannot be had, for a reason that is nobody's lock."""


class Access(Protocol):
    """What a lock needs of the ways into a cluster: `quorate.hosts.connect.access.Access`."""

    @property
    def states(self) -> Mapping[str, Host | Unreachable]:
        """Every host."""
        ...

    async def api(self) -> LeaseClient:
        """A client of an API server that answers. Raises AccessFailed."""
        ...


_TROUBLE = (SshError, AccessFailed, ApiError, ConnectionFailed, ConfigError, TimeoutError)


class Lock:
    """The lock of one run. `has_ended` says of another holder whether it is a process of this machine that is gone; `tell` takes what is waited for.

    `elapsed` gives seconds, those included for which the process was stopped; `sleep` takes them.
    """

    def __init__(
        self,
        access: Access,
        holder: Holder,
        *,
        now: Callable[[], datetime],
        sleep: Callable[[float], Awaitable[None]],
        has_ended: Callable[[Holder], bool],
        tell: Callable[[str], None],
        elapsed: Callable[[], float] = since_boot,
    ) -> None:
        self.holder = holder
        self.refused: LockRefused | None = None
        """Why this run may not change anything any more; None while it may."""
        self._access = access
        self._sleep = sleep
        self._has_ended = has_ended
        self._tell = tell
        self._elapsed = elapsed
        self._lease = LeaseLock(holder, now, has_ended)
        self._renewed: dict[str, float] = {}  # by host: when the request was sent that took or renewed its lock last
        self._lease_renewed: float | None = None
        self._troubles: dict[str, str] = {}  # by host: why its lock could not be had, or renewed, when it was last tried
        self._turn = asyncio.Lock()
        self._ended = asyncio.Event()

    async def acquire(self) -> None:
        """Take every lock there is to take, and give back what was taken where one cannot be had. Hosts that cannot be asked have no say.

        Scripts of an earlier run that still change a host are waited for, and a Lease that somebody else left behind is watched for as long as it lasts.

        Raises Locked, and NotLockable for a host that answers and cannot lock.
        """
        try:
            while await self._take_all():  # what was taken before it was waited for may have run out
                pass
        except BaseException:
            await self.release()
            raise

    async def hold(self) -> None:
        """Renew until cancelled, and take the locks of hosts and of an API that have appeared meanwhile. Raises LockRefused when one is ours no more."""
        while True:
            await self._sleep(RENEW_EVERY)
            await self.renew()

    async def ended(self) -> None:
        """Wait until the lock is lost. Raises the LockRefused."""
        await self._ended.wait()
        if self.refused is not None:
            raise self.refused

    async def release(self) -> None:
        """Give everything back, as far as it can be reached. Idempotent; raises nothing of the world."""
        async with asyncio.TaskGroup() as group:
            for host in self._hosts():
                group.create_task(lock_file.drop(host, self.holder))
            group.create_task(self._give_back())
        self._renewed.clear()
        self._lease_renewed = None

    async def holder_elsewhere(self) -> Holder | None:
        """Who else works on these hosts now, as they say themselves. Takes nothing."""
        async with asyncio.TaskGroup() as group:
            asked = [group.create_task(lock_file.look(host, self.holder)) for host in self._hosts()]
        holders = [answer.holder for task in asked if isinstance(answer := task.result(), Theirs) and answer.holder is not None]
        return next((holder for holder in holders if not self._has_ended(holder)), None)

    # The fence.

    async def change(self, host: Host, script: str, *, stdin: bytes = b"", deadline: float) -> Outcome:
        """Run a script that changes a host, if this run has the host's lock when the script begins there; nobody else can take it before the script has ended.

        Raises LockRefused, upon which nothing was done, and SshErrors.
        """
        for _ in range(2):
            if self._age(host.name) > TRUSTED:
                await self._renew_hosts()
            if host.name not in self._renewed:
                raise NotLockable(f"host {host.name}", f"cannot be locked: {self._troubles.get(host.name, 'it could not be asked')}", _MEND)
            outcome = await host.run(lock_file.fenced(script, self.holder), stdin=stdin, deadline=deadline)
            refusal = lock_file.refusal(outcome)
            if refusal is None:
                return outcome
            why, holder = refusal
            if why is Refusal.THEIRS:
                raise self._lose(Locked(f"host {host.name}", holder))
            await self._renew_hosts()  # what has run out, or was a host's that was started anew, is still ours unless this says otherwise
        raise self._lose(LockLost(f"host {host.name}"))

    async def permit(self, client: LeaseClient | None = None) -> None:
        """Make sure that this run may write now, through a client of the API, or else to etcd: to be called right before. Raises LockRefused, and what the
        client raises.
        """
        for _ in range(2):
            if self.refused is not None:
                raise self.refused
            if client is None or self._newest_age() > TRUSTED:
                await self._renew_hosts()
            if client is not None:
                await self._look_at_lease(client)
            if self._newest_age() <= TRUSTED:  # nor was it stopped while it asked
                return
        told = "; ".join(f"{name}: {reason}" for name, reason in self._troubles.items()) or "none can be reached"
        raise NotLockable("no host", f"is locked by this run: {told}", _MEND)

    async def renew(self) -> None:
        """Renew everything now, and take what has appeared. Raises LockRefused where something is ours no more."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._renew_hosts())
                group.create_task(self._renew_lease())
        except BaseExceptionGroup as errors:
            raise self.refused or sole(errors) from None

    async def _renew_hosts(self) -> None:
        async with self._turn:
            await self._all_hosts(self._keep)

    async def _renew_lease(self) -> None:
        """Which takes up to 15 s where no API server answers, and delays nothing on the hosts."""
        if isinstance(other := await self._keep_lease(), Lease):
            raise self._lose(Locked(lock_lease.NAME, lock_lease.holder_of(other)))

    def _lose(self, refused: LockRefused) -> LockRefused:
        self.refused = self.refused or refused
        self._ended.set()
        return refused

    def _age(self, name: str) -> float:
        renewed = self._renewed.get(name)
        return float("inf") if renewed is None else self._elapsed() - renewed

    def _newest_age(self) -> float:
        """Of the lock that was renewed last: who else works would have taken that one too."""
        return min(map(self._age, self._renewed), default=float("inf"))

    # The hosts.

    def _hosts(self) -> list[Host]:
        return [state for state in self._access.states.values() if not isinstance(state, Unreachable)]

    async def _take_all(self) -> bool:
        """Take everything. Tells whether something had to be waited for."""
        waited: list[str] = []

        async def take(host: Host) -> None:
            if await self._take_or_wait(host):
                waited.append(host.name)

        await self._all_hosts(take)
        other = await self._keep_lease()
        if isinstance(other, Lease):
            await self._outlast(other)
        return bool(waited) or isinstance(other, Lease)

    async def _all_hosts(self, work: Callable[[Host], Awaitable[None]]) -> None:
        """The first host before the others: of two that begin at once one gets it, and the other has taken nothing.

        Raises the first refusal once every host has answered: a script that was cut off would go on there, and take the lock after it was given back.
        """
        hosts = self._hosts()
        for first in hosts[:1]:
            await work(first)
        refusals: list[LockRefused] = []

        async def one(host: Host) -> None:
            try:
                await work(host)
            except LockRefused as refused:
                refusals.append(refused)

        try:
            async with asyncio.TaskGroup() as group:
                for host in hosts[1:]:
                    group.create_task(one(host))
        except BaseExceptionGroup as errors:
            raise sole(errors) from None
        for refused in refusals:
            raise refused

    async def _take_or_wait(self, host: Host) -> bool:
        """Have the host's lock. Tells whether it had to be waited for."""
        began, told, wait = self._elapsed(), "", lock_file.GUARD_WAIT
        while True:
            answer = await self._try(host, wait=wait)
            match answer:
                case Busy(programs):
                    if self._elapsed() - began > PATIENCE:
                        cause = f"is still changed by {programs} of an earlier run, after {PATIENCE:g} s"
                        raise NotLockable(f"host {host.name}", cause, "look at them there, and end them if they hang")
                    if programs != told:
                        self._tell(f"host {host.name} is still changed by {programs} of an earlier run: waiting for their end")
                    told, wait = programs, _WAIT
                case Failed(reason):
                    raise NotLockable(f"host {host.name}", f"cannot be locked: {reason}", _MEND)
                case _:
                    return bool(told)

    async def _keep(self, host: Host) -> None:
        await self._try(host)

    async def _try(self, host: Host, *, wait: int = lock_file.GUARD_WAIT) -> Answer:
        """Take the host's lock, or renew it where it is ours. Raises LockRefused where it is somebody else's; what else came of it is the answer."""
        asked = self._elapsed()
        held = host.name in self._renewed
        answer = await (lock_file.renew(host, self.holder) if held else lock_file.take(host, self.holder, wait=wait))
        if not held and isinstance(answer, Theirs) and answer.holder is not None and self._has_ended(answer.holder):
            answer = await lock_file.take(host, self.holder, dead=answer.holder.id, wait=wait)
        match answer:
            case Taken():
                self._renewed[host.name] = asked
                self._troubles.pop(host.name, None)
            case Theirs(holder):
                raise self._lose(Locked(f"host {host.name}", holder))
            case Lost() if asked - self._renewed.pop(host.name) < LASTS:  # it cannot have run out: the host was started anew
                return await self._try(host)
            case Lost():
                raise self._lose(LockLost(f"host {host.name}"))
            case Busy(programs):
                self._troubles[host.name] = f"it is still changed by {programs} of an earlier run"
            case Unasked(reason) | Failed(reason):
                self._troubles[host.name] = reason
            case _:
                assert_never(answer)
        return answer

    # The Lease.

    async def _outlast(self, other: Lease) -> None:
        """Return once the Lease has not changed for as long as it lasts, and is ours. Raises Locked when it does change, or nobody can tell any more."""
        lasts = other.spec.lease_duration_seconds or LASTS
        by = lock_lease.holder_of(other) or "somebody"
        self._tell(f"{lock_lease.NAME} is held by {by}, whose hosts are not locked: watching for {lasts} s whether that run still lives")
        await self._sleep(lasts)
        if await self._keep_lease(instead_of=other) is not None:
            raise Locked(lock_lease.NAME, lock_lease.holder_of(other))

    async def _keep_lease(self, instead_of: Lease | None = None) -> Lease | Unknown | None:
        """Take or renew the Lease. None: it is ours; the Lease where it is somebody else's; Unknown where no API server can be asked: then the hosts say it."""
        try:
            async with asyncio.timeout(_DEADLINE):
                return await self._write_lease(await self._access.api(), instead_of)
        except _TROUBLE as error:
            return Unknown(str(error) or "no answer in time")

    async def _write_lease(self, client: LeaseClient, instead_of: Lease | None = None) -> Lease | None:
        asked = self._elapsed()
        other = await self._lease.take(client, held=self._lease_renewed is not None, instead_of=instead_of)
        if other is None:
            self._lease_renewed = asked
        return other

    async def _look_at_lease(self, client: LeaseClient) -> None:
        """Make sure that the Lease is ours, renewed a short while ago. Raises LockRefused, and what the client raises."""
        fresh = self._lease_renewed is not None and self._elapsed() - self._lease_renewed <= TRUSTED
        other = await (self._lease.look(client) if fresh else self._write_lease(client))
        if other is not None:
            raise self._lose(Locked(lock_lease.NAME, lock_lease.holder_of(other)))

    async def _give_back(self) -> None:
        try:
            async with asyncio.timeout(_DEADLINE):
                await self._lease.give_back(await self._access.api())
        except _TROUBLE:
            return  # it runs out


_MEND = "correct that there, then run the same command again"


@asynccontextmanager
async def held(lock: Lock) -> AsyncIterator[None]:
    """Hold the lock for the length of the block. Raises LockRefused at the beginning, or in the middle, where it cancels the block."""
    await lock.acquire()
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(lock.hold()), group.create_task(lock.ended())]
            try:
                yield
            finally:
                for task in tasks:
                    task.cancel()
    except BaseExceptionGroup as errors:
        if lock.refused is None:
            raise sole(errors) from None
    finally:
        await lock.release()
    if lock.refused is not None:
        raise lock.refused
