"""Small worlds for the exhaustive check: a control plane is a row of seats (a replica, its etcd member, or both) and what is asked of it.

A seat is a state of its member (voter, learner, never started, none; healthy, unhealthy, unknown, with an alarm) and a role of its replica (stays, waits at our
hook, vanishes, is an orphan, is marked unhealthy, differs from the specification, ...). Rows that are permutations of each other are one row; that this loses
nothing is a property test of its own (`test_permutation.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import combinations_with_replacement
from types import MappingProxyType
from typing import Any

from quorate.core.health import Absent, Finding, Health, Unknown
from quorate.core.machines.state import Answer, ControlPlane, Desired, InPlace, Orphan, Remediation, Replica, Update
from quorate.core.ring import Member, Ring
from quorate.core.versions import Version

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
VERSION = Version.parse("v1.34.4")
COMPONENTS = ("APIServerPodHealthy", "ControllerManagerPodHealthy", "SchedulerPodHealthy", "EtcdPodHealthy")
MOST = 6  # seats: five and a surge


@dataclass(frozen=True, slots=True)
class State:
    """What etcd says of the member of one seat, and what its node's components look like; `listed` is False where there is no member."""

    health: Health
    components: Health
    learner: bool = False
    started: bool = True
    listed: bool = True
    only_alarmed: bool = False


STATES: Mapping[str, State] = MappingProxyType(
    {
        "good": State(Health.GOOD, Health.GOOD),
        "down": State(Health.BAD, Health.BAD),
        "alarm": State(Health.BAD, Health.GOOD, only_alarmed=True),  # it serves and votes, and nobody may lean on it
        "unseen": State(Health.UNKNOWN, Health.UNKNOWN),
        "learner": State(Health.GOOD, Health.GOOD, learner=True),
        "ill learner": State(Health.BAD, Health.BAD, learner=True),
        "unstarted": State(Health.GOOD, Health.BAD, started=False),  # it may look well: it must not be believed
        "none": State(Health.UNKNOWN, Health.UNKNOWN, listed=False),
    }
)

_LEAVES: dict[str, Any] = {"deleting_since": NOW - timedelta(minutes=5)}
_AT_HOOK: dict[str, Any] = {**_LEAVES, "waits_at_hook": True}
_NO_NODE: dict[str, Any] = {"node": None, "component_findings": (), "member_findings": ()}
_NODE_DELETED: dict[str, Any] = {**_NO_NODE, "had_node": True}
_ILL: dict[str, Any] = {"component_findings": tuple((name, Finding(Health.BAD, "Seen", "is bad")) for name in COMPONENTS)}
_JUST_MADE: dict[str, Any] = {"created": NOW - timedelta(minutes=1)}
_OLD: dict[str, Any] = {"outdated": ("Version",), "version": "v1.33.7"}
_UNMATCHED: dict[str, Any] = {
    "member": Unknown("two members could be its own"),
    "member_findings": (("EtcdMemberHealthy", Finding(Health.UNKNOWN, "InspectionFailed", "two members could be its own")),),
}
_MARKED: dict[str, Any] = {"unhealthy": True}
_UPDATED: dict[str, Any] = {"update": Update("mark", started=True)}

