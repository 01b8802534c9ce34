"""Which snapshots stay, and under which names: the one that was just taken always does, and no file is written over."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from quorate.etcd.client import SnapshotClient, Status
from quorate.etcd.snapshot_file import Snapshot
from quorate.hosts.act import snapshot
from quorate.hosts.act.failures import StepFailed
from quorate.hosts.act.snapshot import KEPT, save, take_snapshot
from quorate.hosts.act.tools import Tools
from tests.hosts.act.running import cluster, tools
from tests.hosts.act.world import NOW


@dataclass
class Member:
    """A member with a small database."""

    during: Any = None

    async def status(self) -> Status:
        return Status(1, 1, db_size=5, revision=5)

    async def snapshot(self) -> AsyncGenerator[bytes, None]:
        yield b"whole"
        if self.during is not None:
            self.during()


@pytest.fixture(autouse=True)
def verified(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever arrives is a snapshot."""
    monkeypatch.setattr(snapshot, "examine", lambda path: Snapshot(path.stat().st_size, "0" * 64, 5))


def files(folder: Path) -> list[str]:
    """The snapshots in it, by name."""
    return sorted(path.name for path in folder.glob("*.db"))


def saving_to(folder: Path) -> Tools:
    made = tools(cluster())

    async def etcd(through: str | None = None) -> SnapshotClient:
        assert through is None
        return Member()  # type: ignore[return-value]

    access: Any = made.access
    access.etcd = etcd
    return replace(made, access=access, snapshot_folder=folder)


async def test_a_snapshot_that_was_just_taken_stays_whatever_the_operators_clock_shows(tmp_path: Path) -> None:
    """It is behind that of the five snapshots before (it was set back, or another machine took them): by its name the newest is the oldest."""
    made = saving_to(tmp_path)
    ahead = [await take_snapshot(replace(made, now=lambda day=day: NOW + timedelta(days=365 + day))) for day in range(KEPT)]  # type: ignore[misc]
    assert all(path.exists() for path in ahead)
    path = await take_snapshot(made)
    assert files(tmp_path) == sorted(each.name for each in (path, *ahead[1:]))


async def test_a_file_that_comes_while_a_snapshot_is_streamed_is_not_written_over(tmp_path: Path) -> None:
    """`quorate etcd snapshot -m FILE`: whether FILE is there is asked before the stream begins, and minutes later it is written over."""
    path = tmp_path / "demo.db"
    with pytest.raises(StepFailed, match="never written over"):
        await save(Member(during=lambda: path.write_text("somebody's")), path, lambda _: None)  # type: ignore[arg-type]
    assert files(tmp_path) == ["demo.db"]
    assert path.read_text() == "somebody's"


async def test_where_the_file_system_has_no_links_a_snapshot_gets_its_name_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def link(*_: Any) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", link)
    path, other = tmp_path / "demo.db", tmp_path / "other.db"
    await save(Member(), path, lambda _: None)  # type: ignore[arg-type]
    assert path.read_bytes() == b"whole"
    with pytest.raises(StepFailed, match="never written over"):
        await save(Member(during=lambda: other.write_text("somebody's")), other, lambda _: None)  # type: ignore[arg-type]
    assert other.read_text() == "somebody's"
