"""The gates that are asked again right before the step: restart, removal, addition; and the orders of removal that KubeOne only recommends."""

from __future__ import annotations

import pytest

from quorate.core import quorum
from quorate.core.checks import Outcome
from quorate.core.health import Absent, Unknown
from quorate.core.hosts import gates
from quorate.core.ring import Ring

from .conftest import Build

# The member that is restarted comes first.
RESTARTS = {
    "of three good": ("ggg", True),
    "of three, another bad": ("ggb", False),
    "of three, another unknown": ("ggu", False),
    "of three, the bad one itself": ("bgg", True),
    "of five, one other bad": ("ggggb", True),
    "of five, two others bad": ("gggbb", False),
    "of three beside a learner": ("gggG", True),
    "of two good: exempt": ("gg", True),
    "of two, the other bad": ("gb", False),
    "of two, itself bad": ("bg", False),
    "of one good: exempt": ("g", True),
    "of one with an alarm": ("a", False),
    "of one beside a learner": ("gG", False),
    "of two beside one that never started": ("gg-", False),
}


@pytest.mark.parametrize(("letters", "allowed"), RESTARTS.values(), ids=RESTARTS.keys())
def test_restart(build: Build, letters: str, allowed: bool) -> None:
    assert gates.restart(build.ring(letters), 1).passed is allowed


@pytest.mark.parametrize(("letters", "exempt"), [("g", True), ("gg", True), ("ggg", False)])
def test_a_ring_that_is_too_small_is_an_exemption_with_a_name_of_its_own(build: Build, letters: str, exempt: bool) -> None:
    assert gates.restart(build.ring(letters), 1).name == (gates.TOO_SMALL if exempt else quorum.QUORUM_SURVIVES_RESTART)


def test_a_restart_of_nobodys_member_is_refused(build: Build) -> None:
    assert "9 is not in the ring" in gates.restart(build.ring("ggg"), 9).evidence


@pytest.mark.parametrize("ring", [Unknown("dial timeout"), Absent(), Ring((), None)], ids=["unread", "absent", "empty"])
def test_without_a_ring_every_gate_is_unknown(ring: Ring | Unknown | Absent) -> None:
    checks = (gates.restart(ring, 1), gates.removal(ring, 1), gates.addition(ring))
    assert {check.outcome for check in checks} == {Outcome.UNKNOWN}


# kubeone.md, removal order: E its etcd is bad, A only its API server is. There it is advice for all of them at once, from a tolerance that counts healthy
# members; here one goes at a time, and the gate is asked of the ring that is left.
ORDERS = {
    "3 hosts, 1 E: that one": ("ggE", "E"),
    "3 hosts, 1 A: that one, and then the ring is of two": ("ggA", "A"),
    "3 hosts, 1 E and 1 A: E first, then A": ("gEA", "EA"),
    "5 hosts, 2 A: both": ("gggAA", "AA"),
    "5 hosts, 2 E: both": ("gggEE", "EE"),
    "5 hosts, 1 E and 1 A: E first, then A": ("gggEA", "EA"),
    "2 hosts, 1 A: it may go as a planned removal": ("gA", "A"),
    "2 hosts, 1 E: nobody, for etcd cannot commit it": ("gE", ""),
    "4 hosts, 1 A": ("gggA", "A"),
    "7 hosts, 1 E and 2 A: all, one by one": ("ggggEAA", "EAA"),
}


@pytest.mark.parametrize(("hosts", "order"), ORDERS.values(), ids=ORDERS.keys())
def test_removal_one_by_one(build: Build, hosts: str, order: str) -> None:
    ring = build.ring(hosts.replace("E", "b").replace("A", "g"))
    left = [number for number, letter in enumerate(hosts, 1) if letter in "EA"]
    gone = ""
    while permitted := [number for number in sorted(left, key=lambda n: hosts[n - 1] != "E") if gates.removal(ring, number).passed]:
        left.remove(permitted[0])
        gone += hosts[permitted[0] - 1]
        ring = Ring(tuple(member for member in ring.members if member.id != permitted[0]), None)
    assert gone == order


@pytest.mark.parametrize(("hosts", "first"), [("gEA", "E"), ("gggEA", "EA"), ("ggggEAA", "EA")])
def test_whoever_is_dead_costs_a_vote_until_it_has_gone(build: Build, hosts: str, first: str) -> None:
    ring = build.ring(hosts.replace("E", "b").replace("A", "g"))
    assert {letter for number, letter in enumerate(hosts, 1) if letter in "EA" and gates.removal(ring, number).passed} == set(first)
