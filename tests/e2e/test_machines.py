"""`quorate manager` on real kubeadm nodes: Cluster API's docker backend makes the machines, and `quorate manager` reaches their etcd through the API server."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from quorate import local
from quorate.kubernetes.resource import Resource
from tests.e2e import docker_backend, etcd
from tests.e2e.client import WritingClient
from tests.e2e.conftest import Measured
from tests.e2e.external_etcd import ExternalEtcd
from tests.e2e.fleet import TIMEOUT, Fleet, begun, voters
from tests.e2e.nodes.engine import Engine
from tests.e2e.nodes.programs import COREDNS, VERSIONS
from tests.integration.changes import fail_machine, until_replaced

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(1800)]

NAME = "machines"
QUIET_SECONDS = 20
"""Seconds after which the MachineHealthCheck gives up a Node that is not ready; Kubernetes itself takes 40 to 50 to notice."""
_KUBE_SYSTEM = "kube-system"
_DEPLOYMENTS: Resource[dict[str, Any]] = Resource("apps", "v1", "deployments", "Deployment", dict)
_DAEMON_SETS: Resource[dict[str, Any]] = Resource("apps", "v1", "daemonsets", "DaemonSet", dict)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def fleet(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Fleet]:
    """A local management cluster whose machines are containers, with `quorate manager` as its control-plane provider; no cluster yet."""
    folder = tmp_path_factory.mktemp(NAME)
    with docker_backend.network(Engine()) as machines:
        async with begun(NAME, machines, folder) as made:
            made.stage.start_manager("--etcd-dialer=port-forward", everywhere=True)
            yield made


async def test_three_machines_become_a_control_plane(fleet: Fleet, measured: Measured) -> None:
    stage, began = fleet.stage, time.monotonic()
    await fleet.create(health_check(fleet))
    measured(f"machines: create 3 in {time.monotonic() - began:.0f} s")
    assert voters(await fleet.ring()) == await stage.names("Machine")
    await stage.until_condition("EtcdClusterHealthy", "True")


async def test_a_machine_whose_kubelet_is_stopped_is_replaced(fleet: Fleet, measured: Measured) -> None:
    name = min(await fleet.stage.names("Machine"))
    fleet.run(name, "systemctl stop kubelet")
    await replaced(fleet, name, "kubelet stopped", measured)


async def test_a_machine_that_is_gone_is_replaced(fleet: Fleet, measured: Measured) -> None:
    name = min(await fleet.stage.names("Machine"))
    fleet.machines.engine.docker("kill", name)
    await replaced(fleet, name, "killed", measured)


async def test_scale_to_one_and_back_through_a_join_that_breaks_half_way(fleet: Fleet, measured: Measured) -> None:
    stage, began = fleet.stage, time.monotonic()
    await stage.scale(1)
    await stage.until_ready(1, timeout=TIMEOUT)
    assert voters(await fleet.ring()) == await stage.names("Machine")
    measured(f"machines: scale 3 to 1 in {time.monotonic() - began:.0f} s")
    before, began = await stage.names("Machine"), time.monotonic()
    await stage.scale(3)
    broken = await until_new_container(fleet, before)
    fleet.run(broken, "for chain in INPUT OUTPUT; do iptables -w -A $chain -p tcp --dport 2380 -j DROP; done")
    await until_learner(fleet)
    await fail_machine(stage, broken)
    await until_replaced(stage, {broken}, 3, timeout=TIMEOUT)
    assert voters(await fleet.ring()) == await stage.names("Machine")
    measured(f"machines: scale 1 to 3 with one join that breaks in {time.monotonic() - began:.0f} s")


async def test_the_next_minor_version_while_a_client_writes(fleet: Fleet, measured: Measured) -> None:
    stage, began = fleet.stage, time.monotonic()
    with WritingClient(await fleet.kubeconfig()) as client:
        await fleet.upgrade()
    measured(f"machines: upgrade of 3 in {time.monotonic() - began:.0f} s; {client.report}")
    assert client.report.lost == 0, client.report.failures
    assert client.report.vanished == 0
    assert voters(await fleet.ring()) == await stage.names("Machine")
    assert await fleet.images(_DAEMON_SETS, "kube-proxy") == [f"registry.k8s.io/kube-proxy:{VERSIONS[1]}"]
    assert await fleet.images(_DEPLOYMENTS, "coredns") == [f"registry.k8s.io/coredns/coredns:{COREDNS[VERSIONS[1]]}"]


async def test_an_alarm_of_etcd_is_told_and_nothing_is_added_beside_it(fleet: Fleet) -> None:
    stage, names = fleet.stage, await fleet.stage.names("Machine")
    name = min(names)
    alarm(fleet, name, "ACTIVATE")
    await stage.until_condition("EtcdClusterHealthy", "False", "NOSPACE", timeout=TIMEOUT)
    await stage.scale(5)
    await stage.until_condition("ScalingUp", "True", "NOSPACE")
    assert await stage.names("Machine") == names
    await stage.scale(3)
    alarm(fleet, name, "DEACTIVATE")
    await stage.until_condition("EtcdClusterHealthy", "True", timeout=TIMEOUT)
    await stage.until_ready(3)
    assert await stage.names("Machine") == names


async def test_everything_goes_with_the_cluster(fleet: Fleet, measured: Measured) -> None:
    began = time.monotonic()
    await fleet.end()
    measured(f"machines: delete in {time.monotonic() - began:.0f} s")


async def test_cas_of_elliptic_curves(fleet: Fleet, measured: Measured) -> None:
    other = await sibling(fleet, "ecdsa")
    began = time.monotonic()
    await other.stage.create(*docker_backend.objects(other.stage.cluster(1), encryptionAlgorithm="ECDSA-P256"))
    await other.stage.until_ready(1, timeout=TIMEOUT)
    measured(f"machines: create 1 with ECDSA in {time.monotonic() - began:.0f} s")
    (name,) = await other.stage.names("Machine")
    for path in ("ca.key", "etcd/ca.key", "apiserver.key", "etcd/server.key"):
        assert other.run(name, f"head -1 /etc/kubernetes/pki/{path}") == "-----BEGIN EC PRIVATE KEY-----\n"
    await other.end()


async def test_etcd_that_is_somebody_else_s(fleet: Fleet, measured: Measured) -> None:
    other = await sibling(fleet, "external")
    began = time.monotonic()
    with ExternalEtcd(other.folder, fleet.machines.gateway) as outside:
        for secret in outside.secrets(other.stage.namespace):
            await other.stage.create(secret)
        await other.stage.create(*docker_backend.objects(other.stage.cluster(3), etcd={"external": outside.configuration}))
        await other.stage.until_ready(3, timeout=TIMEOUT)
        measured(f"machines: create 3 with external etcd in {time.monotonic() - began:.0f} s")
        name = min(await other.stage.names("Machine"))
        assert "etcd.yaml" not in other.run(name, "ls /etc/kubernetes/manifests")
        await other.stage.create(health_check(other))
        await fail_machine(other.stage, name)
        await until_replaced(other.stage, {name}, 3, timeout=TIMEOUT)
        await other.end()


async def sibling(fleet: Fleet, suffix: str) -> Fleet:
    """Another cluster on the same ground."""
    return Fleet(await fleet.stage.sibling(suffix).open(), fleet.machines, fleet.folder)


async def replaced(fleet: Fleet, name: str, what: str, measured: Measured) -> None:
    """The MachineHealthCheck notices, one machine is replaced, and etcd has three voters again."""
    stage, began = fleet.stage, time.monotonic()
    others = await stage.names("Machine") - {name}
    await until_replaced(stage, {name}, 3, timeout=TIMEOUT)
    assert others < await stage.names("Machine"), "the others stayed"
    assert voters(await fleet.ring()) == await stage.names("Machine")
    measured(f"machines: one of 3 {what}, replaced in {time.monotonic() - began:.0f} s")


def alarm(fleet: Fleet, name: str, action: str) -> None:
    """Raise or clear the alarm that etcd raises for itself when its quota is used up."""
    member = next(int(found["ID"]) for found in etcd.members(fleet.machines, fleet.host(name)) if found["name"] == name)
    pki = "/etc/kubernetes/pki/etcd"
    credentials = f"--cacert {pki}/ca.crt --cert {pki}/server.crt --key {pki}/server.key"
    body = json.dumps({"action": action, "memberID": str(member), "alarm": "NOSPACE"})
    fleet.run(name, f"curl -sSf {credentials} https://127.0.0.1:2379/v3/maintenance/alarm -d '{body}'")


async def until_new_container(fleet: Fleet, before: set[str]) -> str:
    """The first machine that is not among those of `before`, once its container takes commands."""

    async def started() -> str:
        for name in await fleet.stage.names("Machine") - before:
            try:
                await asyncio.to_thread(fleet.run, name, "true")
            except local.LocalError:
                continue
            return name
        return ""

    return await fleet.stage.until("a new machine is started", started, timeout=TIMEOUT)


async def until_learner(fleet: Fleet) -> None:
    """Wait until etcd has a learner."""

    async def learning() -> bool:
        return any(member.get("isLearner") for member in await fleet.ring())

    await fleet.stage.until("the new member is a learner", learning, timeout=TIMEOUT)


def health_check(fleet: Fleet) -> dict[str, Any]:
    """The demo's MachineHealthCheck, less patient."""
    check = fleet.stage.cluster().health_check()
    for condition in check["spec"]["checks"]["unhealthyNodeConditions"]:
        condition["timeoutSeconds"] = QUIET_SECONDS
    return check
