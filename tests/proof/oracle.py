"""The oracle: what one decision may and may not do, counted afresh from the raw members and replicas.

It shares no judgement with the code that it judges: nothing of `quorate.core.ring` but the shape of its data, nothing of `quorate.core.checks` and nothing of
the rules. Each invariant is a function that says what is wrong with a step, or nothing. The same invariants answer the opposite question: a control plane
that is stuck although one of the steps it wants breaks none of them is stuck needlessly.

Of docs/safety.md these are S1 to S6, S8 and S11. S7 (leadership) and S10 (the read made for a removal) are about how a step is carried out; S9 is about hosts;
S12 about more than one decision.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from quorate.core.control_plane import ControlPlane, Replica
from quorate.core.health import Absent, Health, Unknown
from quorate.core.steps import (
    AddFinalizer,
    CreateReplica,
    DeleteReplica,
    ForgetRemediation,
    RecordRemediation,
    ReleaseHook,
    Remediate,
    RemoveMember,
    RemoveStray,
    Step,
)
from quorate.core.versions import Version

STRAY_AGE = timedelta(minutes=2)  # a Machine or a Node that explains a member has appeared by then
_NEVER = datetime.min.replace(tzinfo=UTC)  # for invariants that do not ask for the time
JOINING = timedelta(minutes=10)  # kubeadm has joined a node's etcd member, or given up, by then

Touching = CreateReplica | DeleteReplica | RemoveMember | ReleaseHook | RemoveStray | Remediate
"""Steps that change who is there."""
Going = DeleteReplica | RemoveMember | ReleaseHook | Remediate
"""Steps by which a replica goes, at once or in the end."""


@dataclass(frozen=True, slots=True)
class Objection:
    """One invariant that a step breaks."""

    invariant: str
    why: str

    def __str__(self) -> str:
        return f"{self.invariant}: {self.why}"


# Counting


def lost(plane: ControlPlane) -> set[int]:
    """Members on which nobody may lean: their Machines are deleted and held by nobody."""
    return {r.member for r in plane.replicas if r.deleting_since and not r.holds_hook and isinstance(r.member, int)}


def majority(plane: ControlPlane, *, without: frozenset[int] = frozenset(), newcomers: int = 0) -> bool:
    """More than half of those that vote answer, once `without` are no members and `newcomers` vote but do not answer yet. Needs a ring."""
    assert not isinstance(plane.ring, Unknown)
    gone = lost(plane)
    votes = [m.health is Health.GOOD and m.name != "" and m.id not in gone for m in plane.ring.members if not m.learner and m.id not in without]
    return 2 * sum(votes) > len(votes) + newcomers


def held(plane: ControlPlane) -> list[Replica]:
    """Replicas that have not been let go."""
    return [r for r in plane.replicas if r.deleting_since is None or r.holds_hook]


def staying(plane: ControlPlane) -> list[Replica]:
    """Replicas that nobody deletes."""
    return [r for r in plane.replicas if r.deleting_since is None]


def leaving(plane: ControlPlane) -> list[Replica]:
    """Replicas that are being deleted and wait for us."""
    return [r for r in plane.replicas if r.deleting_since and r.holds_hook]


def serves(replica: Replica) -> bool:
    """It has a Node, and each of its components was seen and is well."""
    return replica.node is not None and bool(replica.component_findings) and all(f.health is Health.GOOD for _, f in replica.component_findings)


def is_well(replica: Replica, *, etcd_managed: bool) -> bool:
    """It serves, and so does its etcd member where that is ours."""
    return serves(replica) and (not etcd_managed or all(f.health is Health.GOOD for _, f in replica.member_findings))


def never_came_up(replica: Replica) -> bool:
    """It has no Node and, proven, no member: nobody would miss it."""
    return replica.node is None and isinstance(replica.member, Absent)


def counts(plane: ControlPlane) -> bool:
    """Whether there is etcd of ours with data in it."""
    return plane.initialized and plane.desired.etcd_managed


def readable(plane: ControlPlane) -> bool:
    """The ring was read, has members, and of everybody who may end at any moment it is known which member ends with it."""
    nameless = any(r.deleting_since and not r.holds_hook and isinstance(r.member, Unknown) for r in plane.replicas)
    return not isinstance(plane.ring, Unknown) and bool(plane.ring.members) and not nameless


def who_goes(plane: ControlPlane, step: Step) -> Replica | None:
    """The replica that the step lets go."""
    return plane.replica(step.replica) if isinstance(step, Going) else None


def departing(plane: ControlPlane, step: Step) -> list[frozenset[int]]:
    """The members that go with the step, one set for each way in which it may be: more than one where it is not known which member is the replica's.

    Empty where it is not known, and could be none of those that are nobody's; one empty set where no member goes.
    """
    goes = who_goes(plane, step)
    if isinstance(step, RemoveStray):
        return [frozenset({step.member}) & _ids(plane)]
    if goes is None or isinstance(goes.member, Absent):
        return [frozenset()]
    if isinstance(goes.member, Unknown):
        nobodys = frozenset(stray.member.id for stray in plane.strays) if isinstance(step, Remediate) else frozenset()
        matched = {r.member for r in plane.replicas if isinstance(r.member, int)}
        return [frozenset({member}) for member in nobodys] if nobodys == _ids(plane) - matched else []
    return [frozenset({goes.member}) & _ids(plane)]


def _ids(plane: ControlPlane) -> frozenset[int]:
    return frozenset() if isinstance(plane.ring, Unknown) else frozenset(m.id for m in plane.ring.members)


def _voters(plane: ControlPlane) -> frozenset[int]:
    return frozenset() if isinstance(plane.ring, Unknown) else frozenset(m.id for m in plane.ring.members if m.name and not m.learner)


# The invariants


def s1_quorum_outlives_every_removal(plane: ControlPlane, step: Step, _now: datetime) -> Iterator[str]:
    """No member goes while the ring cannot commit that, nor one without which too few are left; and none of whom that cannot be told."""
    if not counts(plane) or not isinstance(step, Going | RemoveStray):
        return
    if not readable(plane):
        yield "the ring is not known"
        return
    ways = departing(plane, step)
    if not ways:
        yield "which member goes is not known"
    for members in ways:
        if members and not majority(plane):
            yield "the ring cannot commit the removal"
        if members and not majority(plane, without=members):
            yield "too few are left"


def s1_two_that_go_leave_enough(plane: ControlPlane, step: Step, _now: datetime) -> Iterator[str]:
    """A remediation begins beside replicas that leave only if the others can do without all of them; or if none of those can leave before it is done."""
    others = leaving(plane)
    if not plane.initialized or not isinstance(step, Remediate) or not others:
        return
    if not any(_could_leave(plane, other) for other in others):
        return
    goes = plane.replica(step.replica)
    if not never_came_up(goes) and not [r for r in staying(plane) if r is not goes and serves(r)]:
        yield "nobody who stays would serve"
    if not counts(plane) or not readable(plane):
        return
    members = frozenset(r.member for r in (goes, *others) if isinstance(r.member, int))
    if any(isinstance(r.member, Unknown) for r in (goes, *others)):
        members |= _ids(plane) - {r.member for r in plane.replicas if isinstance(r.member, int)}
    if not majority(plane, without=members & _ids(plane)):
        yield "too few are left without all of them"


def _could_leave(plane: ControlPlane, replica: Replica) -> bool:
    """Whether nothing that is known would hold this one at our hook once it arrives there. What is not known may turn out well at any moment."""
    step = RemoveMember(replica.name, replica.member if isinstance(replica.member, int) else 0)
    others = [r for r in held(plane) if r is not replica]
    if not others or any(another_serves(plane, step, _NEVER)):
        return False
    if not counts(plane) or not readable(plane) or isinstance(replica.member, Absent):
        return True
    votes = _voters(plane) - {replica.member}
    if not any(isinstance(r.member, Unknown) or r.member in votes for r in others):
        return False
    return isinstance(replica.member, Unknown) or not any(s1_quorum_outlives_every_removal(plane, step, _NEVER))


def s1_quorum_outlives_an_addition(plane: ControlPlane, step: Step, _now: datetime) -> Iterator[str]:
    """Nobody joins where the newcomer could cost the quorum by never answering. A ring of one has to take that risk, or could never grow."""
    if not counts(plane) or not isinstance(step, CreateReplica) or step.initialize:
        return
    if not readable(plane):
        yield "the ring is not known"
        return
    if not majority(plane):
        yield "the ring cannot commit the addition"
    elif len(_ids(plane)) > 1 and not majority(plane, newcomers=1):
        yield "a newcomer that never answers would cost the quorum"


def s2_one_joins_at_a_time(plane: ControlPlane, step: Step, _now: datetime) -> Iterator[str]:
    """Nobody is made to join beside a learner, or beside a member that never started."""
    if counts(plane) and isinstance(step, CreateReplica) and not isinstance(plane.ring, Unknown):
        yield from (f"member {m.id} has not joined yet" for m in plane.ring.members if m.learner or not m.name)


def s3_founded_once(plane: ControlPlane, step: Step, _now: datetime) -> Iterator[str]:
    """`kubeadm init` runs for the first replica of a cluster that never was, and for no other."""
    if isinstance(step, CreateReplica) and step.initialize and (plane.initialized or plane.replicas):
        yield "the cluster was founded before, or somebody is founding it"
    if isinstance(step, CreateReplica) and not step.initialize and not plane.initialized:
        yield "there is no cluster to join"


def s4_the_last_holder_of_data_stays(plane: ControlPlane, step: Step, _now: datetime) -> Iterator[str]:
    """Whoever goes, another replica holds its place; and whichever member goes, another replica's votes, and somebody who answers has the data."""
    if not plane.initialized or not isinstance(step, Going | RemoveStray):
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
    if not ways and not [r for r in others if r.member in _voters(plane)]:
        yield "no other replica has the data, whichever member goes"
    for members in ways:
        if members and not [r for r in others if r.member in _voters(plane) - members]:
            yield "no other replica has the data"
        if members and not [m for m in plane.ring.members if m.id in _voters(plane) - members - lost(plane) and m.health is Health.GOOD]:
            yield "nobody who answers has the data"


