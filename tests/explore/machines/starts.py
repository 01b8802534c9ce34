"""The states that histories begin with: control planes of so many replicas that are well, with an older backup of their management objects."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import lru_cache

import msgspec

from quorate.clusterapi.types.resources import INFRASTRUCTURE_GROUP
from quorate.core.machines.steps import EnsureCertificates, WriteKubeconfig
from tests.clusterapi.loop.conftest import World
from tests.explore.machines.plant import Host, Member, Plant
from tests.explore.machines.state import CONTROL_PLANES, MACHINES, NAME, NAMESPACE, Json, Key, Objects, State, settled

CLONED_FROM = "cluster.x-k8s.io/cloned-from-name"
_DOMAINS = ("a", "b")


@lru_cache
def _world(replicas: int) -> Objects:
    return asyncio.run(_set_up(replicas))


async def _set_up(replicas: int) -> Objects:
    """Objects made by the production's own writes and by what stands for the other providers."""
    world = World()
    await world.set_up()
    small = world.api.raw("devmachinetemplates", "small")
    world.api.put("devmachinetemplates", {**small, "metadata": {"name": "large"}})
    domains = [{"name": name, "controlPlane": True} for name in _DOMAINS]
    world.api.change("clusters", NAME, {"status": {"failureDomains": domains}})
    world.api.change(CONTROL_PLANES, NAME, {"spec": {"replicas": replicas or 1}})
    await world.actor.perform(EnsureCertificates(("ca", "sa", "proxy", "etcd")), await world.look())
    await world.actor.perform(WriteKubeconfig(rotate=False), await world.look())
    for number in range(1, replicas + 1):
        machine = world.add_machine(_name(number))
        owner = {
            "apiVersion": "cluster.x-k8s.io/v1beta2",
            "kind": "Machine",
            "name": _name(number),
            "uid": machine["metadata"]["uid"],
            "controller": True,
        }
        cloned = {CLONED_FROM: "small", "cluster.x-k8s.io/cloned-from-groupkind": f"DevMachineTemplate.{INFRASTRUCTURE_GROUP}"}
        world.api.change("kubeadmconfigs", _name(number), {"metadata": {"ownerReferences": [owner]}})
        world.api.change("devmachines", _name(number), {"metadata": {"ownerReferences": [owner], "annotations": cloned}})
        world.api.change(
            MACHINES,
            _name(number),
            {
                "metadata": {"finalizers": ["machine.cluster.x-k8s.io"]},
                "spec": {
                    "providerID": f"test:///{_name(number)}",
                    "bootstrap": {"dataSecretName": _name(number)},
                    "failureDomain": _DOMAINS[(number - 1) % len(_DOMAINS)],
                },
                "status": {"nodeRef": {"name": _name(number)}},
            },
        )
    if replicas:
        world.api.change(CONTROL_PLANES, NAME, {"status": {"initialization": {"controlPlaneInitialized": True}}})
    return dict(world.api.objects)


def _name(number: int) -> str:
    return f"{NAME}-start{number}"


def start(replicas: int, *, backup_of: int | None = None) -> State:
    """A control plane of so many replicas that is well; its backup is of a time when it had `backup_of`. No replicas: nothing was made yet."""
    names = [_name(number) for number in range(1, replicas + 1)]
    plant = Plant(
        hosts=tuple(Host(name, member=number) for number, name in enumerate(names, 1)),
        nodes=tuple(names),
        members=tuple(Member(number, name) for number, name in enumerate(names, 1)),
        founded=bool(replicas),
        recorded=bool(replicas),
    ).settled()
    backup = (
        {}
        if backup_of is None
        else {key: obj for key, obj in settled(State(_world(backup_of), plant)).objects.items() if key[0] in _BACKED_UP}
    )
    return settled(replace(State(_world(replicas), plant, backup), version=10_000))


def made_by_upstream() -> Objects:
    """A first Machine as somebody else's program has made it, whose host is still to come."""
    made: dict[Key, Json] = {}
    for (plural, namespace, name), obj in _world(1).items():
        if name == _name(1):
            made[plural, namespace, UPSTREAMS] = msgspec.json.decode(msgspec.json.encode(obj).replace(name.encode(), UPSTREAMS.encode()))
    spec = made[MACHINES, NAMESPACE, UPSTREAMS]["spec"]
    del spec["providerID"], spec["bootstrap"]["dataSecretName"], made[MACHINES, NAMESPACE, UPSTREAMS]["status"]
    del made["devmachines", NAMESPACE, UPSTREAMS]["spec"]["providerID"]
    config = made["kubeadmconfigs", NAMESPACE, UPSTREAMS]["spec"]
    config.pop("joinConfiguration", None)
    return made


UPSTREAMS = f"{NAME}-upstream"
_BACKED_UP = ("kubeadmcontrolplanes", "machines", "kubeadmconfigs", "devmachines")
