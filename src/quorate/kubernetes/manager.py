"""The manager: one process with its caches, its controllers, its servers and its turn as the leader, in one TaskGroup.

The order is controller-runtime's: servers and caches first, so that a candidate that waits is warm and takes over at once; then the election; then work.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol

import structlog

from quorate.kubernetes.controller import Controller
from quorate.kubernetes.leader import LeaderElector, LeadershipLost
from quorate.kubernetes.reflector import Reflector
from quorate.kubernetes.tasks import EndedEarly, lasting, run_unless, sole

_log = structlog.get_logger(__name__)


class Runnable(Protocol):
    """Something that runs as long as the manager does: a server, an event recorder, a cache of connections."""

    async def run(self) -> None:
        """Run until cancelled. An exception ends the process."""


class CachesNotSynced(Exception):
    """Some caches could not be filled in time; the message says which, and what the API server answered last."""


class Manager:
    """Runs `runnables` and `reflectors`, then, once it leads (where there is an `elector`), `controllers`.

    `sync_timeout` is how many seconds the reflectors may take for their first list. `grace` is how many seconds running reconciles get at the end.
    `after_sync` is called once, when the caches are filled.
    """

    def __init__(
        self,
        *,
        reflectors: Sequence[Reflector[Any]],
        controllers: Sequence[Controller],
        runnables: Sequence[Runnable] = (),
        elector: LeaderElector | None = None,
        sync_timeout: float = 300.0,
        grace: float = 30.0,
        after_sync: Callable[[], None] = lambda: None,
    ) -> None:
        self._reflectors = tuple(reflectors)
        self._controllers = tuple(controllers)
        self._runnables = tuple(runnables)
        self._elector = elector
        self._sync_timeout = sync_timeout
        self._grace = grace
        self._after_sync = after_sync

    async def run(self, stopping: asyncio.Event) -> None:
        """Run until `stopping` is set; then stop intake, let running reconciles end, give up the Lease, stop the rest and return.

        Raises CachesNotSynced, LeadershipLost (everything has been cancelled at once), EndedEarly, or whatever a part of it failed with.
        """
        try:
            async with asyncio.TaskGroup() as group:
                background = [group.create_task(lasting(_name(part), part.run())) for part in (*self._runnables, *self._reflectors)]
                if await run_unless(stopping, self._sync()):
                    self._after_sync()
                    await self._lead(stopping)
                for task in background:
                    task.cancel()
        except BaseExceptionGroup as errors:
            raise sole(errors) from None

    async def _sync(self) -> None:
        try:
            async with asyncio.timeout(self._sync_timeout):
                for reflector in self._reflectors:
                    await reflector.synced.wait()
        except TimeoutError:
            late = [reflector for reflector in self._reflectors if not reflector.synced.is_set()]
            reasons = "; ".join(f"{reflector.resource.plural}: {reflector.last_error or 'no answer'}" for reflector in late)
            raise CachesNotSynced(f"caches not filled within {self._sync_timeout:.0f} s: {reasons}") from None

    async def _lead(self, stopping: asyncio.Event) -> None:
        if self._elector is None:
            await self._control(stopping)
        elif await run_unless(stopping, self._elector.acquire()):
            async with asyncio.TaskGroup() as group:
                holding = group.create_task(self._elector.hold())
                await self._control(stopping)
                holding.cancel()
            await self._elector.release()

    async def _control(self, stopping: asyncio.Event) -> None:
        async with asyncio.TaskGroup() as group:
            for controller in self._controllers:
                group.create_task(controller.run(stopping, grace=self._grace))
            await stopping.wait()


def _name(part: Runnable | Reflector[Any]) -> str:
    return f"the cache of {part.resource.plural}" if isinstance(part, Reflector) else type(part).__name__


async def run_until_signal(run: Callable[[asyncio.Event], Coroutine[Any, Any, None]]) -> int:
    """Call `run` (a manager's) with an event that SIGTERM and SIGINT set, and return the exit status of the process: 0, or 1 with the reason logged."""
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    try:
        await run(stopping)
    except (CachesNotSynced, EndedEarly, LeadershipLost) as error:
        _log.error("the manager stops", reason=str(error))
        return 1
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
    return 0
