"""Connections: how we prove who we are, the way through a bastion, what is kept, what is made again, and hosts that do not answer."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

import asyncssh
import pytest

from quorate.hosts.connect.ssh.errors import AuthenticationFailed, BastionRefused, ConnectionCut, HostKeyChanged, IdentityUnusable, NoAnswer
from quorate.hosts.connect.ssh.host import SshHost
from quorate.hosts.connect.ssh.hosts import Hosts, Unreachable
from quorate.hosts.connect.ssh.identities import agent_socket, offered
from quorate.hosts.connect.ssh.target import Endpoint, Identity, Target
from tests.hosts.conftest import NewHosts, NewMachine, endpoint
from tests.hosts.ssh.machine import USER, Agent, Machine

NewTarget = Callable[..., Target]


@pytest.fixture
async def silent(closing: AsyncExitStack) -> int:
    """The port of a server that accepts connections and never says anything."""
    server = closing.enter_context(socket.create_server(("127.0.0.1", 0)))
    port: int = server.getsockname()[1]
    return port


@pytest.fixture
def closed() -> int:
    """A port on which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return port


async def hello(host: SshHost) -> bytes:
    return (await host.run("echo hello", deadline=10, sudo=False)).stdout


async def agent_with(closing: AsyncExitStack, path: Path, *keys: asyncssh.SSHKey) -> Agent:
    agent = Agent(path, *keys)
    await agent.start()
    closing.push_async_callback(agent.stop)
    return agent


async def test_an_agent_signs_where_there_is_no_key_file(
    closing: AsyncExitStack, machine: Machine, new_hosts: NewHosts, new_target: NewTarget, key: asyncssh.SSHKey, tmp_path: Path
) -> None:
    agent = await agent_with(closing, tmp_path / "agent", asyncssh.generate_private_key("ssh-ed25519"), key)
    assert await hello(new_hosts().host(new_target(machine, identity=Identity(agent_socket=str(agent.path))))) == b"hello\n"
    assert agent.signed == 1


async def test_an_agent_that_does_not_answer_stops_nobody_who_has_a_key_file(
    machine: Machine, new_hosts: NewHosts, new_target: NewTarget, key_file: Path, tmp_path: Path
) -> None:
    identity = Identity(key_file=key_file, agent_socket=str(tmp_path / "nothing"))
    assert await hello(new_hosts().host(new_target(machine, identity=identity))) == b"hello\n"
    with pytest.raises(AuthenticationFailed, match=r"offered key .*id_ed25519; the agent at .*nothing does not answer: No such file"):
        await new_hosts().host(new_target(machine, identity=identity, user="nobody")).connect()


async def test_an_agent_that_is_all_we_have_and_does_not_answer_is_named(
    machine: Machine, new_hosts: NewHosts, new_target: NewTarget, tmp_path: Path
) -> None:
    with pytest.raises(IdentityUnusable, match=r"the agent at .*nothing does not answer.*Start ssh-agent"):
        await new_hosts().host(new_target(machine, identity=Identity(agent_socket=str(tmp_path / "nothing")))).connect()


async def test_an_agent_without_keys_is_said(
    closing: AsyncExitStack, machine: Machine, new_hosts: NewHosts, new_target: NewTarget, tmp_path: Path
) -> None:
    agent = await agent_with(closing, tmp_path / "agent")
    with pytest.raises(IdentityUnusable, match=r"holds no keys\. Add one with ssh-add"):
        await new_hosts().host(new_target(machine, identity=Identity(agent_socket=str(agent.path)))).connect()


async def test_no_key_at_all_is_said_and_nothing_of_the_users_own_is_tried(
    machine: Machine, new_hosts: NewHosts, new_target: NewTarget, key: asyncssh.SSHKey, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".ssh").mkdir()
    key.write_private_key(tmp_path / ".ssh" / "id_ed25519")
    with pytest.raises(IdentityUnusable, match="no key to log in with"):
        await new_hosts().host(new_target(machine, identity=Identity())).connect()


