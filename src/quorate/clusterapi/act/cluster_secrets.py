"""The Secrets of a cluster: its CAs, generated once, and its admin kubeconfig, written and renewed."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import structlog

from quorate.clusterapi.act.permission import still_in_charge, still_leads
from quorate.clusterapi.act.refusal import Refused
from quorate.clusterapi.api.fields import integer_at, text_at
from quorate.clusterapi.connect.clients import Clients
from quorate.clusterapi.connect.progress import Task
from quorate.clusterapi.desired.objects import owner_reference
from quorate.clusterapi.observe.credentials import is_made_here
from quorate.clusterapi.observe.initialization import is_on_record
from quorate.clusterapi.observe.observation import Observation
from quorate.clusterapi.observe.wanted import kubeconfig_wanted, request_of
from quorate.clusterapi.types.cluster import Cluster
from quorate.clusterapi.types.kubeadm_control_plane import KubeadmControlPlane
from quorate.clusterapi.types.names import CLUSTER_SECRET_TYPE, FieldManager, Label
from quorate.clusterapi.types.names import Secret as SecretSuffix
from quorate.kubernetes.errors import AlreadyExists, Conflict
from quorate.kubernetes.objects import Secret
from quorate.kubernetes.reflector import TROUBLE
from quorate.kubernetes.resource import SECRETS
from quorate.pki import KeyAlgorithm, KeyPair, PkiError, Purpose, admin_kubeconfig, generate, rotate
from quorate.pki.issue import CA_DAYS

_log = structlog.get_logger(__name__)


async def create(clients: Clients, observation: Observation, purposes: tuple[str, ...], now: datetime) -> None:
    """Generate the pairs for these purposes and store each as a Secret. One that exists by now, whoever made it, is left as it is.

    Raises Refused where this is not permitted any more, or there is a Machine, which may have been given the ones that were there.
    """
    kcp, cluster = observation.kcp, observation.cluster
    if cluster is None:
        raise ValueError("certificates need a Cluster")
    live = await still_in_charge(clients, observation)
    if live.machines:
        machine = f"Machine {cluster.metadata.namespace}/{min(live.machines)}"
        raise Refused(f"{machine} exists, which may have been given CAs that were there")
    if is_on_record(live.kcp, live.cluster):
        raise Refused(f"cluster {cluster.metadata.namespace}/{cluster.metadata.name} was initialized after this was decided")
    async with asyncio.TaskGroup() as tasks:
        for purpose in purposes:
            tasks.create_task(_create(clients, kcp, cluster, Purpose(purpose), now))


async def _create(clients: Clients, kcp: KubeadmControlPlane, cluster: Cluster, purpose: Purpose, now: datetime) -> None:
    days = integer_at(kcp.spec.kubeadm_config_spec, "clusterConfiguration", "caCertificateValidityPeriodDays") or CA_DAYS
    pair = await asyncio.to_thread(generate, purpose, _algorithm(kcp), now=now, days=days)
    still_leads(clients)
    await _store(clients, kcp, cluster, purpose.secret_name(cluster.metadata.name), pair.secret_data())


async def write_kubeconfig(clients: Clients, observation: Observation, *, renew: bool, now: datetime) -> None:
    """Write the first admin kubeconfig, or renew the certificate in the one that is there; its server stays. Idempotent.

    A failure delays the next attempt (5 s to 5 min) and is kept for `wanted.kubeconfig`, not raised: other steps need no kubeconfig. Raises Conflict,
    Refused where the one to be renewed is the user's by now, and LookupError where the CA is not there.
    """
    kcp = observation.kcp
    try:
        await _write_kubeconfig(clients, observation, renew=renew, now=now)
    except Conflict:
        raise
    except (*TROUBLE, PkiError) as error:
        problem = str(error) or type(error).__name__
        _log.warning("the kubeconfig could not be written", problem=problem)
        clients.progress.failed(request_of(kcp), Task.KUBECONFIG, kubeconfig_wanted(kcp), problem, now)
    else:
        clients.progress.succeeded(request_of(kcp), Task.KUBECONFIG, kubeconfig_wanted(kcp))


async def _write_kubeconfig(clients: Clients, observation: Observation, *, renew: bool, now: datetime) -> None:
    kcp, cluster = observation.kcp, observation.cluster
    if cluster is None:
        raise ValueError("a kubeconfig needs a Cluster")
    secrets = clients.workloads.secrets(cluster.metadata.namespace, cluster.metadata.name)
    ca = await secrets.find(SecretSuffix.CLUSTER_CA)
    if ca is None:
        raise LookupError(f"Secret {cluster.metadata.namespace}/{cluster.metadata.name}-ca is not there yet")
    pair = KeyPair.from_secret_data(ca.data)
    if not renew:
        server = f"https://{cluster.spec.control_plane_endpoint}"
        value = await asyncio.to_thread(admin_kubeconfig, cluster.metadata.name, server, pair, _algorithm(kcp), now=now)
        await _store(clients, kcp, cluster, f"{cluster.metadata.name}-kubeconfig", {"value": value})
        return
    await _rotate(clients, kcp, cluster, pair, now)


async def _rotate(clients: Clients, kcp: KubeadmControlPlane, cluster: Cluster, ca: KeyPair, now: datetime) -> None:
    namespace, name = cluster.metadata.namespace, f"{cluster.metadata.name}-kubeconfig"
    current = await clients.management.get(SECRETS, name, namespace)
    if not is_made_here(current, kcp):
        raise Refused(f"Secret {namespace}/{name} was supplied by the user after this was decided")
    value = await asyncio.to_thread(rotate, current.data.get("value", b""), ca, _algorithm(kcp), now=now)
    patch = {"metadata": {"resourceVersion": current.metadata.resource_version}, "data": {"value": _base64(value)}}
    written = await clients.management.merge_patch(SECRETS, name, patch, namespace, field_manager=FieldManager.DEFAULT)
    _await_secret(clients, kcp, written)


async def _store(clients: Clients, kcp: KubeadmControlPlane, cluster: Cluster, name: str, data: Mapping[str, bytes]) -> None:
    body: dict[str, Any] = {
        "apiVersion": SECRETS.api_version,
        "kind": SECRETS.kind,
        "metadata": {
            "name": name,
            "namespace": cluster.metadata.namespace,
            "labels": {Label.CLUSTER_NAME: cluster.metadata.name},
            "ownerReferences": [owner_reference(kcp, controller=True)],
        },
        "type": CLUSTER_SECRET_TYPE,
        "data": {key: _base64(value) for key, value in data.items()},
    }
    try:
        stored = await clients.management.create(SECRETS, body, cluster.metadata.namespace, field_manager=FieldManager.DEFAULT)
    except AlreadyExists:
        return  # a repeat after a lost answer, or the user was faster: what is stored counts
    _await_secret(clients, kcp, stored)


def _await_secret(clients: Clients, kcp: KubeadmControlPlane, written: Secret) -> None:
    """Hold the next decision until the cache has the Secret: one made by the old one would write it again."""
    clients.expectations.expect_version(request_of(kcp), clients.caches.secrets, written.metadata.resource_version)


def _algorithm(kcp: KubeadmControlPlane) -> KeyAlgorithm:
    return KeyAlgorithm.parse(text_at(kcp.spec.kubeadm_config_spec, "clusterConfiguration", "encryptionAlgorithm") or "RSA-2048")


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()
