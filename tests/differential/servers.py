"""Upstream's program and quorate's as servers of webhooks: where they run, and how they are asked."""

from __future__ import annotations

import asyncio
import json
import ssl
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from quorate.clusterapi.types.names import DEFAULT_FEATURE_GATES
from quorate.clusterapi.types.resources import CONTROL_PLANE_GROUP
from quorate.kubernetes.client import Client
from quorate.local import LocalCluster, manifests, ports
from quorate.local.commands import Command, ManagerPorts
from quorate.local.manifests import KCP
from quorate.local.programs import PROGRAMS_FOLDER
from tests.scale.management import management

Object = dict[str, Any]

OLD = f"{CONTROL_PLANE_GROUP}/v1beta1"
GATES = "ClusterTopology=true,KubeadmBootstrapFormatIgnition=true,MachineTaintPropagation=true"
"""Everything on: what a gate forbids is one rule, and what it opens are many."""


class Refused(Exception):
    """A program did not convert, and said why."""


@dataclass(frozen=True, slots=True)
class Server:
    """A program that serves webhooks on a port of loopback, known by a CA."""

    http: aiohttp.ClientSession
    port: int
    tls: ssl.SSLContext

    async def convert(self, objects: Sequence[Object], version: str) -> list[Object]:
        """The objects in another version. Raises Refused, which none of the objects is to blame for in particular."""
        request = {"uid": "1", "desiredAPIVersion": version, "objects": objects}
        response = await self._ask("/convert", {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": request})
        if response["result"]["status"] != "Success":
            raise Refused(response["result"]["message"])
        converted: list[Object] = response["convertedObjects"] or []  # Go's null, where nothing was asked for
        return converted

    async def review(self, path: str, request: Object) -> Object:
        """The answer to an admission review."""
        return await self._ask(path, {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "1", **request}})

    async def _ask(self, path: str, review: Object) -> Object:
        async with self.http.post(f"https://{ports.LOOPBACK}:{self.port}{path}", json=review, ssl=self.tls) as answer:
            response: Object = json.loads(await answer.read())["response"]
        return response


@dataclass(frozen=True, slots=True)
class Servers:
    """Both programs beside one management cluster, which they ask, which `client` is an administrator's of, and whose CA made their certificates."""

    upstream: Server
    quorate: Server
    client: Client
    ca: Path


@asynccontextmanager
async def at(client: Client, upstream: int, quorate: int, ca: Path) -> AsyncIterator[Servers]:
    """Both programs where they listen already."""
    tls = ssl.create_default_context(cafile=str(ca))
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=60)) as http:
        yield Servers(Server(http, upstream, tls), Server(http, quorate, tls), client, ca)


@asynccontextmanager
async def running(folder: Path, gates: str = GATES) -> AsyncIterator[Servers]:
    """Both programs beside an API server that knows every kind, all for the length of the block."""
    async with management(folder) as made:
        theirs, ours = (ManagerPorts(made.free.pop(), made.free.pop(), made.free.pop()) for _ in range(2))
        made.cluster.launcher.start(upstream_command(made.cluster, theirs, gates))
        made.cluster.launcher.start(quorate_command(made.cluster, ours, gates))
        async with at(made.client, theirs.webhook, ours.webhook, made.cluster.folder.pki / "ca.crt") as servers:
            for server in (servers.upstream, servers.quorate):
                await until_served(server)
            yield servers


async def until_served(server: Server) -> None:
    """Wait until a program answers; TimeoutError after two minutes."""
    async with asyncio.timeout(120):
        while not await _serves(server):  # noqa: ASYNC110 (another program sets no Event here)
            await asyncio.sleep(0.2)


async def _serves(server: Server) -> bool:
    try:
        await server.convert([], OLD)
    except aiohttp.ClientConnectionError:
        return False
    return True


def upstream_command(cluster: LocalCluster, served: ManagerPorts, gates: str) -> Command:
    """Upstream's provider, which nobody is told to ask."""
    return Command(KCP.program, (str(PROGRAMS_FOLDER / KCP.program), *_flags(cluster, served, gates)))


def quorate_command(cluster: LocalCluster, served: ManagerPorts, gates: str) -> Command:
    """`quorate manager`, which nobody is told to ask, and which has nothing to do: it looks at a namespace that is not there."""
    program = (sys.executable, "-m", "quorate", "manager", "--namespace=nowhere")
    return Command("quorate-webhooks", (*program, *_flags(cluster, served, gates)))


def _flags(cluster: LocalCluster, served: ManagerPorts, gates: str) -> tuple[str, ...]:
    serving = cluster.folder.pki / "serving"
    return (f"--kubeconfig={cluster.kubeconfig}", *served.flags, f"--webhook-cert-dir={serving}", f"--feature-gates={gates}")


def enabled(gates: str = GATES) -> frozenset[str]:
    """The feature gates that are on with this flag."""
    given = dict(gate.split("=") for gate in gates.split(","))
    on: Mapping[str, bool] = {**dict.fromkeys(DEFAULT_FEATURE_GATES, True), **{gate: value == "true" for gate, value in given.items()}}
    return frozenset(gate for gate, value in on.items() if value)


def schemas(programs: Path = PROGRAMS_FOLDER) -> dict[tuple[str, str], Object]:
    """The schemas of upstream's control-plane kinds, by kind and version."""
    definitions = [item for item in manifests.read(programs / KCP.manifest) if item["kind"] == "CustomResourceDefinition"]
    return {
        (item["spec"]["names"]["kind"], version["name"]): version["schema"]["openAPIV3Schema"]
        for item in definitions
        for version in item["spec"]["versions"]
    }
