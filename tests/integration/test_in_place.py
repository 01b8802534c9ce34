"""Updates in place against the real programs: Cluster API's core with its gates on, and its test extension, which can change files and not much more."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from quorate.clusterapi.types.names import UPDATE_MACHINE_HOOK, Annotation
from tests.integration.changes import steps_taken, until_replaced
from tests.integration.conftest import KINDS, conditions_of

if TYPE_CHECKING:
    from tests.integration.conftest import Manager, Object, Stage

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(900)]

NO_SURGE = {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0}}}
MARKED = (Annotation.UPDATE_IN_PROGRESS, Annotation.PENDING_HOOKS)


def start(stage: Stage) -> Manager:
    return stage.start_manager("--feature-gates=InPlaceUpdates=true")


def files(content: str) -> Object:
    return {"spec": {"kubeadmConfigSpec": {"files": [{"path": "/etc/motd", "content": content}]}, "rollout": NO_SURGE}}


async def until_has(stage: Stage, content: str, *, timeout: float = 240) -> None:
    """Wait until each KubeadmConfig has the file, no update is under way, and all are ready."""

    async def answer() -> bool:
        configs = await stage.all_of("KubeadmConfig")
        marks = [
            mark for kind in ("Machine", "KubeadmConfig", "DevMachine") for each in await stage.all_of(kind) for mark in marks_of(each)
        ]
        return not marks and all(config["spec"].get("files", [{}])[0].get("content") == content for config in configs)

    await stage.until(f"all have {content!r}", answer, timeout=timeout)
    await stage.until_ready(3, timeout=timeout)


def marks_of(item: Object) -> list[str]:
    annotations = item["metadata"].get("annotations", {})
    return [mark for mark in MARKED if mark in annotations and annotations[mark] in ("", UPDATE_MACHINE_HOOK)]


async def told_of(stage: Stage, type_: str) -> bool:
    """Whether a condition names the extension, or a handler of it, and a Machine that it is to be asked about."""
    condition = await stage.condition(type_)
    return any(f"{stage.namespace}, about {machine}" in condition["message"] for machine in await stage.names("Machine"))


async def uids(stage: Stage) -> dict[str, str]:
    return {machine["metadata"]["name"]: machine["metadata"]["uid"] for machine in await stage.machines()}


async def test_files_are_changed_in_place_one_machine_after_the_other_whoever_dies_meanwhile(three: Stage) -> None:
    await three.start_extension()
    manager, before = start(three), await uids(three)
    await three.patch("KubeadmControlPlane", files("first"))

    async def begun() -> bool:
        marked = [machine["metadata"]["name"] for machine in await three.machines() if marks_of(machine)]
        assert len(marked) <= 1
        return bool(marked)

    await three.until("an update has begun", begun)
    manager.kill()
    manager = start(three)
    await until_has(three, "first")
    assert await uids(three) == before
    events = await three.all_of("Event")
    started = [event["involvedObject"]["name"] for event in events if event["reason"] == "SuccessfulStartInPlaceUpdate"]
    assert set(started) <= before.keys()
    assert len(started) >= 2  # the first one may be told of by nobody: its process was killed
    assert not [step for step in steps_taken(manager) if step.startswith(("delete", "create"))]
    for config in await three.all_of("KubeadmConfig"):
        assert "initConfiguration" not in config["spec"]


async def test_what_the_extension_leaves_over_is_told_and_replaced(three: Stage) -> None:
    await three.start_extension()
    start(three)
    names = await three.names("Machine")
    await three.patch("KubeadmControlPlane", {"spec": {"kubeadmConfigSpec": {"ntp": {"enabled": True}}, "rollout": NO_SURGE}})

    async def told() -> Object | None:
        found = [
            conditions_of(machine).get("UpdatableInPlace") for machine in await three.machines() if machine["metadata"]["name"] in names
        ]
        return next((condition for condition in found if condition), None)

    condition = await three.until("the Machine says what is left over", told)
    assert (condition["status"], condition["reason"]) == ("False", "NotUpdatableInPlace")
    assert "KubeadmConfig spec.ntp" in condition["message"]
    await until_replaced(three, names, 3)


async def test_an_extension_that_is_gone_is_waited_for_by_name_and_nothing_is_replaced(three: Stage) -> None:
    extension = await three.start_extension()
    start(three)
    before = await uids(three)
    extension.kill()
    await three.patch("KubeadmControlPlane", files("second"))
    for type_ in ("Stalled", "RollingOut"):  # whether quorate asked it, or core has found out before
        await three.until(f"{type_} names the extension and whom it is about", partial(told_of, three, type_))
    assert await uids(three) == before
    await three.client.delete(KINDS["ExtensionConfig"], three.namespace)  # whoever takes it away asks for replacements
    await until_replaced(three, set(before), 3)
