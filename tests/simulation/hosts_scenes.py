"""The scenarios that real hosts live through, on simulated ones: each brings a site to where `apply` is to be run, with the names that the real hosts have."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial

from quorate.core.hosts.state import Cluster, RunOptions
from quorate.core.versions import Version
from quorate.hosts.run.events import Outcome
from quorate.hosts.run.session import Done
from quorate.simulation.engine.world import World
from quorate.simulation.hosts.acts import Act, Action
from quorate.simulation.hosts.machines import EtcdManifest, Machine
from quorate.simulation.hosts.observer import Observer
from quorate.simulation.hosts.operators import Operations, Run
from quorate.simulation.hosts.site import Entry, Manifest

OLD, NEW = Version.parse("v1.34.4"), Version.parse("v1.35.4")
SEED = 1


class Scene:
    """One site with its hosts, and what happens to them before the curtain."""

    def __init__(self, operations: Operations) -> None:
        self.operations = operations
        self.options = RunOptions()

    @property
    def manifest(self) -> Manifest:
        """What is wanted."""
        return self.operations.manifest

    def want(self, *names: str, version: Version = OLD) -> None:
        """A manifest of these hosts, on bare machines where there are none yet."""
        entries = tuple(Entry(name, self.machine(name).address, name.startswith("cp")) for name in names)
        self.operations.manifest = replace(self.manifest, version=version, entries=entries)

    def machine(self, name: str) -> Machine:
        """The machine of this name, which is made where there is none."""
        found = [machine for machine in self.operations.machines if machine.name == name]
        return found[0] if found else self.operations.new_machine(name)

    async def applied(self, *names: str, version: Version = OLD) -> None:
        """`apply` has made these hosts a cluster."""
        self.want(*names, version=version)
        ended = await self.run().end()
        assert ended is not None
        assert ended.outcome is Outcome.CONVERGED, ended

    def run(self) -> Run:
        """Somebody runs `apply`."""
        return self.operations.start(self.options)

    async def cut_short(self, action: Action, host: str, *, seconds: float = 0.0) -> None:
        """`apply` runs until so long after it has done this on the host; then it is killed, and what it started there too."""
        run = self.run()
        await self._witnessed(lambda act: act.action is action and act.machine is self.machine(host))
        await asyncio.sleep(seconds)
        self.operations.scripts.kill(self.machine(host))
        await self._killed(run)

    async def cut_short_or_ended(self, action: Action, *, seconds: float) -> None:
        """`apply` runs until so long after it has done this on any host, and is killed with what it started there; or it ends before."""
        run = self.run()
        async with asyncio.TaskGroup() as tasks:
            waiting = [tasks.create_task(self._witnessed(lambda act: act.action is action)), tasks.create_task(run.end())]
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for each in waiting:
                each.cancel()
        await asyncio.sleep(seconds)
        for machine in self.operations.machines:
            self.operations.scripts.kill(machine)
        await self._killed(run)

    async def abandoned(self, action: Action, host: str) -> None:
        """`apply` is killed right after it has done this on the host, and what it started there goes on."""
        run = self.run()
        await self._witnessed(lambda act: act.action is action and act.machine is self.machine(host))
        await self._killed(run)

    async def done(self, step: str) -> None:
        """`apply` runs until it begins the step after the first that begins with these words; then it is killed."""
        run = self.run()
        await self._witnessed(lambda act: act.action is Action.BEGIN and any(str(taken).startswith(step) for taken in run.steps[:-1]))
        await self._killed(run)

    async def _witnessed(self, wanted: Callable[[Act], bool]) -> None:
        reached = asyncio.Event()

        def look(act: Act) -> None:
            if wanted(act):
                reached.set()

        self.operations.witnesses.append(look)
        try:
            await reached.wait()
        finally:
            self.operations.witnesses.remove(look)

    async def _killed(self, run: Run) -> None:
        """The lock of a run that was killed on this machine counts no more."""
        run.kill(politely=False)
        await run.end()
        await asyncio.sleep(1.0)
        self.operations.site.unlock(run.name)

    def gone(self, name: str) -> None:
        """The machine is gone for good."""
        self.machine(name).gone = True
        self.operations.site.settle()

    async def seen(self) -> Cluster:
        """What the operator sees now."""
        operations = self.operations
        site = operations.site
        site.settle()
        eyes = Observer(site, self.manifest, operations.sight, site.world.random("eyes"), site.world.now, "eyes")
        eyes.options = self.options
        return (await eyes.observe(Done())).cluster


@asynccontextmanager
async def stage() -> AsyncIterator[Scene]:
    """An empty site, for the length of the block. The event loop's time must be virtual."""
    async with asyncio.TaskGroup() as tasks:
        operations = Operations(World(SEED), Manifest(OLD, (), labels=0), tasks)  # the real hosts have no labels of their own
        try:
            yield Scene(operations)
        finally:
            operations.close()


Prepare = Callable[[Scene], Awaitable[None]]
THREE = ("cp1", "cp2", "cp3")


async def install_1(scene: Scene) -> None:
    scene.want("cp1")


async def install_3(scene: Scene) -> None:
    scene.want(*THREE)


async def one_host_unreachable(scene: Scene) -> None:
    scene.want(*THREE)
    scene.machine("cp3").reachable = False


