"""Snapshots without end, of whoever has the root of a host: bounded by what the member said of its database and by the disk, and told with the numbers."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from quorate.etcd.client import Status
from quorate.hosts.act import snapshot
from quorate.hosts.act.failures import StepFailed
from quorate.hosts.act.snapshot import save

MIB = 1 << 20


@dataclass
class Endless:
    """A member that says how large its database is, and sends pieces for ever."""

    told: int
    piece: bytes = b"x" * MIB
    pause: float = 0
    sent: int = 0
    closed: list[bool] = field(default_factory=list)

    async def status(self) -> Status:
        return Status(1, 1, db_size=self.told, revision=5)

    async def snapshot(self) -> AsyncGenerator[bytes, None]:
        try:
            while True:
                self.sent += len(self.piece)
                yield self.piece
                await asyncio.sleep(self.pause)
        finally:
            self.closed.append(True)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds as small as the test, and a disk of 40 MiB."""
    monkeypatch.setattr(snapshot, "_GROWTH", 16 * MIB)
    monkeypatch.setattr(snapshot, "_RESERVE", 8 * MIB)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=40 * MIB))


async def taken(member: Any, path: Path) -> None:
    await save(member, path, lambda _: None)


def left(folder: Path) -> list[Path]:
    return list(folder.iterdir())


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(("told", "most"), [(4, 20), (30, 32)])
async def test_a_snapshot_without_end_is_read_to_what_the_member_said_and_the_disk_holds(tmp_path: Path, told: int, most: int) -> None:
    member = Endless(told * MIB)
    with pytest.raises(
        StepFailed, match=rf"more than {most}\.0 MiB and was not read to its end.* {told}\.0 MiB by its own word.* 40\.0 MiB free"
    ):
        await taken(member, tmp_path / "demo.db")
    assert member.sent <= (most + 1) * MIB
    assert member.closed == [True]
    assert left(tmp_path) == []


@pytest.mark.usefixtures("small")
async def test_one_that_the_disk_does_not_hold_is_not_begun(tmp_path: Path) -> None:
    member = Endless(33 * MIB)
    with pytest.raises(
        StepFailed, match=r"no room for a snapshot: the member's database has 33\.0 MiB by its own word, and .* had 40\.0 MiB free"
    ) as failure:
        await taken(member, tmp_path / "demo.db")
    assert "--snapshot-dir" in failure.value.remedy
    assert member.sent == 0


@pytest.mark.usefixtures("small")
async def test_one_that_trickles_for_ever_ends_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "_TIMEOUT", 0.2)
    member = Endless(1000, piece=b"x", pause=0.01)
    with pytest.raises(StepFailed, match="the snapshot did not end within 0 s"):
        await taken(member, tmp_path / "demo.db")
    assert left(tmp_path) == []
