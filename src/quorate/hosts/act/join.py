"""Joins hosts to an existing cluster: one control plane, or any number of workers at once.

The CAs come from a host of the cluster and go to the new one in memory; the token lives as long as the step; the new host checks the cluster against
the CA that it was given. Everything is placed by the script that runs kubeadm: a host gets all of it or, cut off before, nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from quorate.core.hosts.gates import addition
from quorate.core.hosts.state import Host, Kind
from quorate.core.hosts.steps import Join, JoinWorkers
from quorate.hosts.act import kubeadm
from quorate.hosts.act.concurrently import on_all
from quorate.hosts.act.encryption import as_they_have_it
from quorate.hosts.act.failures import StepFailed
from quorate.hosts.act.gates import DEADLINE, control_plane_serves, node_exists
from quorate.hosts.act.keys import read_cas
from quorate.hosts.act.placing import placing
from quorate.hosts.act.rings import fresh_ring, require
from quorate.hosts.act.tokens import bootstrap_token
from quorate.hosts.act.tools import Observation, Tools
from quorate.hosts.connect.ssh.hosts import Unreachable
from quorate.hosts.render.component_configurations import kubelet_patch
from quorate.hosts.render.feature_files import feature_files
from quorate.hosts.render.host_files import HostFile
from quorate.hosts.render.kubeadm_configuration import DISCOVERY_PATH, JOIN_PATH, Discovery, Machine, join_files

_JOIN = f"join --config {JOIN_PATH}"


async def join(tools: Tools, step: Join, observation: Observation) -> None:
    """Join the host as a control plane, and wait until its member votes and its API server is ready. Raises StepFailed."""
    machine, donor = observation.machines[step.host], _donor(tools, observation, step.host)
    tools.report(step.host, f"reading the CAs from {donor}")
    cas = await read_cas(tools, donor)
    tools = await as_they_have_it(tools, observation, donor)
    features = feature_files(tools.manifest, tools.contents)
    async with bootstrap_token(tools) as token:
        discovery = Discovery(token, cas.cluster)
        joining = join_files(tools.manifest, machine, discovery, control_plane=True)
        require(step.host, [addition((await fresh_ring(tools, observation)).ring)])
        await _run(tools, machine, (*cas.files, *features, *joining))
        await control_plane_serves(tools, step.host)


async def join_workers(tools: Tools, step: JoinWorkers, observation: Observation) -> None:
    """Join the hosts as workers, several at once, and wait until each has its Node. Raises StepFailed naming those that failed; the others have joined."""
    donor = _donor(tools, observation, "")
    ca = (await read_cas(tools, donor)).cluster

    async with bootstrap_token(tools) as token:

        async def one(name: str) -> None:
            machine = observation.machines[name]
            await _run(tools, machine, join_files(tools.manifest, machine, Discovery(token, ca), control_plane=False))
            await tools.waits.until(name, "its Node", lambda: node_exists(tools, name), deadline=DEADLINE)

        await on_all(step.hosts, one, tools.report, limit=observation.cluster.options.parallel_workers)


async def _run(tools: Tools, machine: Machine, files: Iterable[HostFile]) -> None:
    """The configuration and the kubeconfig, which holds the token, go again whatever comes of it."""
    patch = kubelet_patch(machine.host)
    placed = placing([*files, *((patch,) if patch else ())])
    tools.report(machine.name, "running kubeadm join")
    command = kubeadm.Command(_JOIN, "kubeadm join", before=placed, after=f"rm -f -- {JOIN_PATH} {DISCOVERY_PATH}")
    await kubeadm.run(tools, machine.name, command)


def _donor(tools: Tools, observation: Observation, joining: str) -> str:
    """The host that the CAs are read from: one that is well before one that merely belongs to the cluster. Raises StepFailed where there is none."""
    candidates: list[Host] = [
        host
        for host in observation.cluster.control_planes
        if host.name != joining and host.kind in (Kind.MEMBER, Kind.BROKEN) and not isinstance(tools.access.states[host.name], Unreachable)
    ]
    if not candidates:
        raise StepFailed(joining or "workers", "no control-plane host can be reached to read the cluster's CAs from")
    return max(candidates, key=lambda host: host.is_well).name
