"""`quorate apply` against the same install and upgrade by hand, in the same run, on the same kind of hosts."""

from __future__ import annotations

import time

import pytest

from tests.e2e.client import WritingClient
from tests.e2e.conftest import Measured
from tests.e2e.nodes.programs import VERSIONS
from tests.e2e.plain import ByHand
from tests.e2e.site import Site

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(3600)]

INSTALL_AT_MOST = 1.15
UPGRADE_AT_MOST = 1.0
"""Of the time that it takes by hand."""
NAMES = ("cp1", "cp2", "cp3")


def test_install_and_upgrade_take_no_longer_than_by_hand(site: Site, tmp_path_factory: pytest.TempPathFactory, measured: Measured) -> None:
    hosts = site.machines.add(*NAMES)
    site.machines.balance(hosts)
    by_hand = ByHand(site.machines, hosts)
    began = time.monotonic()
    by_hand.install(VERSIONS[0])
    hand_install = time.monotonic() - began
    with WritingClient(by_hand.kubeconfig(tmp_path_factory.mktemp("by-hand") / "kubeconfig")) as client:
        began = time.monotonic()
        by_hand.upgrade(VERSIONS[1])
        hand_upgrade = time.monotonic() - began
    measured(f"by hand: install of 3 in {hand_install:.0f} s, upgrade in {hand_upgrade:.0f} s; {client.report}")
    for host in hosts:
        site.machines.remove(host)

    hosts = site.machines.add(*NAMES)
    site.describe(hosts)
    install = site.apply().succeeded().seconds
    site.describe(hosts, version=VERSIONS[1])
    with site.writing() as client:
        upgrade = site.apply().succeeded().seconds
    measured(f"quorate apply: install of 3 in {install:.0f} s, upgrade in {upgrade:.0f} s; {client.report}")
    assert install <= INSTALL_AT_MOST * hand_install
    assert upgrade <= UPGRADE_AT_MOST * hand_upgrade
    assert client.report.lost == 0, client.report.failures
