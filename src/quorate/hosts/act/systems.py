"""What a step must know about a host before it works there: its facts, and which family's packages it takes."""

from __future__ import annotations

from quorate.core.health import Absent, Unknown
from quorate.hosts.act.failures import StepFailed
from quorate.hosts.connect.ssh.hosts import Unreachable
from quorate.hosts.manifest.host_fields import OperatingSystem
from quorate.hosts.observe.systems import system_of
from quorate.hosts.probe.facts import HostFacts
from quorate.hosts.render.kubeadm_configuration import Machine


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
