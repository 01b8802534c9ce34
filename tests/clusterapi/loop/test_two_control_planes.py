"""Two KubeadmControlPlanes of one Cluster, such as one that was renamed in a repository while the other was never deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from quorate.clusterapi.act import permission
from quorate.clusterapi.act.refusal import Refused
from quorate.clusterapi.types.names import Label
from quorate.clusterapi.types.resources import CONTROL_PLANE_GROUP
from quorate.core.machines.decide import Decision, decide
from quorate.core.machines.steps import CreateReplica, DeleteAll, EnsureCertificates, RemoveFinalizer, WriteKubeconfig
from quorate.kubernetes.controller import Request

from .conftest import World, kubeadm_control_plane
from .management import NAMESPACE

if TYPE_CHECKING:
    from quorate.clusterapi.observe.observation import Observation

OTHER = "other"
WORKER: dict[str, Any] = {
    "metadata": {"name": "worker", "labels": {"cluster.x-k8s.io/cluster-name": "demo"}},
    "spec": {"clusterName": "demo"},
}


def add_another(world: World) -> None:
    body = kubeadm_control_plane()
    body["metadata"] |= {"name": OTHER, "uid": "other-uid"}
    world.api.put("kubeadmcontrolplanes", body)


def name_in_the_cluster(world: World, name: str, kind: str = "KubeadmControlPlane", group: str = CONTROL_PLANE_GROUP) -> None:
    world.api.change("clusters", "demo", {"spec": {"controlPlaneRef": {"apiGroup": group, "kind": kind, "name": name}}})


async def seen(world: World, name: str) -> Observation:
    await world.sync()
    found = await world.observer.observe(Request(NAMESPACE, name))
    assert found is not None
    return found


async def decided(world: World, name: str) -> Decision:
    view = (await seen(world, name)).view
    assert view is not None
    return decide(view, world.now)


def evidence(decision: Decision) -> str:
    assert decision.step is None
    return "; ".join(check.evidence for check in decision.refusals)


async def test_only_the_one_that_the_cluster_names_makes_a_machine(empty: World) -> None:
    add_another(empty)
    name_in_the_cluster(empty, "demo")
    await empty.actor.perform(EnsureCertificates(("ca", "sa", "proxy", "etcd")), await empty.look())
    await empty.actor.perform(WriteKubeconfig(rotate=False), await empty.look())
    assert isinstance((await decided(empty, "demo")).step, CreateReplica)
    assert evidence(await decided(empty, OTHER)) == "Cluster demo spec.controlPlaneRef names KubeadmControlPlane demo"


@pytest.mark.parametrize(("kind", "group"), [("RKE2ControlPlane", CONTROL_PLANE_GROUP), ("KubeadmControlPlane", "example.com")])
async def test_one_of_the_same_name_and_another_kind_is_another(empty: World, kind: str, group: str) -> None:
    name_in_the_cluster(empty, "demo", kind, group)
    assert evidence(await decided(empty, "demo")) == f"Cluster demo spec.controlPlaneRef names {kind} demo" + (
        f" of {group}" if group != CONTROL_PLANE_GROUP else ""
    )


async def test_of_two_that_a_cluster_names_neither_of_both_wait(empty: World) -> None:
    """Nothing tells which of them is meant, and whatever the one makes is the other's obstacle."""
    add_another(empty)
    told = "Cluster demo has no spec.controlPlaneRef, and these want to be its control plane: demo, other"
    assert [evidence(await decided(empty, name)) for name in ("demo", OTHER)] == [told, told]


async def test_two_that_different_processes_watch_are_two_all_the_same() -> None:
    """Each process has one of them alone in its cache: which of both may found the cluster is asked of the API."""
    world = World(watch_filter="a")
    await world.set_up()
    world.api.change("kubeadmcontrolplanes", "demo", {"metadata": {"labels": {Label.WATCH_FILTER: "a"}}})
    add_another(world)
    world.api.change("kubeadmcontrolplanes", OTHER, {"metadata": {"labels": {Label.WATCH_FILTER: "b"}}})
    await world.actor.perform(EnsureCertificates(("ca", "sa", "proxy", "etcd")), await world.look())
    await world.actor.perform(WriteKubeconfig(rotate=False), await world.look())
    step = (await decided(world, "demo")).step
    assert isinstance(step, CreateReplica)
    world.log.clear()
    with pytest.raises(Refused, match="these want to be its control plane: demo, other"):
        await world.actor.perform(step, await seen(world, "demo"))
    assert world.log == []


async def test_one_that_was_given_to_another_process_is_left_to_that() -> None:
    """Its label was changed, which the cache has yet to see."""
    world = World(watch_filter="a")
    await world.set_up()
    world.api.change("kubeadmcontrolplanes", "demo", {"metadata": {"labels": {Label.WATCH_FILTER: "a"}}})
    await world.actor.perform(EnsureCertificates(("ca", "sa", "proxy", "etcd")), await world.look())
    await world.actor.perform(WriteKubeconfig(rotate=False), await world.look())
    observation = await world.look()
    world.log.clear()
    for label in ("b", None):
        world.api.change("kubeadmcontrolplanes", "demo", {"metadata": {"labels": {Label.WATCH_FILTER: label}}})
        with pytest.raises(Refused, match="demo now belongs to another manager"):
            await world.actor.perform(CreateReplica(initialize=True, failure_domain=""), observation)
    assert world.log == []


async def test_each_hears_when_the_other_comes_or_goes(empty: World) -> None:
    await empty.sync()
    (reflector,) = [each for each in empty.caches.reflectors if each.store is empty.caches.kcps]
    add_another(empty)
    await empty.sync()
    other = empty.caches.kcps.get(NAMESPACE, OTHER)
    assert other is not None
    empty.queue.keys.clear()
    for handler in reflector._handlers:
        handler.on_add(other, initial=False)
    assert {key.name for key in empty.queue.keys} == {"demo", OTHER}


async def test_one_that_is_not_named_may_go_at_once(three: World) -> None:
    """It has made nothing, so that neither the workers nor the Machines of the other keep it."""
    three.api.put("machines", WORKER)
    add_another(three)
    name_in_the_cluster(three, "demo")
    three.api.change("kubeadmcontrolplanes", OTHER, {"metadata": {"deletionTimestamp": "2026-01-01T11:50:00Z"}})
    assert isinstance((await decided(three, OTHER)).step, RemoveFinalizer)


async def test_one_that_has_machines_waits_for_the_workers_whoever_is_named(three: World) -> None:
    three.api.put("machines", WORKER)
    name_in_the_cluster(three, OTHER)
    three.api.change("kubeadmcontrolplanes", "demo", {"metadata": {"deletionTimestamp": "2026-01-01T11:50:00Z"}})
    assert "still there: Machine worker" in evidence(await decided(three, "demo"))
    del three.api.objects["machines", NAMESPACE, "worker"]
    step = (await decided(three, "demo")).step
    assert isinstance(step, DeleteAll)
    await three.actor.perform(step, await three.look())
    assert all("deletionTimestamp" in three.api.raw("machines", name)["metadata"] for name in step.replicas)


async def test_it_is_asked_again_right_before_anything_is_written(three: World) -> None:
    observation = await three.look()
    name_in_the_cluster(three, OTHER)
    with pytest.raises(Refused, match=r"Cluster demo spec\.controlPlaneRef names KubeadmControlPlane other"):
        await permission.still_permitted(three.clients, observation)
