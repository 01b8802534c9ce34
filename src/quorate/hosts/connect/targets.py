"""From the hosts of a manifest to whom SSH connects: address, port and user, what proves who we are, the key the host must have, and the bastion."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from quorate.hosts.connect.ssh.identities import agent_socket
from quorate.hosts.connect.ssh.target import Endpoint, Identity, Target
from quorate.hosts.manifest import Host


def target(host: Host, name: str, environment: Mapping[str, str]) -> Target:
    """How the host is reached; `name` is what it is called in messages, `environment` what `env:NAME` of the manifest's agent sockets refers to.

    The manifest has its defaults: ports and users are set.
    """
    identity = Identity(
        key_file=_file(host.ssh_private_key_file),
        certificate_file=_file(host.ssh_cert_file),
        agent_socket=agent_socket(host.ssh_agent_socket, environment),
        agent_setting=host.ssh_agent_socket,
    )
    endpoint = Endpoint(
        address=host.public_address,
        port=host.ssh_port,
        user=host.ssh_username,
        identity=identity,
        host_key=_host_key(host.ssh_host_public_key),
    )
    return Target(name=name, endpoint=endpoint, bastion=_bastion(host, identity))


def _bastion(host: Host, identity: Identity) -> Endpoint | None:
    """A bastion with a key of its own is offered that one and the agent's; one without is offered what the host is."""
    if not host.bastion:
        return None
    own = _file(host.bastion_private_key_file)
    return Endpoint(
        address=host.bastion,
        port=host.bastion_port,
        user=host.bastion_user,
        identity=replace(identity, key_file=own, certificate_file=None) if own else identity,
        host_key=_host_key(host.bastion_host_public_key),
    )


def _file(path: str) -> Path | None:
    return Path(path).expanduser() if path else None


def _host_key(wire: bytes) -> str:
    """The key as the base64 of its wire format, which is one of the forms that a pin may have."""
    return base64.b64encode(wire).decode("ascii")
