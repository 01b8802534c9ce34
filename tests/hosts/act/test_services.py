"""Units that are started: as they are, or as a restart of etcd where the kubelet is of another minor version than the one that started it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from quorate.core.health import Finding, Health
from quorate.core.hosts.state import Node
from quorate.core.hosts.steps import StartServices
from quorate.core.versions import Version
from quorate.hosts.act.executor import Executor
from quorate.hosts.act.failures import StepFailed
from quorate.workload.static_pods import Component
from tests.hosts.act.running import NEW, OLD, cluster, running, tools
from tests.hosts.act.world import World

KUBELET = "kubelet.service"
READY = Finding(Health.GOOD, "NodeReady")


def stopped(*, kubelet: str = NEW) -> World:
    """The kubelet of h1 was exchanged and is stopped; its etcd runs on, and leads."""
    world = cluster()
    running(world, "h1").files["/usr/bin/kubelet"] = kubelet.encode()
    return world


async def started(world: World, *units: str) -> World:
    observed = world.observed()
    host = observed.cluster.host("h1")
    node = Node("h1", READY, kubelet=Version.parse(OLD), control_plane=True)
    installed = Version.parse(running(world, "h1").files["/usr/bin/kubelet"].decode())
    found = replace(host, stopped=units, etcd_runs=True, kubelet=installed, node=node)
    hosts = tuple(found if each.name == "h1" else each for each in observed.cluster.hosts)
    observed = replace(observed, cluster=replace(observed.cluster, hosts=hosts))
    await Executor(tools(world)).carry_out(StartServices("h1", units), observed)
    return world


async def test_a_kubelet_of_another_minor_version_is_started_with_every_static_pod_anew() -> None:
    world = await started(stopped(), KUBELET)
    assert running(world, "h1").ran == ["restart kubelet and static Pods"]
    assert running(world, "h1").kubelet == NEW
    assert "systemctl enable --quiet kubelet.service" in "".join(running(world, "h1").scripts)


async def test_it_stays_stopped_where_another_member_fell_silent_since_it_was_decided() -> None:
    world = stopped()
    world.unreachable.add("h3")
    with pytest.raises(StepFailed, match="quorum survives a restart"):
        await started(world, KUBELET)
    assert running(world, "h1").ran == []


async def test_leadership_moves_away_before_it_is_started() -> None:
    world = stopped()
    assert world.members[0].name == "h1"
    await started(world, KUBELET)
    assert world.members[0].name != "h1"


async def test_the_start_is_not_over_before_another_etcd_runs() -> None:
    """Until then all look well, and the next host would be restarted beside this one."""
    world = stopped()
    running(world, "h1").lingering.add(Component.ETCD)
    with pytest.raises(StepFailed, match=r"another container of etcd did not come about .* the one before has not ended"):
        await started(world, KUBELET)


async def test_a_component_that_did_not_run_before_is_not_waited_for() -> None:
    world = stopped()
    host = running(world, "h1")
    host.down.add(Component.SCHEDULER)
    await started(world, KUBELET)
    assert host.ran == ["restart kubelet and static Pods"]


async def test_containerd_comes_first_where_it_is_stopped_too() -> None:
    world = await started(stopped(), "containerd.service", KUBELET)
    scripts = running(world, "h1").scripts
    first = next(number for number, script in enumerate(scripts) if "systemctl start containerd.service" in script)
    assert all("ctr " not in script for script in scripts[:first])
    assert running(world, "h1").ran == ["restart kubelet and static Pods"]


async def test_one_of_the_same_minor_version_is_started_and_no_ring_is_asked() -> None:
    world = stopped(kubelet="v1.34.9")
    world.unreachable.add("h3")
    await started(world, "containerd.service", KUBELET)
    assert running(world, "h1").ran == []
    assert "systemctl start containerd.service kubelet.service" in running(world, "h1").scripts[0]
