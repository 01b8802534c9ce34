"""Making one Machine, whatever happens in between."""

from __future__ import annotations

import re
from asyncio import CancelledError
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from quorate.clusterapi.act import creation
from quorate.clusterapi.act.creation import CreationFailed
from quorate.clusterapi.act.refusal import Refused
from quorate.clusterapi.desired import intent
from quorate.clusterapi.desired import objects as desired
from quorate.clusterapi.types.names import Label
from quorate.core.machines.decide import decide
from quorate.core.machines.steps import AbandonCreation, CreateReplica
from quorate.kubernetes.controller import Request
from quorate.kubernetes.errors import Conflict, ConnectionFailed, Invalid
from quorate.kubernetes.resource import CRDS
from quorate.kubernetes.tasks import sole

if TYPE_CHECKING:
    from quorate.clusterapi.observe.observation import Observation
    from quorate.core.machines.steps import Step
    from tests.clusterapi.loop.conftest import World

FIRST = CreateReplica("", initialize=True)
OURS, METADATA = "capi-kubeadmcontrolplane", "capi-kubeadmcontrolplane-metadata"
WRITES = 7
INFRASTRUCTURE = "infrastructure.cluster.x-k8s.io"
SMALL = f"DevMachineTemplate.{INFRASTRUCTURE}/small"
DEMO = Request("default", "demo")


async def create(world: World) -> None:
    await world.actor.perform(FIRST, await world.look())


def recorded(world: World) -> intent.Intent | None:
    return intent.read(world.kcp.metadata.annotations)


async def test_the_intent_comes_first_the_machine_after_its_companions_and_the_intent_goes(empty: World) -> None:
    await create(empty)
    (name,) = empty.api.names("machines")
    assert empty.log[0] == empty.log[-1] == "patch kubeadmcontrolplanes demo"
    assert empty.log[-2] == f"apply machines {name} as {OURS}"
    assert sorted(empty.log[1:-2]) == [
        f"apply devmachines {name} as {OURS}",
        f"apply devmachines {name} as {METADATA}",
        f"apply kubeadmconfigs {name} as {OURS}",
        f"apply kubeadmconfigs {name} as {METADATA}",
    ]
    for plural in ("devmachines", "kubeadmconfigs"):
        assert empty.log.index(f"apply {plural} {name} as {OURS}") < empty.log.index(f"apply {plural} {name} as {METADATA}")
    assert len(empty.log) == WRITES
    assert recorded(empty) is None
    written = empty.api.bodies[0][1]["metadata"]["annotations"][intent.ANNOTATION]
    assert intent.read({intent.ANNOTATION: written}) == intent.Intent(name, initialize=True, template=SMALL)


@pytest.mark.parametrize("number", range(WRITES))
@pytest.mark.parametrize("failure", [lambda: ConnectionFailed("the answer was lost"), CancelledError], ids=["lost answer", "crash"])
async def test_after_a_crash_at_any_write_a_repeat_ends_with_one_set(
    empty: World, number: int, failure: Callable[[], BaseException]
) -> None:
    empty.api.fail_at, empty.api.failure = number, failure
    with pytest.raises((ConnectionFailed, CreationFailed, CancelledError, ExceptionGroup)):
        await create(empty)
    begun = recorded(empty)
    assert (begun is None) == (number == WRITES - 1)
    if begun is not None:
        await create(empty)
        assert empty.api.names("machines") == [begun.name]
    assert {plural: len(empty.api.names(plural)) for plural in ("machines", "devmachines", "kubeadmconfigs")} == {
        "machines": 1,
        "devmachines": 1,
        "kubeadmconfigs": 1,
    }
    assert empty.api.names("machines") == empty.api.names("devmachines") == empty.api.names("kubeadmconfigs")
    assert recorded(empty) is None


async def test_a_machine_that_exists_is_not_applied_again_to_finish_its_creation(empty: World) -> None:
    empty.api.fail_at = WRITES - 2
    with pytest.raises(CreationFailed):
        await create(empty)
    empty.api.change("kubeadmcontrolplanes", "demo", {"spec": {"version": "v1.35.0"}})
    empty.log.clear()
    await create(empty)
    assert empty.log == ["patch kubeadmcontrolplanes demo"]
    (name,) = empty.api.names("machines")
    assert empty.api.raw("machines", name)["spec"]["version"] == "v1.34.4"


