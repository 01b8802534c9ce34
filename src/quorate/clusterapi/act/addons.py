"""Keeps a workload cluster to its control plane's specification: kubeadm's configuration and permissions, kube-proxy and CoreDNS, certificate expiries.

Each is looked at once for each specification and once after a start, not in every pass: nobody but the specification's author changes what is wanted.
What the cluster answers is not raised: it is kept as the problem of the Maintenance, so that it delays its own repetition (5 s to 5 min; a changed
specification is tried at once) and nothing else.
Source: cluster-api, controlplane/kubeadm/reconcilers/kubeadmcontrolplane: update.go, and reconcileCertificateExpiries.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar

import structlog

from quorate.clusterapi.act.permission import still_asked_for
from quorate.clusterapi.api.fields import text_at
from quorate.clusterapi.connect.clients import Clients
from quorate.clusterapi.connect.progress import LONGEST_RETRY, Task
from quorate.clusterapi.observe.observation import Observation, ObservedMachine
from quorate.clusterapi.observe.wanted import addons_wanted, cluster_configuration, expiries_wanted, preparation_wanted, request_of
from quorate.clusterapi.types.kubeadm_control_plane import KubeadmControlPlane
from quorate.clusterapi.types.names import Annotation, FieldManager
from quorate.clusterapi.types.resources import KUBEADM_CONFIGS, MACHINE_DRAIN_RULES
from quorate.core.health import Health, Unknown
from quorate.core.maintenance import Maintenance
from quorate.core.text import printable
from quorate.core.versions import Version
from quorate.kubeadm.cluster_configuration import brought_up_to_date
from quorate.kubernetes.client import Client
from quorate.kubernetes.errors import NotFound
from quorate.kubernetes.reflector import TROUBLE
from quorate.kubernetes.resource import Resource
from quorate.workload.api_server_certificate import port_of
from quorate.workload.connection import Workload
from quorate.workload.coredns import update_coredns
from quorate.workload.coredns_pods import move_away
from quorate.workload.kube_proxy import update_kube_proxy
from quorate.workload.kubeadm_config import update_kubeadm_config
from quorate.workload.rbac import ensure_permissions
from quorate.workload.updates import Api, CannotUpdate

T = TypeVar("T")

Update = Callable[[Api, KubeadmControlPlane], Coroutine[Any, Any, None]]
"""Brings one thing in a workload cluster to the specification. Raises CannotUpdate, and what the API answers."""

PERSISTENCE = timedelta(minutes=2)
"""For how long, from the making of the newest Machine on, CoreDNS is moved once more where it came back to the Node that goes next: while the new Machine
joins the scheduler has one or two other Nodes to choose from, and takes this one every other time.
"""
_LOOK_AGAIN = timedelta(seconds=10)  # the longest pause between two looks meanwhile; a Machine joins in about a minute

_log = structlog.get_logger(__name__)


async def prepare(clients: Clients, observation: Observation, now: datetime) -> None:
    """Give the workload cluster what API servers and joining machines of the specification will read. Idempotent."""
    kcp = observation.kcp
    problems = await _problems({"": _updated(_prepare, clients, observation)})
    _keep(clients, kcp, Task.PREPARATION, preparation_wanted(kcp), problems, now)


async def update(clients: Clients, observation: Observation, now: datetime) -> None:
    """Bring kube-proxy and CoreDNS to the specification; neither waits for the other. Idempotent."""
    kcp = observation.kcp
    problems = await _problems({name: _updated(update, clients, observation) for name, update in _ADDONS.items()})
    _keep(clients, kcp, Task.ADDONS, addons_wanted(kcp), problems, now)


async def move_coredns(clients: Clients, observation: Observation, replica: str, now: datetime) -> None:
    """Evict CoreDNS from the Node of the Machine that goes next: what was there before the newest Machine and, for a while, what came back. Idempotent.

    Where the namespace has MachineDrainRules it is left to the drain: they may say something else of these Pods, and core knows how to read them.
    """
    kcp, leaver = observation.kcp, next(machine for machine in observation.machines if machine.name == replica)
    newest = max(machine.machine.metadata.creation_timestamp or now for machine in observation.machines)
    persists = now - newest < PERSISTENCE
    wanted, left = leaver.machine.metadata.uid.encode(), ""

    async def move() -> None:
        nonlocal left
        if leaver.node is not None and not await _has_drain_rules(clients, kcp.metadata.namespace):
            left = await move_away(_client(clients, observation), leaver.node.metadata.name, now if persists else newest)

    problems = await _problems({"": move()})
    if left:
        longest = _LOOK_AGAIN if persists else LONGEST_RETRY
        clients.progress.failed(request_of(kcp), Task.COREDNS, wanted, left, now, longest=longest)
    else:
        _keep(clients, kcp, Task.COREDNS, wanted, problems, now)


async def _has_drain_rules(clients: Clients, namespace: str) -> bool:
    try:
        return bool((await clients.management.list(MACHINE_DRAIN_RULES, namespace, limit=1)).items)
    except NotFound:
        return False  # a core without them


async def foreseen(clients: Clients, observation: Observation, now: datetime) -> tuple[Maintenance, Maintenance]:
    """What `prepare` and `update` would find, for an onlooker, who does not know what the manager remembers: all is read, and nothing written."""
    invalid = observation.view is None or observation.view.invalid
    if invalid or observation.connection.health is not Health.GOOD or not observation.initialized:
        return Maintenance(), Maintenance()
    ahead = [await _foreseen(updates, clients, observation, now) for updates in ({"": _prepare}, _ADDONS)]
    return ahead[0], ahead[1]


async def _foreseen(updates: Mapping[str, Update], clients: Clients, observation: Observation, now: datetime) -> Maintenance:
    pending: list[Update] = []

    async def look(update: Update) -> None:
        try:
            await update(_OnlyLooking(_client(clients, observation)), observation.kcp)
        except _WouldWrite:
            pending.append(update)

    problems = await _problems({name: look(update) for name, update in updates.items()})
    if problems:
        return Maintenance(pending=True, problem=_text(problems), retry_at=now + LONGEST_RETRY)  # the manager tries again before that
    return Maintenance(pending=bool(pending))


async def record_expiries(clients: Clients, observation: Observation, replicas: Iterable[str], now: datetime) -> None:
    """Ask these replicas' API servers, all at once, and record on their KubeadmConfigs when their certificates expire. Idempotent."""
    asked, kcp = set(replicas), observation.kcp
    attempts = {m.name: _record_expiry(clients, observation, m) for m in observation.machines if m.name in asked}
    problems = await _problems(attempts)
    unrecorded = {r.name for r in observation.view.replicas if not r.expiry_known} if observation.view else set()
    remaining = sorted((unrecorded - attempts.keys()) | problems.keys())
    _keep(clients, kcp, Task.EXPIRIES, expiries_wanted(kcp, remaining), problems, now)


