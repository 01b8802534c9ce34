"""Carry out one step. Each is idempotent: it may be repeated after a crash at any point, and a repeat does what is left to do.

What destroys asks etcd again, linearizably, at the instant of acting, and passes the same check once more (`etcd_membership`); the gate of `decide` spoke of
what was read before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from random import Random
from typing import assert_never

from quorate.clusterapi import (
    addons,
    adoption,
    authorities,
    control_plane_writes,
    creation,
    etcd_membership,
    intent,
    permission,
    remediation,
)
from quorate.clusterapi.clients import Clients
from quorate.clusterapi.machine_writes import delete_as_judged, delete_machine, machine_of, release_hook
from quorate.clusterapi.observation import Observation
from quorate.core.steps import (
    AbandonCreation,
    AddFinalizer,
    AdoptReplicas,
    CreateReplica,
    DeleteAll,
    DeleteReplica,
    EnsureCertificates,
    ForgetRemediation,
    MoveCoreDNS,
    PrepareWorkload,
    RecordExpiries,
    RecordRemediation,
    ReleaseHook,
    Remediate,
    RemoveFinalizer,
    RemoveMember,
    RemoveStray,
    Step,
    UpdateAddons,
    WriteKubeconfig,
)
from quorate.kubeadm.names import machine_name


@dataclass(frozen=True, slots=True)
class Actor:
    """The hands. Of each write whose effect the next decision must see, the caches are awaited before that decision is made."""

    clients: Clients
    random: Random
    clock: Callable[[], datetime]

    async def perform(self, step: Step, observation: Observation) -> None:
        """Carry out `step` for the control plane observed. Raises what the API or etcd answered, or Refused."""
        permission.still_leads(self.clients)
        match step:
            case AddFinalizer():
                await control_plane_writes.add_finalizer(self.clients, observation.kcp)
            case RemoveFinalizer():
                await self._remove_finalizer(observation)
            case EnsureCertificates(purposes):
                await authorities.create(self.clients, observation, purposes, self.clock())
            case WriteKubeconfig(rotate):
                await authorities.write_kubeconfig(self.clients, observation, renew=rotate, now=self.clock())
            case CreateReplica() | AbandonCreation() | AdoptReplicas():
                await self._gain(step, observation)
            case DeleteReplica() | DeleteAll() | RemoveMember() | ReleaseHook() | RemoveStray():
                await self._lose(step, observation)
            case Remediate() | RecordRemediation() | ForgetRemediation():
                await self._remediate(step, observation)
            case PrepareWorkload() | MoveCoreDNS() | UpdateAddons() | RecordExpiries():
                await self._keep_up(step, observation)
            case _:
                assert_never(step)

    async def _gain(self, step: CreateReplica | AbandonCreation | AdoptReplicas, observation: Observation) -> None:
        match step:
            case CreateReplica(failure_domain, initialize):
                planned = intent.Intent(self._new_name(observation), initialize, failure_domain)
                await creation.create(self.clients, observation, planned, self.random, self.clock())
            case AbandonCreation(name):
                await creation.abandon(self.clients, observation, name)
            case AdoptReplicas(replicas):
                await adoption.adopt(self.clients, observation, replicas)

    async def _lose(self, step: DeleteReplica | DeleteAll | RemoveMember | ReleaseHook | RemoveStray, observation: Observation) -> None:
        match step:
            case DeleteReplica(replica):
                await self._delete(observation, replica)
            case DeleteAll(replicas):
                await self._delete_all(observation, replicas)
            case RemoveMember(replica, member):
                await etcd_membership.remove_member(self.clients, observation, replica, member)
            case ReleaseHook(replica):
                await etcd_membership.release(self.clients, observation, replica)
            case RemoveStray(member):
                await etcd_membership.remove_stray(self.clients, observation, member, self.clock())

    async def _remediate(self, step: Remediate | RecordRemediation | ForgetRemediation, observation: Observation) -> None:
        match step:
            case Remediate(replica, retries):
                await remediation.remediate(self.clients, observation, replica, retries, self.clock())
            case RecordRemediation():
                await remediation.record(self.clients, observation)
            case ForgetRemediation():
                await remediation.forget(self.clients, observation)

    async def _keep_up(self, step: PrepareWorkload | MoveCoreDNS | UpdateAddons | RecordExpiries, observation: Observation) -> None:
        match step:
            case PrepareWorkload():
                await addons.prepare(self.clients, observation, self.clock())
            case MoveCoreDNS(replica):
                await addons.move_coredns(self.clients, observation, replica, self.clock())
            case UpdateAddons():
                await addons.update(self.clients, observation, self.clock())
            case RecordExpiries(replicas):
                await addons.record_expiries(self.clients, observation, replicas, self.clock())

    def _new_name(self, observation: Observation) -> str:
        """A name that no Machine of the namespace has, nor one that was begun; the intent keeps it until the Machine exists."""
        kcp, cluster = observation.kcp, observation.cluster
        begun = intent.read(kcp.metadata.annotations)
        owner = cluster.metadata.name if cluster else ""
        while True:
            name = machine_name(kcp.spec.machine_naming.template, cluster=owner, control_plane=kcp.metadata.name, random=self.random)
            if self.clients.caches.machines.get(kcp.metadata.namespace, name) is None and (begun is None or begun.name != name):
                return name

    async def _remove_finalizer(self, observation: Observation) -> None:
        await control_plane_writes.remove_finalizer(self.clients, observation.kcp)
        if observation.cluster is not None:  # where the control plane was gone already, too: this very observation may have connected again
            self.clients.workloads.forget(observation.cluster.metadata.namespace, observation.cluster.metadata.name)

    async def _delete(self, observation: Observation, replica: str) -> None:
        """Delete the Machine as it was judged: by now it may have lost our hook, and would take its member along.

        Nobody can take a deletion back, so the gate stands before this one too: the ring may have stopped answering since it was read. And what is asked for
        may have changed: a remediation learns that from the record that it writes before.
        """
        await etcd_membership.still_uninitialized(self.clients, observation)
        view = await etcd_membership.pass_the_gate(self.clients, observation, lambda fresh: etcd_membership.may_be_deleted(fresh, replica))
        await permission.still_asked_for(self.clients, observation)
        await etcd_membership.pass_leadership_on(self.clients, observation, view, replica)
        await delete_as_judged(self.clients, observation, replica)

    async def _delete_all(self, observation: Observation, replicas: tuple[str, ...]) -> None:
        await permission.still_permitted(self.clients, observation)
        async with asyncio.TaskGroup() as tasks:
            for replica in replicas:
                tasks.create_task(self._take_down(observation, replica))

    async def _take_down(self, observation: Observation, replica: str) -> None:
        await release_hook(self.clients, observation, replica)
        machine = machine_of(observation, replica)
        if machine.metadata.deletion_timestamp is None:
            await delete_machine(self.clients, observation, machine)
