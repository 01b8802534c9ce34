"""What is not wiped without anybody's word: data on hosts outside the ring, where as many have them as serve in it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from quorate.core.hosts.decide import decide
from quorate.core.hosts.forecast import forecast
from quorate.core.hosts.rules.found import NO_TRACES
from quorate.core.hosts.rules.leftovers import NO_MORE_COPIES, NO_OTHER_DATA
from quorate.core.hosts.steps import Reset
from tests.hosts.observe.world import CONFIG_MAPS, NAMES, NODES, bare, stand, write_static_pods
from tests.hosts.probe.machine import NOW, etcd_log, kubeconfig


async def test_the_data_of_two_hosts_stay_beside_a_founder_whose_etcd_began_anew(tmp_path: Path) -> None:
    """The founder's disk was lost, and its kubelet started etcd on the empty folder: by its manifest it founds a ring, whose id and member's id are those of
    before, since etcd makes them of names and addresses. On the others, which had the quorum, etcd does not run for another reason. What serves is empty.
    """
    world = stand(tmp_path)
    shutil.rmtree(world.machines["cp-1"].folder.root / "var/lib/etcd/member")
    world.machines["cp-1"].folder.file("var/lib/etcd/member/snap/db", "a few minutes old")
    world.machines["cp-1"].folder.file("var/lib/etcd/member/wal/0.wal", etcd_log(1))
    del world.etcd_ring.members[1:]
    for name in NAMES[1:]:
        world.machines[name].member = None
        world.machines[name].folder.program("curl", r"printf 'no\n500'")
        del world.api_objects.objects[f"{NODES}/{name}"]
    for name in ("kubeadm-config", "kubelet-config", "kube-proxy"):
        del world.api_objects.objects[f"{CONFIG_MAPS}/{name}"]
    cluster = await world.cluster()
    assert not [str(each.step) for each in forecast(cluster, NOW).steps if isinstance(each.step, Reset)]
    refused = [check for check in decide(cluster, NOW).refusals if check.name == NO_MORE_COPIES]
    assert refused
    assert "`quorate reset -m MANIFEST cp-2 cp-3`" in refused[0].remedy
    for name in NAMES[1:]:  # as a restore does it
        shutil.rmtree(world.machines[name].folder.root / "var/lib/etcd/member")
    assert [step for step in forecast(await world.cluster(), NOW).steps if isinstance(step.step, Reset)]


async def test_nobody_joins_a_ring_that_may_have_begun_anew_beside_the_last_copy(tmp_path: Path) -> None:
    """With every host that joins, the copies are fewer than the voters; and kubeadm's configuration was brought back, as another refusal asks for it."""
    world = stand(tmp_path)
    shutil.rmtree(world.machines["cp-1"].folder.root / "var/lib/etcd/member")
    world.machines["cp-1"].folder.file("var/lib/etcd/member/snap/db", "a few minutes old")
    world.machines["cp-1"].folder.file("var/lib/etcd/member/wal/0.wal", etcd_log(1))
    del world.etcd_ring.members[1:]
    world.machines["cp-2"].member = None
    world.machines["cp-2"].folder.program("curl", r"printf 'no\n500'")
    bare(world, "cp-3")
    for name in NAMES[1:]:
        del world.api_objects.objects[f"{NODES}/{name}"]
    cluster = await world.cluster()
    assert not forecast(cluster, NOW).steps
    assert [check.name for check in decide(cluster, NOW).refusals] == [NO_MORE_COPIES]


async def test_data_of_another_ring_stay_where_a_cluster_was_founded_anew_with_the_same_cas(tmp_path: Path) -> None:
    """Somebody ran `kubeadm init` on cp-2; the others, on which etcd does not run, have the data, and had the quorum."""
    world = stand(tmp_path)
    for name in ("cp-1", "cp-3"):
        world.machines[name].member = None
        world.machines[name].folder.program("curl", r"printf 'no\n500'")
        del world.api_objects.objects[f"{NODES}/{name}"]
    world.machines["cp-2"].folder.file("var/lib/etcd/member/wal/0.wal", etcd_log(2, 0xABC))
    write_static_pods(world.machines["cp-2"], world.manifest, founder=True)
    world.etcd_ring.members = [member for member in world.etcd_ring.members if member.member.id == 2]
    world.etcd_ring.members[0].cluster_id, world.etcd_ring.members[0].leader = 0xABC, 2
    cluster = await world.cluster()
    assert not forecast(cluster, NOW).steps
    refused = [check for check in decide(cluster, NOW).refusals if check.name == NO_OTHER_DATA]
    assert ["cp-1" in refused[0].evidence, "cp-3" in refused[1].evidence] == [True, True]
    assert "`quorate reset -m MANIFEST cp-1`" in refused[0].remedy


@pytest.mark.parametrize("trace", ["etc/kubernetes/quorate/initializing", "etc/kubernetes/super-admin.conf"])
async def test_no_initialization_goes_on_beside_hosts_that_have_the_cluster(tmp_path: Path, trace: str) -> None:
    """The founder has neither data nor kubelet.conf; the others answer, have the data, and nothing that would start their control planes."""
    world = stand(tmp_path)
    founder = world.machines["cp-1"]
    founder.folder.file(trace, kubeconfig())
    shutil.rmtree(founder.folder.root / "var/lib/etcd/member")
    (founder.folder.root / "etc/kubernetes/kubelet.conf").unlink()
    (founder.folder.root / "var/lib/kubelet/pki/kubelet-client-current.pem").unlink()
    for name in NAMES:
        world.machines[name].member = None
        world.machines[name].folder.program("curl", "exit 7")
    for name in NAMES[1:]:
        shutil.rmtree(world.machines[name].folder.root / "etc/kubernetes/manifests")
    world.etcd_ring.members = []
    world.api_objects.down = True
    cluster = await world.cluster()
    assert not forecast(cluster, NOW).steps
    assert NO_TRACES in {check.name for check in decide(cluster, NOW).refusals}
