"""`quorate manager` against upstream's provider in the same run, on real kubeadm nodes: each on a management cluster of its own, in turns.

A creation is timed several times, since one differs from the next by half a minute: kubeadm takes as long as the machine lets it, and with upstream's provider
Cluster API's programs look for a new API server once in 35 seconds.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import pytest

from tests.e2e import docker_backend
from tests.e2e.client import Report, WritingClient
from tests.e2e.conftest import Measured, several
from tests.e2e.fleet import Fleet, begun
from tests.e2e.machines import Machines
from tests.e2e.nodes.engine import Engine

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(5400)]

CREATE_AT_MOST, UPGRADE_AT_MOST = 1.0, 0.9
"""Of the time that upstream's provider takes. Most of a creation is kubeadm's, the backend's and Cluster API's own, as the README says with its numbers."""
ROUNDS = 3
"""Lifecycles of three machines with each provider; those of the last round are upgraded."""
PROVIDERS = ("upstream", "quorate")


@dataclass
class Times:
    """The seconds that a provider took for three machines, and what clients noticed of their upgrade."""

    created: list[float] = field(default_factory=list)
    upgraded: float = 0.0
    report: Report | None = None


async def test_three_machines_are_created_and_upgraded_as_fast_as_by_upstreams_provider(
    tmp_path_factory: pytest.TempPathFactory, measured: Measured
) -> None:
    times = {name: Times() for name in PROVIDERS}
    with docker_backend.network(Engine()) as machines:
        for number in range(ROUNDS):
            for name in PROVIDERS:
                await lifecycle(name, machines, tmp_path_factory.mktemp(name), times[name], upgrades=number == ROUNDS - 1)
    for name, took in times.items():
        measured(f"machines, {name}: create 3 in {several(took.created)}, upgrade in {took.upgraded:.0f} s; {took.report}")
    upstream, quorate = (times[name] for name in PROVIDERS)
    assert quorate.report is not None
    assert quorate.report.lost == quorate.report.vanished == 0, quorate.report.failures
    assert quorate.upgraded <= UPGRADE_AT_MOST * upstream.upgraded
    assert median(quorate.created) <= CREATE_AT_MOST * median(upstream.created)


async def lifecycle(name: str, machines: Machines, folder: Path, times: Times, *, upgrades: bool) -> None:
    """Three machines are created, perhaps upgraded while a client writes, and deleted."""
    async with begun(name, machines, folder) as fleet:
        await provided(fleet, name)
        began = time.monotonic()
        await fleet.create()
        times.created.append(time.monotonic() - began)
        if upgrades:
            with WritingClient(await fleet.kubeconfig()) as client:
                began = time.monotonic()
                await fleet.upgrade()
                times.upgraded = time.monotonic() - began
            times.report = client.report
        await fleet.end()


async def provided(fleet: Fleet, name: str) -> None:
    """Start the provider of this name."""
    if name == "upstream":
        await fleet.stage.start_upstream()
    else:
        fleet.stage.start_manager("--etcd-dialer=port-forward", everywhere=True)
