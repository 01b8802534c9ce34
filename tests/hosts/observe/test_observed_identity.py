"""Who a host is, by its own etcd and by its own disk; where the manifest says otherwise nothing is done, and both are named."""

from __future__ import annotations

import shutil
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from quorate.core.health import Absent, Health, Unknown
from quorate.core.hosts import decide as table
from quorate.core.hosts.forecast import forecast
from quorate.core.hosts.rules import leftovers
from quorate.core.hosts.rules.guard import HOSTS_FIT
from quorate.core.hosts.state import Cluster, Kind
from quorate.core.hosts.steps import RemoveMember, StartServices
from quorate.etcd.client import Member
from quorate.hosts.manifest import Manifest
from tests.hosts.manifests import SMALLEST, load
from tests.hosts.observe.world import NAMES, FakeMember, FolderHost, World, bare, stand, three
from tests.hosts.probe.machine import NOW, etcd_log, installed

LOG = "var/lib/etcd/member/wal/0.wal"


def saying(**addresses: str) -> Manifest:
    """A manifest that gives these hosts other private addresses; SSH finds them as before."""
    hosts = [
        {"hostname": name, "publicAddress": f"192.0.2.{number}", "privateAddress": addresses.get(name.replace("-", ""), f"10.0.0.{number}")}
        for number, name in enumerate(NAMES, 1)
    ]
    return three(controlPlane={"hosts": hosts})


def refusal(cluster: Cluster) -> str:
    """Why nothing at all is done: what is wrong with the hosts together."""
    decision = table.decide(cluster, NOW)
    assert decision.step is None
    assert forecast(cluster, NOW).steps == ()
    return "; ".join(check.evidence for check in decision.refusals if check.name == HOSTS_FIT)


async def test_wrong_private_addresses_of_healthy_voters_stop_everything_and_are_named(tmp_path: Path) -> None:
    world = stand(tmp_path)
    world.manifest = saying(cp2="10.0.0.22", cp3="10.0.0.33")
    cluster = await world.cluster()
    told = refusal(cluster)
    for host, number in (("cp-2", 2), ("cp-3", 3)):
        assert (
            f"{host} is etcd member {host} ({number}), which the ring has at 10.0.0.{number}, but the manifest says that {host} is at"
            in told
        )
    assert "10.0.0.22" in told
    assert "10.0.0.33" in told
    assert [(host.kind, host.member) for host in cluster.hosts] == [(Kind.MEMBER, 1), (Kind.MEMBER, 2), (Kind.MEMBER, 3)]
    assert (cluster.orphans, cluster.lost_nodes) == ((), ())
    world.manifest = saying()
    cluster = await world.cluster()
    assert table.is_converged(table.decide(cluster, NOW))


async def test_a_host_whose_etcd_does_not_run_is_known_by_its_log(tmp_path: Path) -> None:
    world = stand(tmp_path)
    world.manifest = saying(cp3="10.0.0.33")
    world.machines["cp-3"].member = None
    world.etcd_ring.members[2].answers = False
    cluster = await world.cluster()
    assert cluster.host("cp-3").member == 3
    assert "cp-3 is etcd member cp-3 (3), which the ring has at 10.0.0.3, but the manifest says that cp-3 is at 10.0.0.33" in refusal(
        cluster
    )


async def test_two_hosts_whose_addresses_are_exchanged_are_both_named(tmp_path: Path) -> None:
    world = stand(tmp_path)
    world.manifest = saying(cp2="10.0.0.3", cp3="10.0.0.2")
    cluster = await world.cluster()
    told = refusal(cluster)
    assert "the ring has at 10.0.0.2, which the manifest gives to cp-3, but the manifest says that cp-2 is at 10.0.0.3" in told
    assert "the ring has at 10.0.0.3, which the manifest gives to cp-2, but the manifest says that cp-3 is at 10.0.0.2" in told
    assert [host.member for host in cluster.hosts] == [1, 2, 3]


async def test_a_bare_host_with_the_address_of_somebody_who_votes_is_not_that_member(tmp_path: Path) -> None:
    world = stand(tmp_path)
    bare(world, "cp-3")
    world.etcd_ring.members[2].member = Member(3, "cp-9", ("https://10.0.0.3:2380",))
    told = refusal(await world.cluster())
    assert "the ring has member cp-9 (3) at 10.0.0.3, which the manifest gives to cp-3, where it answers, but no etcd runs on cp-3" in told


