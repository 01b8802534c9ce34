"""The etcd ring of a workload cluster, read: the members as a majority confirms them, and each one's health by its own word.

Upstream's provider asks one member for the list, and calls every other one healthy that is listed and has no alarm. Here every member whose node is known is
asked itself, all at once: for its status, and for its own list of the members and the id of its cluster, in which all have to agree.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeVar

from quorate.core.health import Absent, Health, Unknown
from quorate.core.ring import Member, Ring
from quorate.etcd import client as etcd
from quorate.etcd.errors import ConnectionLost, DeadlineExceeded, EtcdError, NoWay

T = TypeVar("T")

Lend = Callable[[str], AbstractAsyncContextManager[etcd.EtcdClient]]
"""Lends the client of the member on a node."""

STATUS_TIMEOUT = 5.0
"""Seconds for one member to be connected and to tell its status; it answers alone, in about a millisecond."""
LISTING_TIMEOUT = 10.0
"""Seconds for the list of members, and for the alarms; etcd itself gives up finding a majority after 7."""

MOST_ASKED = 25
"""Nodes, of which etcd advises seven to have a member. Each costs a connection through the API server, of some 10 ms of CPU, and one tenant may have 500."""

_TAKE_OFF = "Take the label of a control plane off Nodes that are none (`kubectl label node NAME node-role.kubernetes.io/control-plane-`)."
_QUORUM_LOST = (
    "etcd has lost its quorum: bring back the hosts that do not answer; if their data is lost for good, restore etcd from a snapshot."
)


@dataclass(frozen=True, slots=True)
class RingReading:
    """The ring at one moment, with everything that the decision and a reader need of it."""

    ring: Ring
    cluster_id: int  # 0 where the server sends none (Cluster API's in-memory provider)
    alarms: tuple[etcd.Alarm, ...]
    member_ids: Mapping[
        str, int
    ]  # by node: which member answered there. Only where servers tell who they are: never in the in-memory provider
    read_through: str  # the node whose member listed the others
    read_at: datetime  # when the list was asked for: it contains everything confirmed before
    disagreement: str = ""  # in what the members contradict each other about who they are, asked twice; empty: they agree
    statuses: Mapping[str, etcd.Status] = field(default_factory=dict)  # by node: what each said that answered, whichever ring it is of
    elsewhere: frozenset[str] = (
        frozenset()
    )  # of these nodes, those that were asked at an address of the ring's, and not through the node itself


Answer = etcd.Status | EtcdError


@dataclass(frozen=True, slots=True)
class _Doubt:
    """A member that answers, and what it says is no proof that it belongs to the ring and follows its majority."""

    health: Health
    evidence: str


@dataclass(frozen=True, slots=True)
class _Witness:
    """What one member said: its status, and its list, or why it gave none."""

    status: Answer
    listing: etcd.MemberList | str

    @property
    def identity(self) -> tuple[int, frozenset[int]] | None:
        """The cluster that it belongs to and the members that it knows, by id."""
        if isinstance(self.listing, str):
            return None
        return self.listing.cluster_id, frozenset(member.id for member in self.listing.members)


Heard = Mapping[str, Answer | _Doubt]


async def read_ring(lend: Lend, nodes: Sequence[str], now: Callable[[], datetime]) -> RingReading | Unknown:
    """Ask the members on `nodes` for the ring; `Unknown` with the reasons when no majority, or nobody, answered. Takes milliseconds as a rule.

    All are asked at once for their status and, unless they follow no leader or are learners, for the members. Where the lists differ, all are asked once more:
    a change may have been confirmed between two answers, and each answer waits for everything confirmed before it was asked for.
    """
    if not nodes:
        return Unknown("no node to ask")
    if len(nodes) > MOST_ASKED:
        return Unknown(
            f"{len(nodes)} Nodes are marked as control planes, and of more than {MOST_ASKED} none is asked for its member", _TAKE_OFF
        )
    reading = await _asked_once(lend, nodes, now)
    if isinstance(reading, RingReading) and reading.disagreement:
        return await _asked_once(lend, nodes, now)
    return reading


async def _asked_once(lend: Lend, nodes: Sequence[str], now: Callable[[], datetime]) -> RingReading | Unknown:
    read_at = now()
    async with asyncio.TaskGroup() as tasks:
        asked = {node: tasks.create_task(_ask(lend, node)) for node in nodes}
    witnesses = {node: task.result() for node, task in asked.items()}
    agreeing = _largest_agreement(witnesses)
    failures = [f"{node}: {witness.listing}" for node, witness in witnesses.items() if isinstance(witness.listing, str)]
    for node in agreeing:
        alarms = await _alarms(lend, node)
        if not isinstance(alarms, str):
            return _reading(witnesses, agreeing, node, alarms, read_at)
        failures.append(f"{node}: {alarms}")
    return Unknown("; ".join(failures), _QUORUM_LOST if _has_no_quorum(witnesses) else "")


def _has_no_quorum(witnesses: Mapping[str, _Witness]) -> bool:
    """Whether one that answers knows no leader, and no majority answers at all: this is more than an election, which is over in a second or two."""
    answering = [witness.status for witness in witnesses.values() if isinstance(witness.status, etcd.Status)]
    return any(status.leader == 0 for status in answering) and 2 * len(answering) <= len(witnesses)


async def _ask(lend: Lend, node: str) -> _Witness:
    status = await _ask_status(lend, node)
    why_not = _cannot_list(status)
    return _Witness(status, await _list(lend, node) if why_not is None else why_not)


def _cannot_list(answer: Answer) -> str | None:
    match answer:
        case EtcdError(message=message):
            return message
        case etcd.Status(leader=0):
            return "knows no leader"
        case etcd.Status(learner=True):
            return "is a learner, which may not list members"
    return None


async def _ask_status(lend: Lend, node: str) -> Answer:
    try:
        try:
            return await _status(lend, node)
        except ConnectionLost:  # a kept connection that had died unnoticed says nothing about the member
            return await _status(lend, node)
    except EtcdError as error:
        return error


async def _status(lend: Lend, node: str) -> etcd.Status:
    return await _answered(lend, node, lambda client: client.status(), STATUS_TIMEOUT, "answer")


async def _list(lend: Lend, node: str) -> etcd.MemberList | str:
    """The members as this one lists them, or why they could not be had."""
    try:
        return await _answered(lend, node, lambda client: client.members(), LISTING_TIMEOUT, "list the members")
    except EtcdError as error:
        return error.message


async def _alarms(lend: Lend, node: str) -> tuple[etcd.Alarm, ...] | str:
    """The alarms of every member, or why they could not be had."""
    try:
        return await _answered(lend, node, lambda client: client.alarms(), LISTING_TIMEOUT, "tell the alarms")
    except EtcdError as error:
        return error.message


async def _answered(lend: Lend, node: str, question: Callable[[etcd.EtcdClient], Awaitable[T]], timeout: float, what: str) -> T:
    """The answer of the member on a node. Raises EtcdError; DeadlineExceeded, which says what it did not do, where `timeout` seconds bring none."""
    async with lend(node) as client:
        try:
            async with asyncio.timeout(timeout):
                return await question(client)
        except TimeoutError as error:  # raised within the loan, so that a connection that hangs is not lent again
            raise DeadlineExceeded(node, f"did not {what} within {timeout:g} s") from error


def _largest_agreement(witnesses: Mapping[str, _Witness]) -> tuple[str, ...]:
    """The nodes of the most members that give the same cluster and the same ids, in the order asked; of two as large, those asked first."""
    groups: dict[tuple[int, frozenset[int]], list[str]] = {}
    for node, witness in witnesses.items():
        if witness.identity is not None:
            groups.setdefault(witness.identity, []).append(node)
    largest: list[str] = max(groups.values(), key=len, default=[])
    return tuple(largest)


def _disagreement(witnesses: Mapping[str, _Witness], agreeing: Sequence[str]) -> str:
    told = {node: witness.identity for node, witness in witnesses.items() if witness.identity is not None}
    others = [node for node in told if node not in agreeing]
    return "; ".join(_account(node, told[node]) for node in (agreeing[0], *others)) if others else ""


def _account(node: str, identity: tuple[int, frozenset[int]] | None) -> str:
    cluster, members = identity or (0, frozenset())
    return f"the member on {node} lists {', '.join(f'{member:x}' for member in sorted(members))} in cluster {cluster:x}"


def _reading(
    witnesses: Mapping[str, _Witness], agreeing: Sequence[str], node: str, alarms: tuple[etcd.Alarm, ...], read_at: datetime
) -> RingReading | Unknown:
    listing, asked = witnesses[node].listing, witnesses[node].status
    if isinstance(listing, str):
        raise TypeError(f"{node} did not list the members")
    leader = asked.leader if isinstance(asked, etcd.Status) else 0
    ids = {member.id for member in listing.members}
    if leader not in ids:
        return Unknown(f"{node}: its leader {leader:x} is not among the members")
    heard: Heard = {other: _heard(witness, agrees=other in agreeing) for other, witness in witnesses.items()}
    vouching = {name: witnesses[name].status for name, answer in heard.items() if not _is_elsewhere(answer)}
    answered = {name: answer.member_id for name, answer in vouching.items() if isinstance(answer, etcd.Status) and answer.member_id in ids}
    members = tuple(_judged(member, alarms, _answer_of(member, heard, answered)) for member in listing.members)
    disagreement = _disagreement(witnesses, agreeing)
    statuses = {name: witness.status for name, witness in witnesses.items() if isinstance(witness.status, etcd.Status)}
    return RingReading(Ring(members, leader), listing.cluster_id, alarms, answered, node, read_at, disagreement, statuses)


def _heard(witness: _Witness, *, agrees: bool) -> Answer | _Doubt:
    if witness.identity is not None and not agrees:
        return _Doubt(Health.BAD, "answers for another ring: it lists other members, or another cluster")
    if isinstance(witness.listing, str) and _cannot_list(witness.status) is None:
        return _Doubt(Health.UNKNOWN, f"answers, but not with what the majority confirms: {witness.listing}")
    return witness.status


def _is_elsewhere(answer: Answer | _Doubt) -> bool:
    return isinstance(answer, _Doubt) and answer.health is Health.BAD


def _answer_of(member: etcd.Member, heard: Heard, answered: Mapping[str, int]) -> Answer | _Doubt | None:
    """What was heard of a member: on whichever node it said that it is this one, or else on the node of its name, as kubeadm names members."""
    for node, member_id in answered.items():
        if member_id == member.id:
            return heard[node]
    answer = heard.get(member.name)
    somebody_else = (isinstance(answer, etcd.Status) and answer.member_id not in (0, member.id)) or member.name in answered
    return None if somebody_else else answer


def _judged(member: etcd.Member, alarms: tuple[etcd.Alarm, ...], answer: Answer | _Doubt | None) -> Member:
    health, evidence = _health(member, answer)
    only_alarmed, raised = False, sorted(alarm.kind for alarm in alarms if alarm.member_id == member.id)
    if raised:
        only_alarmed = health is Health.GOOD
        said = "; ".join(f"raised the alarm {kind}, for which etcd refuses writes: {_way_out(kind)}" for kind in raised)
        health, evidence = Health.BAD, said if only_alarmed else f"{evidence}; {said}"
    version = answer.version if isinstance(answer, etcd.Status) else ""
    return Member(member.id, member.name, health, member.learner, member.peer_urls, evidence, only_alarmed, version)


def _health(member: etcd.Member, answer: Answer | _Doubt | None) -> tuple[Health, str]:
    match answer:
        case _Doubt(health=health, evidence=evidence):
            return health, evidence
        case etcd.Status(leader=0):
            return Health.BAD, "answers but knows no leader"
        case etcd.Status(leader=leader):
            return Health.GOOD, f"answers and follows leader {leader:x}"
        case NoWay(message=message):
            return Health.UNKNOWN, message
        case EtcdError(message=message):
            return Health.BAD, f"does not answer while others do: {message}"
    return (Health.UNKNOWN, "no node is known on which it could be asked") if member.name else (Health.BAD, "was added but never started")


_MAKE_ROOM = "make room in etcd (`etcdctl compact`, `etcdctl defrag --cluster`)"
_COMPARE = "make sure that all members hold the same data (`etcdctl endpoint hashkv --cluster`)"


def alarms_without_member(reading: RingReading | Unknown | Absent) -> tuple[str, ...]:
    """What a reader has to know of alarms that are of no member of the ring: one sentence each, with the way out.

    etcd keeps the alarm of a member that was removed, and goes on refusing writes for it; CORRUPT is of no member where no majority holds the same data.
    Source: etcd 3.6, server/etcdserver: api/v3alarm/alarms.go, restoreAlarms in apply/uber_applier.go, corrupt.go.
    """
    if not isinstance(reading, RingReading):
        return ()
    orphans = {(alarm.kind, alarm.member_id) for alarm in reading.alarms if reading.ring.member(alarm.member_id) is None}
    return tuple(_alarm(kind, member) for kind, member in sorted(orphans))


def _alarm(kind: str, member: int) -> str:
    whose = f" of member {member:x}, which is gone" if member else ", which belongs to no single member"
    return f"etcd refuses writes for the alarm {kind}{whose}: {_way_out(kind)}"


def _way_out(kind: str) -> str:
    return f"{_MAKE_ROOM if kind == 'NOSPACE' else _COMPARE}, then run `etcdctl alarm disarm`"
