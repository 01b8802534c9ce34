"""The pair that the webhook server presents, from the Secret: each replica has it as soon as it is stored."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import structlog

from quorate.kubernetes.objects import Secret
from quorate.kubernetes.serving_pairs import ServingPair
from quorate.pki.keys import CERTIFICATE_FIELD, KEY_FIELD
from quorate.tls import server_context

_log = structlog.get_logger(__name__)


class StoredPairs:
    """A source of certificates that hears of every change of the Secret. For one server."""

    def __init__(self) -> None:
        self._pair: ServingPair | None = None
        self._changed = asyncio.Event()

    async def pairs(self) -> AsyncIterator[ServingPair]:
        """See CertificateSource: waits until there is a pair."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            if self._pair is not None:
                yield self._pair

    def on_add(self, obj: Secret, *, initial: bool) -> None:  # noqa: ARG002 (Handler's signature)
        """See Handler."""
        self._offer(obj)

    def on_update(self, old: Secret, new: Secret) -> None:  # noqa: ARG002
        """See Handler."""
        self._offer(new)

    def on_delete(self, obj: Secret, *, final_state_unknown: bool) -> None:
        """What is presented stays: it is trusted until something else is."""

    def _offer(self, secret: Secret) -> None:
        if CERTIFICATE_FIELD not in secret.data:
            return
        pair = ServingPair(secret.data[CERTIFICATE_FIELD], secret.data.get(KEY_FIELD, b""))
        try:
            server_context(pair.certificate, pair.key)
        except ValueError as error:
            _log.warning("webhook certificate not taken, the old one stays", secret=secret.metadata.name, error=str(error))
            return
        if pair != self._pair:
            self._pair = pair
            self._changed.set()
