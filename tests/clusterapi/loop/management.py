"""The management API in memory: names, resourceVersions, uids and finalizers as the real one keeps them, and answers that get lost."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from quorate.clusterapi.connect.caches import Caches
from quorate.kubernetes.client import Listing
from quorate.kubernetes.errors import AlreadyExists, Conflict, ConnectionFailed, NotFound
from quorate.kubernetes.resource import Resource
from quorate.simulation.engine.patches import merge_patch

NAMESPACE = "default"
Json = dict[str, Any]


@dataclass
class FakeApi:
    """The management API: objects by plural, namespace and name. `log` has each write that took effect; `bodies` what was sent."""

    log: list[str]
    objects: dict[tuple[str, str, str], Json] = field(default_factory=dict)
    bodies: list[tuple[str, Json]] = field(default_factory=list)
    version: int = 100
    fail_at: int | None = None  # the number of the write, from 0, whose answer is lost
    failure: Callable[[], BaseException] = lambda: ConnectionFailed("the answer was lost")
    trouble: dict[tuple[str, str], Exception] = field(default_factory=dict)  # by verb and plural: raised instead
    before: dict[str, Callable[[], None]] = field(default_factory=dict)  # by verb: done once, ahead of the next
    writes: int = 0
    listed: dict[str, set[str]] = field(default_factory=dict)  # by plural: the names of all that was ever given in a list

    def put(self, plural: str, obj: Json) -> Json:
        """What somebody else stores."""
        obj = copy.deepcopy(obj)
        metadata = obj["metadata"]
        self.version += 1
        metadata.setdefault("namespace", NAMESPACE)
        metadata.setdefault("uid", f"{plural}-{metadata['name']}-{self.version}")
        metadata.setdefault("creationTimestamp", "2026-01-01T11:00:00Z")
        metadata.setdefault("generation", 1)
        metadata.setdefault("managedFields", [{"manager": "somebody", "operation": "Update"}])
        metadata["resourceVersion"] = str(self.version)
        self.objects[plural, metadata["namespace"], metadata["name"]] = obj
        return obj

    def change(self, plural: str, name: str, patch: Json) -> Json:
        """What somebody else changes."""
        return self.put(plural, merge_patch(self.objects[plural, NAMESPACE, name], patch))

    def raw(self, plural: str, name: str) -> Json:
        return self.objects[plural, NAMESPACE, name]

    def names(self, plural: str) -> list[str]:
        return sorted(name for kind, _, name in self.objects if kind == plural)

    async def get(self, resource: Resource[Any], name: str, namespace: str = "") -> Any:
        self._meet("get", resource)
        return self._decode(resource, self._find(resource, name, namespace))

    async def list(self, resource: Resource[Any], namespace: str = "", *, label_selector: str = "", limit: int = 500) -> Listing[Any]:
        self._meet("list", resource)
        there = [obj for (plural, where, _), obj in self.objects.items() if (plural, where) == (resource.plural, namespace)]
        found = [obj for obj in there if _selected(obj["metadata"].get("labels", {}), label_selector)]
        self.listed.setdefault(resource.plural, set()).update(obj["metadata"]["name"] for obj in found)
        return Listing([self._decode(resource, obj) for obj in found[:limit]], str(self.version))

    async def create(self, resource: Resource[Any], body: Mapping[str, Any], namespace: str = "", *, field_manager: str = "") -> Any:
        self._meet("create", resource)
        name = body["metadata"]["name"]
        if (resource.plural, namespace, name) in self.objects:
            raise AlreadyExists(f"{name} exists")
        return self._done(resource, "create", name, dict(body), self.put(resource.plural, dict(body)), field_manager)

    async def merge_patch(
        self,
        resource: Resource[Any],
        name: str,
        patch: Mapping[str, Any],
        namespace: str = "",
        *,
        subresource: str = "",
        field_manager: str = "",
    ) -> Any:
        self._meet("patch", resource)
        current = self._find(resource, name, namespace)
        metadata = patch.get("metadata", {})
        self._check(current, metadata.get("uid", ""), metadata.get("resourceVersion", ""))
        new = merge_patch(current, {"status": patch["status"]} if subresource else patch)
        what = f"{name}/{subresource}" if subresource else name
        stored = self.put(resource.plural, new)
        if metadata.get("finalizers") == [] and "deletionTimestamp" in stored["metadata"]:
            del self.objects[resource.plural, namespace, name]
        return self._done(resource, "patch", what, dict(patch), stored, field_manager)

    async def json_patch(
        self,
        resource: Resource[Any],
        name: str,
        patch: Sequence[Mapping[str, Any]],
        namespace: str = "",
        *,
        field_manager: str = "",
    ) -> Any:
        """Additions and replacements in the metadata; the resourceVersion among them is a precondition."""
        self._meet("patch", resource)
        metadata = {operation["path"].removeprefix("/metadata/"): operation["value"] for operation in patch}
        self._check(self._find(resource, name, namespace), "", metadata.pop("resourceVersion", ""))
        stored = self.change(resource.plural, name, {"metadata": metadata})
        return self._done(resource, "patch", name, {"metadata": metadata}, stored, field_manager)

    async def apply(
        self, resource: Resource[Any], body: Mapping[str, Any], namespace: str = "", *, field_manager: str, dry_run: bool = False
    ) -> Any:
        self._meet("dry run" if dry_run else "apply", resource)
        name, uid = body["metadata"]["name"], body["metadata"].get("uid", "")
        current = self.objects.get((resource.plural, namespace, name))
        if current is None and uid:
            raise Conflict(f"{name} with uid {uid} does not exist")
        if current is not None:
            self._check(current, uid, "")
        if dry_run:
            return self._decode(resource, merge_patch(current, body))
        return self._done(resource, "apply", name, dict(body), self.put(resource.plural, merge_patch(current, body)), field_manager)

    async def delete(self, resource: Resource[Any], name: str, namespace: str = "", *, uid: str = "", resource_version: str = "") -> Any:
        self._meet("delete", resource)
        current = self._find(resource, name, namespace)
        self._check(current, uid, resource_version)
        body = {"uid": uid, "resourceVersion": resource_version}
        if not current["metadata"].get("finalizers"):
            del self.objects[resource.plural, namespace, name]
            self.version += 1
            self._done(resource, "delete", name, body, current, "")
            return None
        stored = self.put(resource.plural, merge_patch(current, {"metadata": {"deletionTimestamp": "2026-01-01T12:00:00Z"}}))
        return self._done(resource, "delete", name, body, stored, "")

    def _meet(self, verb: str, resource: Resource[Any]) -> None:
        if action := self.before.pop(verb, None):
            action()
        if error := self.trouble.get((verb, resource.plural)):
            raise error

    def _find(self, resource: Resource[Any], name: str, namespace: str) -> Json:
        found = self.objects.get((resource.plural, namespace, name))
        if found is None:
            raise NotFound(f"{resource.plural} {name} not found")
        return found

    @staticmethod
    def _check(current: Json, uid: str, resource_version: str) -> None:
        metadata = current["metadata"]
        if uid not in ("", metadata["uid"]) or resource_version not in ("", metadata["resourceVersion"]):
            raise Conflict(f"{metadata['name']} has changed")

    def _done(self, resource: Resource[Any], verb: str, name: str, body: Json, stored: Json, manager: str) -> Any:
        self.log.append(f"{verb} {resource.plural} {name}" + (f" as {manager}" if verb == "apply" else ""))
        self.bodies.append((self.log[-1], copy.deepcopy(body)))
        self.writes += 1
        if self.fail_at is not None and self.writes - 1 == self.fail_at:
            self.fail_at = None
            raise self.failure()
        return self._decode(resource, stored)

    @staticmethod
    def _decode(resource: Resource[Any], obj: Json) -> Any:
        return as_decoded(obj, resource.type)


def as_decoded(obj: Json, shape: Any) -> Any:
    """An object as a client decodes it."""
    return msgspec.json.decode(msgspec.json.encode(obj), type=shape)


def _selected(labels: Mapping[str, str], selector: str) -> bool:
    """Whether each of the labels is there, with its value where the selector has one, and none of those with `!`."""
    wanted = [part.partition("=") for part in selector.split(",") if part]
    return all(
        key[1:] not in labels if key.startswith("!") else key in labels and (not equals or labels[key] == value)
        for key, equals, value in wanted
    )


async def fill(caches: Caches, api: FakeApi, infrastructure: str, *, but: Collection[str] = ()) -> None:
    """Have the caches see everything that the API has but the objects of these kinds; infrastructure machines and their templates are of this group."""
    for kind in ("DevMachineTemplate", "DevMachine"):
        await caches.foreign.resource(infrastructure, kind)
    watched = [entry.reflector for entry in caches.foreign._watched.values()]
    for reflector in (*caches.reflectors, *watched):
        if reflector.resource.plural in but:
            continue
        shape = reflector.resource.type
        found = [as_decoded(obj, shape) for (plural, *_), obj in api.objects.items() if plural == reflector.resource.plural]
        seen = [reflector._keep(obj) for obj in found if _selected(obj.metadata.labels, reflector._label_selector)]
        reflector.store.replace(seen, str(api.version))
        reflector.synced.set()
