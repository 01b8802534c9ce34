"""Bootstrap tokens of hosts: made through the API for one step, usable for an hour at most, and taken back when the step is over."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import timedelta

from quorate.hosts.act.failures import EXPECTED, StepFailed
from quorate.hosts.act.tools import Tools
from quorate.hosts.manifest import Secret
from quorate.kubeadm import bootstrap_token as tokens
from quorate.kubernetes.errors import NotFound
from quorate.kubernetes.resource import SECRETS

LIFE = timedelta(hours=1)


def new_token(random_bytes: Callable[[int], bytes]) -> Secret:
    """A token that nobody knows yet."""
    return Secret(tokens.new_token(random_bytes))


@asynccontextmanager
async def bootstrap_token(tools: Tools) -> AsyncIterator[Secret]:
    """A token with which hosts can join, for as long as it is entered. Raises ApiErrors and AccessFailed."""
    token = new_token(tools.random_bytes)
    body = tokens.secret_object(token.reveal(), tools.now() + LIFE, "made by quorate to join hosts", signing=False)
    await (await tools.access.api()).create(SECRETS, body, tokens.NAMESPACE)
    try:
        yield token
    finally:
        with suppress(StepFailed, *EXPECTED):  # it expires by itself
            await remove(tools, token)


async def remove(tools: Tools, token: Secret) -> None:
    """Take the token back. Idempotent. Raises ApiErrors and AccessFailed."""
    with suppress(NotFound):
        await (await tools.access.api()).delete(SECRETS, tokens.secret_name(token.reveal()), tokens.NAMESPACE)