async def _record_expiry(clients: Clients, observation: Observation, machine: ObservedMachine) -> None:
    if machine.config is None or machine.node is None:
        return
    metadata, node = machine.config.metadata, machine.node.metadata.name
    expiry = await _workload(clients, observation).certificate_expiry(node, port_of(machine.config.spec))
    annotations = {Annotation.CERTIFICATES_EXPIRY: f"{expiry:%Y-%m-%dT%H:%M:%SZ}"}
    patch = {"metadata": {"uid": metadata.uid, "annotations": annotations}}
    try:
        written = await clients.management.merge_patch(
            KUBEADM_CONFIGS, metadata.name, patch, metadata.namespace, field_manager=FieldManager.DEFAULT
        )
    except NotFound:
        return  # gone, with its Machine
    clients.expectations.expect_version(request_of(observation.kcp), clients.caches.configs, written.metadata.resource_version)


async def _updated(update: Update, clients: Clients, observation: Observation) -> None:
    await update(_AsAskedFor(_client(clients, observation), clients, observation), observation.kcp)


async def _prepare(api: Api, kcp: KubeadmControlPlane) -> None:
    version, spec = Version.parse(kcp.spec.version), kcp.spec.kubeadm_config_spec
    await ensure_permissions(api, version)
    await update_kubeadm_config(api, lambda document: brought_up_to_date(document, spec, version))


