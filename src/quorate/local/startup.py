"""Bringing a local cluster up: in which order, what waits for what, and what is undone when it fails."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import aiohttp

from quorate.kubernetes import kubeconfig
from quorate.kubernetes.client import connect
from quorate.local import commands, manifests, ports, processes
from quorate.local.certificates import CertificateFiles, write_certificates
from quorate.local.cluster import START_TIMEOUT, LocalCluster
from quorate.local.commands import CAPD_DEBUG_PORT, CAPD_FIRST_LISTENER_PORT, ManagerPorts
from quorate.local.errors import LocalError
from quorate.local.folder import ControlPlaneProvider, RunFolder, State
from quorate.local.installation import install
from quorate.local.launcher import Launcher
from quorate.local.manifests import CABPK, CAPD, CORE, KCP, ManifestSet
from quorate.local.programs import PROGRAMS_FOLDER
from quorate.local.turns import Turn, take_turn

TURN_TIMEOUT = 600.0
_HTTP_TIMEOUT = aiohttp.ClientTimeout(total=5)


@dataclass(frozen=True, slots=True)
class Options:
    """How to start a local cluster. `say` receives what a person waits for, one line at a time; `turn_timeout` is in seconds."""

    programs: Path = PROGRAMS_FOLDER
    manager_arguments: Sequence[str] = ()  # more flags for `quorate manager`
    turn_timeout: float = TURN_TIMEOUT
    say: Callable[[str], None] = lambda _: None
    now: Callable[[], datetime] = lambda: datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class _Ports:
    etcd_client: int
    etcd_peer: int
    api_server: int
    controller_manager: int
    managers: dict[str, ManagerPorts]


@asynccontextmanager
async def started(
    folder: RunFolder, control_plane: ControlPlaneProvider, options: Options, *, detached: bool
) -> AsyncIterator[LocalCluster]:
    """A cluster brought up in a folder that held none. Where that fails, or the block does, everything started is stopped; otherwise nothing is."""
    owner = processes.identify(os.getpid())
    if owner is None:
        raise LocalError("/proc does not show this process: the local cluster needs Linux")
    state = State(control_plane=control_plane, owner=owner, detached=detached)
    if folder.reset(state):
        options.say(f"removed what an earlier run left in {folder.path}")
    launcher = Launcher(folder, state)
    try:
        async with AsyncExitStack() as closing:
            turn = await take_turn(folder.path, options.say, timeout=options.turn_timeout)
            closing.callback(turn.release)
            for port in (CAPD_DEBUG_PORT, CAPD_FIRST_LISTENER_PORT):
                ports.require_free(port, wanted_by="CAPD")
            yield await _bring_up(launcher, turn, options, closing)
    except BaseException:
        await asyncio.shield(launcher.stop_all())
        raise


async def _bring_up(launcher: Launcher, turn: Turn, options: Options, closing: AsyncExitStack) -> LocalCluster:
    loop = asyncio.get_running_loop()
    began = loop.time()
    chosen = _choose_ports(os.getpid())
    files = write_certificates(
        launcher.folder.pki, launcher.folder.kubeconfig, f"https://{ports.LOOPBACK}:{chosen.api_server}", now=options.now()
    )
    cluster = await _connect(launcher, closing)
    await _start_api_server(cluster, chosen, files, options)
    options.say(f"API server ready after {loop.time() - began:.1f} s")
    await _start_managers(cluster, chosen, files, turn, options)
    launcher.mark_ready()
    options.say(f"local management cluster ready after {loop.time() - began:.1f} s")
    return cluster


def _choose_ports(pid: int) -> _Ports:
    names = (CORE.program, CABPK.program, CAPD.program, KCP.program, commands.QUORATE_MANAGER)
    etcd_client, etcd_peer, api_server, controller_manager, *rest = ports.choose(4 + 3 * len(names), start=pid * 16)
    managers = {name: ManagerPorts(*rest[3 * index : 3 * index + 3]) for index, name in enumerate(names)}
    return _Ports(etcd_client, etcd_peer, api_server, controller_manager, managers)


async def _connect(launcher: Launcher, closing: AsyncExitStack) -> LocalCluster:
    client = connect(kubeconfig.load(str(launcher.folder.kubeconfig)), qps=1000.0, burst=1000)
    closing.push_async_callback(client.close)
    http = await closing.enter_async_context(aiohttp.ClientSession(timeout=_HTTP_TIMEOUT, connector=aiohttp.TCPConnector(force_close=True)))
    return LocalCluster(launcher, client, http)


async def _start_api_server(cluster: LocalCluster, chosen: _Ports, files: CertificateFiles, options: Options) -> None:
    """etcd and the API server side by side, the manifests read meanwhile, the kinds installed."""
    launcher, folder, programs = cluster.launcher, cluster.folder, options.programs
    launcher.start(commands.etcd(programs, folder, client_port=chosen.etcd_client, peer_port=chosen.etcd_peer))
    launcher.start(commands.api_server(programs, folder, files, port=chosen.api_server, etcd_port=chosen.etcd_client))
    manifest_set = await asyncio.to_thread(_manifest_set, launcher.state.control_plane, programs, files, chosen)  # 250 ms of YAML
    await cluster.until_ready("etcd")
    await cluster.until_ready("kube-apiserver")
    launcher.start(commands.controller_manager(programs, folder, port=chosen.controller_manager))
    await install(cluster.client, manifest_set, timeout=START_TIMEOUT)


def _manifest_set(control_plane: ControlPlaneProvider, programs: Path, files: CertificateFiles, chosen: _Ports) -> ManifestSet:
    upstream = (KCP,) if control_plane is ControlPlaneProvider.UPSTREAM else ()
    own_port = chosen.managers[commands.QUORATE_MANAGER].webhook if control_plane is ControlPlaneProvider.QUORATE else 0
    parts = [
        manifests.manifest_set(
            manifests.read(programs / provider.manifest),
            webhook_port=chosen.managers[provider.program].webhook,
            ca=files.ca_data,
        )
        for provider in (CORE, CABPK, CAPD, *upstream)
    ]
    return manifests.merge([*parts, *([] if upstream else [manifests.own(webhook_port=own_port, ca=files.ca_data)])])


async def _start_managers(cluster: LocalCluster, chosen: _Ports, files: CertificateFiles, turn: Turn, options: Options) -> None:
    launcher, folder, control_plane = cluster.launcher, cluster.folder, cluster.launcher.state.control_plane
    upstream = (KCP,) if control_plane is ControlPlaneProvider.UPSTREAM else ()
    for provider in (CORE, CABPK, CAPD, *upstream):
        command = commands.cluster_api_manager(provider, options.programs, folder, files, chosen.managers[provider.program])
        launcher.start(command, inherit=(turn.descriptor,) if provider is CAPD else ())
    turn.name_holder(cluster.pids[CAPD.program], folder.path)
    if control_plane is ControlPlaneProvider.QUORATE:
        launcher.start(commands.quorate_manager(folder, files, chosen.managers[commands.QUORATE_MANAGER], options.manager_arguments))
    for name in cluster.pids:
        await cluster.until_ready(name)