async def test_a_control_plane_that_changed_meanwhile_has_nothing_made_for_it(empty: World) -> None:
    observation = await empty.look()
    empty.api.change("kubeadmcontrolplanes", "demo", {"spec": {"replicas": 0}})
    with pytest.raises(Conflict):
        await empty.actor.perform(FIRST, observation)
    assert empty.log == []
    assert recorded(empty) is None


async def test_the_machine_is_made_from_what_was_observed_defaults_included(empty: World) -> None:
    empty.api.change("kubeadmcontrolplanes", "demo", {"spec": {"version": "1.34.4"}})
    await create(empty)
    (name,) = empty.api.names("machines")
    assert empty.api.raw("machines", name)["spec"]["version"] == "v1.34.4"


async def test_a_new_name_is_never_that_of_a_machine_that_exists(empty: World) -> None:
    await create(empty)
    (name,) = empty.api.names("machines")
    again = type(empty)()
    await again.set_up()
    again.api.put("machines", {"metadata": {"name": name}, "spec": {}})
    await create(again)
    assert len(again.api.names("machines")) == 2


async def test_the_caches_are_awaited_after_a_creation(empty: World) -> None:
    await create(empty)
    assert empty.clients.expectations.pending(DEMO)
    await empty.sync()
    assert not empty.clients.expectations.pending(DEMO)


async def test_labels_that_were_not_written_are_not_taken_for_written(empty: World) -> None:
    empty.api.fail_at = 3
    with pytest.raises((ConnectionFailed, ExceptionGroup)):
        await create(empty)
    failed = empty.log[3]
    await create(empty)
    assert empty.log.count(failed) == 2


async def test_what_fails_side_by_side_is_told_as_one_failure(empty: World) -> None:
    empty.api.trouble["apply", "devmachines"] = ConnectionFailed("refused")
    with pytest.raises(ExceptionGroup) as caught:
        await create(empty)
    assert str(sole(caught.value)) == "refused"


@pytest.mark.parametrize(
    ("plural", "reason"),
    [
        ("devmachines", "InfrastructureTemplateCloningFailed"),
        ("kubeadmconfigs", "BootstrapTemplateCloningFailed"),
        ("machines", "MachineGenerationFailed"),
    ],
)
async def test_the_part_that_could_not_be_made_is_named(empty: World, plural: str, reason: str) -> None:
    empty.api.trouble["apply", plural] = Invalid("size: too small")
    with pytest.raises((CreationFailed, ExceptionGroup)) as caught:
        await create(empty)
    failure = sole(ExceptionGroup("", [caught.value]))
    assert isinstance(failure, CreationFailed)
    assert (failure.reason, str(failure), type(failure.__cause__)) == (reason, "size: too small", Invalid)


async def test_a_template_that_has_gone_is_a_failure_to_clone_it(empty: World) -> None:
    observation = await empty.look()
    del empty.api.objects["devmachinetemplates", "default", "small"]
    with pytest.raises(ExceptionGroup) as caught:
        await empty.actor.perform(FIRST, observation)
    failure = sole(caught.value)
    assert isinstance(failure, CreationFailed)
    assert failure.reason == "InfrastructureTemplateCloningFailed"


async def test_a_conflict_in_a_creation_stays_one(empty: World) -> None:
    empty.api.trouble["apply", "machines"] = Conflict("changed")
    with pytest.raises(Conflict):
        await create(empty)


async def cut_short(world: World) -> intent.Intent:
    """A creation that ended once the companions were made: what is recorded of it."""
    world.api.fail_at = WRITES - 3
    with pytest.raises((ConnectionFailed, ExceptionGroup)):
        await create(world)
    begun = recorded(world)
    assert begun is not None
    return begun