def s5_one_change_at_a_time(plane: ControlPlane, step: Step, _now: datetime) -> Iterator[str]:
    """Nothing is begun beside a replica that leaves, but a remediation that stands both; and nobody joins beside one that is still joining.

    The only replica, deleted by its user, waits for the one that comes in its stead (S6 says whether there is room). A remediation under way makes its replacement beside broken ones.
    """
    only = len(held(plane)) == 1
    if isinstance(step, CreateReplica) and leaving(plane) and not only:
        yield "somebody leaves"
    if isinstance(step, DeleteReplica) and leaving(plane):
        yield "somebody leaves"
    if isinstance(step, CreateReplica) and counts(plane) and not plane.remediating and any(isinstance(r.member, Absent) for r in staying(plane)):
        yield "somebody is still joining"
    if isinstance(step, Remediate) and plane.remediating:
        yield "the replacement of another is still to come"
    if isinstance(step, Remediate) and plane.remediation_intended and plane.remediation_intended.replica != step.replica:
        yield "another remediation has begun"


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
    if not isinstance(step, DeleteReplica) or not plane.initialized:
        return
    goes = plane.replica(step.replica)
    rolling = any(r.outdated for r in staying(plane))
    if rolling and not goes.outdated and not goes.delete_first:
        yield "it is as desired, and others are not"
    full = len(held(plane)) >= plane.desired.replicas + plane.desired.max_surge
    free = full or not is_well(goes, etcd_managed=plane.desired.etcd_managed)
    if len(staying(plane)) <= plane.desired.replicas and not (rolling and free):
        yield "there are not too many"


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
    goes = who_goes(plane, step)
    if goes is None or not plane.initialized or never_came_up(goes):
        return
    if not [r for r in held(plane) if r is not goes and serves(r)]:
        yield "no other API server is well"


