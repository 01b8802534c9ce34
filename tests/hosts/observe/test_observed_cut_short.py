"""Who is taken for a host on which kubeadm was cut short, and who is not: a founder, a voter and a worker that have served for years, and lack something."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from quorate.core.checks import Outcome
from quorate.core.hosts.decide import decide
from quorate.core.hosts.forecast import forecast
from quorate.core.hosts.rules.found import DATA_MOUNTED, NO_RING, continue_the_initialization
from quorate.core.hosts.rules.guard import QUORUM
from quorate.core.hosts.rules.repair import WORKERS_WELL
from quorate.core.hosts.steps import Initialize, RemoveMember, Reset, StartServices
from quorate.hosts.probe.facts import INITIALIZING
from quorate.hosts.render.kubeadm_configuration import control_plane_endpoint
from tests.hosts.observe.world import NAMES, NODES, World, bare, join, join_worker, put_configurations, put_node, stand, three
from tests.hosts.probe.machine import NOW, Folder, kubeconfig, units

WORKERS = {"hosts": [{"publicAddress": "192.0.2.11", "privateAddress": "10.0.0.11", "hostname": "w-1"}]}


def inline(world: World, folder: Folder) -> None:
    """As on a founder that kubeadm before 1.17 made, or one whose kubelet does not rotate its certificate."""
    folder.file("etc/kubernetes/kubelet.conf", kubeconfig(node="cp-1", server=f"https://{control_plane_endpoint(world.manifest)}"))


def gone(_world: World, folder: Folder) -> None:
    """Somebody moved it away."""
    (folder.root / "etc/kubernetes/kubelet.conf").unlink()


HOW = pytest.mark.parametrize("how", [inline, gone])
How = Callable[[World, Folder], None]


def founder_alone(folder: Path, how: How) -> World:
    """Two of three hosts were installed anew; the founder is left."""
    world = stand(folder)
    founder = world.machines["cp-1"].folder
    how(world, founder)
    for name in NAMES[1:]:
        bare(world, name)
    world.api_objects.down = True
    founder.program("curl", r"printf 'no\n500'")
    return world


@HOW
async def test_a_founder_that_has_lost_its_quorum_is_not_initialized_again(tmp_path: Path, how: How) -> None:
    """Its member answers and knows no leader, as one alone in its ring never does for long: the ring has others."""
    world = founder_alone(tmp_path, how)
    for member in world.etcd_ring.members[1:]:
        member.answers = False
    world.etcd_ring.members[0].leader = 0
    cluster = await world.cluster()
    assert not [each.step for each in forecast(cluster, NOW).steps if isinstance(each.step, Initialize)]
    assert QUORUM in {check.name for check in decide(cluster, NOW).refusals}


@HOW
async def test_a_founder_whose_disk_is_not_mounted_yet_is_not_initialized_again(tmp_path: Path, how: How) -> None:
    """It was switched on 20 seconds ago, and its data are not there yet: `kubeadm init` would begin another cluster beside them."""
    world = founder_alone(tmp_path, how)
    world.etcd_ring.members.clear()
    world.machines["cp-1"].member = None
    shutil.rmtree(world.machines["cp-1"].folder.root / "var/lib/etcd")
    world.machines["cp-1"].folder.file("proc/uptime", "70.0 1.0\n")
    cluster = await world.cluster()
    assert cluster.host("cp-1").just_booted
    assert not [each.step for each in forecast(cluster, NOW).steps if isinstance(each.step, Initialize)]


async def test_the_only_host_is_not_initialized_again_because_its_api_server_is_ill(tmp_path: Path) -> None:
    """It is the whole cluster, with all data and a member that is well. Nobody began an initialization: it has no mark of one."""
    one = {"hosts": [{"hostname": "cp-1", "publicAddress": "192.0.2.1", "privateAddress": "10.0.0.1"}]}
    world = World(three(controlPlane=one), tmp_path)
    inline(world, join(world, "cp-1", founder=True).folder)
    world.etcd_ring.add(1, "cp-1", "10.0.0.1")
    put_node(world, "cp-1", "10.0.0.1")
    put_configurations(world)
    assert decide(await world.cluster(), NOW).step is None
    world.api_objects.down = True
    world.machines["cp-1"].folder.program("curl", r"printf 'no\n500'")
    assert not isinstance(decide(await world.cluster(), NOW).step, Initialize)


async def test_an_initialization_of_quorates_goes_on_and_waits_for_the_disk_with_what_it_has_begun(tmp_path: Path) -> None:
    world = founder_alone(tmp_path, inline)
    world.etcd_ring.members.clear()
    machine = world.machines["cp-1"]
    machine.member = None
    shutil.rmtree(machine.folder.root / "var/lib/etcd")
    machine.folder.file(INITIALIZING.lstrip("/"), "")
    machine.folder.program("curl", "exit 7")
    assert continue_the_initialization(await world.cluster(), NOW).step == Initialize("cp-1", resume=True)
    machine.folder.file("proc/uptime", "70.0 1.0\n")
    proposal = continue_the_initialization(await world.cluster(), NOW)
    assert proposal.step is None
    assert proposal.wake_at is not None
    assert [check.name for check in proposal.checks if not check.passed] == [DATA_MOUNTED]


async def test_an_initialization_does_not_go_on_beside_members_that_do_not_answer(tmp_path: Path) -> None:
    """Others joined by hand before it ended, and are gone: one alone in its ring leads it."""
    world = founder_alone(tmp_path, inline)
    for member in world.etcd_ring.members[1:]:
        member.answers = False
    world.etcd_ring.members[0].leader = 0
    world.machines["cp-1"].folder.file(INITIALIZING.lstrip("/"), "")
    proposal = continue_the_initialization(await world.cluster(), NOW)
    assert proposal.step is None
    (refused,) = [check for check in proposal.checks if not check.passed]
    assert refused.name == NO_RING
    assert "cp-1 may be one of several members" in refused.evidence


@pytest.mark.parametrize("host", ["cp-1", "cp-2"])
async def test_a_voter_whose_kubelet_has_a_certificate_is_not_taken_for_one_that_never_joined(tmp_path: Path, host: str) -> None:
    """Everything on it serves, and its kubelet runs with its certificate. Somebody deleted its Node and kubelet.conf, to make both anew; one has founded the
    ring, so that it never joined anything.
    """
    world = stand(tmp_path)
    (world.machines[host].folder.root / "etc/kubernetes/kubelet.conf").unlink()
    del world.api_objects.objects[f"{NODES}/{host}"]
    observation = await world.observe()
    steps = [each.step for each in forecast(replace(observation.cluster, snapshot_taken=True), NOW).steps]
    assert not [step for step in steps if isinstance(step, RemoveMember | Reset)]
    if host == "cp-2":
        (world.machines[host].folder.root / "var/lib/kubelet/pki/kubelet-client-current.pem").unlink()
        steps = [each.step for each in forecast(replace(await world.cluster(), snapshot_taken=True), NOW).steps]
        assert steps[0] == RemoveMember(2, "cp-2"), "its join was cut short"


async def test_a_worker_whose_kubelet_is_well_is_not_wiped_since_its_node_was_deleted(tmp_path: Path) -> None:
    """It makes its Node anew when it is restarted, as that of a control plane, for which this is said. Its Pods' volumes go with a reset."""
    world = stand(tmp_path, staticWorkers=WORKERS)
    join_worker(world, "w-1", "10.0.0.11")
    del world.api_objects.objects[f"{NODES}/w-1"]
    cluster = await world.cluster()
    assert forecast(cluster, NOW).steps == ()
    (refused,) = decide(cluster, NOW).refusals
    assert (refused.name, refused.outcome) == (WORKERS_WELL, Outcome.UNKNOWN), "its kubelet may be about to make it"
    assert "systemctl restart kubelet" in refused.remedy
    unit = units("ActiveState=inactive\nSubState=dead")
    world.machines["w-1"].folder.program("systemctl", f"cat <<'END'\n{unit}\nEND")
    assert decide(await world.cluster(), NOW).step == StartServices("w-1", ("kubelet.service",))
