"""What `quorate reset` would free of hosts that are not what the manifest takes them for: nothing, and it says why."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from quorate.cli.hosts.reset import as_text
from quorate.core.health import Absent
from quorate.core.hosts.rules.guard import HOSTS_FIT
from quorate.core.hosts.state import Cluster, Kind
from quorate.core.hosts.steps import DeleteNode, RemoveMember, Reset, TakeSnapshot
from quorate.etcd.client import Member
from quorate.hosts.run.resetting import OURS, SAVED, Request, apart, asks_no_ring, reset_steps
from tests.hosts.observe.test_observed_identity import saying
from tests.hosts.observe.world import NODES, FakeMember, World, bare, join_worker, put_configurations, stand
from tests.hosts.probe.machine import joined

WORKERS = {"hosts": [{"publicAddress": f"192.0.2.1{n}", "privateAddress": f"10.0.0.1{n}", "hostname": f"w-{n}"} for n in (1, 2)]}
ALL = ("cp-1", "cp-2", "cp-3")


def exchange(world: World, one: str, other: str) -> None:
    """SSH finds each where the manifest has the other."""
    world.machines[one], world.machines[other] = world.machines[other], world.machines[one]


def kept(cluster: Cluster, request: Request, name: str = HOSTS_FIT) -> str:
    """Why no host is reset."""
    found = reset_steps(cluster, request)
    assert [each.step for each in found] == [None] * len(found)
    checks = [check for each in found for check in each.checks]
    assert {check.name for check in checks} == {name}
    assert all(check.evidence in as_text(cluster, request) for check in checks)
    return "; ".join(check.evidence for check in checks)


async def test_a_cluster_of_another_name_is_not_ended_by_a_manifest_that_calls_it_otherwise(tmp_path: Path) -> None:
    world = stand(tmp_path)
    put_configurations(world, lambda document: document.update(clusterName="prod"))
    cluster = await world.cluster()
    for request in (Request(ALL, everything=True), Request(ALL, everything=True, save=False), Request(("cp-2",))):
        assert "the cluster's name is prod" in kept(cluster, request)


async def test_the_member_of_another_host_is_not_removed_where_two_hostnames_are_exchanged(tmp_path: Path) -> None:
    world = stand(tmp_path)
    world.manifest = saying(cp1="10.0.0.2", cp2="10.0.0.1")
    exchange(world, "cp-1", "cp-2")
    assert "cp-1 is Node cp-2" in kept(await world.cluster(), Request(("cp-1",)))


async def test_no_machine_is_wiped_while_the_node_of_another_is_drained(tmp_path: Path) -> None:
    world = stand(tmp_path, staticWorkers=WORKERS)
    for name, address in (("w-1", "10.0.0.11"), ("w-2", "10.0.0.12")):
        join_worker(world, name, address)
    exchange(world, "w-1", "w-2")
    assert "w-1 is Node w-2" in kept(await world.cluster(), Request(("w-1",)))


async def test_of_one_host_each_of_two_clusters_neither_is_ended_with_the_other(tmp_path: Path) -> None:
    world = stand(tmp_path)
    bare(world, "cp-3")
    joined(world.machines["cp-2"].folder, "elsewhere")
    cluster = await world.cluster()
    assert [host.kind for host in cluster.hosts[:2]] == [Kind.UNKNOWN, Kind.UNKNOWN]
    assert "the hosts belong to different clusters" in kept(cluster, Request(ALL, everything=True, save=False), OURS)


async def test_that_a_worker_may_be_another_machine_is_said_before_anybody_agrees(tmp_path: Path) -> None:
    world = stand(tmp_path, staticWorkers=WORKERS)
    for name, address in (("w-1", "10.0.0.11"), ("w-2", "10.0.0.12")):
        join_worker(world, name, address).folder.file("etc/machine-id", "one-machine\n")
    cluster = await world.cluster()
    assert cluster.problems == ()
    assert "w-1, w-2 have the same machine-id" in as_text(cluster, Request(("w-2",)))


async def test_a_host_that_counts_as_anothers_only_since_it_was_shown_is_not_freed_without_asking_its_ring(tmp_path: Path) -> None:
    """Two hosts of another cluster are the majority while two of ours cannot be reached."""
    hosts = [{"publicAddress": f"192.0.2.{n}", "privateAddress": f"10.0.0.{n}", "hostname": f"cp-{n}"} for n in range(1, 6)]
    world = stand(tmp_path, controlPlane={"hosts": hosts})
    others = [Member(number, f"cp-{number}", (f"https://10.0.0.{number}:2380",)) for number in (4, 5)]
    for member in others:
        machine = world.machines[member.name]
        joined(machine.folder, "elsewhere", node=member.name, member=member.id, cluster=99)
        machine.listen()
        machine.member = member.id
        world.etcd_ring.apart.append(FakeMember(member, leader=4, cluster_id=99, lists=others))
    shown = await world.cluster()
    request = Request(("cp-3",), apart=apart(shown))
    assert [each.step for each in reset_steps(shown, request)] == [
        TakeSnapshot(),
        RemoveMember(3, "cp-3"),
        DeleteNode("cp-3"),
        Reset("cp-3"),
    ]
    world.unreachable = {"cp-1", "cp-2"}
    del world.api_objects.objects[f"{NODES}/cp-3"]  # the API that answers is theirs
    now = await world.cluster()
    assert now.host("cp-3").kind is Kind.FOREIGN
    assert "cp-3 belongs to another cluster, and did not when it was shown" in kept(now, request, OURS)
    assert not asks_no_ring(now, request, "cp-3")
    assert reset_steps(now, replace(request, apart=apart(now)))[-1].step == Reset("cp-3"), "whoever is shown it now may agree"


async def test_a_host_is_not_freed_without_asking_a_ring_that_was_there_when_it_was_shown(tmp_path: Path) -> None:
    world = stand(tmp_path)
    request = Request(("cp-3",), apart=apart(await world.cluster()))
    for name in ALL:
        bare(world, name)
    world.api_objects.down = True
    now = await world.cluster()
    assert isinstance(now.ring, Absent)
    assert not asks_no_ring(now, request, "cp-3")
    assert asks_no_ring(now, replace(request, apart=apart(now)), "cp-3")


async def test_a_cluster_does_not_end_with_the_data_of_one_ring_saved_where_its_hosts_run_two(tmp_path: Path) -> None:
    """cp-3 was restored into a ring of its own, or the other two are the ones that nobody uses any more: one snapshot would be of whoever is asked first."""
    world = stand(tmp_path)
    own = Member(33, "cp-3", ("https://10.0.0.3:2380",))
    del world.etcd_ring.members[2]
    world.etcd_ring.apart.append(FakeMember(own, leader=33, cluster_id=99, lists=[own]))
    world.machines["cp-3"].member = 33
    cluster = await world.cluster()
    assert "in cluster 63" in kept(cluster, Request(ALL, everything=True, apart=apart(cluster)), SAVED)
    unsaved = reset_steps(cluster, Request(ALL, everything=True, apart=apart(cluster), save=False))
    assert {each.step for each in unsaved} == {Reset(name) for name in ALL}
