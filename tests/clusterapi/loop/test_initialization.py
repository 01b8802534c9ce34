"""Whether the cluster was initialized: yes, no with a proof, or unknown; and what becomes of Machines where it is not known."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from quorate.clusterapi.act.maintenance import maintain
from quorate.clusterapi.act.refusal import Refused
from quorate.clusterapi.types.names import Hook, Label
from quorate.clusterapi.types.resources import KUBEADM_CONTROL_PLANES
from quorate.core.health import Absent, Unknown
from quorate.core.machines.checks import INITIALIZED
from quorate.core.machines.decide import Decision, decide
from quorate.core.machines.steps import CreateReplica, DeleteReplica, ReleaseHook, Remediate, RemoveMember
from quorate.kubernetes.errors import Conflict
from quorate.workload.connection import Connectivity, Phase

if TYPE_CHECKING:
    from .conftest import World

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
KCPS = "kubeadmcontrolplanes"
RECORD = "quorate.dev/initialized"


def move(world: World) -> None:
    """clusterctl move to where the endpoint is not reached: statuses are gone, and ids that the API server gives are others."""
    world.api.change(KCPS, "demo", {"metadata": {"uid": "moved-uid"}, "status": None})
    world.api.change("clusters", "demo", {"status": {"initialization": {"infrastructureProvisioned": True}}})
    for name in world.api.names("machines"):
        owner = [{**world.api.raw("machines", name)["metadata"]["ownerReferences"][0], "uid": "moved-uid"}]
        world.api.change("machines", name, {"metadata": {"ownerReferences": owner}, "status": None})
    disconnect(world)


def disconnect(world: World) -> None:
    world.workload.connectivity = Connectivity(Phase.LOST, NOON, "connection refused", consecutive_failures=9)
    world.workload.kubeadm_config = Unknown("the workload cluster is not connected: connection refused")
    world.workload.ring_problem = "the workload cluster is not connected: connection refused"


async def decided(world: World) -> Decision:
    view = (await world.look()).view
    assert view is not None
    return decide(view, NOON)


async def initialized(world: World) -> bool | Unknown:
    view = (await world.look()).view
    assert view is not None
    return view.initialized


async def founding(world: World) -> str:
    """The first Machine, as this control plane has it made."""
    await world.actor.perform(CreateReplica("", initialize=True), await world.look())
    (name,) = world.api.names("machines")
    return str(name)


async def alone(world: World) -> None:
    """Of three one Machine is left, which upstream's provider made; it is the only one that has the data."""
    for name in ("cp-2", "cp-3"):
        del world.api.objects["machines", "default", name]
    world.api.change(KCPS, "demo", {"spec": {"replicas": 1}})
    move(world)


async def test_the_only_machine_of_a_control_plane_that_lost_its_status_is_kept(three: World) -> None:
    await alone(three)
    three.fail("cp-1")
    view = (await three.look()).view
    assert view is not None
    assert isinstance(view.initialized, Unknown)
    decision = decide(view, NOON)
    assert decision.step is None
    (check,) = [check for check in decision.refusals if check.name == INITIALIZED]
    assert "cp-1 may hold its data" in check.evidence
    assert "connection refused" in check.evidence
    assert "Restore access" in check.remedy


async def test_it_is_kept_at_our_hook_when_a_user_deletes_it(three: World) -> None:
    await alone(three)
    three.delete_machine("cp-1")
    decision = await decided(three)
    assert decision.step is None
    assert INITIALIZED in [check.name for check in decision.refusals]


@pytest.mark.parametrize("step", [DeleteReplica("cp-1"), ReleaseHook("cp-1"), Remediate("cp-1", 0), RemoveMember("cp-1", 1)])
async def test_the_last_look_keeps_it_whatever_was_decided(
    three: World, step: DeleteReplica | ReleaseHook | Remediate | RemoveMember
) -> None:
    await alone(three)
    with pytest.raises(Refused):
        await three.actor.perform(step, await three.look())
    assert three.holds_hook("cp-1")
    assert "deletionTimestamp" not in three.api.raw("machines", "cp-1")["metadata"]


