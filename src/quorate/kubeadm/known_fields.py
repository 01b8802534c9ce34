"""Which fields of a KubeadmConfig spec both sides of a comparison know: this program, and whoever stores what is compared.

A field that one of the two does not know says nothing about a machine: a newer bootstrap provider defaults it on every KubeadmConfig, or an older one has
dropped it from what was asked for, and another machine would come out the same. A schema is structural, as in a CustomResourceDefinition (KEP-1693).
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Schema = Mapping[str, Any]

_ANYTHING: Schema = {}


@dataclass(frozen=True, slots=True)
class KnownFields:
    """The fields that every one of `schemas` has; the last one's defaults are what the API server fills in."""

    schemas: tuple[Schema, ...] = (_ANYTHING,)

    def of(self, spec: Any) -> Any:
        """A copy of the spec with what the API server would fill in, and without what somebody does not know."""
        return _pruned(_defaulted(spec, self.schemas[-1]), self.schemas)

    def unknown(self, spec: Any) -> dict[str, Any]:
        """What somebody does not know of the spec, by its path."""
        return dict(_unknown("", spec, self.schemas))


EVERYTHING = KnownFields()
"""No field is unknown."""


def _member(schema: Schema, name: str) -> Schema | None:
    """The schema of a field; None where there is none of this name."""
    named: Mapping[str, Schema] = schema.get("properties") or {}
    others = schema.get("additionalProperties")
    if name in named:
        return named[name]
    if schema.get("type") == "object" and not others and not schema.get("x-kubernetes-preserve-unknown-fields"):
        return None
    return others if isinstance(others, Mapping) else _ANYTHING


def _members(schemas: tuple[Schema, ...], name: str) -> tuple[Schema, ...] | None:
    found = tuple(member for schema in schemas if (member := _member(schema, name)) is not None)
    return found if len(found) == len(schemas) else None


def _items(schemas: tuple[Schema, ...]) -> tuple[Schema, ...]:
    return tuple(schema.get("items") or _ANYTHING for schema in schemas)


def _defaulted(value: Any, schema: Schema) -> Any:
    """A copy in which what is absent has its default, as structural schemas have it: only inside of what is there."""
    if isinstance(value, Mapping):
        fields = schema.get("properties") or {}
        absent = {name: copy.deepcopy(field["default"]) for name, field in fields.items() if "default" in field and name not in value}
        return {name: _defaulted(member, _member(schema, name) or _ANYTHING) for name, member in (dict(value) | absent).items()}
    if isinstance(value, list):
        (of_items,) = _items((schema,))
        return [_defaulted(element, of_items) for element in value]
    return value


def _pruned(value: Any, schemas: tuple[Schema, ...]) -> Any:
    if isinstance(value, dict):
        return {name: _pruned(member, inner) for name, member in value.items() if (inner := _members(schemas, name)) is not None}
    return [_pruned(element, _items(schemas)) for element in value] if isinstance(value, list) else value


def _unknown(path: str, value: Any, schemas: tuple[Schema, ...]) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for name, member in value.items():
            where = f"{path}.{name}".lstrip(".")
            if (inner := _members(schemas, name)) is None:
                yield where, member
            else:
                yield from _unknown(where, member, inner)
    elif isinstance(value, list):
        for index, element in enumerate(value):
            yield from _unknown(f"{path}[{index}]", element, _items(schemas))
