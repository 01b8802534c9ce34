"""A local management cluster in the hands of the process that started it: what it is made of, what it costs, and how to disturb it."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import aiohttp

from quorate.kubernetes.client import Client
from quorate.local import ports, processes
from quorate.local.commands import CAPD_DEBUG_PORT, QUORATE_MANAGER
from quorate.local.errors import LocalError
from quorate.local.folder import ControlPlaneProvider
from quorate.local.installation import unready
from quorate.local.launcher import GRACE, Launcher
from quorate.local.manifests import KCP
from quorate.local.processes import Usage

START_TIMEOUT = 60.0  # seconds for one program; the slowest takes 3 on two idle cores


class LocalCluster:
    """A local cluster that runs, in the hands of the process that started it."""

    def __init__(self, launcher: Launcher, client: Client, http: aiohttp.ClientSession) -> None:
        self.launcher = launcher
        self._http = http
        self.client = client  # as administrator
        self.folder = launcher.folder

    @property
    def kubeconfig(self) -> Path:
        return self.folder.kubeconfig

    @property
    def audit_log(self) -> Path:
        return self.folder.audit_log

    @property
    def pids(self) -> dict[str, int]:
        """The pid of every program started, by name, in order of start."""
        return {name: process.pid for name, process in self.launcher.state.processes.items()}

    @property
    def provider(self) -> str:
        """The name of the process that answers for KubeadmControlPlanes; empty where the caller runs it."""
        names = {ControlPlaneProvider.QUORATE: QUORATE_MANAGER, ControlPlaneProvider.UPSTREAM: KCP.program, ControlPlaneProvider.NONE: ""}
        return names[self.launcher.state.control_plane]

    def ended(self) -> tuple[str, ...]:
        """The programs that have ended though nobody stopped them."""
        return self.launcher.ended()

    def usage(self, process: str) -> Usage:
        """What a program has used since it was last started; raises LocalError where it does not run."""
        found = processes.measure(self.launcher.state.processes[process])
        if found is None:
            raise LocalError(f"{process} does not run, so it uses nothing: see {self.folder.log(process)}")
        return found

    async def restart_api_server(self) -> None:
        """Stop kube-apiserver and start it again on the same port; returns when it is ready."""
        await self.stop("kube-apiserver")
        await self.start("kube-apiserver")

    async def stop(self, process: str, *, grace: float = GRACE) -> None:
        """End one program; with grace 0 by SIGKILL at once. Idempotent."""
        await self.launcher.stop(process, grace=grace)

    async def start(self, process: str) -> None:
        """Start a program again that was stopped, as it was started before; returns when it is ready."""
        self.launcher.start(self.launcher.command(process))
        await self.until_ready(process)

    async def listener(self, namespace: str, cluster: str, action: Literal["start", "stop"]) -> None:
        """Open or close the API server and etcd of an in-memory workload cluster, as CAPD's debug server does it: all its connections drop."""
        url = f"http://{ports.LOOPBACK}:{CAPD_DEBUG_PORT}/namespaces/{namespace}/clusters/{cluster}/listener"
        async with self._http.post(url, data=action) as answer:
            if answer.status != 200:
                raise LocalError(
                    f"CAPD would not {action} the listener of {namespace}/{cluster} ({answer.status}): {(await answer.text()).strip()}"
                )

    async def until_ready(self, process: str) -> None:
        """Wait until a program that was started is ready; raises StartFailed, with the end of its log, where it ends first or takes a minute."""
        url = self.launcher.command(process).ready_url
        if process == "kube-apiserver":
            await self.launcher.until(process, lambda: unready(self.client), timeout=START_TIMEOUT)
        elif url:
            await self.launcher.until(process, lambda: _unready(self._http, url), timeout=START_TIMEOUT)


async def _unready(http: aiohttp.ClientSession, url: str) -> str:
    try:
        async with http.get(url) as answer:
            return "" if answer.status == 200 else f"{url} answers {answer.status}"
    except (aiohttp.ClientError, TimeoutError) as error:
        return str(error) or f"no answer from {url}"
