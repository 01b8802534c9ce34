"""The locks of one run, one on each machine and the Lease in the API, and the fence of all that it changes, as production has them (`quorate.hosts.run.lock`).

And what the fence is for: a run that is stopped at any instant, and goes on minutes later as if nothing had been; and operators who reach different hosts.
"""

from __future__ import annotations

import asyncio

from quorate.hosts.act.failures import StepFailed
from quorate.hosts.run.lock_confirmed import TRUSTED, confirmed_until
from quorate.hosts.run.lock_file import LASTS
from quorate.simulation.hosts.acts import Actor
from quorate.simulation.hosts.machines import Lock, Machine
from quorate.simulation.hosts.observer import Observer
from quorate.simulation.hosts.scripts import Scripts

RENEW_EVERY = 15.0


class _Theirs(Exception):
    """Somebody else has it, or has had it meanwhile."""


class Fence:
    """What one run has locked."""

    def __init__(self, actor: Actor, observer: Observer, scripts: Scripts) -> None:
        self._actor, self._observer, self._scripts = actor, observer, scripts
        self._goes_on = asyncio.Event()
        self._goes_on.set()
        self._dead = False
        self._renewed: dict[Machine, float] = {}
        self._lease: float | None = None
        self._asked: float | None = None
        self._watched: tuple[str, float] | None = None  # the Lease that did not change for as long as it lasts
        self._lost = ""

    @property
    def _now(self) -> float:
        return self._observer.site.world.time()

    # Being stopped.

    def stop(self) -> None:
        """Nothing of the run happens from this instant on; what it has started on machines goes on."""
        self._goes_on.clear()

    def go_on(self) -> None:
        """As if nothing had been."""
        self._goes_on.set()

    def die(self) -> None:
        """Nothing of the run happens any more, not even what it would tidy up in its end."""
        self._dead = True

    async def while_stopped(self) -> None:
        """Wait until the run is not stopped: it may have been at this very instant."""
        await self._goes_on.wait()
        if self._dead:
            raise asyncio.CancelledError

    async def sleep(self, seconds: float) -> None:
        """Time passes, whether the run is stopped or not."""
        await asyncio.sleep(seconds)
        await self.while_stopped()

    # The locks.

    async def acquire(self) -> bool:
        """Take whatever can be asked, when scripts of earlier runs have ended there and the Lease was watched; False where somebody has it."""
        try:
            while await self._waited():
                pass
        except _Theirs:
            self.release()
            return False
        return True

    async def _waited(self) -> bool:
        waited = False
        for machine in self._reached():
            while machine in self._reached() and not self._take(machine):
                waited = True
                await self.sleep(1.0)
        other = self._ask()
        if other is None:
            return waited
        seen = other.holder, other.renewed
        await self.sleep(LASTS)
        self._watched = seen
        if self._ask() is not None or self._asked == self._actor.unasked:
            raise _Theirs
        return True

    def renew(self) -> bool:
        """Renew everything and take what has appeared, unless the run is stopped; False where something is somebody else's by now, or was."""
        if not self._goes_on.is_set():
            return True
        try:
            self._renew_hosts()
            self._renew_lease()
        except _Theirs as theirs:
            self._lost = str(theirs)
        return not self._lost

    def release(self) -> None:
        """Give back what can be reached."""
        for machine in self._reached():
            if machine.lock is not None and machine.lock.holder == self._actor.name:
                machine.lock = None
        lease = self._observer.site.lease
        if lease is not None and lease.holder == self._actor.name and self._observer.asks_api():
            lease.holder = ""
        self._renewed.clear()
        self._lease = None

    def _reached(self) -> list[Machine]:
        found = map(self._observer.site.machine_of, self._observer.manifest.entries)
        return [machine for machine in found if machine is not None and self._observer.reaches(machine)]

    def _take(self, machine: Machine) -> bool:
        """Take or renew the machine's lock. False where scripts of an earlier run still change it. Raises _Theirs."""
        lock, name = machine.lock, self._actor.name
        held = self._renewed.get(machine)
        if lock is not None and lock.holder != name and self._now - lock.renewed < LASTS:
            raise _Theirs(f"{machine.name} is locked by {lock.holder}")
        ours = lock is not None and lock.holder == name
        if held is not None and not ours and self._now - held >= LASTS:
            raise _Theirs(f"{machine.name} is not locked by this run any more")
        if not ours and self._scripts.runs_for_another(machine, name):
            return False
        machine.lock = Lock(name, self._now, lock.taken if lock is not None and ours else self._now)
        self._renewed[machine] = self._now
        return True

    def _ask(self) -> Lock | None:
        """Take or renew the Lease, where an API server can be asked and lets it be taken. The Lease where it is somebody else's."""
        site, name = self._observer.site, self._actor.name
        self._asked = self._now
        if not self._observer.asks_api():
            self._actor.unasked = self._now
            return None
        lease = site.lease
        if lease is not None:
            theirs = lease.holder not in ("", name) and (lease.holder, lease.renewed) != self._watched
            if lease.holder != name if self._lease is not None else theirs:
                return lease
        if site.lease_refused:
            return None
        site.lease = Lock(name, self._now, lease.taken if lease is not None and lease.holder == name else self._now)
        self._lease = self._now
        return None

    def _renew_hosts(self) -> None:
        for machine in self._reached():
            self._take(machine)

    def _renew_lease(self) -> None:
        if (other := self._ask()) is not None:
            raise _Theirs(f"the Lease is {other.holder or 'nobody'}'s")

    # The fence.

    def confirm(self, machine: Machine | None = None) -> float:
        """Until when nobody else can be confirmed; asked before a script is sent to a machine, or anew, before etcd is changed. Raises StepFailed."""
        self._refuse_if_lost()
        if machine is None or self._age(machine) > TRUSTED or self._lease is None or self._now - self._lease > TRUSTED:
            self.renew()
        until = self._until()
        if until is None:
            self.renew()
            until = self._until()
        self._refuse_if_lost()
        if until is None:
            raise StepFailed(self._actor.name, "not done: it may not be the only one")
        return until

    def admit(self, machine: Machine, until: float) -> None:
        """The first act of every script, on the machine. Raises StepFailed."""
        lock = machine.lock
        if lock is None or lock.holder != self._actor.name or self._now - lock.renewed >= LASTS:
            raise StepFailed(machine.name, f"not done: it is locked by {lock.holder if lock else 'nobody'}")
        if self._now >= until:
            raise StepFailed(machine.name, "not done: it comes so late that somebody else may be confirmed")

    def permit(self) -> None:
        """Right before anything is written to the API. Raises StepFailed."""
        self._refuse_if_lost()
        if self._newest_age() > TRUSTED or self._lease is None or self._now - self._lease > TRUSTED:
            self.renew()
        lease = self._observer.site.lease
        if lease is None or lease.holder != self._actor.name or self._lease is None or self._now - self._lease > TRUSTED:
            raise StepFailed("the Lease", f"not done: it is not {self._actor.name}'s")

    def _refuse_if_lost(self) -> None:
        if self._lost:
            raise StepFailed(self._actor.name, f"not done: {self._lost}")

    def _until(self) -> float | None:
        machines = list(map(self._observer.site.machine_of, self._observer.manifest.control_planes))
        locks = [self._renewed[machine] for machine in machines if machine is not None and machine in self._renewed]
        return confirmed_until(self._now, lease=self._lease, asked=self._asked, locks=locks, hosts=len(machines))

    def _age(self, machine: Machine) -> float:
        return self._now - self._renewed.get(machine, float("-inf"))

    def _newest_age(self) -> float:
        return min(map(self._age, self._renewed), default=float("inf"))
