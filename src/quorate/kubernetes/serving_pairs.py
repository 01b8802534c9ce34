"""The certificate and key that a server presents, and where they come from: they are replaced while it runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import structlog

from quorate.tls import server_context

LOOK_AGAIN = 10.0  # seconds between two looks at the files; controller-runtime's certwatcher polls as often

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ServingPair:
    """A certificate, with those that lead to its CA, and its key, both PEM."""

    certificate: bytes
    key: bytes = field(repr=False)


class CertificateSource(Protocol):
    """Where a server has its pair from."""

    def pairs(self) -> AsyncIterator[ServingPair]:
        """The pair to present, as soon as there is one, and each that takes its place, for as long as it is asked. Each has been found to fit together."""


class CertificateFiles:
    """A pair in two files, which may be replaced at any time, one after the other too."""

    def __init__(self, certificate: Path, key: Path, *, interval: float = LOOK_AGAIN) -> None:
        self._certificate, self._key, self._interval = certificate, key, interval

    def read(self) -> ServingPair:
        """The pair as it lies there. Raises OSError where a file cannot be read, and ValueError where the two do not fit."""
        pair = ServingPair(self._certificate.read_bytes(), self._key.read_bytes())
        server_context(pair.certificate, pair.key)
        return pair

    async def pairs(self) -> AsyncIterator[ServingPair]:
        """The pair now, which raises what `read` raises, and each other one that is there when it looks again. What does not fit is logged and passed over."""
        last = self.read()
        while True:
            yield last
            last = await self._next(last)

    async def _next(self, last: ServingPair) -> ServingPair:
        while True:
            await asyncio.sleep(self._interval)
            try:
                pair = self.read()
            except (OSError, ValueError) as error:
                _log.warning("certificate not reloaded, the old one stays", certificate=str(self._certificate), error=str(error))
                continue
            if pair != last:
                return pair
