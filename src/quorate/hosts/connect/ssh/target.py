"""Who to connect to, as whom, and with what: one SSH server, and one host behind at most one bastion."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

SSH_PORT = 22


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What proves who we are: a private key without passphrase, its certificate, and the keys of an agent. All that is given is offered, in this order."""

    key_file: Path | None = None
    certificate_file: Path | None = None  # of the key in key_file or, without one, of a key that the agent holds
    agent_socket: str = field(default="", repr=False)
    agent_setting: str = field(
        default="", compare=False
    )  # what the manifest says of the socket: it may name a variable whose value is a secret

    @property
    def agent(self) -> str:
        """The agent in words, with the socket as it was named."""
        return f"the agent at {self.agent_setting or self.agent_socket}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One SSH server, the user to be there, and the host key it must have."""

    address: str
    port: int = SSH_PORT
    user: str = "root"
    identity: Identity = Identity()
    host_key: str = ""  # SHA256 fingerprint or public key, as the manifest says; empty: known_hosts says

    def __str__(self) -> str:
        return f"{self.user}@{f'[{self.address}]' if ':' in self.address else self.address}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One host of the manifest by its name, and the bastion through which it is reached, if any. The bastion resolves the host's address."""

    name: str
    endpoint: Endpoint
    bastion: Endpoint | None = None

    def __str__(self) -> str:
        return f"host {self.name} ({self.endpoint}{f' through {self.bastion}' if self.bastion else ''})"
