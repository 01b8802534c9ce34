"""Damaged and old managedFields are put right before anything is applied, and only those."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.clusterapi.act.maintenance import maintain
from quorate.clusterapi.act.managed_fields import corrected
from quorate.clusterapi.types.names import FieldManager
from quorate.kubernetes.errors import Conflict

if TYPE_CHECKING:
    from tests.clusterapi.loop.conftest import World

Entry = dict[str, Any]

API_VERSION = "cluster.x-k8s.io/v1beta2"
KCP, METADATA = FieldManager.KUBEADM_CONTROL_PLANE, FieldManager.METADATA
LABELS: Entry = {"f:metadata": {"f:labels": {"f:cluster.x-k8s.io/cluster-name": {}}}, "f:spec": {"f:version": {}}}
SPEC: Entry = {"f:metadata": {"f:ownerReferences": {}}, "f:spec": {"f:version": {}}}


def entry(manager: str, operation: str = "Apply", fields: Any = None, subresource: str = "") -> Entry:
    made = {"manager": manager, "operation": operation, "apiVersion": API_VERSION, "fieldsType": "FieldsV1", "fieldsV1": fields or SPEC}
    return made | ({"subresource": subresource} if subresource else {})


def names(entries: list[Entry] | None) -> list[tuple[str, str]]:
    assert entries is not None
    return [(each["manager"], each["operation"]) for each in entries]


CONTROLLER = entry("manager", "Update", subresource="status")
CABPK = entry("manager", "Update")
USER = entry("kubectl-edit", "Update")
INVENTED = entry("before-first-apply", "Update", LABELS)
DAMAGED = (("machines", "cp-1"), ("kubeadmconfigs", "cp-2"), ("devmachines", "cp-3"))
HEALTHY = [entry(KCP), entry(METADATA, fields=LABELS), CABPK, CONTROLLER, USER]


@pytest.mark.parametrize("manager", [KCP, METADATA])
def test_healthy_ones_stay_as_they_are(manager: str) -> None:
    assert corrected(HEALTHY, manager=manager, api_version=API_VERSION) is None


@pytest.mark.parametrize("manager", [KCP, METADATA])
def test_lost_ones_get_an_entry_so_that_the_api_server_invents_none(manager: str) -> None:
    found = corrected([], manager=manager, api_version=API_VERSION)
    assert found == [entry(manager, fields={"f:metadata": {"f:name": {}}})]


def test_an_invented_owner_goes_and_all_others_stay() -> None:
    assert names(corrected([INVENTED, *HEALTHY], manager=KCP, api_version=API_VERSION)) == names(HEALTHY)
    assert names(corrected([INVENTED, USER], manager=KCP, api_version=API_VERSION)) == [("kubectl-edit", "Update"), (KCP, "Apply")]


def test_an_entry_for_the_status_alone_is_not_ownership_of_the_object() -> None:
    status = entry(METADATA, subresource="status")
    assert names(corrected([INVENTED, status], manager=METADATA, api_version=API_VERSION)) == [(METADATA, "Apply"), (METADATA, "Apply")]


def test_a_companion_of_before_the_parting_changes_hands() -> None:
    old = [entry(KCP, fields=LABELS), CABPK, CONTROLLER, USER]
    found = corrected(old, manager=METADATA, api_version=API_VERSION)
    assert found == [CONTROLLER, USER, entry(METADATA, fields={"f:metadata": {"f:name": {}}})]


def test_one_that_was_parted_half_way_keeps_what_its_new_owner_has() -> None:
    old = [entry(KCP, fields=LABELS), entry(METADATA, fields=LABELS)]
    assert corrected(old, manager=METADATA, api_version=API_VERSION) == [entry(METADATA, fields=LABELS)]


def test_the_machine_itself_is_owned_by_one_manager_labels_included() -> None:
    assert corrected([entry(KCP, fields=LABELS), CABPK], manager=KCP, api_version=API_VERSION) is None


def test_damaged_and_old_at_once_is_put_right_at_once() -> None:
    found = corrected([INVENTED, entry(KCP, fields=LABELS), CABPK], manager=METADATA, api_version=API_VERSION)
    assert names(found) == [(METADATA, "Apply")]


@given(
    entries=st.lists(
        st.sampled_from([*HEALTHY, INVENTED, entry(KCP, fields=LABELS), entry(METADATA, subresource="status")]), unique_by=str
    ),
    manager=st.sampled_from([KCP, METADATA]),
)
def test_what_was_put_right_needs_nothing_more_and_strangers_stay(entries: list[Entry], manager: str) -> None:
    found = corrected(entries, manager=manager, api_version=API_VERSION)
    if found is not None:
        assert corrected(found, manager=manager, api_version=API_VERSION) is None
        assert [each for each in entries if each in (CONTROLLER, USER)] == [each for each in found if each in (CONTROLLER, USER)]


def damage(world: World, plural: str, name: str, entries: list[Entry]) -> None:
    world.api.change(plural, name, {"metadata": {"managedFields": entries}})


async def maintenance(world: World) -> list[str]:
    world.log.clear()
    await maintain(world.clients, await world.look())
    return [line for line in world.log if line.startswith("patch") and "cp-" in line]


async def test_damaged_objects_are_put_right_before_the_first_apply_and_only_once(three: World) -> None:
    damage(three, "machines", "cp-1", [])
    damage(three, "kubeadmconfigs", "cp-2", [entry(KCP, fields=LABELS), CABPK])
    damage(three, "devmachines", "cp-3", [INVENTED])
    assert sorted(await maintenance(three)) == ["patch devmachines cp-3", "patch kubeadmconfigs cp-2", "patch machines cp-1"]
    assert three.log.index("patch machines cp-1") < three.log.index(f"apply machines cp-1 as {KCP}")
    owners = {name: names(three.api.raw(plural, name)["metadata"]["managedFields"]) for plural, name in DAMAGED}
    assert owners == {"cp-1": [(KCP, "Apply")], "cp-2": [(METADATA, "Apply")], "cp-3": [(METADATA, "Apply")]}
    assert await maintenance(three) == []


async def test_an_idle_control_plane_is_not_read_again(three: World) -> None:
    await maintenance(three)
    read: list[str] = []
    three.api.before["get"] = lambda: read.append("get")
    assert await maintenance(three) == []
    assert read == []


async def test_damage_that_came_later_is_put_right_before_the_next_change_is_applied(three: World) -> None:
    await maintenance(three)
    damage(three, "machines", "cp-1", [])
    assert await maintenance(three) == []
    three.api.change("kubeadmcontrolplanes", "demo", {"spec": {"machineTemplate": {"metadata": {"labels": {"team": "b"}}}}})
    assert await maintenance(three) == ["patch machines cp-1"]


async def test_managed_fields_are_not_written_over_a_change(three: World) -> None:
    damage(three, "machines", "cp-1", [])
    observation = await three.look()

    def user() -> None:
        three.api.change("machines", "cp-1", {"metadata": {"labels": {"by": "a user"}}})

    three.api.before["patch"] = user
    with pytest.raises(ExceptionGroup) as caught:
        await maintain(three.clients, observation)
    assert caught.group_contains(Conflict)
    assert three.api.raw("machines", "cp-1")["metadata"]["managedFields"] == []
