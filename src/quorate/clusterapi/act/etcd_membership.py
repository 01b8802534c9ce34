"""The final check of the ring before a member leaves it, and the changes of the ring itself.

What destroys asks etcd again, linearizably, right before the step, matches its members with the Machines anew, and passes the same check once more.
Exempt are a control plane of which it is proven that it is not initialized, so that it holds no data, and one whose etcd is external, whose members are not
ours to count.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from datetime import datetime

import structlog

from quorate.clusterapi.act.machine_writes import release_hook
from quorate.clusterapi.act.permission import still_leaves, still_permitted
from quorate.clusterapi.act.refusal import Refused
from quorate.clusterapi.connect.clients import Clients
from quorate.clusterapi.observe.observation import Observation
from quorate.clusterapi.observe.orphans import consents, described, look_for_nodes, node_names, nodes_without_machine
from quorate.clusterapi.observe.ring import match
from quorate.clusterapi.observe.rings import LIMIT
from quorate.clusterapi.types.kubeadm_control_plane import KubeadmControlPlane
from quorate.core.checks import Check, passed
from quorate.core.health import Absent, Health, Unknown
from quorate.core.machines.checks import dependable_ring, quorum_survives_removal
from quorate.core.machines.rules.orphans import joins_on, may_be_removed
from quorate.core.machines.rules.placement import next_leaders
from quorate.core.machines.rules.remove import exempt_before_initialization, safe_to_let_go
from quorate.core.machines.state import ControlPlane, Orphan
from quorate.core.ring import Member, Ring
from quorate.etcd.client import EtcdClient, host_of
from quorate.etcd.errors import DeadlineExceeded, EtcdError, MemberNotFound, NoLeader, Unreachable
from quorate.kubernetes.client import Client
from quorate.kubernetes.controller import Request
from quorate.kubernetes.errors import Conflict
from quorate.workload.access import AccessUnavailable
from quorate.workload.connection import Workload
from quorate.workload.nodes import internal_addresses

_log = structlog.get_logger(__name__)

_LOOKS = 3
"""Times that a Machine is looked at before it is let go, where others write to it meanwhile."""


def view_of(observation: Observation) -> ControlPlane:
    """What was decided by."""
    if observation.view is None:
        raise ValueError("there is no Cluster, so there is no step")
    return observation.view


def has_ring(view: ControlPlane) -> bool:
    """Whether there may be a ring of ours with data in it: what is not known to be initialized is asked like what is."""
    return view.may_be_initialized and view.desired.etcd_managed


async def read_afresh(clients: Clients, observation: Observation) -> ControlPlane:
    """The view with the ring as it is now, read for this, and its members matched anew; the view itself where there is no ring of ours. Raises Refused."""
    view = view_of(observation)
    if not has_ring(view):
        return view
    unclaimed = nodes_without_machine(observation.nodes, (machine.node for machine in observation.machines))
    nodes = [*(machine.node.metadata.name for machine in observation.machines if machine.node), *unclaimed]
    try:
        async with asyncio.timeout(LIMIT):
            reading = await _workload(clients, observation).read_ring(nodes)
    except TimeoutError:
        reading = Unknown(f"no answer within {LIMIT:g} s")
    if isinstance(reading, Unknown):
        raise Refused(f"the ring could not be read right before the step: {reading.reason}")
    if reading.disagreement:
        raise Refused(f"the members disagree about who they are: {reading.disagreement}")
    known = node_names((*observation.nodes, *(machine.node for machine in observation.machines)))
    unlisted = await look_for_nodes(_workload(clients, observation), reading, known)
    members = match(reading, {machine.name: machine.node for machine in observation.machines}, {**unclaimed, **unlisted})
    still, consented = {member.id: member for member in members.orphans}, consents(observation.kcp)
    return replace(
        view,
        ring=reading.ring,
        replicas=tuple(replace(replica, member=members.of[replica.name]) for replica in view.replicas),
        orphans=tuple(
            described(replace(orphan, member=still[orphan.member.id]), members, consented)
            for orphan in view.orphans
            if orphan.member.id in still
        ),
    )


Ask = Callable[[ControlPlane], Iterable[Check]]
"""What must hold, asked of the view that was read afresh."""


async def pass_the_gate(clients: Clients, observation: Observation, ask: Ask) -> ControlPlane:
    """The view read afresh, if the very checks that the decision rests on pass once more. To ask nothing is no answer. Raises Refused."""
    view = await read_afresh(clients, observation)
    checks = tuple(ask(view))
    if not checks:
        raise Refused("no check was made right before the step, so nothing shows that it is safe")
    for check in checks:
        if not check.passed:
            raise Refused(f"{check.name}: {check.evidence}")
    return view


def may_be_deleted(view: ControlPlane, replica: str) -> tuple[Check, ...]:
    """Can the ring do without the replica's member? Before there is a ring: is it the only replica, so that nothing is lost with it?"""
    asked = quorum_survives_removal if view.may_be_initialized else exempt_before_initialization
    return (asked(view, view.replica(replica)),)


