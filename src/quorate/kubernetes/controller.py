"""The controller: workers that take keys from a queue and reconcile them, one key at a time each, never one key twice at once.

A reconcile that takes long waits for somebody, such as for a server that does not answer, and costs next to nothing: it leaves its worker to others. Otherwise
the rules are controller-runtime's (pkg/internal/controller): an error is retried with backoff, a terminal error is counted and not retried, a wish to be
called again later starts the backoff over, and a shutdown lets running reconciles end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from random import Random
from typing import Protocol

import structlog
from prometheus_client import CollectorRegistry

from quorate.kubernetes.metrics import Metrics
from quorate.kubernetes.queue import QueueShutDown, WorkQueue
from quorate.kubernetes.tasks import EndedEarly, cancelled_by_request_alone, run_unless

reconcile_id: ContextVar[str] = ContextVar("reconcile_id", default="")  # of the reconcile that runs in this task; "" outside one

SLOT_TIMEOUT = 5.0
"""Seconds after which a reconcile takes long: those that find nobody silent take a fraction of one."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, order=True)
class Request:
    """The object to reconcile, by name: what has become of it is for the reconcile to find out."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


@dataclass(frozen=True, slots=True)
class Result:
    """How a reconcile ended well. `requeue_after` is in how many seconds it wants to be called again at the latest; None: not before something changes."""

    requeue_after: float | None = None


class TerminalError(Exception):
    """A failure that no retry fixes: the object must change first. Counted, logged, not retried."""


class Cache(Protocol):
    """Something that must have filled its store before work starts: a Reflector."""

    @property
    def synced(self) -> asyncio.Event:
        """Set once the first list is in the store."""


Reconcile = Callable[[Request], Awaitable[Result]]


class Controller:
    """Runs `reconcile` for every key of `queue`.

    `concurrency` is the number of workers. A reconcile that takes longer than `slot_timeout` (seconds) goes on beside them, and the next ones of its key begin
    beside them until one takes less; there is room for as many as there are workers: who finds none waits for it, or keeps the worker. `timeout` (seconds) is
    what one reconcile may take before it is cancelled and counts as failed. `caches` must all be synced before the first reconcile. `pending` tells whether
    the caches are still behind this process's own writes to that object (see Expectations); such a key is dropped here, and whoever said so adds it again
    once they have caught up.
    """

    def __init__(
        self,
        name: str,
        reconcile: Reconcile,
        queue: WorkQueue[Request],
        random: Random,
        *,
        concurrency: int = 100,
        timeout: float = 180.0,
        slot_timeout: float = SLOT_TIMEOUT,
        caches: Sequence[Cache] = (),
        pending: Callable[[Request], bool] = lambda _: False,
        metrics: Metrics | None = None,
    ) -> None:
        self.name = name
        self.queue = queue
        self._reconcile = reconcile
        self._random = random
        self._concurrency = concurrency
        self._timeout = timeout
        self._caches = tuple(caches)
        self._pending = pending
        self._slot_timeout = slot_timeout
        self._workers: list[asyncio.Task[None]] = []
        self._running: set[asyncio.Task[None]] = set()  # a task for each key that was taken from the queue
        self._cancelled = 0  # of them, before it was time to stop
        self._ended = asyncio.Event()  # a worker, or a reconcile, as nobody asked it to
        self._long: set[Request] = set()  # whose last reconcile took long
        self._beside = asyncio.Semaphore(concurrency)
        self._metrics = (metrics or Metrics(CollectorRegistry())).controller(name, concurrency)

    async def run(self, stopping: asyncio.Event, *, grace: float = 30.0) -> None:
        """Reconcile until `stopping` is set, then start nothing new, give running reconciles `grace` seconds to end, and cancel the rest.

        Cancelling this coroutine cancels every reconcile at once. Not to be run twice: the queue is shut down at the end. Raises EndedEarly where a worker ends
        before it should.
        """
        if not await run_unless(stopping, self._caches_synced()):
            return
        async with asyncio.TaskGroup() as group:
            self._workers = [group.create_task(self._work(group), name=f"{self.name}-{number}") for number in range(self._concurrency)]
            for worker in self._workers:
                worker.add_done_callback(lambda _: self._ended.set())
            if await run_unless(stopping, self._ended.wait()):
                raise EndedEarly(f"controller {self.name}: {self.problem()}")
            self.queue.shut_down()
            _, late = await asyncio.wait((*self._workers, *self._running), timeout=grace)
            for task in late:
                task.cancel()

    def problem(self) -> str:
        """Which of its workers have ended, in words, for a liveness probe; "" where all work."""
        ended = sum(worker.done() for worker in self._workers) + self._cancelled
        return f"{ended} of {len(self._workers)} workers have ended" if ended else ""

    async def _caches_synced(self) -> None:
        for cache in self._caches:
            await cache.synced.wait()

    async def _work(self, group: asyncio.TaskGroup) -> None:
        while True:
            try:
                request = await self.queue.get()
            except QueueShutDown:
                return
            if request in self._long:
                self._begin(group, request, beside=True)
                continue
            running = self._begin(group, request)
            await asyncio.wait((running,), timeout=self._slot_timeout)
            if not running.done() and self._has_room():
                await self._beside.acquire()
                running.add_done_callback(lambda _: self._beside.release())
            else:
                await asyncio.wait((running,))

    def _has_room(self) -> bool:
        """Whether one more reconcile may go on beside the workers."""
        return not self._beside.locked()

    def _begin(self, group: asyncio.TaskGroup, request: Request, *, beside: bool = False) -> asyncio.Task[None]:
        task = group.create_task(self._taken(request, self._beside if beside else nullcontext()))
        self._running.add(task)
        task.add_done_callback(self._over)
        return task

    def _over(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        if task.cancelled() and not self.queue.stopped:
            self._cancelled += 1
            self._ended.set()

    async def _taken(self, request: Request, room: AbstractAsyncContextManager[None]) -> None:
        """Handle a key that was taken from the queue, as soon as there is room for it."""
        try:
            async with room:
                if not self.queue.stopped:
                    await self._handle(request)
        finally:
            self.queue.done(request)

    async def _handle(self, request: Request) -> None:
        if self._pending(request):
            self._metrics.stale_cache_skips.inc()
            return
        token = reconcile_id.set(f"{self._random.getrandbits(64):016x}")
        started = asyncio.get_running_loop().time()
        self._metrics.active_workers.inc()
        try:
            with structlog.contextvars.bound_contextvars(
                controller=self.name, namespace=request.namespace, name=request.name, reconcileID=reconcile_id.get()
            ):
                await self._attempt(request)
        finally:
            self._metrics.active_workers.dec()
            took = asyncio.get_running_loop().time() - started
            self._metrics.seconds.observe(took)
            (self._long.add if took > self._slot_timeout else self._long.discard)(request)
            reconcile_id.reset(token)

    async def _attempt(self, request: Request) -> None:
        try:
            with cancelled_by_request_alone():
                async with asyncio.timeout(self._timeout):
                    result = await self._reconcile(request)
        except Exception as error:  # noqa: BLE001 - whatever a reconcile raises is its own: one object's trouble must not stop the others
            self._failed(request, error)
        else:
            self._succeeded(request, result)

    def _failed(self, request: Request, error: Exception) -> None:
        self._metrics.error.inc()
        self._metrics.errors.inc()
        if is_terminal(error):
            self._metrics.terminal_errors.inc()
            _log.error("reconcile failed, and is not retried until the object changes", exc_info=error)
            return
        delay = self.queue.add_rate_limited(request)
        _log.error("reconcile failed", retry_in_seconds=round(delay, 3), exc_info=error)

    def _succeeded(self, request: Request, result: Result) -> None:
        self.queue.forget(request)
        if result.requeue_after is None:
            self._metrics.success.inc()
            return
        self._metrics.requeue_after.inc()
        self.queue.add_after(request, result.requeue_after)


def is_terminal(error: BaseException) -> bool:
    """Whether `error` is a TerminalError, or a group of nothing else."""
    if isinstance(error, BaseExceptionGroup):
        return all(is_terminal(inner) for inner in error.exceptions)
    return isinstance(error, TerminalError)
