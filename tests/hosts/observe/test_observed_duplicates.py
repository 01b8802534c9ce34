"""Hosts that cannot be told apart, or are not where the manifest says: each is named, and stops only what it concerns."""

from __future__ import annotations

from pathlib import Path

import pytest

from quorate.core.hosts import decide as table
from quorate.core.hosts.forecast import forecast
from quorate.core.hosts.rules.guard import HOSTS_FIT, UNIQUE
from quorate.core.hosts.state import Cluster, Kind
from tests.hosts.observe.world import FolderHost, World, bare, join, put_configurations, put_node, stand, three
from tests.hosts.probe.machine import NOW, installed

HOST_KEY = "etc/ssh/ssh_host_ed25519_key.pub"


def steps(cluster: Cluster) -> list[str]:
    return [str(step.step) for step in forecast(cluster, NOW).steps]


def refusals(cluster: Cluster) -> dict[str, str]:
    """What stands in the way when all is done that can be."""
    return {check.name: check.evidence for check in forecast(cluster, NOW).refusals}


def has(machine: FolderHost, *addresses: str) -> None:
    """Its network interfaces have these addresses."""
    lines = [f"2: eth0    inet {address}/24 brd 10.0.0.255 scope global eth0" for address in ("127.0.0.1", *addresses)]
    machine.folder.program(
        "ip", "cat <<'END'\n" + "\n".join([*lines, "9: kube-ipvs0    inet 10.0.0.1/32 scope global kube-ipvs0"]) + "\nEND"
    )


def with_workers(folder: Path, *names: str) -> World:
    """One control plane that is well, and workers that are bare."""
    document = three().hosts[0]
    workers = [{"publicAddress": f"10.0.0.{number}", "hostname": name} for number, name in enumerate(names, 4)]
    control_plane = [{"publicAddress": document.public_address, "privateAddress": "10.0.0.1", "hostname": document.hostname}]
    world = World(three(controlPlane={"hosts": control_plane}, staticWorkers={"hosts": workers}), folder)
    join(world, "cp-1", founder=True)
    world.etcd_ring.add(1, "cp-1", "10.0.0.1")
    put_node(world, "cp-1", "10.0.0.1")
    put_configurations(world)
    for name in names:
        installed(world.machines[name].folder)
    return world


def copy(world: World, name: str, of: str, *what: str) -> None:
    for file in what:
        world.machines[name].folder.file(file, (world.machines[of].folder.root / file).read_bytes())


def keys(world: World, value: str = "") -> None:
    """SSH host keys, of its own for each or the same for all."""
    for name, machine in world.machines.items():
        machine.folder.file(HOST_KEY, f"ssh-ed25519 {value or name} root@{name}\n")


async def test_bare_copies_of_one_image_are_named_and_only_they_are_left_out(tmp_path: Path) -> None:
    world = with_workers(tmp_path, "w-1", "w-2", "w-3")
    keys(world)
    copy(world, "w-3", "w-2", "etc/machine-id", HOST_KEY)
    cluster = await world.cluster()
    assert cluster.problems == ()
    told = steps(cluster)
    assert any("w-1" in step for step in told)
    assert not any("w-2" in step or "w-3" in step for step in told)
    assert (
        "w-2, w-3 have the same machine-id and the same SSH host key: they are one machine, or copies of one" in refusals(cluster)[UNIQUE]
    )


async def test_a_bare_copy_of_a_host_that_has_joined_is_left_out_and_that_host_is_not(tmp_path: Path) -> None:
    world = stand(tmp_path)
    bare(world, "cp-3")
    del world.etcd_ring.members[2]
    del world.api_objects.objects["/api/v1/nodes/cp-3"]
    copy(world, "cp-3", "cp-2", "etc/machine-id")
    cluster = await world.cluster()
    assert (cluster.problems, cluster.host("cp-2").not_unique) == ((), ())
    assert steps(cluster) == []
    assert "cp-2, cp-3 have the same machine-id" in refusals(cluster)[UNIQUE]


@pytest.mark.parametrize("file", ["etc/machine-id", HOST_KEY, "var/lib/kubelet/pki/kubelet-client-current.pem"])
async def test_where_two_control_planes_that_have_joined_are_the_same_nothing_is_done(tmp_path: Path, file: str) -> None:
    world = stand(tmp_path)
    keys(world)
    copy(world, "cp-3", "cp-2", file)
    decision = table.decide(await world.cluster(), NOW)
    assert decision.step is None
    assert "cp-2, cp-3 have the same" in next(check.evidence for check in decision.refusals if check.name == HOSTS_FIT)


async def test_of_workers_that_have_joined_and_are_the_same_only_those_are_left_alone(tmp_path: Path) -> None:
    world = with_workers(tmp_path, "w-1", "w-2")
    for name in ("w-1", "w-2"):
        world.machines[name].folder.file(
            "etc/kubernetes/kubelet.conf", (world.machines["cp-1"].folder.root / "etc/kubernetes/kubelet.conf").read_bytes()
        )
    copy(world, "w-2", "w-1", "etc/machine-id")
    cluster = await world.cluster()
    assert cluster.problems == ()
    assert [host.kind for host in cluster.hosts] == [Kind.MEMBER, Kind.UNKNOWN, Kind.UNKNOWN]
    assert not any("w-1" in step or "w-2" in step for step in steps(cluster))


async def test_an_address_that_a_bare_host_does_not_have_is_named_and_it_does_not_join(tmp_path: Path) -> None:
    world = with_workers(tmp_path, "w-1", "w-2")
    has(world.machines["cp-1"], "10.0.0.1", "10.0.0.4")
    has(world.machines["w-1"], "10.0.0.44")
    has(world.machines["w-2"], "10.0.0.5", "fd00::5")
    cluster = await world.cluster()
    told = refusals(cluster)[UNIQUE]
    assert "the manifest says that w-1 is at 10.0.0.4, which is none of its addresses, and cp-1 has it: correct its privateAddress" in told
    assert not any("w-1" in step for step in steps(cluster))
    assert any("w-2" in step for step in steps(cluster))


async def test_an_address_that_two_hosts_have_is_named(tmp_path: Path) -> None:
    world = with_workers(tmp_path, "w-1", "w-2")
    has(world.machines["w-1"], "10.0.0.4")
    has(world.machines["w-2"], "10.0.0.5", "10.0.0.4")
    cluster = await world.cluster()
    assert "w-1 and w-2 have the same address 10.0.0.4" in refusals(cluster)[UNIQUE]
    assert not any("w-1" in step or "w-2" in step for step in steps(cluster))


async def test_addresses_of_services_are_nobodys(tmp_path: Path) -> None:
    world = stand(tmp_path)
    for number, machine in enumerate(world.machines.values(), 1):
        has(machine, f"10.0.0.{number}")
    cluster = await world.cluster()
    assert cluster.problems == ()
    assert table.is_converged(table.decide(cluster, NOW))


async def test_what_firmware_and_tools_do_not_tell_is_no_reason_for_doubt(tmp_path: Path) -> None:
    world = stand(tmp_path)
    for machine in world.machines.values():
        machine.folder.file("sys/class/dmi/id/product_uuid", "the one of all containers here\n")
    assert table.is_converged(table.decide(await world.cluster(), NOW))
