"""Webhook certificates that the manager makes itself, renewed every few seconds on a real API server, while it sends reviews: none fails."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from quorate.clusterapi.api import webhooks
from quorate.clusterapi.api.crd import DEFINITIONS, custom_resource_definition
from quorate.clusterapi.types.resources import CONTROL_PLANE_GROUP
from quorate.clusterapi.webhook_certificates import secret, trust
from quorate.clusterapi.webhook_certificates.keeper import Keeper
from quorate.clusterapi.webhook_certificates.pairs import StoredPairs
from quorate.clusterapi.webhook_certificates.state import Policy
from quorate.clusterapi.webhooks.api_versions import ApiVersions
from quorate.clusterapi.webhooks.handlers import ListConversion
from quorate.kubernetes.client import Client
from quorate.kubernetes.manager import Runnable
from quorate.kubernetes.metrics import Metrics
from quorate.kubernetes.resource import SECRETS
from quorate.kubernetes.webhook import Admission, WebhookServer
from quorate.local.programs import PROGRAMS_FOLDER
from tests.integration.installed import Server, resource, server

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(300)]

NAMESPACE = "rotating"
ALLOW = "/allow"
HOST = f"{webhooks.SERVICE}.{NAMESPACE}.svc"
_SKEW, _AUTHORITY = 300.0, 86400.0  # seconds that a certificate is valid before it is made, and those that a CA lasts
_PERIODS = 2  # CAs that follow each other
_NAMESPACES = resource("", "namespaces", "Namespace", namespaced=False)
_SERVICES = resource("", "services", "Service")
_CONFIG_MAPS = resource("", "configmaps", "ConfigMap")
_OLD_TEMPLATES = resource(CONTROL_PLANE_GROUP, "kubeadmcontrolplanetemplates", "KubeadmControlPlaneTemplate", "v1beta1")
_DEFINITIONS = resource("apiextensions.k8s.io", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False)
_NEEDED = ("etcd", "kube-apiserver", "kube-controller-manager")


def policy(*, authority: float, leaf: float, arrival: float, overlap: float) -> Policy:
    """One by which a CA is renewed so many seconds after it was made, and a leaf so many, both hours before they end."""
    left = (_AUTHORITY - authority) / (_AUTHORITY + _SKEW)
    lasts = (leaf + _SKEW * left) / (1 - left)
    return Policy(timedelta(seconds=_AUTHORITY), timedelta(seconds=lasts), left, timedelta(seconds=arrival), timedelta(seconds=overlap))


POLICY = policy(authority=12.0, leaf=5.0, arrival=3.0, overlap=4.0)


async def test_no_review_fails_while_certificates_and_cas_are_renewed(tmp_path: Path) -> None:
    missing = [name for name in _NEEDED if not (PROGRAMS_FOLDER / name).exists()]
    if missing:
        pytest.skip(f"not built: {', '.join(missing)}; `make programs` builds them into {PROGRAMS_FOLDER.name}/")
    async with server(tmp_path / "server") as started, _replicas(started) as replicas:
        await _ask_both(started, replicas)
        await _until(lambda: _answers(started))
        seen = Seen()
        await _go_on(started, replicas, seen, until=_PERIODS)
        assert len(seen.leaves) > _PERIODS
        assert {len(bundle) for bundle in seen.bundles} == {1, 2}
        await started.client.delete(SECRETS, secret.NAME, NAMESPACE)
        await _go_on(started, replicas, seen, until=len(seen.authorities) + 1)
        emptied = {"spec": {"conversion": {"webhook": {"clientConfig": {"caBundle": None}}}}}
        await started.client.merge_patch(_DEFINITIONS, DEFINITIONS[0].name, emptied)
        await _until(lambda: _filled(started))


async def _go_on(started: Server, replicas: list[Replica], seen: Seen, *, until: int) -> None:
    """Have reviews sent until so many CAs have been seen, and none but the newest is trusted any more."""
    while len(seen.authorities) < until or len(seen.newest) > 1:
        await _answers(started)
        for replica in replicas:
            await seen.look(started.client, replica)


async def _filled(started: Server) -> None:
    place = trust.PLACES[0]
    assert all(trust.told(await started.client.get(place.resource, place.name)))


@dataclass
class Replica:
    """A webhook server and the keeper of its certificates, of which one acts."""

    keeper: Keeper
    server: WebhookServer

    def asked(self, path: str) -> dict[str, Any]:
        """How the API server asks it: by the Service's name, which leads to this machine."""
        return {"service": {"name": webhooks.SERVICE, "namespace": NAMESPACE, "port": self.server.state.port, "path": path}}


