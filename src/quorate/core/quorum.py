"""The gates of etcd's quorum: may a member leave, may one join. Asked by the rules, and again on a ring that was read right before the step."""

from __future__ import annotations

from quorate.core.checks import Check, failed, passed, unknown
from quorate.core.health import Unknown
from quorate.core.ring import Ring

QUORUM_SURVIVES_REMOVAL = "quorum survives the removal"
QUORUM_SURVIVES_ADDITION = "quorum survives an addition"
QUORUM_SURVIVES_RESTART = "quorum survives a restart"
_RESTORE = (
    "Bring the failed members back. If they are gone for good, remove them with `etcdctl member remove` as long as a majority answers; "
    "where it does not, restore etcd from a snapshot. Then this resolves by itself."
)


def removal_keeps_quorum(ring: Ring, member_id: int) -> Check:
    """The gate of every removal, asked again on a fresh linearizable read right before the step (S1, S4, S10)."""
    if not ring.members:
        return unknown(QUORUM_SURVIVES_REMOVAL, "etcd listed no members")
    member = ring.member(member_id)
    if member is None:
        return passed(QUORUM_SURVIVES_REMOVAL, f"member {member_id:x} is no longer in the ring")
    if not ring.commits:
        return failed(QUORUM_SURVIVES_REMOVAL, _cannot_commit(ring), _RESTORE)
    after = ring.after(removing={member_id})
    evidence = f"without {member.label}: {after}"
    return passed(QUORUM_SURVIVES_REMOVAL, evidence) if after else failed(QUORUM_SURVIVES_REMOVAL, evidence, _RESTORE)


def quorum_survives_addition(ring: Ring | Unknown) -> Check:
    """May a replica join? Nobody may while a learner or a member that never started is in the ring (S2), nor without quorum now and after (S1)."""
    name = QUORUM_SURVIVES_ADDITION
    if isinstance(ring, Unknown):
        return unknown(name, f"the ring could not be read: {ring.reason}")
    if ring.unsettled:
        return failed(
            name, f"etcd takes one joining member at a time, and {', '.join(m.label for m in ring.unsettled)} has not become a voter yet"
        )
    if not ring.commits:
        return failed(name, _cannot_commit(ring), _RESTORE)
    after = ring.after(adding=1)
    if not after:
        return failed(name, f"with one more member that has yet to prove itself: {after}", _RESTORE)
    return passed(name, f"with one more member: {after}")


def restart_keeps_quorum(ring: Ring, member_id: int, *, remedy: str = _RESTORE) -> Check:
    """The gate of whatever has a member down for a while: the others must have quorum without it (S1)."""
    member = ring.member(member_id)
    if member is None:
        return failed(QUORUM_SURVIVES_RESTART, f"member {member_id:x} is not in the ring", remedy)
    meanwhile = ring.without(member_id)
    evidence = f"while {member.label} is down: {meanwhile}"
    return passed(QUORUM_SURVIVES_RESTART, evidence) if meanwhile else failed(QUORUM_SURVIVES_RESTART, evidence, remedy)


def _cannot_commit(ring: Ring) -> str:
    verdict = ring.commits
    return f"etcd cannot commit a change: at most {verdict.good} of {verdict.voters} voters take part, quorum {verdict.quorum}"