async def test_a_host_that_holds_another_members_data_than_the_one_at_its_address_is_named(tmp_path: Path) -> None:
    world = stand(tmp_path)
    machine = world.machines["cp-3"]
    machine.member, world.etcd_ring.members[2].answers = None, False
    machine.folder.file(LOG, etcd_log(0xDEAD))
    assert "but the etcd data of cp-3 are those of member dead, which is not in the ring" in refusal(await world.cluster())


async def test_two_hosts_with_the_same_etcd_data_are_named(tmp_path: Path) -> None:
    world = stand(tmp_path)
    world.machines["cp-3"].member = 2
    world.machines["cp-3"].folder.file(LOG, etcd_log(2))
    assert "cp-2 and cp-3 are the same etcd member cp-2 (2): one machine twice, or one a copy of the other" in refusal(
        await world.cluster()
    )


async def test_a_worker_of_the_manifest_that_is_a_voter_is_named(tmp_path: Path) -> None:
    document = three().hosts
    hosts = [{"hostname": host.hostname, "publicAddress": host.public_address, "privateAddress": host.private_address} for host in document]
    world = stand(tmp_path)
    world.manifest = load({**SMALLEST, "controlPlane": {"hosts": hosts[:2]}, "staticWorkers": {"hosts": hosts[2:]}})
    cluster = await world.cluster()
    assert "cp-3 is etcd member cp-3 (3), but the manifest has cp-3 as a static worker" in refusal(cluster)


async def test_an_etcd_that_runs_apart_from_the_ring_keeps_its_host_from_being_reset(tmp_path: Path) -> None:
    world = stand(tmp_path)
    del world.etcd_ring.members[2]
    world.etcd_ring.apart.append(FakeMember(Member(9, "cp-3", ("https://10.0.0.3:2380",)), leader=0))
    world.machines["cp-3"].member = 9
    cluster = await world.cluster()
    host = cluster.host("cp-3")
    assert (host.kind, host.member) == (Kind.BROKEN, Absent())
    assert host.member_health is not None
    assert "answers as member 9, which is not in the ring" in host.member_health.message
    assert leftovers.RUNS_NO_ETCD in {check.name for check in leftovers.may_be_reset(cluster, host) if not check.passed}


@pytest.mark.parametrize("restored", [False, True])
async def test_a_host_whose_member_left_or_was_of_a_ring_before_a_restore_joins_anew(tmp_path: Path, *, restored: bool) -> None:
    """The runbook of a restore moves the data of the ring before away."""
    world = stand(tmp_path)
    del world.etcd_ring.members[2]
    machine = world.machines["cp-3"]
    machine.member = None
    if restored:
        shutil.rmtree(machine.folder.root / "var/lib/etcd/member")
    cluster = await world.cluster()
    assert cluster.problems == ()
    assert [str(step.step) for step in forecast(cluster, NOW).steps] == [
        "delete Node cp-3",
        "reset cp-3",
        "take a snapshot of etcd",
        "join cp-3 as a control plane",
    ]


async def test_a_log_that_cannot_be_read_leaves_it_open_whose_the_data_are(tmp_path: Path) -> None:
    world = stand(tmp_path)
    del world.etcd_ring.members[2]
    machine = world.machines["cp-3"]
    machine.member = None
    machine.folder.file(LOG, b"garbage")
    cluster = await world.cluster()
    assert isinstance(cluster.host("cp-3").member, Unknown)
    assert not any("reset" in str(step.step) for step in forecast(cluster, NOW).steps)


async def test_a_host_that_was_replaced_by_a_bare_machine_of_its_name_joins(tmp_path: Path) -> None:
    world = stand(tmp_path)
    world.manifest = saying(cp3="10.0.0.33")
    bare(world, "cp-3")
    world.etcd_ring.members[2].answers = False
    for seconds in range(0, 20, 6):
        cluster = await world.cluster(NOW.replace(second=seconds))
    assert cluster.problems == ()
    assert cluster.host("cp-3").member == Absent()
    assert "remove etcd member 3 of cp-3" in {str(step.step) for step in forecast(cluster, NOW).steps}