ROLES: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "stays": {},
        "at the hook": _AT_HOOK,
        "on its way to the hook": _LEAVES,
        "at the hook, its Node deleted": {**_AT_HOOK, **_NODE_DELETED},
        "at the hook, just made": {**_AT_HOOK, **_NO_NODE, **_JUST_MADE, "joins_until": NOW + timedelta(minutes=5)},
        "behind other hooks": {**_AT_HOOK, "other_hooks": ("theirs",)},
        "vanishing": {**_LEAVES, "holds_hook": False},
        "marked": _MARKED,
        "marked, without Node": {**_NO_NODE, **_MARKED},
        "marked, its Node deleted": {**_NODE_DELETED, **_MARKED},
        "marked, at the hook": {**_AT_HOOK, **_MARKED},
        "marked, a replacement itself": {**_MARKED, "replaces": Remediation("gone", NOW - timedelta(minutes=10), 1)},
        "marked, its record unreadable": {**_MARKED, "record_problem": "not JSON"},
        "marked, without our hook": {**_MARKED, "holds_hook": False},
        "marked first": {**_MARKED, "remediate_first": True},
        "without Node": _NO_NODE,
        "ill": _ILL,
        "without our hook": {"holds_hook": False},
        "just made": _JUST_MADE,
        "just made, with a Node": {**_JUST_MADE, "node": "new", **_ILL},
        "unmatched": _UNMATCHED,
        "unmatched, at the hook": {**_AT_HOOK, **_UNMATCHED},
        "unmatched, marked": {**_MARKED, **_UNMATCHED},
        "unmatched, vanishing": {**_LEAVES, "holds_hook": False, **_UNMATCHED},
        "delete first": {"delete_first": True},
        "old": _OLD,
        "old, ill": {**_OLD, **_ILL},
        "old, without Node": {**_OLD, **_NO_NODE},
        "old, marked": {**_OLD, **_MARKED},
        "old, delete first": {**_OLD, "delete_first": True},
        "old, at the hook": {**_OLD, **_AT_HOOK},
        "old, vanishing": {**_OLD, **_LEAVES, "holds_hook": False},
        "old, updatable": {**_OLD, "in_place": InPlace(Answer.YES, "ext")},
        "old, its extension unasked": {**_OLD, "in_place": InPlace(Answer.UNASKED, "ext")},
        "old, its extension silent": {**_OLD, "in_place": InPlace(Answer.UNKNOWN, "ext", "no answer", "Bring it up.")},
        "being updated": _UPDATED,
        "being updated, at the hook": {**_UPDATED, **_AT_HOOK},
        "being updated, marked": {**_UPDATED, **_MARKED},
        "an update begun": {"update": Update("mark", started=False), "in_place": InPlace(Answer.YES, "ext")},
        "an update begun, not wanted any more": {
            **_OLD,
            "update": Update("mark", started=False),
            "in_place": InPlace(Answer.NO, "ext", "left over"),
        },
    }
)
ORPHAN, YOUNG_ORPHAN = "orphan", "orphan, just seen"
HOUSED: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "orphan, on a Node": {"node_ready": True},
        "orphan, on a Node that is not ready": {},
        "orphan, on a Node, its removal asked for": {"node_ready": True, "consented": True},
    }
)
"""Roles of members that run on a control-plane Node of no replica, with what is known of them."""
ORPHANS = (ORPHAN, YOUNG_ORPHAN, *HOUSED)
UNMATCHED = tuple(role for role in ROLES if role.startswith("unmatched"))
UPDATES = tuple(role for role in ROLES if "updat" in role or "extension" in role)
IN_FLIGHT = ("at the hook", "on its way to the hook", "vanishing", ORPHAN, "marked", "old", "without Node")
"""The roles of which two may be there at once; the others are tried one at a time."""

Seat = tuple[str, str]
"""A state of STATES and a role of ROLES or ORPHANS."""


@dataclass(frozen=True, slots=True)
class World:
    """One row of seats and what is asked of it. As text: what a reader needs to build it again."""

    seats: tuple[Seat, ...]
    desired: int
    max_surge: int = 1
    leader: int | None = 0  # which seat leads; None: nobody is known to
    changes: Mapping[str, Any] = field(default_factory=dict)  # to the fields of the ControlPlane
    wanted: Mapping[str, Any] = field(default_factory=dict)  # to the fields of Desired

    def __str__(self) -> str:
        row = ", ".join(f"{state} {role}" for state, role in self.seats) or "no replica"
        extra = "".join(f", {name}={value!r}" for name, value in {**self.changes, **self.wanted}.items())
        return f"[{row}] desired {self.desired}, maxSurge {self.max_surge}, leader {self.leader}{extra}"

    def control_plane(self) -> ControlPlane:
        """The view that `decide` is asked about, as whoever observes would put it together: who has no Node is unmatched while some member is nobody's."""
        rows = [(number, *seat) for number, seat in enumerate(self.seats, start=1)]
        members = tuple(_member(number, state) for number, state, _ in rows if STATES[state].listed)
        leader = None if self.leader is None or self.leader >= len(rows) else self.leader + 1
        orphans = any(role in ORPHANS for *_, role in rows)
        desired = _desired(self.desired, self.max_surge)
        fields: dict[str, Any] = {
            "name": "kcp",
            "desired": replace(desired, **self.wanted) if self.wanted else desired,
            "replicas": tuple(_replica(number, state, role, orphans) for number, state, role in rows if role not in ORPHANS),
            "ring": Ring(members, leader),
            "initialized": True,
            "workload": _CONNECTED,
            "endpoint": "10.0.0.1:6443",
            "orphans": tuple(_orphan(number, state, role) for number, state, role in rows if role in ORPHANS or role in UNMATCHED),
        }
        if "ring" in self.changes:
            fields |= {"orphans": (), "replicas": _seen_with(self.changes["ring"], fields["replicas"])}
        return ControlPlane(**{**fields, **self.changes})  # at once: a copy for each change took 15% of the time of a judgement


