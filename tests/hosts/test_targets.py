"""To whom SSH connects for a host of the manifest, with what, and which key it must show."""

from __future__ import annotations

import base64
from pathlib import Path

import asyncssh
import pytest

from quorate.hosts.connect.ssh.errors import IdentityUnusable
from quorate.hosts.connect.ssh.host_keys import parse_pin
from quorate.hosts.connect.ssh.identities import offered
from quorate.hosts.connect.ssh.target import Endpoint, Identity
from quorate.hosts.connect.targets import target
from quorate.hosts.manifest import Host
from tests.hosts.manifests import PUBLIC_KEY, document, load


def test_a_host_without_settings_is_reached_as_root_by_the_operators_agent() -> None:
    made = target(load(document()).hosts[0], "cp-1", {"SSH_AUTH_SOCK": "/run/agent"})
    assert made.endpoint == Endpoint(address="192.0.2.1", identity=Identity(agent_socket="/run/agent"))
    assert (made.name, made.bastion) == ("cp-1", None)


@pytest.mark.parametrize("with_a_key", [False, True])
async def test_what_a_variable_of_the_operators_holds_is_said_nowhere(tmp_path: Path, *, with_a_key: bool) -> None:
    key = tmp_path / "id"
    asyncssh.generate_private_key("ssh-ed25519").write_private_key(key)
    settings: dict[str, object] = {"sshAgentSocket": "env:MY_TOKEN", **({"sshPrivateKeyFile": str(key)} if with_a_key else {})}
    endpoint = target(_host(settings), "cp-1", {"MY_TOKEN": "hunter2"}).endpoint
    try:
        async with offered(endpoint, "host cp-1") as offer:
            said = f"{offer}"
    except IdentityUnusable as error:
        said = str(error)
    assert "the agent at env:MY_TOKEN does not answer" in said
    assert "hunter2" not in f"{said}{endpoint!r}"


def test_a_host_is_reached_as_the_manifest_says() -> None:
    settings = {
        "sshUsername": "admin",
        "sshPort": 2222,
        "sshPrivateKeyFile": "~/.ssh/id",
        "sshCertFile": "/certs/id-cert.pub",
        "sshHostPublicKey": PUBLIC_KEY,
    }
    made = target(_host(settings), "cp-1", {})
    assert (made.endpoint.user, made.endpoint.port) == ("admin", 2222)
    assert made.endpoint.identity == Identity(key_file=Path.home() / ".ssh/id", certificate_file=Path("/certs/id-cert.pub"))
    assert base64.b64decode(made.endpoint.host_key) == base64.b64decode(PUBLIC_KEY)


def test_a_pinned_key_is_one_that_the_verifier_understands() -> None:
    assert parse_pin(target(_host({"sshHostPublicKey": PUBLIC_KEY}), "cp-1", {}).endpoint.host_key, "the manifest").algorithms == (
        "ssh-ed25519",
    )


def test_a_bastion_is_offered_its_own_key_or_else_the_hosts() -> None:
    settings = {"sshPrivateKeyFile": "/keys/host", "bastion": "jump", "bastionUser": "hop", "bastionPort": 2022}
    shared = target(_host(settings), "cp-1", {}).bastion
    own = target(_host({**settings, "bastionPrivateKeyFile": "/keys/jump"}), "cp-1", {}).bastion
    assert shared == Endpoint(address="jump", port=2022, user="hop", identity=Identity(key_file=Path("/keys/host")))
    assert own is not None
    assert own.identity == Identity(key_file=Path("/keys/jump"))


def _host(settings: dict[str, object]) -> Host:
    made = document()
    made["controlPlane"]["hosts"][0] |= settings
    return load(made).hosts[0]
