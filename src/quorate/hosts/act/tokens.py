"""Bootstrap tokens of hosts: created through the API for one step, valid for an hour at most, and deleted when the step is over.

One stays where the connection to a host ended in the middle, or quorate was interrupted: kubeadm goes on there, and its kubelet asks for its certificate with
the token. Without it the member would become a voter whose kubelet never has a Node.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta
from typing import Any

from quorate.hosts.act.failures import EXPECTED, StepFailed
from quorate.hosts.act.tools import Tools
from quorate.hosts.connect.ssh.errors import ConnectionCut, DeadlineExceeded
from quorate.hosts.manifest import Secret
from quorate.kubeadm import bootstrap_token as tokens
from quorate.kubernetes.errors import NotFound
from quorate.kubernetes.resource import SECRETS

LIFE = timedelta(hours=1)
_CUT_OFF = (ConnectionCut, DeadlineExceeded, asyncio.CancelledError)
"""After which what was running on a host may go on."""


def new_token(random_bytes: Callable[[int], bytes]) -> Secret:
    """A token that nobody knows yet."""
    return Secret(tokens.new_token(random_bytes))


@asynccontextmanager
async def bootstrap_token(tools: Tools) -> AsyncIterator[Secret]:
    """A token with which hosts can join, for as long as it is entered, and where kubeadm may go on. Raises ApiErrors and AccessFailed."""
    token = new_token(tools.random_bytes)
    api = await tools.access.api()
    now = (await api.create(SECRETS, _secret(token, tools.now()), tokens.NAMESPACE, dry_run=True)).metadata.creation_timestamp
    await api.create(SECRETS, _secret(token, now or tools.now()), tokens.NAMESPACE)
    goes_on = False
    try:
        yield token
    except (StepFailed, *_CUT_OFF) as failure:
        goes_on = isinstance(failure, _CUT_OFF) or isinstance(failure.__cause__, _CUT_OFF)
        raise
    finally:
        if not goes_on:
            with suppress(StepFailed, *EXPECTED):  # it expires by itself
                await remove(tools, token)


def _secret(token: Secret, now: datetime) -> Mapping[str, Any]:
    """The token as it is kept, by the clock of the API server, which judges it: a Secret that is only tried tells when it would have been made."""
    return tokens.secret_object(token.reveal(), now + LIFE, "made by quorate to join hosts", signing=False)


async def remove(tools: Tools, token: Secret) -> None:
    """Take the token back. Idempotent. Raises ApiErrors and AccessFailed."""
    with suppress(NotFound):
        await (await tools.access.api()).delete(SECRETS, tokens.secret_name(token.reveal()), tokens.NAMESPACE)
