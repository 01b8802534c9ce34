"""What the oracle holds a decision to: S1 to S6, S8 and S11 of docs/safety.md, as far as a single decision can break them.

S7 (leadership) and S10 (the read made for a removal) are about how a step is carried out; S9 is about hosts; S12 about more than one decision. Each invariant
is a function that says what is wrong with a step, or nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime

from quorate.core.health import Absent, Health, Unknown
from quorate.core.machines.state import Answer, ControlPlane, Replica
from quorate.core.machines.steps import (
    AddFinalizer,
    CreateReplica,
    DeleteReplica,
    ReleaseHook,
    Remediate,
    RemoveMember,
    RemoveOrphan,
    Step,
    UpdateInPlace,
)
from quorate.core.ring import Ring
from tests.proof.counting import (
    Going,
    commits,
    counts,
    departing,
    held,
    ids,
    is_well,
    leaving,
    lost,
    majority,
    may_be_founded,
    never_came_up,
    readable,
    serves,
    staying,
    updating,
    voters,
    who_goes,
)

NEVER = datetime.min.replace(tzinfo=UTC)  # for invariants that do not ask for the time


def s1_quorum_outlives_every_removal(plane: ControlPlane, step: Step, _now: datetime) -> Iterator[str]:
    """No member goes while the ring cannot commit that, nor one without which too few are left; and none of whom that cannot be told."""
    if not counts(plane) or not isinstance(step, Going | RemoveOrphan):
        return
    if not readable(plane):
        yield "the ring is not known"
        return
    ways = departing(plane, step)
    if not ways:
        yield "which member goes is not known"
    for members in ways:
        if members and not commits(plane):
            yield "the ring cannot commit the removal"
        if members and not majority(plane, without=members):
            yield "too few are left"


def s1_two_that_go_leave_enough(plane: ControlPlane, step: Step, _now: datetime) -> Iterator[str]:
    """A remediation begins beside replicas that leave only if the others can do without all of them; or if none of those can leave before it is done."""
    others = leaving(plane)
    if not may_be_founded(plane) or not isinstance(step, Remediate) or not others:
        return
    if not any(_could_leave(plane, other) for other in others):
        return
    goes = plane.replica(step.replica)
    if not never_came_up(plane, goes) and not [r for r in staying(plane) if r is not goes and serves(r)]:
        yield "nobody who stays would serve"
    if not counts(plane) or not readable(plane):
        return
    members = frozenset(r.member for r in (goes, *others) if isinstance(r.member, int))
    if any(isinstance(r.member, Unknown) for r in (goes, *others)):
        members |= ids(plane) - {r.member for r in plane.replicas if isinstance(r.member, int)}
    if not majority(plane, without=members & ids(plane)):
        yield "too few are left without all of them"


def _could_leave(plane: ControlPlane, replica: Replica) -> bool:
    """Whether nothing that is known would hold this one at our hook once it arrives there. What is not known may turn out well at any moment."""
    step = RemoveMember(replica.name, replica.member if isinstance(replica.member, int) else 0)
    others = [r for r in held(plane) if r is not replica]
    if not others or any(another_serves(plane, step, NEVER)):
        return False
    if not counts(plane) or not readable(plane) or isinstance(replica.member, Absent):
        return True
    votes = voters(plane) - {replica.member}
    if not any(isinstance(r.member, Unknown) or r.member in votes for r in others):
        return False
    return isinstance(replica.member, Unknown) or not any(s1_quorum_outlives_every_removal(plane, step, NEVER))


def s1_quorum_outlives_an_addition(plane: ControlPlane, step: Step, _now: datetime) -> Iterator[str]:
    """Nobody joins where the newcomer could cost the quorum by never answering. A ring of one has to take that risk, or could never grow."""
    if not counts(plane) or not isinstance(step, CreateReplica) or step.initialize:
        return
    if not readable(plane):
        yield "the ring is not known"
        return
    if not commits(plane):
        yield "the ring cannot commit the addition"
    elif not majority(plane, newcomers=1 if len(ids(plane)) > 1 else 0):
        yield "a newcomer that never answers would cost the quorum"


def s1_a_join_under_way_is_waited_for(plane: ControlPlane, step: Step, now: datetime) -> Iterator[str]:
    """Nobody is let go on whose host kubeadm may be joining, where the vote of a member that goes with its host would cost the quorum."""
    if not counts(plane) or not isinstance(step, ReleaseHook) or not readable(plane):
        return
    goes = plane.replica(step.replica)
    joins = goes.joins_until is not None and now < goes.joins_until and goes.node is None and isinstance(goes.member, Absent)
    if joins and not majority(plane, newcomers=1):
        yield "its member may come to vote when its host is about to go, and too few would be left"


def s1_quorum_outlives_an_update(plane: ControlPlane, step: Step, _now: datetime) -> Iterator[str]:
    """Nobody is updated in place unless the others have a majority while its member is down; and none whose member cannot be told."""
    if not counts(plane) or not isinstance(step, UpdateInPlace):
        return
    member = plane.replica(step.replica).member
    if not readable(plane) or not isinstance(member, int) or member not in ids(plane):
        yield "which member will be down is not known"
    elif not majority(plane, down=frozenset({member})):
        yield "too few are left while it is down"


def s1_nobody_well_leaves_beside_an_update(plane: ControlPlane, step: Step, _now: datetime) -> Iterator[str]:
    """A voter that is well leaves beside one that is updated in place only where a majority is left while that restarts."""
    if not counts(plane) or not readable(plane) or not isinstance(step, Going) or isinstance(plane.ring, Unknown):
        return
    goes = plane.replica(step.replica)
    down = frozenset(r.member for r in updating(plane) if r is not goes and isinstance(r.member, int))
    well = [
        m
        for m in plane.ring.members
        if m.id == goes.member and m.id in voters(plane) and m.health is Health.GOOD and m.id not in lost(plane)
    ]
    if down and well and not majority(plane, without=frozenset({well[0].id}), down=down):
        yield "too few are left while another restarts"


def s2_one_joins_at_a_time(plane: ControlPlane, step: Step, _now: datetime) -> Iterator[str]:
    """Nobody is made to join beside a learner, or beside a member that never started."""
    if counts(plane) and isinstance(step, CreateReplica) and not isinstance(plane.ring, Unknown):
        yield from (f"member {m.id} has not joined yet" for m in plane.ring.members if m.learner or not m.name)


def s3_founded_once(plane: ControlPlane, step: Step, _now: datetime) -> Iterator[str]:
    """`kubeadm init` runs for the first replica of a cluster that never was, and for no other."""
    if isinstance(step, CreateReplica) and step.initialize and (may_be_founded(plane) or plane.replicas):
        yield "the cluster was founded before, or somebody is founding it"
    if isinstance(step, CreateReplica) and not step.initialize and plane.initialized is not True:
        yield "there is no cluster to join"


def s4_the_last_holder_of_data_stays(plane: ControlPlane, step: Step, _now: datetime) -> Iterator[str]:
    """Whoever goes, another replica holds its place; and whichever member goes, another replica's votes, and somebody who answers has the data."""
    if not may_be_founded(plane) or not isinstance(step, Going | RemoveOrphan):
        return
    goes = who_goes(plane, step)
    others = [r for r in held(plane) if r is not goes]
    if not others:
        yield "no other replica is there"
    if not plane.desired.etcd_managed:
        return
    if isinstance(step, ReleaseHook) and goes and not isinstance(goes.member, Absent):
        yield "it is not proven that it has no member"
    if isinstance(plane.ring, Unknown):
        yield "whether another member has the data is not known"
        return
    ways = departing(plane, step)
    if not ways and not [r for r in others if r.member in voters(plane)]:
        yield "no other replica has the data, whichever member goes"
    for members in ways:
        if members and not [r for r in others if r.member in voters(plane) - members]:
            yield "no other replica has the data"
        if members and not [m for m in plane.ring.members if m.id in voters(plane) - members - lost(plane) and m.health is Health.GOOD]:
            yield "nobody who answers has the data"