async def test_one_that_is_reached_again_is_known_again(three: World) -> None:
    await alone(three)
    three.workload.connectivity = Connectivity(Phase.CONNECTED, NOON, last_success=NOON)
    three.workload.kubeadm_config = True
    assert await initialized(three) is True
    three.workload.kubeadm_config = False  # somebody deleted the ConfigMap: that proves nothing
    assert isinstance(await initialized(three), Unknown)


async def test_what_was_initialized_once_is_so_after_a_move_and_a_restore_without_machines(three: World) -> None:
    await maintain(three.clients, await three.look())
    assert three.annotations(KCPS, "demo")[RECORD] == "true"
    for name in three.api.names("machines"):
        del three.api.objects["machines", "default", name]
    move(three)
    assert await initialized(three) is True
    assert (await decided(three)).step is None


async def test_it_is_put_on_record_once(three: World) -> None:
    await maintain(three.clients, await three.look())
    await maintain(three.clients, await three.look())
    assert len([line for line in three.log if line == f"patch {KCPS} demo"]) == 1


async def test_it_is_not_put_on_record_for_a_control_plane_of_the_same_name_that_is_made_anew(three: World) -> None:
    """Nobody would ever found its cluster."""
    observation = await three.look()
    three.api.change(KCPS, "demo", {"metadata": {"uid": "another"}})
    with pytest.raises(ExceptionGroup) as caught:
        await maintain(three.clients, observation)
    assert caught.group_contains(Conflict)
    assert RECORD not in three.annotations(KCPS, "demo")


async def test_the_cluster_keeps_the_record_too(three: World) -> None:
    await alone(three)
    three.api.change("clusters", "demo", {"status": {"initialization": {"controlPlaneInitialized": True}}})
    assert await initialized(three) is True


async def test_nothing_is_known_to_be_initialized_before_anything_is_made(empty: World) -> None:
    assert await initialized(empty) is False
    disconnect(empty)
    assert await initialized(empty) is False


async def test_the_machine_that_this_very_control_plane_had_made_to_found_the_cluster_proves_that_nobody_had(empty: World) -> None:
    name = await founding(empty)
    assert await initialized(empty) is False
    await maintain(empty.clients, await empty.look())
    assert await initialized(empty) is False
    empty.workload.kubeadm_config = Unknown("no answer")
    assert await initialized(empty) is False
    empty.add_machine("cp-2")
    assert isinstance(await initialized(empty), Unknown)
    del empty.api.objects["machines", "default", "cp-2"]
    empty.api.change("machines", name, {"metadata": {"annotations": {"quorate.dev/founded-by": "another uid"}}})
    assert isinstance(await initialized(empty), Unknown)


async def test_the_founding_machine_is_kept_if_it_became_a_node_while_nobody_looked(empty: World) -> None:
    """kubeadm ended, and the API server went, while this process did not run."""
    name = await founding(empty)
    empty.api.change("machines", name, {"status": {"nodeRef": {"name": name}}})
    assert await initialized(empty) is False  # the API server itself says that kubeadm has yet to end
    disconnect(empty)
    empty.fail(name)
    decision = await decided(empty)
    assert decision.step is None
    (check,) = [check for check in decision.refusals if check.name == INITIALIZED]
    assert f"{name} may hold its data, and the workload cluster is not connected" in check.evidence
    with pytest.raises(Refused):
        await empty.actor.perform(Remediate(name, 0), await empty.look())
    assert empty.holds_hook(name)


async def test_the_founding_machine_is_kept_where_a_worker_joined_and_somebody_deleted_kubeadms_configuration(empty: World) -> None:
    """No kubeadm joins before another one has founded the cluster, whatever the API server has of that now."""
    name = await founding(empty)
    empty.add_machine("worker-1")
    worker = {"metadata": {"labels": {Label.CONTROL_PLANE: None}, "ownerReferences": None}, "status": {"nodeRef": {"name": "worker-1"}}}
    empty.api.change("machines", "worker-1", worker)
    empty.workload.kubeadm_config = False
    view = (await empty.look()).view
    assert view is not None
    assert isinstance(view.initialized, Unknown)
    assert f"{name} may hold its data" in view.initialized.reason
    assert (await decided(empty)).step is None


