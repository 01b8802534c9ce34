"""A snapshot of etcd on the operator's machine: streamed from a member, verified by its digest and its revision, and kept beside the four before it."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from quorate.etcd.client import SnapshotClient
from quorate.etcd.snapshot_file import Snapshot, SnapshotBroken, examine
from quorate.hosts.act.failures import StepFailed
from quorate.hosts.act.tools import Tools
from quorate.hosts.private_files import create, private_folder

KEPT = 5
"""Snapshots of a cluster in its folder."""
_WHERE = "etcd"
_PIECE = 4 << 20  # bytes that are written to the file at once
_GROWTH = 256 << 20  # bytes that a database may grow by between the member's word and its snapshot
_RESERVE = 64 << 20  # bytes that stay free on the operator's disk
_TIMEOUT, _SLOWEST = 600, 64 << 10  # seconds, and bytes in each second after them
_LOOK = "Run the same command again; if it stays so, look at that member's disk and log"
_PARTIAL = ".partial"
_ABANDONED = (
    3600  # seconds in which nothing was written to it: whoever streams writes 4 MiB at a time, and looking through 8 GiB takes a minute
)
_STAMP = "[0-9]" * 8 + "T" + "[0-9]" * 6 + "Z"


async def take_snapshot(tools: Tools) -> Path:
    """Save what a member that answers has, to a file in the run's folder that only its owner can read, and verify it. The last five of the cluster are kept.

    Returns the file. Raises StepFailed where it cannot be had, verified or written, and EtcdErrors. A file that was not verified is never left under its name.
    """
    folder, cluster = tools.snapshot_folder, tools.manifest.name
    client = await tools.access.etcd()
    try:
        await asyncio.to_thread(_prepare, folder, cluster, tools.now())
        path = folder / f"{cluster}-{tools.now():%Y%m%dT%H%M%SZ}.db"
        found = await save(client, path, lambda size: tools.report(_WHERE, f"taking a snapshot: {_mebibytes(size)}"))
        await asyncio.to_thread(_keep_last, folder, cluster, path)
    except OSError as error:
        raise StepFailed(
            _WHERE, f"the snapshot cannot be saved in {folder}: {error}", "Make room there, or name another folder with --snapshot-dir"
        ) from error
    tools.report(_WHERE, f"snapshot {path}, revision {found.revision}, SHA-256 {found.sha256[:12]}")
    return path


async def save(client: SnapshotClient, path: Path, progress: Callable[[int], None]) -> Snapshot:
    """Stream the member's data into the file, verify it, and only then give it its name. `progress` hears how many bytes there are.

    A member has written everything up to the revision it told before, and nothing beyond the one it tells afterwards. A file that is
    there is never written over. What has no end, or more than the member told and the disk holds, is removed. Raises StepFailed, EtcdError and OSError.
    """
    if await asyncio.to_thread(path.exists):
        raise _is_there(path)
    partial = path.with_name(f".{path.name}{_PARTIAL}")
    try:
        told = await client.status()
        before, bound = told.revision, await asyncio.to_thread(_bound, path.parent, told.db_size)
        async with aclosing(client.snapshot()) as pieces:
            await _write(pieces, partial, bound, progress)
        found = await _examined(partial)
        after = (await client.status()).revision
        if not before <= found.revision <= after:
            cause = f"the snapshot has revision {found.revision}, and the member was at {before} before and at {after} after it was taken"
            raise StepFailed(_WHERE, cause, _LOOK)
        await asyncio.to_thread(_name, partial, path)
    finally:
        partial.unlink(missing_ok=True)
    return found


@dataclass(frozen=True, slots=True)
class _Bound:
    """How large a snapshot may be, and how long it may take: a member says how large its database is, and may send without end."""

    folder: Path
    told: int  # bytes of the database, as the member says
    free: int  # bytes that the disk has

    @property
    def bytes(self) -> int:
        return min(self.told + _GROWTH, self.free - _RESERVE)

    @property
    def seconds(self) -> float:
        return _TIMEOUT + self.told / _SLOWEST

    def __str__(self) -> str:
        return f"the member's database has {_mebibytes(self.told)} by its own word, and {self.folder} had {_mebibytes(self.free)} free"

    def refuse_more(self, size: int) -> None:
        if size > self.bytes:
            raise StepFailed(_WHERE, f"the snapshot has more than {_mebibytes(self.bytes)} and was not read to its end: {self}", _LOOK)


def _bound(folder: Path, told: int) -> _Bound:
    bound = _Bound(folder, told, shutil.disk_usage(folder).free)
    if told > bound.bytes:
        raise StepFailed(_WHERE, f"there is no room for a snapshot: {bound}", "Make room there, or name another folder with --snapshot-dir")
    return bound


def _mebibytes(size: int) -> str:
    return f"{size / (1 << 20):,.1f} MiB"


async def _write(pieces: AsyncIterator[bytes], path: Path, bound: _Bound, progress: Callable[[int], None]) -> None:
    try:
        async with asyncio.timeout(bound.seconds) as deadline:
            await _stream(pieces, path, bound, progress)
    except TimeoutError:
        if not deadline.expired():
            raise
        raise StepFailed(_WHERE, f"the snapshot did not end within {bound.seconds:.0f} s: {bound}", _LOOK) from None


async def _stream(pieces: AsyncIterator[bytes], path: Path, bound: _Bound, progress: Callable[[int], None]) -> None:
    """To disk, from the first byte on in a file that nobody else can read."""
    await asyncio.to_thread(path.unlink, missing_ok=True)  # of an attempt that was killed
    descriptor = create(path)
    with os.fdopen(descriptor, "wb", buffering=0) as file:
        size, gathered = 0, bytearray()
        async for piece in pieces:
            gathered += piece
            bound.refuse_more(size + len(gathered))
            if len(gathered) >= _PIECE:
                await asyncio.to_thread(file.write, bytes(gathered))
                size += len(gathered)
                gathered.clear()
                progress(size)
        await asyncio.to_thread(file.write, bytes(gathered))
        progress(size + len(gathered))
        await asyncio.to_thread(os.fsync, file.fileno())


async def _examined(path: Path) -> Snapshot:
    try:
        return await asyncio.to_thread(examine, path)
    except SnapshotBroken as error:
        raise StepFailed(_WHERE, f"the snapshot that arrived cannot be used: {error}", "Run the same command again") from error


def _prepare(folder: Path, cluster: str, now: datetime) -> None:
    """The folder, without what attempts that were killed have left in it. What was written to just now is another run's, which goes on."""
    private_folder(folder)
    for left in folder.glob(f".{cluster}-{_STAMP}.db{_PARTIAL}"):
        with suppress(FileNotFoundError):  # the other run has given it its name
            if now.timestamp() - left.stat().st_mtime > _ABANDONED:
                left.unlink()


def _name(partial: Path, path: Path) -> None:
    """Give the file its name, if nobody has given it to another meanwhile."""
    try:
        os.link(partial, path)
    except FileExistsError:
        raise _is_there(path) from None
    except OSError:  # a file system without links
        if path.exists():
            raise _is_there(path) from None
        partial.rename(path)
    descriptor = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _is_there(path: Path) -> StepFailed:
    return StepFailed(_WHERE, f"{path} is there already, and a snapshot is never written over", "Name another file")


def _keep_last(folder: Path, cluster: str, made: Path) -> None:
    """The one that was just made, and those before it. Their names sort by their times, as far as the clocks agree of the machines that took them.

    Those of other clusters, and files of other names, are left alone.
    """
    others = sorted(set(folder.glob(f"{cluster}-{_STAMP}.db")) - {made})
    for old in others[: -(KEPT - 1)]:
        old.unlink(missing_ok=True)