@dataclass
class Seen:
    """What was seen of the certificates."""

    authorities: set[bytes] = field(default_factory=set)
    leaves: set[bytes] = field(default_factory=set)
    bundles: set[frozenset[bytes]] = field(default_factory=set)
    newest: frozenset[bytes] = frozenset()

    async def look(self, client: Client, replica: Replica) -> None:
        """Shake hands as the API server does that has just read whom to trust, for each object that tells it."""
        for place in trust.PLACES:
            for bundle in trust.told(await client.get(place.resource, place.name)):
                self.bundles.add(bundle)
                self.newest = bundle
                self.authorities |= bundle
                context = ssl.create_default_context(cadata=b"".join(bundle).decode())
                _, writer = await asyncio.open_connection("127.0.0.1", replica.server.state.port, ssl=context, server_hostname=HOST)
                self.leaves.add(writer.get_extra_info("ssl_object").getpeercert(binary_form=True))
                writer.close()


@asynccontextmanager
async def _replicas(started: Server) -> AsyncIterator[list[Replica]]:
    await started.client.create(_NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    async with asyncio.TaskGroup() as group:
        made = [_replica(started, leads=number == 0) for number in range(2)]
        parts: list[Runnable] = []
        for replica in made:
            parts += [replica.keeper, replica.server, *replica.keeper.reflectors]
        tasks = [group.create_task(part.run()) for part in parts]
        try:
            for replica in made:
                await replica.server.state.started.wait()
            yield made
        finally:
            for task in tasks:
                task.cancel()


def _replica(started: Server, *, leads: bool) -> Replica:
    pairs, client = StoredPairs(), started.client
    keeper = Keeper(
        client,
        NAMESPACE,
        pairs,
        random=Random(1),
        now=lambda: datetime.now(UTC),
        acts=lambda: leads,
        metrics=Metrics(CollectorRegistry()),
        policy=POLICY,
    )
    conversion = ListConversion(ApiVersions(client, asyncio.get_running_loop().time))
    return Replica(keeper, WebhookServer("127.0.0.1:0", pairs, {ALLOW: _allow}, conversion))


async def _allow(_: Any) -> Admission:
    return Admission()


async def _ask_both(started: Server, replicas: list[Replica]) -> None:
    """Have the API server ask both replicas about ConfigMaps, and one for conversions, and make something to convert."""
    configurations = {
        "MutatingWebhookConfiguration": webhooks.MUTATING_CONFIGURATION,
        "ValidatingWebhookConfiguration": webhooks.VALIDATING_CONFIGURATION,
    }
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": webhooks.SERVICE}}
    await started.client.create(_SERVICES, service | {"spec": {"type": "ExternalName", "externalName": "localhost"}}, NAMESPACE)
    for kind, name in configurations.items():
        place = resource("admissionregistration.k8s.io", f"{kind.lower()}s", kind, namespaced=False)
        asked = [_webhook(f"{number}.example.com", replica.asked(ALLOW)) for number, replica in enumerate(replicas)]
        await started.client.create(place, {"apiVersion": place.api_version, "kind": kind, "metadata": {"name": name}, "webhooks": asked})
    conversion = {
        "strategy": "Webhook",
        "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": replicas[1].asked("/convert")},
    }
    for definition in DEFINITIONS:
        await started.client.create(_DEFINITIONS, custom_resource_definition(definition, conversion))
    await _until(lambda: _made(started))


def _webhook(name: str, asked: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": name,
        "admissionReviewVersions": ["v1"],
        "clientConfig": asked,
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": NAMESPACE}},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}],
    }


async def _made(started: Server) -> None:
    place = resource(CONTROL_PLANE_GROUP, "kubeadmcontrolplanetemplates", "KubeadmControlPlaneTemplate", "v1beta2")
    spec = {"template": {"spec": {"kubeadmConfigSpec": {"clusterConfiguration": {"certificateValidityPeriodDays": 100}}}}}
    template = {"apiVersion": place.api_version, "kind": place.kind, "metadata": {"name": "converted"}, "spec": spec}
    await started.client.create(place, template, NAMESPACE)


async def _answers(started: Server) -> None:
    """Four admission reviews, two of each replica, and one conversion."""
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "asked-"}}
    await started.client.create(_CONFIG_MAPS, body, NAMESPACE, dry_run=True)
    (converted,) = (await started.client.list(_OLD_TEMPLATES, NAMESPACE)).items
    assert converted["apiVersion"] == _OLD_TEMPLATES.api_version


async def _until(attempt: Callable[[], Awaitable[None]]) -> None:
    """Try until it does not fail any more: before the first certificate has arrived everywhere, reviews do."""
    for _ in range(150):
        try:
            return await attempt()
        except Exception as error:  # noqa: BLE001 (the last is raised)
            last = error
            await asyncio.sleep(0.2)
    raise last
