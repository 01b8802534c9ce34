"""How the flags of the control plane's programs differ from those that the manifest gives them. Pure.

What says the same is the same: the order in a list, `1m` and `1m0s`, a feature gate and the experimental flag that it came from. Flags that kubeadm sets by
itself are its own, unless the manifest sets them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from typing import Any

from quorate.hosts.observe.known_flags import DEFAULT_PLUGINS, IGNORED, PLACES
from quorate.hosts.observe.values import difference, duration
from quorate.hosts.probe.facts import flag_name

_LISTS = frozenset(
    {
        "cipher-suites",
        "disable-admission-plugins",
        "enable-admission-plugins",
        "feature-gates",
        "oidc-signing-algs",
        "runtime-config",
        "tls-cipher-suites",
    }
)
_MAY_BE_SECRET = re.compile(r"(token|password|passphrase|secret|key)s?$")

_FORMERLY_EXPERIMENTAL = {  # etcd 3.5's names of what 3.6 has as flags and feature gates
    "experimental-corrupt-check-time": "corrupt-check-time",
    "experimental-watch-progress-notify-interval": "watch-progress-notify-interval",
}
_FEATURE_GATES = {
    "experimental-compact-hash-check-enabled": "CompactHashCheck",
    "experimental-initial-corrupt-check": "InitialCorruptCheck",
}

Value = frozenset[str] | timedelta | str


def arguments(part: Mapping[str, Any]) -> dict[str, str]:
    """The extraArgs of a part of a ClusterConfiguration, by name."""
    return {flag_name(str(each["name"])): str(each.get("value", "")) for each in part.get("extraArgs") or ()}


def parsed(flags: Iterable[str]) -> dict[str, str]:
    """Flags such as `--secure-port=6443` by name. One without a value is true; of one that is given twice, the values with a comma between, as a list."""
    found: dict[str, str] = {}
    for flag in flags:
        name, separator, value = flag.removeprefix("--").partition("=")
        name, value = flag_name(name), value if separator else "true"
        found[name] = f"{found[name]},{value}" if name in found else value
    return found


def flag_differences(
    component: str, wanted: Mapping[str, str], found: Mapping[str, str], *, own: frozenset[str] = frozenset()
) -> Iterator[str]:
    """In what the flags found differ from those wanted, each as a sentence with both values. Those in `own` may be there whether wanted or not.

    Those that say where data are are never rolled out: `observe.configuration` refuses a manifest that wants them otherwise than the cluster has them.
    """
    has, wants = _normalized(component, found), _normalized(component, wanted)
    for name in sorted({*has, *wants} - PLACES.get(component, frozenset())):
        if name not in wants and (name in own or name in IGNORED.get(component, {})):
            continue
        if has.get(name) != wants.get(name):
            yield f"{component}: --{name} {_difference(name, has.get(name), wants.get(name))}"


def _normalized(component: str, flags: Mapping[str, str]) -> dict[str, Value]:
    values = dict(flags)
    if component == "etcd":
        values = _as_etcd_36(values)
    return {name: value for name, text in values.items() if (value := _value(name, text)) != frozenset()}


def _as_etcd_36(flags: Mapping[str, str]) -> dict[str, str]:
    renamed = {_FORMERLY_EXPERIMENTAL.get(name, name): value for name, value in flags.items() if name not in _FEATURE_GATES}
    gates = [f"{gate}={flags[name]}" for name, gate in _FEATURE_GATES.items() if name in flags]
    return {**renamed, "feature-gates": ",".join((*filter(None, [renamed.get("feature-gates")]), *gates))} if gates else renamed


def _value(name: str, text: str) -> Value:
    if name in _LISTS:
        items = frozenset(item.strip() for item in text.split(",") if item.strip())
        return items - DEFAULT_PLUGINS if name == "enable-admission-plugins" else items
    span = duration(text)
    return text if span is None else span


def _difference(name: str, found: Value | None, wanted: Value | None) -> str:
    return "differs from the manifest" if _MAY_BE_SECRET.search(name) else difference(found, wanted)
