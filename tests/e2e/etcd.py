"""etcd of a host, asked past quorate: with `etcdctl`, from the machine that the tests run on."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.e2e.machines import Machine, Machines
from tests.e2e.nodes.commands import run
from tests.e2e.nodes.programs import binary

_PKI = "/etc/kubernetes/pki/etcd"


def members(machines: Machines, host: Machine) -> list[dict[str, Any]]:
    """The ring as this host's member lists it."""
    found: list[dict[str, Any]] = json.loads(etcdctl(machines, host, "member", "list", "-w", "json"))["members"]
    return found


def lead(machines: Machines, host: Machine) -> None:
    """Make this host's member the leader."""
    everybody = json.loads(etcdctl(machines, host, "endpoint", "status", "--cluster", "-w", "json"))
    leader = everybody[0]["Status"]["leader"]
    member = next(each["ID"] for each in members(machines, host) if each["name"] == host.name)
    if leader != member:
        endpoint = next(each["Endpoint"] for each in everybody if each["Status"]["header"]["member_id"] == leader)
        etcdctl(machines, host, "--endpoints", endpoint, "move-leader", f"{member:x}")


def etcdctl(machines: Machines, host: Machine, *arguments: str) -> str:
    """Run etcdctl against the host's member, with the host's own client certificate."""
    with _credentials(machines, host) as options:
        endpoint = () if "--endpoints" in arguments else ("--endpoints", f"https://{host.address}:2379")
        return run([binary("etcd-3.6.6", "etcdctl"), *options, *endpoint, *arguments], making="etcdctl")


@contextmanager
def _credentials(machines: Machines, host: Machine) -> Iterator[list[str]]:
    with tempfile.TemporaryDirectory() as folder:
        options = []
        for option, name in (("cacert", "ca.crt"), ("cert", "healthcheck-client.crt"), ("key", "healthcheck-client.key")):
            path = Path(folder, name)
            path.touch(mode=0o600)
            path.write_text(machines.run(host, f"cat {_PKI}/{name}"))
            options += [f"--{option}", str(path)]
        yield options