def test_an_agent_named_by_a_variable_is_looked_up() -> None:
    assert agent_socket("env:SSH_AUTH_SOCK", {"SSH_AUTH_SOCK": "/run/agent"}) == "/run/agent"
    assert agent_socket("env:SSH_AUTH_SOCK", {}) == ""
    assert agent_socket("/run/agent", {}) == "/run/agent"


async def test_a_key_file_that_never_ends_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path / "fifo", Path("/dev/zero")):
        with pytest.raises(IdentityUnusable, match="cannot be read: it is not a regular file"):
            async with offered(Endpoint(address="a", identity=Identity(key_file=path)), "host cp-1"):
                pass


async def test_a_key_with_a_passphrase_is_sent_to_an_agent(
    machine: Machine, new_hosts: NewHosts, new_target: NewTarget, key: asyncssh.SSHKey, tmp_path: Path
) -> None:
    path = tmp_path / "locked"
    path.write_bytes(key.export_private_key("pkcs8-pem", passphrase="hunter2"))
    with pytest.raises(IdentityUnusable, match=r"locked is protected by a passphrase\. Add it to an agent \(ssh-add .*locked\)"):
        await new_hosts().host(new_target(machine, identity=Identity(key_file=path))).connect()


@pytest.mark.parametrize(
    ("content", "cause"), [(None, "cannot be read: No such file"), ("nonsense", "is not a private key that can be used")]
)
async def test_a_key_file_that_cannot_be_used_is_named(
    machine: Machine, new_hosts: NewHosts, new_target: NewTarget, tmp_path: Path, content: str | None, cause: str
) -> None:
    path = tmp_path / "key"
    if content is not None:
        path.write_text(content)
    with pytest.raises(IdentityUnusable, match=cause):
        await new_hosts().host(new_target(machine, identity=Identity(key_file=path))).connect()


async def test_a_certificate_is_shown_with_its_key(
    new_machine: NewMachine, new_hosts: NewHosts, new_target: NewTarget, key: asyncssh.SSHKey, key_file: Path, tmp_path: Path
) -> None:
    ca = asyncssh.generate_private_key("ssh-ed25519")
    path = tmp_path / "id_ed25519-cert.pub"
    ca.generate_user_certificate(key, "operator", principals=[USER]).write_certificate(path)
    machine = await new_machine(authorized=[], cas=[ca])
    assert await hello(new_hosts().host(new_target(machine, identity=Identity(key_file=key_file, certificate_file=path)))) == b"hello\n"
    with pytest.raises(AuthenticationFailed):
        await new_hosts().host(new_target(machine)).connect()


async def test_a_certificate_may_be_of_a_key_that_the_agent_holds(
    closing: AsyncExitStack, new_machine: NewMachine, new_hosts: NewHosts, new_target: NewTarget, key: asyncssh.SSHKey, tmp_path: Path
) -> None:
    ca, other = (asyncssh.generate_private_key("ssh-ed25519") for _ in range(2))
    path = tmp_path / "id_ed25519-cert.pub"
    ca.generate_user_certificate(key, "operator", principals=[USER]).write_certificate(path)
    machine = await new_machine(authorized=[], cas=[ca])
    agent = await agent_with(closing, tmp_path / "agent", other, key)
    empty = await agent_with(closing, tmp_path / "other", other)
    assert (
        await hello(new_hosts().host(new_target(machine, identity=Identity(certificate_file=path, agent_socket=str(agent.path)))))
        == b"hello\n"
    )
    with pytest.raises(IdentityUnusable, match="the agent does not hold its key"):
        await new_hosts().host(new_target(machine, identity=Identity(certificate_file=path, agent_socket=str(empty.path)))).connect()


async def test_a_certificate_of_another_key_is_named(
    machine: Machine, new_hosts: NewHosts, new_target: NewTarget, key_file: Path, tmp_path: Path
) -> None:
    other = asyncssh.generate_private_key("ssh-ed25519")
    path = tmp_path / "other-cert.pub"
    other.generate_user_certificate(other, "operator", principals=[USER]).write_certificate(path)
    with pytest.raises(IdentityUnusable, match=r"certificate .*other-cert\.pub cannot be used"):
        await new_hosts().host(new_target(machine, identity=Identity(key_file=key_file, certificate_file=path))).connect()
    with pytest.raises(IdentityUnusable, match=r"other-cert\.pub has no key"):
        await new_hosts().host(new_target(machine, identity=Identity(certificate_file=path))).connect()


