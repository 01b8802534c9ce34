"""`clusterctl move`, in the middle of a rollout and back: two real management clusters, a manager on each, and workload clusters that both can reach."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from quorate.clusterapi.types.resources import CLUSTERS
from quorate.kubernetes.client import Client
from quorate.kubernetes.resource import Resource
from quorate.local import ports
from quorate.local.programs import PROGRAMS_FOLDER
from tests.scale import planes
from tests.scale.management import Management, management
from tests.scale.providers import NAMESPACE, Providers
from tests.scale.workloads import Workload, Workloads

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

NEXT = "v1.34.5"
_DEFINITIONS: Resource[dict[str, Any]] = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", dict, namespaced=False
)
_MACHINES: Resource[dict[str, Any]] = Resource("cluster.x-k8s.io", "v1beta2", "machines", "Machine", dict, namespaced=True)


@dataclass
class Home:
    """One of the two management clusters, and those who work on it."""

    site: Management
    workloads: Workloads
    tasks: asyncio.TaskGroup
    working: asyncio.Task[None] | None = None

    @property
    def client(self) -> Client:
        return self.site.client

    async def prepare(self) -> None:
        """What `clusterctl init` adds to the kinds that it installs: the mark of those that it moves."""
        mark = {"metadata": {"labels": {"clusterctl.cluster.x-k8s.io": ""}}}
        for definition in (await self.client.list(_DEFINITIONS)).items:
            if definition["spec"]["group"].endswith("cluster.x-k8s.io") and definition["spec"]["group"] != "controlplane.cluster.x-k8s.io":
                await self.client.merge_patch(_DEFINITIONS, definition["metadata"]["name"], mark)

    def work(self) -> None:
        """The other providers begin."""
        self.working = self.tasks.create_task(Providers(self.client, self.workloads).run())

    async def rest(self) -> None:
        """They stop: what is paused is left alone."""
        if self.working is not None:
            self.working.cancel()
            await asyncio.gather(self.working, return_exceptions=True)

    async def machines(self) -> dict[str, str]:
        """The versions of the Machines that have a Node, by name; "" for one that has none yet or is being deleted."""
        return {each["metadata"]["name"]: _version(each) for each in (await self.client.list(_MACHINES, NAMESPACE)).items}


def _version(machine: dict[str, Any]) -> str:
    here = (machine.get("status") or {}).get("nodeRef") and "deletionTimestamp" not in machine["metadata"]
    return str(machine["spec"]["version"]) if here else ""


@asynccontextmanager
async def home(folder: Path, workloads: Workloads) -> AsyncIterator[Home]:
    async with management(folder) as site, asyncio.TaskGroup() as tasks:
        found = Home(site, workloads, tasks)
        await found.prepare()
        await site.start_manager("manager")
        try:
            yield found
        finally:
            await found.rest()


async def until(what: str, is_so: Callable[[], Awaitable[bool]], *, seconds: float = 120.0) -> None:
    end = asyncio.get_running_loop().time() + seconds
    while not await is_so():
        assert asyncio.get_running_loop().time() < end, f"after {seconds:g} s still not: {what}"
        await asyncio.sleep(0.2)


async def move(source: Home, target: Home, *flags: str) -> tuple[bool, str]:
    """Whether `clusterctl move` has done it, and what it says."""
    await source.rest()
    command = ("move", "-n", NAMESPACE, "--kubeconfig", str(source.site.cluster.kubeconfig), "--to-kubeconfig")
    program = await asyncio.create_subprocess_exec(
        str(PROGRAMS_FOLDER / "clusterctl"),
        *command,
        str(target.site.cluster.kubeconfig),
        *flags,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, "CLUSTERCTL_DISABLE_VERSIONCHECK": "true", "HOME": str(source.site.cluster.folder.path)},
    )
    said, _ = await program.communicate()
    return not program.returncode, said.decode()


async def called_initialized(client: Client, workload: Workload) -> None:
    """By core, which `clusterctl move` asks for."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    condition = {"type": "ControlPlaneInitialized", "status": "True", "reason": "Initialized", "message": "", "lastTransitionTime": now}
    initialized = {"infrastructureProvisioned": True, "controlPlaneInitialized": True}
    status = {"status": {"conditions": [condition], "initialization": initialized}}
    await client.merge_patch(CLUSTERS, workload.name, status, NAMESPACE, subresource="status")


async def test_control_planes_go_to_another_management_cluster_in_the_middle_of_a_rollout_and_back(tmp_path: Path) -> None:
    """Nothing is made twice or removed on the way: every member that leaves a ring leaves it for the rollout, and nobody founds a second cluster."""
    workloads = Workloads(["plane-1", "plane-2"], *ports.choose(1, start=os.getpid()))
    await workloads.start()
    try:
        async with home(tmp_path / "here", workloads) as here, home(tmp_path / "there", workloads) as there:
            await _there_and_back(workloads, here, there)
    finally:
        await workloads.close()


async def _there_and_back(workloads: Workloads, here: Home, there: Home) -> None:
    both = list(workloads.by_name.values())
    names = [workload.name for workload in both]
    here.work()
    await planes.apply_all(here.client, both, workloads.port)
    await until("all are made", lambda: _settled(here, names))
    for workload in both:
        await called_initialized(here.client, workload)
    done, said = await move(here, there, "--dry-run", "-v", "1")
    assert done, said
    assert 'Creating KubeadmControlPlane="plane-1"' in said
    assert await there.machines() == {}
    resting = {name for name in await here.machines() if name.startswith("plane-2")}
    here.work()
    await planes.edit(here.client, "plane-1", {"version": NEXT})
    await until("it is in the middle of the rollout", lambda: _in_the_middle(here))
    await until("clusterctl has moved them", lambda: _is_moved(here, there))
    assert await here.machines() == {}
    before = await there.machines()
    for workload in both:
        await called_initialized(there.client, workload)
    there.work()
    await until("the rollout has ended there", lambda: _settled(there, names[:1], NEXT))
    await until("the other is well there", lambda: _settled(there, names[1:]))
    assert resting == {name for name in await there.machines() if name.startswith("plane-2")}
    assert {name for name, version in before.items() if version == NEXT} <= (after := await there.machines()).keys()
    done, said = await move(there, here)
    assert done, said
    for workload in both:
        await called_initialized(here.client, workload)
    here.work()
    await until("all are well here again", lambda: _settled(here, names[:1], NEXT))
    await until("all are well here again", lambda: _settled(here, names[1:]))
    assert (await here.machines()).keys() == after.keys()
    for workload in both:
        assert len(workload.cluster.ring.members) == 3
        assert len(workload.cluster.ring.well) == 3


async def _settled(at: Home, names: list[str], version: str = planes.VERSION) -> bool:
    return not await planes.settled(at.client, names, version=version) and "" not in (await at.machines()).values()


async def _in_the_middle(at: Home) -> bool:
    return set((await at.machines()).values()) >= {planes.VERSION, NEXT}


async def _is_moved(source: Home, target: Home) -> bool:
    """It may be moved only while every Machine has its Node; what is said otherwise has to be that."""
    done, said = await move(source, target)
    if not done:
        assert "still provisioning the node" in said, said
        source.work()
    return done
