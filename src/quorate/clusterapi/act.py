"""Carry out one step. Each is idempotent: it may be repeated after a crash at any point, and a repeat does what is left to do.

What destroys asks etcd again, linearizably, at the instant of acting, and passes the same check once more; the gate of `decide` spoke of what was read before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import datetime
from random import Random

import structlog

from quorate.clusterapi import authorities, creation, intent
from quorate.clusterapi.clients import Clients
from quorate.clusterapi.observation import Observation
from quorate.clusterapi.ring import match
from quorate.clusterapi.rings import LIMIT
from quorate.clusterapi.types.machine import Machine
from quorate.clusterapi.types.names import FieldManager, Finalizer, Hook
from quorate.clusterapi.types.resources import KUBEADM_CONTROL_PLANES, MACHINES
from quorate.core.checks import quorum_survives_removal
from quorate.core.control_plane import ControlPlane, Replica
from quorate.core.health import Absent, Health, Unknown
from quorate.core.ring import Ring
from quorate.core.steps import (
    AbandonCreation,
    AddFinalizer,
    CreateReplica,
    DeleteAll,
    DeleteReplica,
    EnsureCertificates,
    ReleaseHook,
    RemoveFinalizer,
    RemoveMember,
    Step,
    WriteKubeconfig,
)
from quorate.etcd.client import EtcdClient
from quorate.etcd.errors import DeadlineExceeded, EtcdError, MemberNotFound, NoLeader, Unreachable
from quorate.kubeadm.names import machine_name
from quorate.kubernetes.client import Client
from quorate.kubernetes.controller import Request
from quorate.kubernetes.errors import NotFound
from quorate.kubernetes.expectations import Observed
from quorate.workload.access import AccessUnavailable
from quorate.workload.connection import Workload
from quorate.workload.membership import RingReading

_log = structlog.get_logger(__name__)


class Refused(Exception):
    """The last look before acting found that the step is not safe any more. Nothing was done."""


@dataclass(frozen=True, slots=True)
class Actor:
    """The hands. Of each write whose effect the next decision must see, the caches are awaited before that decision is made."""

    clients: Clients
    random: Random
    clock: Callable[[], datetime]

    async def perform(self, step: Step, observation: Observation) -> None:
        """Carry out `step` for the control plane observed. Raises what the API or etcd answered, or Refused."""
        match step:
            case AddFinalizer():
                await self._set_finalizer(observation, present=True)
            case RemoveFinalizer():
                await self._set_finalizer(observation, present=False)
            case EnsureCertificates(purposes):
                await authorities.create(self.clients, observation, purposes, self.clock())
            case WriteKubeconfig(rotate):
                await authorities.write_kubeconfig(self.clients, observation, renew=rotate, now=self.clock())
            case CreateReplica(failure_domain, initialize):
                planned = intent.Intent(self._new_name(observation), initialize, failure_domain)
                await creation.create(self.clients, observation, planned)
            case AbandonCreation(name):
                await creation.abandon(self.clients, observation, name)
            case DeleteReplica(replica):
                await self._delete(observation, replica)
            case RemoveMember(replica, member):
                await self._remove_member(observation, replica, member)
            case ReleaseHook(replica):
                await self._release(observation, replica)
            case DeleteAll(replicas):
                await self._delete_all(observation, replicas)

    def _new_name(self, observation: Observation) -> str:
        """A name that no Machine of the namespace has; the intent keeps it until the Machine exists."""
        kcp, cluster = observation.kcp, observation.cluster
        owner = cluster.metadata.name if cluster else ""
        while True:
            name = machine_name(kcp.spec.machine_naming.template, cluster=owner, control_plane=kcp.metadata.name, random=self.random)
            if self.clients.caches.machines.get(kcp.metadata.namespace, name) is None:
                return name

    async def _set_finalizer(self, observation: Observation, *, present: bool) -> None:
        metadata = observation.kcp.metadata
        finalizers = [finalizer for finalizer in metadata.finalizers if finalizer != Finalizer.KUBEADM_CONTROL_PLANE]
        finalizers += [Finalizer.KUBEADM_CONTROL_PLANE] if present else []
        patch = {"metadata": {"resourceVersion": metadata.resource_version, "finalizers": finalizers}}
        try:
            written = await self.clients.management.merge_patch(
                KUBEADM_CONTROL_PLANES, metadata.name, patch, metadata.namespace, field_manager=FieldManager.DEFAULT
            )
        except NotFound:
            written = None
        if present and written is not None:
            self._await_cache(observation, self.clients.caches.kcps, written.metadata.resource_version)
        elif not present and observation.cluster is not None:  # gone already, too: this very observation may have connected again
            self.clients.workloads.forget(observation.cluster.metadata.namespace, observation.cluster.metadata.name)

    async def _delete(self, observation: Observation, replica: str) -> None:
        """Delete the Machine as it was judged: by now it may have lost our hook, and would take its member along.

        Nobody can take a deletion back, so the gate stands before this one too: the ring may have stopped answering since it was read.
        """
        machine, member = _machine(observation, replica), _view(observation).replica(replica).member
        if isinstance(observation.ring, Ring) and isinstance(member, int):
            ring = await self._pass_the_gate(observation, replica, member)
            await self._pass_leadership_on(observation, replica, ring)
        await self._delete_machine(observation, machine, resource_version=machine.metadata.resource_version)

    async def _delete_machine(self, observation: Observation, machine: Machine, *, resource_version: str = "") -> None:
        metadata = machine.metadata
        try:
            deleted = await self.clients.management.delete(
                MACHINES, metadata.name, metadata.namespace, uid=metadata.uid, resource_version=resource_version
            )
        except NotFound:
            return
        version = deleted.metadata.resource_version if deleted else ""
        request = Request(metadata.namespace, observation.kcp.metadata.name)
        self.clients.expectations.expect_deleted(request, self.clients.caches.machines, machine, resource_version=version)

    async def _delete_all(self, observation: Observation, replicas: tuple[str, ...]) -> None:
        async with asyncio.TaskGroup() as tasks:
            for replica in replicas:
                tasks.create_task(self._take_down(observation, replica))

    async def _take_down(self, observation: Observation, replica: str) -> None:
        await self._release_hook(observation, replica)
        machine = _machine(observation, replica)
        if machine.metadata.deletion_timestamp is None:
            await self._delete_machine(observation, machine)

    async def _remove_member(self, observation: Observation, replica: str, member: int) -> None:
        """Ask the ring anew, pass leadership on, remove the member, release the Machine. The gate stands before each change of the ring."""
        ring = await self._pass_the_gate(observation, replica, member)
        if ring.leader == member:
            await self._pass_leadership_on(observation, replica, ring)
            ring = await self._pass_the_gate(observation, replica, member)
        if ring.member(member) is not None:
            await self._through_others(observation, replica, lambda client: _remove(client, member))
        await self._release_hook(observation, replica)

    async def _release(self, observation: Observation, replica: str) -> None:
        """Release a Machine without a member; one of a running ring only if that ring, read for this, has no member of its own now."""
        view = _view(observation)
        if view.initialized and view.desired.etcd_managed:
            reading = await self._fresh_reading(observation)
            member = match(reading, {machine.name: machine.node for machine in observation.machines}).of[replica]
            if not isinstance(member, Absent):
                raise Refused(f"{replica} is not proven to have no etcd member any more: {_member_text(member)}")
        await self._release_hook(observation, replica)

    async def _pass_the_gate(self, observation: Observation, replica: str, member: int) -> Ring:
        """The ring as it is now, if it can do without the member by the very check that the decision rests on. Raises Refused."""
        ring = (await self._fresh_reading(observation)).ring
        view = replace(_view(observation), ring=ring)
        check = quorum_survives_removal(view, replace(view.replica(replica), member=member))
        if not check.passed:
            raise Refused(f"{check.name}: {check.evidence}")
        return ring

    async def _fresh_reading(self, observation: Observation) -> RingReading:
        try:
            async with asyncio.timeout(LIMIT):
                reading = await self._workload(observation).read_ring(_nodes(observation))
        except TimeoutError:
            reading = Unknown(f"no answer within {LIMIT:g} s")
        if isinstance(reading, Unknown):
            raise Refused(f"the ring could not be read at the instant of acting: {reading.reason}")
        return reading

    async def _pass_leadership_on(self, observation: Observation, replica: str, ring: Ring) -> None:
        """Hand leadership to a member that stays, if the replica's holds it.

        Best effort: where it fails and the ring stands the loss, etcd elects a new leader by itself once the member is gone.
        """
        node = next((machine.node for machine in observation.machines if machine.name == replica), None)
        if node is None or ring.leader is None or ring.leader != _view(observation).replica(replica).member:
            return
        for successor in _successors(observation, replica, ring):
            try:
                async with self._workload(observation).etcd(node.metadata.name) as client:
                    await client.move_leader(successor)
            except (EtcdError, AccessUnavailable) as error:
                _log.warning("leadership was not passed on", machine=replica, to=f"{successor:x}", error=str(error))
            else:
                _log.info("leadership passed on", machine=replica, to=f"{successor:x}")
                return

    async def _through_others(self, observation: Observation, replica: str, change: Callable[[EtcdClient], Awaitable[None]]) -> None:
        """Make a change through the first member that takes it, of those on other Nodes."""
        failures: list[str] = []
        for machine in observation.machines:
            if machine.name == replica or machine.node is None:
                continue
            try:
                async with self._workload(observation).etcd(machine.node.metadata.name) as client:
                    await change(client)
            except (Unreachable, DeadlineExceeded, NoLeader) as error:  # done or not, a repeat does no harm
                failures.append(str(error))
            else:
                return
        raise Refused(f"no other member could be asked: {'; '.join(failures) or 'there is none'}")

    async def _release_hook(self, observation: Observation, replica: str) -> None:
        metadata = _machine(observation, replica).metadata
        patch = {"metadata": {"uid": metadata.uid, "annotations": {Hook.PRE_TERMINATE: None}}}
        try:
            written = await self.clients.management.merge_patch(
                MACHINES, replica, patch, metadata.namespace, field_manager=FieldManager.DEFAULT
            )
        except NotFound:
            return
        self._await_cache(observation, self.clients.caches.machines, written.metadata.resource_version)

    def _workload(self, observation: Observation) -> Workload[Client]:
        cluster = observation.cluster
        if cluster is None:
            raise ValueError("there is no Cluster")
        return self.clients.workloads.existing(cluster.metadata.namespace, cluster.metadata.name)

    def _await_cache(self, observation: Observation, store: Observed, resource_version: str) -> None:
        metadata = observation.kcp.metadata
        self.clients.expectations.expect_version(Request(metadata.namespace, metadata.name), store, resource_version)


async def _remove(client: EtcdClient, member: int) -> None:
    try:
        await client.remove_member(member)
    except MemberNotFound:
        return  # a repeat: it is gone, which is what was wanted


def _machine(observation: Observation, replica: str) -> Machine:
    return next(machine.machine for machine in observation.machines if machine.name == replica)


def _view(observation: Observation) -> ControlPlane:
    if observation.view is None:
        raise ValueError("there is no Cluster, so there is no step")
    return observation.view


def _member_text(member: int | Unknown) -> str:
    return member.reason if isinstance(member, Unknown) else f"member {member:x}"


def _nodes(observation: Observation) -> list[str]:
    return [machine.node.metadata.name for machine in observation.machines if machine.node]


def _successors(observation: Observation, replica: str, ring: Ring) -> list[int]:
    """Members that may lead next: voters of Machines that stay, the well ones first, then up-to-date ones, then the newest."""
    voters = {member.id: member for member in ring.members if not member.learner and member.name}
    staying = [r for r in _view(observation).staying if r.name != replica and isinstance(r.member, int) and r.member in voters]
    staying.sort(key=lambda r: r.created, reverse=True)
    staying.sort(key=lambda r: (voters[_id(r)].health is not Health.GOOD, bool(r.outdated)))
    return [_id(r) for r in staying]


def _id(replica: Replica) -> int:
    if not isinstance(replica.member, int):
        raise TypeError(f"{replica.name} has no known member")
    return replica.member
