"""The ways out of the process: one connection for each cluster, and errors that arrive as themselves."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from quorate.clusterapi import inspection
from quorate.clusterapi.inspection import NotAnswering, inspecting
from quorate.clusterapi.workloads import EtcdDialer, Workloads, network_setup
from quorate.kubernetes.config import RestConfig

if TYPE_CHECKING:
    from tests.clusterapi.hands.conftest import World


def running() -> int:
    return sum(task.get_name() == "workload default/demo" for task in asyncio.all_tasks())


async def test_a_connection_that_is_forgotten_and_asked_for_again_is_kept_once(empty: World) -> None:
    api: Any = empty.api
    clock = asyncio.get_running_loop().time
    setup = network_setup(EtcdDialer.IN_MEMORY, now=lambda: datetime(2026, 1, 1, tzinfo=UTC), random=Random(1), clock=clock)
    workloads = Workloads(empty.caches, api, setup)
    first = workloads.of("default", "demo", "", lambda: None)
    workloads.forget("default", "demo")
    second = workloads.of("default", "demo", "", lambda: None)
    assert first is not second
    assert workloads.existing("default", "demo") is second
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(workloads.run())
        for _ in range(5):
            await asyncio.sleep(0)
        assert running() == 1
        workloads.forget("default", "demo")
        workloads.forget("default", "demo")
        for _ in range(5):
            await asyncio.sleep(0)
        assert running() == 0
        task.cancel()
    with pytest.raises(KeyError):
        workloads.existing("default", "demo")


async def test_an_api_that_does_not_answer_is_told_as_such_and_not_as_a_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspection, "SYNC_TIMEOUT", 0.05)
    with pytest.raises(NotAnswering, match=r"did not answer within 0\.05 s"):
        async with inspecting(RestConfig(server="http://127.0.0.1:1"), etcd_dialer=EtcdDialer.IN_MEMORY):
            pass