async def remove_member(clients: Clients, observation: Observation, replica: str, member: int) -> None:
    """Ask the ring anew, pass leadership on, remove the member, release the Machine. The gate stands before each change of the ring. Raises Refused.

    That the Machine still leaves, and nothing was paused, is read before each request to remove its member and before it is let go: those before it may have
    waited for seconds.
    """

    async def remove(client: EtcdClient) -> None:
        await still_leaves(clients, observation, replica)
        await client.remove_member(member)

    view = await _pass_the_gate_of_the_hook(clients, observation, replica)
    if _its_own(view, replica, member) and _ring(view).leader == member:
        await still_leaves(clients, observation, replica)
        await pass_leadership_on(clients, observation, view, replica)
        view = await _pass_the_gate_of_the_hook(clients, observation, replica)
    if _its_own(view, replica, member):
        await _through_others(clients, observation, view, replica, remove)
    await _let_go(clients, observation, replica)


async def release(clients: Clients, observation: Observation, replica: str) -> None:
    """Release a Machine without a member; one of a running ring only if that ring, read for this, has no member of its own now. Raises Refused."""
    view = await _pass_the_gate_of_the_hook(clients, observation, replica)
    member = view.replica(replica).member
    if has_ring(view) and not isinstance(member, Absent):
        raise Refused(f"{replica} is no longer proven to have no etcd member: {_member_text(member)}")
    await _let_go(clients, observation, replica)


async def _let_go(clients: Clients, observation: Observation, replica: str) -> None:
    """Take our hook off the Machine as it is now. core writes what it sees of a Machine whose member leaves: what has changed meanwhile is looked at anew."""
    for looks_left in reversed(range(_LOOKS)):
        machine = await still_leaves(clients, observation, replica)
        try:
            await release_hook(clients, observation, machine)
        except Conflict:
            if not looks_left:
                raise
        else:
            return


async def remove_orphan(clients: Clients, observation: Observation, member: int, now: datetime) -> None:
    """Remove an orphan member through the member of a Machine, if it is an orphan still and the ring can do without it. Idempotent. Raises Refused.

    One that leads, and has a Node on which it can be asked, hands leadership over first (S7).
    Somebody who had consented may have taken that back, and the cache may learn of it too late: it is read before each request.
    """

    async def remove(client: EtcdClient) -> None:
        live = await still_permitted(clients, observation)
        if _has_lost_its_consent(observation, live.kcp, member):
            raise Refused(f"the consent to remove member {member:x} was taken back after this was decided")
        await client.remove_member(member)

    def ask(view: ControlPlane) -> Iterable[Check]:
        ring = dependable_ring(view)
        if isinstance(ring, Unknown):
            raise Refused(f"the ring cannot be checked: {ring.reason}")
        if ring.member(member) is None:
            return (passed("the member is in the ring", "it is gone, which is what was wanted"),)
        orphan = _orphan(view, member)
        if orphan is None:
            raise Refused(f"member {member:x} now belongs to a Machine")
        return may_be_removed(view, ring, orphan, now)

    view = await pass_the_gate(clients, observation, ask)
    orphan = _orphan(view, member)
    if _ring(view).leader == member and orphan is not None and isinstance(orphan.node, str) and orphan.node:
        await still_permitted(clients, observation)
        await _hand_over(clients, observation, next_leaders(view, _ring(view), leaving=""), orphan.node)
        view = await pass_the_gate(clients, observation, ask)
    orphan = _orphan(view, member)
    if _ring(view).member(member) is not None:
        await _through_others(clients, observation, view, "", remove)
        if orphan is not None and (machine := joins_on(view, orphan)) and _may_have_its_address(observation, machine, orphan.member):
            metadata = observation.kcp.metadata
            clients.progress.joiner_left(Request(metadata.namespace, metadata.name), machine)


def _orphan(view: ControlPlane, member: int) -> Orphan | None:
    """The member, if it is an orphan."""
    return next((orphan for orphan in view.orphans if orphan.member.id == member), None)