def all_others_are_well(plane: ControlPlane, step: Step, _now: datetime) -> Iterator[str]:
    """Scaling and rolling out wait until every replica that stays is well; a replacement may come beside ill ones as long as one serves."""
    if not plane.initialized or not isinstance(step, CreateReplica | DeleteReplica):
        return
    others = [r for r in staying(plane) if r is not who_goes(plane, step)]
    if isinstance(step, CreateReplica) and not others:
        others = held(plane)
    if isinstance(step, CreateReplica) and not others:
        yield "nobody is there to be joined"
    ill = [r.name for r in others if not is_well(r, etcd_managed=plane.desired.etcd_managed)]
    if isinstance(step, CreateReplica) and plane.remediating and any(serves(r) for r in others):
        return
    if ill:
        yield f"{', '.join(ill)} is not well"
    if not plane.desired.etcd_managed and plane.external_etcd and plane.external_etcd.health is not Health.GOOD:
        yield "the external etcd is not well"


def only_what_waits_at_our_hook_is_let_go(plane: ControlPlane, step: Step, _now: datetime) -> Iterator[str]:
    """A Machine is let go when it was deleted, waits at our hook and for nobody else; and none is deleted that our hook would not hold."""
    goes = who_goes(plane, step)
    if goes is None:
        return
    if not goes.holds_hook:
        yield "our hook does not hold it"
    if isinstance(step, RemoveMember | ReleaseHook):
        if not (goes.deleting_since and goes.waits_at_hook):
            yield "it does not wait at our hook"
        if goes.other_hooks:
            yield "it waits for others first"
    elif goes.deleting_since:
        yield "it is being deleted already"


