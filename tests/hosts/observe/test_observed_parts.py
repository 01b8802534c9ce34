"""The pure parts of an observation: whose member is whose, who is silent since when, which cluster is meant, and what a host's files tell."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.core.health import Absent, Health, Unknown
from quorate.core.ring import Member, Ring
from quorate.hosts.connect.ssh.hosts import Unreachable
from quorate.hosts.observe.inspection import Inspection, Wanted, parse, script
from quorate.hosts.observe.membership import Claims, Membership, membership
from quorate.hosts.observe.memory import Unanswered
from quorate.hosts.observe.values import differ, duration
from quorate.hosts.render.host_files import HostFile
from quorate.workload.membership import RingReading
from tests.hosts.observe.world import stand
from tests.hosts.probe.machine import NOW
from tests.hosts.scripts import FakeHost

ADDRESSES = Claims({"cp-1": ("10.0.0.1",), "cp-2": ("10.0.0.2", "fd00::2")})


def member(number: int, name: str, address: str = "") -> Member:
    return Member(number, name, Health.GOOD, peer_urls=(f"https://{address}:2380",) if address else ())


SILENT = {name: Unreachable(name, "NoAnswer", "no answer", "") for name in ADDRESSES.control_planes}


def matched(*members: Member) -> Membership:
    """By a manifest alone, of hosts that tell nothing."""
    return membership(RingReading(Ring(members, leader=7), 77, (), {}, "", NOW), ADDRESSES, SILENT)


@pytest.mark.parametrize(
    ("found", "host"),
    [
        (member(7, "cp-1", "10.0.0.1"), "cp-1"),
        (member(7, "", "10.0.0.1"), "cp-1"),
        (member(7, "old-name", "10.0.0.1"), "cp-1"),
        (member(7, "cp-2", "[fd00::2]"), "cp-2"),
        (member(7, "cp-1"), "cp-1"),
        (member(7, "cp-1", "10.0.0.9"), None),
        (member(7, "cp-9", "10.0.0.9"), None),
        (member(7, ""), None),
    ],
)
def test_the_manifest_claims_a_member_by_its_address_and_by_name_only_without_one(found: Member, host: str | None) -> None:
    made = matched(found)
    assert made.orphans == (() if host else (found,))
    assert [name for name, each in made.by_host.items() if each == found] == ([host] if host else [])


def test_of_two_members_at_one_address_one_is_an_orphan() -> None:
    first, second = member(1, "cp-1", "10.0.0.1"), member(2, "cp-1", "10.0.0.1")
    assert matched(first, second).orphans == (second,)


@pytest.mark.parametrize("ring", [Absent(), Unknown("no majority")])
def test_without_a_ring_nobody_is_an_orphan_and_nothing_else_is_known(ring: Absent | Unknown) -> None:
    made = membership(ring, ADDRESSES, SILENT)
    assert (made.orphans, made.member("cp-1"), made.member("worker")) == ((), ring, Absent())


@pytest.mark.parametrize("health", [Health.GOOD, Health.BAD])
def test_a_host_that_cannot_be_asked_may_be_any_member_of_nobody(health: Health) -> None:
    nobodys = Member(7, "cp-1", health, peer_urls=("https://10.0.0.9:2380",))
    assert isinstance(matched(nobodys).member("cp-1"), Unknown)


@given(st.lists(st.tuples(st.integers(0, 12), st.booleans()), max_size=30))
def test_counted_probes_are_at_least_five_seconds_apart_and_since_the_last_answer(probes: list[tuple[int, bool]]) -> None:
    missed: Unanswered[str] = Unanswered()
    now, counted = NOW, list[datetime]()
    for seconds, silent in probes:
        now += timedelta(seconds=seconds)
        missed.note(["cp-1"], ["cp-1"] if silent else [], now)
        if not silent:
            counted = []
        elif not counted or now - counted[-1] >= timedelta(seconds=5):
            counted.append(now)
        found = missed.of("cp-1")
        assert (found and (found.count, found.last)) == ((len(counted), counted[-1]) if counted else None)


def test_of_whom_nobody_asks_any_more_nothing_is_kept() -> None:
    missed: Unanswered[int] = Unanswered()
    missed.note([1, 2], [1, 2], NOW)
    missed.note([2], [2], NOW + timedelta(seconds=5))
    assert missed.of(1) is None
    assert missed.of(2) is not None


def test_an_inspection_tells_what_differs_and_what_files_hold(tmp_path: Path) -> None:
    host = FakeHost(tmp_path / "root", tmp_path / "programs")
    right, wrong = HostFile("/etc/right", b"1\n", mode=0o644), HostFile("/etc/wrong", b"2\n")
    wanted = Wanted((right, wrong), ("/etc/read", "/etc/empty", "/etc/missing"))
    host.place(wrong)
    host.place(right)
    host.file("/etc/wrong", "3\n")
    host.file("/etc/read", "content PATH\n\xe9")
    host.file("/etc/empty")
    host.program("stat", f'case "$*" in *right*) echo root:root 644 ;; *) echo root:root 600 ;; esac # {tmp_path}')
    output = "".join(f"{line}\n" for line in host.changes(script(wanted))).replace(str(host.root), "")
    found = parse(output.encode(), wanted)
    assert found.differing == ("/etc/wrong",)
    assert found.contents == {"/etc/read": "content PATH\n\xe9".encode(), "/etc/empty": b"", "/etc/missing": Absent()}
    assert "content" not in repr(found)


@given(st.binary(max_size=200))
def test_whatever_a_host_answers_can_be_read(output: bytes) -> None:
    wanted = Wanted((HostFile("/etc/a", b""),), ("/etc/b",))
    found = parse(output, wanted)
    assert set(found.contents) == {"/etc/b"}
    assert isinstance(found.differing, tuple)
    assert isinstance(Inspection().content("/etc/b"), Unknown)


@pytest.mark.parametrize(
    ("first", "second", "different"),
    [
        ("1m", "60s", False),
        ("1h30m", "90m0s", False),
        ("1m", "1ms", True),
        (None, 0, False),
        (None, "0s", False),
        (False, None, False),
        (True, None, True),
        (["b", "a"], ["a", "b"], False),
        ({"a": 1, "b": None}, {"a": 1}, False),
        ({"a": 1}, {"a": 2}, True),
        ("5", 5, True),
        (None, {}, False),
    ],
)
def test_two_fields_differ_when_they_mean_different_things(first: Any, second: Any, different: bool) -> None:
    assert differ(first, second) is differ(second, first) is different


def test_a_text_that_is_no_duration_is_none() -> None:
    assert duration("1.34.4") is duration("m") is duration("") is None
    assert duration("1.5s") == timedelta(seconds=1.5)


WORKER = {"name": "pool-1", "replicas": 1, "providerSpec": {"cloudProviderSpec": {}, "operatingSystem": "ubuntu"}}
DEPLOYMENTS = "/apis/cluster.k8s.io/v1alpha1/namespaces/kube-system/machinedeployments"


@pytest.mark.parametrize(("version", "pending"), [("1.34.4", False), ("v1.34.4", False), ("1.33.1", True), (None, True)])
async def test_a_machine_deployment_must_exist_with_the_version(tmp_path: Path, version: str | None, pending: bool) -> None:
    world = stand(tmp_path, dynamicWorkers=[WORKER], machineController={"deploy": False}, operatingSystemManager={"deploy": False})
    items = [{"metadata": {"name": "pool-1"}, "spec": {"template": {"spec": {"versions": {"kubelet": version}}}}}] if version else []
    world.api_objects.objects[DEPLOYMENTS] = {"metadata": {"resourceVersion": "1"}, "items": items}
    assert (await world.cluster()).machine_deployments.pending is pending


async def test_a_cluster_that_does_not_serve_machine_deployments_is_told_so(tmp_path: Path) -> None:
    world = stand(tmp_path, dynamicWorkers=[WORKER], machineController={"deploy": False}, operatingSystemManager={"deploy": False})
    maintenance = (await world.cluster()).machine_deployments
    assert "does not serve machinedeployments.cluster.k8s.io" in maintenance.problem
    assert not maintenance.pending
