"""Another release of the bootstrap provider, whose KubeadmConfigs have other fields: no Machine is replaced for that, and the fields are named."""

from __future__ import annotations

import copy
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from quorate.clusterapi.report.events import UNKNOWN_FIELDS
from quorate.kubernetes.resource import EVENTS, Resource
from tests.integration.changes import log_size, quorate, steps_taken
from tests.integration.conftest import KINDS

if TYPE_CHECKING:
    from quorate.kubernetes.client import Client
    from tests.integration.conftest import Manager, Object, Stage

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(900)]

DEFINITIONS: Resource[Object] = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", dict, False)
TAKEN, ADDED = "verbosity", "bootTimeoutSeconds"


@asynccontextmanager
async def another_release(client: Client) -> AsyncIterator[None]:
    """The installed definition of KubeadmConfigs has one field less, and one more, with a default."""
    name = f"{KINDS['KubeadmConfig'].plural}.{KINDS['KubeadmConfig'].group}"
    versions = (await client.get(DEFINITIONS, name))["spec"]["versions"]
    others = copy.deepcopy(versions)
    for version in others:
        fields = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
        del fields[TAKEN]
        fields[ADDED] = {"type": "integer", "default": 300}
    await client.merge_patch(DEFINITIONS, name, {"spec": {"versions": others}})
    try:
        yield
    finally:
        await client.merge_patch(DEFINITIONS, name, {"spec": {"versions": versions}})


async def test_fields_that_another_release_of_the_bootstrap_provider_takes_and_adds_roll_nothing(stage: Stage, manager: Manager) -> None:
    *others, kcp = stage.cluster().objects()
    kcp["spec"]["kubeadmConfigSpec"][TAKEN] = 2
    await stage.create(*others, kcp)
    await stage.until_ready(1)
    machines, begin = await stage.names("Machine"), log_size(manager)
    async with another_release(stage.client):
        await stage.until("KubeadmConfigs are read otherwise", lambda: read_otherwise(stage))
        await stage.until("the fields are named in an event", lambda: named_once_written(stage))
        await stage.stays("the only Machine stays", lambda: stay(stage, machines), seconds=5)
        assert not [step for step in steps_taken(manager, begin) if "machine" in step]
        explained = await quorate(stage, "explain", stage.namespace)
        assert f"not compared, since quorate or the bootstrap provider does not know it: {ADDED}, {TAKEN}" in explained.stdout
        manager.stop()
        stage.start_manager()
        await stage.stays("the only Machine stays with a new process, too", lambda: stay(stage, machines), seconds=10)


async def read_otherwise(stage: Stage) -> bool:
    (config,) = await stage.all_of("KubeadmConfig")
    return ADDED in config["spec"] and TAKEN not in config["spec"]


async def named_once_written(stage: Stage) -> bool:
    """Whether both are named, after one more write of that release. Watches that began before it came show its first writes without the field that is new."""
    (config,) = await stage.all_of("KubeadmConfig")
    patch = {"metadata": {"annotations": {"written-at": str(time.monotonic())}}}
    await stage.client.merge_patch(KINDS["KubeadmConfig"], config["metadata"]["name"], patch, stage.namespace)
    events = (await stage.client.list(EVENTS, stage.namespace)).items
    return any(event["reason"] == UNKNOWN_FIELDS and f"{ADDED}, {TAKEN}" in event["message"] for event in events)


async def stay(stage: Stage, machines: set[str]) -> bool:
    rolling = await stage.condition("RollingOut")
    return await stage.names("Machine") == machines and rolling["status"] == "False"