def a_stray_is_nobodys(plane: ControlPlane, step: Step, now: datetime) -> Iterator[str]:
    """A member is removed as nobody's only when it has been so for a while, and nobody is on the way whose it could be.

    Whoever waits at our hook is not on the way any more; if the member could be its own, the others must be able to do without that replica as well.
    """
    if not isinstance(step, RemoveStray):
        return
    stray = next((stray for stray in plane.strays if stray.member.id == step.member), None)
    if stray is None or not counts(plane) or any(r.member == step.member for r in plane.replicas):
        yield "it is not nobody's"
        return
    if now - stray.since < STRAY_AGE:
        yield "it was seen just now"
    for owner in held(plane):
        could_be = owner.node is None or (not stray.member.name and now - owner.created < JOINING)
        if isinstance(owner.member, int) or not could_be:
            continue
        if not (owner.deleting_since and owner.waits_at_hook and not owner.other_hooks):
            yield f"it may be of {owner.name}, which is on the way"
        elif not [r for r in held(plane) if r is not owner and r.member in _voters(plane)]:
            yield f"it may be of {owner.name}, without which no other replica has the data"
        elif not never_came_up(owner) and not [r for r in held(plane) if r is not owner and serves(r)]:
            yield f"it may be of {owner.name}, without which nobody serves"


def a_remediation_has_its_reason(plane: ControlPlane, step: Step, now: datetime) -> Iterator[str]:
    """Only a replica that a health check failed, as often as its owner allows, never the only one, and not while another that nobody failed comes up."""
    if not isinstance(step, Remediate):
        return
    goes = plane.replica(step.replica)
    if not goes.unhealthy:
        yield "no health check failed it"
    if plane.remediation_problem or goes.record_problem:
        yield "its record cannot be read"
    policy, before = plane.desired.remediation, goes.replaces
    if before and before.at and now - before.at < policy.min_healthy_period:
        if now - before.at < policy.retry_period:
            yield "its predecessor failed a moment ago"
        if policy.max_retry is not None and before.retries >= policy.max_retry:
            yield "its predecessors failed too often"
    if plane.initialized and len(plane.replicas) <= 1:
        yield "it is the only one"
    if plane.initialized and [r for r in staying(plane) if r is not goes and not r.unhealthy and r.node is None]:
        yield "another is on its way"


