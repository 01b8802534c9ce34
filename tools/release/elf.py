"""Which libraries a program or a module asks the loader for: enough of ELF to know that nothing is missing in an image that cannot be started here.

Source: the System V ABI, chapters 4 and 5, for 64 bits and little endian, which all architectures of the images are.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

_MAGIC = b"\x7fELF\x02\x01"
_LOAD, _DYNAMIC = 1, 2  # kinds of segment
_NULL, _NEEDED, _STRING_TABLE = 0, 1, 5  # kinds of entry of the dynamic segment


def needed(path: Path) -> frozenset[str]:
    """The names of the libraries; none for what is no ELF file, or is linked statically."""
    content = path.read_bytes()
    if not content.startswith(_MAGIC):
        return frozenset()
    segments = list(_segments(content))
    entries = [entry for kind, offset, _, size in segments if kind == _DYNAMIC for entry in _entries(content[offset : offset + size])]
    names = [value for kind, value in entries if kind == _NEEDED]
    if not names:
        return frozenset()
    (table,) = (value for kind, value in entries if kind == _STRING_TABLE)
    (strings,) = (
        offset + table - address for kind, offset, address, size in segments if kind == _LOAD and address <= table < address + size
    )
    return frozenset(content[strings + name : content.index(b"\0", strings + name)].decode() for name in names)


def _segments(content: bytes) -> Iterator[tuple[int, int, int, int]]:
    """Kind, offset, address and size in the file of each segment."""
    start, size, count = struct.unpack_from("<Q", content, 32)[0], *struct.unpack_from("<HH", content, 54)
    for number in range(count):
        kind, _, offset, address, _, length = struct.unpack_from("<IIQQQQ", content, start + number * size)
        yield kind, offset, address, length


def _entries(segment: bytes) -> Iterator[tuple[int, int]]:
    for kind, value in struct.iter_unpack("<qQ", segment[: len(segment) // 16 * 16]):
        if kind == _NULL:
            return
        yield kind, value
