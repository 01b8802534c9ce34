"""The ways into the site that one run has, as `quorate.hosts.run.fence` has them in production: every change passes the fence at its own instant.

Everything above is the code that runs in production: which gate is asked of which reading, and in which order what is written.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable

from quorate.etcd.client import Alarm, Member, MemberList, Status
from quorate.etcd.errors import DeadlineExceeded, MemberNotFound, NoLeader, NotLeader, Refused, Unreachable
from quorate.hosts.connect.access import AccessFailed
from quorate.hosts.connect.ssh.errors import ConnectFailed
from quorate.hosts.connect.ssh.hosts import Unreachable as UnreachableHost
from quorate.kubernetes.client import Client
from quorate.kubernetes.config import RestConfig
from quorate.simulation.engine.ring import NoQuorum
from quorate.simulation.hosts import database, material
from quorate.simulation.hosts.acts import Action
from quorate.simulation.hosts.api import Api
from quorate.simulation.hosts.machines import Machine
from quorate.simulation.hosts.observer import Facts
from quorate.simulation.hosts.reach import Reach
from quorate.simulation.hosts.shell import Host

_PIECE = 1024  # bytes
_CONFIG = RestConfig(server="https://site")


class Access:
    """The ways of one run. `states` are the hosts as they were observed last."""

    def __init__(self, reach: Reach) -> None:
        self._reach = reach
        self.states: Facts = {}

    def ssh(self, name: str) -> Host:
        """The host."""
        state = self.states[name]
        if isinstance(state, UnreachableHost):
            raise ConnectFailed(name, state.reason, state.remedy)
        return Host(self._reach, name)

    async def api(self) -> Client:
        """A client of an API server that answers."""
        await self._reach.travels()
        for entry in self._reach.actor.manifest.control_planes:
            machine = self._reach.machine(entry.name)
            if machine is not None and self._reach.asks_api_of(machine):
                return Client(_CONFIG, Api(self._reach, machine))
        raise AccessFailed("no API server answers")

    async def api_of(self, name: str) -> Client:
        """A client of this host's API server."""
        return Client(_CONFIG, Api(self._reach, self._with_credentials(name)))

    async def etcd(self, through: str | None = None) -> EtcdMember:
        """A client of this host's member, or of any that answers."""
        if through is not None:
            self._with_credentials(through)
            return EtcdMember(self._reach, through, lambda: self._reach.reached(through))
        for entry in self._reach.actor.manifest.control_planes:
            machine = self._reach.reached(entry.name)
            if machine is not None and self._reach.observer.sight.ring and self._reach.site.member_is_well(machine):
                return await self.etcd(entry.name)
        raise AccessFailed("no etcd member answers")

    async def etcd_at(self, address: str, through: str) -> EtcdMember:
        """A client of the member at an address, through a host."""
        machines = self._reach.site.machines

        def found() -> Machine | None:
            way, machine = self._reach.reached(through), machines.get(address)
            return machine if way is not None and way.talks and machine is not None and machine.talks else None

        self._with_credentials(through)
        return EtcdMember(self._reach, address, found)

    def forget(self, name: str) -> None:
        """Nothing is kept."""

    def _with_credentials(self, name: str) -> Machine:
        """The machine, whose files can be read to reach what runs there."""
        machine = self._reach.reached(name)
        if machine is None:
            raise AccessFailed(f"{name}: no answer")
        if not machine.disk.ca:
            raise AccessFailed(f"{name}: there are no credentials")
        return machine


class EtcdMember:
    """The member on a machine, which `find` finds as long as there is a way to it."""

    def __init__(self, reach: Reach, node: str, find: Callable[[], Machine | None]) -> None:
        self._reach, self._node, self._find = reach, node, find

    async def status(self) -> Status:
        """What it says of itself."""
        asked = self._reach.site.world.time()
        member = await self._asked()
        self._reach.actor.status_asked = asked
        site = self._reach.site
        found = site.ring.members.get(member)
        follows = site.ring.follows_leader(member)
        learner = found is not None and found.learner
        return Status(member, site.ring.leader if follows else 0, learner=learner, db_size=database.size(), revision=site.revision)

    async def members(self) -> MemberList:
        """The members, as a majority confirms them. What rests on this may have been true when the member was asked for its status, and no earlier."""
        asked = self._reach.actor.status_asked
        await self._confirmed()
        self._reach.actor.since = asked
        ring = self._reach.site.ring
        listed = (Member(each.id, each.name, (each.peer_url,), learner=each.learner) for each in ring.members.values())
        return MemberList(self._reach.site.ring_id, tuple(listed))

    async def alarms(self) -> tuple[Alarm, ...]:
        """None: etcd raises none here."""
        await self._confirmed()
        return ()

    async def move_leader(self, target_id: int) -> None:
        """Hand leadership over."""
        member, ring = await self._changed(), self._reach.site.ring
        if ring.leader != member:
            raise NotLeader(self._node, "not leader")
        try:
            ring.move_leader(target_id)
        except NoQuorum as error:
            raise Refused(self._node, "UNAVAILABLE", str(error)) from error

    async def remove_member(self, member_id: int) -> None:
        """Remove a member."""
        await self._changed()
        site = self._reach.site
        if member_id not in site.ring.members:
            raise MemberNotFound(self._node, "member not found")
        self._reach.tells(Action.REMOVE, site.holder_of(member_id), member=member_id)
        try:
            site.ring.remove(member_id)
        except NoQuorum as error:
            raise NoLeader(self._node, str(error)) from error
        site.settle()
        await self._reach.travels()

    async def values(self, prefix: bytes) -> AsyncGenerator[tuple[bytes, bytes], None]:
        """The Secrets, which is all that is asked for."""
        await self._confirmed()
        for key, value in material.stored(self._reach.site.objects.stored):
            if key.startswith(prefix):
                yield key, value

    async def snapshot(self) -> AsyncGenerator[bytes, None]:
        """Its database as it is now, in pieces."""
        await self._asked()
        content = database.snapshot(self._reach.site.revision)
        for start in range(0, len(content), _PIECE):
            await self._asked()
            await self._reach.takes(0.02, 0.2)
            yield content[start : start + _PIECE]

    async def close(self) -> None:
        """Nothing is kept open."""

    async def _asked(self) -> int:
        """The member that runs there, which answers alone."""
        await self._reach.travels()
        if not self._reach.observer.sight.ring:
            raise DeadlineExceeded(self._node, "no answer in time")
        machine = self._find()
        if machine is None or machine.member is None:
            raise Unreachable(self._node, "nothing answers")
        return machine.member

    async def _confirmed(self) -> None:
        member = await self._asked()
        try:
            self._reach.site.ring.confirm(member)
        except NoQuorum as error:
            raise NoLeader(self._node, str(error)) from error

    async def _changed(self) -> int:
        """A change takes effect at the instant at which the fence lets it pass."""
        member = await self._asked()
        await self._reach.fence.while_stopped()
        self._reach.fence.confirm()
        return member
