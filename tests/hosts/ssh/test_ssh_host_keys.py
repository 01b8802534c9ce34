"""Host keys: who is let near, who is refused, and what is said and recorded."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path

import asyncssh
import pytest

from quorate.hosts.connect.ssh.errors import HostKeyChanged, HostKeyRefused, HostKeyUnknown, KnownHostsUnusable
from quorate.hosts.connect.ssh.host_keys import fingerprint, parse_pin
from quorate.hosts.connect.ssh.known_hosts import KnownHosts
from quorate.hosts.connect.ssh.target import Target
from tests.hosts.conftest import NewHosts, NewMachine
from tests.hosts.ssh.machine import Machine

NewTarget = Callable[..., Target]


def public(key: asyncssh.SSHKey) -> str:
    return key.export_public_key("openssh").decode().strip()


def say(known_hosts: KnownHosts, text: str) -> None:
    known_hosts.path.parent.mkdir(exist_ok=True)
    known_hosts.path.write_text(text)


@pytest.mark.parametrize("kind", ["ssh-ed25519", "ecdsa-sha2-nistp256", "ssh-rsa"])
def test_a_pin_is_a_fingerprint_a_public_key_or_the_base64_of_one(kind: str) -> None:
    key = asyncssh.generate_private_key(kind)
    for text in (fingerprint(key), f"{fingerprint(key)}=", public(key), f"{public(key)} root@cp-1\n", public(key).split()[1]):
        assert parse_pin(text, "the manifest").fingerprints == (fingerprint(key),)


@pytest.mark.parametrize(
    "text", ["", "MD5:00:11", "SHA256:short", "ssh-ed25519", "not base64!", base64.b64encode(b"\0\0\0\7garbage").decode()]
)
def test_anything_else_is_no_pin_and_the_error_says_what_is(text: str) -> None:
    with pytest.raises(ValueError, match=r"SHA256 fingerprint .*ssh-keygen -lf"):
        parse_pin(text, "the manifest")


@pytest.mark.parametrize("form", [fingerprint, public, lambda key: public(key).split()[1]])
async def test_a_host_with_the_key_of_the_manifest_is_let_near(
    machine: Machine, new_hosts: NewHosts, new_target: NewTarget, form: Callable[[asyncssh.SSHKey], str]
) -> None:
    await new_hosts().host(new_target(machine, host_key=form(machine.host_keys[0]))).connect()


async def test_a_host_with_another_key_than_the_manifest_is_refused_with_both_fingerprints(
    machine: Machine, new_hosts: NewHosts, new_target: NewTarget, key: asyncssh.SSHKey
) -> None:
    with pytest.raises(HostKeyChanged) as caught:
        await new_hosts(accept_new_host_keys=True).host(new_target(machine, host_key=fingerprint(key))).connect()
    shown, known = fingerprint(machine.host_keys[0]), fingerprint(key)
    assert f"its host key is {shown} (ssh-ed25519), but the manifest has {known}" in str(caught.value)
    assert machine.logins == []


async def test_a_malformed_pin_is_refused_before_anything_is_sent(machine: Machine, new_hosts: NewHosts, new_target: NewTarget) -> None:
    with pytest.raises(HostKeyUnknown, match="the host key in the manifest cannot be understood"):
        await new_hosts(accept_new_host_keys=True).host(new_target(machine, host_key="MD5:00")).connect()
    assert machine.connections == []


async def test_an_unknown_host_is_refused_with_its_fingerprint_and_two_ways_out(
    machine: Machine, new_hosts: NewHosts, new_target: NewTarget, known_hosts: KnownHosts
) -> None:
    with pytest.raises(HostKeyUnknown) as caught:
        await new_hosts().host(new_target(machine, host_key="")).connect()
    assert fingerprint(machine.host_keys[0]) in caught.value.cause
    assert str(known_hosts.path) in caught.value.remedy
    assert "--accept-new-host-keys" in caught.value.remedy
    assert machine.logins == []
    assert not known_hosts.path.exists()


async def test_a_new_host_is_recorded_where_that_was_asked_for_and_known_from_then_on(
    machine: Machine, new_hosts: NewHosts, new_target: NewTarget, known_hosts: KnownHosts
) -> None:
    say(known_hosts, f"# mine\n10.0.0.1 {public(machine.host_keys[0])}")  # without an end of line
    known_hosts.path.chmod(0o644)
    await new_hosts(accept_new_host_keys=True).host(new_target(machine, host_key="")).connect()
    added = f"[127.0.0.1]:{machine.port} {public(machine.host_keys[0])}\n"
    assert known_hosts.path.read_text() == f"# mine\n10.0.0.1 {public(machine.host_keys[0])}\n{added}"
    assert known_hosts.path.stat().st_mode & 0o777 == 0o600
    assert [entry.name for entry in known_hosts.path.parent.iterdir()] == ["known_hosts"]
    await new_hosts().host(new_target(machine, host_key="")).connect()
    assert known_hosts.path.read_text().endswith(added)


async def test_a_link_to_known_hosts_stays_one(known_hosts: KnownHosts, tmp_path: Path, key: asyncssh.SSHKey) -> None:
    known_hosts.path.parent.mkdir()
    known_hosts.path.symlink_to(tmp_path / "elsewhere")
    known_hosts.record("10.0.0.1", 22, key)
    assert known_hosts.path.is_symlink()
    assert (tmp_path / "elsewhere").read_text() == f"10.0.0.1 {public(key)}\n"


async def test_a_changed_host_is_refused_even_where_new_ones_are_taken(
    machine: Machine, new_hosts: NewHosts, new_target: NewTarget, known_hosts: KnownHosts, key: asyncssh.SSHKey
) -> None:
    say(known_hosts, f"[127.0.0.1]:{machine.port} {public(key)}\n")
    before = known_hosts.path.read_text()
    with pytest.raises(HostKeyChanged, match="The connection may be intercepted") as caught:
        await new_hosts(accept_new_host_keys=True).host(new_target(machine, host_key="")).connect()
    assert fingerprint(key) in caught.value.cause
    assert fingerprint(machine.host_keys[0]) in caught.value.cause
    assert known_hosts.path.read_text() == before


async def test_a_host_whose_key_changed_its_type_has_changed_too(
    machine: Machine, new_hosts: NewHosts, new_target: NewTarget, known_hosts: KnownHosts
) -> None:
    known_hosts.record("127.0.0.1", machine.port, asyncssh.generate_private_key("ecdsa-sha2-nistp256"))
    with pytest.raises(HostKeyChanged):
        await new_hosts(accept_new_host_keys=True).host(new_target(machine, host_key="")).connect()


@pytest.mark.parametrize("kind", ["ecdsa-sha2-nistp256", "ssh-rsa"])
async def test_a_host_with_several_keys_shows_the_one_that_is_known(
    new_machine: NewMachine, new_hosts: NewHosts, new_target: NewTarget, known_hosts: KnownHosts, kind: str
) -> None:
    second = asyncssh.generate_private_key(kind)
    machine = await new_machine(host_keys=[asyncssh.generate_private_key("ssh-ed25519"), second])
    known_hosts.record("127.0.0.1", machine.port, second)
    await new_hosts().host(new_target(machine, host_key="")).connect()
    await new_hosts().host(new_target(machine, host_key=public(second))).connect()


async def test_a_key_known_for_another_port_of_the_address_says_nothing(
    machine: Machine, new_hosts: NewHosts, new_target: NewTarget, known_hosts: KnownHosts, key: asyncssh.SSHKey
) -> None:
    known_hosts.record("127.0.0.1", 22, key)
    with pytest.raises(HostKeyUnknown):
        await new_hosts().host(new_target(machine, host_key="")).connect()


async def test_hashed_names_and_patterns_are_understood(known_hosts: KnownHosts, key: asyncssh.SSHKey) -> None:
    hashed = "|1|F1E1KeoE/eEWhi10WpGv4OdiO6Y=|3988QV0VE8wmZL7suNrYQLITLCg="  # 192.168.1.61, of the OpenSSH test suite
    say(known_hosts, f"{hashed} {public(key)}\n*.example.org,!bad.example.org {public(key)}\n")
    assert known_hosts.trusted("192.168.1.61", 22).fingerprints == (fingerprint(key),)
    assert known_hosts.trusted("a.example.org", 22).fingerprints == (fingerprint(key),)
    assert known_hosts.trusted("bad.example.org", 22).fingerprints == ()


async def test_a_revoked_key_is_refused(machine: Machine, new_hosts: NewHosts, new_target: NewTarget, known_hosts: KnownHosts) -> None:
    line = f"[127.0.0.1]:{machine.port} {public(machine.host_keys[0])}\n"
    say(known_hosts, f"{line}@revoked {line}")
    with pytest.raises(HostKeyRefused, match="revoked"):
        await new_hosts(accept_new_host_keys=True).host(new_target(machine, host_key="")).connect()


async def test_a_host_with_a_certificate_of_a_known_ca_is_let_near_and_one_without_is_not(
    new_machine: NewMachine, new_hosts: NewHosts, new_target: NewTarget, known_hosts: KnownHosts, key: asyncssh.SSHKey
) -> None:
    host_key = asyncssh.generate_private_key("ssh-ed25519")
    certificate = key.generate_host_certificate(host_key, "cp-1", principals=["127.0.0.1"])
    signed = await new_machine(host_keys=[host_key], host_certificates=[certificate])
    plain = await new_machine()
    say(known_hosts, f"@cert-authority * {public(key)}\n")
    await new_hosts().host(new_target(signed, host_key="")).connect()
    with pytest.raises(HostKeyChanged, match="has only a CA"):
        await new_hosts(accept_new_host_keys=True).host(new_target(plain, host_key="")).connect()


async def test_a_pinned_host_may_have_a_certificate_that_nobody_knows(
    new_machine: NewMachine, new_hosts: NewHosts, new_target: NewTarget, key: asyncssh.SSHKey
) -> None:
    host_key = asyncssh.generate_private_key("ssh-ed25519")
    certificate = key.generate_host_certificate(host_key, "cp-1", principals=["127.0.0.1"])
    machine = await new_machine(host_keys=[host_key], host_certificates=[certificate])
    await new_hosts().host(new_target(machine)).connect()


async def test_a_malformed_known_hosts_is_named_and_nothing_is_trusted(
    machine: Machine, new_hosts: NewHosts, new_target: NewTarget, known_hosts: KnownHosts
) -> None:
    say(known_hosts, "nonsense\n")
    with pytest.raises(KnownHostsUnusable, match=r"known_hosts cannot be read: Invalid known hosts entry: nonsense"):
        await new_hosts(accept_new_host_keys=True).host(new_target(machine, host_key="")).connect()


async def test_a_new_key_that_cannot_be_recorded_is_not_taken(
    machine: Machine, new_hosts: NewHosts, new_target: NewTarget, known_hosts: KnownHosts
) -> None:
    known_hosts.path.parent.write_text("a file where the folder should be")
    with pytest.raises(KnownHostsUnusable):
        await new_hosts(accept_new_host_keys=True).host(new_target(machine, host_key="")).connect()
    for connection in machine.connections:
        await connection.wait_closed()
