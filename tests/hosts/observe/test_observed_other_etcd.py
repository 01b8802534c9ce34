"""Hosts that run an etcd which is not of this cluster, under Patroni or kubespray, or as kubeadm's guide to an external etcd has it: its data may be the only
copy, and goes only where its host is named.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from quorate.core.checks import Outcome
from quorate.core.hosts.decide import decide
from quorate.core.hosts.forecast import forecast
from quorate.core.hosts.rules.guard import OURS
from quorate.core.hosts.rules.leftovers import RUNS_NO_ETCD
from quorate.core.hosts.state import Cluster, Kind
from quorate.core.hosts.steps import Initialize, Reset
from tests.hosts.observe.world import NAMES, NODES, FolderHost, World, bare, join_worker, put_node, stand, three
from tests.hosts.probe.machine import NOW, etcd_log, installed, joined, manifest

WORKERS = {"hosts": [{"publicAddress": "192.0.2.11", "privateAddress": "10.0.0.11", "hostname": "w-1"}]}
STAT = "4242 (etcd) S 1 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 5000 174 3\n"


def has_an_etcd(machine: FolderHost) -> None:
    """It runs, listens, and is a member of another ring: its log says so."""
    folder = machine.folder
    folder.file("var/lib/etcd/member/snap/db", "what somebody stores")
    folder.file("var/lib/etcd/member/wal/0.wal", etcd_log(3, 0xABC))
    folder.file("proc/4242/comm", "etcd\n")
    folder.file("proc/4242/stat", STAT)
    folder.listen(2379, 2380)


def runs_it_as_a_static_pod(machine: FolderHost) -> None:
    """As https://kubernetes.io/docs/setup/production-environment/tools/kubeadm/setup-ha-etcd-with-kubeadm/ has it: no CA of a cluster is there."""
    flags = ("--data-dir=/var/lib/etcd", "--initial-cluster-state=new")
    machine.folder.file("etc/kubernetes/manifests/etcd.yaml", manifest("registry.k8s.io/etcd:3.6.5-0", *flags))


def destroyed(cluster: Cluster) -> list[str]:
    return [str(each.step) for each in forecast(cluster, NOW).steps if isinstance(each.step, Initialize | Reset)]


def two_and_another(folder: Path, **changes: object) -> World:
    """A cluster of two, and in the manifest a third host that is not of it."""
    world = stand(folder, **changes)
    del world.etcd_ring.members[2]
    del world.api_objects.objects[f"{NODES}/cp-3"]
    bare(world, "cp-3")
    return world


@pytest.mark.parametrize("static_pod", [False, True])
async def test_a_host_with_the_etcd_of_somebody_else_is_not_reset(tmp_path: Path, *, static_pod: bool) -> None:
    world = two_and_another(tmp_path)
    has_an_etcd(world.machines["cp-3"])
    if static_pod:
        runs_it_as_a_static_pod(world.machines["cp-3"])
    cluster = await world.cluster()
    assert destroyed(cluster) == []
    assert cluster.host("cp-3").kind is Kind.FOREIGN
    (refused,) = [check for check in decide(cluster, NOW).refusals if check.name == OURS]
    assert "data of etcd cluster abc in /var/lib/etcd, and no CA of a cluster" in refused.evidence


async def test_a_machine_with_the_etcd_of_somebody_else_is_not_reset_to_become_a_worker(tmp_path: Path) -> None:
    world = stand(tmp_path, staticWorkers=WORKERS)
    installed(world.machines["w-1"].folder)
    has_an_etcd(world.machines["w-1"])
    assert destroyed(await world.cluster()) == []


async def test_no_cluster_is_founded_upon_the_etcd_of_somebody_else(tmp_path: Path) -> None:
    """All others are bare: its static Pod looks as if an initialization had been cut short, and `kubeadm init` would write over its manifest."""
    world = World(three(), tmp_path)
    for name in NAMES:
        bare(world, name)
    has_an_etcd(world.machines["cp-3"])
    runs_it_as_a_static_pod(world.machines["cp-3"])
    world.api_objects.down = True
    assert destroyed(await world.cluster()) == []


async def test_a_node_of_the_hosts_name_makes_the_etcd_on_it_nobodys_to_wipe(tmp_path: Path) -> None:
    """The machine was given away, and nobody deleted its Node."""
    world = two_and_another(tmp_path)
    put_node(world, "cp-3", "10.0.0.3")
    has_an_etcd(world.machines["cp-3"])
    assert destroyed(await world.cluster()) == []


async def test_whose_an_etcd_is_cannot_be_told_while_the_ring_cannot_be_read(tmp_path: Path) -> None:
    world = two_and_another(tmp_path)
    has_an_etcd(world.machines["cp-3"])
    for member in world.etcd_ring.members:
        member.answers = False
    assert (await world.cluster()).host("cp-3").kind is Kind.UNKNOWN


async def test_the_data_of_a_member_that_left_the_ring_go_with_everything_else(tmp_path: Path) -> None:
    """A reset was cut short when the CAs were gone: by its log this was a member of the ring."""
    world = two_and_another(tmp_path)
    world.machines["cp-3"].folder.file("var/lib/etcd/member/snap/db", "data")
    world.machines["cp-3"].folder.file("var/lib/etcd/member/wal/0.wal", etcd_log(3))
    cluster = await world.cluster()
    assert cluster.host("cp-3").kind is Kind.HALF_JOINED
    assert "reset cp-3" in destroyed(cluster)


@pytest.mark.parametrize("change", ["its Node is gone", "and its kubelet.conf"])
async def test_a_worker_with_the_etcd_of_somebody_else_is_not_reset_to_join_anew(tmp_path: Path, change: str) -> None:
    """kubespray and Patroni run theirs on workers too."""
    world = stand(tmp_path, staticWorkers=WORKERS)
    machine = join_worker(world, "w-1", "10.0.0.11")
    has_an_etcd(machine)
    machine.folder.listen(2379, 2380, 10248)
    assert (await world.cluster()).host("w-1").kind is Kind.MEMBER
    del world.api_objects.objects[f"{NODES}/w-1"]
    if change != "its Node is gone":
        (machine.folder.root / "etc/kubernetes/kubelet.conf").unlink()
    cluster = await world.cluster()
    assert cluster.host("w-1").kind is Kind.BROKEN
    assert destroyed(cluster) == []


async def test_a_host_is_not_reset_on_which_an_etcd_of_another_ring_runs_that_could_not_be_asked(tmp_path: Path) -> None:
    """By what its data are it would be refused, too."""
    world = stand(tmp_path)
    del world.etcd_ring.members[2]
    machine = world.machines["cp-3"]
    machine.member = None
    machine.folder.file("var/lib/etcd/member/wal/0.wal", etcd_log(3, 0xABC))
    machine.folder.file("proc/4242/comm", "etcd\n")
    machine.folder.file("proc/4242/stat", STAT)
    cluster = await world.cluster()
    assert destroyed(cluster) == []
    refused = [check for check in decide(cluster, NOW).refusals if check.name == RUNS_NO_ETCD]
    assert [check.outcome for check in refused] == [Outcome.UNKNOWN]


async def test_a_host_that_serves_another_cluster_is_not_reset_for_a_node_that_it_left_behind(tmp_path: Path) -> None:
    """Its member has left this ring, nobody deleted its Node, and it has been a control plane of another cluster since."""
    world = two_and_another(tmp_path)
    put_node(world, "cp-3", "10.0.0.3")
    joined(world.machines["cp-3"].folder, "elsewhere", node="cp-3", member=33, cluster=0xABC)
    assert destroyed(await world.cluster()) == []
