"""The gates of etcd: what must hold of the ring before a member leaves, is restarted or joins, and before a host is reset.

Asked when it is decided, and again when it is done. Each is a question to one ring, so that whoever acts can ask it of a linearizable read that was made for
this one act (S10).
"""

from __future__ import annotations

from collections.abc import Collection

from quorate.core.checks import Check, failed, passed, unknown
from quorate.core.health import Absent, Health, Unknown
from quorate.core.quorum import QUORUM_SURVIVES_RESTART, quorum_survives_addition, removal_keeps_quorum, restart_keeps_quorum
from quorate.core.ring import Ring

QUORUM_SURVIVES_RESET = "quorum survives the reset"
TOO_SMALL = "exempt: a ring of one or two members tolerates no restart"
IRREPLACEABLE = 2
"""Voters. Of so many all are needed, so that etcd and the API pause while one restarts, whatever the order."""

_REMEDY = "Bring the failed members back first; those of hosts that are gone for good leave once you remove their hosts from the manifest."


def readable(ring: Ring | Unknown | Absent) -> Ring | Unknown:
    """The ring, where it was read and has members; a running etcd always has one."""
    match ring:
        case Absent():
            return Unknown("there is no etcd yet")
        case Ring(()):
            return Unknown("etcd listed no members")
    return ring


def removal(ring: Ring | Unknown | Absent, member: int) -> Check:
    """May this member leave for good? etcd must be able to commit the change, and have its quorum of healthy voters afterwards (S1)."""
    match readable(ring):
        case Unknown(reason, remedy):
            return unknown("quorum survives the removal", f"the ring could not be read: {reason}", remedy)
        case Ring() as known:
            return removal_keeps_quorum(known, member)


def addition(ring: Ring | Unknown | Absent) -> Check:
    """May one more member join? Not beside one that has not become a voter yet (S2), nor unless quorum survives a newcomer that fails (S1)."""
    return quorum_survives_addition(readable(ring))


def restart(ring: Ring | Unknown | Absent, member: int) -> Check:
    """May this member be down for a while? The others must have quorum without it (S1).

    A ring of one or two voters never has. It is exempt as long as every one of them is well: the pause is what its owner chose with the number of hosts.
    """
    match readable(ring):
        case Unknown(reason, remedy):
            return unknown(QUORUM_SURVIVES_RESTART, f"the ring could not be read: {reason}", remedy)
        case Ring() as known:
            return _restart(known, member)


def reset(ring: Ring | Unknown | Absent, members: Collection[int] = ()) -> Check:
    """May everything on a host go, with the data of these members if it has any? The ring must have its quorum of healthy voters without them (S1)."""
    match readable(ring):
        case Unknown(reason, remedy):
            return unknown(QUORUM_SURVIVES_RESET, f"the ring could not be read: {reason}", remedy)
        case Ring() as known:
            left = known.losing(members).now
            return passed(QUORUM_SURVIVES_RESET, str(left)) if left else failed(QUORUM_SURVIVES_RESET, str(left), _REMEDY)


def _restart(ring: Ring, member_id: int) -> Check:
    member = ring.member(member_id)
    if member is None:
        return failed(QUORUM_SURVIVES_RESTART, f"member {member_id:x} is not in the ring", "Repair the host's membership first.")
    kept = restart_keeps_quorum(ring, member_id, remedy=_REMEDY)
    settled = not ring.unsettled and all(other.health is Health.GOOD for other in ring.members)
    if kept.passed or not settled or len(ring.members) > IRREPLACEABLE:
        return kept
    return passed(TOO_SMALL, f"{ring.now}; etcd and the API pause while {member.label} is down")