def before_initialization_only_the_first_goes(plane: ControlPlane, step: Step, _now: datetime) -> Iterator[str]:
    """A cluster that is said not to be initialized may have forgotten that it is (a restored or moved object): who is not alone in it stays.

    And who goes for a new specification alone is younger than the record that the cluster was not initialized.
    """
    if plane.initialized or not isinstance(step, Going):
        return
    if len(plane.replicas) > 1:
        yield "it is not the only one"
    since = plane.uninitialized_since
    if isinstance(step, DeleteReplica) and (since is None or since > plane.replica(step.replica).created):
        yield "it may be older than that record"


def a_replacement_carries_its_record(plane: ControlPlane, step: Step, _now: datetime) -> Iterator[str]:
    """A remediation whose replica is gone is on record before its replacement is made, and stays so until the replacement exists or none is to come (S12)."""
    begun, done = plane.remediation_intended, plane.remediating
    gone = begun is not None and begun.replica not in {r.name for r in staying(plane)}
    if isinstance(step, CreateReplica) and gone and done is None:
        yield "the replacement would not know whose it is"
    if isinstance(step, RecordRemediation) and (not gone or done is not None):
        yield "there is nothing to record"
    if not isinstance(step, ForgetRemediation):
        return
    records = [record for record in (begun, done) if record is not None]
    made = any(r.replaces == record or record.at is None or r.created > record.at for r in plane.replicas for record in records)
    none_to_come = done is not None and len(staying(plane)) >= plane.desired.replicas
    if not made and not none_to_come and not (begun and not done and not gone and not _is_wanted(plane, begun.replica)):
        yield "its replacement is still to come"


def _is_wanted(plane: ControlPlane, replica: str) -> bool:
    others = [r for r in staying(plane) if r.unhealthy and r.name != replica]
    return plane.replica(replica).unhealthy and not others


def nothing_moves_behind_a_gate(plane: ControlPlane, step: Step, _now: datetime) -> Iterator[str]:
    """What cannot be seen, is not ours, is not valid, or is not ready, is not changed."""
    if not isinstance(step, Touching):
        return
    shut = {
        "the specification is not valid": plane.invalid or plane.unsupported,
        "others own Machines of it, or nobody does": plane.foreign or plane.adoptable,
        "there is no infrastructure": not plane.infrastructure_ready,
        "there is no endpoint": not plane.endpoint,
        "its members disagree": plane.membership_problem and counts(plane),
        "the workload cluster does not answer": plane.initialized and plane.workload.health is not Health.GOOD,
        "it is being deleted": plane.deletion,
    }
    yield from (why for why, is_shut in shut.items() if is_shut)
    if _needs_a_newcomer(plane, step) and plane.template_problem:
        yield "there is no template"
    if _needs_a_newcomer(plane, step) and plane.initialized and plane.preparation.pending:
        yield "a newcomer would read an old configuration"
    if _needs_a_newcomer(plane, step) and (plane.certificates.missing or plane.certificates.problem):
        yield "there are no certificates"
    if isinstance(step, CreateReplica | DeleteReplica | Remediate) and plane.topology_pending:
        yield "another version is about to be asked for"


def _needs_a_newcomer(plane: ControlPlane, step: Step) -> bool:
    """It makes one, or leaves fewer than desired, so that one must be made."""
    return isinstance(step, CreateReplica) or (isinstance(step, DeleteReplica) and len(staying(plane)) <= plane.desired.replicas)


