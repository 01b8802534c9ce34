"""The etcd ring of a workload cluster, read: the members as a majority confirms them, and each one's health by its own word.

Upstream's provider calls a member healthy when it is listed and has no alarm. Here every member whose node is known is asked itself, all at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass
from datetime import datetime

from quorate.core.health import Health, Unknown
from quorate.core.ring import Member, Ring
from quorate.etcd import client as etcd
from quorate.etcd.errors import ConnectionLost, DeadlineExceeded, EtcdError

Lend = Callable[[str], AbstractAsyncContextManager[etcd.EtcdClient]]
"""Lends the client of the member on a node."""

STATUS_PATIENCE = 5.0
"""Seconds for one member to be connected and to tell its status; it answers alone, in about a millisecond."""
LISTING_PATIENCE = 10.0
"""Seconds for the list of members and the alarms; etcd itself gives up finding a majority after 7."""


@dataclass(frozen=True, slots=True)
class RingReading:
    """The ring at one moment, with everything that the judgement and a reader need of it."""

    ring: Ring
    cluster_id: int  # 0 where the server sends none (Cluster API's in-memory provider)
    alarms: tuple[etcd.Alarm, ...]
    member_ids: Mapping[
        str, int
    ]  # by node: which member answered there. Only where servers tell who they are: never in the in-memory provider
    read_through: str  # the node whose member listed the others
    read_at: datetime  # when the list was asked for: it contains everything confirmed before


Answer = etcd.Status | EtcdError
Listed = tuple[etcd.MemberList, tuple[etcd.Alarm, ...]]


async def read_ring(lend: Lend, nodes: Sequence[str], now: Callable[[], datetime]) -> RingReading | Unknown:
    """Ask the members on `nodes` for the ring; `Unknown` with the reasons when no majority, or nobody, answered. Takes at most 15 s for each of `nodes`.

    All are asked for their status at once; the first that follows a leader and is no learner lists the members and alarms, the next one if that fails.
    """
    if not nodes:
        return Unknown("no node to ask")
    async with asyncio.TaskGroup() as tasks:
        asked = {node: tasks.create_task(_ask_status(lend, node)) for node in nodes}
        return await _through_the_first(lend, asked, now)


async def _through_the_first(lend: Lend, asked: Mapping[str, asyncio.Task[Answer]], now: Callable[[], datetime]) -> RingReading | Unknown:
    failures: list[str] = []
    async with aclosing(_as_answered(asked)) as heard:
        async for node, answer in heard:
            read_at = now()
            listed = await _list(lend, node) if (problem := _cannot_list(answer)) is None else problem
            if not isinstance(listed, str):
                return _reading(listed, {other: await task for other, task in asked.items()}, node, read_at)
            failures.append(f"{node}: {listed}")
    return Unknown("; ".join(failures))


async def _as_answered(asked: Mapping[str, asyncio.Task[Answer]]) -> AsyncGenerator[tuple[str, Answer], None]:
    """Nodes with their answers, in the order in which these come."""
    nodes = {task: node for node, task in asked.items()}
    waiting: set[asyncio.Task[Answer]] = set(nodes)
    while waiting:
        done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            yield nodes[task], task.result()


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
    async with lend(node) as client:
        try:
            async with asyncio.timeout(STATUS_PATIENCE):
                return await client.status()
        except TimeoutError as error:  # raised within the loan, so that a connection that hangs is not lent again
            raise DeadlineExceeded(node, f"did not answer within {STATUS_PATIENCE:g} s") from error


async def _list(lend: Lend, node: str) -> Listed | str:
    """The members and alarms, or why they could not be had."""
    try:
        async with lend(node) as client:
            try:
                async with asyncio.timeout(LISTING_PATIENCE):
                    return await client.members(), await client.alarms()
            except TimeoutError as error:
                raise DeadlineExceeded(node, f"did not list the members within {LISTING_PATIENCE:g} s") from error
    except EtcdError as error:
        return error.message


def _reading(listed: Listed, answers: Mapping[str, Answer], node: str, read_at: datetime) -> RingReading | Unknown:
    listing, alarms = listed
    asked = answers[node]
    leader = asked.leader if isinstance(asked, etcd.Status) else 0
    ids = {member.id for member in listing.members}
    if leader not in ids:
        return Unknown(f"{node}: its leader {leader:x} is not among the members")
    answered = {name: answer.member_id for name, answer in answers.items() if isinstance(answer, etcd.Status) and answer.member_id in ids}
    members = tuple(_judged(member, alarms, _answer_of(member, answers, answered)) for member in listing.members)
    return RingReading(Ring(members, leader), listing.cluster_id, alarms, answered, node, read_at)


def _answer_of(member: etcd.Member, answers: Mapping[str, Answer], answered: Mapping[str, int]) -> Answer | None:
    """What was heard of a member: on whichever node it said that it is this one, or else on the node of its name, as kubeadm names members."""
    for node, member_id in answered.items():
        if member_id == member.id:
            return answers[node]
    answer = answers.get(member.name)
    somebody_else = isinstance(answer, etcd.Status) and answer.member_id not in (0, member.id)
    return None if somebody_else else answer


def _judged(member: etcd.Member, alarms: tuple[etcd.Alarm, ...], answer: Answer | None) -> Member:
    health, evidence = _health(member, [alarm.kind for alarm in alarms if alarm.member_id == member.id], answer)
    return Member(member.id, member.name, health, member.learner, member.peer_urls, evidence)


def _health(member: etcd.Member, alarms: list[str], answer: Answer | None) -> tuple[Health, str]:
    if alarms:
        return Health.BAD, f"raised the alarm {', '.join(sorted(alarms))}"
    match answer:
        case etcd.Status(leader=0):
            return Health.BAD, "answers but knows no leader"
        case etcd.Status(leader=leader):
            return Health.GOOD, f"answers and follows leader {leader:x}"
        case EtcdError(message=message):
            return Health.BAD, f"does not answer while others do: {message}"
    return (Health.UNKNOWN, "no node is known on which it could be asked") if member.name else (Health.BAD, "was added but never started")
