"""Hosts that cannot be told apart, or that are not where the manifest says: one machine that it has twice, copies of one image, an address that two have. Pure.

What a host that belongs to no cluster yet shows of this stops only that host: it is not prepared and does not join. Of workers that have joined nothing more is
done to those. Where a control plane host is one of two that have joined, nothing at all is done: either may be the one that is meant.
"""

from __future__ import annotations

import base64
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from quorate.core.health import Finding, Health
from quorate.core.hosts.state import NOT_UNIQUE, UNTOUCHED, Host, Kind
from quorate.hosts.connect.ssh.hosts import Unreachable
from quorate.hosts.probe.facts import HostFacts
from quorate.pki.certificates import comparable

Facts = Mapping[str, HostFacts | Unreachable]


@dataclass(frozen=True, slots=True)
class Doubt:
    """Why these hosts cannot be told apart or, where it is one, why it is not the machine that the manifest means; in words, with the way out."""

    hosts: tuple[str, ...]
    why: str


def doubts(facts: Facts, claims: Mapping[str, str]) -> tuple[Doubt, ...]:
    """What hosts have in common that each should have of its own; and addresses that they have, or lack, otherwise than the manifest says.

    `claims` is each host's address among the hosts. What a host does not tell is no reason for doubt.
    """
    known = {name: each for name, each in facts.items() if isinstance(each, HostFacts)}
    return (*_in_common(known), *_addresses(known, claims))


def set_apart(hosts: Sequence[Host], found: Sequence[Doubt]) -> tuple[tuple[Host, ...], tuple[str, ...]]:
    """The hosts, those that are in doubt marked; and what is so wrong that nothing may be done to any of them."""
    marked = {host.name: host for host in hosts}
    problems = []
    for doubt in found:
        untouched = [name for name in doubt.hosts if marked[name].kind in UNTOUCHED]
        joined = [name for name in doubt.hosts if name not in untouched]
        for name in untouched:
            marked[name] = replace(marked[name], not_unique=(*marked[name].not_unique, doubt.why))
        if len(joined) > 1 and any(marked[name].control_plane for name in joined):
            problems.append(doubt.why)
        elif len(joined) > 1:
            for name in joined:
                finding = Finding(Health.BAD, NOT_UNIQUE, doubt.why)
                marked[name] = replace(marked[name], kind=Kind.UNKNOWN, findings=(*marked[name].findings, finding))
    return tuple(marked.values()), tuple(problems)


def _machine_id(facts: HostFacts) -> str:
    return facts.machine_id if isinstance(facts.machine_id, str) else ""


def _ssh_host_key(facts: HostFacts) -> str:
    return facts.ssh_host_key if isinstance(facts.ssh_host_key, str) else ""


def _kubelet_certificate(facts: HostFacts) -> str:
    found = facts.certificates.get("kubelet")
    return base64.b64encode(found[0].der).decode() if isinstance(found, tuple) else ""


_OF_ITS_OWN: tuple[tuple[str, Callable[[HostFacts], str], str], ...] = (
    ("machine-id", _machine_id, "remove /etc/machine-id, run systemd-machine-id-setup, and restart it"),
    ("SSH host key", _ssh_host_key, "remove /etc/ssh/ssh_host_*, and make others with `ssh-keygen -A`"),
    ("kubelet certificate", _kubelet_certificate, "reset the copy, and let it join by itself"),
)
"""What no two machines have in common, how a host tells it, and how a copy gets its own."""


def _in_common(facts: Mapping[str, HostFacts]) -> Iterator[Doubt]:
    """Every group of hosts once, with everything that they share."""
    shared: dict[tuple[str, ...], list[tuple[str, str]]] = defaultdict(list)
    for what, tell, remedy in _OF_ITS_OWN:
        by_value: dict[str, list[str]] = defaultdict(list)
        for name, each in facts.items():
            by_value[tell(each)].append(name)
        for value, same in by_value.items():
            if value and len(same) > 1:
                shared[tuple(same)].append((what, remedy))
    for names, found in shared.items():
        whats, remedies = " and the same ".join(what for what, _ in found), "; ".join(remedy for _, remedy in found)
        copies = (
            f"they are one machine, or copies of one{_firmware(names, facts)}; correct the manifest, or give each copy its own ({remedies})"
        )
        yield Doubt(names, f"{', '.join(names)} have the same {whats}: {copies}")


def _firmware(names: Sequence[str], facts: Mapping[str, HostFacts]) -> str:
    """What the firmware says makes it likelier. Alone it says nothing: containers have it in common too."""
    found = {facts[name].product_uuid for name in names}
    return " (their product_uuid is the same too)" if len(found) == 1 and isinstance(next(iter(found)), str) else ""


def _addresses(facts: Mapping[str, HostFacts], claims: Mapping[str, str]) -> Iterator[Doubt]:
    """kubelet and etcd listen at this address: there is no other that a host which does not have it could use instead."""
    for name, claimed in claims.items():
        claim = comparable(claimed)
        holders = tuple(other for other, each in facts.items() if isinstance(each.addresses, frozenset) and claim in each.addresses)
        own = facts[name].addresses if name in facts else None
        others = tuple(other for other in holders if other != name)
        if others and name in holders:
            yield Doubt(
                (name, *others), f"{name} and {', '.join(others)} have the same address {claim}: remove it from all but one of them"
            )
        elif isinstance(own, frozenset) and own and name not in holders:
            whose = f", and {', '.join(others)} has it" if others else ""
            why = f"the manifest says that {name} is at {claim}, which is none of its addresses{whose}: correct its privateAddress"
            yield Doubt((name,), why)
