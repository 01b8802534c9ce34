"""What the management cluster says, kept in memory by watches, and the keys of the control planes that each change concerns."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random
from typing import Any, TypeVar

import msgspec

from quorate.clusterapi.api.bootstrap_schema import BootstrapSchema
from quorate.clusterapi.connect.applied import Applied
from quorate.clusterapi.connect.foreign import ForeignKinds, ForeignObject
from quorate.clusterapi.connect.newest import Newest
from quorate.clusterapi.types.cluster import Cluster
from quorate.clusterapi.types.extension_config import ExtensionConfig
from quorate.clusterapi.types.kubeadm_config import KubeadmConfig
from quorate.clusterapi.types.kubeadm_control_plane import KubeadmControlPlane
from quorate.clusterapi.types.machine import Machine
from quorate.clusterapi.types.names import KUBEADM_CONTROL_PLANE_KIND, Label
from quorate.clusterapi.types.names import Secret as SecretSuffix
from quorate.clusterapi.types.resources import (
    CLUSTER_GROUP,
    CLUSTERS,
    EXTENSION_CONFIGS,
    KUBEADM_CONFIGS,
    KUBEADM_CONTROL_PLANES,
    MACHINE_POOLS,
    MACHINES,
)
from quorate.kubernetes.client import Client
from quorate.kubernetes.controller import Request
from quorate.kubernetes.handlers import Adder, Enqueue, Handler, Predicate, group_of
from quorate.kubernetes.objects import Namespace, ObjectMeta, Secret
from quorate.kubernetes.reflector import Reflector
from quorate.kubernetes.resource import NAMESPACES, SECRETS, Resource
from quorate.kubernetes.store import Store

T = TypeVar("T")

BY_CLUSTER = "cluster"
"""Index of control planes, Machines, MachinePools and Secrets: `namespace/name` of the Cluster that the object belongs to."""
BY_OWNER = "owner"
"""Index of what is made for a Machine, KubeadmConfigs and foreign kinds: the uids of its owners, which it has before it has the label of a Cluster."""

_KEPT = tuple(
    f"-{suffix}"
    for suffix in (
        SecretSuffix.CLUSTER_CA,
        SecretSuffix.ETCD_CA,
        SecretSuffix.FRONT_PROXY_CA,
        SecretSuffix.SERVICE_ACCOUNT,
        SecretSuffix.API_SERVER_ETCD_CLIENT,
        SecretSuffix.KUBECONFIG,
    )
)
_REPORTED_ON: tuple[Resource[Any], ...] = (KUBEADM_CONTROL_PLANES, MACHINES)
_APPLIED_TO: tuple[Resource[Any], ...] = (MACHINES, KUBEADM_CONFIGS)  # beside infrastructure machines


class Caches:
    """The stores and their reflectors. Changes add keys to `queue`. Runtime extensions, and the namespaces that they are for, are watched for in-place updates
    alone; without them these stores stay empty.
    """

    def __init__(
        self, client: Client, queue: Adder, random: Random, *, namespace: str = "", watch_filter: str = "", in_place_updates: bool = False
    ) -> None:
        self._client, self._queue, self._random, self._namespace = client, queue, random, namespace
        self._watch_filter = watch_filter
        self.reflectors: list[Reflector[Any]] = []
        self.applied = Applied()
        self.newest = Newest()
        self.bootstrap_schema = BootstrapSchema(client)
        self.kcps = self._store(KUBEADM_CONTROL_PLANES, _owner_clusters, self._of_itself, _kcp_facts, filtered=True)
        self.clusters = self._store(CLUSTERS, None, self._of_cluster_itself, _cluster_facts)
        self.machines = self._store(MACHINES, clusters_of, self._of_machines_cluster, _machine_facts)
        self.pools = self._store(MACHINE_POOLS, _label_cluster, self._of_its_cluster, _existence)
        self.configs = self._store(
            KUBEADM_CONFIGS, _owners, self._of_its_control_planes, _config_facts, index_name=BY_OWNER, selector=Label.CONTROL_PLANE
        )
        self.secrets = self._store(
            SECRETS, _label_cluster, self._of_its_cluster, _secret_facts, selector=Label.CLUSTER_NAME, keep=without_bootstrap_data
        )
        self.extension_configs: Store[ExtensionConfig] = Store()
        self.namespaces: Store[Namespace] = Store()
        if in_place_updates:
            self.extension_configs = self._store(EXTENSION_CONFIGS, None, self._of_all, _extension_facts)
            self.namespaces = self._store(NAMESPACES, None, self._of_its_namespace, _labels)
        self.foreign = ForeignKinds(client, random, self._foreign_handlers, indexes={BY_OWNER: _owners}, namespace=namespace)

    def control_planes_of(self, cluster: str) -> list[KubeadmControlPlane]:
        """The control planes of a Cluster (`namespace/name`): one, unless somebody made a mistake."""
        return self.kcps.by_index(BY_CLUSTER, cluster)

    def watches(self, kcp: KubeadmControlPlane) -> bool:
        """Whether the control plane, as it is labelled now, is one that this process works on."""
        return self._watch_filter in ("", kcp.metadata.labels.get(Label.WATCH_FILTER))

    def requests_of(self, cluster: str) -> list[Request]:
        """The keys of the control planes of a Cluster (`namespace/name`)."""
        return [Request(kcp.metadata.namespace, kcp.metadata.name) for kcp in self.control_planes_of(cluster)]

    def _store(
        self,
        resource: Resource[T],
        index: Callable[[T], Iterable[str]] | None,
        mapper: Callable[[T], Iterable[Request]],
        facts: Callable[[T], object],
        *,
        index_name: str = BY_CLUSTER,
        selector: str = "",
        filtered: bool = False,
        keep: Callable[[T], T] = lambda item: item,
    ) -> Store[T]:
        store: Store[T] = Store(indexes={index_name: index} if index else {})
        selectors = [selector] if selector else []
        if filtered and self._watch_filter:
            selectors.append(f"{Label.WATCH_FILTER}={self._watch_filter}")
        handlers: tuple[Handler[T], ...] = (Enqueue(self._queue, mapper, (_changed(facts),)),)
        if resource in _APPLIED_TO:
            handlers += (self.applied,)
        if resource in _REPORTED_ON:
            handlers += (self.newest,)
        self.reflectors.append(
            Reflector(
                self._client,
                resource,
                store,
                random=self._random,
                namespace=self._namespace,
                label_selector=",".join(selectors),
                handlers=handlers,
                keep=keep,
            )
        )
        return store

    def _foreign_handlers(self, kind: str) -> tuple[Handler[ForeignObject], ...]:
        if kind.endswith("Template"):
            return (Enqueue(self._queue, self._of_users, (_changed(_existence),)),)
        return Enqueue(self._queue, self._of_its_control_planes, (_changed(_foreign_facts),)), self.applied

    def _of_itself(self, kcp: KubeadmControlPlane) -> Iterable[Request]:
        """Its own, and those of others that want to be the control plane of the same Cluster."""
        others = (request for cluster in _owner_clusters(kcp) for request in self.requests_of(cluster))
        return dict.fromkeys((Request(kcp.metadata.namespace, kcp.metadata.name), *others))

    def _of_cluster_itself(self, cluster: Cluster) -> Iterable[Request]:
        return self.requests_of(f"{cluster.metadata.namespace}/{cluster.metadata.name}")

    def _of_machines_cluster(self, machine: Machine) -> Iterable[Request]:
        return dict.fromkeys(request for cluster in clusters_of(machine) for request in self.requests_of(cluster))

    def _of_its_cluster(self, item: Any) -> Iterable[Request]:
        return [request for cluster in _label_cluster(item) for request in self.requests_of(cluster)]

    def _of_its_control_planes(self, item: Any) -> Iterable[Request]:
        """Of those of its Cluster, and of those that own it: until its labels are written it says no Cluster."""
        meta: ObjectMeta = item.metadata
        owners = (self.kcps.get(meta.namespace, owner.name) for owner in meta.owner_references if owner.kind == KUBEADM_CONTROL_PLANE_KIND)
        named = (Request(owner.metadata.namespace, owner.metadata.name) for owner in owners if owner is not None)
        return dict.fromkeys((*self._of_its_cluster(item), *named))

    def _of_all(self, _config: ExtensionConfig) -> Iterable[Request]:
        return self._requests()

    def _requests(self) -> list[Request]:
        return [Request(kcp.metadata.namespace, kcp.metadata.name) for kcp in self.kcps.items()]

    def _of_its_namespace(self, namespace: Namespace) -> Iterable[Request]:
        return [request for request in self._requests() if request.namespace == namespace.metadata.name]

    def _of_users(self, template: ForeignObject) -> Iterable[Request]:
        meta = template.metadata
        return [
            Request(kcp.metadata.namespace, kcp.metadata.name)
            for kcp in self.kcps.items()
            if kcp.metadata.namespace == meta.namespace and kcp.spec.machine_template.spec.infrastructure_ref.name == meta.name
        ]


def owner_cluster(meta: ObjectMeta) -> str:
    """The name of the Cluster that owns an object; "" where none does yet."""
    owners = [owner for owner in meta.owner_references if owner.kind == "Cluster" and group_of(owner.api_version) == CLUSTER_GROUP]
    return owners[0].name if owners else ""


def clusters_of(machine: Machine) -> Iterable[str]:
    """`namespace/name` of the Cluster that a Machine belongs to, by its label or by its specification, which stays when somebody takes the label off.

    Where the two differ it counts for both: no cluster may be founded beside it.
    """
    metadata = machine.metadata
    names = (metadata.labels.get(Label.CLUSTER_NAME), machine.spec.cluster_name)
    return dict.fromkeys(f"{metadata.namespace}/{name}" for name in names if name)


def without_bootstrap_data(secret: Secret) -> Secret:
    """A Secret without its data, unless that is for us: bootstrap data is large, secret, and none of our business."""
    return secret if secret.metadata.name.endswith(_KEPT) else msgspec.structs.replace(secret, data={})


def _label_cluster(item: Any) -> Iterable[str]:
    meta: ObjectMeta = item.metadata
    name = meta.labels.get(Label.CLUSTER_NAME)
    return (f"{meta.namespace}/{name}",) if name else ()


def _owners(item: Any) -> Iterable[str]:
    meta: ObjectMeta = item.metadata
    return dict.fromkeys(owner.uid for owner in meta.owner_references)


def _owner_clusters(kcp: KubeadmControlPlane) -> Iterable[str]:
    name = owner_cluster(kcp.metadata)
    return (f"{kcp.metadata.namespace}/{name}",) if name else ()


def _changed(facts: Callable[[T], object]) -> Predicate[T]:
    """An update counts only when one of the facts that a decision or a report reads has changed; our own status writes, above all, do not."""
    return lambda old, new: old is None or new is None or facts(old) != facts(new)


def _common(meta: ObjectMeta) -> tuple[object, ...]:
    return meta.labels, meta.annotations, meta.owner_references, meta.finalizers, meta.deletion_timestamp


def _existence(_item: Any) -> object:
    return None


def _kcp_facts(kcp: KubeadmControlPlane) -> object:
    """The specification beside its generation: after a restore of the management cluster another one may have the same."""
    return kcp.spec, kcp.metadata.generation, *_common(kcp.metadata)


def _cluster_facts(cluster: Cluster) -> object:
    """The specification beside its generation, as of control planes."""
    return (
        cluster.spec,
        cluster.metadata.generation,
        cluster.metadata.annotations,
        cluster.status.initialization,
        cluster.status.failure_domains,
    )


def _machine_facts(machine: Machine) -> object:
    """Everything of a control-plane Machine but the conditions that we write ourselves; of a worker, that it is there."""
    metadata = machine.metadata
    if Label.CONTROL_PLANE not in metadata.labels and all(owner.kind != KUBEADM_CONTROL_PLANE_KIND for owner in metadata.owner_references):
        return None
    status = machine.status
    theirs = [(condition.type, condition.status, condition.reason) for condition in status.conditions if condition.type in _READ]
    return machine.spec, *_common(machine.metadata), theirs, status.node_ref, status.node_info, status.certificates_expiry_date


_READ = frozenset({"Ready", "Available", "Deleting", "HealthCheckSucceeded", "OwnerRemediated", "Updating"})


def _extension_facts(config: ExtensionConfig) -> object:
    """The specification beside its generation, as of control planes."""
    return config.spec, config.metadata.generation, config.metadata.deletion_timestamp, config.status


def _labels(namespace: Namespace) -> object:
    return namespace.metadata.labels


def _config_facts(config: KubeadmConfig) -> object:
    return config.spec, config.metadata.generation, *_common(config.metadata)


def _secret_facts(secret: Secret) -> object:
    return secret.data, secret.type, secret.metadata.owner_references, secret.metadata.deletion_timestamp


def _foreign_facts(item: ForeignObject) -> object:
    return item.provider_id, *_common(item.metadata)


def is_ours(meta: ObjectMeta, kcp: KubeadmControlPlane) -> bool:
    """Whether the control plane is the controller of an object."""
    return any(
        owner.controller and owner.kind == KUBEADM_CONTROL_PLANE_KIND and owner.uid == kcp.metadata.uid for owner in meta.owner_references
    )