def versions_stay_close(plane: ControlPlane, step: Step, _now: datetime) -> Iterator[str]:
    """A replica joins at most one minor from everybody who is there, and never below all of them; and none goes whose replacement could not join."""
    if not plane.initialized or not _needs_a_newcomer(plane, step):
        return
    target, goes = plane.desired.version, who_goes(plane, step)
    texts = [text for r in plane.replicas if r is not goes for text in (r.version, r.kubelet_version) if text]
    if any(v.major != target.major or abs(v.minor - target.minor) > 1 for v in map(Version.parse, texts)):
        yield "more than one minor lies between them"
    running = [Version.parse(r.version) for r in held(plane) if r is not goes]
    if running and all(target < v for v in running):
        yield "everybody runs something newer"


Invariant = Callable[[ControlPlane, Step, datetime], Iterator[str]]
INVARIANTS: dict[str, Invariant] = {
    function.__name__: function
    for function in (
        s1_quorum_outlives_every_removal,
        s1_two_that_go_leave_enough,
        s1_quorum_outlives_an_addition,
        s2_one_joins_at_a_time,
        s3_founded_once,
        s4_the_last_holder_of_data_stays,
        s5_one_change_at_a_time,
        s6_no_more_than_desired_and_a_surge,
        s8_nobody_goes_without_a_reason,
        s8_a_surge_needs_a_reason,
        s11_paused_means_paused,
        another_serves,
        all_others_are_well,
        only_what_waits_at_our_hook_is_let_go,
        a_stray_is_nobodys,
        a_remediation_has_its_reason,
        a_replacement_carries_its_record,
        before_initialization_only_the_first_goes,
        nothing_moves_behind_a_gate,
        versions_stay_close,
    )
}


def objections(plane: ControlPlane, step: Step | None, now: datetime) -> list[Objection]:
    """Every invariant that `step` breaks."""
    if step is None:
        return []
    return [Objection(name, why) for name, invariant in INVARIANTS.items() for why in invariant(plane, step, now)]


# The opposite question: was there a step


def wishes(plane: ControlPlane, now: datetime) -> Iterator[Step]:
    """Every step that the control plane could want now, one of each kind for each replica or member that it could be about."""
    for replica in leaving(plane):
        removes = counts(plane) and isinstance(replica.member, int)
        yield RemoveMember(replica.name, replica.member) if removes and isinstance(replica.member, int) else ReleaseHook(replica.name)
    for stray in plane.strays:
        if now - stray.since >= STRAY_AGE:
            yield RemoveStray(stray.member.id)
    yield from (Remediate(replica.name, 0) for replica in staying(plane) if replica.unhealthy)
    yield from _growth(plane)
    yield from _shrinkage(plane)


def _growth(plane: ControlPlane) -> Iterator[Step]:
    few = len(staying(plane)) < plane.desired.replicas
    if few or any(r.outdated for r in staying(plane)):
        yield CreateReplica("", initialize=not plane.replicas)


def _shrinkage(plane: ControlPlane) -> Iterator[Step]:
    """Whom an owner marked goes first; then one that differs, where any does. One without our hook is given it before anybody goes."""
    many = len(staying(plane)) > max(plane.desired.replicas, 1)
    old = [r for r in staying(plane) if r.outdated]
    full = len(held(plane)) >= plane.desired.replicas + plane.desired.max_surge
    if (not many and not (old and full)) or not all(r.holds_hook for r in staying(plane)):
        return
    first = [r for r in staying(plane) if r.delete_first]
    for replica in first or old or staying(plane):
        yield DeleteReplica(replica.name)


def missed(plane: ControlPlane, now: datetime) -> list[Step]:
    """The steps that the control plane could want and that break nothing: what a decision without a step must not leave."""
    return [step for step in wishes(plane, now) if not objections(plane, step, now)]


def is_converged(plane: ControlPlane) -> bool:
    """Nothing is left to want: as many as desired, all as desired, nobody leaving, nobody failed, nobody's member in the ring."""
    calm = len(staying(plane)) == plane.desired.replicas and not leaving(plane) and not (plane.strays and counts(plane))
    return calm and not any(r.outdated or r.unhealthy for r in staying(plane))
