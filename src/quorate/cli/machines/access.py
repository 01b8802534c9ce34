"""How commands reach the management cluster: their common flags, a first question that fails at once and clearly, and looks that wait for a connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from quorate.clusterapi.inspection import Finding, Inspector
    from quorate.clusterapi.observe.observer import Edit
    from quorate.kubernetes.client import Client
    from quorate.kubernetes.config import RestConfig
    from quorate.kubernetes.controller import Request
    from quorate.kubernetes.resource import Resource

_Decorated = TypeVar("_Decorated", bound=Callable[..., Any])

CONNECT_TIMEOUT = 12.0
"""Seconds that a look waits for the first connection to a workload cluster to come or to fail; one attempt takes at most 10."""
_LOOK_AGAIN = 0.5  # seconds; a first connection that fails tells nobody


@dataclass(frozen=True, slots=True)
class Access:
    """What the common flags say."""

    kubeconfig: str | None
    context: str | None
    etcd_dialer: str

    def config(self) -> RestConfig:
        """The management cluster. Raises ConfigError."""
        from quorate.kubernetes import kubeconfig

        return kubeconfig.load(self.kubeconfig, self.context)


def with_access(command: _Decorated) -> _Decorated:
    """The flags that `Access` is made from."""
    dialers = click.Choice(["port-forward", "in-memory"])
    options = (
        click.option("--kubeconfig", metavar="FILE", help="The management cluster. Default: KUBECONFIG, or ~/.kube/config."),
        click.option("--context", help="The kubeconfig's context to use instead of its current one."),
        click.option(
            "--etcd-dialer",
            type=dialers,
            default="port-forward",
            show_default=True,
            help="How to reach etcd; in-memory is for CAPD's in-memory machines.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


@asynccontextmanager
async def inspector(access: Access, namespace: str) -> AsyncIterator[Inspector]:
    """An Inspector of a namespace ("" for all). Raises ConfigError, and what the API answers to a first question for each kind that is read."""
    from quorate.clusterapi.connect.workloads import EtcdDialer
    from quorate.clusterapi.inspection import inspecting

    config = access.config()
    await _ask(config, namespace)
    async with inspecting(config, namespace=namespace, etcd_dialer=EtcdDialer(access.etcd_dialer)) as found:
        yield found


async def found(access: Access, namespace: str, name: str, edit: Edit | None = None) -> Finding:
    """One control plane as it is, or as it would be after an edit. Raises Failure where there is none, and what `inspector` does."""
    from quorate.cli.failures import ExitCode, Failure
    from quorate.kubernetes.controller import Request

    request = Request(namespace, name)
    async with inspector(access, namespace) as cluster_inspector:
        finding = (await look(cluster_inspector, [request])).get(request)
        if finding is not None and edit is not None:
            finding = await cluster_inspector.look(request, edit)
    if finding is None:
        raise Failure(f"there is no KubeadmControlPlane {namespace}/{name}; `quorate get -A` shows all", ExitCode.NOT_FOUND)
    return finding


async def _ask(config: RestConfig, namespace: str) -> None:
    """List nothing of every kind: caches would try again for 20 s where this fails at once, and with the kind's name."""
    from quorate.clusterapi.types.resources import CLUSTERS, KUBEADM_CONFIGS, KUBEADM_CONTROL_PLANES, MACHINE_POOLS, MACHINES
    from quorate.kubernetes.resource import SECRETS

    client = _connect(config)
    try:
        kinds: tuple[Resource[Any], ...] = (KUBEADM_CONTROL_PLANES, CLUSTERS, MACHINES, MACHINE_POOLS, KUBEADM_CONFIGS, SECRETS)
        for resource in kinds:
            await client.list(resource, namespace, field_selector="metadata.name=none", limit=1)
    finally:
        await client.close()


def _connect(config: RestConfig) -> Client:
    from quorate.kubernetes.client import connect
    from quorate.kubernetes.config import ConfigError

    try:
        return connect(config, timeout=10.0)
    except ValueError as error:
        raise ConfigError(f"the kubeconfig's certificates cannot be used: {error}") from error


async def look(inspector: Inspector, requests: Iterable[Request], timeout: float = CONNECT_TIMEOUT) -> dict[Request, Finding]:
    """A look at each of these control planes that exist, once the connection to its workload cluster has come or failed, or `timeout` seconds are over."""
    found = await _look_at(inspector, requests)
    begun = {request: finding.observation.connection for request, finding in found.items()}
    deadline = asyncio.get_running_loop().time() + timeout
    while pending := [request for request, finding in found.items() if _connecting(finding, begun[request].message)]:
        if asyncio.get_running_loop().time() >= deadline:
            break
        await changed(inspector, _LOOK_AGAIN)
        again = await _look_at(inspector, pending)
        found = {request: again.get(request, finding) for request, finding in found.items() if request not in pending or request in again}
    return found


async def _look_at(inspector: Inspector, requests: Iterable[Request]) -> dict[Request, Finding]:
    wanted = list(requests)
    findings = await asyncio.gather(*(inspector.look(request) for request in wanted))
    return {request: finding for request, finding in zip(wanted, findings, strict=True) if finding is not None}


def _connecting(finding: Finding, first_message: str) -> bool:
    """Whether nothing is known yet of the connection to a cluster that must have an API server: the message changes with the first failure."""
    from quorate.core.health import Health

    observation = finding.observation
    return observation.initialized and observation.connection.health is Health.UNKNOWN and observation.connection.message == first_message


async def changed(inspector: Inspector, timeout: float) -> set[Request]:
    """The control planes of which something has changed, as soon as there are any; none after `timeout` seconds."""
    try:
        async with asyncio.timeout(timeout):
            seen = {await inspector.changed.get()}
    except TimeoutError:
        return set()
    while not inspector.changed.empty():
        seen.add(inspector.changed.get_nowait())
    return seen
