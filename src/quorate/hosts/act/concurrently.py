"""The same work on several hosts at once; a failure of one does not stop the others."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from quorate.hosts.act.failures import EXPECTED, StepFailed, failure_of, joined
from quorate.hosts.act.waiting import Report


async def on_all(hosts: Sequence[str], work: Callable[[str], Awaitable[None]], report: Report, *, limit: int = 0) -> None:
    """Do the work on every host, on at most `limit` of them at a time (0: all), and tell of each how it ended.

    Raises StepFailed when all have ended, naming every host that failed and why.
    """
    turns = asyncio.Semaphore(limit or len(hosts) or 1)
    failures: dict[str, StepFailed] = {}

    async def one(host: str) -> None:
        async with turns:
            try:
                await work(host)
            except StepFailed as failure:
                failures[host] = failure
            except EXPECTED as error:
                failures[host] = failure_of(host, error)
                failures[host].__cause__ = error
        report(host, f"failed: {failures[host].cause}" if host in failures else "done")

    async with asyncio.TaskGroup() as group:
        for host in hosts:
            group.create_task(one(host))
    if failures:
        raise joined({host: failures[host] for host in hosts if host in failures})
