"""A real etcd and kube-apiserver with nothing installed, for what installs or measures something by itself."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

from quorate.kubernetes import kubeconfig
from quorate.kubernetes.client import connect
from quorate.local import commands, ports, processes
from quorate.local.certificates import write_certificates
from quorate.local.cluster import LocalCluster
from quorate.local.errors import LocalError
from quorate.local.folder import ControlPlaneProvider, RunFolder, State
from quorate.local.launcher import Launcher
from quorate.local.programs import PROGRAMS_FOLDER


@asynccontextmanager
async def bare_cluster(folder: Path, *, spare: int, qps: float = 100.0, burst: int = 200) -> AsyncIterator[tuple[LocalCluster, list[int]]]:
    """Bring one up, with a client of so many requests a second, and so many ports that nobody uses; what was started by its launcher ends with the block."""
    run, owner = RunFolder(folder), processes.identify(os.getpid())
    if owner is None:
        raise LocalError("/proc does not show this process: the API server needs Linux")
    state = State(control_plane=ControlPlaneProvider.NONE, owner=owner, detached=False)
    run.reset(state)
    launcher = Launcher(run, state)
    etcd_client, etcd_peer, api_server, *free = ports.choose(3 + spare, start=os.getpid() * 16)
    files = write_certificates(run.pki, run.kubeconfig, f"https://{ports.LOOPBACK}:{api_server}", now=datetime.now(UTC))
    client = connect(kubeconfig.load(str(run.kubeconfig)), qps=qps, burst=burst)
    try:
        launcher.start(commands.etcd(PROGRAMS_FOLDER, run, client_port=etcd_client, peer_port=etcd_peer))
        launcher.start(commands.api_server(PROGRAMS_FOLDER, run, files, port=api_server, etcd_port=etcd_client))
        cluster = LocalCluster(launcher, client, None)  # type: ignore[arg-type]  # only CAPD's listeners and health probes are asked over it
        await cluster.until_ready("kube-apiserver")
        yield cluster, free
    finally:
        await client.close()
        await asyncio.shield(launcher.stop_all())
