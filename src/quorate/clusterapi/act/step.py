"""Carry out one step. Each is idempotent: it may be repeated after a crash at any point, and a repeat does what is left to do.

What destroys asks etcd again, linearizably, right before the step, and passes the same check once more (`etcd_membership`); the gate of `decide` spoke of
what was read before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from random import Random
from typing import Any, TypeVar

from quorate.clusterapi.act import (
    addons,
    adoption,
    cluster_secrets,
    control_plane_writes,
    creation,
    etcd_membership,
    in_place,
    permission,
    remediation,
)
from quorate.clusterapi.act.machine_writes import delete_as_judged, delete_machine, release_hook
from quorate.clusterapi.act.refusal import Refused
from quorate.clusterapi.connect.clients import Clients
from quorate.clusterapi.desired import intent
from quorate.clusterapi.extensions.asking import Extensions
from quorate.clusterapi.observe.observation import Observation
from quorate.clusterapi.types.machine import Machine
from quorate.core.machines.steps import (
    AbandonCreation,
    AddFinalizer,
    AdoptReplicas,
    AskExtension,
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
    RemoveOrphan,
    Step,
    UpdateAddons,
    UpdateInPlace,
    WriteKubeconfig,
)
from quorate.kubeadm.names import machine_name


@dataclass(frozen=True, slots=True)
class Actor:
    """Carries out steps. Of each write whose effect the next decision must see, the caches are awaited before that decision is made."""

    clients: Clients
    random: Random
    clock: Callable[[], datetime]
    extensions: Extensions | None = None  # None: Machines are not updated in place

    async def perform(self, step: Step, observation: Observation) -> None:
        """Carry out `step` for the control plane observed. Raises what the API or etcd answered, or Refused."""
        permission.still_leads(self.clients)
        await HANDLERS[type(step)](self, step, observation)


async def _create(actor: Actor, step: CreateReplica, seen: Observation) -> None:
    planned = intent.Intent(_new_name(actor, seen), step.initialize, step.failure_domain)
    await creation.create(actor.clients, seen, planned, actor.random, actor.clock())


def _new_name(actor: Actor, seen: Observation) -> str:
    """A name that no Machine of the namespace has, nor one that was begun; the intent keeps it until the Machine exists."""
    kcp, begun = seen.kcp, intent.read(seen.kcp.metadata.annotations)
    owner = seen.cluster.metadata.name if seen.cluster else ""
    while True:
        name = machine_name(kcp.spec.machine_naming.template, cluster=owner, control_plane=kcp.metadata.name, random=actor.random)
        if actor.clients.caches.machines.get(kcp.metadata.namespace, name) is None and (begun is None or begun.name != name):
            return name


async def _delete(actor: Actor, step: DeleteReplica, seen: Observation) -> None:
    """Delete the Machine as it was judged: by now it may have lost our hook, and would take its member along.

    Nobody can take a deletion back, so the gate stands before this one too: the ring may have stopped answering since it was read. And what is asked for
    may have changed, or be changed while leadership moves.
    """
    view = await etcd_membership.pass_the_gate(actor.clients, seen, lambda fresh: etcd_membership.may_be_deleted(fresh, step.replica))
    await permission.still_asked_for(actor.clients, seen)
    await etcd_membership.pass_leadership_on(actor.clients, seen, view, step.replica)
    await delete_as_judged(actor.clients, seen, step.replica)


async def _ask_extension(actor: Actor, step: AskExtension, seen: Observation) -> None:
    await in_place.ask(_extensions(actor), seen, step.replica, actor.clock)


async def _update_in_place(actor: Actor, step: UpdateInPlace, seen: Observation) -> None:
    await in_place.update(actor.clients, _extensions(actor), seen, step.replica, actor.clock)


def _extensions(actor: Actor) -> Extensions:
    if actor.extensions is None:
        raise Refused("the feature gate InPlaceUpdates is off")
    return actor.extensions


async def _delete_all(actor: Actor, step: DeleteAll, seen: Observation) -> None:
    ours = await permission.still_taken_down(actor.clients, seen)
    async with asyncio.TaskGroup() as tasks:
        for machine in (ours[replica] for replica in step.replicas if replica in ours):
            tasks.create_task(_take_down(actor, machine, seen))


async def _take_down(actor: Actor, machine: Machine, seen: Observation) -> None:
    """Let a Machine go and delete it, as it is now: somebody may give it to another control plane meanwhile."""
    version = await release_hook(actor.clients, seen, machine)
    if machine.metadata.deletion_timestamp is None:
        await delete_machine(actor.clients, seen, machine, resource_version=version)


async def _remove_finalizer(actor: Actor, _step: RemoveFinalizer, seen: Observation) -> None:
    await permission.still_taken_down(actor.clients, seen)
    await control_plane_writes.remove_finalizer(actor.clients, seen.kcp)


S = TypeVar("S", bound=Step)
Handler = Callable[[Actor, S, Observation], Awaitable[None]]


def _on(kind: type[S], handler: Handler[S]) -> tuple[type[Any], Handler[Any]]:
    """An entry of the table, whose handler takes that very step."""
    return kind, handler


HANDLERS: Mapping[type[Step], Handler[Any]] = dict(
    (
        _on(AddFinalizer, lambda actor, _, seen: control_plane_writes.add_finalizer(actor.clients, seen.kcp)),
        _on(RemoveFinalizer, _remove_finalizer),
        _on(EnsureCertificates, lambda actor, step, seen: cluster_secrets.create(actor.clients, seen, step.purposes, actor.clock())),
        _on(
            WriteKubeconfig,
            lambda actor, step, seen: cluster_secrets.write_kubeconfig(actor.clients, seen, renew=step.rotate, now=actor.clock()),
        ),
        _on(CreateReplica, _create),
        _on(AbandonCreation, lambda actor, step, seen: creation.abandon(actor.clients, seen, step.name)),
        _on(AdoptReplicas, lambda actor, step, seen: adoption.adopt(actor.clients, seen, step.replicas)),
        _on(DeleteReplica, _delete),
        _on(AskExtension, _ask_extension),
        _on(UpdateInPlace, _update_in_place),
        _on(DeleteAll, _delete_all),
        _on(RemoveMember, lambda actor, step, seen: etcd_membership.remove_member(actor.clients, seen, step.replica, step.member)),
        _on(ReleaseHook, lambda actor, step, seen: etcd_membership.release(actor.clients, seen, step.replica)),
        _on(RemoveOrphan, lambda actor, step, seen: etcd_membership.remove_orphan(actor.clients, seen, step.member, actor.clock())),
        _on(Remediate, lambda actor, step, seen: remediation.remediate(actor.clients, seen, step.replica, step.retries, actor.clock())),
        _on(RecordRemediation, lambda actor, _, seen: remediation.record(actor.clients, seen)),
        _on(ForgetRemediation, lambda actor, _, seen: remediation.forget(actor.clients, seen)),
        _on(PrepareWorkload, lambda actor, _, seen: addons.prepare(actor.clients, seen, actor.clock())),
        _on(MoveCoreDNS, lambda actor, step, seen: addons.move_coredns(actor.clients, seen, step.replica, actor.clock())),
        _on(UpdateAddons, lambda actor, _, seen: addons.update(actor.clients, seen, actor.clock())),
        _on(RecordExpiries, lambda actor, step, seen: addons.record_expiries(actor.clients, seen, step.replicas, actor.clock())),
    )
)
"""How each step is carried out; every one there is has its entry (`tests/clusterapi/loop/test_act.py`)."""