def _may_have_its_address(observation: Observation, machine: str, member: Member) -> bool:
    """Whether the member is to be had at one of the Machine's addresses, where these are known."""
    addresses = next(internal_addresses(observed.machine.status.addresses) for observed in observation.machines if observed.name == machine)
    return not addresses or not addresses.isdisjoint(map(host_of, member.peer_urls))


def _has_lost_its_consent(observation: Observation, newest: KubeadmControlPlane, member: int) -> bool:
    return member in consents(observation.kcp) - consents(newest)


async def pass_leadership_on(clients: Clients, observation: Observation, view: ControlPlane, replica: str) -> None:
    """Hand leadership to a member that stays, if the replica's holds it in `view`, which was read afresh.

    Best effort: where it fails and the ring stands the loss, etcd elects a new leader by itself once the member is gone.
    """
    node = next((machine.node for machine in observation.machines if machine.name == replica), None)
    if node is None or not has_ring(view) or _ring(view).leader is None or _ring(view).leader != view.replica(replica).member:
        return
    await _hand_over(clients, observation, next_leaders(view, _ring(view), replica), node.metadata.name)


async def _hand_over(clients: Clients, observation: Observation, successors: Iterable[int], node: str) -> None:
    for successor in successors:
        try:
            async with _workload(clients, observation).etcd(node) as client:
                await client.move_leader(successor)
        except (EtcdError, AccessUnavailable) as error:
            _log.warning("leadership was not passed on", node=node, to=f"{successor:x}", error=str(error))
            if isinstance(error, (Unreachable, AccessUnavailable)):
                return  # the same for every successor, and each attempt takes 3 s where the leader's kubelet is down
        else:
            _log.info("leadership passed on", node=node, to=f"{successor:x}")
            return


async def _pass_the_gate_of_the_hook(clients: Clients, observation: Observation, replica: str) -> ControlPlane:
    return await pass_the_gate(clients, observation, lambda fresh: safe_to_let_go(fresh, fresh.replica(replica)))


def _its_own(view: ControlPlane, replica: str, member: int) -> bool:
    """Whether the member that is to be removed is in the ring still; raises Refused where it, or another one, has become the replica's meanwhile."""
    now, is_there = view.replica(replica).member, _ring(view).member(member) is not None
    if now == member or (isinstance(now, Absent) and not is_there):
        return is_there
    raise Refused(f"member {member:x} is not {replica}'s any more: {_member_text(now)}")


async def _through_others(
    clients: Clients, observation: Observation, view: ControlPlane, replica: str, remove: Callable[[EtcdClient], Awaitable[None]]
) -> None:
    """Remove a member through the first other one that takes it, of those on the Nodes of other Machines; first those that agreed in `view`, read afresh.

    etcd knows no resourceVersion, so that `remove` itself asks right before whether it may still be. That the member is gone is what was wanted, and a repeat
    finds it so; but it is believed of one alone that agreed: one that was down may have a ring of its own by now, restored from an older copy. Raises Refused.
    """
    failures: list[str] = []
    others = [machine for machine in observation.machines if machine.name != replica]
    for machine in sorted(others, key=lambda other: not _agreed(view, other.name)):
        if machine.node is None:
            continue
        try:
            async with _workload(clients, observation).etcd(machine.node.metadata.name) as client:
                await remove(client)
        except MemberNotFound as error:
            if _agreed(view, machine.name):
                return
            failures.append(str(error))
        except (Unreachable, DeadlineExceeded, NoLeader) as error:  # done or not, a repeat does no harm
            failures.append(str(error))
        else:
            return
    raise Refused(f"no other member could be asked: {'; '.join(failures) or 'there is none'}")


def _agreed(view: ControlPlane, replica: str) -> bool:
    """Whether a replica's member, asked itself, was found to follow the majority of the ring."""
    owned = view.replica(replica).member
    member = _ring(view).member(owned) if isinstance(owned, int) else None
    return member is not None and (member.health is Health.GOOD or member.only_alarmed)


def _ring(view: ControlPlane) -> Ring:
    if isinstance(view.ring, Unknown):
        raise Refused(f"there is no ring to change: {view.ring.reason}")
    return view.ring


def _member_text(member: int | Absent | Unknown) -> str:
    match member:
        case Unknown(reason):
            return reason
        case Absent():
            return "it has none"
    return f"its member is {member:x}"


def _workload(clients: Clients, observation: Observation) -> Workload[Client]:
    cluster = observation.cluster
    if cluster is None:
        raise ValueError("there is no Cluster")
    return clients.workloads.existing(cluster)
