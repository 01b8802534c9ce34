"""How members of no host leave: two of one name are two, and one whom a single question failed does not leave before its replacement is there."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from quorate.core.hosts.decide import decide
from quorate.core.hosts.forecast import forecast
from quorate.core.hosts.rules.departures import AS_MANY_AS_SAID
from quorate.core.hosts.steps import RemoveMember
from quorate.etcd.client import MemberList
from quorate.etcd.errors import DeadlineExceeded
from tests.hosts.observe.world import FakeClient, World, bare, stand, three
from tests.hosts.probe.machine import NOW


def with_namesakes(folder: Path) -> World:
    """Two voters of no host that are well and have one name: etcd asks for no other, and kubeadm refuses the second Node only once its member votes."""
    world = stand(folder)
    world.etcd_ring.add(8, "old", "10.0.0.8")
    world.etcd_ring.add(9, "old", "10.0.0.9")
    return world


async def test_of_two_members_of_one_name_each_is_asked_and_none_counts_as_silent(tmp_path: Path) -> None:
    world = with_namesakes(tmp_path)
    cluster = await world.cluster()
    assert {address for address, _ in world.asked_elsewhere} == {"10.0.0.8", "10.0.0.9"}
    assert [orphan.missed_probes for orphan in cluster.orphans] == [None, None]


async def test_two_hosts_of_one_name_that_are_in_no_manifest_are_two(tmp_path: Path) -> None:
    world = with_namesakes(tmp_path)
    for probe in range(3):
        now = NOW + timedelta(seconds=6 * probe)
        cluster = await world.cluster(now)
    (refused,) = {check.evidence for check in decide(cluster, now).refusals if check.name == AS_MANY_AS_SAID}
    assert "old (8), old (9)" in refused
    assert not [each.step for each in forecast(cluster, now).steps if isinstance(each.step, RemoveMember)]


async def test_one_question_that_a_well_member_did_not_answer_in_time_lets_it_not_leave_before_its_replacement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = stand(tmp_path)
    places = {"cp-1": "10.0.0.1", "cp-2": "10.0.0.2", "cp-4": "10.0.0.4"}
    hosts = [{"hostname": name, "publicAddress": f"192.0.2.{name[-1]}", "privateAddress": address} for name, address in places.items()]
    world.manifest = three(controlPlane={"hosts": hosts})
    world.machines["cp-4"] = world.machines.pop("cp-3")
    bare(world, "cp-4")
    listing = FakeClient.members

    async def members(self: FakeClient) -> MemberList:
        if self.asked is not None and self.asked.member.id == 3:
            raise DeadlineExceeded("cp-3", "did not list the members within 10 s")
        return await listing(self)

    assert [type(each.step).__name__ for each in forecast(await world.cluster(), NOW).steps][-3:] == ["Join", "RemoveMember", "DeleteNode"]
    monkeypatch.setattr(FakeClient, "members", members)
    assert RemoveMember not in [type(each.step) for each in forecast(await world.cluster(), NOW).steps], "it answers and follows the leader"
