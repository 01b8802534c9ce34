"""The process of `quorate manager`: caches, connections and servers wired to one reconciler, with upstream's flags and names."""

from __future__ import annotations

import asyncio
import os
import socket
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from random import Random, SystemRandom

import structlog
from prometheus_client import CollectorRegistry

from quorate.clusterapi import diagnostics
from quorate.clusterapi.act.step import Actor
from quorate.clusterapi.connect import descriptors
from quorate.clusterapi.connect.caches import Caches
from quorate.clusterapi.connect.clients import Clients
from quorate.clusterapi.connect.workloads import EtcdDialer, Workloads, network_setup
from quorate.clusterapi.extensions.asking import Extensions
from quorate.clusterapi.extensions.caller import Caller, HttpsCaller
from quorate.clusterapi.inputs import Inputs
from quorate.clusterapi.observe.observer import Observer
from quorate.clusterapi.observe.rings import Rings
from quorate.clusterapi.observe.specification import Specifications
from quorate.clusterapi.observe.updates import ByExtensions
from quorate.clusterapi.pace import Pace
from quorate.clusterapi.reconciler import Reconciler
from quorate.clusterapi.report.publish import Publisher
from quorate.clusterapi.types.names import DEFAULT_FEATURE_GATES, LEADER_ELECTION_LEASE, RECORDER_NAME, FeatureGate
from quorate.kubernetes import kubeconfig
from quorate.kubernetes.client import Client, connect
from quorate.kubernetes.config import ConfigError, RestConfig
from quorate.kubernetes.controller import Controller, Request
from quorate.kubernetes.events import EventRecorder
from quorate.kubernetes.expectations import Expectations
from quorate.kubernetes.garbage_collection import GarbageCollector
from quorate.kubernetes.health_server import DiagnosticsServer, HealthCheck, HealthServer
from quorate.kubernetes.leader import LeaderElector, boot_time
from quorate.kubernetes.manager import Manager, Runnable
from quorate.kubernetes.metrics import Metrics
from quorate.kubernetes.queue import WorkQueue
from quorate.workload.connection import Setup

_log = structlog.get_logger(__name__)

CONTROLLER = "kubeadmcontrolplane"
DEFAULT_NAMESPACE = "capi-kubeadm-control-plane-system"  # of the Lease, unless POD_NAMESPACE says otherwise

_FIRST_RETRY, _LONGEST_RETRY = 0.2, 30.0  # seconds; upstream's 1,000 s leaves a repaired API unnoticed for a quarter of an hour
_BEHIND, _DEAD = (
    30.0,
    600.0,
)  # seconds without a word from the API server, after which a cache is behind, and after which the process had better begin anew
_LARGEST_LIST = (
    8 << 30
)  # bytes of all pages, as many as etcd should hold: what is kept of them is bounded by what is read of them, not by what they are
_LEASE_QPS, _LEASE_BURST = 5.0, 10  # to elect a leader, which must not wait behind what the leader does; a Lease is renewed every 5 s
_REVIEW_QPS, _REVIEW_BURST = 5.0, 10  # to ask who reads the metrics; each reader is asked about once a minute


@dataclass(frozen=True, slots=True)
class Options:
    """What the manager is told; names and defaults are those of upstream's flags."""

    kubeconfig: str | None = None
    context: str | None = None
    namespace: str = ""
    watch_filter: str = ""
    feature_gates: frozenset[str] = DEFAULT_FEATURE_GATES
    leader_elect: bool = False
    leader_elect_resource_name: str = LEADER_ELECTION_LEASE
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
    runtime_extension_client_cert_file: str = ""
    runtime_extension_client_key_file: str = ""
    etcd_dialer: EtcdDialer = EtcdDialer.PORT_FORWARD

    @property
    def in_place_updates(self) -> bool:
        """Whether runtime extensions may update Machines in place."""
        return FeatureGate.IN_PLACE_UPDATES in self.feature_gates


@dataclass(frozen=True, slots=True)
class Parts:
    """What one process is made of, wired together; nothing runs yet."""

    caches: Caches
    reconciler: Reconciler
    controller: Controller
    runnables: tuple[Runnable, ...]


