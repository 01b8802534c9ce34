"""Whose the control-plane Machines of a cluster are, and becoming the owner of those that are nobody's.

A stand-alone Machine, one made with its KubeadmConfig by hand, is adopted with the Secrets that its KubeadmConfig owns; its hook, labels and readiness gates
follow with the upkeep of Machines. Source: cluster-api, controlplane/kubeadm/reconcilers/kubeadmcontrolplane/kubeadmcontrolplane_controller.go (adoptMachines).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from quorate.clusterapi import desired
from quorate.clusterapi.caches import BY_CLUSTER, is_ours
from quorate.clusterapi.clients import Clients
from quorate.clusterapi.observation import Observation
from quorate.clusterapi.refusal import Refused
from quorate.clusterapi.types.cluster import Cluster
from quorate.clusterapi.types.kubeadm_config import KubeadmConfig
from quorate.clusterapi.types.kubeadm_control_plane import KubeadmControlPlane
from quorate.clusterapi.types.machine import Machine
from quorate.clusterapi.types.names import FieldManager, Label
from quorate.clusterapi.types.resources import KUBEADM_CONFIGS, KUBEADM_CONTROL_PLANES, MACHINES
from quorate.core.control_plane import Adoptable
from quorate.core.versions import minor_distance, parse_or_none
from quorate.kubernetes.controller import Request
from quorate.kubernetes.errors import NotFound
from quorate.kubernetes.objects import ObjectMeta, Secret
from quorate.kubernetes.resource import SECRETS, Resource

MOST_MINORS = 1
"""How many minor versions a Machine may be away from the control plane that adopts it."""


@dataclass(frozen=True, slots=True)
class Ownership:
    """The control-plane Machines of a cluster, by whose they are."""

    ours: tuple[Machine, ...]
    adoptable: tuple[Adoptable, ...]  # nobody's, by name; none while the control plane is being deleted, when nothing is adopted any more
    foreign: tuple[str, ...]  # somebody else's, by name


def is_of_control_plane(machine: Machine, kcp: KubeadmControlPlane) -> bool:
    """Whether it is a control-plane Machine: it has the label, whatever its value, as for all of Cluster API; or the control plane's own has lost it."""
    return Label.CONTROL_PLANE in machine.metadata.labels or is_ours(machine.metadata, kcp)


def ownership(control_plane: Iterable[Machine], kcp: KubeadmControlPlane) -> Ownership:
    """Tell them apart by the controller among their owners. Pure."""
    everyone = sorted(control_plane, key=lambda machine: machine.metadata.name)
    others = [machine for machine in everyone if not is_ours(machine.metadata, kcp)]
    return Ownership(
        ours=tuple(machine for machine in everyone if is_ours(machine.metadata, kcp)),
        adoptable=()
        if kcp.metadata.deletion_timestamp
        else tuple(Adoptable(machine.metadata.name, _problem(machine, kcp)) for machine in others if not _is_controlled(machine)),
        foreign=tuple(machine.metadata.name for machine in others if _is_controlled(machine)),
    )


def _is_controlled(machine: Machine) -> bool:
    return any(owner.controller for owner in machine.metadata.owner_references)


def _problem(machine: Machine, kcp: KubeadmControlPlane) -> str:
    """Why the Machine cannot be adopted; empty where it can. A Machine without a version is its owner's word that it fits."""
    reference = machine.spec.bootstrap.config_ref
    if machine.metadata.deletion_timestamp is not None:
        return "it is being deleted"
    if reference is None or reference.kind != KUBEADM_CONFIGS.kind:
        return f"its spec.bootstrap.configRef names {f'a {reference.kind}' if reference else 'nothing'}, not a {KUBEADM_CONFIGS.kind}"
    if machine.spec.infrastructure_ref is None:
        return "its spec.infrastructureRef names nothing"
    ours, its = parse_or_none(kcp.spec.version), parse_or_none(machine.spec.version)
    if not machine.spec.version or ours is None:
        return ""
    if its is None:
        return f"its version {machine.spec.version!r} is not one"
    distance = minor_distance(ours, its)
    if distance is None or abs(distance) > MOST_MINORS:
        return f"its version {its} is more than {MOST_MINORS} minor version away from {ours}, which the control plane asks for"
    return ""


