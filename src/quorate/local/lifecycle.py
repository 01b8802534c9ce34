"""The life of a local cluster: etcd, kube-apiserver, garbage collection and Cluster API's managers, as processes on loopback.

    async with running(Path(".local/test"), "none") as cluster:
        ...  # cluster.kubeconfig reaches it

`running` ends everything with the block, and the kernel does so if this process is killed; `up` leaves it running until `down`. Clusters on one machine take
turns, because CAPD fixes its ports. Linux only: processes are told apart by /proc.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from quorate.local import processes
from quorate.local.cluster import LocalCluster
from quorate.local.folder import ControlPlaneProvider, Phase, RunFolder
from quorate.local.launcher import GRACE, stop_order
from quorate.local.processes import Identity
from quorate.local.startup import Options, started


@dataclass(frozen=True, slots=True)
class Status:
    """What a run folder tells of its cluster, and what of it is true now."""

    folder: RunFolder
    control_plane: ControlPlaneProvider | None = None  # None where nothing was ever started
    ready: bool = False  # everything was started and still runs
    processes: dict[str, Identity] = field(default_factory=dict)  # in order of start, also those that have ended

    @property
    def live(self) -> bool:
        """Whether any program runs."""
        return any(process.alive for process in self.processes.values())


def status(folder: Path) -> Status:
    """The state of the cluster in a run folder, from its record and /proc alone. Raises FolderUnusable where the folder is not ours."""
    chosen = RunFolder(folder)
    state = chosen.read()
    if state is None:
        return Status(chosen)
    ready = state.phase is Phase.READY and all(process.alive for process in state.processes.values())
    return Status(chosen, state.control_plane, ready, state.processes)


@asynccontextmanager
async def running(folder: Path, control_plane: str | None = None, options: Options | None = None) -> AsyncIterator[LocalCluster]:
    """A local cluster for the length of the block; `control_plane` is quorate, upstream or none. Enter it in the main thread: the programs end with it.

    Raises FolderUnusable where one runs in the folder already, and the other LocalErrors of `errors.py`. The folder stays, for its logs.
    """
    async with started(RunFolder(folder), ControlPlaneProvider(control_plane or "none"), options or Options(), detached=False) as cluster:
        yield cluster
        await asyncio.shield(cluster.launcher.stop_all())


async def up(folder: Path, control_plane: str | None = None, options: Options | None = None) -> bool:
    """Start a local cluster that runs until `down`; false where one runs in the folder already, whole. Errors as `running`'s."""
    if status(folder).ready:
        return False
    async with started(RunFolder(folder), ControlPlaneProvider(control_plane or "none"), options or Options(), detached=True) as cluster:
        cluster.launcher.let_go()
    return True


async def down(folder: Path, *, remove: bool = False) -> tuple[str, ...]:
    """End what runs from the folder, those first that need the others, and delete the folder if asked; returns the names of what was ended. Idempotent."""
    found = status(folder)
    ended: list[str] = []
    for tier in stop_order(found.processes):
        outcomes = await asyncio.gather(*(processes.stop(found.processes[name], grace=GRACE) for name in tier))
        ended += [name for name, stopped in zip(tier, outcomes, strict=True) if stopped]
    if remove:
        found.folder.remove()
    return tuple(ended)