def assemble(
    client: Client,
    setup: Setup[Client],
    options: Options,
    *,
    identity: str,
    metrics: Metrics,
    elector: LeaderElector | None = None,
    caller: Caller | None = None,
) -> Parts:
    """Wire the process that works on the management cluster of `client` and reaches workload clusters as `setup` says, by its clock and randomness.

    It writes as long as `elector` says that it leads; without one it is the only one of its kind. `caller` calls runtime extensions, over the network where
    none is given. Needs a running event loop, whose time drives every delay.
    """
    loop, now, random = asyncio.get_running_loop(), setup.now, setup.random
    queue: WorkQueue[Request] = WorkQueue(CONTROLLER, random, base_delay=_FIRST_RETRY, max_delay=_LONGEST_RETRY, metrics=metrics)
    inputs = Inputs(queue, loop.time)
    caches = Caches(
        client,
        inputs,
        random,
        namespace=options.namespace,
        watch_filter=options.watch_filter,
        in_place_updates=options.in_place_updates,
    )
    workloads = Workloads(caches, client, setup)
    leads = (lambda: elector.leading) if elector else (lambda: True)
    clients = Clients(client, caches, workloads, Expectations(inputs.add), leads=leads)
    calls = caller or HttpsCaller(options.runtime_extension_client_cert_file, options.runtime_extension_client_key_file)
    extensions = Extensions(clients, calls) if options.in_place_updates else None
    updates = ByExtensions(extensions) if extensions else None
    recorder = EventRecorder(client, RECORDER_NAME, instance=identity, now=now, random=random)
    reconciler = Reconciler(
        clients=clients,
        observer=Observer(clients, now, inputs.add, Rings(loop.time), Specifications(options.feature_gates), updates),
        actor=Actor(clients, random, now, extensions),
        publisher=Publisher(client, caches),
        recorder=recorder,
        clock=now,
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
    return Parts(caches, reconciler, controller, (workloads, caches.foreign, recorder))


async def run(options: Options, stopping: asyncio.Event) -> None:
    """Run until `stopping` is set. Raises ConfigError for a kubeconfig that cannot be used, and what Manager.run raises."""
    config = kubeconfig.load(options.kubeconfig, options.context)
    room = descriptors.raised()
    _log.info("file descriptors", limit=room.limit, control_planes_of_three=room.control_planes)
    registry, random, identity = CollectorRegistry(), SystemRandom(), _identity()
    metrics = Metrics(registry)
    try:
        client = connect(
            config, qps=options.kube_api_qps, burst=options.kube_api_burst, on_request=metrics.request, largest_list=_LARGEST_LIST
        )
        elects = connect(config, qps=_LEASE_QPS, burst=_LEASE_BURST, on_request=metrics.request)
    except ValueError as error:
        raise ConfigError(f"{options.kubeconfig or 'the kubeconfig'}: {error}") from error
    setup = network_setup(
        options.etcd_dialer,
        now=_now,
        random=random,
        clock=asyncio.get_running_loop().time,
        qps=options.workload_qps,
        burst=options.workload_burst,
        etcd_connections=room.etcd_connections,
        room=room.control_planes,
    )
    elector = _elector(options, elects, random, identity, metrics) if options.leader_elect else None
    parts = assemble(client, setup, options, identity=identity, metrics=metrics, elector=elector)
    collector = GarbageCollector()
    manager = Manager(
        reflectors=parts.caches.reflectors,
        controllers=(parts.controller,),
        runnables=[*parts.runnables, collector, *_servers(options, config, registry, parts)],
        elector=elector,
        after_sync=collector.settle,
    )
    try:
        await manager.run(stopping)
    finally:
        await elects.close()
        await client.close()


def _servers(options: Options, config: RestConfig, registry: CollectorRegistry, parts: Parts) -> list[Runnable]:
    servers: list[Runnable] = []
    if options.health_addr not in ("", "0"):
        live: dict[str, HealthCheck] = {"workers": parts.controller.problem, "caches": partial(_unheard, parts.caches, _DEAD)}
        ready = {"caches": partial(_unheard, parts.caches, _BEHIND)}
        servers.append(HealthServer(options.health_addr, live=live, ready=ready))
    if options.diagnostics_address not in ("", "0"):
        servers.append(_diagnostics(options, config, registry))
    return servers


def _diagnostics(options: Options, config: RestConfig, registry: CollectorRegistry) -> DiagnosticsServer:
    if options.insecure_diagnostics:
        return DiagnosticsServer(options.diagnostics_address, registry, None)
    return diagnostics.protected(options.diagnostics_address, registry, connect(config, qps=_REVIEW_QPS, burst=_REVIEW_BURST), _now())


def _unheard(caches: Caches, timeout: float) -> str:
    return "; ".join(problem for reflector in caches.reflectors if (problem := reflector.problem(timeout)))


def _elector(options: Options, client: Client, random: Random, identity: str, metrics: Metrics) -> LeaderElector:
    return LeaderElector(
        client,
        namespace=os.environ.get("POD_NAMESPACE") or options.namespace or DEFAULT_NAMESPACE,
        name=options.leader_elect_resource_name,
        identity=identity,
        now=_now,
        clock=boot_time,
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
