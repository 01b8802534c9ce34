"""Which members leave the ring: those whose data or host is lost, at once; those of hosts removed from the manifest, after their replacements have joined.

A member is called dead only after three probes, at least 5 s apart, that all found it silent. One leaves at a time, after a quorum check (S1, S5).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from quorate.core.checks import Check, failed, passed, unknown
from quorate.core.health import Absent, Health, Unknown
from quorate.core.hosts.gates import removal
from quorate.core.hosts.rules.departures import as_many_as_said
from quorate.core.hosts.rules.facts import data_lost, holds_the_data, member_of, missed_probes_of, names
from quorate.core.hosts.rules.guard import BUT_START
from quorate.core.hosts.rules.snapshot import after_a_snapshot
from quorate.core.hosts.state import Cluster, Host, Kind, MissedProbes, OrphanMember
from quorate.core.hosts.steps import RemoveMember, Step
from quorate.core.proposal import NOTHING, Proposal, blocking
from quorate.core.ring import Member, Ring

PROBES = 3
"""That must have found a member silent, before it is called dead."""
PROBE_INTERVAL = timedelta(seconds=5)
"""At least so much lies between two probes that count: together longer than an etcd election or the restart of a static Pod takes."""

PROMOTED_WITHIN = timedelta(minutes=3)
"""A learner that is joining becomes a voter by then: kubeadm tries it for 2 minutes after it has written etcd's manifest (1.34, MemberPromote).

Source: kubeadm 1.34 and 1.35, cmd/kubeadm/app/util/etcd/etcd.go; the default of timeouts.etcdAPICall.
"""

AGREEMENT = "the etcd members agree about who they are"
SILENT = "the member is dead: three probes found it silent"
LOST = "the member's data is lost"
NEVER_VOTED = "the member never became a voter"
GIVEN_UP = "nothing will make the member a voter"
NEVER_A_NODE = "the member's host never became a Node"
NOT_IN_MANIFEST = "the member belongs to no host of the manifest"
REPLACED_FIRST = "every control plane host of the manifest has joined"


@dataclass(frozen=True, slots=True)
class _Leaver:
    """One member that should leave, whose it is or was, and what must be true of it beside the gate."""

    member: Member
    owner: str
    reasons: tuple[Check, ...]
    wake_at: datetime | None = None


def members_agree(cluster: Cluster, _now: datetime) -> Proposal[Step]:
    """Every member must list the same members of the same cluster. If they differ, no list can be trusted, and quorate changes nothing."""
    if not cluster.membership_problem:
        return NOTHING
    remedy = "Find the members that left or were restored apart from the others, and stop their hosts' etcd for good."
    return blocking(BUT_START, failed(AGREEMENT, cluster.membership_problem, remedy))


def remove_the_lost(cluster: Cluster, now: datetime) -> Proposal[Step]:
    """Removes members that died, lost their data or never became voters, if the ring can do without them: each costs a vote, or keeps others from joining.

    Those that never became voters go first. A member of a host that is in the manifest and cannot be reached stays: the host may come back with its data.
    """
    if not cluster.stands or not isinstance(cluster.ring, Ring):
        return NOTHING
    leavers = [*_lost_orphans(cluster, now), *_lost_of_hosts(cluster, now)]
    return _first_permitted(cluster, sorted(leavers, key=lambda leaver: (leaver.member.votes, _order(cluster, leaver))))


def remove_the_surplus(cluster: Cluster, _now: datetime) -> Proposal[Step]:
    """Removes members that are not known to be unhealthy and whose hosts left the manifest, after all new hosts have joined;
    before that, only those whose name a new host needs.
    """
    if not cluster.stands or not isinstance(cluster.ring, Ring):
        return NOTHING
    missing = [host for host in cluster.control_planes if member_of(cluster, host) is None or _has_no_node(host)]
    leavers = [
        _Leaver(
            orphan.member,
            orphan.member.name,
            (_matches_no_host(cluster, orphan.member), as_many_as_said(cluster), _replaced(missing, orphan.member)),
        )
        for orphan in cluster.orphans
        if _leaves_in_turn(orphan)
    ]
    return _first_permitted(cluster, sorted(leavers, key=lambda leaver: _order(cluster, leaver)))


def _has_no_node(host: Host) -> bool:
    """Its join was cut short, or somebody deleted its Node: whether its kubelet works is not known, and nobody leaves for it."""
    return host.kind is Kind.BROKEN and isinstance(host.node, Absent)


def blocks_the_name(cluster: Cluster, host: Host) -> bool:
    """Whether another machine still has the name that this host is to get, in the ring or the API: kubeadm refuses to join beside its Node."""
    return host.name in cluster.lost_nodes or any(orphan.member.name == host.name for orphan in cluster.orphans)


def _order(cluster: Cluster, leaver: _Leaver) -> tuple[bool, str, int]:
    """By name, so that the same hosts leave in the same order whatever ids etcd gave them; who leads comes last, so that leadership moves once."""
    leads = isinstance(cluster.ring, Ring) and cluster.ring.leader == leaver.member.id
    return leads, leaver.member.name, leaver.member.id


def _first_permitted(cluster: Cluster, leavers: list[_Leaver]) -> Proposal[Step]:
    checks: tuple[Check, ...] = ()
    wake: list[datetime] = []
    for leaver in leavers:
        member = leaver.member.id
        asked = (*leaver.reasons, holds_the_data(cluster, apart_from=member), removal(cluster.ring, member))
        if all(check.passed for check in asked):
            return after_a_snapshot(cluster, Proposal(RemoveMember(member, leaver.owner), (*checks, *asked)))
        checks += asked
        wake += [leaver.wake_at] if leaver.wake_at else []
    return Proposal(checks=checks, wake_at=min(wake, default=None))


def _lost_orphans(cluster: Cluster, now: datetime) -> Iterator[_Leaver]:
    for orphan in cluster.orphans:
        if _leaves_in_turn(orphan):
            continue
        reasons = [_matches_no_host(cluster, orphan.member)]
        dead = orphan.missed_probes is not None or not orphan.member.started  # one that never started has nothing that could answer
        wake = _next_probe(orphan.missed_probes, now) if dead else None
        reasons += [_dead(orphan.member, orphan.missed_probes)] if dead else []
        if orphan.member.votes:
            reasons.append(as_many_as_said(cluster))
        elif orphan.missed_probes is None or not orphan.member.started:
            reasons.append(_given_up(orphan))
            wake = wake or _given_up_at(orphan, now)
        yield _Leaver(orphan.member, orphan.member.name, tuple(reasons), wake)


def _lost_of_hosts(cluster: Cluster, now: datetime) -> Iterator[_Leaver]:
    for host in cluster.control_planes:
        member = member_of(cluster, host)
        if member is None:
            continue
        unsettled = not member.votes
        missed_probes = missed_probes_of(cluster, member.id)
        if data_lost(host) and host.kind is not Kind.MEMBER:  # a host that has everything else contradicts it: somebody has to look
            answers = member.health is Health.GOOD  # it runs on what it still has in memory, and cannot start again
            dead = () if answers else (_dead(member, missed_probes),)
            wake = None if answers else _next_probe(missed_probes, now)
            if host.just_booted and not host.is_wiped:
                yield _Leaver(member, host.name, (_not_mounted(host), *dead), wake or now + PROBE_INTERVAL)
            else:
                yield _Leaver(member, host.name, (passed(LOST, _lost(host)), *dead), wake)
        elif host.has_joined_half:
            yield _Leaver(
                member, host.name, (passed(NEVER_A_NODE, f"the join of {host.name} was cut short when {member.label} had become a voter"),)
            )
        elif unsettled and host.kind is Kind.HALF_JOINED:
            yield _Leaver(member, host.name, (passed(NEVER_VOTED, f"{member.label}: the join of {host.name} was cut short"),))
        elif unsettled and host.kind is Kind.UNREACHABLE:
            yield _Leaver(member, host.name, (_dead(member, missed_probes),), _next_probe(missed_probes, now))


def _lost(host: Host) -> str:
    if host.is_wiped:
        return f"nothing of the cluster is left on {host.name}"
    return f"the data folder of {host.name} is empty, was begun anew, or is without its log"


def _not_mounted(host: Host) -> Check:
    return unknown(LOST, f"{_lost(host)}, but it was switched on a moment ago: the disk with the data may not be mounted yet")


def _leaves_in_turn(orphan: OrphanMember) -> bool:
    """Whether it votes, answers, and is not known to be ill: one answer that came late, or not, makes the loss of a vote no smaller."""
    return orphan.missed_probes is None and orphan.member.votes and orphan.member.health is not Health.BAD


def _matches_no_host(cluster: Cluster, member: Member) -> Check:
    """As long as it is not known which member is a host's, this one may be."""
    unmatched = [host for host in cluster.control_planes if isinstance(host.member, Unknown)]
    if unmatched:
        evidence = f"member {member.label} may be that of {names(unmatched)}, of which no member is known"
        return unknown(NOT_IN_MANIFEST, evidence, f"Bring {names(unmatched)} back, or remove it from the manifest.")
    return passed(NOT_IN_MANIFEST, f"{member.label} fits none of them")


