"""The ring, read anew right before the step: every step that could cost the quorum makes its check on this reading and no older one (S10)."""

from __future__ import annotations

from collections.abc import Iterable

from quorate.core.checks import Check
from quorate.core.health import Unknown
from quorate.core.ring import Member
from quorate.hosts.act.failures import StepFailed
from quorate.hosts.act.tools import Observation, Tools
from quorate.hosts.connect.ssh.hosts import Unreachable
from quorate.hosts.observe.membership import Membership, claims_of, membership
from quorate.hosts.observe.ring import read_members
from quorate.hosts.probe.facts import HostFacts
from quorate.workload.membership import RingReading


async def fresh_ring(tools: Tools, observation: Observation) -> RingReading:
    """The members as a majority confirms them now, each with what it says of itself.

    Raises StepFailed where nobody can tell, where members disagree, or where they contradict what the manifest says of their hosts.
    """
    asked = [host.name for host in observation.cluster.control_planes if not isinstance(tools.access.states[host.name], Unreachable)]
    reading = await read_members(tools.access, asked, tools.now)
    if isinstance(reading, Unknown):
        raise StepFailed("etcd", f"the ring cannot be read: {reading.reason}", reading.remedy)
    if reading.disagreement:
        raise StepFailed("etcd", f"its members disagree: {reading.disagreement}", "Look at etcd on each of them before changing anything")
    matched(tools, observation, reading)
    return reading


def require(where: str, checks: Iterable[Check]) -> None:
    """Raise StepFailed with the first check that does not pass: what was safe when it was decided is not any more. To ask nothing is no answer."""
    asked = tuple(checks)
    if not asked:
        raise StepFailed(where, "not done, since no check was made right before the step, so nothing shows that it is safe")
    for check in asked:
        if not check.passed:
            raise StepFailed(where, f"not done, since {check.name}: {check.evidence} ({check.outcome.value})", check.remedy)


def matched(tools: Tools, observation: Observation, reading: RingReading, **looked_at: HostFacts | Unreachable) -> Membership:
    """Which member is which host's, as observed hosts are matched; `looked_at` are hosts that were probed since. Raises StepFailed for a contradiction."""
    found = membership(reading, claims_of(tools.manifest, observation.machines), {**observation.facts, **looked_at})
    if found.contradictions:
        raise StepFailed("etcd", "; ".join(found.contradictions), "Correct the manifest or the hosts")
    return found


def member_of(tools: Tools, observation: Observation, reading: RingReading, host: str) -> Member | None:
    """The member of this host; None where it is certain that it has none. Raises StepFailed where that is not known."""
    return known_member(host, matched(tools, observation, reading))


def known_member(host: str, members: Membership) -> Member | None:
    """The same of members that were matched already."""
    match members.member(host):
        case Member() as member:
            return member
        case Unknown(reason, remedy):
            raise StepFailed(host, f"which etcd member is its own is not known: {reason}", remedy)
    return None
