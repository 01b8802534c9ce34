"""One etcd member as seen by whoever keeps its ring: the questions, the two changes, and the values they answer with."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import urlsplit

from quorate.core.text import printable

CALL_TIMEOUT = 15.0
"""Seconds that one call may take once connected. (Cluster API's default for its etcd calls.)"""
DIAL_TIMEOUT = 10.0
"""Seconds that connecting may take, TLS included. (Cluster API's default for --etcd-dial-timeout-duration.)"""


def host_of(peer_url: str) -> str:
    """The host that a member names; empty where what it says is no URL, such as one with half an IPv6 address."""
    try:
        return urlsplit(peer_url).hostname or ""
    except ValueError:
        return ""


@dataclass(frozen=True, slots=True)
class Member:
    """One line of the member list, its texts printable whatever the member sent. A member that was added and never started has no name and no client URLs
    yet.
    """

    id: int
    name: str
    peer_urls: tuple[str, ...] = ()  # Cluster API's in-memory provider reports none
    client_urls: tuple[str, ...] = ()
    learner: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", printable(self.name))
        object.__setattr__(self, "peer_urls", tuple(map(printable, self.peer_urls)))
        object.__setattr__(self, "client_urls", tuple(map(printable, self.client_urls)))


@dataclass(frozen=True, slots=True)
class MemberList:
    """The members, as a majority confirmed them. `cluster_id` is 0 where the server sends none (Cluster API's in-memory provider)."""

    cluster_id: int
    members: tuple[Member, ...]


@dataclass(frozen=True, slots=True)
class Status:
    """What one member says of itself, without asking the others; its texts are printable whatever it sent."""

    member_id: int  # 0 where the server sends none (Cluster API's in-memory provider)
    leader: int  # the member it follows; 0: it knows of none
    version: str = ""
    db_size: int = 0  # bytes, physically allocated
    raft_index: int = 0
    raft_applied_index: int = 0
    learner: bool = False
    revision: int = 0  # of the newest key that this member has applied
    errors: tuple[str, ...] = ()  # such as "etcdserver: no leader", or an alarm in words

    def __post_init__(self) -> None:
        object.__setattr__(self, "version", printable(self.version))
        object.__setattr__(self, "errors", tuple(map(printable, self.errors)))


@dataclass(frozen=True, slots=True)
class Alarm:
    """An alarm that a member raised and nobody has disarmed. `kind` is etcd's name for it: NOSPACE or CORRUPT."""

    member_id: int
    kind: str


class EtcdClient(Protocol):
    """A connection to the etcd member of one node. Safe to share between tasks.

    Every call ends within its deadlines (dialling where there is no connection, then the call) and raises only quorate.etcd.errors.EtcdError.
    After Unreachable the next call dials again.
    """

    async def members(self) -> MemberList:
        """The members, read linearizably: it needs a majority, and sees every change that was confirmed before it was asked."""
        ...

    async def status(self) -> Status:
        """What this member says of itself; answered without a majority."""
        ...

    async def alarms(self) -> tuple[Alarm, ...]:
        """The alarms of every member."""
        ...

    async def move_leader(self, target_id: int) -> None:
        """Hand leadership to the member with this id; only the leader can (NotLeader otherwise). Handing it to the leader itself changes nothing."""
        ...

    async def remove_member(self, member_id: int) -> None:
        """Remove a member. Repeating it raises MemberNotFound. The caller has made sure that the ring stands it: etcd checks only part of that."""
        ...

    async def close(self) -> None:
        """Close the connection. Idempotent. Not while a call is under way: quorate.etcd.pool.Pool sees to that."""
        ...


class SnapshotClient(EtcdClient, Protocol):
    """A client that can also read the data: all of it as a copy, or what is stored below a prefix."""

    def values(self, prefix: bytes) -> AsyncGenerator[tuple[bytes, bytes], None]:
        """Every key that begins with the prefix, and its value as it is stored. Close the generator if it is left early.

        Each page is a linearizable read with the deadline of a call; what is written meanwhile behind the place that was reached is seen.
        """
        ...

    def snapshot(self) -> AsyncGenerator[bytes, None]:
        """The member's database file as it is now, piece by piece, and behind it the 32 bytes of its SHA-256. Close the generator if it is left early.

        Each piece has the deadline of a call; the whole has none. A majority is not needed.
        """
        ...
