"""The oracle: what one decision may and may not do, by all invariants of `safety` and `conduct`, and what it should have done.

It shares no decision with the code that it judges (see `counting`). The same invariants answer the opposite question: a control plane that is stuck although
one of the steps it wants breaks none of them is stuck needlessly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime

from quorate.core.machines.state import Answer, ControlPlane, Replica
from quorate.core.machines.steps import (
    CreateReplica,
    DeleteReplica,
    ReleaseHook,
    Remediate,
    RemoveMember,
    RemoveOrphan,
    Step,
    UpdateInPlace,
)
from tests.proof import conduct, safety
from tests.proof.counting import counts, held, is_well, leaving, staying


@dataclass(frozen=True, slots=True)
class Objection:
    """One invariant that a step breaks."""

    invariant: str
    why: str

    def __str__(self) -> str:
        return f"{self.invariant}: {self.why}"


Invariant = Callable[[ControlPlane, Step, datetime], Iterator[str]]
INVARIANTS: dict[str, Invariant] = {
    function.__name__: function
    for function in (
        safety.s1_quorum_outlives_every_removal,
        safety.s1_two_that_go_leave_enough,
        safety.s1_quorum_outlives_an_addition,
        safety.s1_a_join_under_way_is_waited_for,
        safety.s1_quorum_outlives_an_update,
        safety.s1_nobody_well_leaves_beside_an_update,
        safety.s2_one_joins_at_a_time,
        safety.s3_founded_once,
        safety.s4_the_last_holder_of_data_stays,
        safety.s5_one_change_at_a_time,
        safety.s6_no_more_than_desired_and_a_surge,
        safety.s8_nobody_goes_without_a_reason,
        safety.s8_an_update_needs_a_reason,
        safety.s8_a_surge_needs_a_reason,
        safety.s11_paused_means_paused,
        safety.another_serves,
        conduct.all_others_are_well,
        conduct.only_what_waits_at_our_hook_is_let_go,
        conduct.an_orphan_has_no_owner,
        conduct.a_remediation_has_its_reason,
        conduct.a_replacement_carries_its_record,
        conduct.before_initialization_only_the_first_goes,
        conduct.nothing_moves_behind_a_gate,
        conduct.versions_stay_close,
    )
}


def objections(plane: ControlPlane, step: Step, now: datetime) -> Iterator[Objection]:
    """Every invariant that `step` breaks, each looked for only when it is asked for."""
    return (Objection(name, why) for name, invariant in INVARIANTS.items() for why in invariant(plane, step, now))


# The opposite question: was there a step


def options(plane: ControlPlane, now: datetime) -> Iterator[Step]:
    """Every step that the control plane could want now, one of each kind for each replica or member that it could be about."""
    for replica in leaving(plane):
        removes = counts(plane) and isinstance(replica.member, int)
        yield RemoveMember(replica.name, replica.member) if removes and isinstance(replica.member, int) else ReleaseHook(replica.name)
    for orphan in plane.orphans:
        if now - orphan.since >= conduct.ORPHAN_AGE:
            yield RemoveOrphan(orphan.member.id)
    yield from (Remediate(replica.name, 0) for replica in staying(plane) if replica.unhealthy)
    begun = (r for r in staying(plane) if r.update and not r.update.started and r.in_place and r.in_place.answer is Answer.YES)
    yield from (UpdateInPlace(replica.name) for replica in begun)
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
    eligible = first or old or staying(plane)
    updated = [r for r in eligible if _is_updated(plane, r)]
    if not updated:
        yield from (DeleteReplica(replica.name) for replica in eligible)
    elif updated == eligible and all(r.in_place and r.in_place.answer is Answer.YES for r in updated):
        yield from (UpdateInPlace(replica.name) for replica in updated)


def _is_updated(plane: ControlPlane, replica: Replica) -> bool:
    """Whether it is to be updated in place rather than to go, as far as anybody knows; one of which nobody answers is waited for, and so is everybody else."""
    enough = sum(not r.outdated for r in staying(plane)) >= plane.desired.replicas
    may = replica.in_place is not None and replica.in_place.answer is not Answer.NO
    return may and not enough and is_well(replica, etcd_managed=plane.desired.etcd_managed)


def missed(plane: ControlPlane, now: datetime) -> list[Step]:
    """The steps that the control plane could want and that break nothing: what a decision without a step must not leave."""
    return [step for step in options(plane, now) if next(objections(plane, step, now), None) is None]


def is_converged(plane: ControlPlane) -> bool:
    """Nothing is left to want: as many as desired, all as desired, nobody leaving, nobody failed, nobody's member in the ring."""
    calm = len(staying(plane)) == plane.desired.replicas and not leaving(plane) and not (plane.orphans and counts(plane))
    return calm and not any(r.outdated or r.unhealthy for r in staying(plane))
