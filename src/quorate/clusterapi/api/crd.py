"""CustomResourceDefinitions, generated from the types.

`python -m quorate.clusterapi.api.crd config/crd` writes them. A schema is structural, as the API server wants it: every reference written out, no unions but
int-or-string, optional fields by absence instead of null. v1beta2 is stored; v1beta1 is served, as deprecated, where a webhook converts.

Source: KEP-1693 structural schemas; cluster-api, controlplane/kubeadm/config/crd.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec import inspect as types

from quorate.clusterapi.api import manifests, v1beta1_schema, webhooks
from quorate.clusterapi.types.names import PROVIDER_NAME, Label
from quorate.clusterapi.types.resources import KUBEADM_CONTROL_PLANE_TEMPLATES, KUBEADM_CONTROL_PLANES, OLD_VERSION, VERSION
from quorate.clusterapi.types.schema import CONDITION_TYPE, PUBLISHED_AS
from quorate.kubernetes.objects import Condition, ObjectMeta
from quorate.kubernetes.resource import Resource

Schema = dict[str, Any]

_CONDITION: Schema = {
    "type": "object",
    "description": "One thing that is true of the object or not, and why.",
    "required": ["lastTransitionTime", "message", "reason", "status", "type"],
    "properties": {
        "lastTransitionTime": {"type": "string", "format": "date-time", "description": "When the status last changed."},
        "message": {"type": "string", "maxLength": 32768, "description": "Why, in words for a reader."},
        "observedGeneration": {"type": "integer", "format": "int64", "minimum": 0, "description": "The generation that this speaks of."},
        "reason": {
            "type": "string",
            "minLength": 1,
            "maxLength": 1024,
            "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
            "description": "Why, in one CamelCase word.",
        },
        "status": {"type": "string", "enum": ["True", "False", "Unknown"], "description": "Whether it is true."},
        "type": {"type": "string", "maxLength": 316, "pattern": CONDITION_TYPE, "description": "What the condition is about."},
    },
}
_STANDARD: dict[type, Schema] = {Condition: _CONDITION, ObjectMeta: {"type": "object"}}
"""Kubernetes' own types: the API server knows ObjectMeta by itself, and Condition is shared with kinds that carry no limits."""

_TYPE_META: Schema = {
    "apiVersion": {"type": "string", "description": "The group and version that this object is written in."},
    "kind": {"type": "string", "description": "The kind of this object."},
}
_INT_OR_STRING: Schema = {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True}


@dataclass(frozen=True, slots=True)
class Column:
    """One column of `kubectl get`."""

    name: str
    path: str
    description: str
    type: str = "string"
    priority: int = 0  # above 0: only in wide output

    def manifest(self) -> Schema:
        """The column as a CRD holds it."""
        manifest = {"name": self.name, "type": self.type, "jsonPath": self.path, "description": self.description}
        return manifest | ({"priority": self.priority} if self.priority else {})


@dataclass(frozen=True, slots=True)
class Definition:
    """What a CRD says beside its schema."""

    resource: Resource[Any]
    columns: tuple[Column, ...]
    old_columns: tuple[Column, ...]  # of v1beta1
    old_schema: Callable[[Mapping[str, Any]], Schema]  # of v1beta1, from that of v1beta2
    short_names: tuple[str, ...] = ()
    subresources: Schema = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The CRD's own name, which other controllers compute from group and kind."""
        return f"{self.resource.plural}.{self.resource.group}"


def _condition(type_: str) -> str:
    return f'.status.conditions[?(@.type=="{type_}")].status'


_AGE = ".metadata.creationTimestamp"
DEFINITIONS = (
    Definition(
        KUBEADM_CONTROL_PLANES,
        short_names=("kcp",),
        subresources={
            "status": {},
            "scale": {
                "specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas",
                "labelSelectorPath": ".status.selector",
            },
        },
        columns=(
            Column("Cluster", r".metadata.labels['cluster\.x-k8s\.io/cluster-name']", "The cluster it belongs to"),
            Column("Available", _condition("Available"), "Whether the control plane does its work"),
            Column("Desired", ".spec.replicas", "How many machines there should be", "integer"),
            Column("Current", ".status.replicas", "How many machines there are", "integer"),
            Column("Ready", ".status.readyReplicas", "How many machines are ready", "integer"),
            Column("Available", ".status.availableReplicas", "How many machines are available", "integer"),
            Column("Up-to-date", ".status.upToDateReplicas", "How many machines are as the specification asks", "integer"),
            Column("Paused", _condition("Paused"), "Whether nothing is done to it for now", priority=10),
            Column("Initialized", ".status.initialization.controlPlaneInitialized", "Whether its API server has ever answered", "boolean"),
            Column("Age", _AGE, "How long ago it was created", "date"),
            Column("Version", ".spec.version", "The Kubernetes version asked for"),
        ),
        old_columns=(
            Column("Cluster", r".metadata.labels['cluster\.x-k8s\.io/cluster-name']", "The cluster it belongs to"),
            Column("Initialized", ".status.initialized", "Whether its API server has ever answered", "boolean"),
            Column("API Server Available", ".status.ready", "Whether an API server of it can be asked", "boolean"),
            Column("Desired", ".spec.replicas", "How many machines there should be", "integer", priority=10),
            Column("Replicas", ".status.replicas", "How many machines there are", "integer"),
            Column("Ready", ".status.readyReplicas", "How many of them have a Node that is ready", "integer"),
            Column("Updated", ".status.updatedReplicas", "How many machines are as the specification asks", "integer"),
            Column("Unavailable", ".status.unavailableReplicas", "How many machines have no Node that is ready", "integer"),
            Column("Age", _AGE, "How long ago it was created", "date"),
            Column("Version", ".spec.version", "The Kubernetes version asked for"),
        ),
        old_schema=v1beta1_schema.control_plane,
    ),
    Definition(
        KUBEADM_CONTROL_PLANE_TEMPLATES,
        columns=(
            Column("ClusterClass", '.metadata.ownerReferences[?(@.kind=="ClusterClass")].name', "The ClusterClass it belongs to"),
            Column("Age", _AGE, "How long ago it was created", "date"),
        ),
        old_columns=(Column("Age", _AGE, "How long ago it was created", "date"),),
        old_schema=v1beta1_schema.control_plane_template,
    ),
)