async def _update_kube_proxy(api: Api, kcp: KubeadmControlPlane) -> None:
    if Annotation.SKIP_KUBE_PROXY not in kcp.metadata.annotations:
        repository = text_at(cluster_configuration(kcp), "imageRepository")
        await update_kube_proxy(api, version=kcp.spec.version, image_repository=repository)


async def _update_coredns(api: Api, kcp: KubeadmControlPlane) -> None:
    wanted = cluster_configuration(kcp)
    if Annotation.SKIP_COREDNS not in kcp.metadata.annotations and wanted:
        await update_coredns(api, wanted, Version.parse(kcp.spec.version))


_ADDONS: Mapping[str, Update] = {"kube-proxy": _update_kube_proxy, "CoreDNS": _update_coredns}


class _WouldWrite(Exception):
    """An update came to its first write."""


@dataclass(frozen=True, slots=True)
class _OnlyLooking:
    """An API that lets an update read, and ends it where it would write."""

    client: Api

    async def get(self, resource: Resource[T], name: str, namespace: str = "") -> T:
        return await self.client.get(resource, name, namespace)

    async def create(self, _resource: Resource[T], _body: Mapping[str, Any], _namespace: str = "") -> T:
        raise _WouldWrite

    async def merge_patch(self, _resource: Resource[T], _name: str, _patch: Mapping[str, Any], _namespace: str = "") -> T:
        raise _WouldWrite


@dataclass(frozen=True, slots=True)
class _AsAskedFor:
    """An API that an update writes to as long as the control plane asks for what the update was decided by, and this process is the one to do it.

    A write that comes late would else undo what another process has done by a newer specification, and remembers as done. Raises Refused.
    """

    client: Api
    clients: Clients
    observation: Observation

    async def get(self, resource: Resource[T], name: str, namespace: str = "") -> T:
        return await self.client.get(resource, name, namespace)

    async def create(self, resource: Resource[T], body: Mapping[str, Any], namespace: str = "") -> T:
        await still_asked_for(self.clients, self.observation)
        return await self.client.create(resource, body, namespace)

    async def merge_patch(self, resource: Resource[T], name: str, patch: Mapping[str, Any], namespace: str = "") -> T:
        await still_asked_for(self.clients, self.observation)
        return await self.client.merge_patch(resource, name, patch, namespace)


def _keep(clients: Clients, kcp: KubeadmControlPlane, task: Task, wanted: bytes, problems: Mapping[str, str], now: datetime) -> None:
    if not problems:
        clients.progress.succeeded(request_of(kcp), task, wanted)
        return
    problem = _text(problems)
    _log.warning("the workload cluster could not be brought up to date", task=task.value, problem=problem)
    clients.progress.failed(request_of(kcp), task, wanted, problem, now)


def _text(problems: Mapping[str, str]) -> str:
    return "; ".join(f"{name}: {problem}" if name else problem for name, problem in problems.items())


async def _problems(attempts: Mapping[str, Coroutine[Any, Any, None]]) -> dict[str, str]:
    """Make all attempts at once. What went wrong with those that failed, by their names. Raises Refused."""
    try:
        async with asyncio.TaskGroup() as tasks:
            running = {name: tasks.create_task(_problem(attempt)) for name, attempt in attempts.items()}
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return {name: problem for name, task in running.items() if (problem := task.result())}


async def _problem(attempt: Coroutine[Any, Any, None]) -> str:
    try:
        await attempt
    except (*TROUBLE, CannotUpdate) as error:
        return printable(str(error)) or type(error).__name__
    return ""


def _workload(clients: Clients, observation: Observation) -> Workload[Client]:
    """The connection to the workload cluster, which may be down. Raises CannotUpdate where there is none."""
    if observation.cluster is None:
        raise CannotUpdate("there is no Cluster")
    return clients.workloads.existing(observation.cluster)


def _client(clients: Clients, observation: Observation) -> Client:
    """The client of the workload cluster. Raises CannotUpdate where it is not connected."""
    client = _workload(clients, observation).client
    if isinstance(client, Unknown):
        raise CannotUpdate(client.reason)
    return client
