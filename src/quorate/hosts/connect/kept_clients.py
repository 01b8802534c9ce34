"""Clients of one kind, one per host, made from what is read from the host, and kept for a session."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, Generic, TypeVar

Client = TypeVar("Client")
Credential = TypeVar("Credential")


class KeptClients(Generic[Client]):
    """One client a host, made when it is first wanted. `read` gives the credential of a host by its name, `make` a client of it; both may raise.

    A client that was replaced may still be in somebody's hands, and is closed at the end with the others.
    """

    def __init__(
        self,
        read: Callable[[str], Awaitable[Credential]],
        make: Callable[[str, Credential], Client],
        close: Callable[[Client], Awaitable[None]],
    ) -> None:
        self._read: Callable[[str], Awaitable[Any]] = read
        self._make: Callable[[str, Any], Client] = make
        self._close = close
        self._kept: dict[str, tuple[Any, Client]] = {}
        self._made: list[Client] = []
        self._doubted: set[str] = set()
        self._preferred = ""
        self._turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def get(self, name: str) -> Client:
        """The client of this host: the one there is, unless the host's credential has changed since somebody doubted it."""
        async with self._turns[name]:
            kept = self._kept.get(name)
            if kept is not None and name not in self._doubted:
                return kept[1]
            credential = await self._read(name)
            if kept is None or kept[0] != credential:
                kept = self._kept[name] = credential, self._make(name, credential)
                self._made.append(kept[1])
            self._doubted.discard(name)
            return kept[1]

    def doubt(self, name: str) -> None:
        """Read the credential again at the next `get`."""
        self._doubted.add(name)

    def prefer(self, name: str) -> None:
        """Remember who answered."""
        self._preferred = name

    def preferred_first(self, names: Sequence[str]) -> Iterator[Sequence[str]]:
        """Whom to ask: the one that answered last by itself, then all others at once."""
        if self._preferred in names:
            yield [self._preferred]
        yield [name for name in names if name != self._preferred]

    async def aclose(self) -> None:
        """Close all clients. Idempotent."""
        self._kept.clear()
        while self._made:
            await self._close(self._made.pop())
