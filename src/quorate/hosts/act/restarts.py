"""Before a control-plane host's etcd member goes down for a while: the quorum check on a fresh read, and leadership handed to another member."""

from __future__ import annotations

from quorate.core.hosts.gates import restart
from quorate.core.ring import Member
from quorate.etcd.client import EtcdClient
from quorate.hosts.act.failures import EXPECTED, StepFailed
from quorate.hosts.act.rings import fresh_ring, member_of, require
from quorate.hosts.act.tools import Observation, Tools
from quorate.hosts.observe.ring import address_of
from quorate.workload.membership import RingReading


async def make_ready(tools: Tools, host: str, observation: Observation) -> None:
    """Make sure that the host's member may be down now, and does not lead where another can. Raises StepFailed with the check that does not pass.

    Handing over leadership saves the others an election, 1 s or more without writes, and is best effort: the ring tolerates the loss of this member anyway.
    """
    reading = await fresh_ring(tools, observation)
    member = _own(tools, host, observation, reading)
    require(host, [restart(reading.ring, member.id)])
    if reading.ring.leader == member.id and await hand_over(tools, host, reading, member):
        require(host, [restart((await fresh_ring(tools, observation)).ring, member.id)])


async def hand_over(tools: Tools, host: str, reading: RingReading, leader: Member) -> bool:
    """Hand leadership from this member to another voter that is well; tell whether that happened. `host` is told of in messages."""
    to = reading.ring.successor
    if to is None or leader.id not in reading.member_ids.values():
        return False
    tools.report(host, f"handing etcd's leadership to {to.label}")
    try:
        await (await _itself(tools, reading, leader)).move_leader(to.id)
    except EXPECTED as error:
        tools.report(host, f"etcd's leadership stays where it is: {error}")
        return False
    return True


async def _itself(tools: Tools, reading: RingReading, leader: Member) -> EtcdClient:
    """The leader, which alone can hand over: asked through its host or, where the manifest does not have that any more, at its address through another."""
    through = {node: member for node, member in reading.member_ids.items() if node in tools.access.states}
    for node, member in through.items():
        if member == leader.id:
            return await tools.access.etcd(through=node)
    return await tools.access.etcd_at(address_of(leader), next(iter(through)))


def _own(tools: Tools, host: str, observation: Observation, reading: RingReading) -> Member:
    member = member_of(tools, observation, reading, host)
    if member is None:
        raise StepFailed(host, "etcd has no member of this host", "Run the command again: the host's membership has to be repaired first")
    return member