async def test_an_abandoned_creation_takes_its_companions_and_the_intent_away(empty: World) -> None:
    begun = await cut_short(empty)
    await empty.actor.perform(AbandonCreation(begun.name), await empty.look())
    assert (empty.api.names("devmachines"), empty.api.names("kubeadmconfigs"), recorded(empty)) == ([], [], None)


async def test_no_creation_is_abandoned_for_a_cluster_that_was_paused_meanwhile(empty: World) -> None:
    begun = await cut_short(empty)
    observation = await empty.look()
    empty.api.change("clusters", "demo", {"spec": {"paused": True}})
    with pytest.raises(Refused, match="was paused after this was decided"):
        await empty.actor.perform(AbandonCreation(begun.name), observation)
    assert empty.api.names("devmachines") == empty.api.names("kubeadmconfigs") == [begun.name]
    assert recorded(empty) == begun


async def test_an_abandoned_creation_leaves_objects_of_its_name_that_others_made(empty: World) -> None:
    empty.api.fail_at = 0
    with pytest.raises(ConnectionFailed):
        await create(empty)
    begun = recorded(empty)
    assert begun is not None
    for plural in ("devmachines", "kubeadmconfigs"):
        owner = {"apiVersion": "v1", "kind": "Other", "name": "o", "uid": "another-uid"}
        empty.api.put(plural, {"metadata": {"name": begun.name, "ownerReferences": [owner]}, "spec": {}})
    await empty.actor.perform(AbandonCreation(begun.name), await empty.look())
    assert empty.api.names("devmachines") == empty.api.names("kubeadmconfigs") == [begun.name]
    assert recorded(empty) is None


async def test_what_took_the_place_of_a_companion_meanwhile_is_not_deleted(empty: World) -> None:
    begun = await cut_short(empty)
    observation = await empty.look()

    def another() -> None:
        del empty.api.objects["devmachines", "default", begun.name]
        empty.api.put("devmachines", {"metadata": {"name": begun.name}})

    empty.api.before["delete"] = another
    with pytest.raises(Conflict):
        await empty.actor.perform(AbandonCreation(begun.name), observation)
    assert empty.api.names("devmachines") == [begun.name]


@pytest.mark.parametrize("plural", ["devmachines", "kubeadmconfigs"])
async def test_what_a_machine_owns_too_by_now_is_not_deleted(empty: World, plural: str) -> None:
    """Another process went on with the creation, and the Machine controller has made its Machine an owner beside the control plane."""
    begun = await cut_short(empty)
    observation = await empty.look()
    machine = {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "name": begun.name, "uid": "m", "controller": True}
    owners = empty.api.raw(plural, begun.name)["metadata"]["ownerReferences"]
    empty.api.change(plural, begun.name, {"metadata": {"ownerReferences": [*owners, machine]}})
    await empty.actor.perform(AbandonCreation(begun.name), observation)
    assert empty.api.names(plural) == [begun.name]


async def test_what_has_changed_since_it_was_read_is_not_deleted(empty: World) -> None:
    begun = await cut_short(empty)
    observation = await empty.look()

    def take_over() -> None:
        empty.api.change("devmachines", begun.name, {"metadata": {"annotations": {"a": "b"}}})

    empty.api.before["delete"] = take_over
    with pytest.raises(Conflict):
        await empty.actor.perform(AbandonCreation(begun.name), observation)
    assert empty.api.names("devmachines") == [begun.name]
    assert recorded(empty) == begun


async def with_another_kind_of_infrastructure(world: World) -> intent.Intent:
    """A creation stopped once its companions were made, and then the control plane got a template of another kind."""
    world.api.fail_at = WRITES - 3
    with pytest.raises((ConnectionFailed, ExceptionGroup)):
        await create(world)
    for kind in ("BigMachine", "BigMachineTemplate"):
        metadata = {"name": f"{kind.lower()}s.{INFRASTRUCTURE}", "namespace": "", "labels": {Label.CONTRACT: "v1beta2"}}
        world.api.put(CRDS.plural, {"metadata": metadata, "spec": {"names": {"kind": kind}}})
    template = {"apiVersion": f"{INFRASTRUCTURE}/v1beta2", "kind": "BigMachineTemplate", "metadata": {"name": "big"}, "spec": {}}
    world.api.put("bigmachinetemplates", template)
    reference = {"apiGroup": INFRASTRUCTURE, "kind": "BigMachineTemplate", "name": "big"}
    world.api.change("kubeadmcontrolplanes", "demo", {"spec": {"machineTemplate": {"spec": {"infrastructureRef": reference}}}})
    await world.caches.foreign.resource(INFRASTRUCTURE, "BigMachineTemplate")
    begun = recorded(world)
    assert begun is not None
    assert world.api.names("devmachines") == [begun.name]
    return begun


