"""The work queue: which keys want attention, in what order, and how soon after a failure.

The rules are client-go's (util/workqueue) and controller-runtime's priority queue: a key waits at most once, is never handed to two workers at the same
time, and runs exactly once more when it was added while busy. Delays are on `loop.time()`, so a virtual clock drives the queue as well as a real one.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import math
from collections import deque
from collections.abc import Hashable
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import Generic, TypeVar

from prometheus_client import CollectorRegistry

from quorate.kubernetes.metrics import Metrics, QueueMetrics

K = TypeVar("K", bound=Hashable)

LOW_PRIORITY = -100  # controller-runtime's handler.LowPriority: objects of the first list, which nobody has just changed


class QueueShutDown(Exception):
    """The queue takes and hands out no more work."""


class Backoff:
    """Exponential delays with jitter: `base * 2**n` seconds for the n-th failure in a row, at most `cap`, shortened by up to `jitter` (a fraction)."""

    def __init__(self, base: float, cap: float, random: Random, *, jitter: float = 0.1) -> None:
        self._base, self._cap, self._random, self._jitter = base, cap, random, jitter

    def delay(self, failures: int) -> float:
        """Seconds to wait after `failures` earlier failures (0 for the first). Jitter shortens, so that the cap is never exceeded."""
        whole = min(self._cap, math.ldexp(self._base, min(failures, 64)))  # 2**64 times anything is over any cap, and overflows nothing
        return whole * (1 - self._jitter * self._random.random())


class TokenBucket:
    """An overall limit: `burst` at once, then `rate` a second. It never refuses: it tells how long to wait, or waits."""

    def __init__(self, rate: float, burst: int) -> None:
        self._rate, self._burst = rate, burst
        self._tokens, self._updated = float(burst), -math.inf
        self._turns = asyncio.Lock()

    def reserve(self, now: float) -> float:
        """Take one token and return the seconds until it is there."""
        self._fill(now)
        self._tokens -= 1
        return max(0.0, -self._tokens / self._rate)

    async def take(self) -> None:
        """Wait for one token, in order of asking, and take it. Who is cancelled meanwhile has taken none: it keeps nobody else waiting."""
        async with self._turns:
            self._fill(_now())
            if self._tokens < 1:
                await asyncio.sleep((1 - self._tokens) / self._rate)
            self.reserve(_now())

    def _fill(self, now: float) -> None:
        self._tokens = min(self._burst, self._tokens + (now - self._updated) * self._rate)
        self._updated = now


@dataclass(frozen=True, slots=True)
class _Delay:
    """When a key is due, in `loop.time()`: a handle of uvloop for less than a millisecond does not tell."""

    handle: asyncio.Handle
    when: float
    priority: int


class WorkQueue(Generic[K]):
    """Keys that want work. Not thread-safe: it belongs to one event loop.

    `base_delay` and `max_delay` (seconds) and `jitter` (a fraction) shape the per-key backoff of `add_rate_limited`, `rate` (a second) and `burst` the limit
    over all keys; the defaults are client-go's. Higher `priority` goes first, equal priority in order of arrival.
    """

    def __init__(
        self,
        name: str,
        random: Random,
        *,
        base_delay: float = 0.005,
        max_delay: float = 1000.0,
        jitter: float = 0.1,
        rate: float = 10.0,
        burst: int = 100,
        metrics: Metrics | None = None,
    ) -> None:
        self.name = name
        self._backoff = Backoff(base_delay, max_delay, random, jitter=jitter)
        self._bucket = TokenBucket(rate, burst)
        self._priorities: dict[K, int] = {}  # the dirty set: every key that must run, ready or busy
        self._added_at: dict[K, float] = {}
        self._heap: list[tuple[int, int, K]] = []  # (-priority, arrival, key); an entry is stale unless it is the one in _ready
        self._ready: dict[K, int] = {}  # key -> arrival number of its live heap entry
        self._busy: dict[K, float] = {}  # key -> loop.time() when a worker took it
        self._timers: dict[K, _Delay] = {}
        self._failures: dict[K, int] = {}
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._arrivals = itertools.count()
        self._stopped = False
        self._metrics: QueueMetrics = (metrics or Metrics(CollectorRegistry())).queue(
            name, depth=self.__len__, running_for=self.running_for
        )

    @property
    def stopped(self) -> bool:
        """Whether it was shut down."""
        return self._stopped

    def __len__(self) -> int:
        """How many keys are ready and wait for a worker; neither delayed nor busy ones count."""
        return len(self._ready)

    def add(self, key: K, *, priority: int = 0) -> None:
        """Have `key` handled soon. Idempotent until a worker takes it; a repeat can only raise its priority.

        A pending `add_after` of the same key stays: who asked to be woken at a time is woken then too.
        """
        if self._stopped:
            return
        known = self._priorities.get(key)
        if known is not None and priority <= known:
            return
        self._priorities[key] = priority
        if known is None:
            self._metrics.adds.inc()
            self._added_at[key] = _now()
        if key not in self._busy:
            self._make_ready(key, priority)

    def add_after(self, key: K, delay: float, *, priority: int = 0) -> None:
        """Have `key` handled in `delay` seconds; of several pending delays of one key the earliest wins."""
        if delay <= 0:
            self.add(key, priority=priority)
            return
        if self._stopped:
            return
        loop = asyncio.get_running_loop()
        when = loop.time() + delay
        if pending := self._timers.get(key):
            priority = max(priority, pending.priority)
            when = min(when, pending.when)
            pending.handle.cancel()
        self._timers[key] = _Delay(loop.call_at(when, self._due, key), when, priority)

    def add_rate_limited(self, key: K, *, priority: int = 0) -> float:
        """Have `key` handled after its backoff, which doubles with each call until `forget`; returns the delay in seconds."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        delay = max(self._backoff.delay(failures), self._bucket.reserve(_now()))
        self._metrics.retries.inc()
        self.add_after(key, delay, priority=priority)
        return delay

    def forget(self, key: K) -> None:
        """Start the backoff of `key` over. Delays that are pending already stay."""
        self._failures.pop(key, None)

    def failures(self, key: K) -> int:
        """How often `key` was added rate limited since it was last forgotten."""
        return self._failures.get(key, 0)

    async def get(self) -> K:
        """The next key, which then is busy until `done`. Raises QueueShutDown, even while keys are ready, once the queue is shut down."""
        while not self._ready and not self._stopped:
            await self._wait()
        if self._stopped:
            raise QueueShutDown(self.name)
        return self._pop()

    def done(self, key: K) -> None:
        """A worker is through with `key`. Whatever was added meanwhile becomes ready now, once."""
        self._metrics.work_duration.observe(_now() - self._busy.pop(key))
        if not self._stopped and (priority := self._priorities.get(key)) is not None:
            self._make_ready(key, priority)

    def shut_down(self) -> None:
        """Take no more keys, hand none out, drop all delays. Idempotent; busy keys are still to be reported by `done`."""
        self._stopped = True
        for delay in self._timers.values():
            delay.handle.cancel()
        self._timers.clear()
        self._ready.clear()
        self._heap.clear()
        while self._waiters:
            self._wake_one()

    def running_for(self) -> list[float]:
        """For how many seconds each busy key has been with its worker."""
        now = _now()
        return [now - since for since in self._busy.values()]

    def _due(self, key: K) -> None:
        self.add(key, priority=self._timers.pop(key).priority)

    def _make_ready(self, key: K, priority: int) -> None:
        arrival = self._ready[key] = next(self._arrivals)
        heapq.heappush(self._heap, (-priority, arrival, key))
        self._wake_one()

    def _pop(self) -> K:
        _, arrival, key = heapq.heappop(self._heap)
        while self._ready.get(key) != arrival:  # superseded by an entry of higher priority
            _, arrival, key = heapq.heappop(self._heap)
        del self._ready[key], self._priorities[key]
        self._busy[key] = now = _now()
        self._metrics.queue_duration.observe(now - self._added_at.pop(key))
        return key

    async def _wait(self) -> None:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            with suppress(ValueError):  # it may have been taken out already, to be woken
                self._waiters.remove(waiter)
            if not waiter.cancelled():
                self._wake_one()  # it was chosen for a key and then cancelled: somebody else must take the key
            raise

    def _wake_one(self) -> None:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return


def _now() -> float:
    return asyncio.get_running_loop().time()
