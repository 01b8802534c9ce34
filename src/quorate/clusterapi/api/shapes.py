"""Values of the type that a schema says, and where others stand. Not every API server checks a schema, and nothing that reads a KubeadmConfigSpec expects a
number where an object should be.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

_TYPES: dict[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
}


def fitting(value: Any, schema: Mapping[str, Any], path: str, problems: list[str]) -> Any:
    """The value without what has another type than the schema says, each of which is told of in `problems`. Null is as good as absent, and stays; so does what
    the schema does not know.
    """
    kind = str(schema.get("type", ""))
    if kind == "object" and isinstance(value, dict):
        fields, others = schema.get("properties") or {}, schema.get("additionalProperties") or {}
        kept = {name: fitting(inner, fields.get(name, others), f"{path}.{name}", problems) for name, inner in value.items()}
        return {name: inner for name, inner in kept.items() if inner is not None or value[name] is None}
    if kind == "array" and isinstance(value, list):
        kept_items = [fitting(inner, schema.get("items") or {}, f"{path}[{number}]", problems) for number, inner in enumerate(value)]
        return [inner for inner in kept_items if inner is not None]
    if value is None or kind not in _TYPES or _TYPES[kind](value):
        return value
    problems.append(f"{path}: must be of type {kind}")
    return None
