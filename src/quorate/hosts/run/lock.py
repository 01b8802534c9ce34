"""Locks out a second operator: a lock on every reachable host and, if there is an API, a Lease. The run that has all of them works.

The hosts' locks (lock_file.py) serve before there is a cluster and while its API is down, the Lease (lock_lease.py) where two operators reach different hosts.
Both are renewed while the run lasts, and run out when it was killed. Nothing is changed by a run that has neither the Lease nor more than half of the
control-plane hosts (lock_confirmed.py): another one could be at work that reaches other hosts.

They are a fence as well. A run may be stopped at any instant, for as long as it takes another to begin, and go on afterwards as if nothing had been. So every
script that changes a host asks for the lock there, as its first act and in the same shell, and does nothing when it comes so late that somebody else may be
confirmed by then; and whatever is written to the API or to etcd is preceded by a look at the Lease, or at the hosts, and by a look at a clock that goes on
while the process, or its machine, is stopped.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Protocol, assert_never

from quorate.hosts.connect.ssh.host import Host
from quorate.hosts.connect.ssh.hosts import Unreachable
from quorate.hosts.connect.ssh.scripts import Outcome
from quorate.hosts.run import lock_file, lock_lease
from quorate.hosts.run.clock import since_boot
from quorate.hosts.run.lock_confirmed import TRUSTED, confirmed_until
from quorate.hosts.run.lock_file import LASTS, Answer, Busy, Failed, Lost, Refusal, Taken, Theirs, Unasked
from quorate.hosts.run.lock_lease import LeaseLock, Others, Ours, Refused
from quorate.hosts.run.lock_refused import GONE, MEND, Locked, LockLost, LockRefused, NotLockable
from quorate.hosts.run.operator import Holder
from quorate.kubernetes.leader import LeaseClient
from quorate.kubernetes.objects import Lease
from quorate.kubernetes.tasks import sole

RENEW_EVERY = 15.0
TIMEOUT = 600.0
"""Seconds to wait for the scripts of an earlier run to end."""
_WAIT = 60  # seconds of that which one script waits


class Access(Protocol):
    """What a lock needs of the ways into a cluster: `quorate.hosts.connect.access.Access`."""

    @property
    def states(self) -> Mapping[str, Host | Unreachable]:
        """Every host."""
        ...

    @property
    def control_planes(self) -> Sequence[str]:
        """The names of the control plane's hosts."""
        ...

    async def api(self) -> LeaseClient:
        """A client of an API server that answers. Raises AccessFailed."""
        ...


