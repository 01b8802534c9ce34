"""Rolling changes against the real programs: what the plan said is what happens, a wrong spec is corrected on the way, and a pause is a pause."""

from __future__ import annotations

import base64
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from quorate.clusterapi.types.names import Annotation
from quorate.kubernetes import kubeconfig
from quorate.kubernetes.client import connect
from quorate.kubernetes.resource import CONFIG_MAPS
from tests.integration.changes import (
    annotate,
    by_age,
    comparable,
    log_size,
    nothing_orphaned,
    plan,
    planned,
    quorate,
    steps_taken,
    until_begun,
    until_replaced,
    until_version,
)
from tests.integration.conftest import KINDS

if TYPE_CHECKING:
    from tests.integration.conftest import Manager, Object, Stage

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(900)]

NEVER = {"provisioning": {"startupDuration": "24h", "startupJitter": "0"}}


async def test_upgrade_goes_as_planned(three: Stage) -> None:
    stage, manager = three, three.start_manager()
    assert (await plan(stage))["steps"] == []
    for edit, spec in (
        ("version=v1.35.4", {"version": "v1.35.4"}),
        (
            "rollout.strategy.rollingUpdate.maxSurge=0",
            {"rollout": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0}}}},
        ),
        ("version=v1.36.1", {"version": "v1.36.1"}),
    ):
        await the_plan_comes_true(stage, manager, edit, spec)
    assert await kubeadm_version(stage) == "v1.36.1"
    await nothing_orphaned(stage)


async def the_plan_comes_true(stage: Stage, manager: Manager, edit: str, spec: Object) -> None:
    before, begin, foreseen = by_age(await stage.machines()), log_size(manager), await plan(stage, edit)
    await stage.patch("KubeadmControlPlane", {"spec": spec})
    if "version" in spec:
        await until_version(stage, spec["version"], 3)
        created = [name for name in by_age(await stage.machines()) if name not in before]
        assert created
        assert all(step["after"] is None or step["after"]["tolerates"] >= 0 for step in foreseen["steps"])
    else:
        created = []
    await stage.until_condition("RollingOut", "False")
    assert comparable(steps_taken(manager, begin)) == planned(foreseen, created)


async def kubeadm_version(stage: Stage) -> str:
    secret = await stage.client.get(KINDS["Secret"], f"{stage.namespace}-kubeconfig", stage.namespace)
    client = connect(kubeconfig.parse(base64.b64decode(secret["data"]["value"])))
    try:
        found = await client.get(CONFIG_MAPS, "kubeadm-config", "kube-system")
    finally:
        await client.close()
    line = next(line for line in found.data["ClusterConfiguration"].splitlines() if line.startswith("kubernetesVersion"))
    return line.partition(":")[2].strip().strip('"')


async def test_configuration_and_template_and_rollout_after(three: Stage) -> None:
    stage, manager = three, three.start_manager()
    arguments = {"clusterConfiguration": {"apiServer": {"extraArgs": [{"name": "v", "value": "3"}]}}}
    template = {"spec": {"infrastructureRef": await another_template(stage)}}
    changes: tuple[Callable[[], Object], ...] = (
        lambda: {"kubeadmConfigSpec": arguments},
        lambda: {"machineTemplate": template},
        lambda: {"rollout": {"after": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"}},
    )
    for change in changes:
        before = await stage.names("Machine")
        await stage.patch("KubeadmControlPlane", {"spec": change()})
        await until_replaced(stage, before, 3)
    await stage.stays("nothing is replaced again", lambda: same_machines(stage), seconds=3)
    assert manager.running
    await nothing_orphaned(stage)


async def same_machines(stage: Stage) -> bool:
    return len(await stage.names("Machine")) == 3


async def another_template(stage: Stage, name: str = "another", **phases: Any) -> Object:
    """A template of that name, equal to the first but for the phases given; the reference to it."""
    (template,) = [item for item in await stage.all_of("DevMachineTemplate") if item["metadata"]["name"] == stage.namespace]
    in_memory = template["spec"]["template"]["spec"]["backend"]["inMemory"]
    spec = {"template": {"spec": {"backend": {"inMemory": {**in_memory, **phases}}}}}
    kind = KINDS["DevMachineTemplate"]
    body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name, "namespace": stage.namespace}, "spec": spec}
    await stage.client.create(kind, body, stage.namespace)
    return {"apiGroup": kind.group, "kind": kind.kind, "name": name}


async def test_a_wrong_spec_is_corrected_on_the_way(three: Stage) -> None:
    """A template whose machines never come up, then one whose do: the machine that never came up goes first, and nobody's quorum is at stake."""
    stage, manager = three, three.start_manager()
    good = await stage.names("Machine")
    broken = await another_template(stage, "broken", vm=NEVER)
    await stage.patch("KubeadmControlPlane", {"spec": {"machineTemplate": {"spec": {"infrastructureRef": broken}}}})

    async def surplus() -> set[str] | None:
        return await stage.names("Machine") - good

    (stuck,) = await stage.until("a machine of the broken template exists", surplus)
    await stage.stays("the good ones wait for it", lambda: still_there(stage, good), seconds=3)
    assert stuck in (await quorate(stage, "explain", stage.namespace)).stdout
    await stage.patch(
        "KubeadmControlPlane", {"spec": {"machineTemplate": {"spec": {"infrastructureRef": await another_template(stage, "mended")}}}}
    )
    await until_replaced(stage, good | {stuck}, 3)
    await nothing_orphaned(stage)
    assert manager.running


async def still_there(stage: Stage, names: set[str]) -> bool:
    metas = [machine["metadata"] for machine in await stage.machines()]
    return names <= {meta["name"] for meta in metas if "deletionTimestamp" not in meta}


async def test_a_pause_in_the_middle_of_a_rollout(three: Stage) -> None:
    stage, manager = three, three.start_manager()
    before = await stage.names("Machine")
    await stage.patch("KubeadmControlPlane", {"spec": {"version": "v1.35.4"}})
    await until_begun(stage, before)
    await annotate(
        stage, "KubeadmControlPlane", stage.namespace, **{Annotation.PAUSED: ""}
    )  # a paused Cluster wakes core's own Machines minutes later
    await stage.until_condition("Paused", "True")
    begin = log_size(manager)
    await stage.stays("nothing is done while paused", lambda: no_steps_since(manager, begin), seconds=5)
    await annotate(stage, "KubeadmControlPlane", stage.namespace, **{Annotation.PAUSED: None})
    await until_version(stage, "v1.35.4", 3)
    await nothing_orphaned(stage)


async def no_steps_since(manager: Manager, begin: int) -> bool:
    return not steps_taken(manager, begin)
