"""The ring, asked through hosts: each host's member through the host itself, and members that nobody answered for at their addresses, through one that did."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime
from typing import Protocol

from quorate.core.health import Health, Unknown
from quorate.core.ring import Member, Ring
from quorate.etcd.client import EtcdClient, Status, host_of
from quorate.etcd.errors import Unreachable
from quorate.hosts.connect.access import AccessFailed
from quorate.workload.membership import RingReading, read_ring

BEHIND = 5000
"""Entries of the log after which a member counts as not in sync: a leader keeps so many for followers that fall behind, and sends the whole database to one
that is farther back (SnapshotCatchUpEntries of etcd).
"""


class Members(Protocol):
    """The ways to members: `quorate.hosts.connect.access.Access` says how each behaves."""

    async def etcd(self, through: str | None = None) -> EtcdClient:
        """The member of a host."""
        ...

    async def etcd_at(self, address: str, through: str) -> EtcdClient:
        """The member at an address, through a host."""
        ...

    def forget(self, name: str) -> None:
        """Read a host's credentials anew."""
        ...


async def read_members(access: Members, hosts: Sequence[str], now: Callable[[], datetime]) -> RingReading | Unknown:
    """The ring as the members of these hosts tell it. A member for which no host answered is asked again, at the address that the ring has of it."""
    reading = await read_ring(lambda host: _lent(access, host, {}), hosts, now)
    if isinstance(reading, Unknown):
        return reading
    elsewhere = {node: (address, reading.read_through) for node, address in _unanswered(reading, hosts)}
    if elsewhere:
        reading = await read_ring(lambda node: _lent(access, node, elsewhere), (*hosts, *elsewhere), now)
        if isinstance(reading, Unknown):
            return reading
    return replace(reading, ring=_with_lag(reading.ring, reading.statuses), elsewhere=frozenset(elsewhere))


def silent_members(reading: RingReading) -> tuple[int, ...]:
    """The members that gave no answer at all, wherever they were asked."""
    answered = {status.member_id for status in reading.statuses.values()}
    return tuple(member.id for member in reading.ring.members if member.id not in answered)


def address_of(member: Member) -> str:
    """Where the member is, by its first peer URL; empty where it has none."""
    return host_of(member.peer_urls[0]) if member.peer_urls else ""


def _unanswered(reading: RingReading, hosts: Sequence[str]) -> list[tuple[str, str]]:
    """What to ask besides: by the member's name, as its node is called, unless another member of that name is asked too; and at which address."""
    silent = silent_members(reading)
    members = [(member, address_of(member)) for member in reading.ring.members if member.id in silent and member.name]
    asked = Counter((*hosts, *(member.name for member, address in members if address)))
    return [(f"{member.name} at {address}" if asked[member.name] > 1 else member.name, address) for member, address in members if address]


@asynccontextmanager
async def _lent(access: Members, node: str, elsewhere: Mapping[str, tuple[str, str]]) -> AsyncIterator[EtcdClient]:
    try:
        client = await (access.etcd_at(*elsewhere[node]) if node in elsewhere else access.etcd(node))
    except AccessFailed as failure:
        raise Unreachable(node, failure.cause) from failure
    try:
        yield client
    except Unreachable:
        if node not in elsewhere:
            access.forget(node)
        raise


def _with_lag(ring: Ring, statuses: Mapping[str, Status]) -> Ring:
    """The ring with those not known to be well that answer and are far behind: they vote, and cannot take over soon what others hold."""
    ours = [status for status in statuses.values() if ring.member(status.member_id) is not None]
    newest = max((status.raft_index for status in ours), default=0)
    behind = {status.member_id: newest - status.raft_applied_index for status in ours}
    return Ring(tuple(_lagging(member, behind.get(member.id, 0)) for member in ring.members), ring.leader)


def _lagging(member: Member, behind: int) -> Member:
    if behind <= BEHIND or member.health is not Health.GOOD:
        return member
    return replace(member, health=Health.UNKNOWN, evidence=f"{member.evidence}, but is {behind} entries behind")