class Lock:
    """The lock of one run. `has_ended` says of another holder whether it is a process of this machine that is gone; `tell` takes what is waited for.

    `elapsed` gives seconds, those included for which the process was stopped; `sleep` takes them. `without` are hosts of which the operator knows that nobody
    works on them, though they cannot be asked.
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
        without: Collection[str] = (),
    ) -> None:
        self.holder = holder
        self.refused: LockRefused | None = None
        """Why this run may not change anything any more; None while it may."""
        self._access = access
        self._sleep = sleep
        self._has_ended = has_ended
        self._tell = tell
        self._elapsed = elapsed
        self._without = without
        self._lease = LeaseLock(holder, now=now, elapsed=elapsed, has_ended=has_ended)
        self._renewed: dict[str, float] = {}  # by host: when the request was sent that took or renewed its lock last
        self._uptimes: dict[str, tuple[float, int]] = {}  # by host: when it had done so, and for how long it had been up when it did
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
            group.create_task(self._lease.give_back(self._access.api))
        self._renewed.clear()

    async def holder_elsewhere(self) -> Holder | None:
        """Who else works on these hosts now, as they say themselves. Takes nothing."""
        async with asyncio.TaskGroup() as group:
            asked = [group.create_task(lock_file.look(host, self.holder)) for host in self._hosts()]
        holders = [answer.holder for task in asked if isinstance(answer := task.result(), Theirs) and answer.holder is not None]
        return next((holder for holder in holders if not self._has_ended(holder)), None)

    # The fence.

    async def change(self, host: Host, script: str, *, stdin: bytes = b"", deadline: float) -> Outcome:
        """Run a script that changes a host, if this run is confirmed and has the host's lock when that begins there; no other has the lock before it has ended.

        Raises LockRefused, upon which nothing was done, and SshErrors.
        """
        for _ in range(2):
            if self._age(host.name) > TRUSTED:
                await self._renew_hosts()
            if host.name not in self._renewed:
                raise NotLockable(f"host {host.name}", f"cannot be locked: {self._troubles.get(host.name, 'it could not be asked')}", MEND)
            until = self._by_the_clock_of(host, await self._confirmed())
            outcome = await host.run(lock_file.fenced(script, self.holder, until=until), stdin=stdin, deadline=deadline)
            refusal = lock_file.refusal(outcome)
            if refusal is None:
                return outcome
            why, holder = refusal
            if why is Refusal.THEIRS:
                raise self._lose(Locked(f"host {host.name}", holder))
            await self.renew()  # what has run out, or was a host's that was started anew, is still ours unless this says otherwise
        raise self._lose(LockLost(f"host {host.name}"))

    async def permit(self, client: LeaseClient | None = None) -> None:
        """Make sure that this run may write now, through a client of the API, or else to etcd: to be called right before. Raises LockRefused, and what the
        client raises.
        """
        if client is None:
            await self._confirmed(anew=True)
            return
        for _ in range(2):
            if self.refused is not None:
                raise self.refused
            if self._newest_age() > TRUSTED:
                await self._renew_hosts()
            await self._look_at_lease(client)
            if self._lease_age() <= TRUSTED:  # nor was it stopped while it asked
                return
        raise self._unconfirmed()

    async def _confirmed(self, *, anew: bool = False) -> float:
        """Until when nobody else can be confirmed, by our clock. `anew`: all are asked, however short a while ago they were. Raises LockRefused.

        The hosts are asked where this run may have been stopped, and the API wherever the Lease is not known to be ours: nobody who has the hosts' locks alone
        goes on beside somebody who has it.
        """
        for _ in range(2):
            if self.refused is not None:
                raise self.refused
            if anew or self._newest_age() > TRUSTED:
                await self.renew()
            elif self._lease_age() > TRUSTED:
                await self._renew_lease()
            if (until := self._confirmed_until()) is not None:  # nor was it stopped while it asked
                return until
            anew = True
        raise self._unconfirmed()

    def _confirmed_until(self) -> float | None:
        hosts = self._counted()
        locks = [self._renewed[host.name] for host in hosts.values() if not isinstance(host, Unreachable) and host.name in self._renewed]
        return confirmed_until(self._elapsed(), lease=self._lease.renewed, asked=self._lease.asked, locks=locks, hosts=len(hosts))

    def _counted(self) -> Mapping[str, Host | Unreachable]:
        """The hosts of which more than half have to be this run's where the Lease is not."""
        return {name: self._access.states[name] for name in self._access.control_planes if name not in self._without}

    def _unconfirmed(self) -> NotLockable:
        """By whatever is missing."""
        hosts = self._counted()
        why = {name: self._trouble_of(host) for name, host in hosts.items()}
        missing = "; ".join(f"{name}: {each}" for name, each in why.items() if each)
        cause = f"may not be the only one: {lock_lease.NAME} {self._lease.trouble}, and of {len(hosts)} control-plane hosts more than half have to be locked"
        return NotLockable("this run", f"{cause}{f' ({missing})' if missing else ''}", GONE)

    def _trouble_of(self, host: Host | Unreachable) -> str:
        if isinstance(host, Unreachable):
            return host.reason
        return "" if self._age(host.name) <= TRUSTED else self._troubles.get(host.name, "it could not be asked")

    def _by_the_clock_of(self, host: Host, until: float) -> int:
        """For how long the host will have been up by then, or less."""
        answered, up = self._uptimes[host.name]
        return up + math.floor(until - answered)

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
            await self._all_hosts(self._try)

    async def _renew_lease(self) -> None:
        """Which takes up to 15 s where no API server answers, and delays nothing on the hosts."""
        answer = await self._lease.keep(self._access.api)
        match answer:
            case Others(lease):
                raise self._lose(Locked(lock_lease.NAME, lock_lease.holder_of(lease)))
            case Ours() | Refused() | Unasked():
                return
            case _:
                assert_never(answer)

    def _lose(self, refused: LockRefused) -> LockRefused:
        self.refused = self.refused or refused
        self._ended.set()
        return refused

    def _age(self, name: str) -> float:
        renewed = self._renewed.get(name)
        return float("inf") if renewed is None else self._elapsed() - renewed

    def _lease_age(self) -> float:
        return float("inf") if self._lease.renewed is None else self._elapsed() - self._lease.renewed

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
        answer = await self._lease.keep(self._access.api)
        match answer:
            case Others(lease):
                await self._outlast(lease)
                return True
            case Ours() | Refused() | Unasked():
                return bool(waited)
            case _:
                assert_never(answer)

    async def _all_hosts(self, work: Callable[[Host], Awaitable[object]]) -> None:
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
                    if self._elapsed() - began > TIMEOUT:
                        cause = f"is still changed by {programs} of an earlier run, after {TIMEOUT:g} s"
                        raise NotLockable(f"host {host.name}", cause, "look at them there, and end them if they hang")
                    if programs != told:
                        self._tell(f"host {host.name} is still changed by {programs} of an earlier run: waiting for their end")
                    told, wait = programs, _WAIT
                case Failed(reason):
                    raise NotLockable(f"host {host.name}", f"cannot be locked: {reason}", MEND)
                case _:
                    return bool(told)

    async def _try(self, host: Host, *, wait: int = lock_file.GUARD_WAIT) -> Answer:
        """Take the host's lock, or renew it where it is ours. Raises LockRefused where it is somebody else's; what else came of it is the answer."""
        asked = self._elapsed()
        held = host.name in self._renewed
        answer = await (lock_file.renew(host, self.holder) if held else lock_file.take(host, self.holder, wait=wait))
        if not held and isinstance(answer, Theirs) and answer.holder is not None and self._has_ended(answer.holder):
            answer = await lock_file.take(host, self.holder, dead=answer.holder.id, wait=wait)
        match answer:
            case Taken(up):
                self._renewed[host.name] = asked
                self._uptimes[host.name] = self._elapsed(), up or 0
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
        """Return once the Lease has not changed for as long as it lasts, and is ours, or would be if the API let it be taken: then the hosts say it.

        Raises Locked when it does change, or nobody can tell any more.
        """
        lasts = other.spec.lease_duration_seconds or LASTS
        by = lock_lease.holder_of(other) or "somebody"
        self._tell(f"{lock_lease.NAME} is held by {by}, whose hosts are not locked: watching for {lasts} s whether that run still lives")
        await self._sleep(lasts)
        answer = await self._lease.keep(self._access.api, watched=other)
        match answer:
            case Ours():
                return
            case Refused() if self._lease.has_outlasted(other):
                return
            case Others() | Refused() | Unasked():
                raise Locked(lock_lease.NAME, lock_lease.holder_of(other))
            case _:
                assert_never(answer)

    async def _look_at_lease(self, client: LeaseClient) -> None:
        """Make sure that the Lease is ours, renewed a short while ago. Raises LockRefused, and what the client raises."""
        other = await (self._lease.look(client) if self._lease_age() <= TRUSTED else self._lease.take(client))
        if other is not None:
            raise self._lose(Locked(lock_lease.NAME, lock_lease.holder_of(other)))


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
