"""How the settings of a host's running kernel differ from those that it was given, whatever its files say. Pure; what could not be read is no difference."""

from __future__ import annotations

from collections.abc import Iterator

from quorate.core.health import Absent, Unknown
from quorate.hosts.manifest import Manifest
from quorate.hosts.probe.facts import HostFacts, KernelSetting
from quorate.hosts.render.prerequisites import LIMITS, sysctls

_MODULES = {"net.bridge.": "br_netfilter", "net.netfilter.": "nf_conntrack"}
"""The kernel modules that settings come with."""


def kernel_drift(manifest: Manifest, facts: HostFacts) -> Iterator[str]:
    """What somebody else has set otherwise since, and the host can set again."""
    for name, wanted in sysctls(manifest).items():
        setting = facts.sysctls[name]
        if isinstance(setting, KernelSetting) and setting.writable and _differs(name, setting.value, wanted):
            yield f"kernel: {name} {_difference(setting, wanted)}"


def lasting_kernel_drift(manifest: Manifest, facts: HostFacts) -> Iterator[str]:
    """What the host itself cannot set."""
    for name, wanted in sysctls(manifest).items():
        match facts.sysctls[name]:
            case KernelSetting(value=value, writable=False) as setting if _differs(name, value, wanted):
                yield f"kernel: {name} {_difference(setting, wanted)}, and the host may not change it: set it on the machine that it runs on"
            case Absent():
                yield f"kernel: {name} is not there: {_module(name)}"
            case KernelSetting() | Unknown():
                pass


def _differs(name: str, value: str, wanted: int) -> bool:
    """A limit that somebody has raised is left alone: kube-proxy raises that of connections by the number of processors."""
    if name in LIMITS and value.isascii() and value.isdigit():
        return int(value) < wanted
    return value != str(wanted)


def _difference(setting: KernelSetting, wanted: int) -> str:
    return f"is {setting.value} instead of {wanted}"


def _module(name: str) -> str:
    for prefix, module in _MODULES.items():
        if name.startswith(prefix):
            return f"load kernel module {module} (`modprobe {module}`)"
    return "the kernel was started without it, which its command line may say"
