"""The management cluster of a measurement: a real kube-apiserver on etcd with every kind, and none of Cluster API's managers; and managers of ours."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

from quorate.kubernetes import kubeconfig
from quorate.kubernetes.client import Client, connect
from quorate.local import commands, manifests, ports, processes
from quorate.local.certificates import write_certificates
from quorate.local.cluster import LocalCluster
from quorate.local.commands import Command, ManagerPorts
from quorate.local.errors import LocalError
from quorate.local.folder import ControlPlaneProvider, RunFolder, State
from quorate.local.installation import install
from quorate.local.launcher import Launcher
from quorate.local.manifests import CABPK, CAPD, CORE, ManifestSet
from quorate.local.programs import PROGRAMS_FOLDER
from tests.scale import priority


class Management:
    """The cluster, and the managers that were started on it."""

    def __init__(self, cluster: LocalCluster, client: Client, free: list[int]) -> None:
        self.cluster, self.client, self._free = cluster, client, free

    async def start_manager(self, name: str, *flags: str) -> ManagerPorts:
        """Start `quorate manager` and wait until it is ready. It fills caches of all objects first, so that it may take a minute."""
        mine = ManagerPorts(self._free.pop(), self._free.pop(), self._free.pop())
        arguments = ("-m", "quorate", "manager", f"--kubeconfig={self.cluster.kubeconfig}", "--webhook-port=0", *mine.flags[1:], *flags)
        self.cluster.launcher.start(Command(name, (sys.executable, *arguments), mine.ready_url))
        priority.come_first(self.identity(name).pid)
        return mine

    def identity(self, name: str) -> processes.Identity:
        """The process of a manager."""
        return self.cluster.launcher.state.processes[name]


@asynccontextmanager
async def management(folder: Path) -> AsyncIterator[Management]:
    """Bring one up; it ends with the block."""
    run, owner = RunFolder(folder), processes.identify(os.getpid())
    if owner is None:
        raise LocalError("/proc does not show this process: the measurement needs Linux")
    state = State(control_plane=ControlPlaneProvider.NONE, owner=owner, detached=False)
    run.reset(state)
    launcher = Launcher(run, state)
    etcd_client, etcd_peer, api_server, *free = ports.choose(4 + 3 * 8, start=os.getpid() * 16)
    files = write_certificates(run.pki, run.kubeconfig, f"https://{ports.LOOPBACK}:{api_server}", now=datetime.now(UTC))
    client = connect(kubeconfig.load(str(run.kubeconfig)), qps=2000.0, burst=2000)
    try:
        launcher.start(commands.etcd(PROGRAMS_FOLDER, run, client_port=etcd_client, peer_port=etcd_peer))
        launcher.start(commands.api_server(PROGRAMS_FOLDER, run, files, port=api_server, etcd_port=etcd_client))
        cluster = LocalCluster(launcher, client, None)  # type: ignore[arg-type]  # only CAPD's listeners and health probes are asked over it
        await cluster.until_ready("kube-apiserver")
        await install(client, await asyncio.to_thread(_kinds), timeout=120.0)
        yield Management(cluster, client, free)
    finally:
        await client.close()
        await asyncio.shield(launcher.stop_all())


def _kinds() -> ManifestSet:
    """Every kind in the version that is stored, so that no webhook has to convert."""
    parts = [
        manifests.manifest_set(manifests.read(PROGRAMS_FOLDER / provider.manifest), webhook_port=1, ca=b"")
        for provider in (CORE, CABPK, CAPD)
    ]
    whole = manifests.merge([*parts, manifests.own(webhook_port=0, ca=b"")])
    return ManifestSet(
        tuple({**kind, "spec": {**kind["spec"], "conversion": {"strategy": "None"}}} for kind in whole.kinds), whole.namespaces, ()
    )
