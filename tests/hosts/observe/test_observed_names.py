"""What hosts are called, by the real ways in: one that has joined is the Node of its kubelet's certificate, whatever a name service answers today."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from quorate.core.hosts.decide import decide
from quorate.core.hosts.forecast import forecast
from quorate.core.hosts.rules.departures import AS_MANY_AS_SAID
from quorate.core.hosts.rules.guard import HOSTS_FIT
from quorate.core.hosts.rules.leftovers import NODE_GOES
from quorate.core.hosts.state import Cluster, RunOptions
from quorate.core.hosts.steps import DeleteNode, UpdateNodes
from quorate.hosts.connect.access import Access
from quorate.hosts.connect.ssh.host import Host
from quorate.hosts.connect.ssh.hosts import Unreachable
from quorate.hosts.connect.ssh.target import Target
from quorate.hosts.manifest import Manifest
from quorate.hosts.observe import Memory, observe
from quorate.hosts.render.feature_files import Contents
from quorate.hosts.render.marks import STATIC_WORKER
from quorate.kubernetes.client import Client
from tests.hosts.manifests import SMALLEST, load
from tests.hosts.observe.world import NAMES, NODES, FakeClient, World, bare, put_node, stand, three
from tests.hosts.probe.machine import NOW


class Connections:
    """To the machines of a world, by their order in the manifest."""

    def __init__(self, world: World) -> None:
        self.world = world

    async def connect(self, targets: Iterable[Target]) -> Mapping[str, Host | Unreachable]:
        states = await self.world.connect()
        return {each.name: states[name] for each, name in zip(targets, NAMES, strict=True)}

    async def aclose(self) -> None:
        """Nothing is kept open."""


class Ways(Access):
    """The real ways in, but to a ring and an API that answer as told."""

    def __init__(self, world: World, manifest: Manifest) -> None:
        super().__init__(manifest, Connections(world), {})
        self.world = world

    async def api(self) -> Client:
        return await self.world.api()

    async def etcd(self, through: str | None = None) -> Any:
        assert through is not None
        return FakeClient(self.world.etcd_ring, through, self.world.etcd_ring.at(self.hosts[through].private_address))

    async def etcd_at(self, address: str, through: str) -> Any:
        return await self.world.etcd_at(address, through)


def called(*names: str) -> Manifest:
    """A manifest that calls the hosts so; an empty name leaves it to the host."""
    hosts = SMALLEST["controlPlane"]["hosts"]
    return load(
        {
            **SMALLEST,
            "controlPlane": {"hosts": [{**host, **({"hostname": name} if name else {})} for host, name in zip(hosts, names, strict=True)]},
        }
    )


async def seen(world: World, *names: str) -> Cluster:
    manifest = called(*names)
    async with Ways(world, manifest) as access:
        return (await observe(access, manifest, Memory(), Contents(), lambda: NOW)).cluster


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Three hosts that are well and call themselves as they joined."""
    made = stand(tmp_path)
    for name, machine in made.machines.items():
        machine.folder.program("hostname", f"echo {name}")
        machine.folder.program("uname", f"case $1 in -r) echo 6.1.0 ;; -m) echo x86_64 ;; -n) echo {name} ;; esac")
    return made


def refusals(cluster: Cluster) -> dict[str, str]:
    decision = decide(cluster, NOW)
    assert decision.step is None, decision.step
    return {check.name: f"{check.evidence} {check.remedy}" for check in decision.refusals}


async def test_hosts_without_a_name_in_the_manifest_are_the_nodes_that_they_joined_as(world: World) -> None:
    cluster = await seen(world, "", "", "")
    assert [host.name for host in cluster.hosts] == list(NAMES)
    assert (cluster.problems, cluster.lost_nodes) == ((), ())
    assert decide(cluster, NOW).refusals == ()


