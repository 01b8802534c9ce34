"""`quorate certificates status`, of hosts that the real probe has looked at."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from quorate.cli.hosts.certificates import as_text, expiries
from tests.hosts.observe.world import stand
from tests.hosts.probe.machine import NOW


@pytest.mark.parametrize("ahead", [timedelta(), timedelta(days=400), timedelta(days=-400)], ids=["right", "ahead", "behind"])
async def test_what_is_left_is_counted_by_the_clock_of_the_host(tmp_path: Path, ahead: timedelta) -> None:
    """Whatever the operator's shows."""
    seen = await stand(tmp_path).observe(NOW + ahead)
    kubelets = [line for line in as_text(expiries(seen.facts), seen.cluster, NOW + ahead).splitlines() if " kubelet " in line]
    assert [line.split()[-2:] for line in kubelets] == [["365", "days"]] * 3


async def test_what_is_over_is_said_to_be(tmp_path: Path) -> None:
    world = stand(tmp_path)
    later = NOW + timedelta(days=366)
    world.machines["cp-2"].folder.program("date", f"echo {int(later.timestamp())}")
    seen = await world.observe(NOW)
    kubelets = [line.split()[-1] for line in as_text(expiries(seen.facts), seen.cluster, NOW).splitlines() if " kubelet " in line]
    assert kubelets == ["days", "expired", "days"]
