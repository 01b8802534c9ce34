"""Who owns which field: the rules of server-side apply, as far as the kinds of the simulation need them.

A path is a tuple of FieldsV1 elements: `f:name` for a field, `k:{...}` for an item of an associative list, `v:...` for a member of a set. Lists that no table
entry calls associative are atomic, as in a CustomResourceDefinition. Source: sigs.k8s.io/structured-merge-diff and KEP-555, for the rules.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from typing import Any

Json = dict[str, Any]
Path = tuple[str, ...]

_LISTS: Mapping[Path, tuple[str, ...]] = {
    ("f:metadata", "f:ownerReferences"): ("uid",),
    ("f:metadata", "f:finalizers"): (),  # a set
    ("f:spec", "f:readinessGates"): ("conditionType",),
    ("f:spec", "f:taints"): ("key", "effect"),
}
"""The keys of the associative lists; none for a set."""

_IDENTITY = frozenset(
    {"name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp", "managedFields"}
)


def owned_by_body(body: Json) -> frozenset[Path]:
    """The paths that applying `body` claims."""
    return frozenset(path for path, _ in _leaves(_claims(body), ()))


def values(obj: Json) -> dict[Path, Any]:
    """Every leaf of an object outside of its identity and its status."""
    return dict(_leaves(_claims(obj), ()))


def merged(current: Any, body: Any, at: Path = ()) -> Any:
    """`current` with what `body` says; associative lists by their keys, other lists as a whole."""
    if isinstance(body, dict) and isinstance(current, dict):
        result = dict(current)
        for name, value in body.items():
            result[name] = merged(current.get(name), value, (*at, f"f:{name}"))
        return result
    if isinstance(body, list) and isinstance(current, list) and at in _LISTS:
        items = {_element(item, at): item for item in current}
        for item in body:
            element = _element(item, at)
            items[element] = merged(items.get(element), item, (*at, element))
        return list(items.values())
    return body


def removed(obj: Json, paths: Collection[Path]) -> Json:
    """`obj` without these leaves, and without what they leave empty."""
    result = obj
    for path in paths:
        result = _without(result, path, ())
    return result


def to_fields_v1(paths: Collection[Path]) -> Json:
    """The paths as a managedFields entry writes them."""
    tree: Json = {}
    for path in sorted(paths):
        node = tree
        for element in path:
            node = node.setdefault(element, {})
    return tree


def from_fields_v1(tree: Json) -> frozenset[Path]:
    """The paths of a managedFields entry."""
    return frozenset(_tree_leaves(tree, ()))


def _tree_leaves(tree: Json, at: Path) -> Iterator[Path]:
    for element, inner in tree.items():
        if element == ".":
            continue
        if any(key != "." for key in inner):
            yield from _tree_leaves(inner, (*at, element))
        else:
            yield (*at, element)


def _claims(obj: Json) -> Json:
    kept = {name: value for name, value in obj.items() if name not in ("apiVersion", "kind", "status")}
    metadata = {name: value for name, value in (obj.get("metadata") or {}).items() if name not in _IDENTITY}
    kept["metadata"] = metadata
    if not metadata:
        del kept["metadata"]
    return kept


def _leaves(value: Any, at: Path) -> Iterator[tuple[Path, Any]]:
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            yield from _leaves(inner, (*at, f"f:{name}"))
    elif isinstance(value, list) and at in _LISTS:
        for item in value:
            yield from _leaves(item, (*at, _element(item, at)))
    else:
        yield at, value


def _element(item: Any, at: Path) -> str:
    keys = _LISTS[at]
    return f"k:{json.dumps({key: item.get(key) for key in keys}, sort_keys=True)}" if keys else f"v:{json.dumps(item)}"


def _without(value: Any, path: Path, at: Path) -> Any:
    element, rest = path[0], path[1:]
    if isinstance(value, dict) and element.startswith("f:"):
        name = element[2:]
        if name not in value:
            return value
        left = _without(value[name], rest, (*at, element)) if rest else None
        others = {key: inner for key, inner in value.items() if key != name}
        return others if left in (None, {}, []) else {**value, name: left}
    if isinstance(value, list) and at in _LISTS:
        kept = [_without(item, rest, (*at, element)) if rest else None for item in value if _element(item, at) == element]
        others_in_list = [item for item in value if _element(item, at) != element]
        return others_in_list + [item for item in kept if item and not _only_keys(item, at)]
    return value


def _only_keys(item: Any, at: Path) -> bool:
    return isinstance(item, dict) and not item.keys() - set(_LISTS[at])
