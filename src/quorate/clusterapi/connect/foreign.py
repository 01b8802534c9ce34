"""Kinds that other providers define: infrastructure machines and their templates, found by the contract labels of their definitions, watched when needed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from msgspec import field
from msgspec.structs import force_setattr

from quorate.clusterapi.types.names import Label
from quorate.kubernetes.client import Client
from quorate.kubernetes.errors import NotFound
from quorate.kubernetes.handlers import Handler
from quorate.kubernetes.objects import Object, OwnedMeta
from quorate.kubernetes.reflector import Reflector
from quorate.kubernetes.resource import CRDS, Resource
from quorate.kubernetes.store import Index, Store
from quorate.kubernetes.tasks import lasting

SYNC_TIMEOUT = 30.0  # seconds for the first list of a kind


class ForeignObject(Object):
    """An object of such a kind: its specification as its provider shapes it. One that is no object counts as empty, so that it hides no other of the kind."""

    metadata: OwnedMeta
    api_version: str = ""
    kind: str = ""
    spec: Any = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Make the specification a mapping."""
        if not isinstance(self.spec, dict):
            force_setattr(self, "spec", {})

    @property
    def provider_id(self) -> str:
        """An infrastructure machine's providerID; "" until it has one."""
        return str(self.spec.get("providerID") or "")


class ContractMissing(Exception):
    """A kind has no definition, or one that does not say which of its versions fulfil Cluster API's contract."""


@dataclass(frozen=True, slots=True)
class _Watched:
    resource: Resource[ForeignObject]
    reflector: Reflector[ForeignObject]
    due: float  # loop time until which its first list is waited for


class ForeignKinds:
    """Caches of foreign kinds, each started when it is first asked for.

    `handlers` gives those that are told of every change of a kind; every store has the `indexes`.
    """

    def __init__(
        self,
        client: Client,
        random: Random,
        handlers: Callable[[str], Sequence[Handler[ForeignObject]]],
        *,
        indexes: Mapping[str, Index[ForeignObject]],
        namespace: str = "",
    ) -> None:
        self._client = client
        self._random = random
        self._handlers = handlers
        self._indexes = indexes
        self._namespace = namespace
        self._watched: dict[tuple[str, str], _Watched] = {}
        self._to_start: asyncio.Queue[_Watched] = asyncio.Queue()
        self._lock = asyncio.Lock()

    async def run(self) -> None:
        """Keep the watches until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                watched = await self._to_start.get()
                tasks.create_task(lasting(f"the cache of {watched.resource.plural}", watched.reflector.run()))

    async def resource(self, group: str, kind: str) -> Resource[ForeignObject]:
        """Where the kind lives, in the newest version of our contract. Raises ContractMissing."""
        return (await self._watch(group, kind)).resource

    async def store(self, group: str, kind: str) -> Store[ForeignObject]:
        """The cache of the kind, filled. Raises ContractMissing, and TimeoutError with what the API server said where it cannot be filled in time.

        All who ask wait together, once: a kind that did not answer in time is refused at once from then on, until the watch, which goes on trying with its
        own backoff, has filled the cache. Otherwise a kind that nobody may list would cost every pass SYNC_TIMEOUT for each Machine.
        """
        watched = await self._watch(group, kind)
        reflector = watched.reflector
        try:
            async with asyncio.timeout_at(watched.due):
                await reflector.synced.wait()
        except TimeoutError:
            raise TimeoutError(f"{kind}.{group} could not be listed: {reflector.last_error or 'no answer'}") from None
        return reflector.store

    async def _watch(self, group: str, kind: str) -> _Watched:
        async with self._lock:
            if (group, kind) not in self._watched:
                resource = await self._find(group, kind)
                store = Store(indexes=self._indexes)
                reflector = Reflector(
                    self._client, resource, store, random=self._random, namespace=self._namespace, handlers=self._handlers(kind)
                )
                watched = self._watched[group, kind] = _Watched(resource, reflector, asyncio.get_running_loop().time() + SYNC_TIMEOUT)
                self._to_start.put_nowait(watched)
            return self._watched[group, kind]

    async def _find(self, group: str, kind: str) -> Resource[ForeignObject]:
        plural = pluralize(kind)
        try:
            definition = await self._client.get(CRDS, f"{plural}.{group}")
        except NotFound:
            raise ContractMissing(
                f"there is no CustomResourceDefinition {plural}.{group}: is the infrastructure provider installed?"
            ) from None
        named = definition.spec.names.kind
        if named != kind:  # `DEVmachine` has the same plural: without this each spelling had a watch and a cache of its own
            raise ContractMissing(f"CustomResourceDefinition {plural}.{group} is that of kind {named}, not {kind}: correct the reference")
        fulfilling = definition.metadata.labels.get(Label.CONTRACT, "").split("_")
        if not fulfilling[-1]:
            raise ContractMissing(
                f"CustomResourceDefinition {plural}.{group} has no label {Label.CONTRACT}: its provider does not fulfil the contract"
            )
        return Resource(group, fulfilling[-1], plural, kind, ForeignObject)


def pluralize(kind: str) -> str:
    """The plural in a definition's name, as Cluster API demands of every provider's kinds."""
    word = kind.lower()
    if word.endswith(("s", "x", "ch", "sh")):
        return word + "es"
    return word[:-1] + "ies" if word.endswith("y") and word[-2:-1] not in "aeiou" else word + "s"
