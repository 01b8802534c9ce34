"""The lock of one run, and the fence of all that the run changes, as production has them (`quorate.hosts.run.lock`), on every machine and in the API at once.

And what the fence is for: a run that is stopped at any instant, and goes on minutes later as if nothing had been.
"""

from __future__ import annotations

import asyncio

from quorate.hosts.act.failures import StepFailed
from quorate.simulation.hosts.machines import Machine
from quorate.simulation.hosts.scripts import Refused, Scripts
from quorate.simulation.hosts.site import LOCK_LASTS, Lock, Site

RENEW_EVERY = 15.0


class Fence:
    """What one run has locked, by its name."""

    def __init__(self, site: Site, scripts: Scripts, name: str) -> None:
        self._site, self._scripts, self._name = site, scripts, name
        self._goes_on = asyncio.Event()
        self._goes_on.set()

    # Being stopped.

    def stop(self) -> None:
        """Nothing of the run happens from this instant on; what it has started on machines goes on."""
        self._goes_on.clear()

    def go_on(self) -> None:
        """As if nothing had been."""
        self._goes_on.set()

    async def while_stopped(self) -> None:
        """Wait until the run is not stopped: it may have been at this very instant."""
        await self._goes_on.wait()

    async def sleep(self, seconds: float) -> None:
        """Time passes, whether the run is stopped or not."""
        await asyncio.sleep(seconds)
        await self.while_stopped()

    # The locks.

    @property
    def is_ours(self) -> bool:
        """Whether the lock is this run's."""
        return self._site.lock is not None and self._site.lock.holder == self._name

    async def acquire(self) -> bool:
        """Take it, when scripts of earlier runs have ended on machines that answer; False where somebody else has it."""
        while True:
            lock = self._site.lock
            if lock is not None and not self.is_ours and self._site.world.time() - lock.renewed <= LOCK_LASTS:
                return False
            if not any(self._is_busy(machine) for machine in self._site.machines.values()):
                now = self._site.world.time()
                self._site.lock = Lock(self._name, now, taken=now)
                return True
            await self.sleep(1.0)

    def renew(self) -> bool:
        """Renew it, unless the run is stopped; False where it is somebody else's by now, or was."""
        if not self._goes_on.is_set():
            return True
        if self._site.lock is None or not self.is_ours:
            return False
        self._site.lock.renewed = self._site.world.time()
        return True

    def release(self) -> None:
        """Give it back."""
        if self.is_ours:
            self._site.lock = None

    def admit(self, machine: Machine) -> None:
        """The first act of every script, on the machine. Raises Refused."""
        if not self.is_ours:
            raise Refused(f"not done: it is locked by {self._site.lock.holder if self._site.lock else 'nobody'}")
        if self._is_busy(machine):
            raise Refused("not done: it is still changed by a script of an earlier run")

    def permit(self) -> None:
        """Right before anything is written to the API or to etcd. Raises StepFailed."""
        if not self.is_ours:
            raise StepFailed("the Lease", f"not done: it is not {self._name}'s")

    def _is_busy(self, machine: Machine) -> bool:
        return machine.answers and self._scripts.runs_for_another(machine, self._name)