async def test_a_creation_that_goes_on_with_another_kind_of_infrastructure_leaves_none_of_the_first(empty: World) -> None:
    begun = await with_another_kind_of_infrastructure(empty)
    await create(empty)
    (name,) = empty.api.names("machines")
    assert name != begun.name
    assert (empty.api.names("devmachines"), empty.api.names("bigmachines"), empty.api.names("kubeadmconfigs")) == ([], [name], [name])
    assert empty.api.raw("machines", name)["spec"]["infrastructureRef"]["kind"] == "BigMachine"


JOIN = CreateReplica("", initialize=False)


async def begun(world: World, step: CreateReplica) -> intent.Intent:
    """A creation stopped once its companions were made."""
    world.api.fail_at = world.api.writes + WRITES - 3
    with pytest.raises((ConnectionFailed, CreationFailed, ExceptionGroup)):
        await world.actor.perform(step, await world.look())
    found = recorded(world)
    assert found is not None
    assert world.api.names("kubeadmconfigs")[-1:] == world.api.names("devmachines")[-1:] == [found.name]
    return found


def founded_by_another(world: World) -> None:
    """Another provider had the control plane meanwhile: its Machine founded the cluster, and runs."""
    world.add_machine("theirs", member=1)
    world.workload.kubeadm_config = True
    world.api.change("kubeadmcontrolplanes", "demo", {"status": {"initialization": {"controlPlaneInitialized": True}}})


async def test_who_is_to_join_never_comes_out_as_the_one_that_founds_the_cluster(empty: World) -> None:
    first = await begun(empty, FIRST)
    founded_by_another(empty)
    await empty.actor.perform(JOIN, await empty.look())
    (made,) = set(empty.api.names("machines")) - {"theirs"}
    assert made != first.name
    assert "initConfiguration" not in empty.api.raw("kubeadmconfigs", made)["spec"]
    assert desired.FOUNDED_BY not in empty.annotations("machines", made)
    assert set(empty.api.names("kubeadmconfigs")) == set(empty.api.names("devmachines")) == {"theirs", made}
    assert recorded(empty) is None


def in_another_domain(_: World) -> CreateReplica:
    return CreateReplica("b", initialize=True)


def from_another_template(world: World) -> CreateReplica:
    kind = {"apiVersion": f"{INFRASTRUCTURE}/v1beta2", "kind": "DevMachineTemplate"}
    world.api.put("devmachinetemplates", {**kind, "metadata": {"name": "large"}, "spec": {"template": {"spec": {"size": 8}}}})
    reference = {"apiGroup": INFRASTRUCTURE, "kind": "DevMachineTemplate", "name": "large"}
    world.api.change("kubeadmcontrolplanes", "demo", {"spec": {"machineTemplate": {"spec": {"infrastructureRef": reference}}}})
    return FIRST


def as_one_that_joins(world: World) -> CreateReplica:
    founded_by_another(world)
    return JOIN


@pytest.mark.parametrize("change", [in_another_domain, from_another_template, as_one_that_joins])
@pytest.mark.parametrize("number", range(WRITES + 3))
async def test_what_was_begun_as_something_else_is_made_anew_whatever_write_a_crash_comes_after(
    empty: World, change: Callable[[World], CreateReplica], number: int
) -> None:
    first = await begun(empty, FIRST)
    step = change(empty)
    empty.api.fail_at, empty.api.failure = empty.api.writes + number, CancelledError
    with suppress(CancelledError):
        await empty.actor.perform(step, await empty.look())
    if recorded(empty) is not None:
        await empty.actor.perform(step, await empty.look())
    (made,) = set(empty.api.names("machines")) - {"theirs"}
    machine = empty.api.raw("machines", made)
    assert made != first.name
    assert set(empty.api.names("devmachines")) == set(empty.api.names("kubeadmconfigs")) == {*empty.api.names("machines")}
    assert machine["spec"].get("failureDomain", "") == step.failure_domain
    assert ("joinConfiguration" in empty.api.raw("kubeadmconfigs", made)["spec"]) != step.initialize
    assert empty.api.raw("devmachines", made)["spec"]["size"] == (8 if change is from_another_template else 4)
    assert recorded(empty) is None


