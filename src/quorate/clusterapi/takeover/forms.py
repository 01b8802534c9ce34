"""Which form an object is to have, made of what an installation says and of what is there, and whether it has it. Pure.

An installation says what it says whole: what an object has beyond that goes, or the one provider's would stay behind in the other's. What is not the
installation's to say stays: labels and annotations that others set, the CAs that somebody injects, how many Pods run.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any

from quorate.clusterapi.takeover.installation import cleaned
from quorate.clusterapi.takeover.kinds import WEBHOOK_CONFIGURATIONS, Object

INJECTED = "cert-manager.io/inject-ca-from"
_THEIRS = (INJECTED, "cert-manager.io/inject-ca-from-secret")
"""Annotations that the one provider sets and the other may not want: whoever acts by them would fight about what they speak of."""
_PROGRAMS = "crd-migration.cluster.x-k8s.io/"
"""What annotations begin with that the providers' programs write on definitions, whoever has installed these."""
_METADATA = ("labels", "annotations")


def wanted(said: Object, current: Object | None, brought: Object | None = None) -> Object:
    """The object as an installation says it, in the place of `current`; `brought` is how the other one's manifest says it, whose labels and annotations go."""
    if current is None:
        return copy.deepcopy(said)
    result = copy.deepcopy(cleaned(said))
    metadata = result["metadata"]
    for name in _METADATA:
        if values := _values(name, said, current, brought):
            metadata[name] = values
        else:
            metadata.pop(name, None)
    for name in ("ownerReferences", "finalizers"):
        if current["metadata"].get(name):
            metadata[name] = current["metadata"][name]
    metadata |= {name: current["metadata"][name] for name in ("uid", "resourceVersion") if name in current["metadata"]}
    _carry_authorities(result, current)
    if result["kind"] == "Service":
        _carry(result["spec"], current.get("spec") or {}, ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"))
    if result["kind"] == "ServiceAccount":
        _carry(
            result, current, ("secrets", "imagePullSecrets")
        )  # those that a person gave it, too: without them no image comes from a private registry
    if _is_aggregated(result):
        result["rules"] = current.get("rules")
    return result


def _values(name: str, said: Object, current: Object, brought: Object | None) -> dict[str, str]:
    """The labels or annotations: those that are there, without what the other installation brought; and what this one says."""
    own, gone = said["metadata"].get(name) or {}, (brought or {"metadata": {}})["metadata"].get(name) or {}
    there = current["metadata"].get(name) or {}
    kept = {key: value for key, value in there.items() if key not in _THEIRS and key not in gone}
    return kept | own | {key: value for key, value in there.items() if key.startswith(_PROGRAMS)}


def _carry(into: dict[str, Any], current: Mapping[str, Any], names: Iterable[str]) -> None:
    for name in names:
        if name in current and name not in into:
            into[name] = current[name]


def _carry_authorities(result: Object, current: Object) -> None:
    """CAs are what is there, where the object says that somebody injects them, or nothing of them; else what it says."""
    injected = INJECTED in (result["metadata"].get("annotations") or {})
    there = _client_configs(current)
    for name, config in _client_configs(result).items():
        bundle = there.get(name, {}).get("caBundle")
        if bundle and (injected or not config.get("caBundle")):
            config["caBundle"] = bundle


def _client_configs(item: Object) -> dict[str, dict[str, Any]]:
    """How the API server calls the webhooks that an object names, by their names; of a definition that of its conversion."""
    if item["kind"] in WEBHOOK_CONFIGURATIONS:
        return {hook["name"]: hook["clientConfig"] for hook in item.get("webhooks") or ()}
    if item["kind"] == "CustomResourceDefinition":
        config = ((item["spec"].get("conversion") or {}).get("webhook") or {}).get("clientConfig")
        return {"": config} if config is not None else {}
    return {}


def with_rights_of_both(said: Object, other: Object) -> Object:
    """A role, or a binding, with everything that either installation grants by it."""
    if _is_aggregated(said):
        return said
    field = _grants(said)
    granted = list(said.get(field) or ())
    return said | {field: granted + [each for each in other.get(field) or () if each not in granted]}


def grants_both(current: Object, said: Object, other: Object) -> bool:
    """Whether it grants all that either installation does by it, and nothing else."""
    if _is_aggregated(said):
        return current.get("aggregationRule") in (said["aggregationRule"], other.get("aggregationRule"))
    field = _grants(said)
    found, both = current.get(field) or [], with_rights_of_both(said, other).get(field) or []
    return all(each in found for each in both) and all(each in both for each in found)


def _is_aggregated(item: Object) -> bool:
    """Whether the API server's controller writes the rules of a role, out of other roles: without them nobody has any rights until it does so again."""
    return bool(item.get("aggregationRule"))


def _grants(item: Object) -> str:
    return "rules" if item["kind"].endswith("Role") else "subjects"


def same(one: Object, other: Object) -> bool:
    """Whether both are one form of an object: how many Pods run, and which CAs somebody has injected, are no part of it."""
    return comparable(one) == comparable(other)


def comparable(item: Object) -> Object:
    """What counts of an object's form."""
    bare = copy.deepcopy(cleaned(item))
    for name in _METADATA:
        bare["metadata"][name] = {key: value for key, value in (bare["metadata"].get(name) or {}).items() if not key.startswith(_PROGRAMS)}
    for config in _client_configs(bare).values():
        config.pop("caBundle", None)
    if bare["kind"] == "Deployment":
        bare["spec"].pop("replicas", None)
    if _is_aggregated(bare):
        bare.pop("rules", None)
    if bare["kind"] == "Secret":
        bare.pop("data", None)  # whose contents are for those to say who keep them
    if bare["kind"] == "ServiceAccount":
        bare.pop("secrets", None)
    return bare


def changes(before: Object, after: Object) -> tuple[str, ...]:
    """In what two forms of an object differ, field by field, in a line each."""
    found = _differences("", comparable(before), comparable(after))
    return tuple(found[:_MOST] + ([f"and {len(found) - _MOST} more fields"] if len(found) > _MOST else []))


_LONGEST = 60  # characters of a value that a line shows
_MOST = 40  # lines


def _differences(path: str, before: Any, after: Any) -> list[str]:
    if before == after:
        return []
    if isinstance(before, dict) and isinstance(after, dict):
        keys = sorted({*before, *after})
        return [line for key in keys for line in _differences(f"{path}.{key}" if path else key, before.get(key), after.get(key))]
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        return [line for number, pair in enumerate(zip(before, after, strict=True)) for line in _differences(f"{path}[{number}]", *pair)]
    return [f"{path}: {_shown(before)} -> {_shown(after)}"]


def _shown(value: Any) -> str:
    text = "nothing" if value is None else repr(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