async def one_host_vouched_for(scene: Scene) -> None:
    await one_host_unreachable(scene)
    scene.options = RunOptions(without=("cp3",))


async def init_interrupted(scene: Scene) -> None:
    scene.want(*THREE)
    await scene.cut_short(Action.FOUND, "cp1")


async def join_interrupted(scene: Scene) -> None:
    scene.want(*THREE)
    await scene.cut_short(Action.ADD, "cp3", seconds=0.05)


async def upgrade_interrupted(scene: Scene) -> None:
    await scene.applied(*THREE)
    scene.want(*THREE, version=NEW)
    await scene.done("upgrade the control plane")


async def host_replaced(scene: Scene) -> None:
    await scene.applied(*THREE)
    scene.gone("cp3")
    scene.want("cp1", "cp2", "cp4")


async def etcd_data_gone(scene: Scene) -> None:
    await scene.applied(*THREE)
    machine = scene.machine("cp2")
    machine.disk.data = machine.member = None


async def a_learner_of_nobody(scene: Scene) -> None:
    await scene.applied(*THREE)
    scene.operations.site.ring.add_learner("https://192.0.2.1:2380")


async def two_of_three_lost(scene: Scene) -> None:
    await scene.applied(*THREE)
    for name in THREE[1:]:
        scene.operations.site.power(scene.machine(name), on=False)


async def upgrade_3_and_a_worker(scene: Scene) -> None:
    await scene.applied(*THREE, "worker")
    scene.want(*THREE, "worker", version=NEW)


async def add_a_worker(scene: Scene) -> None:
    await scene.applied(*THREE)
    scene.want(*THREE, "worker")


async def a_worker_has_left(scene: Scene) -> None:
    await scene.applied(*THREE, "worker")
    scene.machine("worker").lose_disk()
    scene.want(*THREE)


async def from_1_to_3(scene: Scene) -> None:
    await scene.applied("cp1")
    scene.want(*THREE)


async def from_3_to_1(scene: Scene) -> None:
    await scene.applied(*THREE)
    site = scene.operations.site
    leader = scene.machine("cp3").member
    if leader is not None and site.ring.leader != leader:
        site.ring.move_leader(leader)
    scene.want("cp1")
    scene.options = RunOptions(remove_hosts=2)


async def a_flag_of_the_api_server(scene: Scene) -> None:
    await scene.applied(*THREE)
    scene.operations.manifest = replace(scene.manifest, settings=scene.manifest.settings + 1)


async def other_settings_of_hosts(scene: Scene, leader: str = "cp1") -> None:
    """What the cluster's own configuration does not say: mirrors, proxies, CAs."""
    await scene.applied(*THREE)
    member = scene.machine(leader).member
    if member is not None and scene.operations.site.ring.leader != member:
        scene.operations.site.ring.move_leader(member)
    for name in THREE:
        scene.machine(name).disk.settings = 0


async def certificates_renewed(scene: Scene) -> None:
    await scene.applied(*THREE)
    scene.options = RunOptions(renew_certificates=True)


async def after_a_reset(scene: Scene) -> None:
    await scene.applied(*THREE)
    for name in THREE:
        scene.machine(name).disk.forget()
        scene.machine(name).stop()
    scene.operations.site.settle()


async def after_a_restore(scene: Scene) -> None:
    """docs/restore.md up to its last step but one: cp1 has the data in a ring of its own, cp2 is gone, and cp3 has what its control plane left."""
    await scene.applied(*THREE)
    scene.gone("cp2")
    site, left = scene.operations.site, scene.machine("cp3")
    left.disk.components, left.disk.etcd = None, EtcdManifest.NONE
    left.member = left.api_version = None
    objects = site.objects
    site.found(scene.machine("cp1"))
    site.objects = objects
    await asyncio.sleep(60.0)  # a leader is elected, and the Node of the host that is gone is not ready
    scene.want("cp1", "cp3", "cp4")


CONVERGING: dict[str, Prepare] = {
    "install-1": install_1,
    "install-3": install_3,
    "init-interrupted": init_interrupted,
    "join-interrupted": join_interrupted,
    "upgrade-interrupted": upgrade_interrupted,
    "host-replaced": host_replaced,
    "etcd-data-gone": etcd_data_gone,
    "a-learner-of-nobody": a_learner_of_nobody,
    "upgrade-3-and-a-worker": upgrade_3_and_a_worker,
    "add-a-worker": add_a_worker,
    "a-worker-has-left": a_worker_has_left,
    "from-1-to-3": from_1_to_3,
    "from-3-to-1": from_3_to_1,
    "a-flag-of-the-api-server": a_flag_of_the_api_server,
    "a-mirror": other_settings_of_hosts,
    "proxy-and-cas": partial(other_settings_of_hosts, leader="cp2"),
    "settings-left-out": other_settings_of_hosts,
    "certificates-renewed": certificates_renewed,
    "after-a-reset": after_a_reset,
    "after-a-restore": after_a_restore,
}
"""The scenarios that end with everything as the manifest says, by the names of their plans in `tests/e2e/plans`."""
STALLING: dict[str, Prepare] = {
    "one-host-unreachable": one_host_unreachable,
    "one-host-vouched-for": one_host_vouched_for,
    "two-of-three-lost": two_of_three_lost,
}
"""Those that end with something for somebody to do. How a real host says that it cannot be reached is its own matter, so that their plans differ in that."""
