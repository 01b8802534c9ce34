"""Counting for the oracle, from the raw members and replicas: who votes, who holds a place, who serves, and who goes with a step.

Nothing here is shared with the code that is judged: of `quorate.core.ring` only the shape of its data is used.
"""

from __future__ import annotations

from quorate.core.health import Absent, Health, Unknown
from quorate.core.machines.state import ControlPlane, Replica
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

Touching = CreateReplica | DeleteReplica | RemoveMember | ReleaseHook | RemoveOrphan | Remediate | UpdateInPlace
"""Steps that change who is there."""
Going = DeleteReplica | RemoveMember | ReleaseHook | Remediate
"""Steps by which a replica goes, at once or in the end."""


def lost(plane: ControlPlane) -> set[int]:
    """Members on which nobody may lean: their Machines are deleted and held by nobody."""
    return {r.member for r in plane.replicas if r.deleting_since and not r.holds_hook and isinstance(r.member, int)}


def updating(plane: ControlPlane) -> list[Replica]:
    """Replicas that nobody deletes and whose hosts are updated in place."""
    return [r for r in staying(plane) if r.update is not None and r.update.started]


def majority(plane: ControlPlane, *, without: frozenset[int] = frozenset(), newcomers: int = 0, down: frozenset[int] = frozenset()) -> bool:
    """More than half of those that vote answer, once `without` are no members, `newcomers` vote but do not answer yet, and `down` are silent. Needs a ring."""
    assert not isinstance(plane.ring, Unknown)
    gone = lost(plane) | down
    votes = [
        m.health is Health.GOOD and m.name != "" and m.id not in gone for m in plane.ring.members if not m.learner and m.id not in without
    ]
    return 2 * sum(votes) > len(votes) + newcomers


def commits(plane: ControlPlane) -> bool:
    """The list that a majority confirmed proves that more than half of those that vote take part in changes; known silence takes the proof away. Needs a ring.

    So it is not proven once half of them or more are known not to take part: down, never started, or going with their Machine. One that has nothing but an
    alarm takes part. One that nobody could ask may be the very one that confirmed the list.
    """
    assert not isinstance(plane.ring, Unknown)
    gone = lost(plane)
    silent = [(m.health is Health.BAD and not m.only_alarmed) or m.name == "" or m.id in gone for m in plane.ring.members if not m.learner]
    return 2 * sum(silent) < len(silent)


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
    return (
        replica.node is not None
        and bool(replica.component_findings)
        and all(f.health is Health.GOOD for _, f in replica.component_findings)
    )


def is_well(replica: Replica, *, etcd_managed: bool) -> bool:
    """It serves, and so does its etcd member where that is ours."""
    return serves(replica) and (not etcd_managed or all(f.health is Health.GOOD for _, f in replica.member_findings))


def never_came_up(plane: ControlPlane, replica: Replica) -> bool:
    """It has no Node and, proven, no member: nobody would miss it. Where etcd is not ours a Node that is gone proves nothing about its API server."""
    nothing_is_there = replica.node is None and isinstance(replica.member, Absent)
    return nothing_is_there and not (replica.had_node and not plane.desired.etcd_managed)


def may_be_founded(plane: ControlPlane) -> bool:
    """Whether there may be a cluster: there is none only where that is proven."""
    return plane.initialized is not False


def counts(plane: ControlPlane) -> bool:
    """Whether there may be etcd of ours with data in it."""
    return may_be_founded(plane) and plane.desired.etcd_managed


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
    if isinstance(step, RemoveOrphan):
        return [frozenset({step.member}) & ids(plane)]
    if goes is None or isinstance(goes.member, Absent):
        return [frozenset()]
    if isinstance(goes.member, Unknown):
        orphans = frozenset(orphan.member.id for orphan in plane.orphans) if isinstance(step, Remediate) else frozenset()
        matched = {r.member for r in plane.replicas if isinstance(r.member, int)}
        return [frozenset({member}) for member in orphans] if orphans == ids(plane) - matched else []
    return [frozenset({goes.member}) & ids(plane)]


def ids(plane: ControlPlane) -> frozenset[int]:
    return frozenset() if isinstance(plane.ring, Unknown) else frozenset(m.id for m in plane.ring.members)


def voters(plane: ControlPlane) -> frozenset[int]:
    return frozenset() if isinstance(plane.ring, Unknown) else frozenset(m.id for m in plane.ring.members if m.name and not m.learner)
