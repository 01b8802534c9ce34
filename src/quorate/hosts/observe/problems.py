"""What is wrong with the hosts together: two that are one machine, and clocks that are apart. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta

from quorate.hosts.probe.facts import HostFacts
from quorate.hosts.ssh.hosts import Unreachable

APART = timedelta(seconds=60)
"""How far clocks may be apart. Hosts are asked within a few seconds of each other, and certificates that were just made are not valid yet before their time."""


def problems(facts: Mapping[str, HostFacts | Unreachable]) -> tuple[str, ...]:
    """Each problem with the names of its hosts, in words."""
    known = {name: each for name, each in facts.items() if isinstance(each, HostFacts)}
    return (*_same_machine(known), *_clocks(known))


def _same_machine(facts: Mapping[str, HostFacts]) -> Iterator[str]:
    names = defaultdict(list)
    for name, each in facts.items():
        if isinstance(each.machine_id, str):
            names[each.machine_id].append(name)
    for machine_id, same in names.items():
        if len(same) > 1:
            yield (
                f"{', '.join(same)} have the same machine-id {machine_id}: they are one machine, or copies of one; correct the manifest, or give each "
                "copy its own (remove /etc/machine-id, run systemd-machine-id-setup, and restart it)"
            )


def _clocks(facts: Mapping[str, HostFacts]) -> Iterator[str]:
    clocks = {name: each.clock for name, each in facts.items() if isinstance(each.clock, datetime)}
    if not clocks:
        return
    earliest, latest = min(clocks, key=clocks.__getitem__), max(clocks, key=clocks.__getitem__)
    apart = clocks[latest] - clocks[earliest]
    if apart > APART:
        yield f"the clock of {latest} is {apart.total_seconds():.0f} s ahead of {earliest}'s: set both by NTP"
