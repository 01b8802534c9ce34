"""What the API of a cluster tells about hosts: Nodes, the configurations that kubeadm keeps, and MachineDeployments. Asked all at once, each by itself."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from quorate.core.health import Absent, Unknown
from quorate.hosts.connect.access import AccessFailed
from quorate.hosts.probe.facts import Fact
from quorate.hosts.render.core_dns import BUDGETS
from quorate.hosts.render.provider_files import RECORD
from quorate.kubernetes.client import Client
from quorate.kubernetes.config import ConfigError
from quorate.kubernetes.errors import ApiError, ConnectionFailed, NotFound
from quorate.kubernetes.objects import Node
from quorate.kubernetes.resource import CONFIG_MAPS, NODES, Resource
from quorate.workload import coredns, kube_proxy
from quorate.workload.coredns import DEPLOYMENTS
from quorate.workload.kube_proxy import DAEMON_SETS
from quorate.workload.updates import CannotUpdate, checked

T = TypeVar("T")

NAMESPACE = "kube-system"
DEADLINE = 10.0
"""Seconds for all questions together; they are answered in milliseconds."""
MACHINE_DEPLOYMENTS: Resource[dict[str, Any]] = Resource("cluster.k8s.io", "v1alpha1", "machinedeployments", "MachineDeployment", dict)
"""machine-controller's, which are not Cluster API's."""


@dataclass(frozen=True, slots=True)
class ApiReading:
    """What the API told; each part may be unknown by itself."""

    nodes: tuple[Node, ...] | Unknown
    kubeadm: Fact[Mapping[str, str]]  # the data of ConfigMap kubeadm-config
    kubelet: Fact[Mapping[str, str]]  # of kubelet-config
    kube_proxy: Fact[Mapping[str, str]]  # of kube-proxy
    encryption: Fact[Mapping[str, str]]  # of what quorate keeps of the encryption of Secrets
    machine_deployments: Fact[tuple[dict[str, Any], ...]]  # Absent: the API does not serve the kind
    core_dns: Fact[Mapping[str, Any]]  # its Deployment
    core_dns_budget: Fact[Mapping[str, Any]]  # its PodDisruptionBudget
    kube_proxy_pods: Fact[Mapping[str, Any]]  # its DaemonSet

    def node(self, name: str) -> Node | Absent | Unknown:
        """The Node of this name."""
        if isinstance(self.nodes, Unknown):
            return self.nodes
        return next((node for node in self.nodes if node.metadata.name == name), Absent())


async def read_api(api: Callable[[], Awaitable[Client]]) -> ApiReading | Unknown:
    """Ask everything at once. Unknown with the reason where no API server answers. Raises nothing of the world."""
    try:
        client = await api()
    except AccessFailed as failure:
        return Unknown(failure.cause, failure.remedy)
    async with asyncio.TaskGroup() as group:
        nodes = group.create_task(_asked(_nodes(client)))
        maps = [group.create_task(_asked(_data(client, name))) for name in ("kubeadm-config", "kubelet-config", "kube-proxy", RECORD)]
        deployments = group.create_task(_asked(_machine_deployments(client)))
        core_dns = group.create_task(_asked(_workload(client, DEPLOYMENTS, coredns.NAME)))
        budget = group.create_task(_asked(_object(client, BUDGETS, coredns.NAME)))
        kube_proxy_pods = group.create_task(_asked(_workload(client, DAEMON_SETS, kube_proxy.NAME)))
    kubeadm, kubelet, kube_proxy_data, encryption = (task.result() for task in maps)
    listed = nodes.result()
    return ApiReading(
        Unknown("the API does not serve Nodes") if isinstance(listed, Absent) else listed,
        kubeadm,
        kubelet,
        kube_proxy_data,
        encryption,
        deployments.result(),
        core_dns.result(),
        budget.result(),
        kube_proxy_pods.result(),
    )


async def _asked(question: Awaitable[T]) -> Fact[T]:
    try:
        async with asyncio.timeout(DEADLINE):
            return await question
    except NotFound:
        return Absent()
    except TimeoutError:
        return Unknown(f"the API did not answer within {DEADLINE:g} s")
    except (ApiError, ConnectionFailed, ConfigError, CannotUpdate) as error:
        return Unknown(str(error))


async def _nodes(client: Client) -> tuple[Node, ...]:
    return tuple((await client.list(NODES)).items)


async def _data(client: Client, name: str) -> Mapping[str, str]:
    return (await client.get(CONFIG_MAPS, name, NAMESPACE)).data


async def _workload(client: Client, resource: Resource[dict[str, Any]], name: str) -> Mapping[str, Any]:
    found = await _object(client, resource, name)
    checked(found, f"{resource.kind} {NAMESPACE}/{name}")
    return found


async def _object(client: Client, resource: Resource[dict[str, Any]], name: str) -> Mapping[str, Any]:
    return await client.get(resource, name, NAMESPACE)


async def _machine_deployments(client: Client) -> tuple[dict[str, Any], ...]:
    return tuple((await client.list(MACHINE_DEPLOYMENTS, NAMESPACE)).items)
