"""The shell of simulated hosts: it does nothing of which nobody knows what it is, and its probe tells what an observer is told."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from quorate.core.health import Absent, Unknown
from quorate.hosts.probe.facts import HostFacts, StaticPod
from quorate.hosts.probe.parse import parse
from quorate.simulation.hosts.acts import Actor
from quorate.simulation.hosts.facts import facts_of, probed
from quorate.simulation.hosts.fence import Fence
from quorate.simulation.hosts.looks import looked
from quorate.simulation.hosts.observer import Observer
from quorate.simulation.hosts.reach import Reach
from quorate.simulation.hosts.shell import Shell
from tests.simulation.hosts_scenes import THREE, Scene, stage


def reach(scene: Scene) -> Reach:
    operations, random = scene.operations, Random(1)
    site, actor = operations.site, Actor("run", scene.manifest)
    observer = Observer(site, scene.manifest, operations.sight, random, site.world.now, "run")
    return Reach(site, operations.scripts, observer, actor, operations.witness, random, Fence(actor, observer, operations.scripts))


@pytest.mark.parametrize(
    "script",
    [
        "kubeadm token create",
        "timeout -k 5 9 kubeadm token create >>log",
        "systemctl mask kubelet",
        "ctr -n k8s.io tasks kill --signal SIGKILL 1a",
        "mv -f -T -- /tmp/etcd.yaml /etc/kubernetes/manifests/etcd.yaml",
        "rm -f -- /tmp/etcd.yaml\nmv -f -T -- /tmp/etcd.yaml /etc/kubernetes/manifests/etcd.yaml",
    ],
)
async def test_a_script_of_which_nothing_is_known_is_an_error(script: str) -> None:
    async with stage() as scene:
        machine = scene.machine("cp1")
        with pytest.raises(AssertionError, match="known"):
            await Shell(reach(scene), machine).run(script)
        with pytest.raises(AssertionError, match="known"):
            looked(reach(scene), machine, script)


async def test_the_probe_prints_what_an_observer_is_told() -> None:
    async with stage() as scene:
        await scene.applied(*THREE, "worker")
        scene.machine("cp2").disk.data = scene.machine("cp2").member = None
        scene.machine("cp3").unreadable = True
        for machine in (*scene.operations.machines, scene.machine("bare")):
            site = scene.operations.site
            assert etcd_of(parse(probed(site, machine))) == etcd_of(facts_of(site, machine)), machine.name


def etcd_of(facts: HostFacts) -> tuple[object, ...]:
    """What a reset looks at."""
    pod = facts.manifest("etcd")
    manifest = replace(pod, sha256="") if isinstance(pod, StaticPod) else type(pod)
    trusts = not isinstance(facts.certificates["ca"], Absent | Unknown)
    return facts.etcd_folder, facts.etcd_log_folder, facts.etcd_data, facts.etcd_identity, facts.processes, manifest, trusts
