"""Updates in place: the extension asked, and the five writes by which core is told to begin, in upstream's order.

1. the Machine is marked; 2. its infrastructure machine and 3. its KubeadmConfig get the specification that was approved, and the mark; 4. the Machine gets its
version; 5. the hook UpdateMachine is pending on it, and core may call the extension. Until the fifth nobody touches the host. A crash after any of them leaves
the mark: then the extension is asked anew about what there is by then, and the writes are made again, each to the same effect.
Source: cluster-api v1.14, kubeadmcontrolplane/inplace_trigger.go.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import structlog

from quorate.clusterapi.act import etcd_membership, permission
from quorate.clusterapi.act.refusal import Refused
from quorate.clusterapi.connect.clients import Clients
from quorate.clusterapi.connect.foreign import ForeignObject
from quorate.clusterapi.desired import objects as desired
from quorate.clusterapi.extensions.asking import CannotUpdate, Extensions, config_body, infrastructure_body
from quorate.clusterapi.observe import updates
from quorate.clusterapi.observe.observation import Observation, ObservedMachine
from quorate.clusterapi.types.kubeadm_config import KubeadmConfig
from quorate.clusterapi.types.machine import Machine
from quorate.clusterapi.types.names import UPDATE_MACHINE_HOOK, Annotation, FieldManager
from quorate.clusterapi.types.resources import KUBEADM_CONFIGS, MACHINES
from quorate.core.machines.checks import another_serves, quorum_survives_restart
from quorate.core.machines.state import Answer, ControlPlane, InPlace
from quorate.kubernetes.controller import Request
from quorate.kubernetes.resource import Resource

_log = structlog.get_logger(__name__)


async def ask(extensions: Extensions, seen: Observation, replica: str, clock: Callable[[], datetime]) -> InPlace:
    """Ask the extension about a replica and remember the answer, for the replica as it was seen. Raises nothing for what it answers."""
    observed = _observed(seen, replica)
    subject = updates.subject(seen.kcp, _cluster(seen), observed)
    answer = await extensions.ask(subject)
    uids = [machine.machine.metadata.uid for machine in seen.machines]
    extensions.remember(subject, seen.template, answer, among=uids, now=clock())
    _log.info(
        "asked about an update in place", machine=replica, extension=answer.extension, answer=answer.answer.name, reason=answer.reason
    )
    return answer


async def update(clients: Clients, extensions: Extensions, seen: Observation, replica: str, clock: Callable[[], datetime]) -> None:
    """Have core begin the update in place of a replica, or finish telling it. Idempotent.

    Asks the extension and the ring once more, and the ring again right before the write by which core may begin. Leadership moves before the first write.
    Raises Refused, Conflict where the Machine has changed, and what the API answers.
    """
    answer = await ask(extensions, seen, replica, clock)
    if answer.answer is not Answer.YES:
        raise Refused(f"{replica} is not updated in place: {answer.reason}")
    observed = _observed(seen, replica)
    if observed.config is None or observed.infrastructure is None:
        raise Refused(f"{replica} is not updated in place: its KubeadmConfig or its infrastructure machine is gone")
    view = await _gate(clients, seen, replica)
    await permission.still_asked_for(clients, seen)
    await etcd_membership.pass_leadership_on(clients, seen, view, replica)
    await _mark(clients, seen, await _still_alone(clients, seen, replica))
    await _write_infrastructure(clients, seen, observed.machine, observed.infrastructure)
    await _write_config(clients, seen, observed.config)
    await _write_machine(clients, seen, observed.machine)
    await _gate(clients, seen, replica)
    await _begin(clients, seen, await _still_alone(clients, seen, replica))


async def _gate(clients: Clients, seen: Observation, replica: str) -> ControlPlane:
    """The view with a ring that was read for this, if etcd and the API can do without the replica for a while. Raises Refused."""
    return await etcd_membership.pass_the_gate(
        clients,
        seen,
        lambda fresh: (quorum_survives_restart(fresh, fresh.replica(replica)), another_serves(fresh, fresh.replica(replica))),
    )


async def _still_alone(clients: Clients, seen: Observation, replica: str) -> Machine:
    """The Machine as it is now, if that is asked for still, nobody deletes it, and no other one is updated in place. Raises Refused."""
    live = await permission.still_asked_for(clients, seen)
    others = sorted(name for name, machine in live.machines.items() if name != replica and updates.update_of(machine))
    if others:
        raise Refused(f"{others[0]} is being updated in place: one at a time")
    machine = live.machines.get(replica)
    if machine is None or machine.metadata.deletion_timestamp is not None:
        raise Refused(f"{replica} is being deleted, or gone")
    return machine


async def _mark(clients: Clients, seen: Observation, machine: Machine) -> None:
    """The first write: from now on the update is begun. A merge patch, for core takes the mark away, and an apply would put it back."""
    if Annotation.UPDATE_IN_PROGRESS not in machine.metadata.annotations:
        await _annotate(clients, seen, machine, {Annotation.UPDATE_IN_PROGRESS: ""})


async def _write_infrastructure(clients: Clients, seen: Observation, machine: Machine, found: ForeignObject) -> None:
    """The second: first of the specifications, because the admission of infrastructure providers refuses most."""
    try:
        body = await infrastructure_body(clients, seen.kcp, found)
    except CannotUpdate as error:
        raise Refused(str(error)) from error
    reference = machine.spec.infrastructure_ref
    if reference is None:
        raise Refused(f"{machine.metadata.name} refers to no infrastructure machine")
    resource = await clients.caches.foreign.resource(reference.api_group, reference.kind)
    await _apply(clients, seen, resource, desired.companion_in_place(body, found.metadata, mark=True))


async def _write_config(clients: Clients, seen: Observation, found: KubeadmConfig) -> None:
    """The third. An `initConfiguration` that nobody owns, of Cluster API v1.11 or older, survives the apply and is taken away after it."""
    body = desired.companion_in_place(config_body(seen.kcp, found), found.metadata, mark=True)
    written = await _apply(clients, seen, KUBEADM_CONFIGS, body)
    if "initConfiguration" in written.spec:
        permission.still_leads(clients)
        patch = {"metadata": {"uid": found.metadata.uid}, "spec": {"initConfiguration": None}}
        name, namespace = found.metadata.name, found.metadata.namespace
        await clients.management.merge_patch(KUBEADM_CONFIGS, name, patch, namespace, field_manager=FieldManager.DEFAULT)


async def _write_machine(clients: Clients, seen: Observation, machine: Machine) -> None:
    """The fourth. The caches are waited for, too: what keeps Machines up to date would apply the version that they show."""
    body = desired.machine_in_place(seen.kcp, _cluster(seen), machine)
    written: Machine = await _apply(clients, seen, MACHINES, body)
    clients.applied.remember(machine.metadata.uid, body)
    clients.expectations.expect_version(_request(seen), clients.caches.machines, written.metadata.resource_version)


async def _begin(clients: Clients, seen: Observation, machine: Machine) -> None:
    """The fifth: core may call the extension from now on. `machine` was read right before: core has written its status since the mark."""
    if machine.spec.version != seen.kcp.spec.version:
        raise Refused(f"{machine.metadata.name} is at {machine.spec.version} by now, and not at {seen.kcp.spec.version}")
    pending = updates.pending_hooks(machine.metadata.annotations.get(Annotation.PENDING_HOOKS, ""))
    await _annotate(clients, seen, machine, {Annotation.PENDING_HOOKS: ",".join(sorted(pending | {UPDATE_MACHINE_HOOK}))})


async def _annotate(clients: Clients, seen: Observation, machine: Machine, annotations: dict[str, str]) -> None:
    """Annotate the Machine as it was read, and have the next decision wait until the cache shows it."""
    permission.still_leads(clients)
    metadata = machine.metadata
    patch = {"metadata": {"uid": metadata.uid, "resourceVersion": metadata.resource_version, "annotations": annotations}}
    written = await clients.management.merge_patch(MACHINES, metadata.name, patch, metadata.namespace, field_manager=FieldManager.DEFAULT)
    clients.expectations.expect_version(_request(seen), clients.caches.machines, written.metadata.resource_version)


async def _apply(clients: Clients, seen: Observation, resource: Resource[Any], body: desired.Object) -> Any:
    permission.still_leads(clients)
    namespace = seen.kcp.metadata.namespace
    return await clients.management.apply(resource, body, namespace, field_manager=FieldManager.KUBEADM_CONTROL_PLANE)


def _observed(seen: Observation, name: str) -> ObservedMachine:
    return next(machine for machine in seen.machines if machine.name == name)


def _cluster(seen: Observation) -> str:
    if seen.cluster is None:
        raise ValueError("there is no Cluster, so there is nothing to update")
    return seen.cluster.metadata.name


def _request(seen: Observation) -> Request:
    return Request(seen.kcp.metadata.namespace, seen.kcp.metadata.name)
