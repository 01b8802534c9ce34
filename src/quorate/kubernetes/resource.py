"""Where a kind lives in the API and what it is decoded into."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from quorate.kubernetes.errors import BadRequest
from quorate.kubernetes.objects import ConfigMap, CustomResourceDefinition, Lease, Namespace, Node, Pod, Secret

T = TypeVar("T")

_NOT_IN_A_SEGMENT = frozenset("/%?#\\")


@dataclass(frozen=True, slots=True)
class Resource(Generic[T]):
    """One kind in one version. `type` is what its objects become: a Struct, or `dict[str, Any]` for kinds whose shape is somebody else's."""

    group: str
    version: str
    plural: str
    kind: str
    type: type[T]
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """`group/version`; the core group's is the version alone."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The path of all objects, of one namespace's, of one object or of its subresource.

        Raises BadRequest for a namespace or name that would lead out of it: many come from fields that users fill in.
        """
        _check(namespace)
        _check(name)
        parts = ["", "apis", self.group, self.version] if self.group else ["", "api", self.version]
        parts += ["namespaces", namespace] if self.namespaced and namespace else []
        parts += [part for part in (self.plural, name, subresource) if part]
        return "/".join(parts)


NAMESPACES = Resource("", "v1", "namespaces", "Namespace", Namespace, namespaced=False)
SECRETS = Resource("", "v1", "secrets", "Secret", Secret)
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap", ConfigMap)
NODES = Resource("", "v1", "nodes", "Node", Node, namespaced=False)
PODS = Resource("", "v1", "pods", "Pod", Pod)
EVENTS: Resource[dict[str, Any]] = Resource("", "v1", "events", "Event", dict)
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease", Lease)
CRDS = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", CustomResourceDefinition, namespaced=False
)


def _check(segment: str) -> None:
    """Source: apimachinery's IsValidPathSegmentName, and what else ends a path."""
    if segment in (".", "..") or not _NOT_IN_A_SEGMENT.isdisjoint(segment):
        raise BadRequest(f"{segment!r} cannot be the name of an object: a name is no path")
