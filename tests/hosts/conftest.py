"""Machines to connect to, a key that they know, and what opens connections; all closed when the test ends."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import asyncssh
import pytest

from quorate.hosts.connect.ssh.dial import Dialer, Timing
from quorate.hosts.connect.ssh.host import SshHost
from quorate.hosts.connect.ssh.host_keys import fingerprint
from quorate.hosts.connect.ssh.hosts import Hosts
from quorate.hosts.connect.ssh.known_hosts import KnownHosts
from quorate.hosts.connect.ssh.target import Endpoint, Identity, Target
from tests.hosts.ssh.machine import USER, Machine

NewMachine = Callable[..., Awaitable[Machine]]
NewHosts = Callable[..., Hosts]


@pytest.fixture
async def closing() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as stack:
        yield stack


@pytest.fixture
def key() -> asyncssh.SSHKey:
    """The operator's private key."""
    return asyncssh.generate_private_key("ssh-ed25519")


@pytest.fixture
def key_file(key: asyncssh.SSHKey, tmp_path: Path) -> Path:
    path = tmp_path / "id_ed25519"
    key.write_private_key(path)
    return path


@pytest.fixture
def new_machine(closing: AsyncExitStack, key: asyncssh.SSHKey, tmp_path: Path) -> NewMachine:
    """Starts a machine that lets the operator's key in, unless told otherwise."""
    count = 0

    async def start(**settings: Any) -> Machine:
        nonlocal count
        count += 1
        machine = Machine(**{"folder": tmp_path / f"machine-{count}", "authorized": [key], **settings})
        await machine.start()
        closing.push_async_callback(machine.stop)
        return machine

    return start


@pytest.fixture
async def machine(new_machine: NewMachine) -> Machine:
    return await new_machine()


@pytest.fixture
def known_hosts(tmp_path: Path) -> KnownHosts:
    return KnownHosts(tmp_path / "ssh" / "known_hosts")


@pytest.fixture
def new_hosts(closing: AsyncExitStack, known_hosts: KnownHosts) -> NewHosts:
    """Makes what opens connections; connections are closed before the machines are."""

    def make(*, accept_new_host_keys: bool = False, **timing: Any) -> Hosts:
        hosts = Hosts(Dialer(known_hosts, accept_new_host_keys=accept_new_host_keys, timing=Timing(**timing)))
        closing.push_async_callback(hosts.aclose)
        return hosts

    return make


@pytest.fixture
def new_target(key_file: Path) -> Callable[..., Target]:
    """A target that is a machine, with its host key pinned and the operator's key file, unless told otherwise."""

    def make(machine: Machine, *, name: str = "cp-1", bastion: Endpoint | None = None, **settings: Any) -> Target:
        return Target(name=name, endpoint=endpoint(machine, key_file, **settings), bastion=bastion)

    return make


@pytest.fixture
def host(machine: Machine, new_hosts: NewHosts, new_target: Callable[..., Target]) -> SshHost:
    """The machine, connected when it is first used."""
    return new_hosts().host(new_target(machine))


def endpoint(machine: Machine, key_file: Path | None, **settings: Any) -> Endpoint:
    """The machine as an endpoint."""
    defaults = {
        "address": "127.0.0.1",
        "port": machine.port,
        "user": USER,
        "identity": Identity(key_file=key_file),
        "host_key": fingerprint(machine.host_keys[0]),
    }
    return Endpoint(**{**defaults, **settings})
