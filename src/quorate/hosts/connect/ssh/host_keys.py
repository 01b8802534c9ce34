"""Which host key is right: what the manifest or known_hosts says, compared with what a host shows."""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass
from enum import Enum

import asyncssh

_ALGORITHMS = (
    "ssh-ed25519",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "rsa-sha2-512",
    "rsa-sha2-256",
)
"""What a host may sign with, best first, as OpenSSH 8.8 and later: without ssh-rsa, which is SHA-1."""
_CERTIFICATES = tuple(f"{algorithm}-cert-v01@openssh.com" for algorithm in _ALGORITHMS)
_FINGERPRINT = re.compile(r"SHA256:[A-Za-z0-9+/]{43}=?")


class Verdict(Enum):
    """What a host key that was shown is."""

    KNOWN = "known"
    NEW = "new"
    CHANGED = "changed"


@dataclass(frozen=True, slots=True)
class Trusted:
    """What is known of one host's keys, and who says so. Nothing at all: the host is new."""

    source: str
    fingerprints: tuple[str, ...] = ()  # SHA256:..., without padding
    algorithms: tuple[str, ...] = ()  # of the keys, where the source says them
    cas: tuple[asyncssh.SSHKey, ...] = ()
    revoked: tuple[asyncssh.SSHKey, ...] = ()

    def judge(self, fingerprint: str) -> Verdict:
        """The verdict on a plain key. Where only a CA is known, a key without its certificate has changed."""
        if fingerprint in self.fingerprints:
            return Verdict.KNOWN
        return Verdict.CHANGED if self.fingerprints or self.cas else Verdict.NEW

    @property
    def preferred_algorithms(self) -> list[str]:
        """What to ask the host for: first what the known keys sign with, so that a host with several keys shows the one that is known."""
        signs_with = {signature for algorithm in self.algorithms for signature in _signatures(algorithm)}
        certificates = _CERTIFICATES if self.cas else ()
        return [*certificates, *sorted(_ALGORITHMS, key=lambda algorithm: algorithm not in signs_with)]


def fingerprint(key: asyncssh.SSHKey) -> str:
    """SHA256:... as ssh-keygen -l prints it."""
    return key.get_fingerprint("sha256")


def algorithm(key: asyncssh.SSHKey) -> str:
    """The type of a key, such as ssh-ed25519."""
    return key.get_algorithm()


def parse_pin(text: str, source: str) -> Trusted:
    """What the manifest says of a host's key: `SHA256:...`, `ssh-ed25519 AAAA...` or only the base64 of the key, which is KubeOne's form.

    Raises ValueError saying what is accepted; MD5 fingerprints are not.
    """
    text = text.strip()
    if _FINGERPRINT.fullmatch(text):
        return Trusted(source, (text.rstrip("="),))
    key = _public_key(text)
    return Trusted(source, (fingerprint(key),), (algorithm(key),))


def _public_key(text: str) -> asyncssh.SSHKey:
    try:
        if " " not in text:
            wire = base64.b64decode(text, validate=True)
            name = wire[4 : 4 + int.from_bytes(wire[:4], "big")].decode("ascii")  # RFC 4253 6.6: the first string of a key is its type
            text = f"{name} {text}"
        return asyncssh.import_public_key(text)
    except (binascii.Error, UnicodeDecodeError, asyncssh.KeyImportError):
        raise ValueError(
            "a host key is a SHA256 fingerprint (SHA256:...), a public key (ssh-ed25519 AAAA...) or the base64 of one; "
            "`ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub` on the host prints the first"
        ) from None


def _signatures(key_algorithm: str) -> tuple[str, ...]:
    return ("rsa-sha2-512", "rsa-sha2-256") if key_algorithm == "ssh-rsa" else (key_algorithm,)
