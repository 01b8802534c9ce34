"""Whether a machine's KubeadmConfig still is what its control plane asks for. The answer decides rollouts, so it must neither miss a change nor invent one.

Source: matchesKubeadmConfig and what it calls in Cluster API's controlplane/kubeadm/pkg/filters.go. Upstream compares Go structs, in which an absent string,
object or list equals an empty one; `_normalized` gives plain dicts the same meaning. Fields in which empty says something else than absent are named below.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import msgspec

from quorate.core.versions import Version
from quorate.kubeadm.config import Spec, inner, is_join, machine_config
from quorate.kubeadm.known_fields import EVERYTHING, KnownFields

Path = tuple[str, ...]

_INIT, _JOIN, _CLUSTER = "initConfiguration", "joinConfiguration", "clusterConfiguration"
_ALIKE = ("timeouts", "patches", "skipPhases", "nodeRegistration")  # what init and join configuration have in common

# Never a reason to replace a machine: what the bootstrap provider fills in (controlPlaneEndpoint, discovery), what is changed in the running cluster (dns), and
# the timeout that the conversion from v1beta1 spreads over both configurations.
_IGNORED: tuple[Path, ...] = (
    (_CLUSTER, "controlPlaneEndpoint"),
    (_CLUSTER, "dns"),
    (_JOIN, "discovery"),
    (_INIT, "timeouts", "controlPlaneComponentHealthCheckSeconds"),
    (_JOIN, "timeouts", "controlPlaneComponentHealthCheckSeconds"),
)
# Once written by webhooks, so that old machines carry them and new ones do not. (A fourth, the API version of discovery's exec plugin, is ignored anyway.)
_FORMER_DEFAULTS: tuple[tuple[Path, str], ...] = (
    (("format",), "cloud-config"),
    ((_INIT, "nodeRegistration", "imagePullPolicy"), "IfNotPresent"),
    ((_JOIN, "nodeRegistration", "imagePullPolicy"), "IfNotPresent"),
)

_EMPTY_SAYS_SOMETHING = "taints"  # absent: kubeadm's default taint; empty: none at all
_ARGUMENTS = frozenset({"extraArgs", "kubeletExtraArgs"})  # lists of name and value, where an empty value is a value
_ZERO_IS_ABSENT = frozenset(
    {"bindPort", "certificateValidityPeriodDays", "caCertificateValidityPeriodDays", "percentage"}
)  # all other zeros are values
_TIMES = frozenset({"expires", "timeAdded"})
_MAY_BE_SECRET = frozenset(
    {"bootCommands", "bootstrapTokens", "extraEnvs", "files", "ignition", "postKubeadmCommands", "preKubeadmCommands", "users"}
)


@dataclass(frozen=True, slots=True)
class Difference:
    """One field that differs. `path` is written as in `kubectl explain`, with list positions; None stands for absent.

    The values never show in a repr, and in the text only where they are plain and no place for a secret.
    """

    path: str
    current: Any = field(repr=False)
    desired: Any = field(repr=False)
    known: bool = True  # False: a field that this program or the bootstrap provider does not know; no reason to replace a machine (S19)

    def __str__(self) -> str:
        if self._shows_values:
            return f"{self.path}: {_words(self.current)} instead of {_words(self.desired)}"
        change = "is set but not wanted" if self.desired is None else "is not set" if self.current is None else "differs"
        return f"{self.path}: {change}"

    @property
    def _shows_values(self) -> bool:
        plain = not isinstance(self.current, dict | list) and not isinstance(self.desired, dict | list)
        return plain and _MAY_BE_SECRET.isdisjoint(re.split(r"[.\[]", self.path))


Compare = Callable[[Spec, Spec, Version], tuple[Difference, ...]]
"""`differences`, or what remembers its answers: from what is desired, what is there, and the version."""


def differences(desired: Spec, current: Spec, version: Version, fields: KnownFields = EVERYTHING) -> tuple[Difference, ...]:
    """How a machine's KubeadmConfig spec (`current`) differs from what a control plane with spec `desired` and `version` would give it today.

    Up to date is what differs in no known field. The order is that of the field names; what is not known comes last. A machine that initialized the cluster is
    compared as if it had joined, for both configurations should be alike, and where that fails as what it is; so neither its nature nor a deliberate difference
    between the two replaces it.
    """
    join = machine_config(desired, version=version, init=False)
    as_join = _compare(join, current if is_join(current) else _as_join(current, join), fields)
    if is_join(current):
        return as_join + _unknown(join, current, fields)
    init = machine_config(desired, version=version, init=True)
    return (as_join and _compare(init, current, fields)) + _unknown(init, current, fields)


def for_extensions(desired: Spec, current: Spec, fields: KnownFields = EVERYTHING) -> tuple[dict[str, Any], dict[str, Any]]:
    """What is wanted of a machine that joins, and what is there, as a runtime extension is shown them: JSON without what is ignored (the bootstrap token above
    all), nor fields that somebody does not know, in which the one differs from the other in nothing but what counts.

    A machine that initialized the cluster is shown as if it had joined. Source: PrepareKubeadmConfigsForDiff.
    """
    wanted, found = _shown(desired, desired, fields), _shown(current if is_join(current) else _as_join(current, desired), desired, fields)
    return wanted, found


def leftovers(desired: Spec, current: Spec) -> tuple[Difference, ...]:
    """What still differs of two specs that `for_extensions` made, once one of them was changed."""
    return tuple(_diff("", _normalized(current), _normalized(desired)))


def _shown(spec: Spec, desired: Spec, fields: KnownFields) -> dict[str, Any]:
    config = fields.of(_counting(spec))
    for path, default in _FORMER_DEFAULTS:
        _fill(config, path, default)
    shown: dict[str, Any] = msgspec.to_builtins(_normalized(config))
    shown[_JOIN].setdefault("controlPlane", {})  # the mark of one that joins, which says something though it is empty
    cluster = {name: inner(desired, _CLUSTER).get(name) for name in ("controlPlaneEndpoint", "dns")}
    kept = {name: value for name, value in cluster.items() if value}
    return {**shown, **({_CLUSTER: {**shown.get(_CLUSTER, {}), **kept}} if kept else {})}


def _as_join(current: Spec, desired: Spec) -> Spec:
    """An init machine's spec, its `initConfiguration` rewritten as the `joinConfiguration` that means the same.

    `caCertPath` exists for joins only; it is taken from `desired`, so that it never replaces a machine that initialized the cluster.
    """
    init = current.get(_INIT) or {}
    join = {name: init.get(name) for name in _ALIKE}
    join |= {"controlPlane": {"localAPIEndpoint": init.get("localAPIEndpoint")}, "caCertPath": desired[_JOIN].get("caCertPath")}
    return {**current, _INIT: None, _JOIN: join}


def _compare(desired: Spec, current: Spec, fields: KnownFields) -> tuple[Difference, ...]:
    return tuple(_diff("", _comparable(current, fields), _comparable(desired, fields)))


def _unknown(desired: Spec, current: Spec, fields: KnownFields) -> tuple[Difference, ...]:
    found, wanted = fields.unknown(_counting(current)), fields.unknown(_counting(desired))
    paths = sorted(path for path in found.keys() | wanted.keys() if found.get(path) != wanted.get(path))
    return tuple(Difference(path, found.get(path), wanted.get(path), known=False) for path in paths)


def _counting(spec: Spec) -> dict[str, Any]:
    """A copy of the spec without what is ignored."""
    config = copy.deepcopy(dict(spec))
    for path in _IGNORED:
        _drop(config, path)
    return config


def _comparable(spec: Spec, fields: KnownFields) -> Any:
    """The known fields of the spec in normal form, without what is ignored and with former defaults filled in."""
    config = fields.of(_counting(spec))
    for path, default in _FORMER_DEFAULTS:
        _fill(config, path, default)
    return _normalized(config)


def _drop(config: dict[str, Any], path: Path) -> None:
    *parents, last = path
    for name in parents:
        config = config.get(name) or {}
    config.pop(last, None)


def _fill(config: dict[str, Any], path: Path, default: str) -> None:
    *parents, last = path
    for name in parents:
        config[name] = config = config.get(name) or {}
    config[last] = config.get(last) or default


def _normalized(value: Any, name: str = "") -> Any:
    """The value with everything that means absent left out; `name` is the field it belongs to, for a list's elements the list's."""
    if isinstance(value, dict):
        members = {key: _normalized(member, key) for key, member in value.items()}
        return {key: member for key, member in members.items() if not _means_absent(member, key, argument=name in _ARGUMENTS)}
    if isinstance(value, list):
        return [_normalized(element, name) for element in value]
    return _time(value) if name in _TIMES and isinstance(value, str) else value


def _means_absent(value: object, name: str, *, argument: bool) -> bool:
    if value == "":
        return not (argument and name == "value")
    if value in ({}, []):
        return name != _EMPTY_SAYS_SOMETHING
    return value is None or (value == 0 and name in _ZERO_IS_ABSENT)


def _time(text: str) -> datetime | str:
    """The instant in whole seconds, as upstream writes it into the machine's spec; comparing a user's fraction with that, as upstream does, never ends.

    What is no RFC 3339 time is compared as it stands.
    """
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        return text
    return instant.astimezone(UTC).replace(microsecond=0) if instant.tzinfo else text


def _diff(path: str, current: Any, desired: Any) -> Iterator[Difference]:
    if isinstance(current, dict | None) and isinstance(desired, dict | None):  # an absent object: its absent fields are what differs
        found, wanted = current or {}, desired or {}
        for name in sorted(found.keys() | wanted.keys()):
            yield from _diff(f"{path}.{name}".lstrip("."), found.get(name), wanted.get(name))
    elif isinstance(current, list) and isinstance(desired, list) and len(current) == len(desired):
        for index, (found, wanted) in enumerate(zip(current, desired, strict=True)):
            yield from _diff(f"{path}[{index}]", found, wanted)
    elif current != desired:
        yield Difference(path, current, desired)


def _words(value: object) -> str:
    return "nothing" if value is None else repr(value)
