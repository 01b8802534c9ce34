"""The two kinds of patch that the simulated API takes beside server-side apply: JSON merge patch (RFC 7386) and JSON patch (RFC 6902)."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any


class PatchFailed(Exception):
    """The patch does not fit the object: an operation names what is not there, or a test in it does not hold."""


def merge_patch(target: Any, patch: Any) -> Any:
    """`target` with a merge patch applied. Shares what did not change."""
    if not isinstance(patch, Mapping):
        return patch
    result = dict(target) if isinstance(target, Mapping) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merge_patch(result.get(name), value)
    return result


def json_patch(target: Any, operations: Sequence[Mapping[str, Any]]) -> Any:
    """`target` with the operations add, remove, replace and test applied. Raises PatchFailed."""
    result = copy.deepcopy(target)
    for operation in operations:
        result = _applied(result, operation)
    return result


def _applied(document: Any, operation: Mapping[str, Any]) -> Any:
    kind, pointer = operation["op"], operation["path"]
    if not pointer:
        raise PatchFailed(f"{kind} of the whole document")
    *parents, last = [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]
    parent = document
    for part in parents:
        parent = _child(parent, part, pointer)
    if kind == "test":
        if _child(parent, last, pointer) != operation.get("value"):
            raise PatchFailed(f"the test of {pointer} does not hold")
    elif kind == "remove":
        _child(parent, last, pointer)
        del parent[int(last) if isinstance(parent, list) else last]
    elif kind in ("add", "replace"):
        _put(parent, last, operation["value"], pointer, insert=kind == "add")
    else:
        raise PatchFailed(f"operation {kind} is not simulated")
    return document


def _child(parent: Any, part: str, pointer: str) -> Any:
    try:
        return parent[int(part)] if isinstance(parent, list) else parent[part]
    except (KeyError, IndexError, ValueError, TypeError) as error:
        raise PatchFailed(f"there is no {pointer}") from error


def _put(parent: Any, last: str, value: Any, pointer: str, *, insert: bool) -> None:
    if isinstance(parent, list):
        if last == "-":
            parent.append(value)
        elif insert:
            parent.insert(int(last), value)
        else:
            _child(parent, last, pointer)
            parent[int(last)] = value
    elif insert or last in parent:
        parent[last] = value
    else:
        raise PatchFailed(f"there is no {pointer}")