@pytest.mark.parametrize("answer", ["echo elsewhere", "echo localhost", "exit 1"])
async def test_a_name_service_that_fails_drains_and_deletes_nobody_and_both_names_are_told(world: World, answer: str) -> None:
    world.machines["cp-2"].folder.program("hostname", answer)
    world.machines["cp-2"].folder.program("uname", "case $1 in -r) echo 6.1.0 ;; -m) echo x86_64 ;; -n) echo elsewhere ;; esac")
    cluster = await seen(world, "", "", "")
    assert ([host.name for host in cluster.hosts], cluster.lost_nodes) == (list(NAMES), ())
    assert (
        "192.0.2.2 is Node cp-2 by its kubelet's certificate, and calls itself elsewhere: give it `hostname: cp-2`"
        in refusals(cluster)[HOSTS_FIT]
    )
    assert (await seen(world, "", "cp-2", "")).problems == (), "the manifest says so"


async def test_names_in_the_manifest_that_are_those_of_other_hosts_stop_everything(world: World) -> None:
    cluster = await seen(world, "cp-1", "cp-3", "cp-2")
    told = refusals(cluster)[HOSTS_FIT]
    assert "cp-3 is Node cp-2 by its kubelet's certificate" in "; ".join(cluster.problems)
    assert "is Node" in told


async def test_the_node_of_a_host_that_nobody_can_ask_for_its_name_is_not_called_lost(world: World) -> None:
    world.unreachable = {"cp-2"}
    cluster = await seen(world, "", "", "")
    assert [host.name for host in cluster.hosts] == ["cp-1", "192.0.2.2", "cp-3"]
    assert "Node cp-2 may be that of 192.0.2.2" in refusals(cluster)[NODE_GOES]


async def test_the_node_at_the_address_of_a_host_that_nobody_can_ask_stays_whatever_its_name(world: World) -> None:
    host = world.manifest.hosts[2]
    del world.api_objects.objects[f"{NODES}/cp-3"]
    put_node(world, "node-3", host.private_address)
    world.unreachable = {"cp-3"}
    assert "Node node-3 may be that of cp-3" in refusals(await world.cluster())[NODE_GOES]
    put_node(world, "node-3", "10.0.0.33")
    step = decide(await world.cluster(), NOW).step
    assert step == DeleteNode("node-3"), "its address is that of no host"


async def test_a_certificate_that_cannot_be_read_leaves_a_host_without_a_name(world: World) -> None:
    world.machines["cp-2"].folder.file("var/lib/kubelet/pki/kubelet-client-current.pem", "nothing\n")
    cluster = await seen(world, "", "", "")
    assert "it is not known which Node 192.0.2.2 is, though it has joined a cluster" in refusals(cluster)[HOSTS_FIT]


async def test_a_host_that_has_joined_nothing_is_what_it_calls_itself(world: World) -> None:
    for path in ("etc/kubernetes/kubelet.conf",):
        (world.machines["cp-3"].folder.root / path).unlink()
    world.machines["cp-3"].folder.program("hostname", "echo cp-9")
    put_node(world, "cp-3", "10.0.0.3")
    assert [host.name for host in (await seen(world, "", "", "")).hosts] == ["cp-1", "cp-2", "cp-9"]


async def test_nodes_of_hosts_that_a_manifest_has_lost_stay_until_their_number_is_said(world: World) -> None:
    for number in (8, 9):
        put_node(world, f"worker-{number}", f"10.0.0.{number}", labels={}, annotations={STATIC_WORKER: "true"})
    cluster = await seen(world, *NAMES)
    assert cluster.lost_nodes == ("worker-8", "worker-9")
    assert "--remove-hosts 2" in refusals(cluster)[AS_MANY_AS_SAID]
    assert decide(replace(cluster, options=RunOptions(remove_hosts=2)), NOW).step == DeleteNode("worker-8", drain=True)


