"""The difference of two JSON documents as JSON patch operations (RFC 6902)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec


def json_patch(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The operations that make `after` of `before`: objects are compared field by field, anything else, lists too, is replaced whole."""
    return list(_operations("", before, after))


def _operations(path: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for name in sorted(before.keys() - after.keys()):
        yield {"op": "remove", "path": _join(path, name)}
    for name, value in after.items():
        pointer = _join(path, name)
        if name not in before:
            yield {"op": "add", "path": pointer, "value": value}
        elif isinstance(before[name], Mapping) and isinstance(value, Mapping):
            yield from _operations(pointer, before[name], value)
        elif not _same(before[name], value):
            yield {"op": "replace", "path": pointer, "value": value}


def _same(before: Any, after: Any) -> bool:
    return msgspec.json.encode(before, order="sorted") == msgspec.json.encode(
        after, order="sorted"
    )  # to Python True is 1, to JSON it is not


def _join(path: str, name: str) -> str:
    return f"{path}/{name.replace('~', '~0').replace('/', '~1')}"
