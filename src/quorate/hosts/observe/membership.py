"""Which member of the ring is which host's. Pure.

By address first: a member lives where its peer URL points. Only a member without an address is matched by name, so that a member which has a host's name and
another address is a stray: the host was replaced by another of the same name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from quorate.core.health import Absent, Finding, Unknown
from quorate.core.in_place.cluster import StrayMember
from quorate.core.ring import Member, Ring
from quorate.hosts.observe.memory import Silences
from quorate.hosts.observe.ring import address_of
from quorate.hosts.probe.condition import EtcdRole
from quorate.hosts.probe.facts import Fact


@dataclass(frozen=True, slots=True)
class Membership:
    """The members by the host that they are of, and those of nobody."""

    by_host: Mapping[str, Member | Absent | Unknown]
    strays: tuple[Member, ...] = ()

    def member(self, host: str) -> Member | Absent | Unknown:
        """The host's member; a host that is not asked for, such as a worker, has none."""
        return self.by_host.get(host, Absent())


def membership(ring: Ring | Unknown | Absent, addresses: Mapping[str, Sequence[str]]) -> Membership:
    """The members by host; `addresses` are each control-plane host's, by its name."""
    if not isinstance(ring, Ring):
        return Membership(dict.fromkeys(addresses, ring))
    owners: dict[str, Member] = {}
    strays: list[Member] = []
    for member in ring.members:
        owner = _owner(member, addresses)
        if owner is None or owner in owners:
            strays.append(member)
        else:
            owners[owner] = member
    return Membership({host: owners.get(host, Absent()) for host in addresses}, tuple(strays))


def role(member: Member | Absent | Unknown) -> Fact[EtcdRole]:
    """What the member is in the ring."""
    if isinstance(member, Member):
        return EtcdRole.LEARNER if member.learner else EtcdRole.VOTER
    return member


def health(member: Member | Absent | Unknown) -> Finding | None:
    """How the member does by its own word; None where there is none to ask."""
    if not isinstance(member, Member):
        return None
    return Finding(member.health, "EtcdMember", member.evidence)


def stray_members(strays: Sequence[Member], silences: Silences[int]) -> tuple[StrayMember, ...]:
    """The strays, each with its silence."""
    return tuple(StrayMember(member, silences.of(member.id)) for member in strays)


def _owner(member: Member, addresses: Mapping[str, Sequence[str]]) -> str | None:
    address = address_of(member)
    if address:
        return next((host for host, own in addresses.items() if address in own), None)
    return member.name if member.name in addresses else None