def s5_one_change_at_a_time(plane: ControlPlane, step: Step, _now: datetime) -> Iterator[str]:
    """Nothing is begun beside a replica that leaves, but a remediation that stands both; and nobody joins beside one that is still joining.

    The only replica, deleted by its user, waits for the one that comes in its stead (S6 says whether there is room). A remediation under way makes its
    replacement beside broken ones.
    """
    only = len(held(plane)) == 1
    if isinstance(step, CreateReplica) and leaving(plane) and not only:
        yield "somebody leaves"
    if isinstance(step, DeleteReplica) and leaving(plane):
        yield "somebody leaves"
    if (
        isinstance(step, CreateReplica)
        and counts(plane)
        and not plane.remediating
        and any(isinstance(r.member, Absent) for r in staying(plane))
    ):
        yield "somebody is still joining"
    if isinstance(step, UpdateInPlace) and leaving(plane):
        yield "somebody leaves"
    if isinstance(step, CreateReplica | DeleteReplica | UpdateInPlace) and updating(plane):
        yield "somebody is being updated in place"
    if isinstance(step, UpdateInPlace) and [
        r for r in staying(plane) if r.update and r.name != step.replica and r.in_place and r.in_place.answer is Answer.YES
    ]:
        begun = plane.replica(step.replica).update
        if begun is None:
            yield "the update of another was begun"
    if isinstance(step, Remediate):
        yield from _beside_another_remediation(plane, step)


