"""The management cluster of a measurement: a real kube-apiserver on etcd with every kind, and none of Cluster API's managers; and managers of ours."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from quorate.kubernetes.client import Client
from quorate.local import manifests, processes
from quorate.local.cluster import LocalCluster
from quorate.local.commands import Command, ManagerPorts
from quorate.local.installation import install
from quorate.local.manifests import CABPK, CAPD, CORE, ManifestSet
from quorate.local.programs import PROGRAMS_FOLDER
from tests.bare_cluster import bare_cluster
from tests.scale import priority


class Management:
    """The cluster, and the managers that were started on it."""

    def __init__(self, cluster: LocalCluster, client: Client, free: list[int]) -> None:
        self.cluster, self.client, self.free = cluster, client, free

    async def start_manager(self, name: str, *flags: str) -> ManagerPorts:
        """Start `quorate manager` and wait until it is ready. It fills caches of all objects first, so that it may take a minute."""
        mine = ManagerPorts(self.free.pop(), self.free.pop(), self.free.pop())
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
    async with bare_cluster(folder, spare=1 + 3 * 8, qps=2000.0, burst=2000) as (cluster, free):
        await install(cluster.client, await asyncio.to_thread(_kinds), timeout=120.0)
        yield Management(cluster, cluster.client, free)


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