def schema_of(type_: types.Type) -> Schema:
    """The structural schema of one type; raises TypeError for a type that has none."""
    match type_:
        case types.Metadata(type=inner, extra_json_schema=keywords, extra=extra):
            published = (extra or {}).get(PUBLISHED_AS)
            return (struct_schema(published) if published else schema_of(inner)) | (keywords or {})
        case types.StructType(cls=cls):
            return _STANDARD.get(cls) or struct_schema(cls)
        case types.UnionType(types=options):
            return _union_schema([option for option in options if not isinstance(option, types.NoneType)])
        case types.ListType(item_type=item):
            return {"type": "array", "items": schema_of(item)}
        case types.DictType(value_type=value):
            return {"type": "object", "additionalProperties": schema_of(value)}
    return _scalar_schema(type_)


def _scalar_schema(type_: types.Type) -> Schema:
    match type_:
        case types.StrType():
            return {"type": "string"}
        case types.BoolType():
            return {"type": "boolean"}
        case types.IntType():
            return {"type": "integer"}
        case types.DateTimeType():
            return {"type": "string", "format": "date-time"}
        case types.BytesType():
            return {"type": "string", "format": "byte"}
    raise TypeError(f"{type_} has no structural schema: give the field a simpler type, or say by published_as what to publish")


def _union_schema(options: list[types.Type]) -> Schema:
    if len(options) == 1:
        return schema_of(options[0])
    if {type(option) for option in options} == {types.IntType, types.StrType}:
        return dict(_INT_OR_STRING)
    raise TypeError(f"a union of {options} has no structural schema: only int-or-string has")


def struct_schema(cls: type) -> Schema:
    """The schema of a Struct: its docstring, its fields by their JSON names, and which of them have no default."""
    info = types.type_info(cls)
    if not isinstance(info, types.StructType):
        raise TypeError(f"{cls} is not a Struct")
    schema: Schema = {
        "type": "object",
        "description": inspect.cleandoc(cls.__doc__ or ""),
        "properties": {each.encode_name: schema_of(each.type) for each in info.fields},
    }
    required = sorted(each.encode_name for each in info.fields if each.required)
    return schema | ({"required": required} if required else {})


def object_schema(cls: type) -> Schema:
    """The schema of a whole object: that of its Struct, with apiVersion and kind; metadata is never required, the API server fills it."""
    schema = struct_schema(cls)
    required = [name for name in schema.pop("required", []) if name != "metadata"]
    return schema | {"properties": _TYPE_META | schema["properties"]} | ({"required": required} if required else {})


def custom_resource_definition(definition: Definition, conversion: Schema | None = None) -> Schema:
    """The CRD as it is applied. `conversion` is the webhook that converts (`webhooks.conversion`): without one v1beta1 is known and not served."""
    resource = definition.resource
    names: Schema = {
        "kind": resource.kind,
        "listKind": f"{resource.kind}List",
        "plural": resource.plural,
        "singular": resource.kind.lower(),
        "categories": ["cluster-api"],
    }
    labels = {Label.CLUSTERCTL: "", Label.CONTRACT: VERSION, Label.PROVIDER: PROVIDER_NAME}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": definition.name, "labels": labels | ({Label.CONTRACT_V1BETA1: OLD_VERSION} if conversion else {})},
        "spec": {
            "group": resource.group,
            "scope": "Namespaced",
            "names": names | ({"shortNames": list(definition.short_names)} if definition.short_names else {}),
            "versions": _versions(definition, converted=bool(conversion)),
        }
        | ({"conversion": conversion} if conversion else {}),
    }


def _versions(definition: Definition, *, converted: bool) -> list[Schema]:
    """v1beta1 is told of even where it is not served: it may be among the versions that objects are stored in."""
    schema = object_schema(definition.resource.type)
    old = _version(definition, OLD_VERSION, definition.old_schema(schema), definition.old_columns)
    new = _version(definition, definition.resource.version, schema, definition.columns)
    return [old | {"served": converted, "storage": False, "deprecated": True}, new | {"served": True, "storage": True}]


def _version(definition: Definition, name: str, schema: Schema, columns: tuple[Column, ...]) -> Schema:
    return {
        "name": name,
        "schema": {"openAPIV3Schema": schema},
        "additionalPrinterColumns": [column.manifest() for column in columns],
        "subresources": definition.subresources,
    }


def files() -> dict[str, str]:
    """Every CRD as a file: its name and its content."""
    return {
        f"{definition.resource.group}_{definition.resource.plural}.yaml": manifests.render(
            "quorate.clusterapi.api.crd", [custom_resource_definition(definition, webhooks.conversion())]
        )
        for definition in DEFINITIONS
    }


if __name__ == "__main__":
    manifests.write(Path(sys.argv[1]), files())
