"""Which family's packages a host takes: what the host itself says it is, or what the manifest says where that cannot be told."""

from __future__ import annotations

from quorate.core.health import Absent, Unknown
from quorate.hosts.act.failures import StepFailed
from quorate.hosts.kubeadm_configuration import Machine
from quorate.hosts.manifest.host_fields import OperatingSystem
from quorate.hosts.probe.facts import Family, HostFacts
from quorate.hosts.ssh.hosts import Unreachable

_BY_ID = {
    "ubuntu": OperatingSystem.UBUNTU,
    "debian": OperatingSystem.DEBIAN,
    "centos": OperatingSystem.CENTOS,
    "rhel": OperatingSystem.RHEL,
    "rocky": OperatingSystem.ROCKY_LINUX,
    "flatcar": OperatingSystem.FLATCAR,
}
_BY_FAMILY = {Family.DEBIAN: OperatingSystem.DEBIAN, Family.RHEL: OperatingSystem.ROCKY_LINUX, Family.FLATCAR: OperatingSystem.FLATCAR}
"""Relatives: AlmaLinux takes what Rocky Linux does."""


def system_of(machine: Machine, facts: HostFacts) -> OperatingSystem:
    """The system; UNKNOWN where neither the host nor the manifest tells."""
    told = facts.operating_system
    if isinstance(told, Absent | Unknown):
        return machine.host.operating_system
    return _BY_ID.get(told.id) or _BY_FAMILY.get(told.family) or machine.host.operating_system


def known_facts(name: str, facts: HostFacts | Unreachable) -> HostFacts:
    """The facts of a host that was reached. Raises StepFailed of one that was not."""
    if isinstance(facts, Unreachable):
        raise StepFailed(name, facts.reason, facts.remedy)
    return facts


def known_system(machine: Machine, facts: HostFacts) -> OperatingSystem:
    """The system. Raises StepFailed where it is not known."""
    system = system_of(machine, facts)
    if system is OperatingSystem.UNKNOWN:
        told = facts.operating_system
        name = told.name if not isinstance(told, Absent | Unknown) else "an unknown system"
        choices = ", ".join(each.value for each in OperatingSystem if each.value)
        raise StepFailed(
            machine.name, f"the host runs {name}, whose packages are not known", f"Set operatingSystem of the host to one of {choices}"
        )
    return system
