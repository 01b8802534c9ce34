"""One change-over at a time: a Lease of its own, held for the length of a run, and asked about before each write."""

from __future__ import annotations

import asyncio
import getpass
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from random import SystemRandom

from quorate.clusterapi.takeover.journal import NAME
from quorate.kubernetes.client import Client, connect
from quorate.kubernetes.config import RestConfig
from quorate.kubernetes.leader import LeaderElector, LeadershipLost, boot_time
from quorate.kubernetes.resource import LEASES
from quorate.kubernetes.tasks import sole

DURATION, DEADLINE, RETRY = 15.0, 10.0, 2.0  # seconds, as leader election has them
PATIENCE = 20.0
"""Seconds to wait for a Lease that is held: whoever was killed leaves it for DURATION."""


class AlreadyRunning(Exception):
    """Another run has the Lease. The message names who."""


@asynccontextmanager
async def held(config: RestConfig, namespace: str, *, now: Callable[[], datetime]) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """Hold the Lease for the length of the block, which gets what is to be awaited before each write: it raises LeadershipLost once the Lease may be
    another's. Raises AlreadyRunning where somebody else holds it, and LeadershipLost out of the block when it is lost.
    """
    client = connect(config)
    random = SystemRandom()
    elector = LeaderElector(
        client,
        namespace=namespace,
        name=NAME,
        identity=f"{getpass.getuser()}@{socket.gethostname()}_{os.getpid()}_{random.getrandbits(32):08x}",
        now=now,
        clock=boot_time,
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
        await client.close()


async def _acquire(elector: LeaderElector, client: Client, namespace: str) -> None:
    try:
        async with asyncio.timeout(PATIENCE):
            await elector.acquire()
    except TimeoutError:
        holder = (await client.get(LEASES, NAME, namespace)).spec.holder_identity or "nobody, and it cannot be written"
        raise AlreadyRunning(f"another run has the Lease {namespace}/{NAME}: {holder}; wait for its end") from None
