"""What stands for workload clusters when many are measured: it is reached by the same clients, over the same protocols, as a real one."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from random import Random

import pytest
import pytest_asyncio

from quorate.clusterapi.connect.workloads import EtcdDialer, network_setup
from quorate.core.health import Unknown
from quorate.etcd.grpc_client import GrpcClient
from quorate.etcd.tls import Credentials, client_context
from quorate.kubernetes import kubeconfig
from quorate.kubernetes.client import Client, connect
from quorate.kubernetes.errors import ConnectionFailed, Timeout
from quorate.kubernetes.resource import NODES
from quorate.local import ports
from quorate.pki import KeyAlgorithm, admin_kubeconfig, issue_etcd_client
from quorate.pki.keys import generate_key
from quorate.workload import connection
from quorate.workload.access import port_forward_dialer
from quorate.workload.connection import Phase
from quorate.workload.connection import Workload as Connection
from quorate.workload.nodes import CONTROL_PLANE
from tests.scale.workloads import Workload, Workloads
from tests.workload.given_kubeconfig import GivenKubeconfig

ALGORITHM = KeyAlgorithm.ECDSA_P256


@pytest_asyncio.fixture
async def workloads() -> AsyncIterator[Workloads]:
    (port,) = ports.choose(1, start=os.getpid())
    served = Workloads(["plane-1", "plane-2"], port)
    await served.start()
    yield served
    await served.close()


def kubeconfig_of(served: Workloads, workload: Workload) -> bytes:
    server = f"https://{workload.address}:{served.port}"
    return admin_kubeconfig(workload.name, server, workload.ca, ALGORITHM, now=datetime.now(UTC))


@asynccontextmanager
async def client_of(served: Workloads, workload: Workload, *, timeout: float = 10.0) -> AsyncIterator[Client]:
    client = connect(kubeconfig.parse(kubeconfig_of(served, workload)), timeout=timeout)
    yield client
    await client.close()


def credentials_of(workload: Workload) -> Credentials:
    ca = workload.etcd_ca
    pair = issue_etcd_client(ca, generate_key(ALGORITHM), now=datetime.now(UTC))
    return Credentials(ca.certificate, pair.certificate, pair.key)


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(40.0):
        while not is_so():  # noqa: ASYNC110 (the simulation tells nobody)
            await asyncio.sleep(0.05)


async def test_a_cluster_is_founded_watched_and_its_etcd_asked_through_port_forward(workloads: Workloads) -> None:
    workload = workloads.by_name["plane-2"]
    async with client_of(workloads, workload) as client:
        host = workload.boot("cp-1", "v1.34.4", init=True)
        await until(lambda: bool(workload.cluster.ring.leader) and workload.cluster.writable)
        async with aclosing(client.watch(NODES, resource_version="1", label_selector=CONTROL_PLANE)) as events, asyncio.timeout(40.0):
            first = await anext(events)
        assert first.object.metadata.name == "cp-1"
        etcd = GrpcClient("cp-1", port_forward_dialer(client), client_context(credentials_of(workload)))
        listed, status = await etcd.members(), await etcd.status()
        assert [(member.id, member.name) for member in listed.members] == [(host.member, "cp-1")]
        assert (status.member_id, status.leader) == (host.member, host.member)
        assert workload.listed_at
        await etcd.close()


async def test_one_refuses_and_one_is_silent_while_the_other_answers(workloads: Workloads) -> None:
    refusing, answering = workloads.by_name.values()
    async with client_of(workloads, refusing, timeout=1.0) as client, client_of(workloads, answering) as other:
        assert await client.get_raw("/readyz") == b"ok"
        await workloads.refuse(refusing)
        with pytest.raises(ConnectionFailed):
            await client.get_raw("/readyz")
        await workloads.drop(refusing)
        with pytest.raises(Timeout):
            await client.get_raw("/readyz")
        assert await other.get_raw("/readyz") == b"ok"
        await workloads.listen(refusing)
        assert await client.get_raw("/readyz") == b"ok"


async def test_a_connection_whose_packets_are_dropped_is_lost_and_comes_back(workloads: Workloads, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each watch ends for its silence, and whoever dials anew hears nothing either: no dial that fails, however long it takes, is a word of the server."""
    for name, seconds in {"PROBE_AFTER": 0.5, "PROBE_AGAIN": 0.5, "PROBE_TIMEOUT": 0.3, "LOST_AFTER": 4.0}.items():
        monkeypatch.setattr(connection, name, seconds)
    monkeypatch.setattr(connection, "LOST_AFTER_FAILURES", 1000)
    served = workloads.by_name["plane-1"]
    served.boot("cp-1", "v1.34.4", init=True)
    await until(lambda: bool(served.cluster.ring.leader) and served.cluster.writable)
    loop, changed = asyncio.get_running_loop(), asyncio.Event()
    setup = network_setup(EtcdDialer.PORT_FORWARD, now=lambda: datetime.now(UTC), random=Random(1), clock=loop.time)
    impatient = replace(setup, connect=lambda config, share: connect(config, timeout=1.0, share=share), inactivity=0.5)
    kept = Connection("default/plane-1", GivenKubeconfig(kubeconfig_of(workloads, served)), impatient, changed.set)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(kept.run())
        await until(lambda: kept.connectivity.phase is Phase.CONNECTED)
        await workloads.drop(served)
        await until(lambda: kept.connectivity.phase is Phase.LOST)
        assert isinstance(kept.nodes(), Unknown)
        await workloads.listen(served)
        await until(lambda: kept.connectivity.phase is Phase.CONNECTED)
        running.cancel()
