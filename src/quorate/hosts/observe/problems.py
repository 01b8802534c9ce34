"""What is wrong with the hosts together: two that are one machine. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from quorate.hosts.probe.facts import HostFacts
from quorate.hosts.ssh.hosts import Unreachable


def problems(facts: Mapping[str, HostFacts | Unreachable]) -> tuple[str, ...]:
    """Each problem with the names of its hosts, in words."""
    known = {name: each for name, each in facts.items() if isinstance(each, HostFacts)}
    return tuple(_same_machine(known))


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