async def adopt(clients: Clients, observation: Observation, names: Sequence[str]) -> None:
    """Become the controller of these Machines and of the Secrets that their KubeadmConfigs own. Idempotent; the Machine's owner is written last.

    Whether the control plane still lives is asked of the API itself: the garbage collector may just have orphaned these Machines because it was deleted.
    Raises Refused where it does not, or where a KubeadmConfig is missing, and Conflict where a Machine has changed since it was read.
    """
    kcp, cluster = observation.kcp, observation.cluster
    if cluster is None:
        raise ValueError("nothing is adopted without a Cluster")
    await _still_lives(clients, kcp)
    async with asyncio.TaskGroup() as tasks:
        for name in names:
            tasks.create_task(_adopt(clients, kcp, cluster, name))


async def _still_lives(clients: Clients, kcp: KubeadmControlPlane) -> None:
    current = await clients.management.get(KUBEADM_CONTROL_PLANES, kcp.metadata.name, kcp.metadata.namespace)
    if current.metadata.uid != kcp.metadata.uid or current.metadata.deletion_timestamp is not None:
        raise Refused(
            f"KubeadmControlPlane {kcp.metadata.namespace}/{kcp.metadata.name} has just been deleted, so that it adopts nothing any more"
        )


async def _adopt(clients: Clients, kcp: KubeadmControlPlane, cluster: Cluster, name: str) -> None:
    machine = clients.caches.machines.get(kcp.metadata.namespace, name)
    if machine is None or machine.spec.bootstrap.config_ref is None or is_ours(machine.metadata, kcp):
        return
    config = await _config(clients, machine, machine.spec.bootstrap.config_ref.name)
    for secret in _secrets_of(clients, cluster, config, machine):
        others = [owner for owner in msgspec.to_builtins(secret.metadata.owner_references) if owner["uid"] != config.metadata.uid]
        await _own(clients, kcp, SECRETS, secret.metadata, others)
    await _label(clients, kcp, cluster, config)
    written = await _own(clients, kcp, MACHINES, machine.metadata, msgspec.to_builtins(machine.metadata.owner_references))
    request = Request(kcp.metadata.namespace, kcp.metadata.name)
    clients.expectations.expect_version(request, clients.caches.machines, written.metadata.resource_version)


async def _config(clients: Clients, machine: Machine, name: str) -> KubeadmConfig:
    try:
        return await clients.management.get(KUBEADM_CONFIGS, name, machine.metadata.namespace)
    except NotFound:
        raise Refused(
            f"Machine {machine.metadata.name} cannot be adopted: its KubeadmConfig {machine.metadata.namespace}/{name} does not exist"
        ) from None


def _secrets_of(clients: Clients, cluster: Cluster, config: KubeadmConfig, machine: Machine) -> list[Secret]:
    """The Secrets that the KubeadmConfig owns, but for the one with the Machine's bootstrap data, which stays its own."""
    secrets = clients.caches.secrets.by_index(BY_CLUSTER, f"{cluster.metadata.namespace}/{cluster.metadata.name}")
    return [
        secret
        for secret in secrets
        if secret.metadata.name != machine.spec.bootstrap.data_secret_name
        and any(owner.uid == config.metadata.uid for owner in secret.metadata.owner_references)
    ]


async def _label(clients: Clients, kcp: KubeadmControlPlane, cluster: Cluster, config: KubeadmConfig) -> None:
    """Give the KubeadmConfig the labels by which it is found from now on."""
    identity = {"apiVersion": KUBEADM_CONFIGS.api_version, "kind": KUBEADM_CONFIGS.kind, "metadata": {"name": config.metadata.name}}
    body = desired.companion_metadata(kcp, cluster.metadata.name, identity, config.metadata.uid)
    await clients.management.apply(KUBEADM_CONFIGS, body, kcp.metadata.namespace, field_manager=FieldManager.METADATA)


async def _own(
    clients: Clients, kcp: KubeadmControlPlane, resource: Resource[Any], metadata: ObjectMeta, others: list[dict[str, Any]]
) -> Any:
    owners = [*others, desired.owner_reference(kcp, controller=True)]
    patch = {"metadata": {"resourceVersion": metadata.resource_version, "uid": metadata.uid, "ownerReferences": owners}}
    return await clients.management.merge_patch(resource, metadata.name, patch, metadata.namespace, field_manager=FieldManager.DEFAULT)
