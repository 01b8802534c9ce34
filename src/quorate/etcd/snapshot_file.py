"""Checks an etcd snapshot: whether it arrived as it was sent, and the revision of its newest key. Blocking; it reads a few pages of the file.

A snapshot is the member's bbolt database with the SHA-256 of it behind its last page. Source: etcd 3.6, server/etcdserver/api/v3rpc/maintenance.go (Snapshot)
and server/storage/schema (buckets `key` and `meta`); bbolt 1.4, internal/common/{page,meta,bucket}.go. Numbers are little-endian, as on every machine that
etcd supports; those of revisions are big-endian.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

DIGEST_SIZE = hashlib.sha256().digest_size

_PAGE = struct.Struct("<QHHI")  # id, flags, count of elements, count of pages that follow as part of it
_META = struct.Struct("<IIIIQQQQQ")  # magic, version, page size, flags, root page, its sequence, free list, high water mark, transaction
_CHECKSUM = struct.Struct("<Q")
_LEAF = struct.Struct("<IIII")  # flags, distance to its key, length of key, length of value
_BRANCH = struct.Struct("<IIQ")  # distance to its key, length of key, page
_BUCKET = struct.Struct("<QQ")  # root page (0: it follows inline), sequence
_REVISION = struct.Struct(">Q")
_MAGIC = 0xED0CDAED
_IS_BRANCH, _IS_LEAF = 0x01, 0x02
_PAGE_SIZES = tuple(1 << power for power in range(9, 17))
_DEEPEST = 64  # levels of a tree; a file that has more has a ring in it
_MOST_READ = 256 << 20  # bytes of pages that lead to a key; in a file that needs more they lead to each other


class SnapshotBroken(Exception):
    """The file is not the snapshot of an etcd member, or not all of it. The message says in what."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A snapshot that is as it was sent. `sha256` is of the database, in hexadecimal; `revision` of its newest key, 1 where there never was one."""

    size: int
    sha256: str
    revision: int


def examine(path: Path) -> Snapshot:
    """Read the whole file once for its digest, and the pages that lead to its newest key. Raises SnapshotBroken, and OSError."""
    with path.open("rb") as file:
        size, digest = _verified(file)
        try:
            return Snapshot(size, digest, _Database(file, size).revision())
        except (struct.error, IndexError) as error:
            raise SnapshotBroken(f"its database ends in the middle of a page: {error}") from error


def _verified(file: BinaryIO) -> tuple[int, str]:
    total = file.seek(0, 2)
    size = total - DIGEST_SIZE
    if size <= 0 or size % 512:
        raise SnapshotBroken(f"it has {total} bytes, which is no database with the {DIGEST_SIZE} bytes of its digest")
    file.seek(0)
    digest, left = hashlib.sha256(), size
    while left and (piece := file.read(min(left, 1 << 20))):
        digest.update(piece)
        left -= len(piece)
    if digest.digest() != file.read(DIGEST_SIZE):
        raise SnapshotBroken("its content does not have the SHA-256 that etcd sent with it")
    return size, digest.hexdigest()


