"""Objects at random, made from upstream's own schemas, so that no field is left out because nobody here knows it.

Most satisfy the schema. In some, bounds are ignored and only the types are right: it is with empty strings, lists and objects that Go's zero values matter.
"""

from __future__ import annotations

import base64
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Object = dict[str, Any]
Schema = Mapping[str, Any]

GROUP = "controlplane.cluster.x-k8s.io"
KINDS = ("KubeadmControlPlane", "KubeadmControlPlaneTemplate")
CONVERSION_DATA = "cluster.x-k8s.io/conversion-data"


def _words(*lines: str) -> tuple[str, ...]:
    return tuple(word for line in lines for word in line.split())


_DURATIONS = _words(
    "0s 0 1s 90s 1h0m0s 1h30m 1.5s 500ms -90s -1.5h 2147483647s 2147483648s 700000h 1ns 999999999ns 3m.5s 1.1h",
    "0.99999999999999999999s 0.333333333h +2m 5µs",
)
_WRONG_DURATIONS = ("", "1", "1d", "h", "-", "1 s", "9999999h", ".s")
_DURATION_FIELDS = _words(
    "ttl timeout timeoutForControlPlane nodeDrainTimeout nodeVolumeDetachTimeout nodeDeletionTimeout retryPeriod minHealthyPeriod"
)
_INSTANTS = (
    "2026-01-02T03:04:05Z",
    "2026-01-02T03:04:05.678Z",
    "2026-01-02T03:04:05+05:30",
    "1999-12-31T23:59:59-11:00",
    "0001-01-01T00:00:00Z",
    "0987-06-05T04:03:02Z",
)
_QUANTITIES = _words(
    "0 00.0 1 500m 0.5 .5 1. 1000 1024 1Ki 1001Ki 1024Ki 1.5Gi 0.5Ki 1.0001Ki 999999999999Ei 1e3 1E3 12e-2 1e1000 1e-12 1000e18 1n 0.1n",
    "1.2345678901n 123456789012345678901 -2 -1.5Gi +3 010 1.500 100k 1500M 1E 20E 1000E",
)
_API_VERSIONS = ("infrastructure.cluster.x-k8s.io/v1beta1", "infrastructure.cluster.x-k8s.io/v1beta2", "v1", "", "/", "group/", "/v1")
_WRONG_API_VERSIONS = ("a/b/c", "//")
_REFERENCES = tuple(
    {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": kind, "name": "machines"}
    for kind in ("DevMachineTemplate", "DockerMachineTemplate")
)
_WORDS = ("a", "b", "c", "node-1", "v1.34.0", "x y", "ä<&>\u2028", "true")
_PLACES = ("/etc/a", "/etc/b", "/var/c")  # few, so that some come twice, and are found again in what was kept
_NUMBERS = (0, 1, 2, 3, 60, 365, 2147483647, -1, -2147483648)


@dataclass
class Maker:
    """Makes objects with one source of randomness from the schemas of upstream's kinds, by kind and version."""

    schemas: Mapping[tuple[str, str], Schema]
    random: random.Random
    loose: float = 0.4  # the part of the objects in which bounds are ignored
    wrong: float = 0.05  # the part in which something may be wrong that the schema lets pass
    values: Mapping[str, Sequence[Any]] = field(default_factory=dict)  # of fields, by their names, of which only some values mean anything
    _density: float = field(default=0.5, init=False)
    _loose: bool = field(default=False, init=False)
    _wrong: bool = field(default=False, init=False)

    def object(self, kind: str, version: str) -> Object:
        """One object, more or less filled."""
        self._density = self.random.choice((0.05, 0.2, 0.5, 0.8, 1.0))
        self._loose = self.random.random() < self.loose
        self._wrong = self.random.random() < self.wrong
        properties = self.schemas[kind, version]["properties"]
        body = {
            part: self._value(part, properties[part])
            for part in ("spec", "status")
            if part in properties and self._has(required=part == "spec")
        }
        return {"apiVersion": f"{GROUP}/{version}", "kind": kind, "metadata": self._metadata(), **body}

    def changed(self, obj: Object) -> Object:
        """The same object with some of its fields gone or others, as a user of its version changes it."""
        fresh = self.object(obj["kind"], obj["apiVersion"].rpartition("/")[2])
        return {key: self._mixed(value, fresh.get(key)) if key in ("spec", "status") else value for key, value in obj.items()}

    def _mixed(self, value: Any, fresh: Any) -> Any:
        if self.random.random() < 0.03:
            return fresh
        if not isinstance(value, dict):
            return value
        inner = fresh if isinstance(fresh, dict) else {}
        mixed = {key: self._mixed(each, inner.get(key)) for key, each in value.items() if self.random.random() > 0.03}
        return {key: each for key, each in mixed.items() if each is not None}

    def _has(self, *, required: bool = False) -> bool:
        return (required and not (self._loose and self.random.random() < 0.1)) or self.random.random() < self._density

    def _metadata(self) -> Object:
        metadata: Object = {"name": "object"}
        choices: Object = {
            "namespace": "default",
            "uid": "4f2c",
            "resourceVersion": "12",
            "generation": 3,
            "creationTimestamp": "2026-01-02T03:04:05Z",
            "labels": {"a": "b"},
            "annotations": {"c": "d"},
            "finalizers": ["kubeadm.controlplane.cluster.x-k8s.io"],
            "ownerReferences": [
                {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": "object", "uid": "1", "controller": True}
            ],
            "deletionTimestamp": "2026-01-02T03:04:05Z",
            "deletionGracePeriodSeconds": 0,
        }
        return metadata | {key: value for key, value in choices.items() if self.random.random() < 0.5}

    def _value(self, name: str, schema: Schema) -> Any:
        special = self._special(name, schema)
        if special is not None:
            return special
        if "enum" in schema and not (self._loose and self.random.random() < 0.1):
            return self.random.choice(schema["enum"])
        makers = {"object": self._object, "array": self._array, "string": self._string, "integer": self._integer, "boolean": self._boolean}
        return makers[schema["type"]](name, schema)

    def _special(self, name: str, schema: Schema) -> Any:
        """Values of fields that hold more than the schema says; None where it says all."""
        if name in self.values and "properties" not in schema:
            return self.random.choice(self.values[name])
        if name == "infrastructureRef" and "apiGroup" in schema["properties"] and not (self._loose and self.random.random() < 0.3):
            return dict(self.random.choice(_REFERENCES))
        if name == "token" and schema.get("maxLength", 23) == 23:
            return "abcdef" if self._wrong and self.random.random() < 0.3 else "abcdef.0123456789abcdef"
        if name in _DURATION_FIELDS:
            return self.random.choice(_WRONG_DURATIONS if self._wrong and self.random.random() < 0.3 else _DURATIONS)
        if name == "apiVersion" and "minLength" not in schema:
            return self.random.choice(_WRONG_API_VERSIONS if self._wrong and self.random.random() < 0.5 else _API_VERSIONS)
        if name == "divisor":
            return "1e1.5" if self._wrong and self.random.random() < 0.3 else self.random.choice((*_QUANTITIES, 0, 5))
        if name in ("hostPath", "path"):
            return self.random.choice(_PLACES)
        return self.random.choice((0, 1, 3, "25%", "")) if schema.get("x-kubernetes-int-or-string") else None

    def _object(self, name: str, schema: Schema) -> Object:
        if "additionalProperties" in schema:
            return {word: self._value(name, schema["additionalProperties"]) for word in self._some(_WORDS)}
        properties, required = schema.get("properties", {}), schema.get("required", ())
        found = {key: self._value(key, each) for key, each in properties.items() if self._has(required=key in required)}
        if not found and schema.get("minProperties") and not self._loose:
            key = self.random.choice(sorted(properties))
            found = {key: self._value(key, properties[key])}
        return found

    def _array(self, name: str, schema: Schema) -> list[Any]:
        least = 0 if self._loose else schema.get("minItems", 0)
        return [self._value(name, schema["items"]) for _ in range(self.random.randint(least, max(least, 3)))]

    def _string(self, name: str, schema: Schema) -> str:
        if schema.get("format") == "date-time":
            return self.random.choice(_INSTANTS)
        if schema.get("format") == "byte":
            return base64.b64encode(self.random.randbytes(self.random.choice((0, 1, 2, 3, 40)))).decode()
        if not self._loose and ("pattern" in schema or "x-kubernetes-validations" in schema):
            return "Linux" if name == "partitionType" else "a"
        return self.random.choice((*_WORDS, "") if self._loose or not schema.get("minLength") else _WORDS)

    def _integer(self, _: str, schema: Schema) -> Any:
        numbers = [number for number in _NUMBERS if self._loose or schema.get("minimum", number) <= number <= schema.get("maximum", number)]
        return self.random.choice(numbers or [schema["minimum"]])

    def _boolean(self, _: str, __: Schema) -> bool:
        return self.random.random() < 0.5

    def _some(self, words: tuple[str, ...]) -> list[str]:
        return self.random.sample(words, self.random.randint(0, 3))
