"""Bootstrap tokens, by which a machine that joins is known to a cluster and the cluster to it: how they look, and the Secret that makes one valid. Pure.

Source: kubernetes.io, "Authenticating with Bootstrap Tokens".
"""

from __future__ import annotations

import hashlib
import re
from base64 import b64encode
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

NAMESPACE = "kube-system"
GROUP = "system:bootstrappers:kubeadm:default-node-token"
"""Whom kubeadm allows to ask for a kubelet's certificate."""
_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz"
_TOKEN = re.compile(rb"[a-z0-9]{6}\.[a-z0-9]{16}")
_ID_LENGTH, _SECRET_LENGTH = 6, 16


def new_token(random_bytes: Callable[[int], bytes], identity: str = "") -> str:
    """A token as kubeadm wants it: six characters that name it, drawn where they are not given, a dot, and 16 that are secret."""
    return f"{identity or _drawn(random_bytes, _ID_LENGTH)}.{_drawn(random_bytes, _SECRET_LENGTH)}"


def id_of(machine: str) -> str:
    """The six characters that are always this machine's, so that whoever makes its token a second time finds the first."""
    return "".join(_ALPHABET[byte % len(_ALPHABET)] for byte in hashlib.sha256(machine.encode()).digest()[:_ID_LENGTH])


def secret_name(token: str) -> str:
    """The name of a token's Secret."""
    return f"bootstrap-token-{token.partition('.')[0]}"


def secret_object(token: str, expires: datetime, description: str, *, signing: bool) -> dict[str, Any]:
    """The Secret that makes a token valid to ask for certificates with and, where `signing`, to find the cluster by: cluster-info is signed with it then."""
    identity, _, secret = token.partition(".")
    data = {
        "description": description,
        "token-id": identity,
        "token-secret": secret,
        "expiration": expires.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "usage-bootstrap-authentication": "true",
        "auth-extra-groups": GROUP,
    }
    if signing:
        data["usage-bootstrap-signing"] = "true"
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": secret_name(token), "namespace": NAMESPACE},
        "type": "bootstrap.kubernetes.io/token",
        "data": {key: b64encode(value.encode()).decode() for key, value in data.items()},
    }


def token_of(data: Mapping[str, bytes]) -> str:
    """The token of such a Secret, from its decoded data. Raises ValueError where it is none, without a word of it."""
    token = b".".join((data.get("token-id", b""), data.get("token-secret", b"")))
    if not _TOKEN.fullmatch(token):
        raise ValueError("its Secret has no bootstrap token")
    return token.decode()


def _drawn(random_bytes: Callable[[int], bytes], length: int) -> str:
    """Characters drawn evenly: a byte of 252 or more would make some likelier than others, and is drawn again."""
    drawn: list[str] = []
    while len(drawn) < length:
        drawn += [_ALPHABET[byte % len(_ALPHABET)] for byte in random_bytes(length) if byte < 256 - 256 % len(_ALPHABET)]
    return "".join(drawn[:length])