async def test_a_user_who_is_not_let_in_is_named_with_what_was_offered(
    machine: Machine, new_hosts: NewHosts, new_target: NewTarget
) -> None:
    with pytest.raises(
        AuthenticationFailed, match=r"^host cp-1 \(nobody@127\.0\.0\.1:\d+\): user nobody is not let in \(offered key .*authorized_keys"
    ):
        await new_hosts().host(new_target(machine, user="nobody")).connect()


async def test_hosts_behind_a_bastion_share_one_connection_to_it(
    new_machine: NewMachine, new_hosts: NewHosts, new_target: NewTarget, key_file: Path
) -> None:
    bastion = await new_machine(user="jump")
    machines = [await new_machine(), await new_machine()]
    way = endpoint(bastion, key_file, user="jump")
    states = await new_hosts().connect(new_target(machine, name=f"cp-{machine.port}", bastion=way) for machine in machines)
    for host in states.values():
        assert isinstance(host, SshHost)
        assert await hello(host) == b"hello\n"
    assert len(bastion.connections) == 1
    assert bastion.commands == []
    assert sorted(bastion.forwarded) == sorted(("127.0.0.1", machine.port) for machine in machines)


async def test_the_key_of_a_bastion_is_checked_too(
    machine: Machine, new_machine: NewMachine, new_hosts: NewHosts, new_target: NewTarget, key_file: Path
) -> None:
    bastion = await new_machine()
    way = endpoint(bastion, key_file, host_key=endpoint(machine, key_file).host_key)
    with pytest.raises(HostKeyChanged, match=rf"^bastion operator@127\.0\.0\.1:{bastion.port}: its host key is"):
        await new_hosts().host(new_target(machine, bastion=way)).connect()
    assert bastion.logins == []
    assert machine.connections == []


async def test_a_bastion_that_does_not_forward_says_so(
    machine: Machine, new_machine: NewMachine, new_hosts: NewHosts, new_target: NewTarget, key_file: Path
) -> None:
    bastion = await new_machine(forwards=False)
    with pytest.raises(
        BastionRefused, match=r"host cp-1 .* through .*: the bastion does not connect to 127\.0\.0\.1:\d+: .*AllowTcpForwarding"
    ):
        await new_hosts().host(new_target(machine, bastion=endpoint(bastion, key_file))).connect()


async def test_a_bastion_that_refuses_us_is_asked_once_for_all_hosts_behind_it(
    machine: Machine, new_machine: NewMachine, new_hosts: NewHosts, new_target: NewTarget, key_file: Path
) -> None:
    bastion = await new_machine(authorized=[])
    way = endpoint(bastion, key_file)
    states = await new_hosts().connect(new_target(machine, name=f"cp-{number}", bastion=way) for number in range(5))
    assert {(state.kind, state.reason[:8]) for state in states.values() if isinstance(state, Unreachable)} == {
        ("AuthenticationFailed", "bastion ")
    }
    assert bastion.logins == [USER]


async def test_hosts_behind_a_bastion_that_was_cut_come_back_through_a_new_connection(
    new_machine: NewMachine, new_hosts: NewHosts, new_target: NewTarget, key_file: Path, machine: Machine
) -> None:
    bastion = await new_machine()
    host = new_hosts().host(new_target(machine, bastion=endpoint(bastion, key_file)))
    await hello(host)
    (inner,) = machine.connections
    bastion.cut()
    await inner.wait_closed()
    assert await hello(host) == b"hello\n"
    assert (len(bastion.connections), len(machine.connections)) == (2, 2)


