"""What is not wiped without anybody's word: data on hosts outside the ring, where as many have them as serve in it."""

from __future__ import annotations

import shutil
from pathlib import Path

from quorate.core.hosts.decide import decide
from quorate.core.hosts.forecast import forecast
from quorate.core.hosts.rules.leftovers import NO_MORE_COPIES
from quorate.core.hosts.steps import Reset
from tests.hosts.observe.world import CONFIG_MAPS, NAMES, NODES, stand
from tests.hosts.probe.machine import NOW, etcd_log


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
    for name in NAMES[1:]:  # as a restore does it, whose ring has another id
        world.machines[name].folder.file("var/lib/etcd/member/wal/0.wal", etcd_log(int(name[-1]), 76))
    assert [step for step in forecast(await world.cluster(), NOW).steps if isinstance(step.step, Reset)]
