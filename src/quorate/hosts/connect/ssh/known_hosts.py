"""A known_hosts file: what it says of a host, and how a new host gets into it."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import asyncssh

from quorate.hosts.connect.ssh.host_keys import Trusted, algorithm, fingerprint
from quorate.hosts.connect.ssh.target import SSH_PORT

_MODE = 0o600


class KnownHosts:
    """One file in OpenSSH's format, with hashed names, patterns, @cert-authority and @revoked. Read anew at each question, so that edits count at once."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def trusted(self, address: str, port: int) -> Trusted:
        """What the file says of the server at this address and port; a file that is not there says nothing.

        Raises OSError where it cannot be read, and ValueError where a line in it is malformed: a file that is read by half could miss a revocation.
        """
        if not self.path.exists():
            return Trusted(str(self.path))
        # Asked by the name alone: given a port, asyncssh falls back to the entry without one, and would call the host behind another port changed.
        found = asyncssh.import_known_hosts(self.path.read_text(encoding="utf-8")).match(_name(address, port), "", None)
        keys, cas, revoked = found[:3]
        return Trusted(
            str(self.path),
            tuple(fingerprint(key) for key in keys),
            tuple(algorithm(key) for key in keys),
            tuple(cas),
            tuple(revoked),
        )

    def record(self, address: str, port: int, key: asyncssh.SSHKey) -> None:
        """Add the key of a new host. The file is replaced as a whole, with mode 0600: no reader sees half of it. Raises OSError.

        Two processes that add at the same moment may lose one of the lines, which makes that host new once more.
        """
        path = self.path.resolve()  # a link, such as dotfile managers make, stays one
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        before = path.read_bytes() if path.exists() else b""
        if before and not before.endswith(b"\n"):
            before += b"\n"
        _replace(path, before + f"{_name(address, port)} ".encode() + key.export_public_key("openssh"))


def _name(address: str, port: int) -> str:
    """How the file names a server: without the port where that is 22."""
    return address if port == SSH_PORT else f"[{address}]:{port}"


def _replace(path: Path, content: bytes) -> None:
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(file.fileno(), _MODE)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
