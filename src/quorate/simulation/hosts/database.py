"""The database of a simulated member, as etcd streams it: a bbolt file with one key, whose revision is the newest, and the SHA-256 of it behind its last page.

Written from what bbolt 1.4 reads (internal/common/{page,meta,bucket}.go), and not from what `quorate.etcd.snapshot_file` does.
"""

from __future__ import annotations

import hashlib
import struct

_PAGE = 512
_META, _LEAF = 0x04, 0x02  # flags of pages
_ROOT, _KEYS, _PAGES = 2, 3, 4


def snapshot(revision: int) -> bytes:
    """What a member sends whose newest key has this revision."""
    key = struct.pack(">QcQ", revision, b"_", 0)
    pages = (_meta(), b"", _leaf(_ROOT, b"key", struct.pack("<QQ", _KEYS, 0)), _leaf(_KEYS, key, b"a value"))
    database = b"".join(page.ljust(_PAGE, b"\0") for page in pages)
    return database + hashlib.sha256(database).digest()


def size() -> int:
    """Of the database, in bytes."""
    return _PAGES * _PAGE


def _meta() -> bytes:
    content = struct.pack("<IIIIQQQQQ", 0xED0CDAED, 2, _PAGE, 0, _ROOT, 0, 0, _PAGES, 1)
    digest = 0xCBF29CE484222325  # FNV-1a
    for byte in content:
        digest = ((digest ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return struct.pack("<QHHI", 0, _META, 0, 0) + content + struct.pack("<Q", digest)


def _leaf(number: int, key: bytes, value: bytes) -> bytes:
    """A page with one element, which tells how far behind itself its key begins."""
    element = struct.pack("<IIII", 0, 16, len(key), len(value))
    return struct.pack("<QHHI", number, _LEAF, 1, 0) + element + key + value
