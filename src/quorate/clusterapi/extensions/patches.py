"""The patches of an extension's answer, applied as core applies them: of what they make of an object only the specification counts.

Exactly the algebra of evanphx/json-patch v5, with which Cluster API does it, where that says more than RFC 6902 and RFC 7386: negative positions count from
the end, a test for null holds of what is not there, and nulls are taken out of what a merge adds. Whoever sends a patch may be hostile: operations are counted,
and so are the bytes that they copy. Source: cluster-api v1.14, internal/util/patch.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

JSON_PATCH, JSON_MERGE_PATCH = "JSONPatch", "JSONMergePatch"
MOST_OPERATIONS = 5000
"""Of one patch. Cluster API's test extension sends one for each field that differs, of some hundred that there are."""
MOST_VALUES = 20_000
"""In a patch, by the commas between them. An object has some hundred; what is left over is worked out in the event loop that all control planes share."""
MOST_HANDLED = 2 << 20
"""Bytes that the copies and the tests of one patch may have: with thirty copies, each of all that is there, a kilobyte would be a terabyte."""

T = TypeVar("T")
_POSITION = re.compile(r"[+-]?[0-9]{1,9}")


class PatchFailed(ValueError):
    """A patch is none, or does not fit the object. The message says which part of it, and never a value."""


@dataclass(frozen=True, slots=True)
class Patch:
    """One patch, as it was sent; neither a type nor bytes: there is none."""

    type: str = ""
    data: bytes = b""

    def __bool__(self) -> bool:
        return bool(self.type or self.data)


def patched(obj: Mapping[str, Any], patch: Patch) -> dict[str, Any]:
    """The object with the specification that the patch gives it; everything else of it stays, and so does the specification where the patch takes it away.

    Raises PatchFailed.
    """
    try:
        result = _applied(obj, patch)
    except (msgspec.DecodeError, RecursionError) as error:
        raise PatchFailed(f"a {patch.type or 'patch'} that cannot be read: {error}") from error
    if not isinstance(result, dict) or not isinstance(result.get("kind"), str) or not result["kind"]:
        raise PatchFailed("a patch that leaves no object with a kind")
    return {**obj, **({"spec": result["spec"]} if "spec" in result else {})}


def _applied(obj: Mapping[str, Any], patch: Patch) -> Any:
    if not patch:
        return obj
    if patch.data.count(b",") > MOST_VALUES:
        raise PatchFailed(f"a {patch.type} of more than {MOST_VALUES} values, which take too long to read")
    if patch.type == JSON_MERGE_PATCH:
        return _merged(obj, msgspec.json.decode(patch.data)) if patch.data else obj
    if patch.type == JSON_PATCH:
        return _Document(_copied(obj)).after(msgspec.json.decode(patch.data))
    raise PatchFailed(f"a patch of type {patch.type!r}, which is neither {JSON_PATCH} nor {JSON_MERGE_PATCH}")


def _copied(value: T) -> T:
    copy: T = msgspec.json.decode(msgspec.json.encode(value))
    return copy


def _merged(obj: Mapping[str, Any], patch: Any) -> dict[str, Any]:
    if not isinstance(patch, dict):
        raise PatchFailed(f"a {JSON_MERGE_PATCH} that is no object")
    return _merge(obj, patch)


def _merge(current: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    result = dict(current)
    for name, value in patch.items():
        there = result.get(name)
        if value is None:
            result.pop(name, None)
        elif isinstance(there, dict):
            result[name] = _merge(there, value) if isinstance(value, dict) else value
        else:
            result[name] = _without_nulls(value)
    return result


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(member) for name, member in value.items() if member is not None}
    return [_without_nulls(element) for element in value] if isinstance(value, list) else value