async def test_no_second_cluster_is_founded_for_workers_that_joined_the_first(three: World) -> None:
    """GitOps took the record away and made the control plane anew, whose Machines are gone; the API server that the workers know is not reached."""
    for name in ("cp-1", "cp-2", "cp-3"):
        del three.api.objects["machines", "default", name]
    three.add_machine("worker-1")
    three.api.change(
        "machines",
        "worker-1",
        {"metadata": {"labels": {Label.CONTROL_PLANE: None}, "ownerReferences": None}, "status": {"nodeRef": {"name": "worker-1"}}},
    )
    three.api.change(KCPS, "demo", {"metadata": {"uid": "created-anew"}, "status": None})
    three.api.change("clusters", "demo", {"status": {"initialization": {"controlPlaneInitialized": None}}})
    disconnect(three)
    view = (await three.look()).view
    assert view is not None
    assert isinstance(view.initialized, Unknown)
    assert "worker-1 joined it" in view.initialized.reason
    assert not isinstance(decide(view, NOON).step, CreateReplica)
    three.workload.kubeadm_config = True
    assert await initialized(three) is True


DELETED = {
    "apiVersion": KUBEADM_CONTROL_PLANES.api_version,
    "kind": "KubeadmControlPlane",
    "name": "demo",
    "uid": "deleted",
    "controller": True,
}


@pytest.mark.parametrize("owner", [[], [DELETED]], ids=["nobody's", "of the one that is gone"])
async def test_orphans_of_a_control_plane_that_was_deleted_keep_its_successor_from_founding(three: World, owner: list[object]) -> None:
    """Deleted with `--cascade=orphan` and made anew: its Machines are nobody's, or name the one that is gone."""
    move(three)
    for name in ("cp-1", "cp-2", "cp-3"):
        three.api.change("machines", name, {"metadata": {"ownerReferences": owner}})
    assert not isinstance((await decided(three)).step, CreateReplica)
    three.api.change("machines", "cp-1", {"spec": {"version": "v1.20.0"}})
    assert not isinstance((await decided(three)).step, CreateReplica)


async def test_cas_older_than_the_control_plane_prove_nothing(empty: World) -> None:
    """Users bring their own before they make a control plane; a Secret tells nothing of who used it."""
    secret = {"name": "demo-ca", "creationTimestamp": "2020-01-01T00:00:00Z", "labels": {Label.CLUSTER_NAME: "demo"}}
    empty.api.put("secrets", {"metadata": secret, "type": "cluster.x-k8s.io/secret", "data": {}})
    assert await initialized(empty) is False


async def test_kubeadms_configuration_says_so_even_of_a_machine_that_failed_or_waits_at_our_hook(empty: World) -> None:
    name = await founding(empty)
    empty.workload.kubeadm_config = True
    empty.fail(name)
    assert await initialized(empty) is True
    empty.delete_machine(name)
    assert await initialized(empty) is True


async def test_it_does_not_while_the_founding_machine_ends_that_was_let_go(empty: World) -> None:
    """Its successor would wait to join nothing."""
    name = await founding(empty)
    empty.delete_machine(name)
    empty.api.change("machines", name, {"metadata": {"annotations": {Hook.PRE_TERMINATE: None}}})
    empty.workload.kubeadm_config = True
    assert await initialized(empty) is False
    empty.api.change("machines", name, {"metadata": {"annotations": {"quorate.dev/founded-by": "another uid"}}})
    assert await initialized(empty) is True


@pytest.mark.parametrize("step", [ReleaseHook, lambda name: Remediate(name, 0)], ids=["release", "remediate"])
async def test_the_founding_machine_is_not_let_go_once_kubeadm_has_finished_on_it(empty: World, step: type[ReleaseHook]) -> None:
    name = await founding(empty)
    observation = await empty.look()
    empty.workload.kubeadm_config = True
    with pytest.raises(Refused, match="kubeadm has initialized the cluster meanwhile"):
        await empty.actor.perform(step(name), observation)
    assert empty.holds_hook(name)


async def test_a_machine_that_joined_founded_nothing(three: World) -> None:
    await three.actor.perform(CreateReplica("", initialize=False), await three.look())
    assert all("quorate.dev/founded-by" not in three.annotations("machines", name) for name in three.api.names("machines"))


async def test_the_members_of_what_may_be_initialized_are_not_called_absent(three: World) -> None:
    await alone(three)
    view = (await three.look()).view
    assert view is not None
    assert not any(isinstance(replica.member, Absent) for replica in view.replicas)