def _beside_another_remediation(plane: ControlPlane, step: Remediate) -> Iterator[str]:
    """One at a time; but one that cannot end as things are may be overtaken, and so may, beside it, an intent whose replica nobody has deleted.

    It cannot end while its replica cannot leave, nor, once that is gone, while nobody can join for the very member that goes now.
    """
    done, begun = plane.remediating, plane.remediation_intended
    stuck = done and any(r.name == done.replica and not _could_leave(plane, r) for r in leaving(plane))
    gone = done and done.replica not in {r.name for r in plane.replicas}
    if done and not stuck and not (gone and _makes_room(plane, step.replica)):
        yield "the replacement of another is still to come"
    if begun and begun.replica != step.replica and not (done and begun.replica in {r.name for r in staying(plane)}):
        yield "another remediation has begun"


def _makes_room(plane: ControlPlane, name: str) -> bool:
    """Whether nobody could join beside the member of this replica, and somebody could without it."""
    member = plane.replica(name).member
    if not counts(plane) or not readable(plane) or isinstance(plane.ring, Unknown) or not isinstance(member, int):
        return False
    left = Ring(tuple(m for m in plane.ring.members if m.id != member), plane.ring.leader)
    return not _could_join(plane) and _could_join(replace(plane, ring=left))


def _could_join(plane: ControlPlane) -> bool:
    step = CreateReplica("", initialize=False)
    return not any((*s1_quorum_outlives_an_addition(plane, step, NEVER), *s2_one_joins_at_a_time(plane, step, NEVER)))


def s6_no_more_than_desired_and_a_surge(plane: ControlPlane, step: Step, _now: datetime) -> Iterator[str]:
    """Whoever holds a place counts; without a surge, also whoever still holds infrastructure."""
    if not isinstance(step, CreateReplica):
        return
    places = held(plane) if plane.desired.max_surge else plane.replicas
    if len(places) >= plane.desired.replicas + plane.desired.max_surge:
        yield f"{len(places)} are there"


def s8_nobody_goes_without_a_reason(plane: ControlPlane, step: Step, _now: datetime) -> Iterator[str]:
    """A replica is deleted because there are too many, or in a rollout because it differs, or its owner marked it to go first, and its place is free.

    In a rollout the place is free once the surge is there; that of one that is not well is free at once, for it fills none, as is that of the very first.
    """
    if not isinstance(step, DeleteReplica) or not may_be_founded(plane):
        return
    goes = plane.replica(step.replica)
    rolling = any(r.outdated for r in staying(plane))
    if rolling and not goes.outdated and not goes.delete_first:
        yield "it is as desired, and others are not"
    full = len(held(plane)) >= plane.desired.replicas + plane.desired.max_surge
    free = full or not is_well(goes, etcd_managed=plane.desired.etcd_managed)
    if len(staying(plane)) <= plane.desired.replicas and not (rolling and free):
        yield "there are not too many"


def s8_an_update_needs_a_reason(plane: ControlPlane, step: Step, _now: datetime) -> Iterator[str]:
    """A replica is updated in place because it differs, or that was begun, and its extension can; in a rollout only where it would go otherwise."""
    if not isinstance(step, UpdateInPlace):
        return
    replica = plane.replica(step.replica)
    if not may_be_founded(plane):
        yield "nothing has come up yet"
    if replica.in_place is None or replica.in_place.answer is not Answer.YES:
        yield "no extension said that it can"
    if replica.update is None and not replica.outdated:
        yield "it is as desired"
    full = len(held(plane)) >= plane.desired.replicas + plane.desired.max_surge
    if replica.update is None and (not full or sum(not r.outdated for r in staying(plane)) >= plane.desired.replicas):
        yield "nobody would go"


def s8_a_surge_needs_a_reason(plane: ControlPlane, step: Step, _now: datetime) -> Iterator[str]:
    """More than are desired are there only in a rollout, or to save the data of the only one."""
    if not isinstance(step, CreateReplica) or len(staying(plane)) < plane.desired.replicas:
        return
    if not [r for r in staying(plane) if r.outdated]:
        yield "as many as desired stay, and none of them differs"


def s11_paused_means_paused(plane: ControlPlane, step: Step, _now: datetime) -> Iterator[str]:
    """While the control plane is paused, at most its finalizer is added."""
    if plane.paused and not isinstance(step, AddFinalizer):
        yield f"paused by {plane.paused}"


def another_serves(plane: ControlPlane, step: Step, _now: datetime) -> Iterator[str]:
    """Whoever goes, another replica with every component well is there; unless it never came up, so that nobody misses it."""
    goes = plane.replica(step.replica) if isinstance(step, UpdateInPlace) else who_goes(plane, step)
    if goes is None or not may_be_founded(plane) or never_came_up(plane, goes):
        return
    if not [r for r in held(plane) if r is not goes and serves(r)]:
        yield "no other API server is well"
