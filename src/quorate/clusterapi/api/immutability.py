"""Which fields of a KubeadmControlPlane may change once it exists.

A change is told by the merge patch (RFC 7386) from the old object to the new one, laid flat into the paths of what it sets or removes; lists and removals are
leaves. Each path must match an entry of one table. What is empty counts as not there, as it does for the Go types that this API is defined by.

Source: cluster-api, controlplane/kubeadm/webhooks/admission/kubeadmcontrolplane.go.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from quorate.clusterapi.api.fields import Errors, FieldError, Kind, Object

Path = tuple[str, ...]

_CONFIG: Path = ("spec", "kubeadmConfigSpec")
_SCOPES: tuple[tuple[Path, str], ...] = (
    (("spec",), "replicas version remediation+ machineNaming+ rollout+"),
    (("spec", "machineTemplate"), "metadata+ spec+"),
    (
        _CONFIG,
        "bootCommands preKubeadmCommands postKubeadmCommands files verbosity users ntp+ ignition+ diskSetup+ format mounts",
    ),
    (
        (*_CONFIG, "clusterConfiguration"),
        "etcd+ dns+ imageRepository featureGates+ apiServer+ controllerManager+ scheduler+ certificateValidityPeriodDays encryptionAlgorithm",
    ),
    (
        (*_CONFIG, "initConfiguration"),
        "nodeRegistration+ patches+ skipPhases bootstrapTokens localAPIEndpoint+ timeouts+",
    ),
    (
        (*_CONFIG, "joinConfiguration"),
        "nodeRegistration+ patches+ skipPhases caCertPath controlPlane+ discovery+ timeouts+",
    ),
)
"""What may change, by scope; a plus: also everything below."""


def _changeable() -> tuple[frozenset[Path], frozenset[Path]]:
    exact: set[Path] = set()
    below: set[Path] = {("metadata",)}
    for scope, names in _SCOPES:
        for name in names.split():
            path = (*scope, name.removesuffix("+"))
            exact.add(path)
            if name.endswith("+"):
                below.add(path)
    return frozenset(exact), frozenset(below)


EXACT, BELOW = _changeable()


def may_change(path: Path) -> bool:
    """Whether this very field may be set, changed or removed. Removing a parent is a change of the parent, not of what is in it."""
    return path in EXACT or any(path[:length] in BELOW for length in range(1, len(path)))


def immutable_changes(old: Object, new: Object, *, written: bool = False) -> Errors:
    """Every change from `old` to `new` that is not allowed. Status is another resource's matter.

    `written`: both are as a program writes them that read them into its types. What is empty there is something: a part that holds an empty list, say.
    """
    before, after = ({key: value for key, value in each.items() if key != "status"} for each in (old, new))
    if not written:
        before, after = _without_empty(before), _without_empty(after)
    for path in sorted(changed_paths(before, after)):
        if not may_change(path):
            yield FieldError(".".join(path), Kind.FORBIDDEN, "cannot be changed after creation: make a new control plane to change it")


def specification_stays(old: Object, new: Object) -> bool:
    """Whether nothing of the specification changes, but for what is empty."""
    before, after = (_without_empty({"spec": each.get("spec")} if isinstance(each.get("spec"), dict) else {}) for each in (old, new))
    return before == after


def changed_paths(old: Object, new: Object, prefix: Path = ()) -> Iterator[Path]:
    """The paths that a merge patch from `old` to `new` sets or removes."""
    for key in old.keys() | new.keys():
        path = (*prefix, key)
        if key not in new:
            yield path
        elif isinstance(new[key], dict):
            before = old.get(key)
            yield from changed_paths(before if isinstance(before, dict) else {}, new[key], path)
        elif key not in old or old[key] != new[key]:
            yield path


def _without_empty(value: Object) -> Object:
    kept: Object = {}
    for key, each in value.items():
        part = _without_empty(each) if isinstance(each, dict) else each
        if not _is_empty(part) or (key == "controlPlane" and part == {}):  # an empty controlPlane says: join as one
            kept[key] = part
    return kept


def _is_empty(value: Any) -> bool:
    return value is None or value in ("", {})
