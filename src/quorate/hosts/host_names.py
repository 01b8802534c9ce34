"""What a host is called: by the manifest or else by itself. Its Node and its etcd member have that name too.

Source: KubeOne takes `hostname -f` where the manifest names no host, the short name on Azure, and the short name where the long one is a localhost.
"""

from __future__ import annotations

from collections.abc import Mapping

from quorate.hosts.manifest import Manifest

HOST_NAMES = "hostname -f 2>/dev/null || echo\nuname -n"
"""Prints the long name, or an empty line where the host has none, and the short one."""
NAMING_DEADLINE = 10.0
"""Seconds; a resolver that does not answer lets `hostname -f` wait for 5."""


def own_name(answer: bytes, *, fully_qualified: bool) -> str:
    """What the host calls itself, from the output of `HOST_NAMES`; empty where it did not say. In small letters, as kubeadm names Nodes."""
    long, short, *_ = (*(line.strip().lower() for line in answer.decode(errors="replace").splitlines()), "", "")
    return long if long and fully_qualified and not long.startswith("localhost") else short


def names_of(manifest: Manifest, own_names: Mapping[str, str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names of the manifest's hosts, in its order and each only once, and what is wrong with them. `own_names` is by the hosts' public addresses."""
    names: list[str] = []
    problems: list[str] = []
    for host in manifest.hosts:
        name = host.hostname or own_names.get(host.public_address) or host.public_address
        if name in names:
            problems.append(
                f"two hosts are called {name}, one of them {host.public_address}: give each a hostname in the manifest, or name the machine"
            )
            name = host.public_address
        names.append(name)
    return tuple(names), tuple(problems)