_CONNECTED = Finding(Health.GOOD, "Connected", "answers")


def _seen_with(ring: Ring | Unknown, replicas: tuple[Replica, ...]) -> tuple[Replica, ...]:
    """Nobody's member is in a ring that is not known, or has none."""
    member = ring if isinstance(ring, Unknown) else Absent()
    finding = ("EtcdMemberHealthy", Finding(Health.UNKNOWN if isinstance(ring, Unknown) else Health.BAD, "InspectionFailed", "no ring"))
    return tuple(replace(replica, member=member, member_findings=(finding,)) for replica in replicas)


@cache
def _desired(replicas: int, max_surge: int) -> Desired:
    return Desired(replicas, VERSION, max_surge)


@cache
def _member(number: int, state: str) -> Member:
    kind = STATES[state]
    return Member(
        number, f"cp-{number}" if kind.started else "", kind.health, learner=kind.learner, evidence=state, only_alarmed=kind.only_alarmed
    )


@cache
def _orphan(number: int, state: str, role: str) -> Orphan:
    """A member of nobody, or one of those that an unmatched replica cannot be told from."""
    old = 15 if number % 2 else 30  # minutes: the second is long enough for one that never started, too
    age = timedelta(minutes=0 if role == YOUNG_ORPHAN else old)
    orphan = Orphan(_member(number, state), NOW - age, may_be_of=(f"cp-{number}",) if role in UNMATCHED else ())
    return replace(orphan, node=f"node-{number}", **HOUSED[role]) if role in HOUSED else orphan


@cache
def _replica(number: int, state: str, role: str, orphans: bool) -> Replica:
    """The lower its number, the older it is. `orphans`: whether some member is an orphan, which may then be that of one without a Node."""
    kind = STATES[state]
    node = f"cp-{number}" if kind.listed else None
    votes = kind.listed and kind.started and not kind.learner
    member_health = kind.health if votes else Health.BAD
    value = Replica(
        name=f"cp-{number}",
        version=str(VERSION),
        created=NOW - timedelta(hours=10 - number),
        member=number if kind.listed else Unknown("an orphan may be its own") if orphans else Absent(),
        node=node,
        component_findings=tuple((name, Finding(kind.components, "Seen", kind.components.value)) for name in COMPONENTS) if node else (),
        member_findings=(("EtcdMemberHealthy", Finding(member_health, "Seen", state)),) if node else (),
    )
    return replace(value, **ROLES[role])


def fits(seat: Seat) -> bool:
    """Whether there is such a seat: an orphan is a member, and who has none cannot be unmatched."""
    state, role = seat
    return state != "none" or (role not in ORPHANS and role not in UNMATCHED)


def targets(seats: int) -> Iterator[tuple[int, int]]:
    """What may be asked of so many seats, as replicas and maxSurge: fewer, as many, more, with and without a surge.

    Managed etcd takes odd numbers only. Without a surge nothing is special about more seats than are desired but at four and fewer.
    """
    for desired in (1, 3, 5):
        if seats - 2 <= desired <= seats + 2:
            yield from ((desired, surge) for surge in (1, 0) if surge or seats < 5 or seats == desired)


def rows(states: tuple[str, ...], special: int, roles: tuple[str, ...], others: str = "stays") -> Iterator[tuple[Seat, ...]]:
    """Every row of at most MOST seats, up to permutation, of which `special` have one of `roles` and all others the role `others`."""
    seats = tuple(seat for state in states for role in roles if fits(seat := (state, role)))
    plain = tuple((state, others) for state in states)
    for size in range(special, MOST + 1):
        for chosen in combinations_with_replacement(seats, special):
            for rest in combinations_with_replacement(plain, size - special):
                yield chosen + rest


def worlds(states: tuple[str, ...], special: int, roles: tuple[str, ...], others: str = "stays") -> Iterator[World]:
    """Every row with everything that may be asked of it. The special seats come first: they are the oldest, and one of them leads."""
    for row in rows(states, special, roles, others):
        for desired, surge in targets(len(row)):
            yield World(row, desired, surge)
