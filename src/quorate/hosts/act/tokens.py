"""Bootstrap tokens: made through the API for one step, usable for an hour at most, and taken back when the step is over.

Source: kubernetes.io, "Authenticating with Bootstrap Tokens", for the Secret.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, timedelta

from quorate.hosts.act.failures import EXPECTED
from quorate.hosts.act.tools import Tools
from quorate.hosts.manifest import Secret
from quorate.kubernetes.errors import NotFound
from quorate.kubernetes.resource import SECRETS

LIFE = timedelta(hours=1)
NAMESPACE = "kube-system"
_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz"
_ID_LENGTH, _SECRET_LENGTH = 6, 16


def new_token(random_bytes: Callable[[int], bytes]) -> Secret:
    """A token as kubeadm wants it: six characters that name it, a dot, and 16 that are secret."""
    return Secret(f"{_drawn(random_bytes, _ID_LENGTH)}.{_drawn(random_bytes, _SECRET_LENGTH)}")


@asynccontextmanager
async def bootstrap_token(tools: Tools) -> AsyncIterator[Secret]:
    """A token with which hosts can join, for as long as it is entered. Raises ApiErrors and AccessFailed."""
    token = new_token(tools.random_bytes)
    await _create(tools, token)
    try:
        yield token
    finally:
        with suppress(*EXPECTED):  # it expires by itself
            await remove(tools, token)


async def remove(tools: Tools, token: Secret) -> None:
    """Take the token back. Idempotent. Raises ApiErrors and AccessFailed."""
    with suppress(NotFound):
        await (await tools.access.api()).delete(SECRETS, _name(token), NAMESPACE)


async def _create(tools: Tools, token: Secret) -> None:
    identity, _, secret = token.reveal().partition(".")
    expiration = (tools.now() + LIFE).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    body = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": _name(token), "namespace": NAMESPACE},
        "type": "bootstrap.kubernetes.io/token",
        "stringData": {
            "description": "made by quorate to join hosts",
            "token-id": identity,
            "token-secret": secret,
            "expiration": expiration,
            "usage-bootstrap-authentication": "true",
            "auth-extra-groups": "system:bootstrappers:kubeadm:default-node-token",
        },
    }
    await (await tools.access.api()).create(SECRETS, body, NAMESPACE)


def _name(token: Secret) -> str:
    return f"bootstrap-token-{token.reveal().partition('.')[0]}"


def _drawn(random_bytes: Callable[[int], bytes], length: int) -> str:
    """Characters drawn evenly: a byte of 252 or more would make some likelier than others, and is drawn again."""
    drawn: list[str] = []
    while len(drawn) < length:
        drawn += [_ALPHABET[byte % len(_ALPHABET)] for byte in random_bytes(length) if byte < 256 - 256 % len(_ALPHABET)]
    return "".join(drawn[:length])
