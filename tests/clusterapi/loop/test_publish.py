"""Reports on their way into the API: only differences, nobody else's words lost, nothing compared with what is older than our own write."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, cast

import msgspec
import pytest

from quorate.clusterapi.connect.newest import RETENTION, Newest
from quorate.clusterapi.report import MachineConditions, Report
from quorate.clusterapi.report.publish import Publisher
from quorate.clusterapi.types.kubeadm_control_plane import KubeadmControlPlane
from quorate.clusterapi.types.machine import Machine
from quorate.kubernetes.errors import Conflict

if TYPE_CHECKING:
    from tests.clusterapi.loop.conftest import World

KCPS = "kubeadmcontrolplanes"


def condition(type_: str, status: str = "True", message: str = "") -> dict[str, Any]:
    return {"type": type_, "status": status, "lastTransitionTime": "2026-01-01T11:00:00Z", "reason": "Given", "message": message}


def report(*conditions: dict[str, Any], machines: dict[str, MachineConditions] | None = None, **status: Any) -> Report:
    return Report({"conditions": list(conditions), "deprecated": {"v1beta1": {"conditions": []}}, **status}, machines or {}, None, ())


def of(world: World, name: str, *conditions: dict[str, Any], withdrawn: tuple[str, ...] = ()) -> dict[str, MachineConditions]:
    """These conditions for the Machine that has this name now."""
    uid = world.api.raw("machines", name)["metadata"]["uid"]
    return {name: MachineConditions(uid, conditions, (), withdrawn, withdrawn)}


def has_news(publisher: Publisher, kcp: KubeadmControlPlane, told: Report) -> bool:
    return any(change.is_news for change in publisher.changes(kcp, told))


@pytest.fixture
def publisher(three: World) -> Publisher:
    return Publisher(cast("Any", three.api), three.caches)


INITIALIZED: dict[str, Any] = {"initialization": {"controlPlaneInitialized": True}}


async def test_what_is_there_already_is_not_written(three: World, publisher: Publisher) -> None:
    told = report(condition("Available"), machines=of(three, "cp-1", condition("UpToDate")), replicas=3, **INITIALIZED)
    await publisher.publish(publisher.changes(three.kcp, told))
    assert sorted(three.log) == ["patch kubeadmcontrolplanes demo/status", "patch machines cp-1/status"]
    three.log.clear()
    await publisher.publish(publisher.changes(three.kcp, told))  # before the cache has it
    await three.sync()
    await publisher.publish(publisher.changes(three.kcp, told))
    assert three.log == []


async def test_only_changed_fields_are_written_and_those_that_are_not_reported_any_more_are_cleared(
    three: World, publisher: Publisher
) -> None:
    await publisher.publish(publisher.changes(three.kcp, report(condition("Available"), replicas=3, version="v1.34.4", **INITIALIZED)))
    await publisher.publish(publisher.changes(three.kcp, report(condition("Available"), replicas=2, **INITIALIZED)))
    body = three.api.bodies[-1][1]
    assert body["status"] == {"replicas": 2, "version": None}
    assert set(body["metadata"]) == {"resourceVersion", "uid"}
    assert "version" not in three.api.raw(KCPS, "demo")["status"]


async def test_after_a_conflict_the_newest_state_is_read_and_the_conditions_of_others_stay(three: World, publisher: Publisher) -> None:
    theirs = condition("Theirs", message="new")
    three.api.change("machines", "cp-1", {"status": {"conditions": [theirs]}})
    three.api.change(KCPS, "demo", {"status": {"conditions": [theirs]}})
    await publisher.publish(
        publisher.changes(three.kcp, report(condition("Available"), machines=of(three, "cp-1", condition("UpToDate")), **INITIALIZED))
    )
    assert three.api.raw("machines", "cp-1")["status"]["conditions"] == [condition("UpToDate"), theirs]
    assert three.api.raw(KCPS, "demo")["status"]["conditions"] == [condition("Available"), theirs]


async def test_a_condition_of_ours_that_is_not_reported_any_more_goes(three: World, publisher: Publisher) -> None:
    await publisher.publish(publisher.changes(three.kcp, report(condition("Available"), condition("Stalled"), **INITIALIZED)))
    await publisher.publish(publisher.changes(three.kcp, report(condition("Available"), **INITIALIZED)))
    assert [found["type"] for found in three.api.raw(KCPS, "demo")["status"]["conditions"]] == ["Available"]


async def test_the_initialized_latch_is_never_taken_back(three: World, publisher: Publisher) -> None:
    await publisher.publish(publisher.changes(three.kcp, report(condition("Available"), replicas=3)))
    assert three.api.raw(KCPS, "demo")["status"]["initialization"] == {"controlPlaneInitialized": True}


async def test_endless_conflicts_are_raised(three: World, publisher: Publisher) -> None:
    three.api.trouble["patch", KCPS] = Conflict("again")
    with pytest.raises(ExceptionGroup) as caught:
        await publisher.publish(publisher.changes(three.kcp, report(replicas=1)))
    assert caught.group_contains(Conflict)


async def test_objects_that_have_gone_are_ignored(three: World, publisher: Publisher) -> None:
    kcp = three.kcp
    told = report(condition("Available"), machines=of(three, "cp-1", condition("UpToDate")) | {"cp-9": MachineConditions("gone", (), ())})
    three.api.objects.clear()
    await publisher.publish(publisher.changes(kcp, told))
    assert three.log == []


async def test_an_object_that_goes_between_a_conflict_and_the_next_look_is_ignored(three: World, publisher: Publisher) -> None:
    three.api.change("machines", "cp-1", {"metadata": {"labels": {"new": "er"}}})
    three.api.before["get"] = three.api.objects.clear
    await publisher.publish(publisher.changes(three.kcp, report(machines=of(three, "cp-1", condition("UpToDate")), **INITIALIZED)))
    assert "patch machines cp-1/status" not in three.log


async def test_an_old_report_is_not_written_to_a_new_object_of_the_same_name(three: World, publisher: Publisher) -> None:
    old = three.kcp
    del three.api.objects[KCPS, "default", "demo"]
    renewed = {**three.api.put(KCPS, {"metadata": {"name": "demo", "uid": "another"}, "spec": msgspec.to_builtins(old.spec)})}
    await publisher.publish(publisher.changes(old, report(replicas=3)))
    await three.sync()
    await publisher.publish(publisher.changes(old, report(replicas=3)))
    assert three.log == []
    assert "status" not in renewed


async def test_a_machine_that_took_the_name_of_another_is_not_told_what_was_seen_of_that_one(three: World, publisher: Publisher) -> None:
    told = report(condition("Available"), machines=of(three, "cp-1", condition("UpToDate")), **INITIALIZED)
    await publisher.publish(publisher.changes(three.kcp, report(condition("Available"), **INITIALIZED)))
    three.log.clear()
    del three.api.objects["machines", "default", "cp-1"]
    three.add_machine("cp-1", node=False)
    await three.sync()
    assert not has_news(publisher, three.kcp, told)
    await publisher.publish(publisher.changes(three.kcp, told))
    assert three.log == []


async def test_a_condition_that_is_withdrawn_goes_and_those_of_others_stay(three: World, publisher: Publisher) -> None:
    asked, theirs = condition("OwnerRemediated", "False"), condition("Theirs")
    legacy = [{"type": "OwnerRemediated", "status": "False", "lastTransitionTime": "2026-01-01T11:00:00Z"}]
    three.api.change("machines", "cp-1", {"status": {"conditions": [asked, theirs], "deprecated": {"v1beta1": {"conditions": legacy}}}})
    await three.sync()
    told = report(machines=of(three, "cp-1", condition("UpToDate"), withdrawn=("OwnerRemediated",)), **INITIALIZED)
    assert has_news(publisher, three.kcp, told)
    await publisher.publish(publisher.changes(three.kcp, told))
    status = three.api.raw("machines", "cp-1")["status"]
    assert status["conditions"] == [condition("UpToDate"), theirs]
    assert status["deprecated"] == {"v1beta1": {"conditions": []}}


async def test_another_wording_is_no_news_and_everything_else_is(three: World, publisher: Publisher) -> None:
    def told(message: str = "", status: str = "True", machine: str = "True", **more: Any) -> Report:
        return report(
            condition("Available", status, message),
            machines=of(three, "cp-1", condition("UpToDate", machine, message)),
            **INITIALIZED,
            **more,
        )

    await publisher.publish(publisher.changes(three.kcp, told()))
    assert not has_news(publisher, three.kcp, told())
    assert not has_news(publisher, three.kcp, told("in other words"))
    assert has_news(publisher, three.kcp, told(status="False"))
    assert has_news(publisher, three.kcp, told(machine="False"))
    assert has_news(publisher, three.kcp, told(replicas=3))


async def test_what_is_news_is_told_apart_by_object_from_another_wording(three: World, publisher: Publisher) -> None:
    def told(message: str, machine: str) -> Report:
        return report(
            condition("Available", "True", message), machines=of(three, "cp-1", condition("UpToDate", machine, message)), **INITIALIZED
        )

    await publisher.publish(publisher.changes(three.kcp, told("", "True")))
    three.log.clear()
    changes = publisher.changes(three.kcp, told("in other words", "False"))
    assert [(change.resource.kind, change.is_news) for change in changes] == [("Machine", True), ("KubeadmControlPlane", False)]
    await publisher.publish(change for change in changes if change.is_news)
    assert [line.split()[1:3] for line in three.log] == [["machines", "cp-1/status"]]
    three.log.clear()
    await publisher.publish(publisher.changes(three.kcp, told("in other words", "False")))
    assert [line.split()[1:3] for line in three.log] == [["kubeadmcontrolplanes", "demo/status"]]


async def test_there_is_no_news_of_what_the_cache_has_lost(three: World, publisher: Publisher) -> None:
    kcp = three.kcp
    three.api.objects.clear()
    await three.sync()
    assert not has_news(publisher, kcp, report(replicas=1))


async def test_what_was_written_is_forgotten_with_its_object_and_as_soon_as_the_caches_have_it(three: World, publisher: Publisher) -> None:
    def tell(plural: str, name: str, *, gone: bool = False) -> None:
        (reflector,) = [each for each in three.caches.reflectors if each.resource.plural == plural]
        found = msgspec.convert(three.api.raw(plural, name), reflector.resource.type)
        reflector._tell(reflector.store.remove(found) if gone else reflector.store.put(found))

    machines = of(three, "cp-1", condition("UpToDate")) | of(three, "cp-2", condition("UpToDate"))
    told = report(condition("Available"), machines=machines, **INITIALIZED)
    await publisher.publish(publisher.changes(three.kcp, told))
    assert len(publisher.newest) == 3
    tell(KCPS, "demo")
    tell("machines", "cp-1", gone=True)
    assert len(publisher.newest) == 1
    three.api.change("machines", "cp-2", {"metadata": {"resourceVersion": "1"}})
    three.api.raw("machines", "cp-2")["metadata"]["resourceVersion"] = "1"  # the API server's etcd was restored
    tell("machines", "cp-2")
    assert len(publisher.newest) == 0
    three.api.raw("machines", "cp-1")["status"] = {}
    await publisher.publish(
        publisher.changes(three.kcp, report(condition("Available"), machines=of(three, "cp-1", condition("UpToDate")), **INITIALIZED))
    )
    assert len(publisher.newest) == 0


async def test_what_was_written_before_a_restore_of_which_no_watch_tells_is_written_again(
    three: World, publisher: Publisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = report(condition("Available"), machines=of(three, "cp-1", condition("UpToDate")), replicas=3, **INITIALIZED)
    backup, now = copy.deepcopy(three.api.objects), [0.0]
    monkeypatch.setattr("quorate.clusterapi.connect.newest._now", lambda: now[0])
    three.api.version += 500
    await publisher.publish(publisher.changes(three.kcp, told))
    three.api.objects = backup  # before the watches told of what was written
    await three.sync()
    await publisher.publish(publisher.changes(three.kcp, told))
    assert "conditions" not in three.api.raw(KCPS, "demo")["status"]
    now[0] = RETENTION
    assert has_news(publisher, three.kcp, told)
    await publisher.publish(publisher.changes(three.kcp, told))
    assert three.api.raw(KCPS, "demo")["status"]["conditions"]
    assert three.api.raw("machines", "cp-1")["status"]["conditions"]


async def test_the_newest_is_what_was_written_until_the_cache_has_it_or_more() -> None:
    def machine(version: str, uid: str = "u") -> Machine:
        return msgspec.convert({"metadata": {"name": "m", "uid": uid, "resourceVersion": version}}, Machine)

    newest = Newest()
    assert newest.of(machine("9")) == machine("9")
    newest.remember(machine("10"))
    assert newest.of(machine("9")) == machine("10")
    assert newest.of(machine("9", "other")) == machine("9", "other")
    assert newest.of(machine("11")) == machine("11")
    assert newest.of(machine("9")) == machine("9")  # forgotten: the cache has had it
