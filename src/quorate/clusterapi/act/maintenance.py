"""Applies in place, without a decision, what the specification says of Machines and their companions: metadata, timeouts, taints and owners.

Each is written only when what is wanted has changed since it was written last. None of it touches what runs.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import msgspec
import structlog

from quorate.clusterapi.act import creation, managed_fields, orphaned_companions, permission
from quorate.clusterapi.act.control_plane_writes import patch_control_plane
from quorate.clusterapi.act.managed_fields import Owned
from quorate.clusterapi.act.refusal import Refused
from quorate.clusterapi.connect.caches import is_ours
from quorate.clusterapi.connect.clients import Clients
from quorate.clusterapi.connect.foreign import ContractMissing
from quorate.clusterapi.desired import objects as desired
from quorate.clusterapi.observe import initialization
from quorate.clusterapi.observe.machines import holds_hook
from quorate.clusterapi.observe.observation import Observation, ObservedMachine
from quorate.clusterapi.observe.orphans import consents, members_of_machines
from quorate.clusterapi.observe.updates import update_of
from quorate.clusterapi.types.cluster import Cluster
from quorate.clusterapi.types.kubeadm_control_plane import KubeadmControlPlane
from quorate.clusterapi.types.machine import Machine
from quorate.clusterapi.types.names import CLUSTER_SECRET_TYPE, FieldManager, Finalizer, Label
from quorate.clusterapi.types.resources import CLUSTERS, KUBEADM_CONFIGS, MACHINES
from quorate.core.machines.rules.orphans import CONSENT
from quorate.core.ring import Ring
from quorate.kubeadm.config import etcd_is_managed
from quorate.kubernetes.errors import NotFound
from quorate.kubernetes.objects import ObjectMeta
from quorate.kubernetes.resource import SECRETS, Resource
from quorate.pki import purposes

_log = structlog.get_logger(__name__)

_OLDER_VERSIONS = frozenset({"v1alpha3", "v1alpha4", "v1beta1"})


async def maintain(clients: Clients, observation: Observation) -> None:
    """Bring everything in place up to date, all at once, and what fails holds nothing else up. Idempotent; an object that has gone meanwhile is no
    error. Raises everything that failed as a group.

    Not while the garbage collector parts a control plane from its Machines: what got its owner back would go with it.
    """
    kcp, cluster = observation.kcp, observation.cluster
    if cluster is None or Finalizer.ORPHAN in kcp.metadata.finalizers:
        return
    ended = await asyncio.gather(
        *(_machine(clients, kcp, cluster, observed) for observed in observation.machines),
        _own_secrets(clients, observation, cluster),
        _own_template(clients, observation, cluster),
        creation.settle(clients, observation),
        _record_initialization(clients, observation),
        _forget_consent(clients, observation),
        orphaned_companions.remove(clients, observation),
        return_exceptions=True,
    )
    if failures := [failure for failure in ended if isinstance(failure, BaseException)]:
        raise BaseExceptionGroup("not everything could be brought up to date", failures)


async def _machine(clients: Clients, kcp: KubeadmControlPlane, cluster: Cluster, observed: ObservedMachine) -> None:
    if observed.deleting:
        await _timeouts_of_the_leaving(clients, kcp, observed.machine)
        return
    update = update_of(observed.machine)
    if update is not None and not update.started:
        return  # half of its update may be written: an older state of it, in the cache, would be put back
    name = cluster.metadata.name
    body = desired.updated_machine(kcp, name, observed.machine)
    if not holds_hook(observed.machine):
        clients.applied.forget(
            observed.machine.metadata.uid
        )  # somebody took the hook away: without it the member would be lost with the Machine
    await _apply(clients, MACHINES, body, observed.machine, FieldManager.KUBEADM_CONTROL_PLANE)
    if observed.config is not None:
        clients.applied.looked_for.discard(observed.machine.metadata.uid)
        await _companion(clients, kcp, name, KUBEADM_CONFIGS, observed.config)
    else:
        await _find_config(clients, kcp, name, observed.machine)
    if observed.infrastructure is not None and observed.machine.spec.infrastructure_ref is not None:
        reference = observed.machine.spec.infrastructure_ref
        resource = await clients.caches.foreign.resource(reference.api_group, reference.kind)
        await _companion(clients, kcp, name, resource, observed.infrastructure)


async def _find_config(clients: Clients, kcp: KubeadmControlPlane, cluster: str, machine: Machine) -> None:
    """Give a KubeadmConfig its labels again, without which the caches do not hold it, and its Machine counts as up to date. Looked for once."""
    reference, looked_for = machine.spec.bootstrap.config_ref, clients.applied.looked_for
    if reference is None or machine.metadata.uid in looked_for:
        return
    with suppress(NotFound):
        config = await clients.management.get(KUBEADM_CONFIGS, reference.name, machine.metadata.namespace)
        if Label.CONTROL_PLANE not in config.metadata.labels:
            await _companion(clients, kcp, cluster, KUBEADM_CONFIGS, config)
    looked_for.add(machine.metadata.uid)


async def _companion(clients: Clients, kcp: KubeadmControlPlane, cluster: str, resource: Resource[Any], found: Owned) -> None:
    identity = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": found.metadata.name}}
    body = desired.companion_metadata(kcp, cluster, identity, found.metadata.uid)
    await _apply(clients, resource, body, found, FieldManager.METADATA)


async def _apply(clients: Clients, resource: Resource[Any], body: desired.Object, found: Owned, field_manager: str) -> None:
    uid, name, namespace = found.metadata.uid, body["metadata"]["name"], body["metadata"]["namespace"]
    if clients.applied.is_current(uid, body):
        return
    if not clients.applied.knows(uid) and managed_fields.is_applied(found, body, manager=field_manager):
        clients.applied.remember(uid, body, found=True)  # else each start would cost 18 requests for a control plane of three
        return
    try:
        await managed_fields.put_right(clients.management, resource, name, namespace, manager=field_manager)
        await clients.management.apply(resource, body, namespace, field_manager=field_manager)
    except NotFound:
        return
    clients.applied.remember(uid, body)


async def _timeouts_of_the_leaving(clients: Clients, kcp: KubeadmControlPlane, machine: Machine) -> None:
    """A Machine that is being deleted still obeys changed time limits: that is how a user gets a stuck drain moving."""
    wanted = {key: value for key, value in msgspec.to_builtins(kcp.spec.machine_template.spec.deletion).items() if value is not None}
    current = msgspec.to_builtins(machine.spec.deletion)
    if wanted.items() <= current.items():
        return
    metadata = machine.metadata
    patch = {"metadata": {"uid": metadata.uid}, "spec": {"deletion": wanted}}
    try:
        await clients.management.merge_patch(MACHINES, metadata.name, patch, metadata.namespace, field_manager=FieldManager.DEFAULT)
    except NotFound:
        return


async def _own_secrets(clients: Clients, observation: Observation, cluster: Cluster) -> None:
    """Secrets that Cluster API made are the control plane's; a user's own never are. Those that name it do so by the current version."""
    kcp = observation.kcp
    external = not etcd_is_managed(kcp.spec.kubeadm_config_spec)
    for suffix in (*purposes(external_etcd=external), "kubeconfig"):
        secret = clients.caches.secrets.get(cluster.metadata.namespace, f"{cluster.metadata.name}-{suffix}")
        if secret is None:
            continue
        made, ours = secret.type == CLUSTER_SECRET_TYPE, is_ours(secret.metadata, kcp)
        if (made and not ours) or _is_outdated(secret.metadata, kcp.metadata.uid):
            await _set_owner(clients, observation, SECRETS, secret.metadata, desired.owner_reference(kcp, controller=made or ours))


async def _own_template(clients: Clients, observation: Observation, cluster: Cluster) -> None:
    """The template belongs to the Cluster, so that it moves and goes with it."""
    kcp = observation.kcp
    reference = kcp.spec.machine_template.spec.infrastructure_ref
    if not reference.kind.endswith("Template"):
        return
    try:
        store = await clients.caches.foreign.store(reference.api_group, reference.kind)
    except (ContractMissing, TimeoutError):
        return  # reported as a missing template already
    template = store.get(kcp.metadata.namespace, reference.name)
    if template is None:
        return
    owned = any(owner.uid == cluster.metadata.uid for owner in template.metadata.owner_references)
    if owned and not _is_outdated(template.metadata, cluster.metadata.uid):
        return
    owner = {"apiVersion": CLUSTERS.api_version, "kind": CLUSTERS.kind, "name": cluster.metadata.name, "uid": cluster.metadata.uid}
    resource = await clients.caches.foreign.resource(reference.api_group, reference.kind)
    await _set_owner(clients, observation, resource, template.metadata, owner)


def _is_outdated(metadata: ObjectMeta, uid: str) -> bool:
    """Whether a reference to this owner names it by an older version of Cluster API, which an API server stops to serve one day: the object then goes."""
    return any(owner.uid == uid and owner.api_version.rpartition("/")[2] in _OLDER_VERSIONS for owner in metadata.owner_references)


async def _set_owner(
    clients: Clients, observation: Observation, resource: Resource[Any], metadata: ObjectMeta, owner: dict[str, Any]
) -> None:
    """Have this owner in the place of an older reference to it and, where it is to be the controller, of any other controller.

    Only an owner that is there by the API: the garbage collector deletes what belongs to one that is gone, a cluster's CAs among it.
    """
    try:
        await permission.still_permitted(clients, observation)
    except Refused as error:
        _log.info("an owner is not set for now", kind=resource.kind, name=metadata.name, reason=str(error))
        return
    found = msgspec.to_builtins(metadata.owner_references)
    ours: dict[str, Any] = next((each for each in found if each["uid"] == owner["uid"]), {})
    others = [each for each in found if each["uid"] != owner["uid"] and not (owner.get("controller") and each.get("controller"))]
    patch = {"metadata": {"resourceVersion": metadata.resource_version, "ownerReferences": [*others, ours | owner]}}
    try:
        await clients.management.merge_patch(resource, metadata.name, patch, metadata.namespace, field_manager=FieldManager.DEFAULT)
    except NotFound:
        return


async def _record_initialization(clients: Clients, observation: Observation) -> None:
    """Put on record for good that the cluster is initialized. Once in its life."""
    if observation.initialized and initialization.ANNOTATION not in observation.kcp.metadata.annotations:
        await patch_control_plane(clients, observation.kcp, {"metadata": {"annotations": {initialization.ANNOTATION: "true"}}})


async def _forget_consent(clients: Clients, observation: Observation) -> None:
    """Take back the consent for members that are not in the ring any more, and for those that a Machine has: it would act when such a Machine's Node is lost.

    Where the ring was not read it stays. Raises Conflict: it may be another one by now.
    """
    asked, ring, view = consents(observation.kcp), observation.ring, observation.view
    if not asked or not isinstance(ring, Ring) or view is None:
        return
    valid = sorted(member for member in asked - members_of_machines(view).keys() if ring.member(member))
    if len(valid) < len(asked):
        consent = ",".join(f"{member:x}" for member in valid) or None
        seen = {"resourceVersion": observation.kcp.metadata.resource_version, "annotations": {CONSENT: consent}}
        await patch_control_plane(clients, observation.kcp, {"metadata": seen})
