"""Looking up the names of servers that others choose, in threads of their own.

A name whose DNS servers are silent holds a thread for 10 s and more, after whoever asked has given up, and the event loop has few: 4 with uvloop, 6 without
it on two cores. A handful of such names would keep everybody else's from being looked up.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from threading import Thread
from typing import Any

from aiohttp.abc import AbstractResolver, ResolveResult

MOST = 128
"""Lookups at once. One costs a thread that sleeps, and a file descriptor."""

_Found = Sequence[tuple[socket.AddressFamily, socket.SocketKind, int, str, tuple[Any, ...]]]
_Lookup = asyncio.Future[_Found]


class Lookups(AbstractResolver):
    """For all connections of a process: one lookup of a name at a time, for which whoever asks meanwhile waits too."""

    def __init__(self, most: int = MOST) -> None:
        self._free = asyncio.Semaphore(most)
        self._under_way: dict[tuple[str, int], _Lookup] = {}

    async def resolve(self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET) -> list[ResolveResult]:
        """The addresses of a host. Raises OSError where there are none, and UnicodeError for what is no name."""
        key = host, family
        if key not in self._under_way:
            await self._free.acquire()
            if key in self._under_way:
                self._free.release()
            else:
                self._begin(key, partial(socket.getaddrinfo, host, 0, family=family, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG))
        found = await asyncio.shield(self._under_way[key])
        flags = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
        return [
            ResolveResult(hostname=host, host=_address(each[4]), port=port, family=each[0], proto=each[2], flags=flags) for each in found
        ]

    async def close(self) -> None:
        """Nothing to close: whoever is not told a name any more does not wait for its thread."""

    def _begin(self, key: tuple[str, int], look_up: Callable[[], _Found]) -> None:
        loop = asyncio.get_running_loop()
        lookup: _Lookup = loop.create_future()

        def told(found: _Found | BaseException) -> None:
            del self._under_way[key]
            self._free.release()
            if isinstance(found, BaseException):
                lookup.set_exception(found)
                lookup.exception()  # or it is logged where nobody waits any more
            else:
                lookup.set_result(found)

        def run() -> None:
            found: _Found | BaseException
            try:
                found = look_up()
            except Exception as error:  # noqa: BLE001 - it is raised where the name is asked for
                found = error
            with suppress(RuntimeError):  # the loop has ended meanwhile
                loop.call_soon_threadsafe(told, found)

        try:
            Thread(
                target=run, name=f"looking up {key[0]}"[:60], daemon=True
            ).start()  # so that nobody waits for it at the end of the process
        except RuntimeError as error:
            self._free.release()
            raise OSError(f"no thread for looking up {key[0]}") from error
        self._under_way[key] = lookup


def _address(found: tuple[Any, ...]) -> str:
    """The address as text, with the scope of one that is local to a link."""
    scope = found[3] if len(found) > 3 else 0
    return f"{found[0]}%{scope}" if scope else str(found[0])
