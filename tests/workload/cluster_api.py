"""A workload cluster's API that keeps objects, resourceVersions and a log of what was written, and can be made to fail at any write."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from quorate.kubernetes.client import Listing
from quorate.kubernetes.errors import AlreadyExists, Conflict, ConnectionFailed, NotFound
from quorate.kubernetes.resource import Resource
from quorate.simulation.engine.patches import merge_patch

Json = dict[str, Any]


@dataclass
class ClusterApi:
    """Objects by plural and name. The answer to write number `lose_answer_of` is lost: it took effect, and the writer is told that it may not have."""

    objects: dict[tuple[str, str], Json] = field(default_factory=dict)
    writes: list[tuple[str, Json]] = field(default_factory=list)
    reads: list[str] = field(default_factory=list)
    lose_answer_of: int | None = None
    trouble: dict[str, Exception] = field(default_factory=dict)  # raised by every read of this plural
    before_patch: list[Callable[[], None]] = field(default_factory=list)
    version: int = 0

    def put(self, plural: str, obj: Json) -> None:
        self.version += 1
        stored = copy.deepcopy(obj)
        stored["metadata"]["resourceVersion"] = str(self.version)
        self.objects[plural, obj["metadata"]["name"]] = stored

    @property
    def written(self) -> list[str]:
        return [what for what, _ in self.writes]

    async def get(self, resource: Resource[Any], name: str, namespace: str = "") -> Any:
        assert resource.namespaced == bool(namespace)
        self.reads.append(f"{resource.plural} {name}")
        if error := self.trouble.get(resource.plural):
            raise error
        return self._decoded(resource, self._find(resource, name))

    async def list(
        self, resource: Resource[Any], namespace: str = "", *, label_selector: str = "", field_selector: str = ""
    ) -> Listing[Any]:
        """Of this plural: what carries the one label and has the one field's value that are asked for."""
        self.reads.append(f"{resource.plural} {label_selector} {field_selector}")
        if error := self.trouble.get(resource.plural):
            raise error
        matching = [
            obj
            for (plural, _), obj in self.objects.items()
            if plural == resource.plural
            and obj["metadata"]["namespace"] == namespace
            and _has(obj["metadata"]["labels"], label_selector)
            and _has({"spec.nodeName": obj["spec"].get("nodeName")}, field_selector)
        ]
        return Listing([self._decoded(resource, obj) for obj in matching], str(self.version))

    async def create_subresource(
        self, resource: Resource[Any], name: str, subresource: str, body: Mapping[str, Any], namespace: str = ""
    ) -> None:
        """An eviction: the Pod is gone at once."""
        assert (resource.plural, subresource, body["metadata"]) == ("pods", "eviction", {"name": name, "namespace": namespace})
        if error := self.trouble.get("evictions"):
            raise error
        found = self._find(resource, name)
        if found["metadata"]["uid"] != body["deleteOptions"]["preconditions"]["uid"]:
            raise Conflict(f"{name} is another one")
        self.writes.append((f"evict {name}", dict(body)))
        del self.objects[resource.plural, name]

    async def create(self, resource: Resource[Any], body: Mapping[str, Any], namespace: str = "") -> Any:
        assert resource.namespaced == bool(namespace)
        name = body["metadata"]["name"]
        if (resource.plural, name) in self.objects:
            raise AlreadyExists(f"{name} exists")
        return self._wrote("create", resource, name, dict(body), dict(body))

    async def merge_patch(self, resource: Resource[Any], name: str, patch: Mapping[str, Any], namespace: str = "") -> Any:
        assert resource.namespaced == bool(namespace)
        if self.before_patch:
            self.before_patch.pop(0)()
        current = self._find(resource, name)
        if patch["metadata"]["resourceVersion"] != current["metadata"]["resourceVersion"]:
            raise Conflict(f"{name} has changed")
        return self._wrote("patch", resource, name, dict(patch), merge_patch(current, patch))

    def _wrote(self, verb: str, resource: Resource[Any], name: str, body: Json, obj: Json) -> Any:
        self.writes.append((f"{verb} {resource.plural} {name}", copy.deepcopy(body)))
        self.put(resource.plural, obj)
        if self.lose_answer_of == len(self.writes) - 1:
            raise ConnectionFailed("the answer was lost")
        return self._decoded(resource, self.objects[resource.plural, name])

    def _find(self, resource: Resource[Any], name: str) -> Json:
        if (resource.plural, name) not in self.objects:
            raise NotFound(f"{resource.plural} {name} not found")
        return self.objects[resource.plural, name]

    @staticmethod
    def _decoded(resource: Resource[Any], obj: Json) -> Any:
        return msgspec.convert(copy.deepcopy(obj), resource.type)


def _has(values: Mapping[str, Any], selector: str) -> bool:
    key, _, value = selector.partition("=")
    return not selector or values.get(key) == value


def config_map(name: str, data: dict[str, str]) -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "kube-system"}, "data": data}


def workload_of(name: str, image: str, **pod: Any) -> Json:
    """A DaemonSet or Deployment with a side car first, whose container must never change."""
    containers = [{"name": "sidecar", "image": "example.org/sidecar:1"}, {"name": name, "image": image, "args": ["-x"]}]
    metadata = {"name": name, "namespace": "kube-system", "resourceVersion": "1"}
    return {"metadata": metadata, "spec": {"template": {"spec": {"containers": containers, **pod}}}}