async def without_machines(world: World) -> Observation:
    """From a cache of Machines that is behind all the others."""
    await world.sync()
    for machine in world.caches.machines.items():
        world.caches.machines.remove(machine)
    return await world.observe()


async def test_a_machine_that_the_cache_has_yet_to_see_is_waited_for_though_something_else_is_wanted(empty: World) -> None:
    empty.api.fail_at = WRITES - 2
    with pytest.raises(CreationFailed):
        await create(empty)
    written = list(empty.log)
    with pytest.raises(Refused, match="exists: it has yet to be seen"):
        await empty.actor.perform(CreateReplica("b", initialize=True), await without_machines(empty))
    assert empty.log == written
    await empty.actor.perform(CreateReplica("b", initialize=True), await empty.look())
    assert len(empty.api.names("machines")) == 1
    assert recorded(empty) is None


async def test_an_abandoned_creation_takes_away_the_kind_that_it_made(empty: World) -> None:
    begun = await with_another_kind_of_infrastructure(empty)
    await empty.actor.perform(AbandonCreation(begun.name), await empty.look())
    assert empty.api.names("devmachines") == empty.api.names("kubeadmconfigs") == []
    assert recorded(empty) is None


async def test_a_kind_that_never_existed_does_not_stop_a_creation_with_one_that_does(empty: World) -> None:
    never = intent.Intent("demo-abcde", initialize=True, template=f"NoMachineTemplate.{INFRASTRUCTURE}/none")
    annotation = intent.patch("", never)["metadata"]["annotations"]
    empty.api.change("kubeadmcontrolplanes", "demo", {"metadata": {"annotations": annotation}})
    await create(empty)
    (name,) = empty.api.names("machines")
    assert empty.api.names("devmachines") == [name] != ["demo-abcde"]


async def test_an_abandoned_creation_without_companions_clears_the_intent(empty: World) -> None:
    empty.api.fail_at = 0
    with pytest.raises(ConnectionFailed):
        await create(empty)
    begun = recorded(empty)
    assert begun is not None
    await empty.actor.perform(AbandonCreation(begun.name), await empty.look())
    assert recorded(empty) is None


async def test_a_machine_that_the_cache_does_not_know_yet_keeps_its_companions_when_its_creation_is_abandoned(empty: World) -> None:
    empty.api.fail_at = WRITES - 2
    with pytest.raises(CreationFailed):
        await create(empty)
    begun = recorded(empty)
    assert begun is not None
    await empty.actor.perform(AbandonCreation(begun.name), await without_machines(empty))
    assert empty.api.names("devmachines") == empty.api.names("kubeadmconfigs") == empty.api.names("machines") == [begun.name]
    assert recorded(empty) is None


async def test_an_intent_is_cleared_once_its_machine_is_seen_and_not_before(empty: World) -> None:
    empty.api.fail_at = WRITES - 2
    with pytest.raises(CreationFailed):
        await create(empty)
    observation = await empty.observe()
    await creation.settle(empty.clients, observation)
    assert recorded(empty) is not None
    await creation.settle(empty.clients, await empty.look())
    assert recorded(empty) is None


async def test_a_record_is_cleared_only_as_it_was_seen(empty: World) -> None:
    """Another process has cleared it since, and has begun the next creation."""
    empty.api.fail_at = WRITES - 2
    with pytest.raises(CreationFailed):
        await create(empty)
    made = recorded(empty)
    assert made is not None
    seen = await empty.look()
    another_process_gives_it_up(empty)
    with pytest.raises(Conflict):
        await creation.settle(empty.clients, seen)
    with pytest.raises(Conflict):
        await empty.actor.perform(AbandonCreation(made.name), seen)
    assert recorded(empty) == intent.Intent("demo-other")


