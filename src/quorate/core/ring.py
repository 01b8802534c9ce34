"""The etcd ring: who votes, who is well, and what it could still lose.

Every decision about membership is a question to one projection, `Ring.after`: the ring as it would be once members are removed or added, assuming the
worst of whatever is not known yet. The answer is a `Verdict` that carries its numbers, so that whoever is told "no" can be told why.

Source: etcd's quorum rule (voters // 2 + 1) and its default of one learner at a time; the worst case for a joining member is Cluster API's.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from quorate.core.health import Absent, Health, Unknown


@dataclass(frozen=True, slots=True)
class Member:
    """One member as a linearizable member list and its own status tell it.

    A member that never started has no name yet. Unless etcd itself calls it a learner it counts in the quorum all the same, and counts as failed.
    """

    id: int
    name: str
    health: Health
    learner: bool = False
    peer_urls: tuple[str, ...] = ()  # Cluster API's in-memory provider reports none
    evidence: str = ""  # why its health is what it is, for a reader
    only_alarmed: bool = False  # not GOOD for nothing else than an alarm: it answers, follows the leader and votes
    version: str = ""  # of its etcd, such as 3.6.5; empty: it did not answer, or did not say (Cluster API's in-memory provider)

    @property
    def label(self) -> str:
        """How a reader finds it: its name, or its id in hexadecimal as etcdctl prints it."""
        return self.name or f"{self.id:x} (never started)"

    @property
    def started(self) -> bool:
        """Whether it has ever started: it gives itself its name then."""
        return bool(self.name)

    @property
    def votes(self) -> bool:
        """Whether it has started and is no learner: it has the data, and may lead."""
        return self.started and not self.learner

    @property
    def votes_well(self) -> bool:
        """Whether it votes and is known to be well."""
        return self.votes and self.health is Health.GOOD

    @property
    def takes_part(self) -> bool:
        """Whether it may take part in a change of membership: it votes, and is not known to be silent. See `Ring.commits`."""
        return self.votes and (self.health is not Health.BAD or self.only_alarmed)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a ring has its quorum, and by how much."""

    voters: int
    good: int

    @property
    def quorum(self) -> int:
        """How many voters must agree."""
        return self.voters // 2 + 1

    @property
    def margin(self) -> int:
        """How many more voters may fail; below zero, how many are missing."""
        return self.good - self.quorum

    def __bool__(self) -> bool:
        return self.margin >= 0

    @property
    def reach(self) -> str:
        """The margin in words: `tolerates 1`, `2 short of quorum`."""
        return f"tolerates {self.margin}" if self else f"{-self.margin} short of quorum"

    def __str__(self) -> str:
        return f"{self.good} of {self.voters} voters healthy, quorum {self.quorum}: {self.reach}{' more' if self else ''}"


@dataclass(frozen=True, slots=True)
class Ring:
    """The members at one moment. Build it only from a linearizable read."""

    members: tuple[Member, ...]
    leader: int | None  # member id, if one was known to the member asked

    @property
    def now(self) -> Verdict:
        """The verdict today."""
        return self.after()

    @property
    def commits(self) -> Verdict:
        """Whether etcd can commit a change of membership now: of the voters, at most so many take part in it. All but those known not to.

        The ring was read linearizably, so a majority took part in that. Where those that answer are fewer, some that nobody could ask made it up: a voter on
        whose Machine kubeadm died after the promotion votes, and there is no Node on which to ask it. What is left to doubt is a voter known to be silent.
        A change that fails to find a majority after all is refused by etcd, and nothing is lost; `after` counts on nobody who is not known to be well.

        Those with nothing but an alarm take part. NOSPACE and CORRUPT refuse puts, transactions and leases where they are applied; a change of membership
        never comes that way, and the check that etcd makes before one asks who is started and connected, not who raised an alarm.
        Source: etcd 3.6, server/etcdserver: applyConfChange and mayRemoveMember in server.go, apply/apply.go (applierV3Capped), apply/corrupt.go.
        """
        voters = self.voters
        return Verdict(voters=len(voters), good=sum(member.takes_part for member in voters))

    @property
    def voters(self) -> tuple[Member, ...]:
        """Who counts in the quorum: all but learners."""
        return tuple(member for member in self.members if not member.learner)

    @property
    def learners(self) -> tuple[Member, ...]:
        """Members that do not vote yet."""
        return tuple(member for member in self.members if member.learner)

    @property
    def unsettled(self) -> tuple[Member, ...]:
        """Learners and members that never started: until they vote, or are gone, nobody may join."""
        return tuple(member for member in self.members if not member.votes)

    @property
    def successors(self) -> tuple[Member, ...]:
        """Who may lead next: all that vote but the leader, the well ones first, then by name, so that a plan can say it beforehand."""
        others = (member for member in self.members if member.votes and member.id != self.leader)
        return tuple(sorted(others, key=lambda member: (not member.votes_well, member.name, member.id)))

    @property
    def successor(self) -> Member | None:
        """Who leads next where nothing else counts: the first of those that may, if it is well."""
        return next((member for member in self.successors if member.votes_well), None)

    def member(self, member_id: int) -> Member | None:
        """The member with this id."""
        return next((member for member in self.members if member.id == member_id), None)

    def role(self, member: Member) -> str:
        """What a member is: learner, leader or voter."""
        return "learner" if member.learner else "leader" if member.id == self.leader else "voter"

    def after(self, *, removing: Collection[int] = (), adding: int = 0) -> Verdict:
        """The verdict once the members `removing` (by id) are gone and `adding` voters have joined.

        A joining voter counts as failed until it has proved itself, except in a ring of at most one member: it could otherwise never grow.
        """
        voters = [member for member in self.voters if member.id not in removing]
        good = sum(member.votes_well for member in voters)
        if len(self.members) <= 1:
            good += adding
        return Verdict(voters=len(voters) + adding, good=good)

    @property
    def bearing_a_failed_member(self) -> Verdict:
        """The verdict once one more voter has joined that was lost at once."""
        return Verdict(voters=self.now.voters + 1, good=self.now.good)

    def losing(self, member_ids: Collection[int]) -> Ring:
        """The ring as it will be once these members have failed and are members still."""
        members = tuple(
            replace(member, health=Health.BAD, only_alarmed=False) if member.id in member_ids else member for member in self.members
        )
        return Ring(members, self.leader)

    def without(self, member_id: int) -> Verdict:
        """The verdict while one member is down for a restart or an upgrade but stays a member."""
        voters = self.voters
        return Verdict(voters=len(voters), good=sum(member.votes_well and member.id != member_id for member in voters))


def verdict(ring: Ring | Unknown | Absent) -> Verdict | None:
    """The verdict of a ring that may not be known; None where there is none."""
    return ring.now if isinstance(ring, Ring) and ring.members else None


def in_words(ring: Ring | Unknown | Absent) -> str:
    """That verdict with its numbers, or why there is none."""
    match ring:
        case Absent():
            return "there is none yet"
        case Unknown(reason):
            return f"unknown: {reason}"
    return str(ring.now) if ring.members else "unknown: etcd listed no members"
