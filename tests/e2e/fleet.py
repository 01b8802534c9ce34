"""Control planes of Cluster API's docker backend: a local management cluster, the containers that its machines are, and what to do to them."""

from __future__ import annotations

import base64
import os
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from quorate import local
from quorate.kubernetes import kubeconfig
from quorate.kubernetes.client import connect
from quorate.kubernetes.resource import Resource
from tests.e2e import docker_backend, etcd
from tests.e2e.machines import Machine, Machines
from tests.e2e.nodes.programs import COREDNS, VERSIONS
from tests.integration.changes import until_version
from tests.integration.conftest import KINDS, Stage

TIMEOUT = 600.0
"""Seconds for a change of three machines: one takes about a minute to join on two cores."""
_KUBE_SYSTEM = "kube-system"


@dataclass
class Fleet:
    """One cluster: its objects in the management cluster, and the containers that its machines are."""

    stage: Stage
    machines: Machines
    folder: Path

    async def kubeconfig(self) -> Path:
        """The administrator's kubeconfig of the workload cluster, as a file."""
        secret = await self.stage.client.get(KINDS["Secret"], f"{self.stage.namespace}-kubeconfig", self.stage.namespace)
        path = self.folder / f"{self.stage.namespace}.kubeconfig"
        path.write_bytes(base64.b64decode(secret["data"]["value"]))
        return path

    async def create(self, *others: dict[str, Any]) -> None:
        """Three machines, and these objects beside them; ready when it returns."""
        cluster = self.stage.cluster(3)
        await self.stage.create(*docker_backend.objects(cluster), docker_backend.machine_template(cluster, VERSIONS[1]), *others)
        await self.stage.until_ready(3, timeout=TIMEOUT)

    async def upgrade(self) -> None:
        """The next minor version, with its CoreDNS; all three have it when it returns."""
        template = {"name": docker_backend.machine_template(self.stage.cluster(), VERSIONS[1])["metadata"]["name"]}
        dns = {"clusterConfiguration": {"dns": {"imageTag": COREDNS[VERSIONS[1]]}}}
        spec = {"version": VERSIONS[1], "machineTemplate": {"spec": {"infrastructureRef": template}}, "kubeadmConfigSpec": dns}
        await self.stage.patch("KubeadmControlPlane", {"spec": spec})
        await until_version(self.stage, VERSIONS[1], 3, timeout=TIMEOUT)

    async def end(self) -> None:
        """Delete the cluster and wait until it is gone, with all that belonged to it."""
        await self.stage.delete("Cluster")

        async def gone() -> bool:
            return not await self.stage.names("Cluster")

        await self.stage.until("the Cluster is gone", gone, timeout=TIMEOUT)
        assert not await self.stage.names("Machine")

    async def ring(self) -> list[dict[str, Any]]:
        """etcd's members, as one that is started and no learner lists them."""
        for name in sorted(await self.stage.names("Machine")):
            try:
                return etcd.members(self.machines, self.host(name))
            except local.LocalError:  # its container, or its member, is not there
                continue
        raise AssertionError("no member of etcd answers")

    async def images(self, resource: Resource[dict[str, Any]], name: str) -> list[str]:
        """The images of an add-on."""
        client = connect(kubeconfig.load(str(await self.kubeconfig())))
        try:
            found = await client.get(resource, name, _KUBE_SYSTEM)
        finally:
            await client.close()
        return [container["image"] for container in found["spec"]["template"]["spec"]["containers"]]

    def run(self, name: str, script: str) -> str:
        """Run a script as root in a machine."""
        return self.machines.run(self.host(name), script)

    def host(self, name: str) -> Machine:
        """A machine as the tools of existing hosts know it."""
        address = self.machines.engine.docker("inspect", "--format", "{{.NetworkSettings.Networks.kind.IPAddress}}", name).strip()
        return Machine(name, address, name, "")


@asynccontextmanager
async def begun(name: str, machines: Machines, folder: Path) -> AsyncIterator[Fleet]:
    """A local management cluster without a control-plane provider, whose machines are containers; no cluster yet. Managers end with it."""
    with patch.dict(os.environ, machines.engine.environment):
        async with local.running(folder / "stack", "none") as stack:
            stage = await Stage(stack, name, folder).open()
            try:
                yield Fleet(stage, machines, folder)
            finally:
                for manager in stage.managers:
                    manager.kill()


def voters(members: Iterable[dict[str, Any]]) -> set[str]:
    """The names of the members that vote; fails where any does not."""
    found = list(members)
    assert not [member for member in found if member.get("isLearner")]
    return {member["name"] for member in found}
