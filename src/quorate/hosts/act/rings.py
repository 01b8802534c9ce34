"""The ring, read anew at the instant of acting: every act that could cost quorum asks its gate of this one and of no older one (S10)."""

from __future__ import annotations

from collections.abc import Iterable

from quorate.core.checks import Check
from quorate.core.health import Unknown
from quorate.core.ring import Member, Ring
from quorate.hosts.act.failures import StepFailed
from quorate.hosts.act.tools import Observation, Tools
from quorate.hosts.kubeadm_configuration import Machine
from quorate.hosts.observe.membership import membership
from quorate.hosts.observe.ring import read_members
from quorate.hosts.ssh.hosts import Unreachable
from quorate.workload.membership import RingReading


async def fresh_ring(tools: Tools, observation: Observation) -> RingReading:
    """The members as a majority confirms them now, each with what it says of itself. Raises StepFailed where nobody can tell, or where members disagree."""
    asked = [host.name for host in observation.cluster.control_planes if not isinstance(tools.access.states[host.name], Unreachable)]
    reading = await read_members(tools.access, asked, tools.now)
    if isinstance(reading, Unknown):
        raise StepFailed("etcd", f"the ring cannot be read: {reading.reason}", reading.remedy)
    if reading.disagreement:
        raise StepFailed("etcd", f"its members disagree: {reading.disagreement}", "Look at etcd on each of them before changing anything")
    return reading


def require(where: str, checks: Iterable[Check]) -> None:
    """Raise StepFailed with the first check that does not pass: what was safe when it was decided is not any more."""
    for check in checks:
        if not check.passed:
            raise StepFailed(where, f"not done, since {check.name}: {check.evidence} ({check.outcome.value})", check.remedy)


def member_of(machine: Machine, ring: Ring) -> Member | None:
    """The member that lives at an address of this host, or that has its name and no address; None where there is none. As observed hosts are matched."""
    host = machine.host
    found = membership(ring, {machine.name: (host.private_address, host.public_address, *host.ipv6_addresses)}).member(machine.name)
    return found if isinstance(found, Member) else None
