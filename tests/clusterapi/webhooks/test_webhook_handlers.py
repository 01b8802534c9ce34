"""What the webhooks ask the management cluster about: the control plane that is scaled, and the versions that kinds are served in."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec
import pytest

from quorate.clusterapi.api import webhooks
from quorate.clusterapi.api.conversion.converter import NEW, OLD
from quorate.clusterapi.types.names import DEFAULT_FEATURE_GATES, Label
from quorate.clusterapi.webhooks.api_versions import LASTS, ApiVersions
from quorate.clusterapi.webhooks.handlers import ListConversion, admission_handlers
from quorate.kubernetes.client import Client
from quorate.kubernetes.errors import NotFound
from quorate.kubernetes.objects import CustomResourceDefinition
from quorate.kubernetes.resource import CRDS

Object = dict[str, Any]

GROUP, KIND = "infrastructure.cluster.x-k8s.io", "DevMachineTemplate"


@dataclass
class Cluster:
    """A management cluster with one kind of infrastructure and one control plane of three."""

    version: str = "v1beta7"
    asked: list[str] = field(default_factory=list)

    async def get(self, resource: object, name: str, namespace: str = "") -> Any:
        self.asked.append(name)
        if resource is CRDS and name == f"devmachinetemplates.{GROUP}":
            definition = {"metadata": {"name": name, "labels": {Label.CONTRACT: self.version}}, "spec": {"names": {"kind": KIND}}}
            return msgspec.convert(definition, CustomResourceDefinition)
        if (name, namespace) == ("demo", "default"):
            return {"spec": {"replicas": 3}}
        raise NotFound(f"get {name}: not found")


@dataclass
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


def as_client(cluster: Cluster) -> Client:
    return cast("Client", cluster)


def made(version: str = NEW, name: str = "demo", kind: str = KIND) -> Object:
    reference = {"apiGroup": GROUP, "kind": kind, "name": "machines"}
    metadata = {"name": name, "namespace": "default"}
    return {
        "apiVersion": version,
        "kind": "KubeadmControlPlane",
        "metadata": metadata,
        "spec": {"machineTemplate": {"spec": {"infrastructureRef": reference}}},
    }


def reference_of(converted: Any) -> Object:
    found: Object = converted["spec"]["machineTemplate"]["infrastructureRef"]
    return found


async def test_references_get_the_version_that_fulfils_the_contract_which_is_asked_for_once() -> None:
    cluster = Cluster()
    convert = ListConversion(ApiVersions(as_client(cluster), Clock()))
    converted = await convert([made(name="a"), made(name="b")], OLD)
    assert [reference_of(obj)["apiVersion"] for obj in converted] == [f"{GROUP}/v1beta7"] * 2
    assert cluster.asked == [f"devmachinetemplates.{GROUP}"]


async def test_another_version_is_known_soon_after_it_is_installed() -> None:
    cluster, clock = Cluster(), Clock()
    convert = ListConversion(ApiVersions(as_client(cluster), clock))
    await convert([made()], OLD)
    cluster.version, clock.now = "v1beta7_v1beta8", LASTS - 1
    assert reference_of((await convert([made()], OLD))[0])["apiVersion"] == f"{GROUP}/v1beta7"
    clock.now = LASTS
    assert reference_of((await convert([made()], OLD))[0])["apiVersion"] == f"{GROUP}/v1beta8"


async def test_a_kind_that_is_not_installed_fails_the_list_and_is_asked_for_again() -> None:
    cluster = Cluster()
    convert = ListConversion(ApiVersions(as_client(cluster), Clock()))
    for _ in range(2):
        with pytest.raises(ValueError, match=r"KubeadmControlPlane default/b cannot be converted .*no CustomResourceDefinition others\."):
            await convert([made(name="a"), made(name="b", kind="Other")], OLD)
    assert cluster.asked.count(f"others.{GROUP}") == 2


async def test_on_the_way_up_and_for_what_is_converted_already_nobody_is_asked() -> None:
    cluster = Cluster()
    convert = ListConversion(ApiVersions(as_client(cluster), Clock()))
    assert await convert([made()], NEW) == [made()]
    (old,) = await ListConversion(ApiVersions(as_client(Cluster()), Clock()))([made()], OLD)
    (up,) = await convert([old], NEW)
    assert up["spec"]["machineTemplate"] == made()["spec"]["machineTemplate"]
    assert cluster.asked == []


async def test_others_have_their_turn_while_a_long_list_is_converted() -> None:
    convert = ListConversion(ApiVersions(as_client(Cluster()), Clock()))
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as group:
        counting = group.create_task(count())
        assert len(await convert([made()] * 1000, OLD)) == 1000  # 100 ms of work
        counting.cancel()
    assert turns > 5


async def scaled(replicas: int, name: str = "demo") -> Any:
    handlers = admission_handlers(as_client(Cluster()), DEFAULT_FEATURE_GATES)
    scale = {"metadata": {"name": name, "namespace": "default"}, "spec": {"replicas": replicas}}
    return await handlers[webhooks.VALIDATE_SCALE.path]({"operation": "UPDATE", "object": scale})


async def test_a_scale_is_judged_with_its_control_plane() -> None:
    assert (await scaled(5)).allowed
    assert (await scaled(4)).code == 403


async def test_a_scale_whose_control_plane_cannot_be_read_is_an_error_that_says_so() -> None:
    answer = await scaled(3, "other")
    assert (answer.allowed, answer.code) == (False, 500)
    assert answer.message.startswith("KubeadmControlPlane default/other, which is to be scaled, cannot be read: ")


async def test_every_path_of_the_configurations_is_served() -> None:
    told = {hook["clientConfig"]["service"]["path"] for each in webhooks.configurations() for hook in each["webhooks"]}
    assert set(admission_handlers(as_client(Cluster()), DEFAULT_FEATURE_GATES)) == told
