"""One change-over at a time: who comes second is told who is first, waits for one that was killed, and nobody writes without the Lease."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from random import Random
from typing import Any

import pytest

from quorate.clusterapi.takeover.journal import NAME
from quorate.clusterapi.takeover.lock import DEADLINE, DURATION, AlreadyRunning, held
from quorate.kubernetes.client import Client
from quorate.kubernetes.config import RestConfig
from quorate.kubernetes.leader import LeadershipLost
from quorate.simulation.engine.apiserver import ApiServer
from quorate.simulation.engine.link import Link
from quorate.simulation.engine.transport import SimulatedTransport
from quorate.simulation.engine.world import EPOCH
from tests.clusterapi.takeover.manifests import SYSTEM
from tests.clusterapi.takeover.stage import LEASES


@pytest.fixture
def server() -> ApiServer:
    return ApiServer([LEASES], lambda: EPOCH, Random(1))


def run(server: ApiServer, link: Link, seed: int) -> AbstractAsyncContextManager[Any]:
    client = Client(RestConfig("https://management.test"), SimulatedTransport(server, link, "run", timeout=5.0))
    clock = asyncio.get_running_loop().time
    return held(client, SYSTEM, now=lambda: EPOCH + timedelta(seconds=clock()), clock=clock, random=Random(seed))


async def test_who_comes_second_is_told_who_is_first(server: ApiServer) -> None:
    async with run(server, Link("first", Random(1)), 1):
        holder = server.get(LEASES, SYSTEM, NAME).obj["spec"]["holderIdentity"]
        with pytest.raises(AlreadyRunning, match=holder):
            async with run(server, Link("second", Random(2)), 2):
                pytest.fail("two at once")
    async with run(server, Link("third", Random(3)), 3) as permit:
        await permit()


async def test_one_that_was_killed_is_waited_for(server: ApiServer) -> None:
    lease = {"holderIdentity": "killed", "leaseDurationSeconds": round(DURATION)}
    server.create(LEASES, {"metadata": {"name": NAME, "namespace": SYSTEM}, "spec": lease}, who="killed")
    begun = asyncio.get_running_loop().time()
    async with run(server, Link("next", Random(1)), 1) as permit:
        await permit()
        assert asyncio.get_running_loop().time() - begun >= DURATION


async def test_nothing_is_written_once_the_lease_may_be_anothers(server: ApiServer) -> None:
    link, written = Link("first", Random(1)), list[str]()

    async def writes() -> None:
        async with run(server, link, 1) as permit:
            link.cut = True
            await asyncio.sleep(DEADLINE - 1.0)
            await permit()
            written.append("in time")
            await asyncio.sleep(1.5)
            await permit()
            written.append("too late")

    with pytest.raises(LeadershipLost):
        await writes()
    assert written == ["in time"]
