"""Labels that are wanted no more leave objects whose managedFields the real API server has lost, or that an old Cluster API made."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from quorate.clusterapi.types.names import FieldManager, Label
from tests.bench import audit
from tests.integration.changes import steps_taken
from tests.integration.conftest import KINDS

if TYPE_CHECKING:
    from tests.integration.conftest import Object, Stage

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(300)]

KCP, METADATA = FieldManager.KUBEADM_CONTROL_PLANE, FieldManager.METADATA
TEAM = "team"


async def test_unwanted_labels_leave_objects_with_lost_and_with_old_ownership(stage: Stage) -> None:
    manager = stage.start_manager()
    await stage.create(*stage.cluster().objects())
    await label(stage, TEAM, "a")
    await stage.until_up()
    manager.kill()
    await lose_ownership(stage, "Machine")
    await lose_ownership(stage, "DevMachine")
    await make_old(stage, "KubeadmConfig")
    stage.start_manager()
    await stage.until("the objects have owners again", lambda: everything_is_owned(stage))
    await label(stage, TEAM, None)
    await stage.until("the label has gone from all of them", lambda: nothing_is_labelled(stage))
    for kind in ("Machine", "DevMachine", "KubeadmConfig"):
        (item,) = await stage.all_of(kind)
        assert "before-first-apply" not in {entry["manager"] for entry in item["metadata"]["managedFields"]}
        assert item["metadata"]["labels"][Label.CLUSTER_NAME] == stage.namespace
    await nothing_is_written_any_more(stage)


async def test_a_process_that_starts_asks_for_nothing_that_shows_what_it_would_apply(three: Stage) -> None:
    """Another process has made these Machines and what belongs to them: all that a new one needs is in the lists that fill its caches."""
    began = datetime.now(UTC)
    manager = three.start_manager()

    async def looked() -> bool:
        return bool(steps_taken(manager))

    async def nothing_is_asked() -> bool:
        requests = audit.between(audit.read(three.stack.audit_log), began, datetime.now(UTC))
        ours = [request for request in requests if audit.Agent.QUORATE.sent(request) and request.object_ref.namespace == three.namespace]
        assert ours, "the audit log shows nothing of the process"
        objects = ("machines", "kubeadmconfigs", "devmachines")
        about = [request for request in ours if request.object_ref.resource in objects and not request.object_ref.subresource]
        return {request.verb for request in about} <= {"list", "watch"}

    await three.until("quorate has looked: it sees to the add-ons once", looked)
    await three.stays("no Machine and no companion is read or written by itself", nothing_is_asked)


async def label(stage: Stage, name: str, value: str | None) -> None:
    """What everything made for a Machine shall be labelled with."""
    await stage.patch("KubeadmControlPlane", {"spec": {"machineTemplate": {"metadata": {"labels": {name: value}}}}})


async def lose_ownership(stage: Stage, kind: str) -> None:
    """What the API server does to an object by mistake, done on purpose: one empty entry asks it to forget them all."""
    (item,) = await stage.all_of(kind)
    patch = [{"op": "replace", "path": "/metadata/managedFields", "value": [{}]}]
    changed = await stage.client.json_patch(KINDS[kind], item["metadata"]["name"], patch, stage.namespace)
    assert not changed["metadata"].get("managedFields")


async def make_old(stage: Stage, kind: str) -> None:
    """The object as Cluster API v1.11 left it: labels under the manager of the specification, and no other manager."""
    (item,) = await stage.all_of(kind)
    meta = item["metadata"]
    body = {
        **{key: item[key] for key in ("apiVersion", "kind", "spec")},
        "metadata": {key: meta[key] for key in ("name", "namespace", "labels", "ownerReferences")},
    }
    await stage.client.apply(KINDS[kind], body, stage.namespace, field_manager=KCP)
    nothing = {**body, "metadata": {"name": meta["name"], "namespace": meta["namespace"]}}
    del nothing["spec"]
    await stage.client.apply(KINDS[kind], nothing, stage.namespace, field_manager=METADATA)
    assert await appliers(stage, kind) == {KCP}


async def everything_is_owned(stage: Stage) -> bool:
    """Whether each object's labels have the owner that they have on objects of our own making."""
    expected = {"Machine": {KCP}, "DevMachine": {METADATA}, "KubeadmConfig": {METADATA}}
    return {kind: await appliers(stage, kind) for kind in expected} == expected


async def appliers(stage: Stage, kind: str) -> set[str]:
    (item,) = await stage.all_of(kind)
    entries: list[Object] = item["metadata"].get("managedFields", [])
    return {entry["manager"] for entry in entries if entry["operation"] == "Apply"}


async def nothing_is_labelled(stage: Stage) -> bool:
    items = [item for kind in ("Machine", "DevMachine", "KubeadmConfig") for item in await stage.all_of(kind)]
    return not any(TEAM in item["metadata"]["labels"] for item in items)


async def nothing_is_written_any_more(stage: Stage) -> None:
    """The second look finds nothing to put right."""
    entries = [(await stage.all_of(kind))[0]["metadata"]["managedFields"] for kind in ("DevMachine", "KubeadmConfig")]

    async def same() -> bool:
        return entries == [(await stage.all_of(kind))[0]["metadata"]["managedFields"] for kind in ("DevMachine", "KubeadmConfig")]

    await stage.stays("the managedFields stay as they are", same)
