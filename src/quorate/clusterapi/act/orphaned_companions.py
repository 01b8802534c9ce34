"""Deletes KubeadmConfigs and infrastructure machines whose Machine went before Cluster API's Machine controller saw it: nothing else would.

That controller makes a Machine the owner of both, and deletes them with it. Until then the control plane owns them, and they would stay for as long as it does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import structlog

from quorate.clusterapi.act import permission
from quorate.clusterapi.act.companions import delete_as_read, is_the_control_planes_alone, machine_exists
from quorate.clusterapi.act.refusal import Refused
from quorate.clusterapi.connect.caches import BY_CLUSTER, BY_OWNER
from quorate.clusterapi.connect.clients import Clients
from quorate.clusterapi.connect.foreign import ContractMissing
from quorate.clusterapi.desired import intent
from quorate.clusterapi.desired.objects import kind_made_by
from quorate.clusterapi.observe.observation import Observation
from quorate.clusterapi.types.kubeadm_control_plane import KubeadmControlPlane
from quorate.clusterapi.types.machine import Machine
from quorate.clusterapi.types.names import Label
from quorate.clusterapi.types.resources import KUBEADM_CONFIGS
from quorate.kubernetes.errors import ApiError
from quorate.kubernetes.objects import ObjectMeta
from quorate.kubernetes.resource import Resource

_log = structlog.get_logger(__name__)

_Made = tuple[Resource[Any], ObjectMeta]


async def remove(clients: Clients, observation: Observation) -> None:
    """Delete what the control plane alone owns, labelled as for a Machine, where that is gone. Idempotent, and costs no request where there is nothing.

    So goes what a request made that arrived after its creation had been given up: nobody writes the label of the Cluster to that any more.

    The caches only nominate. Deleted is what is still as the cache has it (uid and resourceVersion), is not of a creation that is under way by the control
    plane as the API has it now, which is not paused, and whose Machine, asked for after that, does not exist: in this order, because an intent is recorded
    before anything is made and cleared after the Machine was. Infrastructure of a kind that the template has no more stays. Raises Conflict where something
    has changed: look again; and Refused where this process may lead no more.
    """
    kcp, cluster = observation.kcp, observation.cluster.metadata.name if observation.cluster else ""
    namespace = kcp.metadata.namespace
    machines = clients.caches.machines.by_index(BY_CLUSTER, f"{namespace}/{cluster}")
    needed = set(_companions(machines))
    configs = clients.caches.configs.by_index(BY_OWNER, kcp.metadata.uid)
    found: list[_Made] = [(KUBEADM_CONFIGS, config.metadata) for config in configs]
    for resource, metadata in found + await _infrastructure(clients, kcp):
        nominated = (resource.group, resource.kind, metadata.name) not in needed and _is_the_control_planes(metadata, kcp, cluster)
        if nominated and await _is_left_over(clients, observation, metadata.name):
            await delete_as_read(clients, resource, metadata)


def _companions(machines: Iterable[Machine]) -> Iterator[tuple[str, str, str]]:
    """What these Machines refer to: group, kind and name."""
    for machine in machines:
        for reference in (machine.spec.bootstrap.config_ref, machine.spec.infrastructure_ref):
            if reference is not None:
                yield reference.api_group, reference.kind, reference.name


async def _infrastructure(clients: Clients, kcp: KubeadmControlPlane) -> list[_Made]:
    """The infrastructure machines of the template's kind that the control plane owns; none where the kind is not to be had, which is reported elsewhere."""
    template = kcp.spec.machine_template.spec.infrastructure_ref
    kind = kind_made_by(template.kind)
    try:
        resource = await clients.caches.foreign.resource(template.api_group, kind)
        store = await clients.caches.foreign.store(template.api_group, kind)
    except (ContractMissing, TimeoutError, ApiError):
        return []
    return [(resource, item.metadata) for item in store.by_index(BY_OWNER, kcp.metadata.uid)]


def _is_the_control_planes(metadata: ObjectMeta, kcp: KubeadmControlPlane, cluster: str) -> bool:
    """Whether nobody but the control plane owns an object that was made for a Machine of its, in no other Cluster, and nobody is deleting it."""
    made_for_it = Label.CONTROL_PLANE in metadata.labels and metadata.labels.get(Label.CLUSTER_NAME, cluster) == cluster
    return is_the_control_planes_alone(metadata, kcp) and made_for_it and metadata.deletion_timestamp is None


async def _is_left_over(clients: Clients, observation: Observation, name: str) -> bool:
    """Whether this may still be written, no creation of this name is under way, and there is no Machine of it, by the API itself.

    What forbids it, such as a pause that the cache has yet to see, has the control plane looked at again as soon as the cache has seen it.
    """
    try:
        live = await permission.still_permitted(clients, observation)
    except Refused as error:
        _log.info("what is left over stays for now", name=name, reason=str(error))
        return False
    planned = intent.read(live.kcp.metadata.annotations)
    if planned is not None and planned.name == name:
        return False
    return not await machine_exists(clients, observation.kcp.metadata.namespace, name)
