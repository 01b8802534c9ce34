"""Cutting a watch's stream into its JSON values.

An API server sends one event a line. Others (Cluster API's in-memory provider) print each over several lines with nothing in between: client-go's decoder
takes that too, so such servers exist.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterable, Callable

LARGEST = 32 << 20
"""Bytes of one value: an object has 1.5 MiB where etcd keeps it, which are a few times as many as JSON."""

_MARKS = re.compile(rb'["\\{}]')


class TooLong(Exception):
    """A value does not end within `LARGEST` bytes. The message says so."""


async def values(chunks: AsyncIterable[bytes]) -> AsyncGenerator[bytes, None]:
    """The JSON objects in a stream of bytes, each as soon as it is complete. What is left incomplete at the end is dropped. Raises TooLong."""
    split: Callable[[bytes], list[bytes]] | None = None
    pending = 0
    async for chunk in chunks:
        if split is None:
            split = _lines() if chunk.lstrip().startswith(b'{"') else _Scanner().feed
        pending += len(chunk)
        for value in split(chunk):
            pending = 0
            yield value
        if pending > LARGEST:
            raise TooLong(f"an event has more than {LARGEST >> 20} MiB, which is read no further")


def _lines() -> Callable[[bytes], list[bytes]]:
    """Cuts at line ends: a hundred times faster than following braces."""
    pieces: list[bytes] = []  # of a line that is not complete: joined once, since one of 10 MiB comes in 160 chunks

    def feed(chunk: bytes) -> list[bytes]:
        first, *others = chunk.split(b"\n")
        pieces.append(first)
        if not others:
            return []
        *lines, rest = b"".join(pieces), *others
        pieces[:] = [rest]
        return [line for line in lines if line.strip()]

    return feed


class _Scanner:
    """Follows braces and strings through a stream."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._scanned = 0
        self._depth = 0
        self._in_string = False

    def feed(self, chunk: bytes) -> list[bytes]:
        """The values that this chunk completes."""
        self._buffer += chunk
        complete: list[bytes] = []
        while (mark := _MARKS.search(self._buffer, self._scanned)) is not None:
            self._scanned = mark.end()
            self._take(mark.group())
            if mark.group() == b"}" and not self._depth and not self._in_string:
                complete.append(bytes(self._buffer[: self._scanned]))
                del self._buffer[: self._scanned]
                self._scanned = 0
        return complete

    def _take(self, mark: bytes) -> None:
        if mark == b"\\":
            self._scanned += 1  # whatever is escaped means nothing here; it may be the first byte of the next chunk
        elif mark == b'"':
            self._in_string = not self._in_string
        elif not self._in_string:
            self._depth += 1 if mark == b"{" else -1
