"""How a kubelet's configuration differs from what the manifest says. Pure. Only fields that a manifest can decide about are looked at."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from quorate.core import documents
from quorate.hosts.observe.values import differ, difference

FIELDS = (
    "systemReserved",
    "kubeReserved",
    "evictionHard",
    "maxPods",
    "imageGCHighThresholdPercent",
    "imageGCLowThresholdPercent",
    "imageMinimumGCAge",
    "imageMaximumGCAge",
    "tlsCipherSuites",
)
"""What a manifest may set or leave to the kubelet: where it leaves one out, the configuration must not have it either."""
_NUMBER = re.compile(r"[0-9]{1,19}")
IGNORED = {"volumePluginDir": "KubeOne gives this as a flag, which means the same"}
"""What quorate writes, and is no difference where it is missing; and why."""


def read(text: str | bytes) -> dict[str, Any]:
    """A KubeletConfiguration. Raises ValueError saying what is wrong, without any of its text."""
    try:
        document = documents.load(text)
    except documents.NotADocument as error:
        raise ValueError(str(error)) from None
    if not isinstance(document, dict):
        raise ValueError("it is no KubeletConfiguration")  # noqa: TRY004 (the text is wrong, not its type)
    return document


def kubelet_differences(wanted: Mapping[str, Any], found: Mapping[str, Any], flags: str = "") -> Iterator[str]:
    """The fields that differ, each as a sentence. `flags` are the kubelet's own, as kubeadm-flags.env has them: what one of them sets, as KubeOne had it done
    for single hosts, need not be in the configuration.
    """
    has = {**found, **{field: value for field, value in _from_flags(flags).items() if field in wanted}}
    for field in sorted({*wanted, *FIELDS} - {"apiVersion", "kind"}):
        if field not in has and field in IGNORED:
            continue
        for path, is_, should_be in _compared(field, has.get(field), wanted.get(field)):
            yield f"kubelet: {path} {difference(is_, should_be)}"


def overruling_flags(wanted: Mapping[str, Any]) -> tuple[str, ...]:
    """The kubelet's flags that stand above fields of this configuration: while one is set, what the configuration says counts for nothing."""
    return tuple(name for name, (field, _) in _FLAGS.items() if field in wanted)


def _compared(path: str, found: Any, wanted: Any) -> Iterator[tuple[str, Any, Any]]:
    """Where no single owner writes an object, its fields are compared one by one, and unwanted ones stay; a map of the manifest is compared whole."""
    if isinstance(wanted, dict) and path.partition(".")[0] not in FIELDS:
        members = found if isinstance(found, dict) else {}
        for name in sorted(wanted):
            yield from _compared(f"{path}.{name}", members.get(name), wanted[name])
    elif differ(found, wanted):
        yield path, found, wanted


def _from_flags(flags: str) -> dict[str, Any]:
    try:
        words = shlex.split(flags)
    except ValueError:  # a quote without its end: nothing can be told of them
        return {}
    pairs = (word.removeprefix("--").partition("=") for word in words)
    return {field: parse(value) for name, _, value in pairs if name in _FLAGS for field, parse in [_FLAGS[name]]}


def _quantities(value: str) -> dict[str, str]:
    return dict(item.split("=", 1) for item in value.split(",") if "=" in item)


def _thresholds(value: str) -> dict[str, str]:
    return dict(item.split("<", 1) for item in value.split(",") if "<" in item)


def _number(value: str) -> int | str:
    return int(value) if _NUMBER.fullmatch(value) else value


_FLAGS: Mapping[str, tuple[str, Callable[[str], Any]]] = {
    "system-reserved": ("systemReserved", _quantities),
    "kube-reserved": ("kubeReserved", _quantities),
    "eviction-hard": ("evictionHard", _thresholds),
    "max-pods": ("maxPods", _number),
    "image-gc-high-threshold": ("imageGCHighThresholdPercent", _number),
    "image-gc-low-threshold": ("imageGCLowThresholdPercent", _number),
    "minimum-image-ttl-duration": ("imageMinimumGCAge", str),
}
