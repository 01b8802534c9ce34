"""One change-over at a time: a Lease of its own, held for the length of a run, and asked about before each write."""

from __future__ import annotations

import asyncio
import getpass
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from random import Random

from quorate.clusterapi.takeover.journal import NAME
from quorate.kubernetes.client import Client
from quorate.kubernetes.leader import LeaderElector, LeadershipLost
from quorate.kubernetes.resource import LEASES
from quorate.kubernetes.tasks import sole

DURATION, DEADLINE, RETRY = 30.0, 20.0, 4.0  # seconds, as leader election has them
WAIT = 40.0
"""Seconds to wait for a Lease that is held: whoever was killed leaves it for DURATION."""


class AlreadyRunning(Exception):
    """Another run has the Lease. The message names who."""


@asynccontextmanager
async def held(
    client: Client, namespace: str, *, now: Callable[[], datetime], clock: Callable[[], float], random: Random
) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """Hold the Lease for the length of the block, which gets what is to be awaited before each write: it raises LeadershipLost once the Lease may be
    another's. Raises AlreadyRunning where somebody else holds it, and LeadershipLost out of the block when it is lost.

    `client` renews the Lease and does nothing else, so that it never waits behind other requests. `clock` is as for a LeaderElector.
    """
    elector = LeaderElector(
        client,
        namespace=namespace,
        name=NAME,
        identity=f"{getpass.getuser()}@{socket.gethostname()}_{os.getpid()}_{random.getrandbits(32):08x}",
        now=now,
        clock=clock,
        random=random,
        lease_duration=DURATION,
        renew_deadline=DEADLINE,
        retry_period=RETRY,
    )

    async def permit() -> None:
        if not elector.leading:
            raise LeadershipLost(f"this run has lost its Lease {namespace}/{NAME}: run the same command again")

    try:
        await _acquire(elector, client, namespace)
        async with asyncio.TaskGroup() as tasks:
            renewing = tasks.create_task(elector.hold())
            try:
                yield permit
            finally:
                renewing.cancel()
    except BaseExceptionGroup as errors:
        raise sole(errors) from None
    finally:
        await asyncio.shield(elector.release())


async def _acquire(elector: LeaderElector, client: Client, namespace: str) -> None:
    try:
        async with asyncio.timeout(WAIT):
            await elector.acquire()
    except TimeoutError:
        holder = (await client.get(LEASES, NAME, namespace)).spec.holder_identity or "nobody, and it cannot be written"
        raise AlreadyRunning(f"another run has the Lease {namespace}/{NAME}: {holder}; wait for its end") from None