def one_is_enough(world: World) -> None:
    world.api.change("kubeadmcontrolplanes", "demo", {"spec": {"replicas": 1}})


def another_provider_moves_it(world: World) -> None:
    world.api.change("clusters", "demo", {"spec": {"paused": True}})


def lead_no_more(world: World) -> None:
    world.leads = False


def another_process_gives_it_up(world: World) -> None:
    record = {intent.ANNOTATION: '{"name":"demo-other"}'}
    world.api.change("kubeadmcontrolplanes", "demo", {"metadata": {"annotations": record}})


MEANWHILE = [
    pytest.param(one_is_enough, "was changed after this was decided", id="scaled down"),
    pytest.param(another_provider_moves_it, "was paused after this was decided", id="paused"),
    pytest.param(lead_no_more, "may no longer lead", id="another leads"),
    pytest.param(another_process_gives_it_up, "was given up by another process", id="given up"),
]


def decided(world: World, seen: Observation) -> Step | None:
    assert seen.view is not None
    return decide(seen.view, world.now).step


async def two_of_three(world: World) -> None:
    """One of three is gone, and its replacement is to come."""
    world.api.objects.pop(("machines", "default", "cp-3"))
    del world.workload.members[3]
    assert decided(world, await world.look()) == JOIN


@pytest.mark.parametrize(("change", "why"), MEANWHILE)
async def test_no_machine_is_made_for_what_changed_while_its_token_was_waited_for(
    three: World, change: Callable[[World], None], why: str
) -> None:
    await two_of_three(three)
    three.workload.api.before["create"] = lambda: change(three)
    with pytest.raises((Refused, ExceptionGroup)) as caught:
        await three.actor.perform(JOIN, await three.look())
    failures = caught.value.exceptions if isinstance(caught.value, ExceptionGroup) else [caught.value]
    assert all(isinstance(failure, Refused) and re.search(why, str(failure)) for failure in failures)
    assert three.api.names("machines") == ["cp-1", "cp-2"]


async def test_no_machine_is_made_beside_one_whose_creation_was_given_up_and_that_was_made_after_all(three: World) -> None:
    """Two processes may lead for a moment: the one was about to make its Machine when the other decided on another one."""
    await two_of_three(three)
    first = await begun(three, JOIN)
    machine = {**three.api.raw("machines", "cp-1"), "metadata": {"name": first.name, "namespace": "default"}}

    def make_it_after_all() -> None:
        three.api.put("machines", machine)

    three.workload.api.before["create"] = make_it_after_all
    with pytest.raises(Refused, match=f"Machine default/{first.name}, which was begun before, exists"):
        await three.actor.perform(CreateReplica("b", initialize=False), await three.look())
    assert three.api.names("machines") == ["cp-1", "cp-2", first.name]


@pytest.mark.parametrize(("change", "why"), MEANWHILE[:2])
async def test_a_creation_does_not_go_on_for_a_specification_that_the_cache_alone_still_has(
    three: World, change: Callable[[World], None], why: str
) -> None:
    await two_of_three(three)
    await begun(three, JOIN)
    observation = await three.look()
    change(three)
    with pytest.raises(Refused, match=why):
        await three.actor.perform(JOIN, observation)
    assert three.api.names("machines") == ["cp-1", "cp-2"]


async def test_what_was_begun_and_is_no_longer_asked_for_is_taken_away(three: World) -> None:
    await two_of_three(three)
    three.workload.api.before["create"] = lambda: one_is_enough(three)
    with pytest.raises(Refused):
        await three.actor.perform(JOIN, await three.look())
    first = recorded(three)
    assert first is not None
    seen = await three.look()
    assert decided(three, seen) == AbandonCreation(first.name)
    await three.actor.perform(AbandonCreation(first.name), seen)
    assert first.name not in (*three.api.names("devmachines"), *three.api.names("kubeadmconfigs"))
    assert recorded(three) is None
