"""Which family's packages a host takes: what the host itself says it is, or what the manifest says where that cannot be told."""

from __future__ import annotations

from quorate.core.health import Absent, Unknown
from quorate.hosts.manifest.host_fields import OperatingSystem
from quorate.hosts.probe.facts import Family, HostFacts
from quorate.hosts.render.kubeadm_configuration import Machine

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
