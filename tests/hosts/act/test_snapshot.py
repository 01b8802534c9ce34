"""Snapshots of a real ring: verified before they have their name, readable by their owner alone, and the last five kept."""

from __future__ import annotations

import itertools
import os
import stat
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from quorate.etcd.client import SnapshotClient
from quorate.etcd.grpc_client import GrpcClient
from quorate.etcd.snapshot_file import examine
from quorate.hosts.act.failures import StepFailed
from quorate.hosts.act.snapshot import KEPT, save, take_snapshot
from quorate.hosts.act.tools import Tools
from tests.etcd.conftest import NODES, EtcdRing, running_ring
from tests.hosts.act.running import cluster, tools
from tests.hosts.act.world import NOW, World

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdRing]:
    yield from running_ring(tmp_path_factory.mktemp("ring"))


@pytest.fixture
async def client(processes: EtcdRing) -> AsyncIterator[GrpcClient]:
    await processes.ready(*NODES)
    made = processes.client("cp-a")
    yield made
    await made.close()


def with_ring(world: World, client: SnapshotClient, folder: Path) -> Tools:
    made = tools(world)

    async def etcd(through: str | None = None) -> SnapshotClient:
        assert through is None
        return client

    access: Any = made.access
    access.etcd = etcd
    return replace(made, access=access, snapshot_folder=folder)


def listed(folder: Path) -> list[Path]:
    return sorted(each for each in folder.iterdir() if each.name != ".gitignore")


async def test_a_snapshot_is_verified_named_by_its_time_and_only_its_owners(client: GrpcClient, tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "snapshots"
    path = await take_snapshot(with_ring(cluster(), client, folder))
    assert path == folder / "demo-20260301T120000Z.db"
    assert (stat.S_IMODE(path.stat().st_mode), stat.S_IMODE(folder.stat().st_mode)) == (0o600, 0o700)
    assert examine(path).revision >= 1
    assert listed(folder) == [path]


async def test_the_last_five_of_the_cluster_are_kept_and_other_files_let_be(client: GrpcClient, tmp_path: Path) -> None:
    others = [tmp_path / name for name in ("other-20200101T000000Z.db", "demo-notes.db")]
    for other in others:
        other.touch()
    made = with_ring(cluster(), client, tmp_path)
    days = itertools.count()
    daily = replace(made, now=lambda: NOW + timedelta(days=next(days)))
    paths = [await take_snapshot(daily) for _ in range(KEPT + 2)]
    assert listed(tmp_path) == sorted([*paths[-KEPT:], *others])


class Damaged:
    """A client whose stream loses a piece."""

    def __init__(self, client: GrpcClient) -> None:
        self.status = client.status
        self._client = client

    async def snapshot(self) -> AsyncGenerator[bytes, None]:
        number = 0
        async for piece in self._client.snapshot():
            number += 1
            if number != 2:
                yield piece


async def test_what_another_run_writes_into_the_same_folder_is_let_be(client: GrpcClient, tmp_path: Path) -> None:
    left, theirs = tmp_path / ".demo-20260101T110000Z.db.partial", tmp_path / ".demo-2-20260101T110000Z.db.partial"
    under_way = tmp_path / ".demo-20260101T113000Z.db.partial"
    for path in (left, theirs, under_way):
        path.write_bytes(b"half")
    for path in (left, theirs):
        os.utime(path, (0, 0))
    await take_snapshot(with_ring(cluster(), client, tmp_path))
    assert [path.exists() for path in (left, theirs, under_way)] == [False, True, True]


async def test_what_does_not_arrive_whole_gets_no_name(client: GrpcClient, tmp_path: Path) -> None:
    damaged: Any = Damaged(client)
    with pytest.raises(StepFailed, match="cannot be used"):
        await save(damaged, tmp_path / "demo.db", lambda _: None)
    assert listed(tmp_path) == []


async def test_a_snapshot_of_another_moment_than_the_members_gets_no_name(client: GrpcClient, tmp_path: Path) -> None:
    class Ahead(Damaged):
        """Its member says that it has more than it sends."""

        def __init__(self, client: GrpcClient) -> None:
            super().__init__(client)

            async def status() -> Any:
                return replace(await client.status(), revision=10**6)

            self.status = status
            self.snapshot = client.snapshot  # type: ignore[method-assign]

    ahead: Any = Ahead(client)
    with pytest.raises(StepFailed, match="the member was at 1000000"):
        await save(ahead, tmp_path / "demo.db", lambda _: None)
    assert listed(tmp_path) == []


async def test_a_file_that_is_there_is_never_written_over(client: GrpcClient, tmp_path: Path) -> None:
    path = tmp_path / "demo.db"
    path.write_text("the only copy")
    with pytest.raises(StepFailed, match="never written over"):
        await save(client, path, lambda _: None)
    assert (listed(tmp_path), path.read_text()) == ([path], "the only copy")


async def test_a_folder_that_cannot_be_written_is_named_with_the_way_out(client: GrpcClient, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StepFailed, match="--snapshot-dir"):
        await take_snapshot(with_ring(cluster(), client, tmp_path / "file" / "folder"))