def _replaced(missing: list[Host], member: Member) -> Check:
    """Those that join first make good for the one that goes, so that the ring tolerates as many failures at every moment."""
    waiting = [host for host in missing if host.name != member.name]
    if any(host.name == member.name for host in missing):
        return passed(REPLACED_FIRST, f"exempt: {member.name} is the name of a host that is to join, so its old member goes first")
    if not waiting:
        return passed(REPLACED_FIRST, "all of them are in the ring")
    states = ", ".join(f"{host.name} ({host.kind.value})" for host in waiting)
    remedy = "Let them join, or remove them from the manifest."
    return failed(REPLACED_FIRST, f"{member.label} stays until these have joined: {states}", remedy)


def _given_up(orphan: OrphanMember) -> Check:
    """Whoever lets a machine join by hand, or with another manifest, adds its member first."""
    seen, label = orphan.without_vote_for, orphan.member.label
    evidence = f"{label} has had no vote for {seen.total_seconds():.0f} s of {PROMOTED_WITHIN.total_seconds():.0f}"
    return passed(GIVEN_UP, evidence) if seen >= PROMOTED_WITHIN else failed(GIVEN_UP, evidence)


def _given_up_at(orphan: OrphanMember, now: datetime) -> datetime | None:
    """When a learner that has no vote by then has been given up; None: it has been already."""
    return now + PROMOTED_WITHIN - orphan.without_vote_for if orphan.without_vote_for < PROMOTED_WITHIN else None


def _dead(member: Member, missed_probes: MissedProbes | None) -> Check:
    if missed_probes is None:
        return failed(SILENT, f"{member.label} is not known to be silent: {member.evidence or member.health.value}")
    evidence = f"{member.label} was silent for {missed_probes.count} of {PROBES} probes, last at {missed_probes.last:%H:%M:%S}"
    return passed(SILENT, evidence) if missed_probes.count >= PROBES else failed(SILENT, evidence)


def _next_probe(missed_probes: MissedProbes | None, now: datetime) -> datetime | None:
    """When the next probe counts; None: enough were made."""
    if missed_probes is None:
        return now + PROBE_INTERVAL
    return max(missed_probes.last + PROBE_INTERVAL, now) if missed_probes.count < PROBES else None
