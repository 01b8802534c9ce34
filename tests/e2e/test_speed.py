"""`quorate apply` against the same install and upgrade by hand, in the same run, on the same kind of hosts.

An install is timed several times in turns, since one differs from the next by a third: kubelets and controllers look for each other in steps of seconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import pytest

from tests.e2e.client import WritingClient
from tests.e2e.conftest import Measured, several
from tests.e2e.machines import Machine
from tests.e2e.nodes.programs import VERSIONS
from tests.e2e.plain import ByHand
from tests.e2e.site import Site

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(5400)]

INSTALL_AT_MOST = 1.15
UPGRADE_AT_MOST = 1.0
"""Of the time that it takes by hand."""
ROUNDS = 3
"""Installs each way; the last is upgraded."""
NAMES = ("cp1", "cp2", "cp3")


def test_install_and_upgrade_take_no_longer_than_by_hand(site: Site, tmp_path: Path, measured: Measured) -> None:
    by_hand: list[float] = []
    applied: list[float] = []
    for number in range(ROUNDS):
        upgraded = number == ROUNDS - 1
        with fresh(site) as hosts:
            hands = ByHand(site.machines, hosts)
            by_hand.append(timed(hands.install, VERSIONS[0]))
            if upgraded:
                with WritingClient(hands.kubeconfig(tmp_path / "by-hand.kubeconfig")) as hand_client:
                    hand_upgrade = timed(hands.upgrade, VERSIONS[1])
        with fresh(site) as hosts:
            site.describe(hosts)
            applied.append(site.apply().succeeded().seconds)
            if upgraded:
                site.describe(hosts, version=VERSIONS[1])
                with site.writing() as client:
                    upgrade = site.apply().succeeded().seconds
    measured(f"by hand: install of 3 in {several(by_hand)}, upgrade in {hand_upgrade:.0f} s; {hand_client.report}")
    measured(f"quorate apply: install of 3 in {several(applied)}, upgrade in {upgrade:.0f} s; {client.report}")
    assert client.report.lost == 0, client.report.failures
    assert upgrade <= UPGRADE_AT_MOST * hand_upgrade
    assert median(applied) <= INSTALL_AT_MOST * median(by_hand)


@contextmanager
def fresh(site: Site) -> Iterator[Sequence[Machine]]:
    """Three bare hosts behind the load balancer, which end with the block."""
    hosts = site.machines.add(*NAMES)
    site.machines.balance(hosts)
    try:
        yield hosts
    finally:
        for host in hosts:
            site.machines.remove(host)


def timed(bring_to: Callable[[str], None], version: str) -> float:
    """The seconds that it takes to bring hosts to a version."""
    began = time.monotonic()
    bring_to(version)
    return time.monotonic() - began
