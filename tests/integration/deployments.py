"""What a cluster has and the local one lacks: whoever runs the providers' Deployments as processes, and the way from their Service to their Pods.

Each Pod has a host name and a service account's namespace of its own, as in a container, for by these a provider elects its leader: that needs root.
"""

from __future__ import annotations

import asyncio
import base64
import os
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from quorate.kubernetes.client import Client
from quorate.kubernetes.errors import AlreadyExists, ApiError, ConnectionFailed, NotFound
from quorate.kubernetes.resource import Resource
from quorate.local import ports, processes
from quorate.local.commands import ManagerPorts
from quorate.local.manifests import KCP
from quorate.local.ports import LOOPBACK
from quorate.local.programs import PROGRAMS_FOLDER

Object = dict[str, Any]
DEPLOYMENTS: Resource[Object] = Resource("apps", "v1", "deployments", "Deployment", dict)
SERVICES: Resource[Object] = Resource("", "v1", "services", "Service", dict)
PODS: Resource[Object] = Resource("", "v1", "pods", "Pod", dict)
LOOK_AGAIN = 0.2  # seconds
_IN_A_CONTAINER = (
    'hostname "$POD_NAME" && mount -t tmpfs none /run && mkdir -p /run/secrets/kubernetes.io/serviceaccount && '
    'printf %s "$POD_NAMESPACE" > /run/secrets/kubernetes.io/serviceaccount/namespace && exec "$@"'
)
_OWN_FLAGS = ("--webhook-port", "--health-addr", "--diagnostics-address", "--insecure-diagnostics", "--webhook-cert-dir", "--kubeconfig")


def can_isolate() -> bool:
    """Whether this user may give a process a host name and a /run of its own."""
    return subprocess.run(("unshare", "--mount", "--uts", "true"), capture_output=True, check=False).returncode == 0


@dataclass
class Pod:
    """A process that stands for a Pod."""

    name: str
    deployment: str
    child: subprocess.Popen[bytes]
    served: ManagerPorts
    labels: dict[str, str]
    ready: bool = False