async def test_a_member_that_has_lost_its_data_is_still_that_of_the_host_at_its_address(tmp_path: Path) -> None:
    world = stand(tmp_path)
    machine = world.machines["cp-3"]
    machine.member, world.etcd_ring.members[2].answers = None, False
    shutil.rmtree(machine.folder.root / "var/lib/etcd/member")
    host = (await world.cluster()).host("cp-3")
    assert (host.member, host.etcd_data_lost) == (3, True)


async def test_a_stopped_kubelet_is_not_started_where_its_etcd_would_begin_anew(tmp_path: Path) -> None:
    """The founder: with another address in the manifest the member is not known as its, and on its empty folder it would found a second cluster."""
    world = stand(tmp_path)
    machine = world.machines["cp-1"]
    world.manifest = saying(cp1="10.0.0.9")
    machine.member, world.etcd_ring.members[0].answers = None, False
    systemctl = machine.folder.programs / "systemctl"
    systemctl.write_text(systemctl.read_text().replace("ActiveState=active\nSubState=running", "ActiveState=inactive\nSubState=dead"))
    assert (await world.cluster()).host("cp-1").stopped == ("containerd.service", "kubelet.service")
    shutil.rmtree(machine.folder.root / "var/lib/etcd/member")
    cluster = await world.cluster()
    assert (cluster.host("cp-1").member, cluster.host("cp-1").stopped) == (Absent(), ())
    assert not isinstance(table.decide(cluster, NOW).step, StartServices)


async def test_a_well_member_stays_while_a_host_that_cannot_be_asked_may_be_it(tmp_path: Path) -> None:
    world = stand(tmp_path)
    world.manifest = saying(cp3="10.0.0.33")
    world.unreachable = {"cp-3"}
    cluster = await world.cluster()
    assert [orphan.member.health for orphan in cluster.orphans] == [Health.GOOD]
    assert isinstance(cluster.host("cp-3").member, Unknown)
    assert forecast(cluster, NOW).steps == ()


def manifest_of(control_planes: dict[str, str], workers: dict[str, str] | None = None) -> Manifest:
    """A manifest of hosts by name, with their private addresses; SSH finds each where it always was."""

    def hosts(addresses: dict[str, str]) -> list[dict[str, str]]:
        return [
            {"hostname": name, "publicAddress": f"192.0.2.{name[-1]}", "privateAddress": address} for name, address in addresses.items()
        ]

    document = {**SMALLEST, "controlPlane": {"hosts": hosts(control_planes)}}
    return load({**document, "staticWorkers": {"hosts": hosts(workers)}} if workers else document)


async def after_three_probes(tmp_path: Path, manifest: Manifest, *silent: str) -> tuple[World, Cluster]:
    """What is observed of three control planes, and bare hosts besides, when these have been off for three probes and the manifest says this."""
    world = stand(tmp_path)
    for host in manifest.hosts:
        if host.hostname not in world.machines:
            world.machines[host.hostname] = FolderHost(host.hostname, tmp_path / host.hostname)
            installed(world.machines[host.hostname].folder)
    for name in world.machines.keys() - {host.hostname for host in manifest.hosts}:
        del world.machines[name]
    world.manifest, world.unreachable = manifest, set(silent)
    for member in world.etcd_ring.members[1:2]:
        member.answers = False
    for seconds in range(0, 20, 6):
        cluster = await world.cluster(NOW.replace(second=seconds))
    return world, replace(cluster, snapshot_taken=True)


def removals(cluster: Cluster) -> list[str]:
    """The steps that take a member out of the ring, in what would be done."""
    return [str(step.step) for step in forecast(cluster, NOW.replace(second=20)).steps if isinstance(step.step, RemoveMember)]


