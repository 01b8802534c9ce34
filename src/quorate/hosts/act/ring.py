"""Removes members from the ring, and deletes the Nodes of hosts that are gone."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from quorate.core.checks import Check, failed, passed
from quorate.core.health import Health
from quorate.core.hosts.gates import removal
from quorate.core.hosts.rules.facts import holds_the_data
from quorate.core.hosts.rules.members import NEVER_VOTED, SILENT
from quorate.core.hosts.state import Node as SeenNode
from quorate.core.hosts.steps import DeleteNode, RemoveMember
from quorate.core.ring import Member, Ring
from quorate.etcd.client import EtcdClient
from quorate.etcd.errors import MemberNotFound, Refused
from quorate.hosts.act.drain import drain
from quorate.hosts.act.failures import EXPECTED, StepFailed
from quorate.hosts.act.nodes import cordon, written
from quorate.hosts.act.restarts import hand_over
from quorate.hosts.act.rings import fresh_ring, member_of, require
from quorate.hosts.act.tools import Observation, Tools
from quorate.hosts.connect.ssh.hosts import Unreachable
from quorate.hosts.observe.nodes import is_of_another_machine, seen
from quorate.hosts.observe.ring import silent_members
from quorate.kubernetes.client import Client
from quorate.kubernetes.errors import NotFound
from quorate.kubernetes.objects import Node
from quorate.kubernetes.resource import NODES
from quorate.workload.membership import RingReading

ACCEPTED_DEADLINE = 30.0
"""Seconds for etcd to accept a removal: it refuses any change until all its members have been connected for 5."""
STILL_GOES = "the Node is still what it was when its end was decided"
_AGAIN = "Run the command again: it checks anew."
_ETCD = "etcd"


async def remove_member(tools: Tools, step: RemoveMember, observation: Observation) -> None:
    """Remove the member after a quorum check, through one that stays; one that leads hands leadership over first. Idempotent. Raises StepFailed.

    The ring is read anew for every attempt, and of that reading it is asked whether the member is still silent if it was, or still without a vote if it
    had none, whether a host of the manifest holds the data without it, and the gate.
    """
    where = step.owner or _ETCD

    async def attempt() -> str:
        reading = await fresh_ring(tools, observation)
        member = reading.ring.member(step.member)
        if member is None:
            return ""
        if reading.ring.leader == member.id and await hand_over(tools, where, reading, member):
            reading = await fresh_ring(tools, observation)
        held = holds_the_data(replace(observation.cluster, ring=reading.ring), apart_from=step.member)
        still = (*_still_silent(observation, reading, step.member), *_still_without_vote(observation, member))
        require(where, [*still, held, removal(reading.ring, step.member)])
        client = await _staying(tools, step, reading)
        tools.report(where, f"removing member {step.member:x}")
        try:
            with suppress(MemberNotFound):
                await client.remove_member(step.member)
        except Refused as refusal:
            return str(refusal)
        return ""

    await tools.waits.until(where, f"etcd to let member {step.member:x} go", attempt, deadline=ACCEPTED_DEADLINE)


def _still_silent(observation: Observation, reading: RingReading, member_id: int) -> tuple[Check, ...]:
    """A member that was silent when its removal was decided leaves as dead; one that answers now, leaves for that reason no more."""
    cluster = observation.cluster
    orphans = [orphan.member.id for orphan in cluster.orphans if orphan.missed_probes is not None]
    member = reading.ring.member(member_id)
    if member is None or member_id not in (*orphans, *(silent for silent, _ in cluster.members_missed_probes)):
        return ()
    if member_id in silent_members(reading):
        return (passed(SILENT, f"{member.label} still gives no answer"),)
    return (failed(SILENT, f"{member.label} answers again", _AGAIN),)


def _still_without_vote(observation: Observation, member: Member) -> tuple[Check, ...]:
    """A learner leaves since its join was given up; one that was made a voter has joined after all."""
    ring = observation.cluster.ring
    decided = ring.member(member.id) if isinstance(ring, Ring) else None
    if decided is None or decided.votes:
        return ()
    return (failed(NEVER_VOTED, f"{member.label} votes now", _AGAIN) if member.votes else passed(NEVER_VOTED, member.label),)


async def delete_node(tools: Tools, step: DeleteNode, observation: Observation) -> None:
    """Delete the Node, drained before where the step says so. Idempotent.

    Raises StepFailed where etcd, asked now, still has a member of that name or of that host: its API server may serve yet; where Pods do not leave; and where
    the Node, read right before, is not any more what it was when its end was decided. One that changes after that read is read again.
    """
    reading = await fresh_ring(tools, observation)
    member = next((each for each in reading.ring.members if each.name == step.node), None)
    if member is None and step.node in observation.machines:
        member = member_of(tools, observation, reading, step.node)
    if member is not None:
        raise StepFailed(
            step.node, f"its Node is not deleted, since etcd has its member {member.label}", "The member has to leave the ring first"
        )
    if step.drain:
        with suppress(NotFound):
            require(step.node, [_still_goes(observation, await (await tools.access.api()).get(NODES, step.node))])
            await cordon(tools, step.node)
            tools.report(step.node, "draining the Node")
            await drain(tools, step.node, while_ready=True)

    async def attempt(api: Client) -> None:
        with suppress(NotFound):
            node = await api.get(NODES, step.node)
            require(step.node, [_still_goes(observation, node), *([_still_cordoned(node)] if step.drain else [])])
            tools.report(step.node, "deleting the Node")
            await api.delete(NODES, step.node, uid=node.metadata.uid, resource_version=node.metadata.resource_version)

    await written(tools, step.node, "its Node to be deleted", attempt)


def _still_goes(observation: Observation, node: Node) -> Check:
    """Whether the Node is what it was when its end was decided: one that is ready now may have its machine back, or be another's that took the name."""
    cluster, name = observation.cluster, node.metadata.name
    nodes = (*cluster.other_nodes, *(host.node for host in cluster.hosts if isinstance(host.node, SeenNode)))
    decided = next((each for each in nodes if each.name == name), None)
    if decided is not None and decided.ready.health is not Health.GOOD and seen(node).ready.health is Health.GOOD:
        return failed(STILL_GOES, f"Node {name} was not ready when that was decided, and is ready now", _AGAIN)
    if name in cluster.lost_nodes and name in observation.machines and not is_of_another_machine(node, observation.machines[name].host):
        return failed(STILL_GOES, f"Node {name} was another machine's when that was decided, and has an address of host {name} now", _AGAIN)
    return passed(STILL_GOES, f"Node {name} is {'ready, as it was' if seen(node).ready.health is Health.GOOD else 'not ready'}")


def _still_cordoned(node: Node) -> Check:
    name = node.metadata.name
    if node.spec.unschedulable:
        return passed(STILL_GOES, f"no Pod came to Node {name} since it was drained")
    return failed(STILL_GOES, f"Node {name} was uncordoned since it was drained, and may run Pods again", _AGAIN)


async def _staying(tools: Tools, step: RemoveMember, reading: RingReading) -> EtcdClient:
    """A client of a member that stays: one that is removed stops before it can tell that it was. Raises StepFailed."""
    causes = []
    for node, member in reading.member_ids.items():
        if member == step.member or isinstance(tools.access.states.get(node), Unreachable | None):
            continue
        try:
            client = await tools.access.etcd(through=node)
            if (await client.status()).leader:
                return client
            causes.append(f"{node} follows no leader")
        except EXPECTED as error:
            causes.append(f"{node}: {error}")
    raise StepFailed(
        step.owner or _ETCD, f"no member that stays can be asked to remove {step.member:x}: {'; '.join(causes) or 'none is on a host'}"
    )
