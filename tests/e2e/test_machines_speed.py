"""`quorate manager` against upstream's provider in the same run, on real kubeadm nodes: each on a management cluster of its own, one after the other."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e import docker_backend
from tests.e2e.client import Report, WritingClient
from tests.e2e.conftest import Measured
from tests.e2e.fleet import Fleet, begun
from tests.e2e.machines import Machines
from tests.e2e.nodes.engine import Engine

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(3600)]

CREATE_AT_MOST = 0.9
UPGRADE_AT_MOST = 0.8
"""Of the time that upstream's provider takes."""


@dataclass(frozen=True, slots=True)
class Life:
    """The seconds that a provider took for three machines, and what a client noticed of their upgrade."""

    create: float
    upgrade: float
    report: Report


async def test_three_machines_are_created_and_upgraded_faster_than_by_upstreams_provider(
    tmp_path_factory: pytest.TempPathFactory, measured: Measured
) -> None:
    with docker_backend.network(Engine()) as machines:
        lives = {name: await life(name, machines, tmp_path_factory.mktemp(name)) for name in ("upstream", "quorate")}
    for name, lived in lives.items():
        measured(f"machines, {name}: create 3 in {lived.create:.0f} s, upgrade in {lived.upgrade:.0f} s; {lived.report}")
    upstream, quorate = lives["upstream"], lives["quorate"]
    assert quorate.report.lost == quorate.report.vanished == 0, quorate.report.failures
    assert quorate.create <= CREATE_AT_MOST * upstream.create
    assert quorate.upgrade <= UPGRADE_AT_MOST * upstream.upgrade


async def life(name: str, machines: Machines, folder: Path) -> Life:
    """Three machines are created, upgraded while a client writes, and deleted."""
    async with begun(name, machines, folder) as fleet:
        await provided(fleet, name)
        began = time.monotonic()
        await fleet.create()
        created = time.monotonic()
        with WritingClient(await fleet.kubeconfig()) as client:
            upgrading = time.monotonic()
            await fleet.upgrade()
            upgraded = time.monotonic()
        await fleet.end()
        return Life(created - began, upgraded - upgrading, client.report)


async def provided(fleet: Fleet, name: str) -> None:
    """Start the provider of this name."""
    if name == "upstream":
        await fleet.stage.start_upstream()
    else:
        fleet.stage.start_manager("--etcd-dialer=port-forward", everywhere=True)
