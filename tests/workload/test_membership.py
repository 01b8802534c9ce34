"""Reading the ring, with members that answer what the test says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, TypeVar

import pytest

from quorate.core import ring as core
from quorate.core.health import Health, Unknown
from quorate.etcd.client import Alarm, EtcdClient, Member, MemberList, Status
from quorate.etcd.errors import ConnectionLost, EtcdError, NoLeader, NoWay, Unreachable
from quorate.workload import membership
from quorate.workload.membership import RingReading, alarms_without_member, read_ring

T = TypeVar("T")

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
NODES = ("cp-a", "cp-b", "cp-c")
IDS = {"cp-a": 0xA, "cp-b": 0xB, "cp-c": 0xC}


@dataclass
class FakeMember:
    """One member: values it answers with, errors it raises, in order; the last one for ever."""

    statuses: list[Status | EtcdError]
    listing: MemberList | EtcdError | list[MemberList]
    alarm_list: tuple[Alarm, ...] | EtcdError = ()
    before_answer: Callable[[], Any] | None = None
    listed: int = 0

    async def status(self) -> Status:
        if self.before_answer:
            await self.before_answer()
        answer = self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]
        return _answered(answer)

    async def members(self) -> MemberList:
        self.listed += 1
        if isinstance(self.listing, list):
            return self.listing.pop(0) if len(self.listing) > 1 else self.listing[0]
        return _answered(self.listing)

    async def alarms(self) -> tuple[Alarm, ...]:
        return _answered(self.alarm_list)


def _answered(answer: T | EtcdError) -> T:
    if isinstance(answer, EtcdError):
        raise answer
    return answer


@dataclass
class FakeRing:
    members: dict[str, FakeMember]
    failed: list[str] = field(default_factory=list)

    @asynccontextmanager
    async def lend(self, node: str) -> AsyncIterator[EtcdClient]:
        client: Any = self.members[node]
        try:
            yield client
        except EtcdError:
            self.failed.append(node)
            raise

    async def read(self, *nodes: str) -> RingReading | Unknown:
        return await read_ring(self.lend, nodes or tuple(self.members), lambda: NOON)

    async def reading(self, *nodes: str) -> RingReading:
        reading = await self.read(*nodes)
        assert isinstance(reading, RingReading), reading
        return reading


LISTING = MemberList(0xC1, tuple(Member(IDS[node], node, (f"https://{node}:2380",), (f"https://{node}:2379",)) for node in NODES))


def healthy(*, leader: int = 0xA, listing: MemberList = LISTING) -> FakeRing:
    return FakeRing({node: FakeMember([Status(IDS[node], leader)], listing) for node in NODES})


def health_of(reading: RingReading) -> dict[str, Health]:
    return {member.name: member.health for member in reading.ring.members}


def evidence_of(reading: RingReading, name: str) -> str:
    return next(member.evidence for member in reading.ring.members if member.name == name)


async def test_a_ring_in_which_all_answer_is_good() -> None:
    reading = await healthy().reading()
    assert set(health_of(reading).values()) == {Health.GOOD}
    assert reading.ring.leader == 0xA
    assert reading.cluster_id == 0xC1
    assert reading.member_ids == IDS
    assert reading.read_at == NOON
    assert str(reading.ring.now) == "3 of 3 voters healthy, quorum 2: tolerates 1 more"


async def test_every_member_is_asked_for_its_own_list_once() -> None:
    ring = healthy()
    reading = await ring.reading()
    assert [member.listed for member in ring.members.values()] == [1, 1, 1]
    assert reading.disagreement == ""


async def test_each_members_version_is_what_it_says_itself_and_none_where_it_does_not_answer() -> None:
    ring = healthy()
    ring.members["cp-a"].statuses = [Status(0xA, 0xA, version="3.6.5")]
    ring.members["cp-b"].statuses = [Unreachable("cp-b", "connection refused")]
    reading = await ring.reading()
    assert {member.name: member.version for member in reading.ring.members} == {"cp-a": "3.6.5", "cp-b": "", "cp-c": ""}


async def test_a_member_that_does_not_answer_while_others_do_is_bad_with_the_reason() -> None:
    ring = healthy()
    ring.members["cp-b"].statuses = [Unreachable("cp-b", "connection refused")]
    reading = await ring.reading()
    assert health_of(reading) == {"cp-a": Health.GOOD, "cp-b": Health.BAD, "cp-c": Health.GOOD}
    assert evidence_of(reading, "cp-b") == "does not answer while others do: connection refused"


async def test_a_member_that_cannot_be_asked_yet_is_unknown_and_not_called_silent() -> None:
    ring = healthy()
    ring.members["cp-b"].statuses = [NoWay("cp-b", "there is no Pod kube-system/etcd-cp-b to reach it through")]
    reading = await ring.reading()
    assert health_of(reading) == {"cp-a": Health.GOOD, "cp-b": Health.UNKNOWN, "cp-c": Health.GOOD}
    assert evidence_of(reading, "cp-b") == "there is no Pod kube-system/etcd-cp-b to reach it through"


async def test_a_member_without_a_node_to_ask_on_is_unknown() -> None:
    reading = await healthy().reading("cp-a", "cp-c")
    assert health_of(reading)["cp-b"] is Health.UNKNOWN


async def test_a_kept_connection_that_died_is_tried_once_more() -> None:
    ring = healthy()
    ring.members["cp-b"].statuses = [ConnectionLost("cp-b", "connection lost"), Status(0xB, 0xA)]
    assert health_of(await ring.reading())["cp-b"] is Health.GOOD


async def test_a_connection_that_dies_twice_is_bad() -> None:
    ring = healthy()
    ring.members["cp-b"].statuses = [ConnectionLost("cp-b", "connection lost")]
    assert health_of(await ring.reading())["cp-b"] is Health.BAD


async def test_a_member_that_follows_nobody_is_bad_and_does_not_list() -> None:
    ring = healthy()
    ring.members["cp-a"].statuses = [Status(0xA, 0)]
    reading = await ring.reading()
    assert health_of(reading)["cp-a"] is Health.BAD
    assert ring.members["cp-a"].listed == 0


async def test_a_member_that_cannot_list_is_unknown_and_the_others_list() -> None:
    ring = healthy()
    ring.members["cp-a"].listing = NoLeader("cp-a", "request timed out")
    reading = await ring.reading()
    assert reading.read_through == "cp-b"
    assert health_of(reading) == {"cp-a": Health.UNKNOWN, "cp-b": Health.GOOD, "cp-c": Health.GOOD}
    assert evidence_of(reading, "cp-a") == "answers, but not with what the majority confirms: request timed out"
    assert reading.member_ids == IDS


async def test_the_next_tells_the_alarms_when_the_first_cannot() -> None:
    ring = healthy()
    ring.members["cp-a"].alarm_list = NoLeader("cp-a", "leader changed")
    assert (await ring.reading()).read_through == "cp-b"


SPLIT = MemberList(0xC1, LISTING.members[:2])


async def test_lists_that_differ_once_are_a_change_under_way() -> None:
    ring = healthy()
    ring.members["cp-b"].listing = [SPLIT, LISTING]
    reading = await ring.reading()
    assert reading.disagreement == ""
    assert set(health_of(reading).values()) == {Health.GOOD}
    assert [member.listed for member in ring.members.values()] == [2, 2, 2]


@pytest.mark.parametrize(
    ("listing", "told"),
    [
        (SPLIT, "the member on cp-b lists a, b in cluster c1"),
        (MemberList(0xC2, LISTING.members), "the member on cp-b lists a, b, c in cluster c2"),
    ],
    ids=["members", "cluster"],
)
async def test_members_that_differ_twice_disagree_and_the_odd_one_vouches_for_nobody(listing: MemberList, told: str) -> None:
    ring = healthy()
    ring.members["cp-b"].listing = listing
    reading = await ring.reading()
    assert reading.disagreement == f"the member on cp-a lists a, b, c in cluster c1; {told}"
    assert (reading.cluster_id, len(reading.ring.members), reading.read_through) == (0xC1, 3, "cp-a")
    assert health_of(reading) == {"cp-a": Health.GOOD, "cp-b": Health.BAD, "cp-c": Health.GOOD}
    assert evidence_of(reading, "cp-b") == "answers for another ring: it lists other members, or another cluster"
    assert reading.member_ids == {"cp-a": 0xA, "cp-c": 0xC}


async def test_without_a_majority_the_ring_is_unknown_with_every_reason() -> None:
    ring = healthy()
    for node, member in ring.members.items():
        member.listing = NoLeader(node, "request timed out")
    ring.members["cp-c"].statuses = [Status(0xC, 0)]
    answer = await ring.read()
    assert isinstance(answer, Unknown)
    assert sorted(answer.reason.split("; ")) == ["cp-a: request timed out", "cp-b: request timed out", "cp-c: knows no leader"]


async def test_alarms_that_cannot_be_read_make_the_ring_unknown() -> None:
    ring = healthy()
    for node, member in ring.members.items():
        member.alarm_list = NoLeader(node, "no leader")
    assert isinstance(await ring.read(), Unknown)


async def test_without_nodes_the_ring_is_unknown() -> None:
    assert await read_ring(healthy().lend, (), lambda: NOON) == Unknown("no node to ask")


async def test_an_alarm_makes_its_member_bad_and_only_that() -> None:
    ring = healthy()
    for member in ring.members.values():
        member.alarm_list = (Alarm(0xC, "NOSPACE"),)
    reading = await ring.reading()
    assert health_of(reading) == {"cp-a": Health.GOOD, "cp-b": Health.GOOD, "cp-c": Health.BAD}
    assert evidence_of(reading, "cp-c") == (
        "raised the alarm NOSPACE, for which etcd refuses writes: make room in etcd (`etcdctl compact`, `etcdctl defrag --cluster`), "
        "then run `etcdctl alarm disarm`"
    )
    assert reading.alarms == (Alarm(0xC, "NOSPACE"),)
    assert [member.name for member in reading.ring.members if member.only_alarmed] == ["cp-c"]
    assert reading.ring.commits.good == 3


async def test_an_alarm_of_a_member_that_is_gone_is_nobodys_illness() -> None:
    ring = healthy()
    for member in ring.members.values():
        member.alarm_list = (Alarm(0xD, "NOSPACE"), Alarm(0, "CORRUPT"))
    reading = await ring.reading()
    assert set(health_of(reading).values()) == {Health.GOOD}
    assert not any(member.only_alarmed for member in reading.ring.members)


async def test_a_member_with_an_alarm_that_does_not_answer_takes_no_part_in_anything() -> None:
    ring = healthy()
    for member in ring.members.values():
        member.alarm_list = (Alarm(0xC, "NOSPACE"),)
    ring.members["cp-c"].statuses = [Unreachable("cp-c", "connection refused")]
    reading = await ring.reading()
    assert health_of(reading)["cp-c"] is Health.BAD
    assert evidence_of(reading, "cp-c").startswith("does not answer while others do")
    assert "; raised the alarm NOSPACE, for which" in evidence_of(reading, "cp-c")
    assert not any(member.only_alarmed for member in reading.ring.members)


async def test_a_member_that_never_started_is_bad() -> None:
    listing = MemberList(0xC1, (*LISTING.members, Member(0xD, "", ("https://cp-d:2380",))))
    reading = await healthy(listing=listing).reading()
    assert health_of(reading)[""] is Health.BAD
    assert reading.ring.unsettled[0].peer_urls == ("https://cp-d:2380",)


async def test_a_learner_is_asked_but_never_lists() -> None:
    listing = MemberList(0xC1, (*LISTING.members, Member(0xD, "cp-d", learner=True)))
    ring = healthy(listing=listing)
    ring.members["cp-d"] = FakeMember([Status(0xD, 0xA, learner=True)], listing)
    reading = await ring.reading()
    assert health_of(reading)["cp-d"] is Health.GOOD
    assert [member.name for member in reading.ring.learners] == ["cp-d"]
    assert ring.members["cp-d"].listed == 0


async def test_only_a_learner_to_ask_is_unknown() -> None:
    ring = FakeRing({"cp-d": FakeMember([Status(0xD, 0xA, learner=True)], LISTING)})
    assert await ring.read() == Unknown("cp-d: is a learner, which may not list members")


async def test_one_of_three_that_answers_and_knows_no_leader_says_what_has_to_be_done() -> None:
    ring = healthy(leader=0)
    for node in ("cp-b", "cp-c"):
        ring.members[node].statuses = [Unreachable(node, "no route to host")]
    answer = await ring.read()
    assert isinstance(answer, Unknown)
    assert answer.remedy.startswith("etcd has lost its quorum: bring back the hosts that do not answer")


async def test_an_election_is_over_by_itself_and_needs_nobody() -> None:
    answer = await healthy(leader=0).read()
    assert isinstance(answer, Unknown)
    assert not answer.remedy


async def test_where_nobody_answers_it_may_be_the_way_that_is_cut() -> None:
    ring = healthy()
    for node in NODES:
        ring.members[node].statuses = [Unreachable(node, "no route to host")]
    answer = await ring.read()
    assert isinstance(answer, Unknown)
    assert not answer.remedy


async def test_a_leader_outside_the_ring_makes_it_unknown() -> None:
    answer = await healthy(leader=0xF).read()
    assert isinstance(answer, Unknown)
    assert "leader f is not among the members" in answer.reason


async def test_a_member_is_found_by_what_it_says_it_is_before_its_name() -> None:
    listing = MemberList(0xC1, tuple(Member(IDS[node], f"etcd-of-{node}") for node in NODES))
    reading = await healthy(listing=listing).reading()
    assert set(health_of(reading).values()) == {Health.GOOD}
    assert reading.member_ids == IDS


async def test_a_removed_member_that_still_answers_vouches_for_nobody() -> None:
    ring = healthy()
    ring.members["cp-b"].statuses = [Status(0xDEAD, 0xA)]
    reading = await ring.reading()
    assert health_of(reading)["cp-b"] is Health.UNKNOWN
    assert "cp-b" not in reading.member_ids


async def test_the_in_memory_provider_is_matched_by_name_alone() -> None:
    listing = MemberList(0, tuple(Member(IDS[node], node) for node in NODES))
    ring = FakeRing({node: FakeMember([Status(0, 0xA)], listing) for node in NODES})
    reading = await ring.reading()
    assert set(health_of(reading).values()) == {Health.GOOD}
    assert reading.member_ids == {}
    assert reading.cluster_id == 0


async def test_a_member_that_hangs_is_given_up_and_its_connection_not_lent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(membership, "STATUS_TIMEOUT", 0.05)
    ring = healthy()
    ring.members["cp-b"].before_answer = asyncio.Event().wait
    reading = await ring.reading()
    assert health_of(reading)["cp-b"] is Health.BAD
    assert ring.failed == ["cp-b"]
    assert evidence_of(reading, "cp-b").endswith("did not answer within 0.05 s")


def test_an_alarm_that_is_no_members_is_told_with_the_way_out() -> None:
    reading = RingReading(core.Ring((core.Member(5, "a", Health.GOOD),), 5), 1, (), {}, "a", NOON)
    alarms = Alarm(5, "NOSPACE"), Alarm(0xBAD, "NOSPACE"), Alarm(0, "CORRUPT")
    corrupt, full = alarms_without_member(replace(reading, alarms=alarms))
    assert corrupt == (
        "etcd refuses writes for the alarm CORRUPT, which belongs to no single member: "
        "make sure that all members hold the same data (`etcdctl endpoint hashkv --cluster`), then run `etcdctl alarm disarm`"
    )
    assert full == (
        "etcd refuses writes for the alarm NOSPACE of member bad, which is gone: "
        "make room in etcd (`etcdctl compact`, `etcdctl defrag --cluster`), then run `etcdctl alarm disarm`"
    )
    assert alarms_without_member(reading) == ()
    assert alarms_without_member(Unknown("no leader")) == ()


async def test_of_more_nodes_than_any_control_plane_has_none_is_asked() -> None:
    """One tenant may label 500 of them: to connect to each is a core's work for as long as that goes on, and nobody else is worked for."""
    ring = healthy()
    found = await read_ring(ring.lend, [f"cp-{number}" for number in range(26)], lambda: NOON)
    assert isinstance(found, Unknown)
    assert found.reason == "26 Nodes are marked as control planes, and of more than 25 none is asked for its member"
    assert "kubectl label node" in found.remedy
    assert all(member.listed == 0 for member in ring.members.values())
