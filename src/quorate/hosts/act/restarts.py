"""Before a control-plane host's etcd member is down for a while: the gate, on a ring that was read for it, and leadership handed to another member."""

from __future__ import annotations

from quorate.core.health import Health
from quorate.core.in_place.gates import restart
from quorate.core.ring import Member, Ring
from quorate.hosts.act.failures import EXPECTED, StepFailed
from quorate.hosts.act.rings import fresh_ring, member_of, require
from quorate.hosts.act.tools import Observation, Tools
from quorate.workload.membership import RingReading


async def make_ready(tools: Tools, host: str, observation: Observation) -> None:
    """Make sure that the host's member may be down now, and does not lead where another can. Raises StepFailed with the check that does not pass.

    Handing over leadership saves the others an election, 1 s or more without writes, and is best effort: the ring bears the loss of this member anyway.
    """
    reading = await fresh_ring(tools, observation)
    member = _own(host, observation, reading.ring)
    require(host, [restart(reading.ring, member.id)])
    if reading.ring.leader == member.id and await hand_over(tools, host, reading, member):
        require(host, [restart((await fresh_ring(tools, observation)).ring, member.id)])


async def hand_over(tools: Tools, host: str, reading: RingReading, leader: Member) -> bool:
    """Hand leadership from this member to another voter that is well; tell whether that happened. `host` is told of in messages."""
    successor = next((other for other in reading.ring.members if _can_lead(other) and other.id != leader.id), None)
    node = next((node for node, member in reading.member_ids.items() if member == leader.id), None)
    if successor is None or node is None:
        return False
    tools.report(host, f"handing etcd's leadership to {successor.label}")
    try:
        await (await tools.access.etcd(through=node)).move_leader(successor.id)
    except EXPECTED as error:
        tools.report(host, f"etcd's leadership stays where it is: {error}")
        return False
    return True


def _can_lead(member: Member) -> bool:
    return member.health is Health.GOOD and not member.learner and bool(member.name)


def _own(host: str, observation: Observation, ring: Ring) -> Member:
    member = member_of(observation.machines[host], ring)
    if member is None:
        raise StepFailed(host, "etcd has no member of this host", "Run the command again: the host's membership has to be repaired first")
    return member
