"""Snapshots that no etcd makes: a file whose pages lead in circles is refused in a moment, and takes no memory."""

from __future__ import annotations

import hashlib
import struct
from pathlib import Path

import pytest

from quorate.etcd.snapshot_file import SnapshotBroken, examine

PAGE = 4096
BRANCH, LEAF = 1, 2


def fnv1a(content: bytes) -> int:
    digest = 0xCBF29CE484222325
    for byte in content:
        digest = ((digest ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return digest


def database(path: Path, *pages: bytes) -> Path:
    """A file with a meta page whose root is page 2, and these pages from there on."""
    meta = struct.pack("<IIIIQQQQQ", 0xED0CDAED, 2, PAGE, 0, 2, 0, 0, 9, 1)
    first = struct.pack("<QHHI", 0, 4, 0, 0) + meta + struct.pack("<Q", fnv1a(meta))
    content = b"".join(page.ljust(PAGE, b"\0") for page in (first, b"", *pages))
    path.write_bytes(content + hashlib.sha256(content).digest())
    return path


def branch(number: int, *children: int) -> bytes:
    return struct.pack("<QHHI", number, BRANCH, len(children), 0) + b"".join(struct.pack("<IIQ", 0, 0, child) for child in children)


def leaf(number: int, *lengths: tuple[int, int]) -> bytes:
    return struct.pack("<QHHI", number, LEAF, len(lengths), 0) + b"".join(struct.pack("<IIII", 0, 0, *each) for each in lengths)


def test_pages_that_lead_to_each_other_are_refused_before_they_have_led_far(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two ways on each of 64 levels are more than anybody can go."""
    monkeypatch.setattr("quorate.etcd.snapshot_file._MOST_READ", 1 << 20)
    chain = [branch(number, number + 1, number + 1) for number in range(2, 42)]
    with pytest.raises(SnapshotBroken, match="lead to its newest key"):
        examine(database(tmp_path / "db", *chain, leaf(42)))


def test_elements_that_lie_upon_each_other_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SnapshotBroken, match="lie upon each other"):
        examine(database(tmp_path / "db", leaf(2, (2000, 1000), (2000, 1000))))


def test_a_database_without_keys_is_none_of_these(tmp_path: Path) -> None:
    assert examine(database(tmp_path / "db", leaf(2))).revision == 1
