"""What one run reaches of the site, and how long each way takes: the ground of its ways to hosts, to members of etcd and to API servers."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from quorate.simulation.hosts.acts import Action, Actor, Witness
from quorate.simulation.hosts.fence import Fence
from quorate.simulation.hosts.machines import Machine
from quorate.simulation.hosts.observer import Observer
from quorate.simulation.hosts.scripts import Scripts
from quorate.simulation.hosts.site import Site

_TRAVELS = (0.002, 0.02)


@dataclass(frozen=True, slots=True)
class Reach:
    """One run on the site."""

    site: Site
    scripts: Scripts
    observer: Observer
    actor: Actor
    witness: Witness
    random: Random
    fence: Fence

    async def takes(self, least: float, most: float) -> None:
        """The run waits, and may be stopped over it."""
        await self.fence.sleep(self.random.uniform(least, most))

    async def travels(self) -> None:
        """A question, or an answer, is on its way."""
        await self.takes(*(seconds * self.observer.sight.slow for seconds in _TRAVELS))

    def tells(self, action: Action, machine: Machine | None = None, *, member: int | None = None, node: str = "") -> None:
        """The run acts now; on the host that its step is about, where nothing else is said."""
        host = getattr(self.actor.step, "host", "")
        self.witness(self.actor.act(action, machine or (self.machine(host) if host else None), member=member, node=node))

    def machine(self, host: str) -> Machine | None:
        """The machine of a host of the manifest, as long as there is one."""
        entry = self.actor.manifest.entry(host)
        return self.site.machine_of(entry) if entry is not None else None

    def reached(self, host: str) -> Machine | None:
        """The same, if it can be worked on."""
        machine = self.machine(host)
        return machine if machine is not None and self.observer.reaches(machine) else None

    def asks_api_of(self, machine: Machine) -> bool:
        """Whether its API server answers this run now."""
        return self.observer.sight.api and self.observer.reaches(machine) and self.site.lets_in(machine) and self.site.serves(machine)