@pytest.mark.parametrize(
    "marks",
    [
        {"ownerReferences": [{"apiVersion": "cluster.k8s.io/v1alpha1", "kind": "Machine", "name": "pool-1", "uid": "1"}]},
        {"annotations": {"machine.k8s.io/machine": "pool-1"}},
        {"annotations": {"cluster.x-k8s.io/machine": "pool-1"}},
        {"labels": {"machine-controller/owned-by": "1"}},
        {},
    ],
)
@pytest.mark.parametrize("ready", ["False", "Unknown"])
async def test_the_node_of_another_machine_stays_though_it_is_not_ready_for_a_moment(
    tmp_path: Path, marks: dict[str, Any], ready: str
) -> None:
    world = stand(tmp_path, staticWorkers={"hosts": [{"publicAddress": "203.0.113.9", "privateAddress": "10.0.0.9", "hostname": "pool-1"}]})
    bare(world, "pool-1")
    put_node(world, "pool-1", "10.0.0.77", control_plane=False, **marks)
    node = world.api_objects.objects[f"{NODES}/pool-1"]
    node["status"]["conditions"][0]["status"] = ready
    node["spec"] = {} if marks else {"providerID": "aws:///i-0abc"}
    cluster = replace(await world.cluster(), snapshot_taken=True)
    plan = forecast(cluster, NOW)
    assert not any(isinstance(each.step, DeleteNode) for each in plan.steps)
    assert any("Node pool-1 at another address is that of" in check.evidence for check in plan.refusals if check.name == NODE_GOES)
    node["metadata"] = {"name": "pool-1"}
    node["spec"] = {}
    assert DeleteNode("pool-1") in [each.step for each in forecast(await world.cluster(), NOW).steps], "a predecessor's, which is gone"


async def test_a_ready_node_that_quorate_did_not_join_stays_when_a_bare_host_has_its_name(tmp_path: Path) -> None:
    hosts = [{**host, "hostname": name} for name, host in zip(NAMES, SMALLEST["controlPlane"]["hosts"], strict=True)]
    workers = [{"publicAddress": "203.0.113.9", "privateAddress": "10.0.0.9", "hostname": "pool-1"}]
    world = stand(tmp_path, controlPlane={"hosts": hosts}, staticWorkers={"hosts": workers})
    bare(world, "pool-1")
    put_node(world, "pool-1", "10.0.0.77", labels={})
    cluster = replace(await world.cluster(), snapshot_taken=True)
    assert cluster.lost_nodes == ("pool-1",)
    cluster = replace(cluster, hosts=tuple(replace(host, lacks=()) for host in cluster.hosts))  # prepared
    assert decide(cluster, NOW).step is None, "nor does the host join beside it"
    refused = next(check for check in decide(cluster, NOW).refusals if check.name == NODE_GOES)
    assert "host pool-1" in refused.evidence
    assert "Node pool-1 at another address is ready" in refused.evidence
    assert "delete Node pool-1 yourself" in refused.remedy
    put_node(world, "pool-1", "10.0.0.77", labels={}, annotations={STATIC_WORKER: "true"})
    cluster = replace(cluster, other_nodes=(await world.cluster()).other_nodes)
    assert decide(cluster, NOW).step == DeleteNode("pool-1", drain=True), "it is that of the host's predecessor"


async def test_the_node_of_another_machine_is_not_made_a_control_plane(tmp_path: Path) -> None:
    """Nothing is on cp-3, and its Node is ready: "another machine is Node cp-3: find it", says the plan, and gives it the label of a control plane."""
    world = stand(tmp_path)
    del world.etcd_ring.members[2]
    bare(world, "cp-3")
    put_node(world, "cp-3", "10.0.0.3", control_plane=False)
    step = decide(await world.cluster(), NOW).step
    assert not isinstance(step, UpdateNodes)


async def test_the_node_of_a_machine_controllers_machine_is_not_deleted_for_a_label(tmp_path: Path) -> None:
    """A worker of machine-controller's, ready and with Pods, has the label that makes Pods of control planes run on it too. It has no member and never had."""
    world = stand(tmp_path)
    put_node(world, "md-1", "10.0.0.77", annotations={"cluster.x-k8s.io/machine": "md-1"})
    deleted = [each.step for each in forecast(await world.cluster(), NOW).steps if isinstance(each.step, DeleteNode)]
    assert deleted == [], "and without a drain"
    del world.etcd_ring.members[2]
    world.manifest = three(
        controlPlane={
            "hosts": [{"hostname": n, "publicAddress": f"192.0.2.{n[-1]}", "privateAddress": f"10.0.0.{n[-1]}"} for n in NAMES[:2]]
        }
    )
    world.machines.pop("cp-3")
    steps = [each.step for each in forecast(await world.cluster(), NOW).steps]
    assert DeleteNode("cp-3") in steps, "who leaves beside it is one, and may"
