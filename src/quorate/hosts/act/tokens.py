"""Bootstrap tokens: made through the API for one step, usable for an hour at most, and taken back when the step is over.

Source: kubernetes.io, "Authenticating with Bootstrap Tokens", for the Secret; kubeadm's discovery, which finds the cluster by a ConfigMap that is signed with
the token.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, timedelta

from quorate.hosts.act.failures import EXPECTED
from quorate.hosts.act.tools import Tools
from quorate.hosts.manifest import Secret
from quorate.kubernetes.errors import NotFound
from quorate.kubernetes.resource import CONFIG_MAPS, SECRETS

LIFE = timedelta(hours=1)
SIGNED_DEADLINE = 60.0
"""Seconds for the controller manager to sign; it takes less than one, and up to 30 while a new one is elected leader."""
NAMESPACE = "kube-system"
_PUBLIC = "kube-public"
_CLUSTER_INFO = "cluster-info"
_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz"
_ID_LENGTH, _SECRET_LENGTH = 6, 16


def new_token(random_bytes: Callable[[int], bytes]) -> Secret:
    """A token as kubeadm wants it: six characters that name it, a dot, and 16 that are secret."""
    return Secret(f"{_drawn(random_bytes, _ID_LENGTH)}.{_drawn(random_bytes, _SECRET_LENGTH)}")


@asynccontextmanager
async def bootstrap_token(tools: Tools, host: str) -> AsyncIterator[Secret]:
    """A token with which hosts can join, for as long as it is entered. `host` is told of in messages. Raises ApiErrors and AccessFailed.

    It is entered when the cluster's description is signed with it: kubeadm, finding no signature, would look again only after 5 s.
    """
    token = new_token(tools.random_bytes)
    await _create(tools, token)
    try:
        await tools.waits.until(
            host, "the cluster to sign its description with the new token", lambda: _unsigned(tools, token), deadline=SIGNED_DEADLINE
        )
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
            "usage-bootstrap-signing": "true",
            "auth-extra-groups": "system:bootstrappers:kubeadm:default-node-token",
        },
    }
    await (await tools.access.api()).create(SECRETS, body, NAMESPACE)


async def _unsigned(tools: Tools, token: Secret) -> str:
    described = await (await tools.access.api()).get(CONFIG_MAPS, _CLUSTER_INFO, _PUBLIC)
    signed = f"jws-kubeconfig-{token.reveal().partition('.')[0]}" in described.data
    return "" if signed else "no controller manager has signed it yet"


def _name(token: Secret) -> str:
    return f"bootstrap-token-{token.reveal().partition('.')[0]}"


def _drawn(random_bytes: Callable[[int], bytes], length: int) -> str:
    """Characters drawn evenly: a byte of 252 or more would make some likelier than others, and is drawn again."""
    drawn: list[str] = []
    while len(drawn) < length:
        drawn += [_ALPHABET[byte % len(_ALPHABET)] for byte in random_bytes(length) if byte < 256 - 256 % len(_ALPHABET)]
    return "".join(drawn[:length])
