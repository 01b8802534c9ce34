"""Reading the objects of both installations from the management cluster, as they are."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from quorate.clusterapi.takeover import journal
from quorate.clusterapi.takeover.installation import Installation, of
from quorate.clusterapi.takeover.journal import Record
from quorate.clusterapi.takeover.kinds import DEPLOYMENT, ENTRY, KINDS, Object, key_of
from quorate.clusterapi.types.names import Label
from quorate.core.takeover.state import Key, Side
from quorate.kubernetes.client import Client
from quorate.kubernetes.errors import NotFound
from quorate.kubernetes.resource import Resource

SECRETS = KINDS["Secret"].resource
PODS: Resource[Object] = Resource("", "v1", "pods", "Pod", dict)
LEASES: Resource[Object] = Resource("coordination.k8s.io", "v1", "leases", "Lease", dict)
_CORE = "cluster-api"  # the name of Cluster API's core provider in clusterctl's inventory


@dataclass(frozen=True)
class ManagementCluster:
    """The objects of one management cluster, through a client that may change them only while it may."""

    client: Client

    async def labelled(self, label: str) -> list[Object]:
        """Every object of one provider, by clusterctl's label, of those kinds that the cluster serves."""
        found = await asyncio.gather(*(self._of_kind(kind.resource, f"{Label.PROVIDER}={label}") for kind in KINDS.values()))
        return [item for items in found for item in items or ()]

    async def _of_kind(self, resource: Resource[Object], selector: str = "") -> list[Object] | None:
        """The objects of a kind with their kind, which lists leave out; None where it is not served."""
        try:
            listing = await self.client.list(resource, label_selector=selector)
        except NotFound:
            return None
        return [{"apiVersion": resource.api_version, "kind": resource.kind, **item} for item in listing.items]

    async def unserved(self, kinds: Iterable[str]) -> tuple[str, ...]:
        """Those of these kinds that the cluster does not serve."""
        names = sorted(set(kinds))
        served = await asyncio.gather(*(self._serves(KINDS[name].resource) for name in names))
        return tuple(name for name, there in zip(names, served, strict=True) if not there)

    async def _serves(self, resource: Resource[Object]) -> bool:
        try:
            await self.client.list(resource, field_selector="metadata.name=none", limit=1)
        except NotFound:
            return False
        return True

    async def read(self, keys: Iterable[Key]) -> dict[Key, Object]:
        """Those of these objects that exist."""
        wanted = list(keys)
        found = await asyncio.gather(*(self.find(key) for key in wanted))
        return {key: item for key, item in zip(wanted, found, strict=True) if item is not None}

    async def find(self, key: Key) -> Object | None:
        """One object; None where it does not exist, or its kind does not."""
        try:
            return await self.client.get(KINDS[key.kind].resource, key.name, key.namespace)
        except NotFound:
            return None

    async def pods(self, namespace: str) -> list[Object]:
        """Every Pod of a namespace."""
        return (await self.client.list(PODS, namespace)).items

    async def lease(self, name: str) -> Object | None:
        """A Lease, by `namespace/name`."""
        namespace, _, own = name.partition("/")
        try:
            return await self.client.get(LEASES, own, namespace)
        except NotFound:
            return None

    async def record(self, namespace: str) -> tuple[Record, Object] | None:
        """What is written down of a change-over, and the Secret that it is in. Raises ConfigError where that cannot be read."""
        try:
            secret = await self.client.get(SECRETS, journal.NAME, namespace)
        except NotFound:
            return None
        return journal.read(secret), secret

    async def core_version(self) -> str:
        """The version of Cluster API's core provider as clusterctl's inventory has it; "" where that does not say."""
        entries = await self._of_kind(ENTRY.resource) or []
        return next((entry.get("version", "") for entry in entries if entry.get("providerName") == _CORE), "")


async def installed(cluster: ManagementCluster, label: str, side: Side) -> Installation | None:
    """A provider as it is installed; None where it has no Deployment. Raises ConfigError where it has several."""
    found = await cluster.labelled(label)
    return of(side, found) if any(item["kind"] == DEPLOYMENT.resource.kind for item in found) else None


def versions(item: Mapping[str, object] | None) -> frozenset[str]:
    """The versions that a CustomResourceDefinition serves."""
    spec: Object = (item or {}).get("spec") or {}  # type: ignore[assignment]
    return frozenset(each["name"] for each in spec.get("versions") or () if each.get("served"))


def as_found(items: Iterable[Object]) -> dict[Key, Object]:
    """Objects by their keys."""
    return {key_of(item): item for item in items}