@pytest.mark.parametrize(
    ("control_planes", "workers", "silent", "told"),
    [
        pytest.param(
            {"cp-1": "10.0.0.1", "cp-2": "10.0.0.22", "cp-3": "10.0.0.3"},
            {"worker-4": "10.0.0.2"},
            ("cp-2",),
            "the ring has member cp-2 (2) at 10.0.0.2, which the manifest gives to worker-4, but by its name it is that of cp-2",
            id="its-address-is-a-workers",
        ),
        pytest.param(
            {"cp-1": "10.0.0.1", "cp-3": "10.0.0.3"},
            {"worker-4": "10.0.0.2"},
            ("worker-4",),
            "the ring has member cp-2 (2) at 10.0.0.2, which the manifest gives to worker-4",
            id="its-host-may-be-the-worker-at-its-address",
        ),
        pytest.param(
            {"cp-1": "10.0.0.1", "cp-2": "10.0.0.22", "cp-3": "10.0.0.3", "cp-4": "10.0.0.2"},
            {},
            ("cp-2",),
            "the ring has member cp-2 (2) at 10.0.0.2, which the manifest gives to cp-4, but by its name it is that of cp-2",
            id="its-address-is-a-bare-hosts",
        ),
        pytest.param(
            {"cp-1": "10.0.0.1", "cp-5": "10.0.0.22", "cp-3": "10.0.0.3", "cp-4": "10.0.0.2"},
            {},
            ("cp-5",),
            "the ring has member cp-2 (2) at 10.0.0.2, which the manifest gives to cp-4, but cp-5 cannot be asked whether it is that member",
            id="its-address-is-a-bare-hosts-and-its-name-was-changed",
        ),
        pytest.param(
            {"cp-1": "10.0.0.1", "cp-2": "10.0.0.3", "cp-3": "10.0.0.33"},
            {},
            ("cp-2", "cp-3"),
            "the ring has member cp-3 (3) at 10.0.0.3, which the manifest gives to cp-2, but by its name it is that of cp-3",
            id="addresses-moved-on-by-one",
        ),
    ],
)
async def test_a_member_whose_name_and_address_are_two_hosts_stays_and_both_are_named(
    tmp_path: Path, control_planes: dict[str, str], workers: dict[str, str], silent: tuple[str, ...], told: str
) -> None:
    _, cluster = await after_three_probes(tmp_path, manifest_of(control_planes, workers), *silent)
    assert removals(cluster) == []
    assert told in refusal(cluster)


@pytest.mark.parametrize("name", ["cp-2", "cp-5"])
async def test_a_silent_voter_stays_while_a_host_that_cannot_be_asked_may_be_it(tmp_path: Path, name: str) -> None:
    manifest = manifest_of({"cp-1": "10.0.0.1", name: "10.0.0.22", "cp-3": "10.0.0.3"})
    world, cluster = await after_three_probes(tmp_path, manifest, name)
    assert removals(cluster) == []
    assert isinstance(cluster.host(name).member, Unknown)
    decision = table.decide(cluster, NOW.replace(second=20))
    assert any(f"cp-2 may be that of {name}" in check.evidence for check in decision.refusals)
    world.unreachable = set()
    bare(world, name)
    assert removals(replace(await world.cluster(NOW.replace(second=20)), snapshot_taken=True)) == ["remove etcd member 2 of cp-2"]


async def test_two_hosts_that_are_off_keep_their_members_when_the_manifest_exchanges_their_addresses(tmp_path: Path) -> None:
    manifest = manifest_of({"cp-1": "10.0.0.1", "cp-2": "10.0.0.3", "cp-3": "10.0.0.2"})
    _, cluster = await after_three_probes(tmp_path, manifest, "cp-2", "cp-3")
    assert removals(cluster) == []
    told = refusal(cluster)
    assert "the ring has member cp-2 (2) at 10.0.0.2, which the manifest gives to cp-3, but by its name it is that of cp-2" in told
    assert "the ring has member cp-3 (3) at 10.0.0.3, which the manifest gives to cp-2, but by its name it is that of cp-3" in told


@pytest.mark.parametrize("answers", [True, False])
async def test_a_voter_that_the_manifest_has_as_a_worker_stays_while_nobody_can_ask_it(tmp_path: Path, *, answers: bool) -> None:
    """cp-3 was moved under staticWorkers by mistake. While it can be reached both are named and nothing is done; SSH does not reach it now."""
    world = stand(tmp_path)
    hosts = [
        {"hostname": host.hostname, "publicAddress": host.public_address, "privateAddress": host.private_address} for host in three().hosts
    ]
    world.manifest = load({**SMALLEST, "controlPlane": {"hosts": hosts[:2]}, "staticWorkers": {"hosts": hosts[2:]}})
    assert table.decide(await world.cluster(), NOW).step is None
    world.unreachable = {"cp-3"}
    world.etcd_ring.members[2].answers = answers
    for probe in range(3):
        now = NOW + timedelta(seconds=6 * probe)
        cluster = replace(await world.cluster(now), snapshot_taken=True)
    assert not [each.step for each in forecast(cluster, now).steps if isinstance(each.step, RemoveMember)]
    assert "a static worker that cannot be asked whether it is that member" in refusal(cluster)