@dataclass
class Node:
    """Runs the Deployments of one namespace, and carries what is sent to `port` to a ready Pod that the Service selects. `logs` get what the Pods print."""

    client: Client
    namespace: str
    service: str
    kubeconfig: Path
    certificates: Path
    logs: Path
    port: int
    pods: dict[str, Pod] = field(default_factory=dict)
    selector: dict[str, str] = field(default_factory=dict)
    _made: int = 0
    _open: set[asyncio.StreamWriter] = field(default_factory=set)

    async def run(self) -> None:
        """Until cancelled; then every process is ended."""
        proxy = await asyncio.start_server(self._carry, LOOPBACK, self.port)
        try:
            async with aiohttp.ClientSession() as http, proxy:
                while True:
                    with suppress(ApiError, ConnectionFailed):
                        await self._look(http)
                    await asyncio.sleep(LOOK_AGAIN)
        finally:
            for end in list(self._open):
                end.close()
            for pod in self.pods.values():
                pod.child.kill()
                pod.child.wait(10)

    async def _look(self, http: aiohttp.ClientSession) -> None:
        with suppress(NotFound):
            self.selector = (await self.client.get(SERVICES, self.service, self.namespace))["spec"].get("selector") or {}
        deployments = {item["metadata"]["name"]: item for item in (await self.client.list(DEPLOYMENTS, self.namespace)).items}
        for pod in list(self.pods.values()):
            pod.ready = pod.child.poll() is None and await _answers(http, pod.served.ready_url)
        for name, deployment in deployments.items():
            await self._follow(name, deployment)
        for pod in list(self.pods.values()):
            if pod.deployment not in deployments:
                await self._end(pod)

    async def _follow(self, name: str, deployment: Object) -> None:
        wanted, mine = deployment["spec"]["replicas"], [pod for pod in self.pods.values() if pod.deployment == name]
        for pod in [pod for pod in mine if pod.child.poll() is not None] or mine[wanted:]:
            await self._end(pod)
        if len(mine) < wanted:
            await self._start(name, deployment)
        up = sum(pod.ready for pod in mine[:wanted])
        status = {
            "observedGeneration": deployment["metadata"]["generation"],
            "replicas": len(mine),
            "updatedReplicas": min(len(mine), wanted),
            "readyReplicas": up,
            "availableReplicas": up,
        }
        if any(deployment.get("status", {}).get(key, 0) != value for key, value in status.items()):
            await self.client.merge_patch(DEPLOYMENTS, name, {"status": status}, self.namespace, subresource="status")

    async def _start(self, deployment: str, item: Object) -> None:
        self._made += 1
        name, template = f"{deployment}-{self._made}", item["spec"]["template"]
        labels = template["metadata"]["labels"]
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": template["spec"]}
        with suppress(AlreadyExists):
            await self.client.create(PODS, body, self.namespace)
        container = next(each for each in template["spec"]["containers"] if each["name"] == "manager")
        served = ManagerPorts(*ports.choose(3, start=os.getpid() * 16 + 4 * self._made + 7000))
        command = self._program(container["image"], served, [each for each in container["args"] if not each.startswith(_OWN_FLAGS)])
        environment = {key: value for key, value in os.environ.items() if key != "KUBECONFIG"}
        environment |= {"POD_NAME": name, "POD_NAMESPACE": self.namespace}
        isolated = ("unshare", "--mount", "--uts", "sh", "-c", _IN_A_CONTAINER, "sh", *command)
        child = processes.spawn(isolated, log=self.logs / f"{name}.log", environment=environment, bound_to_parent=True)
        self.pods[name] = Pod(name, deployment, child, served, labels)
        status = {"phase": "Running", "containerStatuses": [_running(container)]}
        await self.client.merge_patch(PODS, name, {"status": status}, self.namespace, subresource="status")

    def _program(self, image: str, served: ManagerPorts, arguments: list[str]) -> tuple[str, ...]:
        own = (f"--kubeconfig={self.kubeconfig}", *served.flags, f"--webhook-cert-dir={self.certificates}")
        if "kubeadm-control-plane-controller" in image:
            return (str(PROGRAMS_FOLDER / KCP.program), *arguments, *own)
        return (sys.executable, "-m", "quorate", "manager", *arguments, *own, "--etcd-dialer=in-memory")

    async def _end(self, pod: Pod) -> None:
        if pod.child.poll() is None:
            pod.child.terminate()
            return
        del self.pods[pod.name]
        with suppress(NotFound):
            await self.client.delete(PODS, pod.name, self.namespace)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection of the API server, to a ready Pod; refused where there is none."""
        pod = next((each for each in self.pods.values() if each.ready and self.selector.items() <= each.labels.items()), None)
        ends = [writer]
        self._open.update(ends)
        try:
            if pod is not None and self.selector:
                inside, outside = await asyncio.open_connection(LOOPBACK, pod.served.webhook)
                ends.append(outside)
                self._open.add(outside)
                await asyncio.gather(_pipe(reader, outside), _pipe(inside, writer))
        except OSError:
            pass
        finally:
            for end in ends:
                self._open.discard(end)
                end.close()


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()


async def _answers(http: aiohttp.ClientSession, url: str) -> bool:
    try:
        async with http.get(url, timeout=aiohttp.ClientTimeout(total=2)) as answer:
            return answer.status == 200
    except (aiohttp.ClientError, TimeoutError):
        return False


def _running(container: Object) -> Object:
    begun = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
    return {"name": container["name"], "image": container["image"], "imageID": "", "ready": True, "restartCount": 0, "state": begun}


def reachable(item: Object, port: int, ca: bytes) -> Object:
    """The object with webhooks at a port of loopback, where its Service would be: the local API server has no way to Services."""
    if isinstance(item, dict):
        if "service" in item and "path" in (item["service"] or {}):
            return {"url": f"https://{LOOPBACK}:{port}{item['service']['path']}", "caBundle": base64.b64encode(ca).decode()}
        return {key: reachable(value, port, ca) for key, value in item.items()}
    return [reachable(each, port, ca) for each in item] if isinstance(item, list) else item