class _Database:
    """A bbolt file, as far as the last key of a bucket and a value of another are to be found in it."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file = file
        self._size = size
        self._left = _MOST_READ
        self._page_size, self._root = self._newest_meta()

    def revision(self) -> int:
        """The newest revision: of the last key that is kept, or that was compacted away where it was a deletion."""
        buckets = dict(self._elements(self._page(self._root)))
        found = [1]
        if b"key" in buckets and (last := self._last_key(buckets[b"key"])):
            found.append(_REVISION.unpack_from(last)[0])
        for key, value in self._entries(buckets.get(b"meta", b"")):
            if key in (b"finishedCompactRev", b"scheduledCompactRev"):
                found.append(_REVISION.unpack_from(value)[0])
        return max(found)

    def _newest_meta(self) -> tuple[int, int]:
        """The size of pages and the root's page, as the younger of the two meta pages says that is whole: one is at 0, the other a page further."""
        metas = [meta for start in (0, *_PAGE_SIZES) if (meta := self._meta(start)) is not None]
        if not metas:
            raise SnapshotBroken("neither of its two meta pages is whole")
        _, page_size, root = max(metas)
        return page_size, root

    def _meta(self, start: int) -> tuple[int, int, int] | None:
        """The transaction that wrote it, the size of pages, and the root's page."""
        content = self._read(start + _PAGE.size, _META.size + _CHECKSUM.size)
        if len(content) < _META.size + _CHECKSUM.size:
            return None
        magic, _, page_size, _, root, _, _, _, transaction = _META.unpack_from(content)
        if (
            magic != _MAGIC
            or _fnv1a(content[: _META.size]) != _CHECKSUM.unpack_from(content, _META.size)[0]
            or page_size not in _PAGE_SIZES
        ):
            return None
        return transaction, page_size, root

    def _last_key(self, bucket: bytes) -> bytes:
        """The greatest key of a bucket, empty where it has none: down the last branches of its tree."""
        page = self._root_of(bucket)
        for _ in range(_DEEPEST):
            _, flags, count, _ = _PAGE.unpack_from(page)
            if not count:
                return b""
            if flags & _IS_LEAF:
                return list(_leaf_elements(page))[-1][0]
            page = self._page(_branches(page)[-1])
        raise SnapshotBroken(f"a tree in its database has more than {_DEEPEST} levels")

    def _entries(self, bucket: bytes) -> Iterator[tuple[bytes, bytes]]:
        """All keys and values of a small bucket."""
        if bucket:
            yield from self._elements(self._root_of(bucket))

    def _elements(self, page: bytes, depth: int = 0) -> Iterator[tuple[bytes, bytes]]:
        if depth > _DEEPEST:
            raise SnapshotBroken(f"a tree in its database has more than {_DEEPEST} levels")
        if _PAGE.unpack_from(page)[1] & _IS_LEAF:
            yield from _leaf_elements(page)
            return
        for child in _branches(page):
            yield from self._elements(self._page(child), depth + 1)

    def _root_of(self, bucket: bytes) -> bytes:
        root, _ = _BUCKET.unpack_from(bucket)
        return self._page(root) if root else bucket[_BUCKET.size :]

    def _page(self, number: int) -> bytes:
        """A page with those that follow as part of it."""
        start = number * self._page_size
        _, flags, _, more = _PAGE.unpack(self._read(start, _PAGE.size))
        if not flags & (_IS_BRANCH | _IS_LEAF) or start + (more + 1) * self._page_size > self._size:
            raise SnapshotBroken(f"page {number} of its database is no part of a tree")
        self._left -= (more + 1) * self._page_size
        if self._left < 0:
            raise SnapshotBroken(f"more than {_MOST_READ >> 20} MiB of its database lead to its newest key")
        return self._read(start, (more + 1) * self._page_size)

    def _read(self, start: int, length: int) -> bytes:
        self._file.seek(start)
        return self._file.read(length)


def _leaf_elements(page: bytes) -> Iterator[tuple[bytes, bytes]]:
    left = len(page)
    for index in range(_PAGE.unpack_from(page)[2]):
        start = _PAGE.size + index * _LEAF.size
        _, distance, key, value = _LEAF.unpack_from(page, start)
        begin, left = start + distance, left - key - value
        if left < 0:
            raise SnapshotBroken("elements of a page of its database lie upon each other")
        yield page[begin : begin + key], page[begin + key : begin + key + value]


def _branches(page: bytes) -> list[int]:
    count = _PAGE.unpack_from(page)[2]
    return [_BRANCH.unpack_from(page, _PAGE.size + index * _BRANCH.size)[2] for index in range(count)]


def _fnv1a(content: bytes) -> int:
    digest = 0xCBF29CE484222325
    for byte in content:
        digest = ((digest ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return digest