class _Document:
    """A document that operations change in place."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._handled = 0

    def after(self, operations: Any) -> Any:
        """The document after these operations."""
        if operations is None:
            return self._root
        if not isinstance(operations, list) or not all(isinstance(operation, dict) for operation in operations):
            raise PatchFailed(f"a {JSON_PATCH} that is no list of operations")
        if len(operations) > MOST_OPERATIONS:
            raise PatchFailed(f"a {JSON_PATCH} of {len(operations)} operations, and of more than {MOST_OPERATIONS} none are carried out")
        for operation in operations:
            self._carry_out(operation)
        return self._root

    def _carry_out(self, operation: Mapping[str, Any]) -> None:
        kind, path = operation.get("op"), _text(operation, "path")
        match kind:
            case "add":
                self._add(path, _value(operation))
            case "replace":
                self._replace(path, _value(operation))
            case "remove":
                self._remove(path)
            case "move":
                moved = _text(operation, "from")
                value = self._get(moved)
                self._remove(moved)
                self._add(path, value)
            case "copy":
                self._add(path, self._copy(_text(operation, "from")))
            case "test":
                self._test(path, operation.get("value"))
            case _:
                raise PatchFailed(f"the operation {kind!r}, which is none")

    def _add(self, path: str, value: Any) -> None:
        if not path:
            self._begin_anew(value)
            return
        parent, key = self._place(path)
        if isinstance(parent, dict):
            parent[key] = value
        elif key == "-":
            parent.append(value)
        else:
            parent.insert(_position(key, len(parent) + 1, path), value)

    def _replace(self, path: str, value: Any) -> None:
        if not path:
            self._begin_anew(value)
            return
        parent, key = self._place(path)
        if isinstance(parent, dict):
            if key not in parent:
                raise _missing(path)
            parent[key] = value
        else:
            parent[_position(key, len(parent), path)] = value

    def _remove(self, path: str) -> None:
        parent, key = self._place(path)
        if isinstance(parent, dict):
            if key not in parent:
                raise _missing(path)
            del parent[key]
        else:
            del parent[_position(key, len(parent), path)]

    def _copy(self, path: str) -> Any:
        return msgspec.json.decode(self._encoded(self._get(path)))

    def _test(self, path: str, value: Any) -> None:
        if not path:
            found = self._root
        else:
            parent, key = self._place(path)
            found = parent.get(key) if isinstance(parent, dict) else parent[_position(key, len(parent), path)]
        if self._encoded(found) != self._encoded(value):
            raise PatchFailed(f"the test of {path[:200]!r} does not hold")

    def _encoded(self, value: Any) -> bytes:
        encoded = _encoded(value)
        self._handled += len(encoded)
        if self._handled > MOST_HANDLED:
            raise PatchFailed(f"copies and tests of more than {MOST_HANDLED >> 20} MiB, which take too long")
        return encoded

    def _get(self, path: str) -> Any:
        if not path:
            return self._root
        parent, key = self._place(path)
        return _child(parent, key, path)

    def _place(self, path: str) -> tuple[Any, str]:
        """The object or list that a path leads into, and the name or the position in it."""
        if not path.startswith("/"):
            raise _missing(path)
        *parents, last = [part.replace("~1", "/").replace("~0", "~") for part in path.split("/")[1:]]
        place = self._root
        for part in parents:
            place = _child(place, part, path)
        if not isinstance(place, dict | list):
            raise _missing(path)
        return place, last

    def _begin_anew(self, value: Any) -> None:
        if not isinstance(value, dict | list):
            raise PatchFailed("a document that is neither an object nor a list")
        self._root = value


def same(one: Any, other: Any) -> bool:
    """Whether both are the same to JSON: to Python True is 1, and 1 is 1.0."""
    return _encoded(one) == _encoded(other)


def _encoded(value: Any) -> bytes:
    return msgspec.json.encode(value, order="sorted")


def _child(parent: Any, key: str, path: str) -> Any:
    if isinstance(parent, dict) and key in parent:
        return parent[key]
    if isinstance(parent, list):
        return parent[_position(key, len(parent), path)]
    raise _missing(path)


def _position(key: str, count: int, path: str) -> int:
    """The position in a list of so many, from its end where it is negative."""
    position = int(key) if _POSITION.fullmatch(key) else count
    if not -count <= position < count:
        raise _missing(path)
    return position + count if position < 0 else position


def _text(operation: Mapping[str, Any], name: str) -> str:
    text = operation.get(name)
    if not isinstance(text, str):
        raise PatchFailed(f"an operation without {name!r}")
    return text


def _value(operation: Mapping[str, Any]) -> Any:
    if "value" not in operation:
        raise PatchFailed("an operation without 'value'")
    return operation["value"]


def _missing(path: str) -> PatchFailed:
    return PatchFailed(f"there is no {path[:200]!r}")
