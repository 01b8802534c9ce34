"""Keys to log in with: a private key file, its certificate, and what an agent holds."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import asyncssh

from quorate.hosts.connect.ssh.errors import IdentityUnusable
from quorate.hosts.connect.ssh.target import Endpoint, Identity
from quorate.hosts.manifest.named_files import content_of

_ENVIRONMENT = "env:"


@dataclass(frozen=True, slots=True)
class Offer:
    """Keys in the order in which they are offered, and in words what they are and what else could not be offered."""

    keys: tuple[asyncssh.SSHKeyPair, ...]
    sources: tuple[str, ...]
    problems: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "; ".join((f"offered {', '.join(self.sources)}", *self.problems))


def agent_socket(setting: str, environment: Mapping[str, str]) -> str:
    """The path that a manifest's sshAgentSocket means: `env:NAME` is the value of that variable, empty where it is not set."""
    return environment.get(setting.removeprefix(_ENVIRONMENT), "") if setting.startswith(_ENVIRONMENT) else setting


@asynccontextmanager
async def offered(endpoint: Endpoint, where: str) -> AsyncIterator[Offer]:
    """The keys to offer to a server, usable until the context ends: the agent signs over a connection of its own.

    An agent that cannot be used is an error only where there is no key file. Raises IdentityUnusable naming the file or socket; the caller sets the deadline.
    """
    identity = endpoint.identity
    certificate = _certificate(identity, where)
    from_file = _from_file(identity, certificate, where)
    agent, problem = await _agent(identity, where)
    try:
        from_agent, problem = await _agent_keys(agent, identity, problem)
        if not from_file and not from_agent:
            raise IdentityUnusable(where, problem or "no key to log in with", _remedy(identity, problem))
        if certificate is not None and identity.key_file is None:
            from_agent = _certified(from_agent, certificate, identity, where)
        yield Offer((*from_file, *from_agent), _sources(identity, len(from_agent)), (problem,) if problem else ())
    finally:
        if agent is not None:
            agent.close()
            await agent.wait_closed()


def _certificate(identity: Identity, where: str) -> asyncssh.SSHCertificate | None:
    if identity.certificate_file is None:
        return None
    if identity.key_file is None and not identity.agent_socket:
        remedy = "Name its private key file or the socket of the agent that holds it"
        raise IdentityUnusable(where, f"certificate {identity.certificate_file} has no key", remedy)
    try:
        return asyncssh.import_certificate(content_of(identity.certificate_file))
    except (OSError, ValueError) as error:
        raise _unusable_certificate(identity, where, str(error)) from None


def _from_file(identity: Identity, certificate: asyncssh.SSHCertificate | None, where: str) -> tuple[asyncssh.SSHKeyPair, ...]:
    if identity.key_file is None:
        return ()
    key = _private_key(identity.key_file, where)
    try:
        return tuple(asyncssh.load_keypairs([(key, certificate) if certificate else key]))
    except ValueError as error:
        raise _unusable_certificate(identity, where, str(error)) from None


def _certified(
    keys: tuple[asyncssh.SSHKeyPair, ...], certificate: asyncssh.SSHCertificate, identity: Identity, where: str
) -> tuple[asyncssh.SSHKeyPair, ...]:
    """The agent's keys, the one that the certificate is for first: sshd lets us try six (MaxAuthTries)."""
    signed_for = [key for key in keys if key.key_public_data == certificate.key.public_data]
    if not signed_for:
        raise _unusable_certificate(identity, where, "the agent does not hold its key")
    signed_for[0].set_certificate(certificate)
    return (signed_for[0], *(key for key in keys if key is not signed_for[0]))


def _unusable_certificate(identity: Identity, where: str, cause: str) -> IdentityUnusable:
    remedy = f"Give the SSH user certificate that was signed for {identity.key_file or 'a key of the agent'}"
    return IdentityUnusable(where, f"certificate {identity.certificate_file} cannot be used: {cause}", remedy)


def _private_key(path: Path, where: str) -> asyncssh.SSHKey:
    try:
        return asyncssh.import_private_key(content_of(path))
    except OSError as error:
        raise IdentityUnusable(
            where, f"key {path} cannot be read: {error.strerror or error}", "Correct its path or its permissions"
        ) from None
    except asyncssh.KeyImportError as error:
        if "assphrase" in str(error):
            remedy = f"Add it to an agent (ssh-add {path}) and name the agent's socket instead of the file"
            raise IdentityUnusable(where, f"key {path} is protected by a passphrase", remedy) from None
        raise IdentityUnusable(
            where, f"key {path} is not a private key that can be used: {error}", "Give an OpenSSH or PEM private key"
        ) from None


async def _agent(identity: Identity, where: str) -> tuple[asyncssh.SSHAgentClient | None, str]:
    if not identity.agent_socket:
        return None, ""
    try:
        return await asyncssh.connect_agent(identity.agent_socket), ""
    except OSError as error:
        problem = f"{identity.agent} does not answer: {error.strerror or error}"
        if identity.key_file is None:
            raise IdentityUnusable(where, problem, _remedy(identity, problem)) from None
        return None, problem


async def _agent_keys(
    agent: asyncssh.SSHAgentClient | None, identity: Identity, problem: str
) -> tuple[tuple[asyncssh.SSHKeyPair, ...], str]:
    if agent is None:
        return (), problem
    try:
        keys = tuple(await agent.get_keys())
    except ValueError as error:
        return (), f"{identity.agent} does not list its keys: {error}"
    return keys, "" if keys else f"{identity.agent} holds no keys"


def _remedy(identity: Identity, problem: str) -> str:
    if identity.agent_socket and problem.endswith("holds no keys"):
        return "Add one with ssh-add"
    if identity.agent_socket:
        return "Start ssh-agent, or name the socket of the one that runs"
    return "Name a private key file or the socket of an agent (SSH_AUTH_SOCK) for the host"


def _sources(identity: Identity, from_agent: int) -> tuple[str, ...]:
    certificate = (f"certificate {identity.certificate_file}",) if identity.certificate_file else ()
    key = (f"key {identity.key_file}",) if identity.key_file else ()
    return (*key, *certificate, *((f"{from_agent} keys of the agent",) if from_agent else ()))
