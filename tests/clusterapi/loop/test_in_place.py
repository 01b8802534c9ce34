"""Updates in place, from what is seen to what is written: upstream's five writes in their order, and what a crash after each leaves to be done."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from quorate.cli.machines.status import status_of
from quorate.clusterapi.act.maintenance import maintain
from quorate.clusterapi.act.refusal import Refused
from quorate.clusterapi.extensions.caller import CallFailed
from quorate.clusterapi.extensions.registry import find
from quorate.clusterapi.inspection import Finding
from quorate.clusterapi.observe.updates import AsReported, update_of
from quorate.clusterapi.report import report
from quorate.clusterapi.types.names import Annotation
from quorate.core.health import Health
from quorate.core.machines.decide import Decision, decide
from quorate.core.machines.rules.in_place import EXTENSION_ANSWERS, NO_UPDATE
from quorate.core.machines.state import Answer, InPlace
from quorate.core.machines.steps import AskExtension, DeleteReplica, UpdateInPlace
from quorate.kubernetes.controller import Request
from quorate.kubernetes.errors import Conflict, ConnectionFailed, Forbidden, Invalid, ServerError

if TYPE_CHECKING:
    from quorate.clusterapi.observe.observation import Observation
    from quorate.clusterapi.types.kubeadm_control_plane import KubeadmControlPlane
    from tests.clusterapi.loop.conftest import World

DEMO = Request("default", "demo")
KCPS = "kubeadmcontrolplanes"
FILES = [{"path": "/etc/motd", "content": "secret"}]
NEW: dict[str, Any] = {
    "spec": {"version": "v1.34.5", "kubeadmConfigSpec": {"files": FILES}, "rollout": {"strategy": {"rollingUpdate": {"maxSurge": 0}}}}
}
WRITES = [
    "patch machines cp-1",
    "apply devmachines cp-1 as capi-kubeadmcontrolplane",
    "apply kubeadmconfigs cp-1 as capi-kubeadmcontrolplane",
    "apply machines cp-1 as capi-kubeadmcontrolplane",
    "patch machines cp-1",
]


async def changed(world: World, patch: dict[str, Any] | None = None) -> World:
    """What is desired has changed, and the workload cluster is prepared for it."""
    world.api.change(KCPS, "demo", patch or NEW)
    await world.keep_up()
    world.log.clear()
    return world


async def decided(world: World) -> tuple[Decision, Observation]:
    observation = await world.look()
    assert observation.view is not None
    return decide(observation.view, world.now), observation


async def go_on(world: World, most: int = 5) -> Decision:
    """Take steps that ask or update until there is another one, or none."""
    for _ in range(most):
        decision, observation = await decided(world)
        if not isinstance(decision.step, AskExtension | UpdateInPlace):
            break
        await world.actor.perform(decision.step, observation)
    return (await decided(world))[0]


def in_place(observation: Observation, name: str = "cp-1") -> InPlace | None:
    assert observation.view is not None
    return observation.view.replica(name).in_place


def is_begun(world: World, name: str = "cp-1") -> bool:
    """Whether all five writes have been made."""
    machine, config = world.api.raw("machines", name), world.api.raw("kubeadmconfigs", name)
    marked = [Annotation.UPDATE_IN_PROGRESS in world.annotations(kind, name) for kind in ("machines", "kubeadmconfigs", "devmachines")]
    hook = world.annotations("machines", name).get(Annotation.PENDING_HOOKS)
    return all(marked) and hook == "UpdateMachine" and machine["spec"]["version"] == "v1.34.5" and config["spec"]["files"] == FILES


async def test_five_writes_in_upstreams_order_after_leadership_has_moved(updatable: World) -> None:
    await changed(updatable)
    decision = await go_on(updatable)
    asked, asked_again, *rest = updatable.log
    assert asked == asked_again == "ask canupdatemachine.ext about cp-1"
    assert rest == ["move_leader to 2 through cp-1", *WRITES, *rest[6:]]
    assert rest[6:] == ["ask canupdatemachine.ext about cp-2", "ask canupdatemachine.ext about cp-3"]
    assert is_begun(updatable)
    assert decision.step is None
    assert [check.name for check in decision.refusals] == [NO_UPDATE]


async def test_what_is_written_is_what_upstream_writes(updatable: World) -> None:
    await changed(updatable)
    await go_on(updatable)
    bodies = {what: body for what, body in updatable.api.bodies if what in WRITES}
    infrastructure, config, machine = (bodies[what] for what in WRITES[1:4])
    marks = {Annotation.UPDATE_IN_PROGRESS: ""}
    cloned = {
        "cluster.x-k8s.io/cloned-from-name": "small",
        "cluster.x-k8s.io/cloned-from-groupkind": "DevMachineTemplate.infrastructure.cluster.x-k8s.io",
    }
    assert infrastructure["spec"] == {"size": 4}
    assert infrastructure["metadata"]["annotations"] == {"note": "x", **cloned, **marks}
    assert infrastructure["metadata"]["uid"] == updatable.api.raw("devmachines", "cp-1")["metadata"]["uid"]
    assert config["metadata"]["annotations"] == marks
    assert config["spec"]["joinConfiguration"] == {"controlPlane": {}}
    assert machine["spec"]["version"] == "v1.34.5"
    assert (
        Annotation.UPDATE_IN_PROGRESS not in machine["metadata"]["annotations"]
    )  # or an apply would put it back when core has taken it away
    first, *_, last = [body for what, body in updatable.api.bodies if what == WRITES[0]]
    assert first["metadata"]["annotations"] == marks
    assert last["metadata"]["annotations"] == {Annotation.PENDING_HOOKS: "UpdateMachine"}
    assert all("resourceVersion" in body["metadata"] and "uid" in body["metadata"] for body in (first, last))


async def test_other_hooks_that_are_pending_stay(updatable: World) -> None:
    await changed(updatable)
    updatable.api.change("machines", "cp-1", {"metadata": {"annotations": {Annotation.PENDING_HOOKS: "Other"}}})
    await go_on(updatable)
    assert updatable.annotations("machines", "cp-1")[Annotation.PENDING_HOOKS] == "Other,UpdateMachine"


@pytest.mark.parametrize("lost", range(5))
async def test_a_lost_answer_to_any_of_the_writes_leaves_the_rest_to_the_next_pass(updatable: World, lost: int) -> None:
    await changed(updatable)
    updatable.api.writes, updatable.api.fail_at = 0, lost
    with pytest.raises(ConnectionFailed):
        await go_on(updatable)
    assert is_begun(updatable) is (lost == 4)
    await go_on(updatable)
    assert is_begun(updatable)
    assert updatable.log.count(WRITES[0]) == 2  # the mark and the hook, each once
    assert [
        machine for machine in ("cp-2", "cp-3") if updatable.annotations("machines", machine).get(Annotation.UPDATE_IN_PROGRESS) is not None
    ] == []


@pytest.mark.parametrize("lost", range(4))
async def test_what_was_begun_is_not_finished_by_another_specification_unless_the_extension_can_do_that_too(
    updatable: World, lost: int
) -> None:
    await changed(updatable)
    updatable.api.writes, updatable.api.fail_at = 0, lost
    with pytest.raises(ConnectionFailed):
        await go_on(updatable)
    updatable.extension.leaves = {"bootstrapConfig"}
    await changed(updatable, {"spec": {"kubeadmConfigSpec": {"ntp": {"enabled": True}}}})
    decision = await go_on(updatable)
    assert decision.step == DeleteReplica("cp-1")
    assert updatable.annotations("machines", "cp-1").get(Annotation.PENDING_HOOKS) is None


async def test_what_was_begun_by_upstream_is_finished(updatable: World) -> None:
    await changed(updatable)
    updatable.api.change("machines", "cp-2", {"metadata": {"annotations": {Annotation.UPDATE_IN_PROGRESS: ""}}})
    await go_on(updatable)
    assert is_begun(updatable, "cp-2")
    assert not is_begun(updatable)


async def test_the_extension_sees_no_token_and_no_difference_but_that_which_counts(updatable: World) -> None:
    discovery = {"joinConfiguration": {"discovery": {"bootstrapToken": {"token": "abcdef.0123456789abcdef"}}}}
    cluster = {"clusterConfiguration": {"controlPlaneEndpoint": "10.0.0.1:6443"}}
    updatable.api.change("kubeadmconfigs", "cp-1", {"spec": discovery | cluster})
    await changed(updatable)
    await go_on(updatable)
    request = updatable.extension.asked[0]
    assert "abcdef" not in str(request)
    current, desired = request["current"], request["desired"]
    assert (current["machine"]["spec"]["version"], desired["machine"]["spec"]["version"]) == ("v1.34.4", "v1.34.5")
    assert current["machine"].keys() == {"apiVersion", "kind", "metadata", "spec"}
    assert current["bootstrapConfig"]["spec"] == {
        name: value for name, value in desired["bootstrapConfig"]["spec"].items() if name != "files"
    }
    assert desired["bootstrapConfig"]["spec"]["files"] == FILES
    assert current["bootstrapConfig"]["metadata"]["labels"] == desired["bootstrapConfig"]["metadata"]["labels"]
    assert current["infrastructureMachine"]["spec"] == {"providerID": "test:///cp-1"}
    assert desired["infrastructureMachine"]["spec"] == {"providerID": "test:///cp-1", "size": 4}


async def test_what_is_left_over_is_named_without_its_values_and_the_machine_is_replaced(updatable: World) -> None:
    updatable.extension.leaves = {"bootstrapConfig"}
    await changed(updatable)
    decision = await go_on(updatable, most=1)
    _, observation = await decided(updatable)
    answer = in_place(observation)
    assert answer == InPlace(Answer.NO, "canupdatemachine.ext", "canupdatemachine.ext leaves over KubeadmConfig spec.files: is not set")
    assert decision.step == DeleteReplica("cp-1")
    assert WRITES[1] not in updatable.log


async def test_an_answer_counts_as_long_as_nothing_changes_that_was_shown(updatable: World) -> None:
    updatable.extension.leaves = {"bootstrapConfig"}
    await changed(updatable)
    await go_on(updatable, most=1)
    for _ in range(2):
        assert (await decided(updatable))[0].step == DeleteReplica("cp-1")
    assert len(updatable.extension.asked) == 1
    await changed(updatable, {"spec": {"kubeadmConfigSpec": {"verbosity": 2}}})
    assert (await decided(updatable))[0].step == AskExtension("cp-1")


@pytest.mark.parametrize(
    ("trouble", "failure", "told"),
    [(CallFailed("no answer within 10 s"), "", "no answer within 10 s"), (None, "disk is full", "it says that it failed: disk is full")],
)
async def test_one_that_does_not_answer_is_waited_for_named_and_asked_again_later(
    updatable: World, trouble: Exception | None, failure: str, told: str
) -> None:
    updatable.extension.trouble, updatable.extension.failure = trouble, failure
    await changed(updatable)
    decision = await go_on(updatable)
    check = next(check for check in decision.refusals if check.name == EXTENSION_ANSWERS)
    assert told in check.evidence
    assert "canupdatemachine.ext" in check.evidence
    assert check.remedy
    assert decision.wake_at is not None
    assert len(updatable.extension.asked) == 3  # each Machine once
    _, observation = await decided(updatable)
    condition = {each["type"]: each for each in conditions(updatable, observation, decision)}["UpdatableInPlace"]
    assert (condition["status"], condition["reason"]) == ("Unknown", "ExtensionNotUsable")
    assert told in condition["message"]
    updatable.now = decision.wake_at
    updatable.extension.trouble, updatable.extension.failure = None, ""
    await go_on(updatable)
    assert is_begun(updatable)


async def test_a_failure_that_is_to_be_ignored_is_an_answer_without_patches(updatable: World) -> None:
    configured = updatable.api.objects["extensionconfigs", "", "ext"]
    configured["status"]["handlers"][0]["failurePolicy"] = "Ignore"
    updatable.api.put("extensionconfigs", configured)
    updatable.extension.trouble = CallFailed("nobody there")
    await changed(updatable)
    assert (await go_on(updatable, most=1)).step == DeleteReplica("cp-1")


async def test_an_extension_that_changes_its_mind_at_the_last_instant_is_believed(updatable: World) -> None:
    await changed(updatable)
    decision, observation = await decided(updatable)
    assert decision.step == AskExtension("cp-1")
    await updatable.actor.perform(decision.step, observation)
    updatable.extension.leaves = {"machine"}
    decision, observation = await decided(updatable)
    assert decision.step == UpdateInPlace("cp-1")
    with pytest.raises(Refused, match=r"leaves over Machine spec.version: v1.34.4 instead of v1.34.5"):
        await updatable.actor.perform(decision.step, observation)
    assert WRITES[0] not in updatable.log
    assert (await decided(updatable))[0].step == DeleteReplica("cp-1")


@pytest.mark.parametrize("error", [Invalid("spec is immutable", code=422), Forbidden("denied", code=403)])
async def test_infrastructure_that_admission_refuses_is_replaced(updatable: World, error: Exception) -> None:
    updatable.api.trouble["dry run", "devmachines"] = error
    await changed(updatable)
    assert (await go_on(updatable, most=1)).step == DeleteReplica("cp-1")
    assert updatable.extension.asked == []


async def test_an_api_in_trouble_is_no_reason_to_replace_anything(updatable: World) -> None:
    updatable.api.trouble["dry run", "devmachines"] = ServerError("etcd is slow", code=500)
    await changed(updatable)
    decision = await go_on(updatable)
    assert any("etcd is slow" in check.evidence for check in decision.refusals)


async def test_nothing_is_marked_where_the_ring_fails_at_the_last_instant_and_nothing_begins_where_it_fails_after(updatable: World) -> None:
    await changed(updatable)
    await updatable.actor.perform(AskExtension("cp-1"), await updatable.look())
    decision, observation = await decided(updatable)
    assert decision.step == UpdateInPlace("cp-1")
    updatable.lose(2)
    with pytest.raises(Refused, match="quorum survives a restart"):
        await updatable.actor.perform(decision.step, observation)
    assert WRITES[0] not in updatable.log
    updatable.lose(2, Health.GOOD)
    reads = count()
    updatable.workload.before_read = lambda: updatable.lose(2) if next(reads) else None
    with pytest.raises(Refused, match="quorum survives a restart"):
        await updatable.actor.perform(decision.step, observation)
    assert updatable.log[-1] == WRITES[3]
    assert Annotation.PENDING_HOOKS not in updatable.annotations("machines", "cp-1")
    updatable.workload.before_read = lambda: None
    updatable.lose(2, Health.GOOD)
    await go_on(updatable)
    assert is_begun(updatable)


async def test_one_at_a_time_by_what_the_api_has(updatable: World) -> None:
    await changed(updatable)
    await updatable.actor.perform(AskExtension("cp-1"), await updatable.look())
    decision, observation = await decided(updatable)
    assert decision.step == UpdateInPlace("cp-1")
    updatable.api.change("machines", "cp-3", {"metadata": {"annotations": {Annotation.PENDING_HOOKS: "UpdateMachine"}}})
    with pytest.raises(Refused, match="cp-3 is being updated in place"):
        await updatable.actor.perform(decision.step, observation)
    assert WRITES[0] not in updatable.log


async def test_nothing_is_begun_by_a_process_that_may_lead_no_more_or_for_what_is_not_asked_for_any_more(updatable: World) -> None:
    await changed(updatable)
    await updatable.actor.perform(AskExtension("cp-1"), await updatable.look())
    decision, observation = await decided(updatable)
    assert decision.step == UpdateInPlace("cp-1")
    updatable.extension.before_answer = lambda: setattr(updatable, "leads", False)
    with pytest.raises(Refused, match="may no longer lead"):
        await updatable.actor.perform(decision.step, observation)
    updatable.leads = True

    def edit() -> None:
        updatable.api.change(KCPS, "demo", {"spec": {"version": "v1.34.6"}})

    updatable.extension.before_answer = edit
    with pytest.raises(Refused, match="was changed after this was decided"):
        await updatable.actor.perform(decision.step, observation)
    assert WRITES[0] not in updatable.log


async def test_a_machine_that_core_writes_to_before_the_last_write_is_looked_at_anew(updatable: World) -> None:
    await changed(updatable)
    await updatable.actor.perform(AskExtension("cp-1"), await updatable.look())
    decision, observation = await decided(updatable)
    assert decision.step is not None
    original = updatable.api.merge_patch

    async def patch(*given: Any, **options: Any) -> Any:
        if Annotation.PENDING_HOOKS in given[2].get("metadata", {}).get("annotations", {}):
            updatable.api.change("machines", "cp-1", {"status": {"phase": "Updating"}})
        return await original(*given, **options)

    updatable.api.merge_patch = patch  # type: ignore[method-assign]
    with pytest.raises(Conflict):
        await updatable.actor.perform(decision.step, observation)
    updatable.api.merge_patch = original  # type: ignore[method-assign]
    await go_on(updatable)
    assert is_begun(updatable)


async def test_maintenance_leaves_a_machine_alone_whose_update_is_half_written(updatable: World) -> None:
    await changed(updatable)
    updatable.api.change("machines", "cp-1", {"metadata": {"annotations": {Annotation.UPDATE_IN_PROGRESS: ""}}})
    await maintain(updatable.clients, await updatable.look())
    assert not [line for line in updatable.log if line.startswith("apply") and "cp-1" in line]
    assert [line for line in updatable.log if line.startswith("apply machines cp-2")]


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({}, None),
        ({Annotation.PENDING_HOOKS: "Other"}, None),
        ({Annotation.PENDING_HOOKS: "Other,UpdateMachine"}, True),
        ({Annotation.UPDATE_IN_PROGRESS: ""}, False),
        ({Annotation.UPDATE_IN_PROGRESS: "", Annotation.PENDING_HOOKS: "UpdateMachine"}, True),
    ],
)
async def test_the_marks_of_an_update(updatable: World, annotations: dict[str, str], expected: bool | None) -> None:
    updatable.api.change("machines", "cp-1", {"metadata": {"annotations": annotations}})
    update = update_of((await updatable.look()).machines[0].machine)
    assert (update.started if update else None) is expected


async def test_what_core_tells_of_an_update_is_told(updatable: World) -> None:
    updating = {"type": "Updating", "status": "True", "reason": "InPlaceUpdateFailed", "message": "UpdateMachine hook failed"}
    marks = {Annotation.UPDATE_IN_PROGRESS: "", Annotation.PENDING_HOOKS: "UpdateMachine"}
    updatable.api.change("machines", "cp-1", {"metadata": {"annotations": marks}, "status": {"conditions": [updating]}})
    decision, _ = await decided(updatable)
    check = next(check for check in decision.refusals if check.name == NO_UPDATE)
    assert "UpdateMachine hook failed" in check.evidence
    assert check.remedy


@pytest.mark.parametrize("mark", [Annotation.DELETE_MACHINE, Annotation.REMEDIATE_MACHINE])
async def test_a_machine_whose_owner_wants_another_host_is_replaced(updatable: World, mark: str) -> None:
    await changed(updatable)
    updatable.api.change("machines", "cp-1", {"metadata": {"annotations": {mark: ""}}})
    assert in_place(await updatable.look()) is None


async def test_time_alone_replaces(updatable: World) -> None:
    await changed(updatable, {"spec": {**NEW["spec"], "rollout": {**NEW["spec"]["rollout"], "after": "2026-01-01T11:59:00Z"}}})
    assert in_place(await updatable.look()) is None


@pytest.mark.parametrize("kind", ["kubeadmconfigs", "devmachines"])
async def test_a_machine_that_has_lost_what_belongs_to_it_is_replaced(updatable: World, kind: str) -> None:
    await changed(updatable)
    del updatable.api.objects[kind, "default", "cp-1"]
    await updatable.actor.perform(AskExtension("cp-1"), await updatable.look())
    answer = in_place(await updatable.look())
    assert answer is not None
    assert answer.answer is Answer.NO
    assert "is gone" in answer.reason


async def test_without_an_extension_for_the_namespace_everything_is_as_without_the_gate(updatable: World) -> None:
    del updatable.api.objects["extensionconfigs", "", "ext"]
    await changed(updatable)
    decision, observation = await decided(updatable)
    assert decision.step == DeleteReplica("cp-1")
    assert in_place(observation) is None


async def test_without_the_gate_marks_are_left_alone_and_nobody_is_asked(three: World) -> None:
    await changed(three)
    assert (await decided(three))[0].step == DeleteReplica("cp-1")
    three.api.change("machines", "cp-2", {"metadata": {"annotations": {Annotation.PENDING_HOOKS: "UpdateMachine"}}})
    decision, _ = await decided(three)
    assert decision.step is None
    assert "InPlaceUpdates is off" in decision.refusals[0].evidence
    with pytest.raises(Refused, match="InPlaceUpdates"):
        await three.actor.perform(UpdateInPlace("cp-1"), await three.look())


def conditions(world: World, observation: Observation, decision: Decision) -> list[dict[str, Any]]:
    """Those that are written on cp-1."""
    return list(report(observation, decision, now=world.now).machine_conditions["cp-1"].conditions)


async def test_what_an_extension_says_is_a_condition_that_goes_when_it_says_nothing_more(updatable: World) -> None:
    await changed(updatable)
    await updatable.actor.perform(AskExtension("cp-1"), await updatable.look())
    decision, observation = await decided(updatable)
    condition = {each["type"]: each for each in conditions(updatable, observation, decision)}["UpdatableInPlace"]
    assert (condition["status"], condition["reason"], condition["message"]) == (
        "True",
        "UpdatableInPlace",
        "canupdatemachine.ext: can update all of it",
    )
    updatable.api.change("machines", "cp-1", {"status": {"conditions": conditions(updatable, observation, decision)}})
    await go_on(updatable)
    decision, observation = await decided(updatable)
    written = report(observation, decision, now=updatable.now).machine_conditions["cp-1"]
    assert "UpdatableInPlace" not in {each["type"] for each in written.conditions}
    assert "UpdatableInPlace" in written.withdrawn


async def test_whoever_cannot_ask_goes_by_the_condition(updatable: World) -> None:
    updatable.extension.leaves = {"bootstrapConfig"}
    await changed(updatable)
    await updatable.actor.perform(AskExtension("cp-1"), await updatable.look())
    decision, observation = await decided(updatable)
    written = report(observation, decision, now=updatable.now).machine_conditions["cp-1"]
    updatable.api.change("machines", "cp-1", {"status": {"conditions": list(written.conditions)}})
    asked = in_place(observation)
    handler = find([updatable.caches.extension_configs.get("", "ext") or pytest.fail("there is none")], "default", {})
    updatable.observer = replace(updatable.observer, updates=AsReported(updatable.caches.kcps.get, handler))
    seen = await updatable.look()
    assert asked is not None
    assert in_place(seen) == replace(asked, retry_at=None)
    assert in_place(seen, "cp-2") is None
    (machine, *_) = status_of(Finding(seen, decided_on(seen, updatable)), updatable.now).machines
    assert machine.differs[-1] == f"replaced, and not updated in place: {asked.reason}"
    edited = await updatable.observer.observe(DEMO, with_another_verbosity)
    assert edited is not None
    assert in_place(edited) == InPlace(Answer.UNASKED, "canupdatemachine.ext")


def decided_on(seen: Observation, world: World) -> Decision:
    assert seen.view is not None
    return decide(seen.view, world.now)


def with_another_verbosity(kcp: KubeadmControlPlane) -> KubeadmControlPlane:
    """Somebody thinks of that."""
    spec = msgspec.structs.replace(kcp.spec, kubeadm_config_spec={**kcp.spec.kubeadm_config_spec, "verbosity": 3})
    return msgspec.structs.replace(kcp, spec=spec, metadata=msgspec.structs.replace(kcp.metadata, resource_version="edited"))
