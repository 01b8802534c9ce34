"""Small explorations of existing hosts: those of which `make explore` does more. And what they find where a rule is wrong on purpose."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from quorate.core.health import Absent, Unknown
from quorate.hosts.act import rings
from quorate.hosts.connect.ssh.hosts import Unreachable
from quorate.hosts.observe.membership import Claims, Membership
from quorate.hosts.observe.ring import address_of
from quorate.hosts.probe.facts import HostFacts
from quorate.simulation.hosts import observer
from quorate.workload.membership import RingReading
from tests.explore.hosts.model import Hosts
from tests.explore.search import Limits, explore


@pytest.mark.parametrize(
    ("model", "faults"),
    [(Hosts("three bare hosts", size=3, bare=True), 0), (Hosts("one host that is well", size=1), 1)],
    ids=lambda value: getattr(value, "name", ""),
)
def test_no_history_breaks_a_promise_and_whoever_waits_says_why(model: Hosts, faults: int) -> None:
    found = explore(model, Limits(faults), seconds=600.0)
    assert (found.violations, found.unfinished) == ({}, "")
    assert all(found.waits)


def _by_address_alone(reading: RingReading | Unknown | Absent, claims: Claims, _facts: Mapping[str, HostFacts | Unreachable]) -> Membership:
    """Whose member is whose as the manifest would have it."""
    if not isinstance(reading, RingReading):
        return Membership(dict.fromkeys(claims.control_planes, reading))
    at = {address_of(member): member for member in reading.ring.members}
    members = {
        host: next((at[address] for address in addresses if address in at), Absent()) for host, addresses in claims.control_planes.items()
    }
    return Membership(members, tuple(member for member in reading.ring.members if member not in members.values()))


def test_a_member_that_is_known_by_the_manifest_alone_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (observer, rings):
        monkeypatch.setattr(module, "membership", _by_address_alone)
    found = explore(Hosts("two hosts that are well", size=2), Limits(1), seconds=600.0)
    assert any("the manifest gives" in example.history[1] for example in found.violations.values()), found.violations
