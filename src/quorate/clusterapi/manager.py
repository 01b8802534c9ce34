"""The process of the first door: caches, connections and servers wired to one reconciler, with upstream's flags and names."""

from __future__ import annotations

import asyncio
import os
import socket
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import Random, SystemRandom

from prometheus_client import CollectorRegistry

from quorate.clusterapi.act import Actor
from quorate.clusterapi.caches import Caches
from quorate.clusterapi.clients import Clients
from quorate.clusterapi.inputs import Inputs
from quorate.clusterapi.observe import Observer
from quorate.clusterapi.publish import Publisher
from quorate.clusterapi.reconciler import Pace, Reconciler
from quorate.clusterapi.rings import Rings
from quorate.clusterapi.types.names import LEADER_ELECTION_LEASE, RECORDER_NAME
from quorate.clusterapi.workloads import EtcdDialer, Workloads
from quorate.kubernetes import kubeconfig
from quorate.kubernetes.client import Client, connect
from quorate.kubernetes.config import ConfigError
from quorate.kubernetes.controller import Controller, Request
from quorate.kubernetes.events import EventRecorder
from quorate.kubernetes.expectations import Expectations
from quorate.kubernetes.health_server import DiagnosticsServer, HealthServer
from quorate.kubernetes.leader import LeaderElector
from quorate.kubernetes.manager import Manager, Runnable
from quorate.kubernetes.metrics import Metrics
from quorate.kubernetes.queue import WorkQueue

CONTROLLER = "kubeadmcontrolplane"
DEFAULT_NAMESPACE = "capi-kubeadm-control-plane-system"  # of the Lease, unless POD_NAMESPACE says otherwise

_FIRST_RETRY, _LONGEST_RETRY = 0.2, 30.0  # seconds; upstream's 1,000 s leaves a mended API unnoticed for a quarter of an hour


@dataclass(frozen=True, slots=True)
class Options:
    """What the manager is told; names and defaults are those of upstream's flags."""

    kubeconfig: str | None = None
    context: str | None = None
    namespace: str = ""
    watch_filter: str = ""
    leader_elect: bool = False
    leader_elect_lease_duration: float = 60.0
    leader_elect_renew_deadline: float = 40.0
    leader_elect_retry_period: float = 5.0
    concurrency: int = 100
    kube_api_qps: float = 100.0
    kube_api_burst: int = 200
    workload_qps: float = 20.0
    workload_burst: int = 30
    remote_conditions_grace_period: float = 300.0
    health_addr: str = ":9440"
    diagnostics_address: str = ":8443"
    insecure_diagnostics: bool = False
    etcd_dialer: EtcdDialer = EtcdDialer.PORT_FORWARD


async def run(options: Options, stopping: asyncio.Event) -> None:
    """Run until `stopping` is set. Raises ConfigError for a kubeconfig that cannot be used, and what Manager.run raises."""
    loop = asyncio.get_running_loop()
    registry, random = CollectorRegistry(), SystemRandom()
    metrics = Metrics(registry)
    client = _connect(options, metrics)
    queue: WorkQueue[Request] = WorkQueue(CONTROLLER, random, base_delay=_FIRST_RETRY, max_delay=_LONGEST_RETRY, metrics=metrics)
    inputs = Inputs(queue, loop.time)
    caches = Caches(client, inputs, random, namespace=options.namespace, watch_filter=options.watch_filter)
    workloads = Workloads(
        caches,
        client,
        dialer=options.etcd_dialer,
        now=_now,
        random=random,
        clock=loop.time,
        qps=options.workload_qps,
        burst=options.workload_burst,
    )
    clients = Clients(client, caches, workloads, Expectations(inputs.add))
    recorder = EventRecorder(client, RECORDER_NAME, instance=_identity(), now=_now, random=random)
    reconciler = Reconciler(
        clients=clients,
        observer=Observer(clients, _now, inputs.add, Rings(loop.time)),
        actor=Actor(clients, random, _now),
        publisher=Publisher(client, caches),
        recorder=recorder,
        clock=_now,
        random=random,
        grace=timedelta(seconds=options.remote_conditions_grace_period),
        pace=Pace(loop.time),
        inputs=inputs,
    )
    controller = Controller(
        CONTROLLER,
        reconciler.reconcile,
        queue,
        random,
        concurrency=options.concurrency,
        caches=caches.reflectors,
        pending=clients.expectations.pending,
        metrics=metrics,
    )
    synced = [reflector.synced for reflector in caches.reflectors]
    runnables: list[Runnable] = [workloads, caches.foreign, recorder]
    runnables += _servers(options, registry, synced)
    manager = Manager(
        reflectors=caches.reflectors,
        controllers=(controller,),
        runnables=runnables,
        elector=_elector(options, client, random, metrics) if options.leader_elect else None,
    )
    try:
        await manager.run(stopping)
    finally:
        await client.close()


def _connect(options: Options, metrics: Metrics) -> Client:
    config = kubeconfig.load(options.kubeconfig, options.context)
    try:
        return connect(config, qps=options.kube_api_qps, burst=options.kube_api_burst, on_request=metrics.request)
    except ValueError as error:
        raise ConfigError(f"{options.kubeconfig or 'the kubeconfig'}: {error}") from error


def _servers(options: Options, registry: CollectorRegistry, synced: list[asyncio.Event]) -> list[Runnable]:
    servers: list[Runnable] = []
    if options.health_addr not in ("", "0"):
        servers.append(HealthServer(options.health_addr, live={}, ready={"caches": lambda: _unsynced(synced)}))
    if options.diagnostics_address not in ("", "0"):
        servers.append(DiagnosticsServer(options.diagnostics_address, registry, insecure=options.insecure_diagnostics))
    return servers


def _unsynced(synced: list[asyncio.Event]) -> str:
    late = sum(not event.is_set() for event in synced)
    return f"{late} of {len(synced)} caches are not filled yet" if late else ""


def _elector(options: Options, client: Client, random: Random, metrics: Metrics) -> LeaderElector:
    return LeaderElector(
        client,
        namespace=os.environ.get("POD_NAMESPACE") or options.namespace or DEFAULT_NAMESPACE,
        name=LEADER_ELECTION_LEASE,
        identity=_identity(),
        now=_now,
        random=random,
        lease_duration=options.leader_elect_lease_duration,
        renew_deadline=options.leader_elect_renew_deadline,
        retry_period=options.leader_elect_retry_period,
        metrics=metrics,
    )


def _identity() -> str:
    return f"{socket.gethostname()}_{os.getpid()}_{SystemRandom().getrandbits(32):08x}"


def _now() -> datetime:
    return datetime.now(UTC)