async def test_those_that_do_not_answer_are_a_state_and_the_others_are_connected(
    new_machine: NewMachine, new_hosts: NewHosts, new_target: NewTarget, silent: int, closed: int
) -> None:
    machines = {name: await new_machine() for name in ("cp-1", "cp-2", "cp-3", "cp-4")}
    targets = [
        new_target(machines["cp-1"], name="cp-1"),
        new_target(machines["cp-2"], name="cp-2", port=silent),
        new_target(machines["cp-3"], name="cp-3", port=closed),
        new_target(machines["cp-4"], name="cp-4", user="nobody"),
    ]
    hosts = new_hosts(connect=2.0)
    states = await hosts.connect(targets)
    assert list(states) == ["cp-1", "cp-2", "cp-3", "cp-4"]
    assert {name: state.kind for name, state in states.items() if isinstance(state, Unreachable)} == {
        "cp-2": "NoAnswer",
        "cp-3": "NoAnswer",
        "cp-4": "AuthenticationFailed",
    }
    assert (await hosts.connect(targets[:1]))["cp-1"] is states["cp-1"]
    assert len(machines["cp-1"].connections) == 1


async def test_a_host_that_is_silent_is_given_up_at_the_deadline(
    new_hosts: NewHosts, new_target: NewTarget, machine: Machine, silent: int
) -> None:
    with pytest.raises(NoAnswer, match=r"no answer within 0\.2 s\. Check that the host is up"):
        await new_hosts(connect=0.2).host(new_target(machine, port=silent)).connect()


async def test_a_host_that_is_silent_behind_a_bastion_leaves_the_bastion_to_the_others(
    new_machine: NewMachine, new_hosts: NewHosts, new_target: NewTarget, key_file: Path, machine: Machine, silent: int
) -> None:
    bastion = await new_machine()
    way = endpoint(bastion, key_file)
    hosts = new_hosts(connect=2.0)
    states = await hosts.connect([new_target(machine, bastion=way), new_target(machine, name="cp-2", port=silent, bastion=way)])
    assert isinstance(states["cp-2"], Unreachable)
    assert states["cp-2"].reason == "no answer within 2 s"
    assert isinstance(states["cp-1"], SshHost)
    assert await hello(states["cp-1"]) == b"hello\n"
    assert len(bastion.connections) == 1


@pytest.mark.parametrize("address", ["no such host", "a" * 64 + ".example.org"])
async def test_an_address_that_is_none_is_a_host_that_does_not_answer(
    machine: Machine, new_hosts: NewHosts, new_target: NewTarget, address: str
) -> None:
    with pytest.raises(NoAnswer):
        await new_hosts().host(new_target(machine, address=address)).connect()


async def test_a_host_that_is_down_says_what_the_kernel_says(
    new_hosts: NewHosts, new_target: NewTarget, machine: Machine, closed: int
) -> None:
    with pytest.raises(NoAnswer, match=rf"^host cp-1 \(operator@127\.0\.0\.1:{closed}\): .*[Cc]onnect"):
        await new_hosts().host(new_target(machine, port=closed)).connect()


async def test_a_host_that_comes_back_is_connected_at_the_next_call(machine: Machine, new_hosts: NewHosts, new_target: NewTarget) -> None:
    target = new_target(machine)
    hosts = new_hosts()
    await machine.stop()
    assert isinstance((await hosts.connect([target]))["cp-1"], Unreachable)
    await machine.start()
    assert isinstance((await hosts.connect([target]))["cp-1"], SshHost)


async def test_a_connection_on_which_nothing_comes_back_is_cut_by_keepalive(
    machine: Machine, new_hosts: NewHosts, new_target: NewTarget
) -> None:
    async def freeze(process: asyncssh.SSHServerProcess[bytes]) -> None:
        transport = machine.connections[0]._transport
        assert transport is not None
        transport.pause_reading()  # from here on no question is read, as behind a cable that was pulled
        await process.channel.wait_closed()

    machine.serve = freeze
    host = new_hosts(keepalive=0.05, keepalive_count=3).host(new_target(machine))
    with pytest.raises(ConnectionCut):
        await host.run("true", deadline=30, sudo=False)


async def test_leaving_closes_everything_and_may_be_done_twice(machine: Machine, new_hosts: NewHosts, new_target: NewTarget) -> None:
    async with new_hosts() as hosts:
        assert isinstance(hosts, Hosts)
        await hello(hosts.host(new_target(machine)))
    await hosts.aclose()
    (connection,) = machine.connections
    await connection.wait_closed()
